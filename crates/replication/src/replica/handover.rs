//! How far a handover is: our own request that the next primary becomes one.
//!
//! Invariant: once that was asked for, only a word of the other side says that it is not to be; a
//! connection that is lost says nothing.

use super::link::ReplicaLink;
use super::settings::{PrimaryAddress, ReplicaofReply};
use crate::history::SavedHistory;

/// How far a handover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Handover {
    /// There is none, or the other side is the primary now.
    #[default]
    None,
    /// Nothing was asked yet.
    Begun,
    /// The other side is asked on the present connection, and on no other before.
    Asked,
    /// The connection is lost on which the other side was asked: it may be the primary, or not.
    InDoubt,
    /// The other side is asked again.
    AskedAgain,
    /// The other side is not to be the primary.
    Refused,
}

impl Handover {
    /// Whether the other side is to be asked, or is being asked.
    pub(super) fn is_underway(self) -> bool {
        !matches!(self, Self::None | Self::Refused)
    }

    /// Whether the other side may be the primary, or not.
    pub(super) fn is_in_doubt(self) -> bool {
        matches!(self, Self::InDoubt | Self::AskedAgain)
    }

    /// The request was given to the connection.
    pub(super) fn asked(self) -> Self {
        match self {
            Self::Begun => Self::Asked,
            Self::InDoubt => Self::AskedAgain,
            other => other,
        }
    }

    /// The connection is gone, or could not be made.
    pub(super) fn lost(self) -> Self {
        match self {
            Self::Begun => Self::Refused,
            Self::Asked | Self::AskedAgain => Self::InDoubt,
            other => other,
        }
    }
}

impl ReplicaLink {
    /// FAILOVER: one of our replicas, which has all that we have, is to be the primary. `own` is
    /// where our stream ends.
    pub fn hand_over(
        &mut self,
        to: PrimaryAddress,
        own: Option<SavedHistory>,
        now_ms: u64,
    ) -> ReplicaofReply {
        let reply = self.replicaof(to, own, None, now_ms);
        self.handover = Handover::Begun;
        reply
    }

    /// How a handover goes: `None` while it is under way, else whether the other side is the
    /// primary now.
    pub fn handed_over(&self) -> Option<bool> {
        match self.handover {
            Handover::None => Some(true),
            Handover::Refused => Some(false),
            _ => None,
        }
    }

    /// Whether the other side was asked to be the primary, and may be or not: the connection was
    /// lost on which it was asked. The question is put again until there is an answer.
    pub fn is_handover_in_doubt(&self) -> bool {
        self.handover.is_in_doubt()
    }

    /// The connection of a handover is gone.
    pub(super) fn lose_handover(&mut self) {
        let before = self.handover;
        self.handover = before.lost();
        if before != self.handover && self.handover.is_in_doubt() {
            let line = "The failover target may be the master by now, or not: it is asked again";
            self.out.warning(line);
        }
    }
}
