//! The gate of a cluster: whether the keys of a request are served here.
//!
//! Invariant: the slot of a request is that of all its keys, found the way the lock plan finds
//! them, and located with them; whether keys of an open slot are here is looked up under their
//! locks.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use acl::Context;
use base::hash_slot::hash_slot;
use commands::declare::Group;
use commands::{Flags, Role};
use keyspace::{Location, PartitionIndex, PartitionSet, Refusal, Tx};
use proto::Args;
use smallvec::SmallVec;

use crate::admission::script_flags;
use crate::clients::registry::client_flags;
use crate::limits::slot_map::{SlotAccess, SlotMap, SlotQuery};
use crate::session::{MultiQueue, PROXY_LIBRARY, Request, Session};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// A command at the gate.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) server: &'static Shared,
    pub(crate) session: &'a Session,
    pub(crate) entry: &'a CommandEntry,
    pub(crate) args: Args<'a>,
    /// Where the first of its keys belong, as far as they were located before.
    pub(crate) locations: &'a [Location],
    /// What the command does, or those that EXEC runs.
    pub(crate) flags: Flags,
}

/// What a client has said that opens slots to it.
#[inline]
pub(crate) fn slot_access(session: &Session) -> SlotAccess {
    let is_readonly = session.client.has_flag(client_flags::READONLY);
    SlotAccess { is_asking: session.is_asking(), is_readonly }
}

impl RoutedRequest<'_> {
    /// Why the request does not run on this node.
    #[cold]
    fn refuse(self, routes: &SlotMap) -> Option<Refusal> {
        let slots = self.slots();
        match slots.as_slice() {
            [] => None,
            [slot] => routes.refuse(self.query(*slot)),
            [first, ..] => routes.refuse_several(self.query(*first), &slots),
        }
    }

    /// Why the request does not run on this node, or the node that it is sent on to instead of
    /// being refused, where clients are served that know no cluster.
    #[cold]
    pub(super) fn route(self, routes: &SlotMap) -> Result<Option<Box<str>>, Refusal> {
        let Some(refusal) = self.refuse(routes) else { return Ok(None) };
        if !routes.proxies {
            return Err(refusal);
        }
        let is_lost = || self.session.multi.as_ref().is_some_and(|multi| multi.is_lost());
        if self.entry.spec.role == Role::Exec && is_lost() {
            // EXEC itself says why nothing runs.
            return Ok(None);
        }
        if !self.may_be_sent_on() {
            return Err(refusal);
        }
        let slots = self.slots();
        let slot = slots.first().copied();
        let node = slot.and_then(|slot| routes.destination(slot, &refusal));
        node.map_or(Err(refusal), |node| Ok(Some(node)))
    }

    /// Whether another node may run it for its client. What comes by the link of another node is
    /// sent on no further, and copies of what another node reads cannot be tracked.
    fn may_be_sent_on(self) -> bool {
        let Self { session, entry, .. } = self;
        if session.tracked().is_some() || *session.client.names().library == *PROXY_LIBRARY {
            return false;
        }
        match &session.multi {
            Some(multi) if entry.spec.role == Role::Exec => {
                multi.queue_for_elsewhere().is_some_and(|queue| self.may_send_on_queue(queue))
            }
            _ => entry.runs_elsewhere() && !self.may_exceed_rights(entry),
        }
    }

    /// Whether a command may do what its words do not say, for a client that may not do everything:
    /// at another node what a script calls is asked of the link's user.
    fn may_exceed_rights(self, entry: &CommandEntry) -> bool {
        script_flags::may_declare(entry.spec.role) && !self.session.may_do_everything()
    }

    /// Whether the client may still do what it has queued.
    fn may_send_on_queue(self, queue: &MultiQueue) -> bool {
        let Some(subject) = self.session.acl_subject(self.server) else { return true };
        queue.iter_from(0).all(|queued| {
            let (entry, args) = (queued.entry, queued.args);
            let request = Request { entry, args, database: self.session.database };
            !self.may_exceed_rights(entry)
                && subject.denial(self.server, Context::Multi, request).is_none()
                && subject.refuse_pattern(request).is_none()
        })
    }

    /// Counts a request that a cluster would refuse for the slots of its keys.
    #[cold]
    pub(super) fn note_several_slots(self) {
        let mut seen = SeenSlots::default();
        self.each_key(|key, _| seen.add(hash_slot(key)));
        if seen.are_several {
            self.server.keyspace.compatibility().note();
        }
    }

    fn query(self, slot: PartitionIndex) -> SlotQuery {
        let Self { session, entry, flags, .. } = self;
        let (client, access) = (&session.client, slot_access(session));
        SlotQuery {
            slot,
            writes: flags.has(Flags::WRITE),
            is_channel: entry.spec.group == Group::PubSub,
            is_asking: access.is_asking || entry.spec.flags.has(Flags::ASKING),
            is_importing: session.imports_slot(slot),
            is_readonly: access.is_readonly,
            is_migrate: entry.spec.role == Role::Migrate,
            is_encrypted: client.live.tls_minor.load(Ordering::Relaxed) > 0,
            is_ipv6: client.peer.is_ipv6(),
        }
    }

    /// The slots of all keys, each once, the first key's first.
    fn slots(self) -> SmallVec<[PartitionIndex; 2]> {
        let mut slots = SmallVec::<[PartitionIndex; 2]>::new();
        self.each_key(|_, its| {
            if slots.last() != Some(&its) {
                slots.push(its);
            }
        });
        if let [first, rest @ ..] = slots.as_mut_slice()
            && !rest.is_empty()
        {
            let first = *first;
            slots.sort_unstable();
            slots.dedup();
            let place = slots.iter().position(|slot| *slot == first).unwrap_or(0);
            slots.swap(0, place);
        }
        slots
    }

    /// All keys, each with its slot, of EXEC those of its commands. A request whose key counts lie
    /// has none: its handler refuses it in its own words.
    fn each_key(self, mut visit: impl FnMut(&[u8], PartitionIndex)) {
        let keyspace = self.server.keyspace;
        let mut each = |entry: &CommandEntry, args: Args<'_>, locations: &[Location]| {
            let mut locations = locations.iter();
            for spec in entry.spec.keys {
                let _ = spec.visit(args, |index| {
                    let location = keyspace.locate_unless_known(&args[index], locations.next());
                    visit(&args[index], location.partition());
                });
            }
        };
        match &self.session.multi {
            Some(multi) if self.entry.spec.role == Role::Exec => {
                multi.each_queued(|queued| {
                    each(queued.entry, queued.args, queued.location.as_slice());
                });
            }
            _ => each(self.entry, self.args, self.locations),
        }
    }

    /// The keys that are to be looked for under their locks: those of a slot on the move.
    #[cold]
    pub(crate) fn open_keys(self, routes: &SlotMap) -> Option<OpenSlotKeys> {
        if routes.open.is_empty() {
            return None;
        }
        let slots = self.slots();
        let open = *slots.iter().find(|slot| routes.open.contains_key(slot))?;
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        self.each_key(|key, slot| {
            if routes.open.contains_key(&slot) {
                keys.push(key.into());
            }
        });
        keys.sort_unstable();
        keys.dedup();
        Some(OpenSlotKeys { query: self.query(open), keys, are_of_several: slots.len() > 1 })
    }
}

/// Keys of a slot on the move.
pub(crate) struct OpenSlotKeys {
    query: SlotQuery,
    keys: Vec<Box<[u8]>>,
    /// Whether they come with keys of other slots.
    are_of_several: bool,
}

impl OpenSlotKeys {
    /// The node that a request is sent on to instead of being refused so.
    #[cold]
    pub(crate) fn destination(
        &self,
        request: RoutedRequest<'_>,
        routes: &SlotMap,
        refusal: &Refusal,
    ) -> Option<Box<str>> {
        let may = || request.may_be_sent_on();
        routes.destination(self.query.slot, refusal).filter(|_| may())
    }

    /// Why a request does not run that has their locks.
    #[cold]
    pub(crate) fn refuse(&self, routes: &SlotMap, tx: &Tx) -> Option<Refusal> {
        let is_here = |key: &[u8]| tx.exists(key).is_ok_and(|exists| exists);
        let here = self.keys.iter().filter(|key| is_here(key)).count();
        let missing = self.keys.len() - here;
        if self.are_of_several {
            return routes.refuse_open_several(self.query, missing);
        }
        routes.refuse_open(self.query, here, missing)
    }
}

/// Why a client does not go on waiting for a key: the key's slot is served elsewhere now. Where its
/// keys belong is found out again.
pub fn refuse_waiting(
    server: &'static Shared,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Option<Refusal> {
    if !server.gates.routing.is_on() {
        return None;
    }
    let (locations, flags) = (&[][..], entry.spec.flags);
    let request = RoutedRequest { server, session, entry, args, locations, flags };
    request.refuse(&server.gates.routing.table())
}

/// Whether a client that is refused so is served by the node that it would be sent to, through this
/// one.
pub fn leads_to_other_node(server: &Shared, refusal: &Refusal) -> bool {
    let is_moved = refusal.line().is_some_and(|line| line.starts_with(b"MOVED "));
    is_moved && server.gates.routing.table().proxies
}

/// Whether a request that is refused so may be sent on instead.
pub(crate) fn may_send_on(server: &Shared, refusal: &Refusal) -> bool {
    let line = refusal.line().unwrap_or_default();
    let is_redirection = line.starts_with(b"MOVED ") || line.starts_with(b"ASK ");
    is_redirection && server.gates.routing.table().proxies
}

/// Whether slots are several.
#[derive(Default)]
struct SeenSlots {
    first: Option<u16>,
    are_several: bool,
}

impl SeenSlots {
    fn add(&mut self, slot: u16) {
        self.are_several |= *self.first.get_or_insert(slot) != slot;
    }
}

/// The slots of the keys that a script reaches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CalledSlots {
    /// Whether they may be several.
    pub(crate) may_differ: bool,
    /// The first of them.
    pub(crate) first: Option<PartitionIndex>,
    /// What its client has said.
    pub(crate) access: SlotAccess,
    /// Whether it is counted as what a cluster would refuse.
    pub(crate) is_noted: bool,
}

impl CalledSlots {
    /// Before a script runs that has these keys.
    #[inline]
    pub(crate) fn begin(
        server: &Shared,
        may_differ: bool,
        keys: Args<'_>,
        access: SlotAccess,
    ) -> Self {
        let slots = Self { may_differ, access, ..Self::default() };
        if server.gates.routing.looks_at_slots() { slots.with_keys(server, keys) } else { slots }
    }

    #[cold]
    fn with_keys(mut self, server: &Shared, keys: Args<'_>) -> Self {
        if server.gates.routing.is_on() {
            self.first = keys.get(0).map(|key| server.keyspace.locate(key).partition());
            return self;
        }
        let mut seen = SeenSlots::default();
        keys.iter().for_each(|key| seen.add(hash_slot(key)));
        // The gate has counted a request with keys of several.
        (self.first, self.is_noted) = (seen.first, seen.are_several);
        self
    }

    /// Counts a script once that a cluster would refuse for the keys of this command.
    #[cold]
    pub(crate) fn note_call(&mut self, server: &Shared, entry: &CommandEntry, args: Args<'_>) {
        if self.is_noted {
            return;
        }
        let mut seen = SeenSlots::default();
        let _ = entry.spec.visit_keys(args, |index| seen.add(hash_slot(&args[index])));
        let Some(slot) = seen.first else { return };
        let differs = *self.first.get_or_insert(slot) != slot;
        if seen.are_several || differs && !self.may_differ {
            server.keyspace.compatibility().note();
            self.is_noted = true;
        }
    }
}

/// Why a command of a script does not run: its keys are another node's, or of one slot too many.
/// Keys of a slot on the move are looked for under their locks: where the script has not got these,
/// it is to begin again with them.
#[cold]
pub(crate) fn refuse_script_call(
    server: &Shared,
    slots: &mut CalledSlots,
    tx: &mut Tx,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Result<(), Refusal> {
    // Its arguments lie where those of the command before lay.
    tx.forget_hint();
    let routes = server.gates.routing.table();
    let (mut by_slot, mut differ) = (BTreeMap::<PartitionIndex, (usize, usize)>::new(), false);
    let mut unlocked = PartitionSet::new();
    for spec in entry.spec.keys {
        let _ = spec.visit(args, |index| {
            let slot = server.keyspace.locate(&args[index]).partition();
            let (here, missing) = by_slot.entry(slot).or_default();
            match tx.exists(&args[index]) {
                Ok(false) => *missing += 1,
                Err(_) if routes.open.contains_key(&slot) => unlocked.push(slot),
                Ok(true) | Err(_) => *here += 1,
            }
            differ |= *slots.first.get_or_insert(slot) != slot;
        });
    }
    if !unlocked.is_empty() {
        tx.require_partitions(&unlocked);
        return Err(Refusal::Widen);
    }
    let SlotAccess { is_asking, is_readonly } = slots.access;
    let own_differ = by_slot.len() > 1;
    for (slot, count) in by_slot {
        let query = SlotQuery {
            slot,
            writes: entry.spec.flags.has(Flags::WRITE),
            is_channel: entry.spec.group == Group::PubSub,
            is_asking,
            is_readonly,
            ..SlotQuery::default()
        };
        if let Some(refusal) = routes.refuse_script_call(query, count) {
            return Err(refusal);
        }
    }
    if own_differ && !routes.allows_cross_slot {
        return Err(Refusal::owned(format!(
            "ERR Command '{}' in script attempted to access keys that don't hash to the same slot",
            entry.full_name
        )));
    }
    let may_differ = slots.may_differ || routes.allows_cross_slot;
    if differ && !may_differ { Err(NOT_ONE_SLOT) } else { Ok(()) }
}

const NOT_ONE_SLOT: Refusal =
    Refusal::error("ERR Script attempted to access keys that do not hash to the same slot");
