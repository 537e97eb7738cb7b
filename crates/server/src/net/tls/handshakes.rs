//! Handshakes, on threads of their own.
//!
//! To agree on keys takes a processor up to a millisecond, and a peer as long as it likes. Workers
//! have other clients meanwhile. Invariants: a handshake is over within its time; beyond a number
//! the oldest goes for the youngest, so peers that never end theirs keep nobody out; connections
//! that wait for their handshake to begin, or to be closed, are bounded, too; of one that fails
//! nobody but the log and a figure hears.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpStream as RawSocket;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use base::io_error_text::strerror;
use engine::runtime::panics::contain;
use tls::{Contexts, Session};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::state::TlsCounters;
use super::stream::RawTlsStream;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many connections may be here.
const HALF_OPEN_MAX: usize = 1024;

/// One in so many of them has no handshake under way: its thread has not come to it yet.
const ARRIVING: usize = 8;

/// Bytes that are read at a time: there may be many peers.
const READ: usize = 4096;

/// What comes of a handshake; the error is for the log.
pub(crate) type Handshaken = Result<Box<RawTlsStream>, String>;

/// A connection that is to be encrypted.
pub(crate) struct Arrival {
    pub(crate) socket: RawSocket,
    pub(crate) contexts: Arc<Contexts>,
    /// How many may be here together with it.
    pub(crate) room: usize,
    pub(crate) done: Box<dyn FnOnce(Handshaken) + Send>,
}

/// A connection as its thread gets it.
struct Admitted {
    arrival: Arrival,
    /// How many handshakes that thread may have under way.
    under_way_max: usize,
    place: HalfOpen,
}

/// The place of a connection that has not agreed on keys, free once the socket is closed, or
/// given to a worker.
struct HalfOpen(Arc<AtomicUsize>);

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The threads.
pub(super) struct HandshakeThreads {
    inboxes: Vec<UnboundedSender<Admitted>>,
    next: AtomicUsize,
    half_open: Arc<AtomicUsize>,
}

/// What a thread has under way, by number.
struct UnderWay {
    counters: &'static TlsCounters,
    begun: Cell<u64>,
    tasks: RefCell<BTreeMap<u64, AbortHandle>>,
}

impl HandshakeThreads {
    /// Half as many as there are workers: clients that only knock are to leave these most of the
    /// machine.
    pub(super) fn begin(counters: &'static TlsCounters, workers: usize) -> io::Result<Self> {
        let inboxes = (0..(workers / 2).max(1)).map(|_| spawn(counters));
        Ok(Self {
            inboxes: inboxes.collect::<io::Result<_>>()?,
            next: AtomicUsize::new(0),
            half_open: Arc::default(),
        })
    }

    /// Has a handshake begin, unless too many wait for theirs: whether it will.
    pub(super) fn take(&self, arrival: Arrival) -> bool {
        let room = arrival.room.min(HALF_OPEN_MAX);
        let arriving = (room / ARRIVING).max(1);
        let under_way = room.saturating_sub(room / ARRIVING).max(1);
        let place = HalfOpen(Arc::clone(&self.half_open));
        if self.half_open.fetch_add(1, Ordering::Relaxed) >= under_way + arriving {
            return false;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        let under_way_max = under_way.div_ceil(self.inboxes.len());
        // A thread that has ended accepts nobody.
        self.inboxes[next].send(Admitted { arrival, under_way_max, place }).is_ok()
    }

    pub(super) fn half_open(&self) -> usize {
        self.half_open.load(Ordering::Relaxed)
    }
}

fn spawn(counters: &'static TlsCounters) -> io::Result<UnboundedSender<Admitted>> {
    let (sender, receiver) = unbounded_channel();
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let work = move || {
        let built = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        match built {
            Ok(runtime) => {
                let _ = tell.send(Ok(()));
                runtime.block_on(run(counters, receiver));
            }
            Err(error) => _ = tell.send(Err(error)),
        }
    };
    std::thread::Builder::new().name("handshakes".to_owned()).spawn(work)?;
    told.recv().expect("the thread tells it first")?;
    Ok(sender)
}

async fn run(counters: &'static TlsCounters, mut inbox: UnboundedReceiver<Admitted>) {
    let (begun, tasks) = (Cell::new(0), RefCell::default());
    let under_way = Rc::new(UnderWay { counters, begun, tasks });
    while let Some(admitted) = inbox.recv().await {
        under_way.make_room(admitted.under_way_max);
        let number = under_way.begun.replace(under_way.begun.get() + 1);
        let task = spawn_local(serve(Rc::clone(&under_way), number, admitted));
        under_way.tasks.borrow_mut().insert(number, task.abort_handle());
    }
}

impl UnderWay {
    /// Ends the oldest for as long as there is no room for one more.
    fn make_room(&self, room: usize) {
        let mut tasks = self.tasks.borrow_mut();
        while tasks.len() >= room
            && let Some((_, oldest)) = tasks.pop_first()
        {
            oldest.abort();
            TlsCounters::count(&self.counters.displaced);
        }
    }

    fn is_over(&self, number: u64) {
        self.tasks.borrow_mut().remove(&number);
    }
}

async fn serve(under_way: Rc<UnderWay>, number: u64, admitted: Admitted) {
    let counters = under_way.counters;
    let Admitted { arrival: Arrival { socket, contexts, done, .. }, place, .. } = admitted;
    let mut agreeing = pin!(timeout(PATIENCE, agree(socket, Session::serve(&contexts.server))));
    // A panic is the end of one connection.
    let agreed = poll_fn(|cx| match contain(|| agreeing.as_mut().poll(cx)) {
        Ok(polled) => polled,
        Err(_) => Poll::Ready(Ok(Err(io::Error::other("the handshake has panicked")))),
    });
    let agreed = agreed.await;
    under_way.is_over(number);
    // A connection that has agreed is a client from here on.
    drop(place);
    match agreed {
        Ok(Ok(stream)) => {
            let is_resumed = stream.session().is_resumed();
            let counter = if is_resumed { &counters.resumed } else { &counters.full };
            TlsCounters::count(counter);
            done(Ok(stream));
        }
        Ok(Err(error)) => {
            TlsCounters::count(&counters.failed);
            done(Err(strerror(&error)));
        }
        Err(_) => {
            TlsCounters::count(&counters.timed_out);
            done(Err("the handshake took too long".to_owned()));
        }
    }
}

/// Speaks with a peer until both have agreed.
async fn agree(
    socket: RawSocket,
    session: Result<Session, tls::Fault>,
) -> io::Result<Box<RawTlsStream>> {
    let socket = TcpStream::from_std(socket)?;
    let agreed = agree_on(&socket, session.map_err(io::Error::other)?).await?;
    let (session, incoming, opened) = agreed;
    Ok(Box::new(RawTlsStream::new(socket.into_std()?, session, incoming, opened)))
}

/// The same, where the socket stays with the present reactor: the session, with what of a record
/// came behind, and what plaintext.
pub(super) async fn agree_on(
    socket: &TcpStream,
    mut session: Session,
) -> io::Result<(Session, Vec<u8>, Vec<u8>)> {
    let (mut incoming, mut opened, mut sealed) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let taken = session.take_in(&mut incoming, &mut sealed, |plain| {
            opened.extend_from_slice(plain);
        });
        // A peer is told of a fault, too.
        let sent = send_all(socket, &mut sealed).await;
        incoming.drain(..taken.map_err(io::Error::other)?);
        sent?;
        if !session.is_handshaking() {
            return Ok((session, incoming, opened));
        }
        incoming.reserve(READ);
        loop {
            socket.readable().await?;
            match socket.try_read_buf(&mut incoming) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn send_all(socket: &TcpStream, sealed: &mut Vec<u8>) -> io::Result<()> {
    while !sealed.is_empty() {
        socket.writable().await?;
        match socket.try_write(sealed) {
            Ok(count) => _ = sealed.drain(..count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
