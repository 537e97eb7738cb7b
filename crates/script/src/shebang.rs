//! The first line of a script or library, `#!engine name=value ...`, and the flags in it.
//!
//! Invariant: what is not understood is refused, so that a flag is never silently without effect.

/// What a script or function promises, and what it asks to be allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `no-writes`
    pub no_writes: bool,
    /// `allow-oom`
    pub allow_oom: bool,
    /// `allow-stale`
    pub allow_stale: bool,
    /// `no-cluster`
    pub no_cluster: bool,
    /// `allow-cross-slot-keys`
    pub allow_cross_slot_keys: bool,
    /// There was no shebang: all is allowed that scripts could do before there were flags.
    pub is_compatible: bool,
}

impl Flags {
    /// Sets a flag by its name; `false` if there is none of that name.
    pub(crate) fn set(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return false,
        }
        true
    }

    /// The names of the flags that are set, in the order in which FUNCTION LIST shows them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
        ];
        all.into_iter().filter_map(|(is_set, name)| is_set.then_some(name))
    }
}

/// The words of a shebang, and the text behind it, which begins with the line's end.
pub(crate) struct Shebang<'a> {
    /// With the mark before it.
    pub(crate) engine: &'a [u8],
    pub(crate) settings: Vec<&'a [u8]>,
    pub(crate) body: &'a [u8],
}

/// Takes the first line apart, if it is a shebang that ends.
pub(crate) fn split(source: &[u8]) -> Option<Shebang<'_>> {
    let end = source.iter().position(|byte| *byte == b'\n')?;
    let (line, body) = source.split_at(end);
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    Some(Shebang { engine, settings: words.collect(), body })
}
