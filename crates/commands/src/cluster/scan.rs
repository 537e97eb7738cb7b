//! CLUSTERSCAN (Valkey): SCAN over all nodes of a cluster, slot by slot. A client that knows the
//! cluster sends each call to the node of the slot of the cursor, as if that were a key.
//!
//! A cursor is `0` at the beginning and at the end, else `FINGERPRINT-{TAG}-POSITION`: the tag is
//! of the slot, and the position one within the slot, good for the process alone whose fingerprint
//! stands before it. By another's the slot is begun anew.
//!
//! Invariants: an element that is there from the first call of a scan to the last is returned at
//! least once, wherever its slot moves meanwhile; a call gets ahead, and its work is bounded by
//! COUNT.

use base::hash_slot::{HASH_SLOTS, hash_slot, slot_of_pattern, tag_of_slot};
use keyspace::{Keyspace, Kind, PartitionIndex, Refusal, Tx};
use proto::{Args, Reply};

use super::{DISABLED, slot};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, LockPlan, Spec, at_least};
use crate::generic::scan::{EMPTY_VISITS, ScanFilter, ScanProgress, parse_cursor};
use crate::keys::{Access, first};

pub(super) const CLUSTERSCAN: DataCommand = Command {
    spec: Spec {
        name: "CLUSTERSCAN",
        since: "9.1.0",
        group: Group::Cluster,
        syntax: "cursor [MATCH match-pattern] [COUNT count] [TYPE type] [SLOT slot]",
        summary: "Iterates over the keys in the cluster.",
        complexity: "O(N) where N is the number of elements returned.",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::NOT_KEY)],
        plan: LockPlan::Visits,
        categories: &["@keyspace"],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        origin: "valkey",
        ..Spec::BASE
    },
    subcommands: &[],
    run: cluster_scan,
};

fn cluster_scan(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if !tx.keyspace().is_by_hash_slot() {
        return Err(DISABLED);
    }
    let request = ClusterScan::parse(args)?;
    let mut found = ScanProgress { keys: Vec::new(), missing: request.filter.count };
    let next = match SlotCursor::parse(&args[1], tx.keyspace())? {
        None => request.start(),
        Some(cursor) => request.go_on(tx, cursor, &mut found)?,
    };
    reply.array(2);
    match next {
        None => reply.bulk(b"0"),
        Some(next) => reply.bulk(&next.encode(tx.keyspace())),
    }
    reply.array(found.keys.len());
    found.keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// A place in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotCursor {
    slot: PartitionIndex,
    position: u64,
}

impl SlotCursor {
    /// Reads a cursor; nothing at the beginning of a scan.
    fn parse(text: &[u8], keyspace: &Keyspace) -> Result<Option<Self>, Refusal> {
        const INVALID: Refusal = Refusal::error("ERR Invalid cursor");
        if text == b"0" {
            return Ok(None);
        }
        let mut parts = text.splitn(3, |byte| *byte == b'-');
        let (Some(fingerprint), Some(_), Some(position)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(INVALID);
        };
        let position = parse_cursor(position).map_err(|_| INVALID)?;
        let is_own = fingerprint == own_fingerprint(keyspace).as_bytes();
        Ok(Some(Self { slot: hash_slot(text), position: if is_own { position } else { 0 } }))
    }

    fn beginning_of(slot: PartitionIndex) -> Self {
        Self { slot, position: 0 }
    }

    fn encode(self, keyspace: &Keyspace) -> Vec<u8> {
        let Self { slot, position } = self;
        let fingerprint = match position {
            // The beginning is the same everywhere.
            0 => "0".to_owned(),
            _ => own_fingerprint(keyspace),
        };
        let (tag, position) = (tag_of_slot(slot), position.to_string());
        [fingerprint.as_bytes(), b"-{", tag, b"}-", position.as_bytes()].concat()
    }
}

fn own_fingerprint(keyspace: &Keyspace) -> String {
    format!("{:08x}", keyspace.order_within_slots() >> u32::BITS)
}

/// What a call asks for.
struct ClusterScan<'a> {
    filter: ScanFilter<'a>,
    /// The one slot that is asked for.
    slot: Option<PartitionIndex>,
    /// The one slot that matches can be of.
    matching: Option<PartitionIndex>,
}

impl<'a> ClusterScan<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Refusal> {
        const ONCE: Refusal = Refusal::error("ERR SLOT option can only be specified once");
        let (mut filter, mut named) = (ScanFilter::default(), None);
        let mut options = Options::from(args, 2);
        while let Some(word) = options.word() {
            if is(word, "SLOT") {
                let number = options.value()?;
                if named.is_some() {
                    return Err(ONCE);
                }
                named = Some(slot(number)?);
                continue;
            }
            filter.read_option(word, &mut options)?;
            if let Some(kind) = filter.kind
                && !Kind::ALL.iter().any(|it| is(kind, it.name()))
            {
                return Err(Refusal::owned([b"ERR unknown type name '", kind, b"'"].concat()));
            }
        }
        let matching = filter.pattern.and_then(slot_of_pattern);
        Ok(Self { filter, slot: named, matching })
    }

    /// Whether no slot is both asked for and one that matches can be of.
    fn is_void(&self) -> bool {
        matches!((self.slot, self.matching), (Some(slot), Some(matching)) if slot != matching)
    }

    /// Where a scan begins.
    fn start(&self) -> Option<SlotCursor> {
        let slot = self.slot.or(self.matching).unwrap_or(0);
        (!self.is_void()).then(|| SlotCursor::beginning_of(slot))
    }

    /// Looks at some keys from a cursor on; where to go on.
    fn go_on(
        &self,
        tx: &mut Tx,
        cursor: SlotCursor,
        found: &mut ScanProgress,
    ) -> Result<Option<SlotCursor>, Refusal> {
        const MISMATCH: Refusal = Refusal::error("ERR Cursor slot mismatch with SLOT argument");
        if self.slot.is_some_and(|slot| slot != cursor.slot) {
            return Err(MISMATCH);
        }
        match self.matching {
            _ if self.is_void() => return Ok(None),
            Some(matching) if matching < cursor.slot => return Ok(None),
            Some(matching) if matching > cursor.slot => {
                return Ok(Some(SlotCursor::beginning_of(matching)));
            }
            _ => {}
        }
        self.filter.charge(tx)?;
        self.walk(tx, cursor, found)
    }

    /// Goes on from slot to slot, as long as they are served here.
    fn walk(
        &self,
        tx: &mut Tx,
        cursor: SlotCursor,
        found: &mut ScanProgress,
    ) -> Result<Option<SlotCursor>, Refusal> {
        let keyspace = tx.keyspace();
        let is_of_one = self.slot.or(self.matching).is_some();
        let mut visits = self.filter.count.saturating_add(EMPTY_VISITS);
        let SlotCursor { mut slot, mut position } = cursor;
        loop {
            let has_keys = keyspace.population(slot) > 0;
            if has_keys {
                if found.missing == 0 || visits == 0 {
                    return Ok(Some(SlotCursor { slot, position }));
                }
                tx.visit(slot)?;
                visits -= 1;
            }
            // Asked behind the look at its keys: of a slot that was lost they may be gone.
            let is_asked_for = slot == cursor.slot && keyspace.open_slots().contain(slot);
            if !keyspace.served_slots().contain(slot) && !is_asked_for {
                return Ok(Some(SlotCursor::beginning_of(slot)));
            }
            if has_keys && let Some(next) = self.filter.walk(tx, (slot, position), found) {
                position = next;
                continue;
            }
            if is_of_one || slot + 1 == HASH_SLOTS {
                return Ok(None);
            }
            (slot, position) = (slot + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::hash_slot::hash_slot;
    use keyspace::{Keyspace, Options};

    use super::SlotCursor;

    #[test]
    fn a_cursor_says_where_to_go_on_and_whose_order_that_is() {
        let of_node = |key| {
            let options = Options { hash_key: (key, 2), by_hash_slot: true, ..Options::new() };
            Keyspace::leak(options)
        };
        let (one, other) = (of_node(1), of_node(7));
        let cursor = SlotCursor { slot: hash_slot(b"bar"), position: 1 << 60 };
        let text = cursor.encode(one);
        assert_eq!(SlotCursor::parse(&text, one), Ok(Some(cursor)));
        let anew = SlotCursor { position: 0, ..cursor };
        assert_eq!(SlotCursor::parse(&text, other), Ok(Some(anew)));
        assert_eq!(anew.encode(one), b"0-{bar}-0");
        assert_eq!(SlotCursor::parse(b"0", one), Ok(None));
    }

    #[test]
    fn cursors_are_read_as_valkey_reads_them() {
        let keyspace = Keyspace::leak(Options { by_hash_slot: true, ..Options::new() });
        let bar = SlotCursor::beginning_of(hash_slot(b"bar"));
        for text in ["0-{bar}-0", "-{bar}-0", "x-{bar}-7", "0-{bar}x-0", "0-}{bar}-+0"] {
            assert_eq!(SlotCursor::parse(text.as_bytes(), keyspace), Ok(Some(bar)), "{text}");
        }
        for text in ["", "00", "1", "-", "--", "0-{bar}", "0-{bar}-", "0-{bar}-x", "--{bar}-0"] {
            assert!(SlotCursor::parse(text.as_bytes(), keyspace).is_err(), "{text}");
        }
    }
}
