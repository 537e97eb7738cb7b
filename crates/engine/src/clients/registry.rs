//! The connected clients: one shared record per client, in a registry that every worker can read.
//!
//! A client is addressed by an id that is never used again, and closed only by the worker that
//! owns its session: others leave a signal in that worker's mailbox.
//!
//! Invariant: the owner alone writes the plain statistics of a record; anyone may read them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};

use acl::DEFAULT_USER;
use base::Wakers;
use base::time::UnixMillis;
use keyspace::{Waiter, Watch};
use smallvec::SmallVec;

use crate::clients::client_id::ClientId;
use crate::clients::invalidation::Invalidation;
pub use crate::clients::peer::{Address, Peer};

/// What a client may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// A channel by its name: SUBSCRIBE.
    Channel,
    /// All channels whose names match a glob: PSUBSCRIBE.
    Pattern,
    /// A shard channel by its name: SSUBSCRIBE.
    ShardChannel,
}

impl SubscriptionKind {
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Channel, Self::Pattern, Self::ShardChannel];
    pub(crate) const COUNT: usize = 3;
}

/// `LiveStats::last_command` of a client that sent none yet.
pub(crate) const NO_COMMAND: u32 = u32::MAX;

/// What is shared about a client.
pub struct Client {
    /// CLIENT ID: never given twice.
    pub id: ClientId,
    /// The client's end of the connection.
    pub peer: Peer,
    /// The server's end of the connection.
    pub local: Peer,
    /// The file descriptor of the socket, as CLIENT LIST shows it.
    pub descriptor: i32,
    /// When the client connected.
    pub created: UnixMillis,
    /// What CLIENT LIST shows that changes with each command.
    pub live: LiveStats,
    /// What others ask of the owner; see `Signal`.
    signals: AtomicU32,
    waker: Mutex<Option<Waker>>,
    names: Mutex<Names>,
    /// Messages that its worker handed out to it (MONITOR lines, pushes).
    deliveries: Mutex<Option<Box<Deliveries>>>,
}

/// Messages for a client that its session has not taken yet.
#[derive(Default)]
struct Deliveries {
    waiting: SmallVec<[Delivery; 1]>,
    bytes: usize,
}

/// Messages in order that several clients get together.
pub(crate) type MessageBatch = Arc<[Arc<[u8]>]>;

/// What a client is given at once.
pub enum Delivery {
    /// Replies of pub/sub, MONITOR and the like, ready to be sent.
    Messages(MessageBatch),
    /// Keys that the client is to forget: CLIENT TRACKING.
    Notices(Vec<Invalidation>),
    /// Shard channels of these hash slots are another node's now.
    Rerouted(Arc<BTreeSet<u16>>),
}

/// Figures that the owner keeps for `CLIENT LIST`.
#[derive(Default)]
pub struct LiveStats {
    /// When the last bytes came from the client, in Unix milliseconds.
    pub last_active: AtomicI64,
    /// The id of the last command; an id that no command has before the first.
    pub last_command: AtomicU32,
    /// The logical database that is selected.
    pub database: AtomicU32,
    pub(crate) resp: AtomicU8,
    pub(crate) worker: AtomicU8,
    /// The version of TLS 1 that is spoken, or 0.
    pub tls_minor: AtomicU8,
    /// The flags that CLIENT LIST shows, one bit each.
    pub flags: AtomicU32,
    /// Bytes in the query buffer.
    pub query_bytes: AtomicU32,
    /// The room that its query buffer takes, whatever is in it.
    pub query_room: AtomicU32,
    /// Bytes of replies that are not sent yet.
    pub output_bytes: AtomicU64,
    /// The lower half of a Unix time in milliseconds, never 0; 0 while the soft limit of unsent
    /// replies is kept.
    pub over_soft_limit_since: AtomicU32,
    /// Up to where the journal has what the client has written.
    pub(crate) last_write: AtomicU64,
    /// Bytes that came from the client.
    pub net_in: AtomicU64,
    /// Bytes that were sent to the client.
    pub net_out: AtomicU64,
    pub(crate) commands: AtomicU64,
    /// Commands queued for EXEC; -1 without MULTI.
    pub(crate) queued: AtomicI32,
    /// Bytes of the commands that are queued for EXEC.
    pub queued_bytes: AtomicU64,
    /// What of these was last added to what large clients take (`client_margin`).
    pub(crate) noted_bytes: AtomicU64,
    /// Keys that it watches.
    pub watched: AtomicU32,
    /// The client that is told of old copies instead of it; 0 for itself, -1 if none is.
    pub redirect: AtomicI64,
    /// How many subscriptions it has, of each kind.
    pub(crate) subscriptions: [AtomicU32; SubscriptionKind::COUNT],
}

/// The names a client goes by; a client without any has no room for them either.
#[derive(Default)]
pub struct Names(Option<Box<ClientNames>>);

/// So much of a name stands in a log: clients choose its length, and a log keeps many.
pub(crate) const LOGGED_NAME_BYTES: usize = 1024;

/// What a client is called.
#[derive(Default)]
pub struct ClientNames {
    /// The name that CLIENT SETNAME gave; empty without one.
    pub name: Box<[u8]>,
    /// `lib-name` of CLIENT SETINFO.
    pub library: Box<[u8]>,
    /// `lib-ver` of CLIENT SETINFO.
    pub library_version: Box<[u8]>,
    pub(crate) user: Option<Box<[u8]>>,
    /// When RESET took its user from the client; 0 if that never was.
    pub forgotten_at: UnixMillis,
    /// What the client watches with: few have that, and they have a name as a rule.
    watch: Option<Arc<Watch>>,
    /// What the client takes beside its buffers, as long as it keeps them.
    pub(crate) held_memory: HeldMemory,
    /// What stands for it in the queues of the keys it waits for, or stood there last.
    waiter: Weak<Waiter>,
}

/// What others keep for a client, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct HeldMemory {
    /// The keys that it watches.
    pub(crate) watched: usize,
    /// Its channels and patterns.
    pub(crate) subscriptions: usize,
    /// The prefixes of keys that it wants to hear of.
    pub(crate) prefixes: usize,
    /// The names of fields that it has prepared.
    pub(crate) fieldsets: usize,
    /// Requests that were sent on to other nodes, until their replies are here, and these replies
    /// until the rest of their batch is here, too.
    pub(crate) forwarded: usize,
}

impl HeldMemory {
    /// All of them.
    pub(crate) fn bytes(self) -> usize {
        self.watched + self.subscriptions + self.prefixes + self.fieldsets + self.forwarded
    }
}

impl ClientNames {
    /// What the names take that the client chose.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.library.len() + self.library_version.len()
    }

    /// The name of its user.
    pub fn user(&self) -> &[u8] {
        self.user.as_deref().unwrap_or(DEFAULT_USER)
    }

    /// What stands for it in the queues of keys, if it waits for any.
    pub fn waiter(&self) -> Option<Arc<Waiter>> {
        self.waiter.upgrade()
    }

    /// Whether its present wait, or the last one, is one for keys. Where nothing stands for it such
    /// a wait is over: a client was served before it is marked as a client that waits no more.
    pub fn waits_for_keys(&self) -> bool {
        !self.waiter.ptr_eq(&Weak::new())
    }
}

static NAMELESS: LazyLock<ClientNames> = LazyLock::new(ClientNames::default);

impl Deref for Names {
    type Target = ClientNames;

    fn deref(&self) -> &ClientNames {
        self.0.as_deref().unwrap_or(&NAMELESS)
    }
}

impl DerefMut for Names {
    fn deref_mut(&mut self) -> &mut ClientNames {
        self.0.get_or_insert_default()
    }
}

/// What others may ask of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Signal {
    /// Close without a word.
    Kill = 1,
    /// As `Review`, and its own command has changed that, whose reply it still gets.
    ReviewAfterReply = 1 << 1,
    /// Move to another worker.
    Move = 1 << 2,
    /// Deliveries wait.
    Deliver = 1 << 3,
    /// A blocked session shall end its wait (CLIENT UNBLOCK).
    Unblock = 1 << 4,
    /// As `Unblock`, with an error.
    UnblockError = 1 << 5,
    /// A blocked session was served, or may give up now.
    Served = 1 << 6,
    /// What its user may do has changed.
    Review = 1 << 7,
}

/// Set beside the signals with `Kill`, and never taken back.
const KILLED: u32 = 1 << 31;

/// All that was asked of a session, as it was when it looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingSignals(u32);

impl PendingSignals {
    /// Whether there is no signal at all.
    #[inline]
    pub(crate) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Whether this is among it.
    #[inline]
    pub(crate) fn is_asked(self, signal: Signal) -> bool {
        self.0 & signal as u32 != 0
    }
}

/// Flags of `LiveStats::flags`.
pub mod client_flags {
    /// The client watches all commands.
    pub const MONITOR: u32 = 1;
    /// The client waits for something.
    pub const BLOCKED: u32 = 1 << 1;
    /// The client is exempt from client eviction.
    pub const NO_EVICT: u32 = 1 << 2;
    /// Its reads are no accesses.
    pub const NO_TOUCH: u32 = 1 << 3;
    /// The client will be closed when its replies have left.
    pub(crate) const CLOSING: u32 = 1 << 4;
    /// The client imports data (Valkey's CLIENT IMPORT-SOURCE).
    pub const IMPORT_SOURCE: u32 = 1 << 5;
    /// The client waits for the end of CLIENT PAUSE.
    pub const PAUSED: u32 = 1 << 6;
    /// The client follows redirections (Valkey's CLIENT CAPA).
    pub const REDIRECT: u32 = 1 << 7;
    /// Its command is under way: on another thread, or waiting for its locks.
    pub const WORKING: u32 = 1 << 8;
    /// The client has subscribed to something.
    pub const SUBSCRIBER: u32 = 1 << 9;
    /// The client's reads are remembered, or it wants to hear of all keys with a prefix.
    pub const TRACKING: u32 = 1 << 10;
    /// The client is tracked in broadcast mode.
    pub(crate) const BROADCAST: u32 = 1 << 11;
    /// The client that was to be told of old copies instead of it is gone.
    pub const BROKEN_REDIRECT: u32 = 1 << 12;
    /// The client watches what happens to memcached's items.
    pub const WATCHER: u32 = 1 << 13;
    /// The client speaks memcached's protocols, and has sent a part of a value.
    pub const MIDWAY: u32 = 1 << 14;
    /// Its session will be woken to look at what it could not send.
    pub const ALARMED: u32 = 1 << 15;
    /// The client is a replica of ours.
    pub const REPLICA: u32 = 1 << 16;
    /// The client is our primary.
    pub const PRIMARY: u32 = 1 << 18;
    /// The client was blocked when the server became a replica.
    pub const DEMOTED: u32 = 1 << 17;
    /// The client has not logged in.
    pub const UNAUTHENTICATED: u32 = 1 << 19;
    /// The client reads from replicas of a cluster.
    pub const READONLY: u32 = 1 << 20;
    /// What the client waits for is at another node of the cluster; of no meaning without BLOCKED.
    pub const WAITS_ELSEWHERE: u32 = 1 << 21;
}

/// All clients of the process.
#[derive(Default)]
pub struct Clients {
    next_id: AtomicU64,
    count: AtomicU32,
    by_id: Mutex<BTreeMap<ClientId, Arc<Client>>>,
    /// Wakes the waiters that are to be told that a client has left.
    departures: Mutex<Wakers>,
}

impl Clients {
    /// Registers a new client.
    pub fn register(
        &self,
        peer: Peer,
        local: Peer,
        descriptor: i32,
        now: UnixMillis,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            local,
            descriptor,
            created: now,
            live: LiveStats::default(),
            signals: AtomicU32::new(0),
            waker: Mutex::default(),
            names: Mutex::default(),
            deliveries: Mutex::default(),
        });
        client.live.last_active.store(now, Ordering::Relaxed);
        client.live.last_command.store(NO_COMMAND, Ordering::Relaxed);
        client.live.resp.store(2, Ordering::Relaxed);
        client.live.queued.store(-1, Ordering::Relaxed);
        client.live.redirect.store(-1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.table().insert(client.id, Arc::clone(&client));
        client
    }

    /// Forgets a client; its owner calls this when the session ends.
    pub fn remove(&self, id: ClientId) {
        if self.table().remove(&id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            let waiting = self.waiting().take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether the sessions of all these are over; if not, this waker is woken when one more is.
    pub fn poll_departures(&self, ids: &[ClientId], waker: &Waker) -> Poll<()> {
        // Queued first: a departure from here on is heard of.
        self.waiting().add(waker);
        let table = self.table();
        if ids.iter().any(|id| table.contains_key(id)) { Poll::Pending } else { Poll::Ready(()) }
    }

    fn waiting(&self) -> MutexGuard<'_, Wakers> {
        self.departures.lock().expect("no critical section here panics")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// One client.
    pub fn find(&self, id: ClientId) -> Option<Arc<Client>> {
        self.table().get(&id).cloned()
    }

    /// All clients, by id.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.table().values().cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<ClientId, Arc<Client>>> {
        self.by_id.lock().expect("no critical section here panics")
    }
}

impl Delivery {
    /// What was published, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn messages(&self) -> &[Arc<[u8]>] {
        let Self::Messages(bundle) = self else { return &[] };
        bundle
    }

    fn size(&self) -> usize {
        match self {
            Self::Messages(bundle) => bundle.iter().map(|message| message.len()).sum(),
            Self::Notices(notices) => notices.iter().map(Invalidation::size).sum(),
            Self::Rerouted(_) => 0,
        }
    }
}

impl Client {
    /// Whether the client runs on this machine, by whichever of the machine's addresses it came.
    pub fn is_neighbour(&self) -> bool {
        match (self.peer, self.local) {
            (Peer::Tcp(peer), Peer::Tcp(local)) => self.peer.is_local() || peer.ip == local.ip,
            _ => true,
        }
    }

    /// How many subscriptions of a kind it has.
    pub(crate) fn subscriptions_of(&self, kind: SubscriptionKind) -> u32 {
        self.live.subscriptions[kind as usize].load(Ordering::Relaxed)
    }

    /// The client is the link to our primary, which has no user.
    pub fn become_primary(&self) {
        self.set_flag(client_flags::PRIMARY, true);
        self.names().user = Some(Box::from(&b"(superuser)"[..]));
    }

    /// Whether the client has this user. The link to our primary has none.
    pub fn is_of_user(&self, name: &[u8]) -> bool {
        !self.has_flag(client_flags::PRIMARY) && self.names().user() == name
    }

    /// So many more commands have come, the last of which has this id, where that is known.
    pub fn note_commands(&self, count: u64, last: Option<usize>) {
        self.live.commands.fetch_add(count, Ordering::Relaxed);
        if let Some(id) = last {
            self.live.last_command.store(id as u32, Ordering::Relaxed);
        }
    }

    /// Notes what is asked of the owner, which still has to be told (`Mailboxes::signal`); whether
    /// that is new.
    pub fn ask(&self, signal: Signal) -> bool {
        let killed = if signal == Signal::Kill { KILLED } else { 0 };
        self.signals.fetch_or(signal as u32 | killed, Ordering::Release) & signal as u32 == 0
    }

    /// Has the session look at its signals, wherever it lives.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().expect("no critical section here panics") {
            waker.wake_by_ref();
        }
    }

    /// The worker it lives at.
    pub fn lane(&self) -> usize {
        usize::from(self.live.worker.load(Ordering::Relaxed))
    }

    /// The client lives at this worker from now on.
    pub fn set_lane(&self, lane: usize) {
        let lane = u8::try_from(lane).expect("there are fewer workers");
        self.live.worker.store(lane, Ordering::Relaxed);
    }

    /// What was asked; the owner looks at every turn.
    #[inline]
    pub fn asked(&self) -> PendingSignals {
        PendingSignals(self.signals.load(Ordering::Acquire) & !KILLED)
    }

    /// Whether this was asked; the signal is taken off the list.
    pub fn take(&self, signal: Signal) -> bool {
        // Few are asked at a time, and to look costs less than to take.
        self.is_asked(signal)
            && self.signals.fetch_and(!(signal as u32), Ordering::Acquire) & signal as u32 != 0
    }

    /// Whether the client is to go, or its session is to look at what its user may still do: until
    /// it has, nobody gives it anything.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.signals.load(Ordering::Acquire) & (Signal::Kill as u32 | Signal::Review as u32) != 0
    }

    /// Whether somebody has asked for its end, be it seen to or not.
    pub fn was_killed(&self) -> bool {
        self.signals.load(Ordering::Acquire) & KILLED != 0
    }

    /// Whether this was asked.
    pub fn is_asked(&self, signal: Signal) -> bool {
        self.asked().is_asked(signal)
    }

    /// Gives the client messages, such as MONITOR lines; whether its session is to be woken for
    /// them. Until the session has looked one wake is enough, and another for each further piece:
    /// a session that can pass nothing on at present sees to it that it is not owed too much.
    #[must_use]
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        /// Of so many bytes.
        const PIECE: usize = 64 * 1024;
        let is_piece_full = {
            let mut deliveries = self.deliveries();
            let deliveries = deliveries.get_or_insert_default();
            let before = deliveries.bytes / PIECE;
            deliveries.bytes += delivery.size();
            deliveries.waiting.push(delivery);
            deliveries.bytes / PIECE != before
        };
        self.ask(Signal::Deliver) || is_piece_full
    }

    /// Takes the messages that were given, in order.
    pub fn take_deliveries(&self) -> SmallVec<[Delivery; 1]> {
        // A client that is given messages once will be again: the room stays.
        self.deliveries().as_deref_mut().map(std::mem::take).unwrap_or_default().waiting
    }

    /// Bytes of messages given to the client and not taken yet.
    pub fn delivery_bytes(&self) -> usize {
        self.deliveries().as_ref().map_or(0, |deliveries| deliveries.bytes)
    }

    fn deliveries(&self) -> MutexGuard<'_, Option<Box<Deliveries>>> {
        self.deliveries.lock().expect("no critical section here panics")
    }

    /// The names, to be read or changed.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("no critical section here panics")
    }

    /// Notes what it watches with, how many keys, and what they take.
    pub(crate) fn show_watch(&self, watch: Option<&Arc<Watch>>, keys: usize, bytes: usize) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        // A client that begins to watch, or ends it, has another number of keys from then on.
        if self.live.watched.load(Ordering::Relaxed) != keys {
            self.live.watched.store(keys, Ordering::Relaxed);
            let mut names = self.names();
            names.watch = watch.cloned();
            names.held_memory.watched = bytes;
        }
    }

    /// Notes in which queues it waits now, if in any.
    pub fn show_waiter(&self, waiter: Option<&Arc<Waiter>>) {
        let mut names = self.names();
        if let Some(waiter) = waiter {
            names.waiter = Arc::downgrade(waiter);
        } else if names.waits_for_keys() {
            names.waiter = Weak::new();
        }
    }

    /// Whether a key that it watches has changed.
    pub(crate) fn has_broken_watch(&self) -> bool {
        self.names().watch.as_ref().is_some_and(|watch| watch.is_broken())
    }

    /// Names the task to wake; set once per worker the session lives on, as a task's waker stays
    /// the same.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock().expect("no critical section here panics") = Some(waker.clone());
    }

    /// Sets or clears a flag.
    pub fn set_flag(&self, flag: u32, on: bool) {
        if on {
            self.live.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.live.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// What was sent on for it to another node, and came back, takes so many bytes now, and not so
    /// many as were noted before.
    pub fn note_forwarded(&self, before: usize, now: usize) {
        let forwarded = &mut self.names().held_memory.forwarded;
        *forwarded = (*forwarded + now).saturating_sub(before);
    }

    /// Whether a flag is set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.live.flags.load(Ordering::Relaxed) & flag != 0
    }
}

// There are many clients, and the allocator's next class begins above this.
const _: () = assert!(size_of::<Client>() + 2 * size_of::<usize>() <= 256);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{Client, Clients, Peer, Waiter};

    #[test]
    fn departures_are_waited_for_until_the_last_has_left() {
        let clients = Clients::default();
        let ids = [(); 3].map(|()| clients.register(Peer::Unix, Peer::Unix, 0, 0).id);
        let stays = clients.register(Peer::Unix, Peer::Unix, 0, 0);
        clients.remove(ids[1]);
        let is_over = || clients.poll_departures(&ids, Waker::noop()).is_ready();
        assert!(!is_over());
        clients.remove(ids[0]);
        assert!(!is_over());
        clients.remove(ids[2]);
        assert!(is_over());
        assert_eq!(clients.count(), 1);
        assert!(clients.find(stays.id).is_some());
    }

    /// Its session lets go of what stood for it, and says that it waits no more behind that.
    #[test]
    fn a_served_client_waits_for_keys_until_its_session_says_otherwise() {
        let client = Clients::default().register(Peer::Unix, Peer::Unix, 0, 0);
        let is_known = |client: &Client| client.names().waiter().is_some();
        assert!(!client.names().waits_for_keys());
        let waiter = Waiter::new(false, Box::new(()));
        client.show_waiter(Some(&waiter));
        assert!(is_known(&client) && client.names().waits_for_keys());
        drop(waiter);
        assert!(!is_known(&client) && client.names().waits_for_keys());
        client.show_waiter(None);
        assert!(!client.names().waits_for_keys());
    }

    #[test]
    fn a_client_of_this_machine_is_a_neighbour_by_whichever_address() {
        let address = |text: &str| Peer::Tcp(text.parse::<std::net::SocketAddr>().unwrap().into());
        let clients = Clients::default();
        for (peer, local, is_local, is_neighbour) in [
            ("127.0.0.1:1", "127.0.0.1:6379", true, true),
            ("127.9.9.9:1", "127.0.0.1:6379", true, true),
            ("[::1]:1", "[::1]:6379", true, true),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:6379", true, true),
            ("192.0.2.7:1", "192.0.2.7:6379", false, true),
            ("192.0.2.7:1", "192.0.2.8:6379", false, false),
            ("[2001:db8::1]:1", "[2001:db8::2]:6379", false, false),
        ] {
            let client = clients.register(address(peer), address(local), 0, 0);
            assert_eq!(client.peer.is_local(), is_local, "{peer}");
            assert_eq!(client.is_neighbour(), is_neighbour, "{peer}");
        }
        let client = clients.register(Peer::Unix, Peer::Unix, 0, 0);
        assert!(client.peer.is_local() && client.is_neighbour());
    }
}
