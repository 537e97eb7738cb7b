//! Encrypted connections that a thread of its own serves, as those of HTTP and of the bus of a
//! cluster do.
//!
//! Invariant: a handshake that fails or lasts is counted as any other, and its peer gets no stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tls::{Contexts, Session};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::handshakes::agree_on;
use super::state::{Tls, TlsCounters};
use super::stream::TlsStream;

impl Tls {
    /// Agrees on keys with a client that has connected, within so much time.
    pub(crate) async fn receive(
        &self,
        socket: TcpStream,
        patience: Duration,
    ) -> io::Result<Box<TlsStream>> {
        let contexts = self.configured()?;
        self.agree(socket, patience, Session::serve(&contexts.server)).await
    }

    /// The same with another node of the cluster, which must show a certificate.
    pub(crate) async fn receive_node(
        &self,
        socket: TcpStream,
        patience: Duration,
    ) -> io::Result<Box<TlsStream>> {
        let contexts = self.configured()?;
        let Some(bus) = &contexts.bus else {
            return Err(io::Error::other("there are no authorities to know nodes by"));
        };
        self.agree(socket, patience, Session::serve(bus)).await
    }

    fn configured(&self) -> io::Result<Arc<Contexts>> {
        self.contexts().ok_or_else(|| io::Error::other("TLS is not configured"))
    }

    async fn agree(
        &self,
        socket: TcpStream,
        patience: Duration,
        session: Result<Session, tls::Fault>,
    ) -> io::Result<Box<TlsStream>> {
        let session = session.map_err(io::Error::other)?;
        let agreed = timeout(patience, agree_on(&socket, session)).await;
        let outcome = match &agreed {
            Ok(Ok((session, ..))) if session.is_resumed() => &self.counters.resumed,
            Ok(Ok(_)) => &self.counters.full,
            Ok(Err(_)) => &self.counters.failed,
            Err(_) => &self.counters.timed_out,
        };
        TlsCounters::count(outcome);
        let (session, incoming, opened) = agreed.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(Box::new(TlsStream::new(socket, session, incoming, opened)))
    }
}
