//! The arguments of the family.
//!
//! Invariant: what is wrong with an argument is said in the words of real servers.

use base::number::parse_i64;
use cluster::{NodeId, Slot, SlotSet};
use keyspace::Refusal;
use proto::Args;

const NO_SLOT: Refusal = Refusal::error("ERR Invalid or out of range slot");

/// A slot.
pub(super) fn slot(word: &[u8]) -> Result<Slot, Refusal> {
    let number = parse_i64(word).and_then(|number| u16::try_from(number).ok());
    number.and_then(Slot::new).ok_or(NO_SLOT)
}

/// Slots, as they were named.
pub(super) struct ParsedSlots {
    /// The slots, up to the first that was named before.
    pub(super) slots: SlotSet,
    /// That slot.
    pub(super) duplicate: Option<Slot>,
}

/// Slots.
pub(super) fn slots(args: Args<'_>) -> Result<ParsedSlots, Refusal> {
    let slots: Vec<Slot> = args.iter().map(slot).collect::<Result<_, _>>()?;
    Ok(named(slots))
}

/// Pairs of first and last slots; the arguments are even in number.
pub(super) fn slot_ranges(args: Args<'_>) -> Result<ParsedSlots, Refusal> {
    let mut slots = Vec::new();
    for index in (0..args.len()).step_by(2) {
        let (first, last) = (slot(&args[index])?, slot(&args[index + 1])?);
        if first > last {
            return Err(Refusal::owned(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            )));
        }
        slots.extend((first.get()..=last.get()).filter_map(Slot::new));
    }
    Ok(named(slots))
}

fn named(all: Vec<Slot>) -> ParsedSlots {
    let mut slots = SlotSet::empty();
    let duplicate = all.into_iter().find(|slot| !slots.insert(*slot));
    ParsedSlots { slots, duplicate }
}

/// A node, which may be one that is not known.
pub(super) fn node(word: &[u8], unknown: &str) -> Result<NodeId, Refusal> {
    NodeId::parse(word)
        .ok_or_else(|| Refusal::owned([b"ERR ", unknown.as_bytes(), b" ", word].concat()))
}

/// What a node that is not known is called.
pub(super) const UNKNOWN_NODE: &str = "Unknown node";
