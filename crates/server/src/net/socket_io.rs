//! System calls on a socket that a reactor watches.
//!
//! Invariant: what moves fewer bytes than it was asked to is tried again only once the reactor has
//! heard of the socket anew, so each request takes one system call to read and one to write.

use std::io;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::os::fd::AsFd;
use std::task::{Context as TaskContext, Poll, ready};

use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// Reads or writes up to so many bytes, once the socket may be ready for it.
pub(crate) fn poll_io<S: Socket>(
    socket: &S,
    cx: &mut TaskContext<'_>,
    interest: Interest,
    most: usize,
    mut operation: impl FnMut() -> rustix::io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_ready(cx, interest))?;
        let mut fewer = None;
        let moved = socket.try_io(interest, || match operation()? {
            0 => Ok(0),
            count if count == most => Ok(count),
            count => {
                fewer = Some(count);
                Err(io::ErrorKind::WouldBlock.into())
            }
        });
        match fewer.map_or(moved, Ok) {
            // What was interrupted moved nothing, and the reactor thinks of it as before.
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            done => return Poll::Ready(done),
        }
    }
}

/// What both kinds of sockets have.
pub(crate) trait Socket: AsFd + AsyncWrite + Unpin {
    /// Waits until the reactor thinks that the socket is ready.
    fn poll_ready(&self, cx: &mut TaskContext<'_>, interest: Interest) -> Poll<io::Result<()>>;

    /// Tries an operation; where it would block, the reactor no longer thinks so.
    fn try_io(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize>;
}

/// Both kinds have the same methods of their own.
macro_rules! socket {
    ($kind:ty) => {
        impl Socket for $kind {
            fn poll_ready(
                &self,
                cx: &mut TaskContext<'_>,
                interest: Interest,
            ) -> Poll<io::Result<()>> {
                match interest {
                    Interest::READABLE => self.poll_read_ready(cx),
                    _ => self.poll_write_ready(cx),
                }
            }

            fn try_io(
                &self,
                interest: Interest,
                operation: impl FnOnce() -> io::Result<usize>,
            ) -> io::Result<usize> {
                Self::try_io(self, interest, operation)
            }
        }
    };
}

socket!(TcpStream);
socket!(UnixStream);
