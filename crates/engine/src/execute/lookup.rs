//! What is found out about a request before its turn: its command, and where its keys belong.
//!
//! Invariant: a lookup depends on the request alone, so it may be asked long before the request
//! runs.

use keyspace::{Keyspace, Location, Refusal};
use proto::Args;

use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// What was found out about a request before its turn.
#[derive(Clone, Copy)]
pub struct Resolved {
    /// The command that the name leads to.
    pub entry: &'static CommandEntry,
    /// Where its one key belongs, if it has just one: its entry's `only_key`.
    pub location: Option<Location>,
}

/// A request's command and keys, as far as they were located before its turn: for what is fetched
/// from memory ahead, and then for its locks and its handler.
#[derive(Default)]
pub struct Located {
    /// Its command, and its key if it has just one.
    resolved: Option<Resolved>,
    /// Where its keys belong if they are several, in the order in which its command's declaration
    /// names them; not the last ones where they are many.
    several: Vec<Location>,
}

impl Located {
    /// Nothing is known of a request.
    #[inline]
    pub fn clear(&mut self) {
        self.resolved = None;
        self.several.clear();
    }

    /// The command was found, and its key if it has just one.
    #[inline]
    pub fn set_resolved(&mut self, resolved: Resolved) {
        self.resolved = Some(resolved);
    }

    /// The command, and its key if it has just one, if that was found.
    #[inline]
    pub fn resolved(&self) -> Option<Resolved> {
        self.resolved
    }

    /// Locates so many of the keys of a request that has several; where they belong.
    pub fn locate_several(
        &mut self,
        keyspace: &Keyspace,
        entry: &CommandEntry,
        args: Args<'_>,
        most: usize,
    ) -> &[Location] {
        let visited = entry.spec.visit_keys(args, |index| {
            if self.several.len() < most {
                self.several.push(keyspace.locate(&args[index]));
            }
        });
        if visited.is_err() {
            // A request with wrong key counts is refused when it is its turn.
            self.several.clear();
        }
        &self.several
    }

    /// Where the first of its keys belong, as far as that is known.
    #[inline]
    pub(crate) fn locations(&self) -> &[Location] {
        match &self.resolved {
            Some(Resolved { location: Some(only), .. }) => std::slice::from_ref(only),
            _ => &self.several,
        }
    }

    /// Where its keys belong if they are several, as far as that is known.
    #[inline]
    pub(crate) fn several(&self) -> &[Location] {
        &self.several
    }
}

/// What a look at the table said of a request, with the words that this was found out by.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    name: &'a [u8],
    /// Its one key, if it has just one.
    key: Option<&'a [u8]>,
    /// What the table says of the request.
    pub resolved: Resolved,
}

impl Resolved {
    /// Looks a request's command up, and its key if it has just one.
    #[inline]
    pub fn of(server: &'static Shared, args: Args<'_>) -> Result<Self, Refusal> {
        Lookup::behind(None, server, args).map(|lookup| lookup.resolved)
    }

    /// As `of`, for a record of a log: its words may be those of before a command was renamed.
    pub fn of_record(server: &'static Shared, args: Args<'_>) -> Option<Self> {
        let declared = || {
            let entry = server.table.resolve_declared(args)?;
            let location = entry.only_key(args).map(|key| server.keyspace.locate(key));
            Some(Self { entry, location })
        };
        Self::of(server, args).ok().or_else(declared)
    }
}

impl<'a> Lookup<'a> {
    /// Looks a request up that may come behind another: many are about the same, and what was found
    /// out of the one is true of the other.
    #[inline]
    pub fn behind(
        before: Option<Self>,
        server: &'static Shared,
        args: Args<'a>,
    ) -> Result<Self, Refusal> {
        let name = args.get(0).unwrap_or_default();
        let same = before.filter(|it| it.resolved.entry.is_meant_by(name) && it.name == name);
        let entry = match same {
            Some(same) => same.resolved.entry,
            None => server.table.resolve(args)?,
        };
        let key = entry.only_key(args);
        let location = match same {
            Some(same) if same.key == key => same.resolved.location,
            _ => key.map(|key| server.keyspace.locate(key)),
        };
        Ok(Self { name, key, resolved: Resolved { entry, location } })
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Location;
    use proto::OwnedArgs;

    use super::Located;
    use crate::testing;

    #[test]
    fn several_keys_are_located_in_the_order_in_which_they_are_locked() {
        let engine = testing::engine();
        for (request, keys) in [
            ("MGET c a b", "c a b"),
            ("MSET b 1 a 2 c 3", "b a c"),
            ("ZUNIONSTORE d 2 b a WEIGHTS 1 2", "d b a"),
            ("SORT b STORE a", "b a"),
            ("EVAL s 2 b a x", "b a"),
            ("WATCH b a", "b a"),
            ("ZUNIONSTORE d 9 b a", ""),
        ] {
            let args: OwnedArgs = request.split(' ').map(str::as_bytes).collect();
            let entry = engine.table.find(&args.as_args()[0]).expect("it is a command");
            let locate = |key: &str| engine.keyspace.locate(key.as_bytes());
            let keys: Vec<Location> = keys.split_whitespace().map(locate).collect();
            for most in [8, 2, 0] {
                let mut located = Located::default();
                let found = located.locate_several(engine.keyspace, entry, args.as_args(), most);
                assert_eq!(found, &keys[..most.min(keys.len())], "{request}: at most {most}");
                assert_eq!(located.several(), &keys[..most.min(keys.len())]);
                located.clear();
                assert!(located.several().is_empty() && located.resolved().is_none());
            }
        }
    }
}
