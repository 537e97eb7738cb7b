//! Nodes that are to be forgotten, and a node that forgets all.
//!
//! Invariant: a node that was forgotten is not learnt of by gossip until its ban is over.

use super::admin_error::AdminError;
use super::event::Millis;
use super::node::{Node, Role};
use super::slot_handover::Handovers;
use super::{Cluster, Save};
use crate::id::{NodeId, ShardId};
use crate::nodes_file::OpenSlot;
use crate::slots::SlotSet;

/// So many bans are kept: peers may name any node.
const BANNED_MAX: usize = 4096;

impl Cluster {
    /// CLUSTER FORGET.
    pub(super) fn forget_node(&mut self, id: NodeId) -> Result<(), AdminError> {
        if !self.nodes.contains_key(&id) {
            let is_banned = self.blacklist.contains_key(&id);
            return if is_banned { Ok(()) } else { Err(AdminError::UnknownNode(id)) };
        }
        if id == self.me {
            return Err(AdminError::ForgetMyself);
        }
        if self.own().primary() == Some(id) {
            return Err(AdminError::ForgetPrimary);
        }
        self.ban(id, self.settings.blacklist_ttl);
        self.forget(id);
        Ok(())
    }

    /// Another node tells that a node was forgotten there, for so many seconds more.
    pub(super) fn process_forgotten(&mut self, forgotten: &[(NodeId, u64)]) {
        for (id, seconds) in forgotten {
            let is_kept = *id == self.me || self.own().primary() == Some(*id);
            if !is_kept && self.nodes.contains_key(id) {
                let most = self.settings.blacklist_ttl;
                self.ban(*id, seconds.saturating_mul(1000).min(most));
                self.forget(*id);
            }
        }
    }

    /// What other nodes are to be told of bans, in seconds.
    pub(super) fn forgotten_nodes(&self) -> Vec<(NodeId, u64)> {
        let now = self.now();
        self.blacklist
            .iter()
            .map(|(id, ends)| (*id, ends.saturating_sub(now).div_ceil(1000)))
            .collect()
    }

    /// Ends bans that have lasted long enough.
    pub(super) fn expire_blacklist(&mut self) {
        let now = self.now();
        self.blacklist.retain(|_, ends| *ends > now);
    }

    fn ban(&mut self, id: NodeId, length: Millis) {
        if self.blacklist.len() < BANNED_MAX {
            self.blacklist.insert(id, self.now() + length);
        }
    }

    /// Drops all that is known of a node, and its links.
    fn forget(&mut self, id: NodeId) {
        self.drop_link_to(id);
        let Some(gone) = self.nodes.remove(&id) else { return };
        if let Some(inbound) = gone.inbound {
            self.close(inbound);
        }
        for node in self.nodes.values_mut() {
            node.reports.remove(&id);
            if node.primary() == Some(id) {
                node.role = Role::Replica(None);
            }
        }
        self.open.retain(|_, open| {
            let (OpenSlot::Migrating(peer) | OpenSlot::Importing(peer)) = open;
            *peer != id
        });
        self.save(Save::Written);
    }

    /// CLUSTER RESET.
    pub(super) fn reset(&mut self, is_hard: bool, has_keys: bool) -> Result<(), AdminError> {
        if self.is_primary() && has_keys {
            return Err(AdminError::ResetHasKeys);
        }
        if !self.is_primary() {
            self.become_primary();
            self.own_mut().shard = ShardId(NodeId::random(&mut self.random));
        }
        self.forget_failover();
        self.open.clear();
        self.handovers = Handovers::default();
        self.confirmation.forget_claims();
        for id in self.others() {
            self.forget(id);
        }
        for (_, handshake) in std::mem::take(&mut self.handshakes) {
            if let Some(link) = handshake.link {
                self.close(link);
            }
        }
        self.blacklist.clear();
        let own = self.own_mut();
        (own.slots, own.unclaimed) = (SlotSet::empty(), SlotSet::empty());
        if is_hard {
            self.hard_reset();
        }
        self.save(Save::Synced);
        Ok(())
    }

    /// A new name, and no epoch.
    fn hard_reset(&mut self) {
        (self.current_epoch, self.last_vote_epoch) = (0, 0);
        let place = self.own().place;
        self.nodes.remove(&self.me);
        self.me = NodeId::random(&mut self.random);
        let shard = ShardId(NodeId::random(&mut self.random));
        self.nodes.insert(self.me, Node::new(place, shard, Role::Primary));
        self.take_settings();
        self.log(format!("Node hard reset, now I'm {}", self.me));
    }
}
