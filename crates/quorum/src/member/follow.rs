//! A member follows the primary of the term that it has promised.
//!
//! Invariants: a stream is taken only where the log is a beginning of the primary's; what a member
//! acknowledges is in the primary's log of that very term, and at least all that earlier terms
//! left there; a log stays what it is until the one that takes its place is there for sure.

use cluster::NodeId;

use super::{Action, Member, Quiet, Role};
use crate::history::History;
use crate::message::Body;
use crate::position::{Millis, Offset, Position, Term};
use crate::state::LogRecord;

/// A primary that is followed.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) primary: NodeId,
    term: Term,
    stream: Stream,
}

/// How the log of this member is to become the primary's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    /// The primary was asked.
    Asked,
    /// All data come, to take the place of what is here.
    Receiving,
    /// The log is a beginning of the primary's, and grows by its stream.
    Aligned,
}

impl Following {
    pub(super) fn has_stream(&self) -> bool {
        self.stream != Stream::Asked
    }
}

impl Member {
    /// A primary of a term says that it is there.
    pub(super) fn heard_primary(&mut self, primary: NodeId, term: Term, sent: Millis) {
        let promised = self.promised();
        if term < promised {
            self.send(primary, promised, Body::Refusal);
            return;
        }
        if primary == self.state.node || self.reigns() == Some(term) {
            return;
        }
        if term > promised {
            self.promise(term);
        }
        if !matches!(self.role, Role::Following(_)) {
            self.be_idle();
            self.role = Role::Following(Following { primary, term, stream: Stream::Asked });
        }
        if term > self.released {
            self.quiet = Quiet { term, until: self.now + self.settings.patience() };
        }
        self.acknowledge(primary, Some(sent));
        self.ask_for_stream();
    }

    /// Asks the primary for its stream, as long as there is none.
    fn ask_for_stream(&mut self) {
        let Role::Following(following) = &self.role else { return };
        if following.stream == Stream::Asked {
            let (primary, term) = (following.primary, following.term);
            let position = self.whole_history().and_then(|history| history.position(self.end));
            self.send(primary, term, Body::AskStream { position });
        }
    }

    /// Tells the primary what is here of its log, and which heartbeat has come.
    pub(super) fn acknowledge(&mut self, primary: NodeId, sent: Option<Millis>) {
        let Role::Following(following) = &self.role else { return };
        let term = following.term;
        let is_aligned = following.stream == Stream::Aligned;
        let position = self.durable_position().filter(|_| is_aligned);
        let durable = position.filter(|position| position.term == term);
        let durable = durable.map(|position| position.offset);
        if sent.is_some() || durable.is_some() {
            self.send(primary, term, Body::Ack { sent, durable });
        }
    }

    /// The primary gives its stream.
    pub(super) fn stream_given(
        &mut self,
        from: NodeId,
        term: Term,
        history: History,
        is_full: bool,
    ) {
        let is_whole = self.own().is_some_and(|own| own.is_whole);
        let Role::Following(following) = &mut self.role else { return };
        let is_asked = following.stream == Stream::Asked;
        // What was said of an earlier log of this member does not hold for one with holes.
        let is_good = is_full || is_whole;
        if following.primary != from || following.term != term || !is_asked || !is_good {
            return;
        }
        following.stream = if is_full { Stream::Receiving } else { Stream::Aligned };
        let own = self.change_own();
        let generation = if is_full {
            let last = own.incoming.as_ref().map_or(own.log.generation, |log| log.generation);
            own.incoming = Some(LogRecord { generation: last + 1, history });
            Some(last + 1)
        } else {
            own.log.history = history;
            None
        };
        self.actions.push(Action::TakeStream { primary: from, term, generation });
    }

    /// All data of a primary are here, in the place of what was.
    pub(super) fn data_received(&mut self, term: Term, end: Offset) {
        let Role::Following(following) = &mut self.role else { return };
        if following.term != term || following.stream != Stream::Receiving {
            return;
        }
        following.stream = Stream::Aligned;
        let primary = following.primary;
        (self.end, self.durable) = (end, end);
        let own = self.change_own();
        own.take_incoming();
        self.generation = own.log.generation;
        self.acknowledge(primary, None);
    }

    /// The stream of a term breaks off; the next heartbeat has the primary asked again.
    pub(super) fn stream_lost(&mut self, term: Term) {
        if let Role::Following(following) = &mut self.role
            && following.term == term
        {
            following.stream = Stream::Asked;
        }
    }

    /// A member asks this primary for its stream.
    pub(super) fn asked_for_stream(
        &mut self,
        from: NodeId,
        term: Term,
        position: Option<Position>,
    ) {
        let is_follower = self
            .shard
            .as_ref()
            .is_some_and(|view| view.followers(self.state.node).any(|node| node == from));
        if self.reigns() != Some(term) || !is_follower {
            return;
        }
        let Some(own) = self.own() else { return };
        let is_beginning =
            position.is_some_and(|position| own.log.history.continues(self.end, position));
        let body = Body::Stream { history: own.log.history.clone(), is_full: !is_beginning };
        self.send(from, term, body);
    }
}
