//! A member promises terms, and keeps quiet while a primary relies on it.
//!
//! Invariants: promises rise; behind one, nothing of an earlier term goes on here.

use cluster::NodeId;

use super::{Member, Role};
use crate::message::Body;
use crate::position::{ShardVersion, Term};

impl Member {
    /// A coordinator asks for a promise.
    pub(super) fn asked_to_promise(&mut self, from: NodeId, term: Term, version: ShardVersion) {
        let promised = self.promised();
        if term < promised {
            self.send(from, promised, Body::Refusal);
            return;
        }
        if term > promised {
            if self.is_quiet() {
                return;
            }
            self.promise(term);
        }
        let position = self.durable_position();
        self.send(from, term, Body::Promise { version, position });
    }

    /// Whether a primary may rely on this member: the primary itself on its lease, or another one
    /// on an answer to its heartbeat. The coordinator asks again.
    fn is_quiet(&self) -> bool {
        self.now < self.quiet.until || self.served_until().is_some_and(|until| self.now < until)
    }

    /// Nothing of an earlier term is acknowledged from now on.
    pub(super) fn promise(&mut self, term: Term) {
        self.be_idle();
        self.change_own().promised = term;
    }

    /// The primary of a term serves nothing any more, and never will in that term.
    pub(super) fn primary_released(&mut self, term: Term) {
        self.released = self.released.max(term);
        if self.quiet.term <= term {
            self.quiet.until = self.now;
        }
    }

    /// A member tells a primary of a later term. The members that promised that one are lost for
    /// this primary, so a term is begun that all can promise.
    pub(super) fn refused(&mut self, from: NodeId, promised: Term) {
        let is_member = self.shard.as_ref().is_some_and(|view| view.members.contains(&from));
        let is_later = self.reigns().is_some_and(|term| term < promised);
        if is_member && is_later {
            self.step_down();
        }
    }

    /// Ends the reign of this node before another one has begun.
    pub(super) fn step_down(&mut self) {
        if let Some(term) = self.reigns() {
            self.be_idle();
            self.abdicate(term);
        }
    }

    /// The term of this node is over, whether it began or not.
    pub(super) fn abdicate(&mut self, term: Term) {
        self.role = Role::Abdicated(term);
        self.tell_members(term, &Body::Release);
    }
}
