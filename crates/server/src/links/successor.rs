//! A primary of a cluster that ends has a replica take over, as Valkey does: the stream tells
//! which.
//!
//! Invariant: nothing is written behind that word.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use engine::runtime::log::log_notice;
use replication::primary::{ReplicaId, Successor};

use super::handle::Links;
use super::replication_state::now_ms;
use super::thread::LinksMessage;
use crate::net::network::Network;

/// So long a replica may take to say that it has all: replicas say each second how far they are.
const ACK_MS: u64 = 2000;

/// So long a replica may take what it is sent.
const SEND_MS: u64 = 1000;

/// Between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

impl Links {
    /// Tells the replica that has all of the stream to take over, if there is one. `may_wait` says
    /// whether a replica that may have all of it soon is waited for.
    pub(crate) fn name_successor(&'static self, server: &'static Network, may_wait: bool) {
        let find = || {
            let core = self.core(server);
            core.primary.successor(core.offset(server))
        };
        let until_ms = now_ms(server) + ACK_MS;
        let mut found = find();
        while found == Successor::Lagging && may_wait && now_ms(server) < until_ms {
            std::thread::sleep(BETWEEN_LOOKS);
            found = find();
        }
        match found {
            Successor::Ready(replica, node) => {
                log_notice!(server.log, "Perform auto failover to replica {node} on shutdown.");
                server.journal.append(&Successor::record(&node));
                server.journal.flush();
                self.await_sent(server, replica);
            }
            Successor::Lagging | Successor::Nobody => log_notice!(
                server.log,
                "Unable to find a replica to perform the auto failover on shutdown."
            ),
            Successor::Legacy => log_notice!(
                server.log,
                "Unable to perform auto failover on shutdown since there are legacy replicas."
            ),
        }
    }

    /// Waits until a replica was sent the stream to its end, as long as a link that works takes.
    fn await_sent(&'static self, server: &'static Network, replica: ReplicaId) {
        let until_ms = now_ms(server) + SEND_MS;
        while now_ms(server) < until_ms {
            let (answer, heard) = sync_channel(1);
            self.send(server, LinksMessage::IsSent { replica, answer });
            if heard.recv_timeout(Duration::from_millis(SEND_MS)) == Ok(true) {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}
