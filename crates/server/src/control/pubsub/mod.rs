//! The pub/sub family: SUBSCRIBE, PUBLISH, PUBSUB and their kin.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod inspect;
pub(crate) mod publish;
mod subscribe;

use super::context::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[
    &subscribe::PSUBSCRIBE,
    &publish::PUBLISH,
    &inspect::PUBSUB,
    &subscribe::PUNSUBSCRIBE,
    &publish::SPUBLISH,
    &subscribe::SSUBSCRIBE,
    &subscribe::SUBSCRIBE,
    &subscribe::SUNSUBSCRIBE,
    &subscribe::UNSUBSCRIBE,
];
