//! The TCP sockets by which clients of Redis come in, and how they change.
//!
//! Invariants: what is new is bound before what was there is closed, wherever the two do not
//! exclude each other; where they do and the new one cannot be had, the old one is opened again,
//! and tried for until it is there.

use std::net::SocketAddr;
use std::time::Duration;

use config::BindAddress;
use engine::runtime::log::{log_notice, log_warning};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    BoundSocket, ListenerKind, ListenerOrder, ListenerTask, Ports, RequestedSocket, bind_all,
    start_accepting, wanted_by_redis,
};
use crate::net::network::Network;

/// How long a socket that could not be opened again is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The sockets that listen, each with a task that accepts on it.
pub(super) struct TcpListeners {
    configured: Ports,
    pub(super) listening: Vec<ListenerTask>,
    reserved: Option<ReservedSockets>,
    /// What was closed for something else, and could not be opened again yet.
    lost: Vec<RequestedSocket>,
}

/// What stands ready to be listened on.
struct ReservedSockets {
    configured: Ports,
    bound: Vec<BoundSocket>,
    /// What goes if it is finished so, and is still there.
    leaving: Vec<(SocketAddr, ListenerKind)>,
    /// What had to be closed first.
    closed: Vec<RequestedSocket>,
}

impl TcpListeners {
    /// None yet.
    pub(super) fn at(configured: Ports) -> Self {
        Self { configured, listening: Vec::new(), reserved: None, lost: Vec::new() }
    }

    /// The port, if there is any: the plain one, or else that of TLS.
    pub(super) fn port(&self) -> Option<u16> {
        self.plain_port().or_else(|| self.listening.first().map(|it| it.address.port()))
    }

    pub(super) fn plain_port(&self) -> Option<u16> {
        let plain = self.listening.iter().find(|it| !it.kind.is_encrypted);
        plain.map(|it| it.address.port())
    }

    pub(super) fn publish_port(&self, server: &Network) {
        server.identity.set_port(self.port().unwrap_or(0));
    }

    /// Carries out orders, for ever.
    pub(super) async fn run(
        mut self,
        server: &'static Network,
        mut orders: UnboundedReceiver<ListenerOrder>,
    ) {
        loop {
            let order = match self.lost.is_empty() {
                true => orders.recv().await,
                false => match tokio::time::timeout(RETRY_PAUSE, orders.recv()).await {
                    Ok(order) => order,
                    Err(_) => {
                        self.try_again(server);
                        continue;
                    }
                },
            };
            // A caller that asked and is gone needs no answer.
            match order {
                None => return,
                Some(ListenerOrder::Reserve { ports, binds, answer }) => {
                    let reserved = self.reserve(server, ports, &binds).await;
                    let reserved = reserved.map_err(|why| log_warning!(server.log, "{why}"));
                    let _ = answer.send(reserved);
                }
                Some(ListenerOrder::Finish { keeps, answer }) => {
                    self.finish(server, keeps).await;
                    let _ = answer.send(());
                }
            }
        }
    }

    /// Binds what is wanted and not there yet.
    async fn reserve(
        &mut self,
        server: &'static Network,
        configured: Ports,
        binds: &[BindAddress],
    ) -> Result<(), String> {
        // A caller that reserved before did not live to finish it.
        self.finish(server, false).await;
        let plain = match (configured.plain, self.configured.plain) {
            (0, 0) => self.plain_port(),
            (0, _) => None,
            (port, _) => Some(port),
        };
        let mut wanted = wanted_by_redis(binds, plain, configured.encrypted)?;
        let is_wanted = |there: &(SocketAddr, ListenerKind)| {
            wanted.iter().any(|it| (it.address, it.kind) == *there)
        };
        let there = self.listening.iter().map(|it| (it.address, it.kind));
        let (_, mut leaving): (Vec<_>, Vec<_>) = there.partition(is_wanted);
        let is_new = |it: &RequestedSocket| {
            let mut there = self.listening.iter().map(|it| (it.address, it.kind));
            there.all(|there| there != (it.address, it.kind))
        };
        wanted.retain(is_new);
        // All of an address' ports and one of them exclude each other.
        let is_rival = |(address, _): &mut (SocketAddr, ListenerKind)| {
            wanted.iter().any(|it| it.address.port() == address.port())
        };
        let mut closed = Vec::new();
        let bound = match bind_all(server, &wanted) {
            Err((_, true)) if leaving.iter_mut().any(is_rival) => {
                closed = self.close(leaving.extract_if(.., is_rival).collect()).await;
                bind_all(server, &wanted)
            }
            bound => bound,
        };
        match bound {
            Ok(bound) => {
                self.reserved = Some(ReservedSockets { configured, bound, leaving, closed });
                Ok(())
            }
            Err((why, _)) => {
                self.reopen(server, closed);
                Err(why)
            }
        }
    }

    /// Listens on what was reserved and no longer on what is leaving, or on what there was.
    async fn finish(&mut self, server: &'static Network, keeps: bool) {
        let Some(ReservedSockets { configured, bound, leaving, closed }) = self.reserved.take()
        else {
            return;
        };
        if !keeps {
            drop(bound);
            return self.reopen(server, closed);
        }
        self.lost.clear();
        self.listening.extend(bound.into_iter().map(|bound| start_accepting(server, bound)));
        self.close(leaving).await;
        self.configured = configured;
        self.publish_port(server);
    }

    /// Closes some; what they were.
    async fn close(&mut self, leaving: Vec<(SocketAddr, ListenerKind)>) -> Vec<RequestedSocket> {
        let closes = |it: &mut ListenerTask| leaving.contains(&(it.address, it.kind));
        for ListenerTask { task, .. } in self.listening.extract_if(.., closes).collect::<Vec<_>>() {
            task.abort();
            // The task ends by being aborted, which is told as an error; now its socket is closed.
            let _ = task.await;
        }
        let wanted = |(address, kind)| RequestedSocket { address, kind, optional: false };
        leaving.into_iter().map(wanted).collect()
    }

    fn reopen(&mut self, server: &'static Network, closed: Vec<RequestedSocket>) {
        for wanted in closed {
            match bind_all(server, &[wanted]) {
                Ok(bound) => {
                    self.listening.extend(bound.into_iter().map(|it| start_accepting(server, it)));
                }
                Err((why, _)) => {
                    log_warning!(server.log, "{why}; it will be tried again");
                    self.lost.push(wanted);
                }
            }
        }
    }

    fn try_again(&mut self, server: &'static Network) {
        for wanted in std::mem::take(&mut self.lost) {
            match bind_all(server, &[wanted]) {
                Ok(bound) => {
                    log_notice!(server.log, "Listening on {} again", wanted.address);
                    self.listening.extend(bound.into_iter().map(|it| start_accepting(server, it)));
                }
                Err(_) => self.lost.push(wanted),
            }
        }
    }
}
