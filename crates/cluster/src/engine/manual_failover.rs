//! A failover that an operator has asked for: the primary holds its writers until its replica has
//! all, and only then the replica asks for votes.
//!
//! Invariant: writers that were held are let go, whatever becomes of the failover.

use super::Cluster;
use super::event::{Action, FailoverMode, Millis, StreamPosition};
use crate::id::NodeId;
use crate::message::{Body, Header};

/// A manual failover, on either side.
#[derive(Debug)]
pub(super) struct ManualFailover {
    ends: Millis,
    side: Side,
}

#[derive(Debug)]
enum Side {
    /// A primary, its replica, and the offset at which its writers are held, once they are.
    Primary { replica: NodeId, offset: Option<u64> },
    /// A replica that waits for the offset of its primary, or has it.
    Replica { offset: Option<u64>, may_begin: bool },
}

impl Cluster {
    /// CLUSTER FAILOVER, at a replica.
    pub(super) fn begin_manual(&mut self, forcing: FailoverMode) {
        let ends = self.now() + self.settings.manual_failover_timeout;
        self.end_manual();
        self.election = None;
        let may_begin = matches!(forcing, FailoverMode::Force | FailoverMode::Inherited);
        match forcing {
            FailoverMode::Takeover => {
                self.log("Taking over the master (user request).".to_owned());
                self.bump_for_takeover();
                self.take_over();
                return;
            }
            FailoverMode::Force => self.log("Forced failover user request accepted.".to_owned()),
            FailoverMode::Inherited => {
                self.log("Forced failover primary request accepted.".to_owned());
            }
            FailoverMode::Agreed => {
                self.log("Manual failover user request accepted.".to_owned());
                if let Some(primary) = self.own().primary() {
                    self.send_to(primary, &Body::ManualFailoverStart, false);
                }
            }
        }
        self.manual =
            Some(ManualFailover { ends, side: Side::Replica { offset: None, may_begin } });
    }

    /// The primary ends, and has this replica take over: votes are asked for at once.
    pub(super) fn inherit(&mut self) {
        match self.fail_over(FailoverMode::Inherited) {
            Ok(()) => self.run_election(),
            Err(error) => self.log(format!("Failover request of the primary refused: {error:?}")),
        }
    }

    /// A replica takes a new epoch though it has none of its own to compare.
    fn bump_for_takeover(&mut self) {
        self.own_mut().config_epoch = 0;
        self.bump_epoch();
    }

    /// A replica asks this primary to hand over.
    pub(super) fn process_mfstart(&mut self, replica: NodeId) {
        let is_mine = self.nodes.get(&replica).and_then(super::Node::primary) == Some(self.me);
        if !self.is_primary() || !is_mine {
            return;
        }
        self.end_manual();
        let length = self.settings.manual_failover_timeout;
        self.log(format!("Manual failover requested by replica {replica}."));
        let side = Side::Primary { replica, offset: None };
        self.manual = Some(ManualFailover { ends: self.now() + length, side });
        self.actions.push(Action::PauseWrites { length: 2 * length });
    }

    /// The writers are held: the replica is told up to where.
    pub(super) fn writes_paused(&mut self, at: u64) {
        if let Some(ManualFailover { side: Side::Primary { replica, offset }, .. }) =
            &mut self.manual
        {
            *offset = Some(at);
            let replica = *replica;
            self.ping(replica);
        }
    }

    /// The offset at which the writers here are held.
    pub(super) fn paused_offset(&self) -> Option<u64> {
        match &self.manual {
            Some(ManualFailover { side: Side::Primary { offset, .. }, .. }) => *offset,
            _ => None,
        }
    }

    /// Whether a node waits to hear of the offset here.
    pub(super) fn is_handing_over_to(&self, id: NodeId) -> bool {
        let side = self.manual.as_ref().map(|manual| &manual.side);
        matches!(side, Some(Side::Primary { replica, offset: Some(_) }) if *replica == id)
    }

    /// Takes the offset of a primary that holds its writers.
    pub(super) fn record_paused_offset(&mut self, header: &Header) {
        let is_primary = self.own().primary() == Some(header.sender);
        let Some(manual) = self.manual.as_mut().filter(|_| is_primary) else { return };
        if let Side::Replica { offset: offset @ None, .. } = &mut manual.side
            && header.message.is_paused
        {
            *offset = Some(header.offset);
            self.log(format!(
                "Received replication offset for paused master manual failover: {}",
                header.offset
            ));
            self.advance_manual();
        }
    }

    /// Lets the election begin when all of the primary's stream is here, and flows still: of data
    /// that a full sync is about to replace the offset says nothing.
    pub(super) fn advance_manual(&mut self) {
        let StreamPosition::Flowing(own) = self.position else { return };
        let Some(manual) = &mut self.manual else { return };
        if let Side::Replica { offset: Some(offset), may_begin: may_begin @ false } =
            &mut manual.side
            && own >= *offset
        {
            *may_begin = true;
            self.log(
                "All master replication stream processed, manual failover can start.".to_owned(),
            );
        }
    }

    /// Whether an election may begin though the primary is up.
    pub(super) fn may_start_manual_election(&self) -> bool {
        let side = self.manual.as_ref().map(|manual| &manual.side);
        matches!(side, Some(Side::Replica { may_begin: true, .. }))
    }

    /// Gives up what takes too long.
    pub(super) fn run_manual_failover(&mut self) {
        let now = self.now();
        if self.manual.as_ref().is_some_and(|manual| now >= manual.ends) {
            self.log("Manual failover timed out.".to_owned());
            self.end_manual();
        }
    }

    /// Forgets the failover; writers that it held go on.
    pub(super) fn end_manual(&mut self) {
        if let Some(ManualFailover { side: Side::Primary { .. }, .. }) = self.manual.take() {
            self.actions.push(Action::ResumeWrites);
        }
    }
}
