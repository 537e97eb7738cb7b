//! A connection whose client has so long to take what is written to it.
//!
//! Invariant: a write that stands still for longer is an error, which ends the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The connection.
pub(super) struct TimeoutStream<S> {
    stream: S,
    patience: Duration,
    /// The end of the patience with a write that stands still.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    /// A connection by this stream, of which no write stands still for longer than this.
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, end: None }
    }

    fn in_time<T>(
        &mut self,
        cx: &mut TaskContext<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.end = None;
            return written;
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        end.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;

    use super::TimeoutStream;

    #[test]
    fn a_client_that_reads_is_waited_for_and_one_that_does_not_is_left() {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (own, mut other) = tokio::io::duplex(4);
            let mut stream = TimeoutStream::new(own, Duration::from_secs(3600));
            let reader = tokio::spawn(async move {
                let read = other.read_exact(&mut [0; 40]).await;
                read.map(|_| other)
            });
            stream.write_all(&[0; 44]).await.expect("it is read");
            let _other = reader.await.expect("no panic").expect("it is there");
            let mut stream = TimeoutStream::new(stream, Duration::from_millis(1));
            let stands_still = stream.write_all(&[0]).await.expect_err("nobody reads");
            assert_eq!(stands_still.kind(), io::ErrorKind::TimedOut);
        });
    }
}
