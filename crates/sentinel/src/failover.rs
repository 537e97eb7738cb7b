//! How far the failover of a primary is.
//!
//! Invariant: from the selection on, and only then, there is a replica that is to be promoted.

use crate::Millis;

/// How a failover began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailoverKind {
    /// The primary is down, and an election is to be won.
    Automatic,
    /// An operator wants it; no other Sentinel is asked.
    Forced,
    /// An operator wants it; an election is to be won, and the primary hands over itself.
    Coordinated,
}

/// The states of a failover, in their order. The name of the replica goes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    None,
    WaitStart,
    SelectReplica,
    SendNoOne(String),
    WaitPromotion(String),
    ReconfReplicas(String),
    UpdateConfig(String),
}

impl Stage {
    /// The word of SENTINEL MASTER.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Stage::None => "none",
            Stage::WaitStart => "wait_start",
            Stage::SelectReplica => "select_slave",
            Stage::SendNoOne(_) => "send_slaveof_noone",
            Stage::WaitPromotion(_) => "wait_promotion",
            Stage::ReconfReplicas(_) => "reconf_slaves",
            Stage::UpdateConfig(_) => "update_config",
        }
    }

    /// The replica that is to be promoted, or is.
    pub(crate) fn chosen(&self) -> Option<&str> {
        match self {
            Stage::None | Stage::WaitStart | Stage::SelectReplica => None,
            Stage::SendNoOne(name)
            | Stage::WaitPromotion(name)
            | Stage::ReconfReplicas(name)
            | Stage::UpdateConfig(name) => Some(name),
        }
    }

    /// The replica that is promoted: the primary for all clients from here on.
    pub(crate) fn promoted(&self) -> Option<&str> {
        match self {
            Stage::ReconfReplicas(name) | Stage::UpdateConfig(name) => Some(name),
            _ => None,
        }
    }
}

/// A failover, or the memory of the last.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    pub(crate) stage: Stage,
    pub(crate) kind: FailoverKind,
    pub(crate) epoch: u64,
    /// When this Sentinel last began one or voted for one of another.
    pub(crate) started_at: Option<Millis>,
    pub(crate) stage_since: Millis,
    /// The start for which it was logged that the next must wait.
    pub(crate) delay_logged: Option<Millis>,
}

impl Failover {
    /// No failover.
    pub(crate) fn none() -> Failover {
        Failover {
            stage: Stage::None,
            kind: FailoverKind::Automatic,
            epoch: 0,
            started_at: None,
            stage_since: 0,
            delay_logged: None,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.stage != Stage::None
    }

    /// Goes on to a stage.
    pub(crate) fn enter(&mut self, stage: Stage, now: Millis) {
        self.stage = stage;
        self.stage_since = now;
    }

    /// Gives up.
    pub(crate) fn abort(&mut self, now: Millis) {
        self.enter(Stage::None, now);
        self.kind = FailoverKind::Automatic;
    }
}
