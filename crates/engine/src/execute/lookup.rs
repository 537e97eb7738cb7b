//! What is found out about a request before its turn: its command, and where its key belongs.
//!
//! Invariant: it depends on the request alone, so it may be asked long before the request runs.

use keyspace::{Location, Refusal};
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
