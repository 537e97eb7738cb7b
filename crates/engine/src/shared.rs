//! What all threads share, from the keyspace to the reasons for which a command waits or is
//! refused.
//!
//! Invariant: the whole lives as long as the process and is only ever shared; whatever changes in
//! it is an atomic or behind a lock of its own. Each part is state with methods of its own, and no
//! part knows sessions, workers or files.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use acl::Users;
use base::CpuTime;
use base::time::UnixMillis;
use commands::Spec;
use config::Config;
use config::settings::PROTO_MAX_BULK_LEN;
use keyspace::{Effects, Keyspace, PartitionSet, Refusal};
use proto::{Args, Limits, Reply};

use crate::clients::client_id::ClientId;
use crate::clients::client_margin::Margin;
use crate::clients::mailbox::{Directory, Mailboxes, Outbox, PendingWakes};
use crate::clients::registry::{Client, Clients};
use crate::clients::unregistration::Unregistrar;
use crate::journal::Journal;
use crate::journal::acks::ReplicaAcks;
use crate::journal::snapshot_fence::SnapshotFence;
use crate::limits::auth_failures::AuthFailures;
use crate::limits::budget::Budget;
use crate::limits::clock_renewal_state::ClockRenewal;
use crate::limits::defrag_state::DefragState;
use crate::limits::eviction_observer::EvictionObserver;
use crate::limits::loading::Loading;
use crate::limits::long_running::{LongRunning, RunningGuard};
use crate::limits::pause::Pause;
use crate::limits::quotas::Quotas;
use crate::limits::replica_role::ReplicaRole;
use crate::limits::routing::Routing;
use crate::limits::scripts::state::Scripts;
use crate::limits::write_refusals::WriteRefusals;
use crate::observe::baselines::Baselines;
use crate::observe::command_log::CommandLog;
use crate::observe::hot_keys::{HotKeys, UsageSample};
use crate::observe::key_statistics::KeyStatistics;
use crate::observe::latency::LatencyMonitor;
use crate::observe::monitor::{self, Monitors};
use crate::observe::notifications::notify;
use crate::observe::pubsub::{MessageBus, PubSub, Space};
use crate::observe::rates::RateMeter;
use crate::observe::stats::Stats;
use crate::observe::tracking::{Tracking, TrackingContext};
use crate::runtime::background::{Background, BetweenJobs};
use crate::runtime::cores::Cores;
use crate::runtime::counters::{Totals, WorkerCounters};
use crate::runtime::event_loops::EventLoops;
use crate::runtime::lanes::MAX_WORKERS;
use crate::runtime::log::Log;
use crate::runtime::shutdown_request::ShutdownRequest;
use crate::runtime::write_gate::WriteGate;
use crate::table::command_table::{CommandEntry, CommandTable};

/// What is shared by all threads and all rooms.
pub struct Shared {
    /// The data.
    pub keyspace: &'static Keyspace,
    /// The values of all directives.
    pub config: Config,
    /// The commands by their names.
    pub table: CommandTable,
    /// The server's log.
    pub log: Log,
    /// The cores that the process may use, and which are taken.
    pub cores: Arc<Cores>,
    /// How often the event loops turned.
    pub loops: EventLoops,
    /// The heavy-work threads.
    pub background: Background,
    /// The users, and what each of them may do.
    pub users: Users,
    /// What was denied to whom: ACL LOG.
    pub acl_log: acl::Log,
    /// From where passwords are guessed.
    pub auth_failures: AuthFailures,
    /// All connected clients.
    pub clients: Clients,
    pub(crate) client_margin: Margin,
    /// What threads leave for the clients of each worker.
    pub mailboxes: Mailboxes,
    /// The records of all writes, on their way to their readers.
    pub journal: Journal,
    /// How far the replicas are.
    pub replica_acks: ReplicaAcks,
    /// Holds replies back while the snapshot file still has what was removed.
    pub snapshot_fence: SnapshotFence,
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// CLIENT TRACKING: the invalidation table and its clients.
    pub tracking: Tracking,
    /// The clients that watch with MONITOR.
    pub monitors: Monitors,
    /// What INFO counts of commands, errors and connections.
    pub stats: Stats,
    /// SLOWLOG and COMMANDLOG.
    pub command_log: CommandLog,
    /// HOTKEYS: the keys that take most.
    pub hot_keys: HotKeys,
    /// What is known of single keys: the hot ones, the big ones, the prefixes.
    pub key_statistics: KeyStatistics,
    /// How long commands take, against the best that they have shown.
    pub baselines: Baselines,
    /// LATENCY: the samples of each event.
    pub latency: LatencyMonitor,
    /// How much happens per second; the slow clock keeps it.
    pub rates: RateMeter,
    /// The memory in use, against `maxmemory`.
    pub budget: Budget,
    /// Why writes are refused.
    pub write_refusals: WriteRefusals,
    /// Commands that others may have to wait for.
    pub(crate) long_running: LongRunning,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// What users and databases take, and may take.
    pub quotas: Quotas,
    /// Whether this is a replica; `keyspace_settings::set_replica` changes it.
    pub replica_role: ReplicaRole,
    /// Which node of a cluster serves what; no cluster without a table.
    pub routing: Routing,
    /// Whether data are being loaded, and how far that is.
    pub loading: Loading,
    /// Whether the process is about to end.
    pub shutdown_request: ShutdownRequest,
    /// Removes clients that have gone from the queues of their keys.
    pub unregistrar: Unregistrar,
    /// What is known of scripts, functions and their runs.
    pub scripts: Scripts,
    pub(crate) clock_renewal: ClockRenewal,
    /// The state of active defragmentation.
    pub defrag: DefragState,
    /// Set before the first client comes.
    eviction_observer: OnceLock<&'static dyn EvictionObserver>,
    /// Set before the first client comes, in a cluster.
    bus: OnceLock<&'static dyn MessageBus>,
    /// Shut while a snapshot, or the log, has no room for what more writes would leave it.
    pub snapshot_gate: WriteGate,
    /// Shut while the append-only file has no room for what more writes would leave.
    pub log_gate: WriteGate,
    /// How many workers there are.
    worker_count: AtomicUsize,
    /// How many of them are busy (`batch_scheduling.rs`).
    pub busy_workers: AtomicUsize,
    /// The ids and times that INFO server shows.
    pub identity: Identity,
    /// The most memory that was seen in use.
    pub peak_memory: PeakMemory,
    /// `DEBUG SET-ACTIVE-EXPIRE`.
    active_expiry: AtomicBool,
    workers: Box<[WorkerCounters]>,
    /// What is counted of a primary's stream, by the thread that applies it.
    pub applier: WorkerCounters,
    /// How many lanes ever had a worker.
    worker_lanes: AtomicUsize,
}

/// Which process this is.
pub struct Identity {
    /// 40 hexadecimal digits, new at every start.
    pub run_id: String,
    /// When the process started.
    pub started: UnixMillis,
    /// The TCP port in use, also where `port 0` asked for any; 0 for none.
    port: AtomicI64,
}

/// The most memory that was seen to be used.
pub struct PeakMemory {
    bytes: AtomicUsize,
    /// When that was, in Unix seconds.
    time: AtomicI64,
}

impl Shared {
    /// Builds all of it from the configuration; no thread runs yet.
    pub fn new(
        config: Config,
        table: CommandTable,
        log: Log,
        keyspace: &'static Keyspace,
        between_jobs: BetweenJobs,
    ) -> Self {
        let cores = Arc::new(Cores::configured(&config));
        let (stats, users) = (Stats::new(table.len()), Users::new(table.catalogue()));
        Self {
            background: Background::new(keyspace, &cores, between_jobs),
            keyspace,
            config,
            table,
            log,
            cores,
            loops: EventLoops::default(),
            users,
            acl_log: acl::Log::default(),
            auth_failures: AuthFailures::default(),
            clients: Clients::default(),
            client_margin: Margin::default(),
            mailboxes: Mailboxes::new(),
            journal: Journal::new(keyspace.clock().clone(), &keyspace.settings().journal_attached),
            replica_acks: ReplicaAcks::default(),
            snapshot_fence: SnapshotFence::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            monitors: Monitors::default(),
            stats,
            command_log: CommandLog::new(),
            hot_keys: HotKeys::default(),
            key_statistics: KeyStatistics::default(),
            baselines: Baselines::default(),
            latency: LatencyMonitor::new(),
            rates: RateMeter::default(),
            budget: Budget::default(),
            write_refusals: WriteRefusals::default(),
            long_running: LongRunning::default(),
            pause: Pause::new(keyspace),
            quotas: Quotas::default(),
            replica_role: ReplicaRole::default(),
            routing: Routing::default(),
            loading: Loading::default(),
            shutdown_request: ShutdownRequest::default(),
            unregistrar: Unregistrar::new(keyspace),
            scripts: Scripts::default(),
            clock_renewal: ClockRenewal::default(),
            defrag: DefragState::default(),
            eviction_observer: OnceLock::new(),
            bus: OnceLock::new(),
            snapshot_gate: WriteGate::default(),
            log_gate: WriteGate::default(),
            worker_count: AtomicUsize::new(0),
            busy_workers: AtomicUsize::new(0),
            identity: Identity::new(keyspace.clock().now_ms()),
            peak_memory: PeakMemory::new(keyspace),
            active_expiry: AtomicBool::new(true),
            workers: (0..MAX_WORKERS).map(|_| WorkerCounters::default()).collect(),
            worker_lanes: AtomicUsize::new(0),
            applier: WorkerCounters::default(),
        }
    }

    /// What the process has used up to now.
    pub fn usage(&self) -> UsageSample {
        let (clock, totals) = (self.keyspace.clock(), Totals::of(self.all_worker_counters()));
        UsageSample {
            now_ms: clock.now_ms(),
            now_us: clock.monotonic_us(),
            cpu: CpuTime::of_process(),
            net_bytes: totals.net_in + totals.net_out,
        }
    }

    /// The counters that a new worker is to write.
    pub(crate) fn counters_of_new_worker(&self, lane: usize) -> &WorkerCounters {
        self.worker_lanes.fetch_max(lane + 1, Ordering::Relaxed);
        self.worker_counters(lane)
    }

    /// The counters of one worker.
    pub fn worker_counters(&self, lane: usize) -> &WorkerCounters {
        &self.workers[lane]
    }

    /// The counters of all lanes that ever had a worker, and of the threads that apply a primary's
    /// stream.
    pub fn all_worker_counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        let lanes = self.worker_lanes.load(Ordering::Relaxed);
        self.workers[..lanes].iter().chain([&self.applier])
    }

    /// The observer that books and tells evictions, if there is one.
    pub(crate) fn eviction_observer(&self) -> Option<&'static dyn EvictionObserver> {
        self.eviction_observer.get().copied()
    }

    /// Has evictions booked and told; once.
    pub fn set_eviction_observer(&self, observer: &'static dyn EvictionObserver) {
        let _ = self.eviction_observer.set(observer);
    }

    /// Has messages go to other nodes, too; once.
    pub fn set_bus(&self, bus: &'static dyn MessageBus) {
        let _ = self.bus.set(bus);
    }

    /// How many workers are at work.
    #[inline]
    pub fn worker_count(&self) -> usize {
        self.worker_count.load(Ordering::Relaxed)
    }

    /// CONFIG SET `server-workers` has changed how many workers there are.
    pub fn set_worker_count(&self, count: usize) {
        self.worker_count.store(count, Ordering::Relaxed);
    }

    /// What a client's requests may measure.
    #[inline]
    pub fn request_limits(&self, authenticated: bool) -> Limits {
        Limits { bulk: self.config.get(PROTO_MAX_BULK_LEN), authenticated, ..Limits::default() }
    }

    /// Whether expired keys are looked for.
    pub(crate) fn active_expiry(&self) -> bool {
        let suspended = self.keyspace.settings().suspends_expiry() || self.loading.is_on();
        self.active_expiry.load(Ordering::Relaxed) && !suspended
    }

    /// `DEBUG SET-ACTIVE-EXPIRE`.
    pub fn set_active_expiry(&self, on: bool) {
        self.active_expiry.store(on, Ordering::Relaxed);
    }

    /// The clients, and the way to them.
    #[inline]
    pub fn directory(&self) -> Directory<'_> {
        Directory { clients: &self.clients, mailboxes: &self.mailboxes }
    }

    /// The mailboxes, for a thread that leaves letters in them.
    #[inline]
    pub fn outbox<'a>(&'a self, wakes: &'a PendingWakes) -> Outbox<'a> {
        Outbox { mailboxes: &self.mailboxes, wakes }
    }

    /// A command begins to hold these partitions, on a background thread.
    pub(crate) fn begin_long_running(
        &'static self,
        since_us: i64,
        partitions: PartitionSet,
    ) -> RunningGuard {
        RunningGuard::begin(&self.long_running, self.keyspace, since_us, partitions)
    }

    /// What tracking works with.
    pub fn tracking_context(&self) -> TrackingContext<'_> {
        let Self { keyspace, config, .. } = self;
        TrackingContext { keyspace, config, directory: self.directory() }
    }

    /// Publishes a message, to subscribers of replicas as well; for how many subscriptions it was
    /// here. The caller wakes workers when its batch is over.
    pub fn publish(
        &self,
        wakes: &PendingWakes,
        space: Space,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let receivers = self.pubsub.publish(self.outbox(wakes), space, channel, message);
        match self.bus.get() {
            // Replicas are nodes, too.
            Some(bus) => bus.publish(space, channel, message),
            None => self.journal.forward(&[space.command(), channel, message]),
        }
        receivers
    }

    /// Publishes what a transaction gathered; the caller wakes workers when its batch is over.
    #[inline]
    pub(crate) fn notify(&self, wakes: &PendingWakes, effects: &Effects) {
        notify(&self.pubsub, &self.config, self.outbox(wakes), effects);
    }

    /// Enters what a client has read, whose locks are still held.
    #[cold]
    pub(crate) fn remember(&self, reader: ClientId, spec: &Spec, args: Args<'_>) {
        self.tracking.remember(self.tracking_context(), reader, spec, args);
    }

    /// Tells all who watch of a command of this client that has run, or begins to wait, and the
    /// database that the client is in then.
    #[cold]
    pub(crate) fn feed_monitors(
        &self,
        wakes: &PendingWakes,
        client: &Client,
        database: usize,
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        if !monitor::is_hidden(entry) {
            let now_us = self.keyspace.clock().now_us();
            self.feed_monitors_of(wakes, client, (now_us, database), entry, args);
        }
    }

    /// As `feed_monitors`, of a script that did not even begin: it is shown all the same.
    #[cold]
    pub(crate) fn feed_monitors_unbegun(
        &self,
        wakes: &PendingWakes,
        client: &Client,
        database: usize,
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        if self.monitors.any() && monitor::feeds_itself(entry) {
            let now_us = self.keyspace.clock().now_us();
            self.feed_monitors_of(wakes, client, (now_us, database), entry, args);
        }
    }

    /// As `feed_monitors`, with when the command began, in microseconds, and in which database.
    #[cold]
    pub(crate) fn feed_monitors_of(
        &self,
        wakes: &PendingWakes,
        client: &Client,
        began: (i64, usize),
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        let source = monitor::source_of(client, &self.config);
        self.monitors.feed(self.outbox(wakes), &source, began, entry, args);
    }

    /// Replies a refusal as the error it is.
    pub fn refuse(&self, refusal: &Refusal, reply: &mut Reply<'_>) {
        self.stats.error(write_refusal(refusal, reply));
    }

    /// Counts a refusal that was replied.
    #[cold]
    pub(crate) fn count_refusal(&self, refusal: &Refusal) {
        self.stats.error(line_of(refusal));
    }
}

impl Identity {
    fn new(started: UnixMillis) -> Self {
        Self { run_id: random_id(), started, port: AtomicI64::new(0) }
    }

    /// The TCP port that is listened on; 0 for none.
    pub fn port(&self) -> u16 {
        u16::try_from(self.port.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// A listener has opened this TCP port.
    pub fn set_port(&self, port: u16) {
        self.port.store(port.into(), Ordering::Relaxed);
    }
}

impl PeakMemory {
    fn new(keyspace: &Keyspace) -> Self {
        let peak = Self { bytes: AtomicUsize::new(0), time: AtomicI64::new(0) };
        peak.record(keyspace.memory(), keyspace.clock().now_ms());
        peak
    }

    /// Looks whether more memory is used than ever; to be called now and then.
    pub fn record(&self, used: usize, now: UnixMillis) {
        if self.bytes.fetch_max(used, Ordering::Relaxed) < used {
            self.time.store(now / 1000, Ordering::Relaxed);
        }
    }

    /// The peak, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When it was used, in Unix seconds.
    pub fn time(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
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
    let line = line_of(refusal);
    reply.error(line);
    line
}

/// The line that a refusal is replied as.
pub(crate) fn line_of(refusal: &Refusal) -> &[u8] {
    refusal.line().unwrap_or(b"ERR internal refusal")
}
