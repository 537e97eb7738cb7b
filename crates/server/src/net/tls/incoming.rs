//! Encrypted connections that a thread of its own serves, as that of HTTP does.
//!
//! Invariant: a handshake that fails or lasts is counted as any other, and its peer gets no stream.

use std::io;
use std::time::Duration;

use tls::Session;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::handshakes::agree_on;
use super::room::{Tls, TlsCounters};
use super::stream::TlsStream;

impl Tls {
    /// Agrees on keys with a client that has connected, within so much time.
    pub(crate) async fn receive(
        &self,
        socket: TcpStream,
        patience: Duration,
    ) -> io::Result<Box<TlsStream>> {
        let Some(contexts) = self.contexts() else {
            return Err(io::Error::other("TLS is not configured"));
        };
        let session = Session::serve(&contexts.server).map_err(io::Error::other)?;
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
