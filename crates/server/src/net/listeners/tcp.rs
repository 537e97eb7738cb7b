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

use super::{Bound, ListenerTask, Order, Protocol, Wanted, addresses, bind_all, start_accepting};
use crate::net::network::Network;

/// How long a socket that could not be opened again is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The sockets that listen, each with a task that accepts on it.
pub(super) struct TcpListeners {
    /// What `port` says; 0 may stand for a port that the system chose.
    configured_port: u16,
    pub(super) listening: Vec<ListenerTask>,
    reserved: Option<Reserved>,
    /// What was closed for something else, and could not be opened again yet.
    lost: Vec<Wanted>,
}

/// What stands ready to be listened on.
struct Reserved {
    configured_port: u16,
    bound: Vec<Bound>,
    /// What goes if it is finished so, and is still there.
    leaving: Vec<SocketAddr>,
    /// What had to be closed first.
    closed: Vec<Wanted>,
}

impl TcpListeners {
    /// None yet.
    pub(super) fn at(configured_port: u16) -> Self {
        Self { configured_port, listening: Vec::new(), reserved: None, lost: Vec::new() }
    }

    /// The port, if there is any.
    pub(super) fn port(&self) -> Option<u16> {
        self.listening.first().map(|(address, _)| address.port())
    }

    pub(super) fn publish_port(&self, server: &Network) {
        server.identity.set_port(self.port().unwrap_or(0));
    }

    /// Carries out orders, for ever.
    pub(super) async fn carry_out(
        mut self,
        server: &'static Network,
        mut orders: UnboundedReceiver<Order>,
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
            // Who asked and is gone needs no answer.
            match order {
                None => return,
                Some(Order::Reserve { port, binds, answer }) => {
                    let reserved = self.reserve(server, port, binds).await;
                    let reserved = reserved.map_err(|why| log_warning!(server.log, "{why}"));
                    let _ = answer.send(reserved);
                }
                Some(Order::Finish { keeps, answer }) => {
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
        configured_port: u16,
        binds: Vec<BindAddress>,
    ) -> Result<(), String> {
        // Whoever reserved before did not live to finish it.
        self.finish(server, false).await;
        let port = match (configured_port, self.configured_port) {
            (0, 0) => self.port(),
            (0, _) => None,
            (port, _) => Some(port),
        };
        let mut wanted = port.map_or(Ok(Vec::new()), |port| addresses(binds, port))?;
        let is_wanted = |address: &SocketAddr| wanted.iter().any(|it| it.address == *address);
        let there = self.listening.iter().map(|(address, _)| *address);
        let (_, mut leaving): (Vec<_>, Vec<_>) = there.partition(is_wanted);
        wanted.retain(|it| self.listening.iter().all(|(address, _)| *address != it.address));
        let mut closed = Vec::new();
        let bound = match bind_all(server, &wanted) {
            Err((_, true)) if leaving.iter().any(|it| Some(it.port()) == port) => {
                // All of an address' ports and one of them exclude each other.
                let rivals = |address: &SocketAddr| Some(address.port()) == port;
                closed = self.close(leaving.extract_if(.., |it| rivals(it)).collect()).await;
                bind_all(server, &wanted)
            }
            bound => bound,
        };
        match bound {
            Ok(bound) => {
                self.reserved = Some(Reserved { configured_port, bound, leaving, closed });
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
        let Some(Reserved { configured_port, bound, leaving, closed }) = self.reserved.take()
        else {
            return;
        };
        if !keeps {
            drop(bound);
            return self.reopen(server, closed);
        }
        self.lost.clear();
        self.listening
            .extend(bound.into_iter().map(|bound| start_accepting(server, bound, Protocol::Redis)));
        self.close(leaving).await;
        self.configured_port = configured_port;
        self.publish_port(server);
    }

    /// Closes some; what they were.
    async fn close(&mut self, leaving: Vec<SocketAddr>) -> Vec<Wanted> {
        let closes = |(address, _): &mut ListenerTask| leaving.contains(address);
        for (_, task) in self.listening.extract_if(.., closes).collect::<Vec<_>>() {
            task.abort();
            // It ends by being aborted, which is told as an error; now its socket is closed.
            let _ = task.await;
        }
        leaving.into_iter().map(|address| Wanted { address, optional: false }).collect()
    }

    fn reopen(&mut self, server: &'static Network, closed: Vec<Wanted>) {
        for wanted in closed {
            match bind_all(server, &[wanted]) {
                Ok(bound) => {
                    let accepting =
                        bound.into_iter().map(|it| start_accepting(server, it, Protocol::Redis));
                    self.listening.extend(accepting);
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
                    let accepting =
                        bound.into_iter().map(|it| start_accepting(server, it, Protocol::Redis));
                    self.listening.extend(accepting);
                }
                Err(_) => self.lost.push(wanted),
            }
        }
    }
}
