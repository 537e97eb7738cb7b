//! Which node of the cluster serves which hash slot, as this node sees it.
//!
//! A table is published whole. A lane keeps the one that it saw last and looks at one number with
//! each command: without a cluster that number is 0 and stays so.
//!
//! Invariant: a table by which this node loses a slot is published with the world stopped, so what
//! the gates let pass by the table before is over by then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::hash_slot::HASH_SLOTS;
use keyspace::Refusal;

/// The table that counts now.
#[derive(Default)]
pub struct SlotRouting {
    version: AtomicU64,
    table: Mutex<Arc<SlotMap>>,
}

/// A node, as clients are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMapNode {
    /// Its name, which no other node has.
    pub name: String,
    /// Its address or name, for clients that come by IPv4 and by IPv6; empty where clients are to
    /// go by what they know.
    pub endpoints: [String; 2],
    /// Its port without TLS; 0 for none.
    pub tcp_port: u16,
    /// Its port with TLS; 0 for none.
    pub tls_port: u16,
}

/// A slot on the move, and the node at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenSlotState {
    /// From here.
    Migrating(u16),
    /// To here.
    Importing(u16),
}

/// The slots, and the node that serves each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// Greater than that of any table before; chosen when the table is published.
    pub version: u64,
    /// For each slot the index of its node; none has an index beyond the nodes.
    pub owners: Vec<u16>,
    /// The nodes that own slots, and those that slots move to or from.
    pub nodes: Vec<SlotMapNode>,
    /// The node whose slots are served here: this one, or its primary.
    pub served: Option<u16>,
    /// Whether this node is a replica.
    pub is_replica: bool,
    /// Slots on the move.
    pub open: BTreeMap<u16, OpenSlotState>,
    /// Whether the cluster is up.
    pub is_up: bool,
    /// `cluster-allow-reads-when-down`.
    pub reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub pubsubshard_when_down: bool,
    /// `cluster-allow-cross-slot`.
    pub allows_cross_slot: bool,
    /// `cluster-proxy`: what another node serves is sent on to that node.
    pub proxies: bool,
}

/// What a client has said that opens slots to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotAccess {
    /// ASKING: a slot on its way here.
    pub(crate) is_asking: bool,
    /// READONLY: the slots of a replica's primary.
    pub(crate) is_readonly: bool,
}

/// What a request asks of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotQuery {
    pub(crate) slot: u16,
    pub(crate) writes: bool,
    /// Whether the slot is that of shard channels.
    pub(crate) is_channel: bool,
    /// Whether the client has said ASKING.
    pub(crate) is_asking: bool,
    /// Whether the client has said READONLY.
    pub(crate) is_readonly: bool,
    /// Whether the client brings the slot from another node.
    pub(crate) is_importing: bool,
    /// Whether the keys of an open slot are sent on.
    pub(crate) is_migrate: bool,
    pub(crate) is_encrypted: bool,
    /// Whether the client came by IPv6.
    pub(crate) is_ipv6: bool,
}

/// Keys of several slots in one request.
pub(crate) const CROSSSLOT: Refusal =
    Refusal::error("CROSSSLOT Keys in request don't hash to the same slot");
const NOT_SERVED: Refusal = Refusal::error("CLUSTERDOWN Hash slot not served");
const DOWN: Refusal = Refusal::error("CLUSTERDOWN The cluster is down");
const ONLY_READS: Refusal =
    Refusal::error("CLUSTERDOWN The cluster is down and only accepts read commands");
const NOT_SERVED_FOR_SCRIPTS: Refusal =
    Refusal::error("ERR Script attempted to access a slot not served");
const DOWN_FOR_SCRIPTS: Refusal =
    Refusal::error("ERR Script attempted to execute a command while the cluster is down");
const ONLY_READS_FOR_SCRIPTS: Refusal = Refusal::error(
    "ERR Script attempted to execute a write command while the cluster is down and readonly",
);
const NOT_LOCAL: Refusal =
    Refusal::error("ERR Script attempted to access a non local key in a cluster node");
/// Keys of a slot on the move that are not all here, or a slot that has moved on the way.
pub(crate) const TRYAGAIN: Refusal =
    Refusal::error("TRYAGAIN Multiple keys request during rehashing of slot");

impl SlotRouting {
    /// Whether this is a node of a cluster: one load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.version() != 0
    }

    /// The number of the table that counts.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The table that counts.
    pub fn table(&self) -> Arc<SlotMap> {
        Arc::clone(&self.lock())
    }

    /// Has this table count from now on. The caller has stopped the world if `loses_to` says so.
    pub fn publish(&self, mut table: SlotMap) {
        let mut present = self.lock();
        table.version = present.version + 1;
        let version = table.version;
        *present = Arc::new(table);
        self.version.store(version, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<SlotMap>> {
        self.table.lock().expect("no critical section here panics")
    }
}

impl SlotMap {
    /// Whether both say the same.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Self { version: self.version, ..other.clone() } == *self
    }

    /// Whether something is served by this table that is not by the next.
    pub fn loses_to(&self, next: &Self) -> bool {
        if self.is_up && !next.is_up || self.is_replica != next.is_replica || self.open != next.open
        {
            return true;
        }
        (0..HASH_SLOTS).any(|slot| self.is_served(slot) && !next.is_served(slot))
    }

    /// Whether a slot is served here, by its primary or its replica.
    pub fn is_served(&self, slot: u16) -> bool {
        let owner = self.owners.get(usize::from(slot)).copied();
        owner.is_some() && owner == self.served
    }

    /// Whether all these slots are served here by their primary, to whoever asks.
    pub(crate) fn serves_plainly(&self, slots: &[u16]) -> bool {
        let is_plain = |slot: &u16| self.is_served(*slot) && !self.open.contains_key(slot);
        self.is_up && !self.is_replica && slots.iter().all(is_plain)
    }

    /// Whether a slot that is served here goes to another owner, or to another shard: subscribers
    /// of its shard channels are told, as in Redis, also where a replica takes its primary's place.
    pub fn hands_over(&self, next: &Self, slot: u16) -> bool {
        let name = |table: &Self| table.owner(slot).map(|node| node.name.clone());
        self.is_served(slot) && (!next.is_served(slot) || name(self) != name(next))
    }

    fn owner(&self, slot: u16) -> Option<&SlotMapNode> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// The name of the node that a redirection for keys of this slot leads to, if requests are sent
    /// on.
    pub(crate) fn destination(&self, slot: u16, refusal: &Refusal) -> Option<Box<str>> {
        if !self.proxies {
            return None;
        }
        let line = refusal.line().unwrap_or_default();
        let node = match self.open.get(&slot) {
            _ if line.starts_with(b"MOVED ") => self.owner(slot),
            Some(OpenSlotState::Migrating(to)) if line.starts_with(b"ASK ") => {
                self.nodes.get(usize::from(*to))
            }
            _ => None,
        };
        node.map(|node| node.name.as_str().into())
    }

    /// Why a script's command does not run here, in Redis' words for that. `missing` of its keys
    /// are not here, of so many; asked of keys of one slot.
    pub(crate) fn refuse_script_call(
        &self,
        query: SlotQuery,
        (here, missing): (usize, usize),
    ) -> Option<Refusal> {
        if self.owner(query.slot).is_none() {
            return Some(NOT_SERVED_FOR_SCRIPTS);
        }
        if !self.is_up && !self.reads_when_down {
            return Some(DOWN_FOR_SCRIPTS);
        }
        if !self.is_up && query.writes {
            return Some(ONLY_READS_FOR_SCRIPTS);
        }
        let refusal = self.refuse(query).or_else(|| self.refuse_open(query, here, missing));
        refusal.map(|_| NOT_LOCAL)
    }

    /// Why a request does not run here.
    pub(crate) fn refuse(&self, query: SlotQuery) -> Option<Refusal> {
        if query.is_importing {
            return None;
        }
        let Some(owner) = self.owner(query.slot) else { return Some(NOT_SERVED) };
        let serves_when_down = query.is_channel && self.pubsubshard_when_down;
        if !self.is_up && !serves_when_down {
            match self.reads_when_down {
                false => return Some(DOWN),
                true if query.writes => return Some(ONLY_READS),
                true => {}
            }
        }
        if query.is_migrate && self.open.contains_key(&query.slot) {
            return None;
        }
        if self.is_served(query.slot) {
            let is_readable = (query.is_readonly && !query.writes) || query.is_channel;
            if !self.is_replica || is_readable {
                return None;
            }
        }
        if query.is_asking
            && matches!(self.open.get(&query.slot), Some(OpenSlotState::Importing(_)))
        {
            return None;
        }
        Some(redirection("MOVED", query, owner))
    }

    /// Why a request for keys of several slots does not run here. One redirection serves all of
    /// them, or none is made.
    pub(crate) fn refuse_several(&self, query: SlotQuery, slots: &[u16]) -> Option<Refusal> {
        if !self.allows_cross_slot {
            // As in Redis, the first key's slot is looked at first.
            let is_served = self.owner(query.slot).is_some();
            return Some(if is_served { CROSSSLOT } else { NOT_SERVED });
        }
        let refuse = |slot: &u16| self.refuse(SlotQuery { slot: *slot, ..query });
        let refusal = slots.iter().find_map(refuse)?;
        let owner = |slot: u16| self.owners.get(usize::from(slot));
        let is_elsewhere = refusal.line().is_some_and(|line| line.starts_with(b"MOVED "));
        let have_one_owner = slots.windows(2).all(|pair| owner(pair[0]) == owner(pair[1]));
        if is_elsewhere && !have_one_owner { Some(CROSSSLOT) } else { Some(refusal) }
    }

    /// Why a request for keys of several slots does not run here, of which some are on the move:
    /// so many keys of these are not here.
    pub(crate) fn refuse_open_several(&self, query: SlotQuery, missing: usize) -> Option<Refusal> {
        let runs = missing == 0 || query.is_migrate || self.is_replica;
        (!runs).then_some(TRYAGAIN)
    }

    /// Why a request does not run here whose slot is on the move: of its keys so many are here, and
    /// so many are not.
    pub(crate) fn refuse_open(
        &self,
        query: SlotQuery,
        here: usize,
        missing: usize,
    ) -> Option<Refusal> {
        if missing == 0 || query.is_migrate || self.is_replica {
            return None;
        }
        match self.open.get(&query.slot)? {
            OpenSlotState::Migrating(_) if here > 0 => Some(TRYAGAIN),
            OpenSlotState::Migrating(to) => {
                Some(redirection("ASK", query, self.nodes.get(usize::from(*to))?))
            }
            OpenSlotState::Importing(_) => (here + missing > 1).then_some(TRYAGAIN),
        }
    }
}

fn redirection(word: &str, query: SlotQuery, node: &SlotMapNode) -> Refusal {
    let (first, second) = match query.is_encrypted {
        true => (node.tls_port, node.tcp_port),
        false => (node.tcp_port, node.tls_port),
    };
    let port = if first == 0 { second } else { first };
    let endpoint = &node.endpoints[usize::from(query.is_ipv6)];
    Refusal::owned(format!("{word} {} {endpoint}:{port}", query.slot))
}

/// Whether a refusal sends the client elsewhere, or to another time.
pub(crate) fn is_redirection(refusal: &Refusal) -> bool {
    let line = refusal.line().unwrap_or_default();
    let words: [&[u8]; 5] = [b"MOVED ", b"ASK ", b"TRYAGAIN ", b"CROSSSLOT ", b"CLUSTERDOWN "];
    words.into_iter().any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::{HASH_SLOTS, OpenSlotState, SlotMap, SlotMapNode, SlotQuery};

    fn node(port: u16) -> SlotMapNode {
        SlotMapNode {
            name: port.to_string(),
            endpoints: ["10.0.0.1".to_owned(), "fe80::1".to_owned()],
            tcp_port: port,
            tls_port: port + 1,
        }
    }

    /// Slot 0 has no owner, 1 is ours, 2 another's, 3 goes from here, 4 comes here.
    fn table() -> SlotMap {
        let mut owners = vec![1; usize::from(HASH_SLOTS)];
        owners[..5].copy_from_slice(&[9, 0, 1, 0, 1]);
        SlotMap {
            owners,
            nodes: vec![node(1000), node(2000)],
            served: Some(0),
            open: [(3, OpenSlotState::Migrating(1)), (4, OpenSlotState::Importing(1))].into(),
            is_up: true,
            ..SlotMap::default()
        }
    }

    fn said(table: &SlotMap, query: SlotQuery) -> Option<String> {
        let refusal = table.refuse(query)?;
        Some(String::from_utf8_lossy(refusal.line().unwrap()).into_owned())
    }

    #[test]
    fn a_slot_is_served_by_its_owner() {
        let table = table();
        let at = |slot| SlotQuery { slot, ..SlotQuery::default() };
        assert_eq!(said(&table, at(0)).unwrap(), "CLUSTERDOWN Hash slot not served");
        assert_eq!(said(&table, at(1)), None);
        assert_eq!(said(&table, at(2)).unwrap(), "MOVED 2 10.0.0.1:2000");
        assert_eq!(said(&table, at(3)), None);
        assert_eq!(said(&table, at(4)).unwrap(), "MOVED 4 10.0.0.1:2000");
        let by_ipv6 = SlotQuery { is_ipv6: true, ..at(2) };
        assert_eq!(said(&table, by_ipv6).unwrap(), "MOVED 2 fe80::1:2000");
        let encrypted = SlotQuery { is_encrypted: true, ..at(2) };
        assert_eq!(said(&table, encrypted).unwrap(), "MOVED 2 10.0.0.1:2001");
        assert_eq!(said(&table, SlotQuery { is_asking: true, ..at(4) }), None);
        assert_eq!(said(&table, SlotQuery { is_migrate: true, ..at(4) }), None);
        assert!(said(&table, SlotQuery { is_asking: true, ..at(2) }).is_some());
    }

    #[test]
    fn keys_of_several_slots_are_served_where_all_of_them_are() {
        let strict = table();
        let lenient = SlotMap { allows_cross_slot: true, ..table() };
        let said = |table: &SlotMap, slots: &[u16]| {
            let query = SlotQuery { slot: slots[0], ..SlotQuery::default() };
            let refusal = table.refuse_several(query, slots)?;
            Some(String::from_utf8_lossy(refusal.line().unwrap()).into_owned())
        };
        let cross = "CROSSSLOT Keys in request don't hash to the same slot";
        assert_eq!(said(&strict, &[1, 3]).unwrap(), cross);
        assert_eq!(said(&strict, &[0, 1]).unwrap(), "CLUSTERDOWN Hash slot not served");
        assert_eq!(said(&strict, &[1, 0]).unwrap(), cross);
        assert_eq!(said(&lenient, &[1, 3]), None);
        assert_eq!(said(&lenient, &[1, 2]).unwrap(), cross);
        assert_eq!(said(&lenient, &[2, 1]).unwrap(), cross);
        assert_eq!(said(&lenient, &[2, 5]).unwrap(), "MOVED 2 10.0.0.1:2000");
        assert_eq!(said(&lenient, &[1, 0]).unwrap(), "CLUSTERDOWN Hash slot not served");
    }

    #[test]
    fn a_replica_serves_readers_that_ask_for_it() {
        let table = SlotMap { is_replica: true, ..table() };
        let query = SlotQuery { slot: 1, ..SlotQuery::default() };
        assert_eq!(said(&table, query).unwrap(), "MOVED 1 10.0.0.1:1000");
        let reads = SlotQuery { is_readonly: true, ..query };
        assert_eq!(said(&table, reads), None);
        assert!(said(&table, SlotQuery { writes: true, ..reads }).is_some());
        assert_eq!(said(&table, SlotQuery { is_channel: true, ..query }), None);
    }

    #[test]
    fn a_cluster_that_is_down_serves_what_it_may() {
        let mut table = SlotMap { is_up: false, ..table() };
        let query = SlotQuery { slot: 1, ..SlotQuery::default() };
        assert_eq!(said(&table, query).unwrap(), "CLUSTERDOWN The cluster is down");
        let channel = SlotQuery { is_channel: true, ..query };
        assert!(said(&table, channel).is_some());
        (table.pubsubshard_when_down, table.reads_when_down) = (true, true);
        assert_eq!((said(&table, channel), said(&table, query)), (None, None));
        assert_eq!(
            said(&table, SlotQuery { writes: true, ..query }).unwrap(),
            "CLUSTERDOWN The cluster is down and only accepts read commands"
        );
    }

    #[test]
    fn keys_of_a_slot_on_the_move_are_asked_for_where_they_are() {
        let table = table();
        let said = |slot, here, missing| {
            let query = SlotQuery { slot, ..SlotQuery::default() };
            let refusal = table.refuse_open(query, here, missing)?;
            Some(String::from_utf8_lossy(refusal.line().unwrap()).into_owned())
        };
        let again = Some("TRYAGAIN Multiple keys request during rehashing of slot".to_owned());
        assert_eq!((said(1, 0, 2), said(3, 2, 0), said(4, 0, 1)), (None, None, None));
        assert_eq!(said(3, 0, 2), Some("ASK 3 10.0.0.1:2000".to_owned()));
        assert_eq!((said(3, 1, 1), said(4, 1, 1)), (again.clone(), again));
    }

    #[test]
    fn what_is_sent_elsewhere_is_sent_on_if_that_is_wanted() {
        let told = table();
        let proxy = SlotMap { proxies: true, ..table() };
        let query = |slot| SlotQuery { slot, ..SlotQuery::default() };
        let moved = told.refuse(query(2)).unwrap();
        let ask = told.refuse_open(query(3), 0, 1).unwrap();
        let again = told.refuse_open(query(3), 1, 1).unwrap();
        assert_eq!(told.destination(2, &moved), None);
        assert_eq!(proxy.destination(2, &moved).as_deref(), Some("2000"));
        assert_eq!(proxy.destination(3, &ask).as_deref(), Some("2000"));
        assert_eq!(proxy.destination(3, &again), None);
        assert_eq!(proxy.destination(0, &proxy.refuse(query(0)).unwrap()), None);
    }

    #[test]
    fn the_world_is_stopped_for_what_is_lost_and_not_for_what_is_gained() {
        let table = table();
        let mut next = table.clone();
        next.owners[2] = 0;
        assert!(!table.loses_to(&next) && next.loses_to(&table));
        let down = SlotMap { is_up: false, ..table.clone() };
        assert!(table.loses_to(&down) && !down.loses_to(&table));
    }
}
