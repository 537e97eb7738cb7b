//! Names of fields that a session says once, for many hashes that have them all (HIMPORT).
//!
//! Invariant: what a session's fieldsets take is known and has a limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::Refusal;
use proto::{Args, OwnedArgs};

const UNKNOWN: Refusal = Refusal::error("ERR no such fieldset");
const MISMATCH: Refusal = Refusal::error("ERR value count does not match fieldset field count");
const TOO_LARGE: Refusal = Refusal::error("ERR fieldsets of this connection take too much memory");

/// What the fieldsets of a session may take, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// What a fieldset takes, about.
fn size(name: &[u8], fields: Args<'_>) -> usize {
    const OF_ITSELF: usize = 128;
    OF_ITSELF + name.len() + fields.total_bytes() + fields.len() * size_of::<u64>()
}

/// What a session has prepared; few have anything.
#[derive(Clone, Default)]
pub struct Fieldsets(Option<Arc<Prepared>>);

#[derive(Clone, Default)]
struct Prepared {
    by_name: BTreeMap<Box<[u8]>, Arc<OwnedArgs>>,
    memory: usize,
}

impl Fieldsets {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// What they take, in bytes, about.
    pub(crate) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |prepared| prepared.memory)
    }

    /// Forgets all of them; how many.
    pub(crate) fn clear(&mut self) -> usize {
        self.0.take().map_or(0, |prepared| prepared.by_name.len())
    }

    /// Keeps a fieldset, in the place of one of its name.
    pub fn insert(&mut self, name: &[u8], fields: Args<'_>) -> Result<(), Refusal> {
        let prepared = Arc::make_mut(self.0.get_or_insert_default());
        let memory = size(name, fields);
        let old = prepared.by_name.get(name).map_or(0, |old| size(name, old.as_args()));
        if prepared.memory - old + memory > MEMORY_MAX {
            return Err(TOO_LARGE);
        }
        prepared.memory = prepared.memory - old + memory;
        prepared.by_name.insert(name.into(), Arc::new(OwnedArgs::from(fields)));
        Ok(())
    }

    /// Forgets a fieldset; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(prepared) = self.0.as_mut().map(Arc::make_mut) else { return false };
        let Some(old) = prepared.by_name.remove(name) else { return false };
        prepared.memory -= size(name, old.as_args());
        true
    }

    /// The fields of a request of HIMPORT SET, which has a value for each.
    pub(crate) fn fields_of(&self, args: Args<'_>) -> Result<Arc<OwnedArgs>, Refusal> {
        let prepared = self.0.as_ref().ok_or(UNKNOWN)?;
        let fields = prepared.by_name.get(&args[3]).ok_or(UNKNOWN)?;
        if fields.as_args().len() != args.skip(4).len() {
            return Err(MISMATCH);
        }
        Ok(Arc::clone(fields))
    }
}

/// Whether to put the fields before the values of a request is more than a worker should do for one
/// client.
pub(crate) fn is_long(fields: &OwnedArgs, args: Args<'_>) -> bool {
    /// So much is copied within a worker's time.
    const BYTES: usize = 64 << 10;
    /// So many words are.
    const WORDS: usize = 1000;
    let fields = fields.as_args();
    fields.len() > WORDS || fields.total_bytes() + args.total_bytes() > BYTES
}

/// The words of a request of HIMPORT SET with each value's field before it.
pub(crate) fn with_fields(fields: &OwnedArgs, args: Args<'_>) -> OwnedArgs {
    let pairs = fields.as_args().iter().zip(args.skip(4).iter());
    let pairs = pairs.flat_map(|(field, value)| [field, value]);
    args.slice(0..4).iter().chain(pairs).collect()
}
