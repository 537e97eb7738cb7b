//! The primary of a term: what its members have, and for how long they keep quiet.
//!
//! Invariants: a reign begins once, and is never gone on with behind a restart; what is safe a
//! majority has in this very term, all that earlier terms left among it; the members change one at
//! a time, each change behind all that was safe by the members before it.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use super::{Action, Member, Role, ShardView};
use crate::map::MapEntry;
use crate::message::Body;
use crate::position::{Millis, Offset, Term};
use crate::settings::Settings;

/// A reign.
#[derive(Debug)]
pub(super) struct Reign {
    term: Term,
    /// The end of the log when the term began.
    start: Offset,
    /// The end of the log when the present members came to be, until a majority of them has that.
    unsettled: Option<Offset>,
    /// The members by whose majority all is reckoned.
    members: BTreeSet<NodeId>,
    followers: BTreeMap<NodeId, Follower>,
    safe: Option<Offset>,
    last_heartbeat: Option<Millis>,
    dismissals: BTreeSet<NodeId>,
}

/// What a member or a node that joins has told in this term.
#[derive(Clone, Copy, Default, Debug)]
struct Follower {
    /// When the last heartbeat was sent that it has answered.
    answered: Option<Millis>,
    /// How much of the log it has for sure.
    durable: Option<Offset>,
}

impl Reign {
    pub(super) fn term(&self) -> Term {
        self.term
    }

    /// What a majority has, if that is all that earlier terms left.
    pub(super) fn safe(&self) -> Option<Offset> {
        self.safe
    }

    /// Until when the lease holds, if a majority has ever answered.
    pub(super) fn lease_until(
        &self,
        view: &ShardView,
        settings: &Settings,
        me: NodeId,
    ) -> Option<Millis> {
        let answered = |node: NodeId| {
            if node == me { Some(Millis::MAX) } else { self.followers.get(&node)?.answered }
        };
        let sent = view.reached_by_majority(answered)?;
        Some(sent.saturating_add(settings.lease))
    }
}

impl Member {
    /// The map calls this node the primary.
    pub(super) fn take_reign(&mut self, view: &ShardView) {
        let (me, end) = (self.state.node, self.end);
        if let Role::Reigning(reign) = &mut self.role {
            if reign.members != view.members {
                reign.members = view.members.clone();
                reign.unsettled = Some(end);
            }
            reign.followers.retain(|node, _| view.followers(me).any(|other| other == *node));
            reign.dismissals.retain(|node| view.members.contains(node));
            self.advance_safe();
            return;
        }
        if self.promised() != view.term || matches!(self.role, Role::Abdicated(_)) {
            return;
        }
        // Behind a restart the log may lack what members have of this term: another one begins.
        let may_begin = self.whole_history().is_some_and(|history| !history.contains(view.term));
        if !may_begin {
            self.abdicate(view.term);
            return;
        }
        self.be_idle();
        self.change_own().log.history.begin(view.term, end);
        self.role = Role::Reigning(Reign {
            term: view.term,
            start: end,
            unsettled: Some(end),
            members: view.members.clone(),
            followers: BTreeMap::new(),
            safe: None,
            last_heartbeat: None,
            dismissals: BTreeSet::new(),
        });
        self.actions.push(Action::Reign { term: view.term, start: end });
        self.tick_reign();
        self.advance_safe();
    }

    /// Heartbeats, and members that come and go.
    pub(super) fn tick_reign(&mut self) {
        let (now, period) = (self.now, self.settings.heartbeat_period());
        let Role::Reigning(reign) = &mut self.role else { return };
        let term = reign.term;
        if reign.last_heartbeat.is_none_or(|at| now >= at + period) {
            reign.last_heartbeat = Some(now);
            self.tell_members(term, &Body::Heartbeat { sent: now });
        }
        self.change_members();
    }

    /// Asks for the next change of the members, if one is due and may be.
    fn change_members(&mut self) {
        let (Role::Reigning(reign), Some(view)) = (&self.role, &self.shard) else { return };
        // Until what was safe by the members before is safe by these, the next ones may lack it.
        if reign.unsettled.is_some() {
            return;
        }
        let is_in_sync = |node: &&NodeId| {
            reign.followers.get(node).is_some_and(|follower| follower.durable >= reign.safe)
        };
        let (shard, version) = (view.id, view.version);
        let dismissed = reign.dismissals.iter().next();
        let entry = match (dismissed, view.joining.iter().find(is_in_sync)) {
            (Some(node), _) => MapEntry::Dismiss { shard, node: *node, version },
            (None, Some(node)) => MapEntry::Admit { shard, node: *node, version },
            (None, None) => return,
        };
        self.actions.push(Action::Propose(entry));
    }

    /// The operator wants a member out of the shard; this node is not let go while it reigns.
    pub(super) fn want_dismissal(&mut self, node: NodeId) {
        let is_member = self.shard.as_ref().is_some_and(|view| view.members.contains(&node));
        if let Role::Reigning(reign) = &mut self.role
            && is_member
            && node != self.state.node
        {
            reign.dismissals.insert(node);
        }
    }

    /// A member has answered, or has more of the log.
    pub(super) fn acknowledged(
        &mut self,
        from: NodeId,
        term: Term,
        sent: Option<Millis>,
        durable: Option<Offset>,
    ) {
        let Role::Reigning(reign) = &mut self.role else { return };
        if reign.term != term {
            return;
        }
        let follower = reign.followers.entry(from).or_default();
        follower.answered = follower.answered.max(sent);
        follower.durable = follower.durable.max(durable);
        self.advance_safe();
    }

    /// What a majority has now is safe.
    pub(super) fn advance_safe(&mut self) {
        let (me, durable) = (self.state.node, self.durable);
        let (Role::Reigning(reign), Some(view)) = (&mut self.role, &self.shard) else { return };
        let has = |node: NodeId| {
            if node == me { Some(durable) } else { reign.followers.get(&node)?.durable }
        };
        let reached = view.reached_by_majority(has).filter(|offset| *offset >= reign.start);
        let Some(offset) = reached else { return };
        reign.unsettled.take_if(|end| *end <= offset);
        if Some(offset) > reign.safe {
            reign.safe = Some(offset);
            self.actions.push(Action::Release { offset });
        }
    }
}
