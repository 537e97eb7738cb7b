//! A node's part in its shard: events in, actions out.
//!
//! `Member::start` takes what the file said and what the log has. From then on `Member::take_map`
//! takes the map whenever an entry was applied, and `Member::handle` one event at a time. The
//! driver asks `Member::served_until` after each of them: the gate lets commands pass until then.
//!
//! Invariants: what is told of a promise, of a term or of wholeness is on disk before; behind a
//! promise nothing of an earlier term is appended, acknowledged or served; a member promises
//! nothing while a primary may rely on its answer to a heartbeat; what a member says to have is the
//! log of that term's primary, for sure.

mod event;
mod follow;
mod promise;
mod reign;

use std::collections::BTreeSet;

use cluster::{NodeId, ShardId};

pub use self::event::{Action, Event, FoundLog};
use self::follow::Following;
use self::reign::Reign;
use crate::history::History;
use crate::map::{ClusterMap, Shard};
use crate::message::{Body, Message};
use crate::position::{Millis, Offset, Position, ShardVersion, Term};
use crate::settings::Settings;
use crate::state::{LogRecord, MemberState, Membership};

/// A node's part in its shard.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    now: Millis,
    state: MemberState,
    is_state_new: bool,
    /// The shard, as the map has it that was taken last.
    shard: Option<ShardView>,
    role: Role,
    /// Which log of this node is in use.
    generation: u64,
    /// The length of the log.
    end: Offset,
    /// How much of it is there for sure.
    durable: Offset,
    quiet: Quiet,
    /// The last term whose primary has said that it serves no more: heartbeats of it that come
    /// later count for nothing.
    released: Term,
    actions: Vec<Action>,
}

/// What a member goes by of its shard.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ShardView {
    id: ShardId,
    members: BTreeSet<NodeId>,
    joining: BTreeSet<NodeId>,
    term: Term,
    primary: Option<NodeId>,
    version: ShardVersion,
}

/// What a member is at.
#[derive(Debug)]
enum Role {
    /// No primary is followed.
    Idle,
    Following(Following),
    Reigning(Reign),
    /// The term of this node is over before another one has begun: all members are told.
    Abdicated(Term),
}

/// Until when no other term is promised.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    /// The term whose primary may rely on that, or an earlier one.
    term: Term,
    until: Millis,
}

impl Member {
    /// A member that goes on where `state` ends. `found` is the log, if it has all that was ever
    /// told to be durable.
    pub fn start(
        settings: Settings,
        state: MemberState,
        found: Option<FoundLog>,
        now: Millis,
    ) -> (Member, Vec<Action>) {
        let promised = state.membership.as_ref().map_or(Term(0), |own| own.promised);
        let until = now + settings.patience();
        let end = found.map_or(0, |log| log.end);
        let mut member = Member {
            settings,
            now,
            state,
            is_state_new: false,
            shard: None,
            role: Role::Idle,
            generation: found.map_or(0, |log| log.generation),
            end,
            durable: end,
            // A heartbeat may have been answered right before the start.
            quiet: Quiet { term: promised, until },
            released: Term(0),
            actions: Vec::new(),
        };
        member.find(found);
        let actions = member.finish();
        (member, actions)
    }

    /// Takes one event.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Tick => self.tick(),
            Event::Received { from, message } => self.received(from, message),
            Event::Appended { end } => self.end = end,
            Event::Durable { offset } => self.became_durable(offset),
            Event::DataReceived { term, end } => self.data_received(term, end),
            Event::StreamLost { term } => self.stream_lost(term),
            Event::StepDown => self.step_down(),
            Event::Dismiss { node } => self.want_dismissal(node),
        }
        self.finish()
    }

    /// Takes the map, as it is behind one entry more, or many.
    pub fn take_map(&mut self, now: Millis, map: &ClusterMap) -> Vec<Action> {
        self.now = now;
        let view = map.shard_of(self.state.node).map(|(id, shard)| ShardView::new(id, shard));
        self.shard = view;
        match self.shard.clone() {
            Some(view) => self.take_shard(&view),
            None => self.be_idle(),
        }
        self.finish()
    }

    /// The name of this node.
    pub fn node(&self) -> NodeId {
        self.state.node
    }

    /// Until when commands are served here, if they are: a majority answered, and has all that
    /// earlier terms left.
    pub fn served_until(&self) -> Option<Millis> {
        let (Role::Reigning(reign), Some(view)) = (&self.role, &self.shard) else { return None };
        reign.safe()?;
        reign.lease_until(view, &self.settings, self.state.node)
    }

    /// The term in which this node is the primary, if it is.
    pub fn reigns(&self) -> Option<Term> {
        match &self.role {
            Role::Reigning(reign) => Some(reign.term()),
            _ => None,
        }
    }

    /// What the coordinator is to be told: nothing but by the node that the map calls primary.
    pub fn report(&self) -> Option<Message> {
        let view = self.shard.as_ref().filter(|view| view.primary == Some(self.state.node))?;
        let lease_until = match &self.role {
            Role::Reigning(reign) => reign.lease_until(view, &self.settings, self.state.node),
            _ => None,
        };
        let wants_election = self.reigns() != Some(view.term);
        let holds_lease = lease_until.is_some_and(|until| self.now < until);
        let body = Body::Report { holds_lease, wants_election };
        Some(Message { shard: view.id, term: view.term, body })
    }

    /// Which of the two logs was found, if any.
    fn find(&mut self, found: Option<FoundLog>) {
        let before = self.state.membership.clone();
        let Some(own) = &mut self.state.membership else { return };
        let generation = found.map(|log| log.generation);
        if own.incoming.as_ref().is_some_and(|log| Some(log.generation) == generation) {
            own.take_incoming();
        }
        own.is_whole &= Some(own.log.generation) == generation;
        self.is_state_new = before != self.state.membership;
    }

    fn take_shard(&mut self, view: &ShardView) {
        let me = self.state.node;
        if self.own().is_none_or(|own| own.shard != view.id) {
            self.be_idle();
            // Before the first term all data of the shard are those of the node that founds it.
            let is_founder = view.term == Term(0) && view.members.contains(&me);
            self.state.membership = Some(Membership {
                shard: view.id,
                promised: view.term,
                is_whole: is_founder,
                log: LogRecord { generation: self.generation, history: History::default() },
                incoming: None,
            });
            self.is_state_new = true;
        }
        if view.term > self.promised() {
            self.promise(view.term);
        }
        if view.primary == Some(me) {
            self.take_reign(view);
        }
    }

    fn received(&mut self, from: NodeId, message: Message) {
        let Message { shard, term, body } = message;
        if self.shard.as_ref().is_none_or(|view| view.id != shard) {
            return;
        }
        match body {
            Body::AskPromise { version } => self.asked_to_promise(from, term, version),
            Body::Heartbeat { sent } => self.heard_primary(from, term, sent),
            Body::Ack { sent, durable } => self.acknowledged(from, term, sent, durable),
            Body::AskStream { position } => self.asked_for_stream(from, term, position),
            Body::Stream { history, is_full } => self.stream_given(from, term, history, is_full),
            Body::Release => self.primary_released(term),
            Body::Refusal => self.refused(from, term),
            // For the coordinator.
            Body::Promise { .. } | Body::Report { .. } => {}
        }
    }

    fn tick(&mut self) {
        match &self.role {
            Role::Reigning(_) => self.tick_reign(),
            Role::Abdicated(term) => self.tell_members(*term, &Body::Release),
            Role::Idle | Role::Following(_) => {}
        }
    }

    fn became_durable(&mut self, offset: Offset) {
        self.durable = offset;
        match &self.role {
            Role::Reigning(_) => self.advance_safe(),
            Role::Following(following) => self.acknowledge(following.primary, None),
            Role::Idle | Role::Abdicated(_) => {}
        }
    }

    /// Where the log stands for sure; nowhere if something may be missing in between.
    fn durable_position(&self) -> Option<Position> {
        self.whole_history()?.position(self.durable)
    }

    fn whole_history(&self) -> Option<&History> {
        self.own().filter(|own| own.is_whole).map(|own| &own.log.history)
    }

    fn own(&self) -> Option<&Membership> {
        self.state.membership.as_ref()
    }

    /// The part in the shard, to be changed: it is persisted then.
    fn change_own(&mut self) -> &mut Membership {
        self.is_state_new = true;
        self.state.membership.as_mut().expect("a node in a shard has a part in it")
    }

    fn promised(&self) -> Term {
        self.own().map_or(Term(0), |own| own.promised)
    }

    /// Ends whatever the node is at.
    fn be_idle(&mut self) {
        match std::mem::replace(&mut self.role, Role::Idle) {
            Role::Reigning(_) => self.actions.push(Action::Abdicate),
            Role::Following(following) if following.has_stream() => {
                self.actions.push(Action::CutStream);
            }
            Role::Idle | Role::Following(_) | Role::Abdicated(_) => {}
        }
    }

    fn send(&mut self, to: NodeId, term: Term, body: Body) {
        if let Some(view) = &self.shard {
            let message = Message { shard: view.id, term, body };
            self.actions.push(Action::Send { to, message });
        }
    }

    /// Tells all that follow, or should.
    fn tell_members(&mut self, term: Term, body: &Body) {
        let Some(view) = &self.shard else { return };
        let others: Vec<NodeId> = view.followers(self.state.node).collect();
        others.into_iter().for_each(|other| self.send(other, term, body.clone()));
    }

    /// The list of what is to be done, with the state before all else.
    fn finish(&mut self) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        if std::mem::take(&mut self.is_state_new) {
            actions.insert(0, Action::Persist(self.state.clone()));
        }
        actions
    }
}

impl ShardView {
    fn new(id: ShardId, shard: &Shard) -> ShardView {
        ShardView {
            id,
            members: shard.members.clone(),
            joining: shard.joining.clone(),
            term: shard.term,
            primary: shard.primary,
            version: shard.version,
        }
    }

    /// All nodes of the shard but this one.
    fn followers(&self, me: NodeId) -> impl Iterator<Item = NodeId> {
        self.members.iter().chain(&self.joining).copied().filter(move |node| *node != me)
    }

    /// Of the figures of members the greatest that a majority has reached, where those that have
    /// none count as lower than all.
    fn reached_by_majority<F: Ord + Copy>(
        &self,
        figure: impl Fn(NodeId) -> Option<F>,
    ) -> Option<F> {
        let mut figures: Vec<Option<F>> = self.members.iter().map(|node| figure(*node)).collect();
        figures.sort_unstable_by(|one, other| other.cmp(one));
        figures.get(self.members.len() / 2).copied().flatten()
    }
}
