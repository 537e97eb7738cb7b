//! What is found out about a request before its turn: its command, and where its key belongs.
//!
//! Invariant: it depends on the request alone, so it may be asked long before the request runs.

use keyspace::{Location, Refusal};
use proto::Args;

use crate::server::Server;
use crate::table::Entry;

/// What was found out about a request before its turn.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) entry: &'static Entry,
    /// Where its one key belongs, if it has just one: its entry's `only_key`.
    pub(crate) location: Option<Location>,
}

impl Known {
    /// As `of`, for a request that comes behind another: many are about the same, and what is
    /// known of the one is true of the other.
    #[inline]
    pub(crate) fn of_next(
        server: &'static Server,
        args: Args<'_>,
        before: Option<(Args<'_>, Self)>,
    ) -> Result<Self, Refusal> {
        let Some((others, known)) = before else { return Self::of(server, args) };
        let is_same = others[0] == args[0] && known.entry.is_meant_by(&args[0]);
        if !is_same {
            return Self::of(server, args);
        }
        let (entry, location) = (known.entry, known.location);
        if location.is_some() && entry.only_key(others) == entry.only_key(args) {
            return Ok(known);
        }
        Ok(Self::of_entry(server, entry, args))
    }

    /// Looks a request's command up, and its key if it has just one.
    #[inline]
    pub(crate) fn of(server: &'static Server, args: Args<'_>) -> Result<Self, Refusal> {
        Ok(Self::of_entry(server, server.table.resolve(args)?, args))
    }

    #[inline]
    fn of_entry(server: &Server, entry: &'static Entry, args: Args<'_>) -> Self {
        let location = entry.only_key(args).map(|key| server.keyspace.locate(key));
        Self { entry, location }
    }
}
