//! A socket with the keys of its connection, as a stream of plaintext.
//!
//! Invariants: what is kept between two calls is a part of one record, what a reader had no room
//! for, and what the socket did not take; plaintext counts as written once its ciphertext has left,
//! and until then is given again.

use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::task::{Context as TaskContext, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, recv, send};
use tls::Session;
use tls::sessions::{OVERHEAD_MAX, RECORD_MAX, SEALED_RECORD_MAX};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::net::socket_io::{Socket, poll_io};

/// One read brings no more than this: to decrypt many small records takes a worker's time.
const READ_MAX: usize = 32 << 10;

/// So many records leave by one system call.
const RECORDS_MAX: usize = 4;

/// After so many reads that brought nothing for the session others have the worker.
const READS_MAX: usize = 4;

/// An encrypted connection.
pub(crate) struct TlsStream {
    socket: TcpStream,
    rest: Box<TlsState>,
}

/// The same on its way from one reactor to another.
pub(crate) struct RawTlsStream {
    socket: std::net::TcpStream,
    rest: Box<TlsState>,
}

/// What there is of it beside its socket.
struct TlsState {
    session: Session,
    /// A part of a record that has come.
    incoming: Vec<u8>,
    /// Plaintext that there was no room for, from `opened_from` on.
    opened: Vec<u8>,
    opened_from: usize,
    /// Ciphertext that the socket did not take, from `sealed_from` on.
    sealed: Vec<u8>,
    sealed_from: usize,
    /// Plaintext that is on its way in it.
    accepted: usize,
}

/// Where plaintext goes.
pub(crate) trait PlaintextSink {
    /// How much more there is room for.
    fn room(&self) -> usize;

    /// Takes what there is room for.
    fn put(&mut self, bytes: &[u8]);
}

/// The rest of a buffer.
impl PlaintextSink for &mut [u8] {
    fn room(&self) -> usize {
        self.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        let (now, rest) = std::mem::take(self).split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        *self = rest;
    }
}

/// What is reserved behind a vector's end.
impl PlaintextSink for Vec<u8> {
    fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// What a thread's streams share while one of them has its turn.
struct Scratch {
    incoming: Box<[u8]>,
    plain: Box<[u8]>,
    sealed: Box<[u8]>,
}

thread_local! {
    /// The buffers of this thread, through which the records of all its streams go.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        incoming: vec![0; SEALED_RECORD_MAX + READ_MAX].into_boxed_slice(),
        plain: vec![0; RECORD_MAX].into_boxed_slice(),
        sealed: vec![0; RECORDS_MAX * (RECORD_MAX + OVERHEAD_MAX)].into_boxed_slice(),
    });
}

impl RawTlsStream {
    /// One whose peers have agreed; `opened` is what came behind that.
    pub(super) fn new(
        socket: std::net::TcpStream,
        session: Session,
        incoming: Vec<u8>,
        opened: Vec<u8>,
    ) -> Self {
        Self { socket, rest: TlsState::new(session, incoming, opened) }
    }

    /// Registers the stream with the present thread's reactor.
    pub(crate) fn attach(self) -> io::Result<Box<TlsStream>> {
        let Self { socket, rest } = self;
        Ok(Box::new(TlsStream { socket: TcpStream::from_std(socket)?, rest }))
    }

    pub(crate) fn socket(&self) -> &std::net::TcpStream {
        &self.socket
    }

    pub(crate) fn session(&self) -> &Session {
        &self.rest.session
    }

    /// Sends a line, if the socket takes it at once, and says that it was the last.
    pub(crate) fn send_last(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sealed = vec![0; line.len() + 2 * OVERHEAD_MAX];
        let TlsState { session, incoming, .. } = &mut *self.rest;
        let mut length = session.seal(incoming, line, &mut sealed).map_err(broken)?;
        length += session.close(incoming, &mut sealed[length..]);
        Ok(send(&self.socket, &sealed[..length], SendFlags::NOSIGNAL)?)
    }
}

impl TlsStream {
    /// As [`RawTlsStream::new`], where it stays with the present thread's reactor.
    pub(super) fn new(
        socket: TcpStream,
        session: Session,
        incoming: Vec<u8>,
        opened: Vec<u8>,
    ) -> Self {
        Self { socket, rest: TlsState::new(session, incoming, opened) }
    }

    /// Takes the stream out of the present thread's reactor.
    pub(crate) fn detach(self) -> io::Result<Box<RawTlsStream>> {
        let Self { socket, rest } = self;
        Ok(Box::new(RawTlsStream { socket: socket.into_std()?, rest }))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether something may have come; if not, the task is woken when it has.
    pub(crate) fn poll_readable(&self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match self.rest.has_opened() || self.rest.session.has_ended() {
            true => Poll::Ready(Ok(())),
            false => self.socket.poll_ready(cx, Interest::READABLE),
        }
    }

    /// Reads plaintext, where there is room for some; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        into: &mut impl PlaintextSink,
    ) -> Poll<io::Result<usize>> {
        let Self { socket, rest } = self;
        if rest.has_opened() {
            return Poll::Ready(Ok(rest.copy_plaintext(into)));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            for _ in 0..READS_MAX {
                if rest.session.has_ended() {
                    return Poll::Ready(Ok(0));
                }
                let begin = rest.incoming.len();
                if begin > SEALED_RECORD_MAX {
                    // Messages beside the data are short, and what is none is not gathered.
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                let end = begin + into.room().clamp(SEALED_RECORD_MAX, READ_MAX);
                let buffer = &mut scratch.incoming[..end];
                let come =
                    ready!(poll_io(socket, cx, Interest::READABLE, buffer.len() - begin, || {
                        recv(&*socket, &mut buffer[begin..], RecvFlags::empty())
                            .map(|(count, _)| count)
                    }))?;
                if come == 0 {
                    return Poll::Ready(Ok(0));
                }
                buffer[..begin].copy_from_slice(&rest.incoming);
                let count = rest.open(&mut buffer[..begin + come], into);
                // What was asked for by the way leaves by the way; else with what is written next.
                rest.send_sealed(socket)?;
                let count = count?;
                if count > 0 {
                    return Poll::Ready(Ok(count));
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Writes of these what the socket takes. What is said to be pending is to be given again, with
    /// more behind it or not.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { socket, rest } = self;
        if rest.has_sealed() {
            ready!(rest.poll_sealed(socket, cx))?;
            let accepted = std::mem::take(&mut rest.accepted);
            if accepted > 0 {
                return Poll::Ready(Ok(accepted));
            }
        }
        SCRATCH.with_borrow_mut(|Scratch { plain, sealed, .. }| {
            let (accepted, length) = rest.seal(slices, plain, sealed)?;
            if length == 0 {
                return Poll::Ready(Ok(0));
            }
            let sealed = &sealed[..length];
            let sent = poll_io(socket, cx, Interest::WRITABLE, length, || {
                send(&*socket, sealed, SendFlags::NOSIGNAL)
            });
            let sent = match sent {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            if sent == length {
                return Poll::Ready(Ok(accepted));
            }
            rest.sealed.extend_from_slice(&sealed[sent..]);
            rest.accepted = accepted;
            ready!(rest.poll_sealed(socket, cx))?;
            Poll::Ready(Ok(std::mem::take(&mut rest.accepted)))
        })
    }

    /// Tells the peer that nothing more comes, if the socket takes it now: no thread waits for
    /// that.
    pub(crate) fn say_goodbye(&mut self) {
        let Self { socket, rest } = self;
        let mut goodbye = [0; OVERHEAD_MAX];
        let length = rest.session.close(&mut rest.incoming, &mut goodbye);
        rest.sealed.extend_from_slice(&goodbye[..length]);
        let _ = rest.send_sealed(socket);
    }
}

impl TlsState {
    fn new(session: Session, mut incoming: Vec<u8>, mut opened: Vec<u8>) -> Box<Self> {
        incoming.shrink_to_fit();
        opened.shrink_to_fit();
        let (sealed, opened_from, sealed_from, accepted) = (Vec::new(), 0, 0, 0);
        Box::new(Self { session, incoming, opened, opened_from, sealed, sealed_from, accepted })
    }

    fn has_opened(&self) -> bool {
        self.opened_from < self.opened.len()
    }

    fn has_sealed(&self) -> bool {
        self.sealed_from < self.sealed.len()
    }

    /// Gives of the plaintext what there is room for.
    fn copy_plaintext(&mut self, into: &mut impl PlaintextSink) -> usize {
        let left = &self.opened[self.opened_from..];
        let count = left.len().min(into.room());
        into.put(&left[..count]);
        self.opened_from += count;
        if !self.has_opened() {
            (self.opened, self.opened_from) = (Vec::new(), 0);
        }
        count
    }

    /// Decrypts what has come.
    fn open(&mut self, come: &mut [u8], into: &mut impl PlaintextSink) -> io::Result<usize> {
        let Self { session, opened, sealed, incoming, .. } = self;
        let mut count = 0;
        let done = session.take_in(come, sealed, |plain| {
            let fits = if opened.is_empty() { plain.len().min(into.room()) } else { 0 };
            into.put(&plain[..fits]);
            opened.extend_from_slice(&plain[fits..]);
            count += fits;
        });
        let rest = &come[done.map_err(broken)?..];
        // A session that is idle has no memory for it.
        *incoming = rest.to_vec();
        if count == 0 && self.has_opened() {
            return Ok(self.copy_plaintext(into));
        }
        Ok(count)
    }

    /// Encrypts of the slices as much as leaves at once; how much plaintext that is, and how much
    /// ciphertext.
    fn seal(
        &mut self,
        slices: &[IoSlice<'_>],
        plain: &mut [u8],
        sealed: &mut [u8],
    ) -> io::Result<(usize, usize)> {
        let (mut accepted, mut length) = (0, 0);
        let mut rest = slices.iter().map(|slice| &**slice).filter(|slice| !slice.is_empty());
        let mut slice = rest.next().unwrap_or_default();
        for _ in 0..RECORDS_MAX {
            let next = rest.clone().next();
            // One that fills a record, and one alone, are encrypted where they are.
            let record = if slice.len() >= RECORD_MAX || next.is_none() {
                let (now, later) = slice.split_at(slice.len().min(RECORD_MAX));
                slice = later;
                now
            } else {
                let mut filled = 0;
                while filled < RECORD_MAX && !slice.is_empty() {
                    let count = slice.len().min(RECORD_MAX - filled);
                    plain[filled..filled + count].copy_from_slice(&slice[..count]);
                    filled += count;
                    slice = &slice[count..];
                    if slice.is_empty() {
                        slice = rest.next().unwrap_or_default();
                    }
                }
                &plain[..filled]
            };
            if record.is_empty() {
                break;
            }
            let into = &mut sealed[length..];
            length += self.session.seal(&mut self.incoming, record, into).map_err(broken)?;
            accepted += record.len();
            if slice.is_empty() {
                slice = rest.next().unwrap_or_default();
            }
        }
        Ok((accepted, length))
    }

    /// Has the socket take what it can of the ciphertext, now.
    fn send_sealed(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.has_sealed() {
            let left = &self.sealed[self.sealed_from..];
            let sent =
                socket.try_io(Interest::WRITABLE, || Ok(send(socket, left, SendFlags::NOSIGNAL)?));
            match sent {
                Ok(count) => self.note_sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn poll_sealed(
        &mut self,
        socket: &TcpStream,
        cx: &mut TaskContext<'_>,
    ) -> Poll<io::Result<()>> {
        while self.has_sealed() {
            let left = &self.sealed[self.sealed_from..];
            let sent = ready!(poll_io(socket, cx, Interest::WRITABLE, left.len(), || {
                send(socket, left, SendFlags::NOSIGNAL)
            }))?;
            self.note_sent(sent);
        }
        Poll::Ready(Ok(()))
    }

    fn note_sent(&mut self, count: usize) {
        self.sealed_from += count;
        if !self.has_sealed() {
            (self.sealed, self.sealed_from) = (Vec::new(), 0);
        }
    }
}

/// By value, as it stands in `map_err`.
#[expect(clippy::needless_pass_by_value)]
fn broken(fault: tls::Fault) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
}
