//! A primary that is watched anew: at another address, or with nothing known about it.
//!
//! Invariant: neither the configuration epoch nor the vote is lost.

use crate::Millis;
use crate::address::{Address, AddressFault};
use crate::context::Context;
use crate::failover::{Failover, Stage};
use crate::info::Role;
use crate::instance::{Down, Node};
use crate::notice::Level;
use crate::primary::Primary;

/// What becomes of the other Sentinels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    Keep,
    Forget,
}

impl Primary {
    /// Forgets all that was seen of the primary, and its replicas.
    pub(crate) fn reset(&mut self, context: &mut Context, peers: Peers) {
        for replica in std::mem::take(&mut self.replicas).into_values() {
            context.release(replica.instance.link);
        }
        if peers == Peers::Forget {
            for peer in std::mem::take(&mut self.peers).into_values() {
                context.release(peer.instance.link);
            }
        }
        let head = &mut self.head;
        context.close_all(head.instance.link);
        let now: Millis = context.now;
        let link = context.links.get_mut(head.instance.link);
        (link.ping_since, link.ping_at) = (Some(now), None);
        (link.well_at, link.answer_at, link.tried_at) = (now, now, None);
        head.instance.subjective = Down::default();
        head.instance.is_script_killed = false;
        head.objective = Down::default();
        head.leader = None;
        head.failover = Failover { epoch: head.failover.epoch, ..Failover::none() };
        head.node = Node::new(Role::Primary, now);
    }

    /// Watches another address: the old primary and all old replicas are its replicas now.
    pub(crate) fn change_address(&mut self, context: &mut Context, to: Address) {
        let mut replicas: Vec<Address> =
            self.replicas.values().map(|replica| replica.instance.address.clone()).collect();
        replicas.push(self.head.instance.address.clone());
        replicas.retain(|address| !address.is_same(&to));
        self.reset(context, Peers::Keep);
        self.head.instance.address = to;
        for address in replicas {
            self.add_new_replica(context, &address);
        }
        context.persist();
    }

    /// Adds a replica and says so.
    pub(crate) fn add_new_replica(&mut self, context: &mut Context, address: &Address) {
        if self.add_replica(context, address.clone()) {
            let added = self.replicas.values().find(|it| it.instance.address.is_same(address));
            let text = added.map(|replica| self.head.replica_text(replica, context));
            context.notify(Level::Notice, "+slave", text.expect("it was just added"));
            context.persist();
        }
    }

    /// The end of a failover: the promoted replica is the primary.
    pub(crate) fn switch_to_promoted(&mut self, context: &mut Context) {
        debug_assert!(matches!(self.head.failover.stage, Stage::UpdateConfig(_)));
        let to = self.current_address().clone();
        self.announce_switch(context, &to);
        self.change_address(context, to);
    }

    /// `+switch-master`, the event that clients wait for.
    pub(crate) fn announce_switch(&self, context: &mut Context, to: &Address) {
        let from = self.head.place(context);
        let text = format!("{from} {} {}", context.shown(to), to.port);
        self.head.warn(context, "+switch-master", text);
    }
}

impl Context {
    /// The address of a host and a port that another instance has named.
    pub(crate) fn address_of(&mut self, host: &str, port: u16) -> Result<Address, AddressFault> {
        let now = self.now;
        self.hosts.resolved(host, port, now)
    }
}
