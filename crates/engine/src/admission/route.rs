//! The gate of a cluster: whether the keys of a request are served here.
//!
//! Invariant: the slot of a request is that of all its keys, found the way the lock plan finds
//! them; whether keys of an open slot are here is looked up under their locks.

use std::sync::atomic::Ordering;

use commands::declare::Group;
use commands::{Flags, Role};
use keyspace::{PartitionIndex, Refusal, Tx};
use proto::Args;

use crate::clients::registry::client_flags;
use crate::lane::Lane;
use crate::limits::routing::{CROSSSLOT, RouteQuery, RouteTable};
use crate::session::Session;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// A command at the gate.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) server: &'static Shared,
    pub(crate) session: &'a Session,
    pub(crate) entry: &'a CommandEntry,
    pub(crate) args: Args<'a>,
    /// What the command does, or those that EXEC runs.
    pub(crate) flags: Flags,
}

impl RoutedRequest<'_> {
    /// Why the request does not run on this node.
    #[cold]
    pub(super) fn refuse(self, routes: &RouteTable) -> Option<Refusal> {
        let slot = match self.slot() {
            Ok(slot) => slot?,
            Err(refusal) => return Some(refusal),
        };
        routes.refuse(self.query(slot))
    }

    fn query(self, slot: PartitionIndex) -> RouteQuery {
        let Self { session, entry, flags, .. } = self;
        let client = &session.client;
        RouteQuery {
            slot,
            writes: flags.has(Flags::WRITE),
            is_channel: entry.spec.group == Group::PubSub,
            asks: session.is_asking() || entry.spec.flags.has(Flags::ASKING),
            reads_here: client.has_flag(client_flags::READONLY),
            migrates: entry.spec.role == Role::Migrate,
            is_encrypted: client.live.tls_minor.load(Ordering::Relaxed) > 0,
        }
    }

    /// The slot of all keys, if there are any.
    fn slot(self) -> Result<Option<PartitionIndex>, Refusal> {
        let keyspace = self.server.keyspace;
        let (mut slot, mut differ) = (None, false);
        self.each_key(|key| {
            let its = keyspace.locate(key).partition();
            differ |= *slot.get_or_insert(its) != its;
        });
        if differ { Err(CROSSSLOT) } else { Ok(slot) }
    }

    /// All keys, of EXEC those of its commands. A request whose key counts lie has none: its
    /// handler refuses it in its own words.
    fn each_key(self, mut visit: impl FnMut(&[u8])) {
        let mut each = |entry: &CommandEntry, args: Args<'_>| {
            for spec in entry.spec.keys {
                let _ = spec.visit(args, |index| visit(&args[index]));
            }
        };
        match &self.session.multi {
            Some(multi) if self.entry.spec.role == Role::Exec => {
                multi.each_queued(|queued| each(queued.entry, queued.args));
            }
            _ => each(self.entry, self.args),
        }
    }

    /// The keys that are to be looked for under their locks: those of a slot on the move.
    #[cold]
    pub(crate) fn open_keys(self, routes: &RouteTable) -> Option<OpenKeys> {
        if routes.open.is_empty() {
            return None;
        }
        let slot = self.slot().ok()??;
        routes.open.get(&slot)?;
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        self.each_key(|key| keys.push(key.into()));
        keys.sort_unstable();
        keys.dedup();
        Some(OpenKeys { query: self.query(slot), keys })
    }
}

/// Keys of a slot on the move.
pub(crate) struct OpenKeys {
    query: RouteQuery,
    keys: Vec<Box<[u8]>>,
}

impl OpenKeys {
    /// Why a request does not run that has their locks.
    #[cold]
    pub(crate) fn refuse(&self, lane: &Lane, tx: &Tx) -> Option<Refusal> {
        let is_here = |key: &[u8]| tx.exists(key).is_ok_and(|exists| exists);
        let here = self.keys.iter().filter(|key| is_here(key)).count();
        lane.routes().refuse_open(self.query, here, self.keys.len() - here)
    }
}

/// Why a client does not go on waiting for a key: the key's slot is served elsewhere now.
pub fn refuse_waiting(
    server: &'static Shared,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Option<Refusal> {
    if !server.gates.routing.is_on() {
        return None;
    }
    let request = RoutedRequest { server, session, entry, args, flags: entry.spec.flags };
    request.refuse(&server.gates.routing.table())
}

/// Why a command of a script does not run: its keys are another node's.
#[cold]
pub(crate) fn refuse_called(
    server: &Shared,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Result<(), Refusal> {
    let (routes, mut is_elsewhere) = (server.gates.routing.table(), false);
    for spec in entry.spec.keys {
        let _ = spec.visit(args, |index| {
            let slot = server.keyspace.locate(&args[index]).partition();
            // The gates have let a client pass that asks for a slot on its way here.
            is_elsewhere |= !routes.is_served(slot) && !routes.open.contains_key(&slot);
        });
    }
    if is_elsewhere { Err(NOT_LOCAL) } else { Ok(()) }
}

const NOT_LOCAL: Refusal =
    Refusal::error("ERR Script attempted to access a non local key in a cluster node");
