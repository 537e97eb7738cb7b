//! Encrypted connections that this server makes: links to primaries, and those of a Sentinel.
//!
//! Invariant: nothing of the stream is sent before the peer has shown a certificate that is
//! trusted.

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use tls::{NamedContext, Session};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::handshakes::agree_on;
use super::state::Tls;
use super::stream::{PlaintextSink, TlsStream};

impl Tls {
    /// Agrees on keys with a server that was connected to.
    pub(crate) async fn connect(&self, socket: TcpStream) -> io::Result<Box<TlsStream>> {
        let Some(contexts) = self.contexts() else {
            return Err(io::Error::other("TLS is not configured"));
        };
        let session = Session::connect(&contexts.client).map_err(io::Error::other)?;
        Self::finish_handshake(socket, session).await
    }

    /// The same with a server of another kind, whose certificate must be of this host.
    pub(crate) async fn connect_to(
        context: &NamedContext,
        host: &str,
        socket: TcpStream,
    ) -> io::Result<Box<TlsStream>> {
        let session = Session::connect_to(context, host).map_err(io::Error::other)?;
        Self::finish_handshake(socket, session).await
    }

    async fn finish_handshake(socket: TcpStream, session: Session) -> io::Result<Box<TlsStream>> {
        let (session, incoming, opened) = agree_on(&socket, session).await?;
        Ok(Box::new(TlsStream::new(socket, session, incoming, opened)))
    }
}

impl PlaintextSink for ReadBuf<'_> {
    fn room(&self) -> usize {
        self.remaining()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Self::poll_read(self.get_mut(), cx, into))?;
        Poll::Ready(Ok(()))
    }
}

/// What is pending is given again, as `write_all` does.
impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(self.get_mut(), cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.get_mut().say_goodbye();
        Poll::Ready(Ok(()))
    }
}
