//! Sockets, as a session reads and writes them.
//!
//! Sockets are most of what a request costs that comes alone. So the system calls are made
//! directly: those of the C library are points where a thread may be cancelled, which takes two
//! atomic operations each.
//!
//! Invariant: what is not encrypted goes between the socket and the session's buffers without a
//! stop, and one branch is all that it takes to tell.

use std::future::Future;
use std::io;
use std::io::ErrorKind::Interrupted;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, ready};

use engine::lane::is_over;
use proto::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::{TcpStream, UnixStream};

use super::Connection;
use crate::net::socket_io::{Socket, poll_io};
use crate::net::tls::{RawTlsStream, TlsStream};

/// Slices given to one write: as many pieces as a pinned value has in 64 KB pages.
const SLICES: usize = 16;

/// A long reply is made in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// One write takes no more than this: on this machine's own network it lasts as long as the peer
/// makes room.
const WRITE_MAX: usize = 4 * PIECE;

/// One read brings no more than this: where memory is new it takes as long as a turn.
const READ_MAX: u64 = 256 * 1024;

/// A client's socket.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
    /// The socket went on with another worker.
    Gone,
}

/// A client's socket on the way to a worker's reactor.
pub(crate) enum RawStream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    Tls(Box<RawTlsStream>),
}

impl RawStream {
    /// Whether the peer has closed neither the connection nor its side of it, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Tcp(stream) => is_open(stream),
            Self::Unix(stream) => is_open(stream),
            Self::Tls(stream) => is_open(stream.socket()),
        }
    }
}

/// Whether nothing says that a socket's peer is gone, whatever has come from it and is not read.
fn is_open(socket: &impl AsFd) -> bool {
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut sockets = [PollFd::new(socket, PollFlags::RDHUP)];
    let polled = poll(&mut sockets, Some(&Timespec::default()));
    polled.is_ok() && !sockets[0].revents().intersects(gone)
}

impl Stream {
    /// Registers a socket with the present worker's reactor.
    pub(crate) fn attach(raw: RawStream) -> io::Result<Self> {
        Ok(match raw {
            RawStream::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            RawStream::Unix(stream) => Self::Unix(UnixStream::from_std(stream)?),
            RawStream::Tls(stream) => Self::Tls(stream.attach()?),
        })
    }

    /// Takes a socket out of the present worker's reactor.
    pub(crate) fn detach(self) -> io::Result<RawStream> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(RawStream::Tcp),
            Self::Unix(stream) => stream.into_std().map(RawStream::Unix),
            Self::Tls(stream) => stream.detach().map(RawStream::Tls),
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Reads what has come into a buffer that is not empty.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => poll_read(stream, cx, buffer),
            Self::Unix(stream) => poll_read(stream, cx, buffer),
            Self::Tls(stream) => stream.poll_read(cx, &mut &mut *buffer),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Whether something may have come; if not, the task is woken when it has.
    pub(super) fn poll_readable(&self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_ready(cx, Interest::READABLE),
            Self::Unix(stream) => stream.poll_ready(cx, Interest::READABLE),
            Self::Tls(stream) => stream.poll_readable(cx),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Whether small pieces are sent at once.
    pub(crate) fn set_nodelay(&self, on: bool) {
        // A link without it is slower, and no less right.
        let _ = match self {
            Self::Tcp(stream) => stream.set_nodelay(on),
            Self::Tls(stream) => stream.socket().set_nodelay(on),
            Self::Unix(_) | Self::Gone => Ok(()),
        };
    }

    /// Appends what has come to a vector, which has room reserved.
    pub(crate) fn poll_read_more(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        uninterrupted(|| match self {
            Self::Tcp(stream) => poll_read_more(stream, cx, buffer),
            Self::Unix(stream) => poll_read_more(stream, cx, buffer),
            Self::Tls(stream) => stream.poll_read(cx, buffer),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        })
    }

    /// Writes what the socket takes of these.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => poll_write(stream, cx, slices),
            Self::Unix(stream) => poll_write(stream, cx, slices),
            Self::Tls(stream) => stream.poll_write(cx, slices),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Tells the peer that nothing more will come. Errors do not matter any more.
    pub(crate) fn shut_down(&mut self) {
        if let Self::Tls(stream) = self {
            stream.say_goodbye();
        }
        self.shut(std::net::Shutdown::Write);
    }

    /// Neither reads nor writes any more; the client sees that at once.
    pub(super) fn cut(&self) {
        self.shut(std::net::Shutdown::Both);
    }

    fn shut(&self, how: std::net::Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => socket2::SockRef::from(stream).shutdown(how),
            Self::Unix(stream) => socket2::SockRef::from(stream).shutdown(how),
            Self::Tls(stream) => socket2::SockRef::from(stream.socket()).shutdown(how),
            Self::Gone => Ok(()),
        };
    }
}

fn poll_read<S: Socket>(
    socket: &S,
    cx: &mut TaskContext<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    poll_io(socket, cx, Interest::READABLE, buffer.len(), || {
        recv(socket, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count)
    })
}

fn poll_read_more(
    socket: impl AsyncRead + Unpin,
    cx: &mut TaskContext<'_>,
    buffer: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    let mut bounded = socket.take(READ_MAX);
    std::pin::pin!(bounded.read_buf(buffer)).poll(cx)
}

fn poll_write<S: Socket>(
    socket: &mut S,
    cx: &mut TaskContext<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let &[one] = slices else {
        return uninterrupted(|| Pin::new(&mut *socket).poll_write_vectored(cx, slices));
    };
    poll_io(socket, cx, Interest::WRITABLE, one.len(), || send(&*socket, &one, SendFlags::NOSIGNAL))
}

/// Tries again what a signal interrupted.
fn uninterrupted(
    mut operation: impl FnMut() -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    loop {
        match operation() {
            Poll::Ready(Err(error)) if error.kind() == Interrupted => {}
            done => return done,
        }
    }
}

impl Connection {
    /// Bytes of replies that have not left.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.len())
    }

    /// Writes what is due, as far as the journal lets it go and the socket takes it; `Ready` when
    /// all has left.
    pub(super) fn flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        let Some(mut output) = self.output.take() else { return Poll::Ready(Ok(())) };
        if output.is_overfull() {
            // Nothing of it leaves: the session sees next that its client owes too much.
            self.output = Some(output);
            return Poll::Pending;
        }
        let live = &self.session.client.live;
        let has_waited = live.output_bytes.load(Ordering::Relaxed) > 0;
        let written = live.net_out.load(Ordering::Relaxed);
        let sent = self.send(cx, &mut output);
        let (unsent, live) = (output.len() as u64, &self.session.client.live);
        live.output_bytes.store(unsent, Ordering::Relaxed);
        if (has_waited || unsent > 0) && live.net_out.load(Ordering::Relaxed) != written {
            // A client that takes long to read a reply is not idle.
            let now = self.worker.server.keyspace.clock().now_ms();
            live.last_active.store(now, Ordering::Relaxed);
        }
        self.check_client_memory();
        self.keep_output(output);
        sent
    }

    fn send(&mut self, cx: &mut TaskContext<'_>, output: &mut Output) -> Poll<io::Result<()>> {
        // What leaves in one piece is sent without a look at the clock.
        let is_long = output.is_streaming() || output.len() > PIECE;
        let clock = self.worker.server.keyspace.clock();
        let began_us = if is_long { clock.monotonic_us() } else { 0 };
        let mut is_first = true;
        while !output.is_empty() {
            if is_long && !std::mem::replace(&mut is_first, false) {
                let now_us = clock.monotonic_us();
                if is_over(now_us - began_us) {
                    self.worker.end_turn_at(cx.waker(), (began_us, now_us));
                    return Poll::Pending;
                }
            }
            if output.is_streaming() && output.len() < PIECE {
                output.pull(PIECE);
            }
            let free = self.free_bytes(cx, output);
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.io_slices(&mut slices, WRITE_MAX);
            let written = if free >= output.len() {
                ready!(self.stream.poll_write(cx, &slices[..count]))?
            } else {
                let first = &slices[0][..free.min(slices[0].len())];
                if first.is_empty() {
                    return Poll::Pending;
                }
                ready!(self.stream.poll_write(cx, &[IoSlice::new(first)]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let live = &self.session.client.live;
            engine::runtime::counters::add(&live.net_out, written as u64);
            self.worker.counters.add_net_out(written as u64);
            output.consume(written);
        }
        // What is held and has no bytes is still to be judged.
        self.free_bytes(cx, output);
        Poll::Ready(Ok(()))
    }

    /// The output to append replies to: what is still unsent, or the worker's spare one.
    pub(super) fn output(&mut self) -> Box<Output> {
        let mut output = self.output.take().unwrap_or_else(|| self.worker.take_output());
        output.set_ceiling(self.worker.server.output_ceiling(&self.session.client));
        output.finish();
        output
    }

    /// Whether more was to be replied than the client's limits allow.
    pub(super) fn is_overfull(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.is_overfull())
    }

    /// Keeps an output for the next flush, unless there is nothing in it and no watermark counts
    /// its bytes.
    pub(super) fn keep_output(&mut self, output: Box<Output>) {
        if output.is_empty() && self.watermarks.is_none() {
            if let Some(tracked) = self.session.tracked_mut() {
                tracked.forget_unsent();
            }
            self.worker.give_back_output(output);
        } else {
            self.output = Some(output);
        }
    }
}
