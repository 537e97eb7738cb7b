//! The server as all its threads see it.
//!
//! Invariant: it lives as long as the process and is only ever shared; whatever changes in it is an
//! atomic or behind a lock of its own.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use acl::Users;
use base::time::UnixMillis;
use config::Config;
use config::settings::PROTO_MAX_BULK_LEN;
use keyspace::{Keyspace, Refusal};
use persist::storage::Storage;
use proto::{Limits, ProtocolError, Reply};

use crate::aging::Aging;
use crate::ailments::Ailments;
use crate::aof::Aof;
use crate::backup::Backup;
use crate::budget::Budget;
use crate::busy::Underway;
use crate::claims::SnapshotClaim;
use crate::client_id::ClientId;
use crate::client_memory::Margin;
use crate::clients::Clients;
use crate::command_log::CommandLog;
use crate::compaction::Compaction;
use crate::cores::Cores;
use crate::counters::WorkerCounters;
use crate::crew::Crew;
use crate::cron::RateMeter;
use crate::heavy::Heavy;
use crate::journal::Journal;
use crate::journal::snapshot_fence::SnapshotFence;
use crate::lanes::MAX_WORKERS;
use crate::latency::LatencyMonitor;
use crate::loading::Loading;
use crate::log::{Log, log_notice, log_warning};
use crate::loops::Loops;
use crate::mailbox::Mailboxes;
use crate::memcached::Memcached;
use crate::monitor::Watchers;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::reception::ReceptionDesk;
use crate::saves::Saves;
use crate::scripts::Scripts;
use crate::session::Session;
use crate::snapshot::Snapshots;
use crate::stats::Stats;
use crate::table::CommandTable;
use crate::tracking::Tracking;

/// What is shared by all threads.
pub(crate) struct Server {
    pub(crate) keyspace: &'static Keyspace,
    pub(crate) config: Config,
    pub(crate) table: CommandTable,
    /// Who may do what.
    pub(crate) users: Users,
    /// What was denied to whom: ACL LOG.
    pub(crate) acl_log: acl::Log,
    pub(crate) clients: Clients,
    pub(crate) crew: Crew,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) heavy: Heavy,
    pub(crate) budget: Budget,
    pub(crate) client_margin: Margin,
    pub(crate) aging: Aging,
    pub(crate) compaction: Compaction,
    /// Commands that others may have to wait for.
    pub(crate) underway: Underway,
    pub(crate) stats: Stats,
    pub(crate) pause: Pause,
    pub(crate) journal: Journal,
    pub(crate) aof: Aof,
    pub(crate) backup: Backup,
    pub(crate) snapshots: Snapshots,
    pub(crate) saves: Saves,
    pub(crate) snapshot_fence: SnapshotFence,
    pub(crate) snapshot_claim: SnapshotClaim,
    /// Why writes are refused.
    pub(crate) ailments: Ailments,
    pub(crate) log: Log,
    /// Where files lie.
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) loading: Loading,
    /// Who watches with MONITOR.
    pub(crate) watchers: Watchers,
    pub(crate) pubsub: PubSub,
    pub(crate) scripts: Scripts,
    pub(crate) tracking: Tracking,
    pub(crate) memcached: Memcached,
    pub(crate) command_log: CommandLog,
    pub(crate) latency: LatencyMonitor,
    /// How much happens per second; the slow clock keeps it.
    pub(crate) rates: RateMeter,
    pub(crate) loops: Loops,
    pub(crate) cores: Arc<Cores>,
    /// The way to the reception; set before the first client comes.
    pub(crate) reception: OnceLock<ReceptionDesk>,
    /// Held by who changes the configuration or writes its file, or begins or removes a backup.
    config_turn: Mutex<()>,
    /// 40 hexadecimal digits, new at every start.
    pub(crate) run_id: String,
    pub(crate) started: UnixMillis,
    /// The TCP port in use, also where `port 0` asked for any.
    pub(crate) port: AtomicI64,
    pub(crate) shutdown: crate::shutdown::Shutdown,
    /// How many workers are busy (`courtesy.rs`).
    pub(crate) busy_workers: AtomicUsize,
    /// The most memory that was seen to be used, in bytes.
    pub(crate) peak_memory: AtomicUsize,
    /// When that was, in Unix seconds.
    pub(crate) peak_memory_time: AtomicI64,
    /// `DEBUG SET-ACTIVE-EXPIRE`.
    active_expiry: AtomicBool,
    workers: Box<[WorkerCounters]>,
    /// How many lanes ever had a worker.
    worker_lanes: AtomicUsize,
}

impl Server {
    pub(crate) fn new(
        config: Config,
        table: CommandTable,
        log: Log,
        keyspace: &'static Keyspace,
        storage: Box<dyn Storage>,
    ) -> Self {
        let cores = Arc::new(Cores::configured(&config));
        let stats = Stats::new(table.len());
        let started = keyspace.clock().now_ms();
        let users = Users::new(table.catalogue());
        Self {
            keyspace,
            config,
            table,
            users,
            acl_log: acl::Log::default(),
            clients: Clients::default(),
            crew: Crew::new(),
            mailboxes: Mailboxes::new(),
            budget: Budget::default(),
            client_margin: Margin::default(),
            aging: Aging::default(),
            compaction: Compaction::default(),
            heavy: Heavy::new(keyspace, &cores),
            underway: Underway::default(),
            stats,
            pause: Pause::new(keyspace),
            journal: Journal::new(keyspace.clock().clone(), &keyspace.settings().journal_attached),
            aof: Aof::default(),
            backup: Backup::default(),
            snapshots: Snapshots::default(),
            saves: Saves::new(keyspace.clock()),
            snapshot_fence: SnapshotFence::default(),
            snapshot_claim: SnapshotClaim::default(),
            ailments: Ailments::default(),
            log,
            storage,
            loading: Loading::default(),
            watchers: Watchers::default(),
            pubsub: PubSub::default(),
            scripts: Scripts::default(),
            tracking: Tracking::default(),
            memcached: Memcached::default(),
            command_log: CommandLog::new(),
            latency: LatencyMonitor::new(),
            rates: RateMeter::default(),
            loops: Loops::default(),
            cores,
            reception: OnceLock::new(),
            config_turn: Mutex::default(),
            run_id: random_id(),
            started,
            port: AtomicI64::new(0),
            shutdown: crate::shutdown::Shutdown::default(),
            busy_workers: AtomicUsize::new(0),
            peak_memory: AtomicUsize::new(keyspace.memory()),
            peak_memory_time: AtomicI64::new(started / 1000),
            active_expiry: AtomicBool::new(true),
            workers: (0..MAX_WORKERS).map(|_| WorkerCounters::default()).collect(),
            worker_lanes: AtomicUsize::new(0),
        }
    }

    /// The counters that a new worker is to write.
    pub(crate) fn counters_of_new_worker(&self, lane: usize) -> &WorkerCounters {
        self.worker_lanes.fetch_max(lane + 1, Ordering::Relaxed);
        self.worker_counters(lane)
    }

    /// The counters of one worker.
    pub(crate) fn worker_counters(&self, lane: usize) -> &WorkerCounters {
        &self.workers[lane]
    }

    /// The counters of all lanes that ever had a worker.
    pub(crate) fn all_worker_counters(&self) -> &[WorkerCounters] {
        &self.workers[..self.worker_lanes.load(Ordering::Relaxed)]
    }

    /// Looks whether more memory is used than ever; to be called now and then.
    pub(crate) fn note_memory(&self, used: usize) {
        if self.peak_memory.fetch_max(used, Ordering::Relaxed) < used {
            self.peak_memory_time.store(self.keyspace.clock().now_ms() / 1000, Ordering::Relaxed);
        }
    }

    /// The TCP port that is listened on; 0 for none.
    pub(crate) fn listening_port(&self) -> u16 {
        u16::try_from(self.port.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Who changes the configuration, or writes down what is part of it, has a turn of its own.
    /// What a panic left behind was either published as a whole or not at all.
    pub(crate) fn take_config_turn(&self) -> MutexGuard<'_, ()> {
        self.config_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client's requests may measure.
    #[inline]
    pub(crate) fn request_limits(&self, authenticated: bool) -> Limits {
        Limits { bulk: self.config.get(PROTO_MAX_BULK_LEN), authenticated, ..Limits::default() }
    }

    /// Whether expired keys are looked for.
    pub(crate) fn active_expiry(&self) -> bool {
        let suspended = self.keyspace.settings().suspends_expiry() || self.loading.is_on();
        self.active_expiry.load(Ordering::Relaxed) && !suspended
    }

    pub(crate) fn set_active_expiry(&self, on: bool) {
        self.active_expiry.store(on, Ordering::Relaxed);
    }

    /// Ends the books of a client whose session is over.
    pub(crate) fn session_ended(&self, id: ClientId) {
        if let Some(client) = self.clients.find(id) {
            self.memcached.lookout.remove(&client);
            self.watchers.remove(&client);
        }
        self.clients.remove(id);
    }

    /// Replies a refusal as the error it is.
    pub(crate) fn refuse(&self, refusal: &Refusal, reply: &mut Reply<'_>) {
        self.stats.error(write_refusal(refusal, reply));
    }

    /// A handler panicked: a bug. The client is closed, the others go on.
    pub(crate) fn note_panic(&self, id: ClientId) {
        log_warning!(self.log, "Panic while serving client id={id}; the client is closed");
    }

    pub(crate) fn note_protocol_error(&self, session: &Session, error: &ProtocolError) {
        self.stats.error(b"ERR");
        if *error == ProtocolError::SecurityAttack {
            let peer = session.client.peer;
            log_warning!(
                self.log,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or \
                 Host: commands to Redis. This is likely due to an attacker attempting to use \
                 Cross Protocol Scripting to compromise your Redis instance. Connection from \
                 {peer} aborted."
            );
        }
    }

    pub(crate) fn note_query_buffer_overrun(&self, session: &Session) {
        self.stats.query_buffer_overruns.fetch_add(1, Ordering::Relaxed);
        let (id, peer) = (session.client.id, session.client.peer);
        log_notice!(
            self.log,
            "Closing client that reached max query buffer length: id={id} addr={peer}"
        );
    }
}

/// 40 random hexadecimal digits.
fn random_id() -> String {
    let mut random = base::random::Random::from_entropy();
    let digits = |_| char::from_digit(random.below(16) as u32, 16).expect("below 16");
    (0..40).map(digits).collect()
}

/// Replies a refusal; the line that it is.
pub(crate) fn write_refusal<'a>(refusal: &'a Refusal, reply: &mut Reply<'_>) -> &'a [u8] {
    let line = refusal.line().unwrap_or(b"ERR internal refusal");
    reply.error(line);
    line
}
