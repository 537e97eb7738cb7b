//! Whether instances are down: as this Sentinel alone sees it, and as enough others do.
//!
//! Invariants: only primaries are objectively down; what another Sentinel said counts for five
//! periods of asking.

use crate::context::{Context, Promise};
use crate::failover::{FailoverKind, Stage};
use crate::info::Role;
use crate::instance::Instance;
use crate::links::PendingReply;
use crate::primary::{Peer, Primary, PrimaryState, Replica};

impl Primary {
    /// Judges the primary.
    pub(crate) fn check_primary_down(&mut self, context: &mut Context) {
        let head = &mut self.head;
        let (now, node) = (context.now, &head.node);
        // A primary that has long said it is a replica is none.
        let patience = head.settings.down_after + context.periods.info * 2;
        let is_replica = node.role == Role::Replica && now - node.role_since > patience;
        let limit = head.settings.reboot_down_after;
        let is_new = limit > 0 && node.rebooted_at.is_some_and(|at| now - at > limit);
        if let Some(event) =
            check_subjectively_down(context, &mut head.instance, is_replica || is_new)
        {
            let text = head.text(context);
            head.warn(context, event, text);
        }
        self.check_objectively_down(context);
    }

    /// Whether enough Sentinels say that it is down.
    fn check_objectively_down(&mut self, context: &mut Context) {
        let others = self.peers.values().filter(|peer| peer.says_down).count();
        let head = &mut self.head;
        let is_down = head.instance.is_down() && others + 1 >= head.settings.quorum as usize;
        if is_down == head.objective.is_down {
            return;
        }
        head.objective.is_down = is_down;
        let text = head.text(context);
        if is_down {
            head.objective.since = Some(context.now);
            let quorum = head.settings.quorum;
            head.warn(context, "+odown", format!("{text} #quorum {}/{quorum}", others + 1));
        } else {
            head.warn(context, "-odown", text);
        }
    }

    /// Asks the other Sentinels whether the primary is down, and for their votes once a failover
    /// has begun here.
    pub(crate) fn ask_peers(&mut self, context: &mut Context, is_forced: bool) {
        let head = &self.head;
        let holds = context.periods.ask * 5;
        for peer in self.peers.values_mut() {
            if peer.said_at.is_none_or(|at| context.now - at > holds) {
                peer.says_down = false;
                peer.leader = None;
            }
            let is_due = peer.said_at.is_none_or(|at| context.now - at >= context.periods.ask);
            // Of a primary that is well only votes for a coordinated failover are asked.
            let is_candidate = head.failover.kind == FailoverKind::Coordinated
                && head.failover.stage == Stage::WaitStart;
            if (head.instance.is_down() || is_candidate) && (is_forced || is_due) {
                head.ask_peer(context, peer);
            }
        }
    }
}

impl PrimaryState {
    fn ask_peer(&self, context: &mut Context, peer: &Peer) {
        if peer.instance.ready(context).is_none() {
            return;
        }
        let address = &self.instance.address;
        let (host, port) = (context.shown(address), address.port.to_string());
        let wants_vote = self.failover.is_running() && context.is_disk_trusted();
        // Votes are wanted for the epoch of the failover, even where others have gone on.
        let epoch =
            if wants_vote { self.failover.epoch } else { context.current_epoch }.to_string();
        let id = if wants_vote { context.my_id.clone() } else { "*".to_owned() };
        let words = [
            b"SENTINEL",
            &b"is-master-down-by-addr"[..],
            host.as_bytes(),
            port.as_bytes(),
            epoch.as_bytes(),
            id.as_bytes(),
        ];
        let promise = if wants_vote { Promise::Yes } else { Promise::No };
        context.send(peer.instance.link, PendingReply::Vote(self.name.clone()), promise, &words);
    }

    /// Judges a replica.
    pub(crate) fn check_replica_down(&self, context: &mut Context, replica: &mut Replica) {
        if let Some(event) = check_subjectively_down(context, &mut replica.instance, false) {
            let text = self.replica_text(replica, context);
            self.warn(context, event, text);
        }
    }

    /// Judges another Sentinel.
    pub(crate) fn check_peer_down(&self, context: &mut Context, peer: &mut Peer) {
        if let Some(event) = check_subjectively_down(context, &mut peer.instance, false) {
            let text = self.peer_text(peer, context);
            self.warn(context, event, text);
        }
    }
}

/// Judges an instance by its answers, or by another reason to think it down: what has changed.
fn check_subjectively_down(
    context: &mut Context,
    instance: &mut Instance,
    other_reason: bool,
) -> Option<&'static str> {
    let silence = context.links.get(instance.link).unavailable_for(context.now);
    instance.drop_dead_connections(context);
    let is_down = silence > instance.down_after || other_reason;
    if is_down == instance.subjective.is_down {
        return None;
    }
    instance.subjective.is_down = is_down;
    if is_down {
        instance.subjective.since = Some(context.now);
        Some("+sdown")
    } else {
        instance.is_script_killed = false;
        Some("-sdown")
    }
}
