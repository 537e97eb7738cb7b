//! What all threads share, from the keyspace to the reasons for which a command waits or is
//! refused.
//!
//! Invariant: the whole lives as long as the process and is only ever shared; whatever changes in
//! it is an atomic or behind a lock of its own. Each part is state with methods of its own, and no
//! part knows sessions, workers or files.

use std::sync::atomic::{AtomicI64, Ordering};

use base::CpuTime;
use base::time::UnixMillis;
use commands::Spec;
use commands::arguments::database;
use config::settings::{NOTIFY_KEYSPACE_EVENTS, PROTO_MAX_BULK_LEN};
use config::{Config, KeyEvents};
use keyspace::{Effects, Keyspace, PartitionSet, Refusal};
use proto::{Args, Limits, Reply};

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::{Directory, Mailboxes, Outbox, PendingWakes};
use crate::clients::registry::{Client, Clients};
use crate::clients::unregistration::Unregistrar;
use crate::journal::Journal;
use crate::limits::access::Access;
use crate::limits::gate_state::GateState;
use crate::limits::long_running::RunningGuard;
use crate::limits::memory::MemoryState;
use crate::limits::scripts::state::Scripts;
use crate::observe::hot_keys::UsageSample;
use crate::observe::monitor;
use crate::observe::notifications::notify;
use crate::observe::observations::Observations;
use crate::observe::pubsub::PubSubType;
use crate::observe::pushes::Pushes;
use crate::observe::tracking::TrackingContext;
use crate::runtime::background::BetweenJobs;
use crate::runtime::counters::Totals;
use crate::runtime::log::Log;
use crate::runtime::threads::Threads;
use crate::table::command_table::{CommandEntry, CommandTable};

/// What is shared by all threads and all rooms, by owner.
pub struct Shared {
    /// The data.
    pub keyspace: &'static Keyspace,
    /// The values of all directives.
    pub config: Config,
    /// The commands by their names.
    pub table: CommandTable,
    /// The server's log.
    pub log: Log,
    /// The ids and times that INFO server shows.
    pub identity: Identity,
    /// The process's threads, and what they count.
    pub threads: Threads,
    /// All connected clients.
    pub clients: Clients,
    /// What threads leave for the clients of each worker.
    pub mailboxes: Mailboxes,
    /// Removes clients that have gone from the queues of their keys.
    pub unregistrar: Unregistrar,
    /// The records of all writes, on their way to their readers.
    pub journal: Journal,
    /// What clients are sent without having asked at that moment.
    pub pushes: Pushes,
    /// What is counted, timed and sampled.
    pub observed: Observations,
    /// The users, and what was denied to them.
    pub access: Access,
    /// Why a command waits or is refused.
    pub gates: GateState,
    /// The memory in use, and the work that keeps it small.
    pub memory: MemoryState,
    /// What is known of scripts, functions and their runs.
    pub scripts: Scripts,
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

impl Shared {
    /// Builds all of it from the configuration; no thread runs yet.
    pub fn new(
        config: Config,
        table: CommandTable,
        log: Log,
        keyspace: &'static Keyspace,
        between_jobs: BetweenJobs,
    ) -> Self {
        let (threads, commands) = (Threads::new(&config, keyspace, between_jobs), table.len());
        Self {
            access: Access::new(table.catalogue()),
            keyspace,
            config,
            table,
            log,
            identity: Identity::new(keyspace.clock().now_ms()),
            threads,
            clients: Clients::default(),
            mailboxes: Mailboxes::new(),
            unregistrar: Unregistrar::new(keyspace),
            journal: Journal::new(keyspace.clock().clone(), &keyspace.settings().journal_attached),
            pushes: Pushes::default(),
            observed: Observations::new(commands),
            gates: GateState::new(keyspace),
            memory: MemoryState::new(keyspace),
            scripts: Scripts::default(),
        }
    }

    /// Has all that wait for an event look again where many may be over, so that no line of them
    /// grows without end: to be called now and then.
    pub fn sweep_waiting(&self) {
        self.journal.sweep();
        self.gates.sweep();
        self.memory.budget.backpressure.sweep();
    }

    /// The database that SELECT names.
    ///
    /// # Errors
    /// There is none of this number: a cluster has those of `cluster-databases` only.
    pub fn database_of(&self, index: &[u8]) -> Result<usize, Refusal> {
        const CLUSTER: Refusal = Refusal::error("ERR SELECT is not allowed in cluster mode");
        let (count, is_cluster) = (self.keyspace.database_count(), self.gates.routing.is_on());
        let index = database(index, if is_cluster { usize::MAX } else { count })?;
        if index < count { Ok(index) } else { Err(CLUSTER) }
    }

    /// What the process has used up to now.
    pub fn usage(&self) -> UsageSample {
        let (clock, totals) =
            (self.keyspace.clock(), Totals::of(self.threads.all_worker_counters()));
        UsageSample {
            now_ms: clock.now_ms(),
            now_us: clock.monotonic_us(),
            cpu: CpuTime::of_process(),
            net_bytes: totals.net_in + totals.net_out,
        }
    }

    /// What a client's requests may measure.
    #[inline]
    pub fn request_limits(&self, authenticated: bool) -> Limits {
        Limits { bulk: self.config.get(PROTO_MAX_BULK_LEN), authenticated, ..Limits::default() }
    }

    /// Whether expired keys are looked for.
    pub(crate) fn active_expiry(&self) -> bool {
        let suspended = self.keyspace.settings().suspends_expiry() || self.gates.loading.is_on();
        self.memory.allows_active_expiry() && !suspended
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
        RunningGuard::begin(&self.gates.long_running, self.keyspace, since_us, partitions)
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
        space: PubSubType,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let receivers = self.pushes.pubsub.publish(self.outbox(wakes), space, channel, message);
        let slot_stats = &self.observed.slot_stats;
        if space == PubSubType::Shard && slot_stats.is_on() {
            slot_stats.note_message(channel, message, receivers);
        }
        match self.pushes.bus() {
            // Replicas are nodes, too.
            Some(bus) => bus.publish(space, channel, message),
            None => self.journal.forward(&[space.command(), channel, message]),
        }
        receivers
    }

    /// Publishes what a transaction gathered; the caller wakes workers when its batch is over.
    #[inline]
    pub(crate) fn notify(&self, wakes: &PendingWakes, effects: &Effects) {
        if !effects.events().is_empty() {
            self.notify_as_asked(wakes, self.config.get(NOTIFY_KEYSPACE_EVENTS), effects);
        }
    }

    /// As `notify`, with the events that were to be told when the transaction ran.
    pub(crate) fn notify_as_asked(
        &self,
        wakes: &PendingWakes,
        asked: KeyEvents,
        effects: &Effects,
    ) {
        notify(&self.pushes.pubsub, asked, self.outbox(wakes), effects);
    }

    /// Enters what a client has read, whose locks are still held.
    #[cold]
    pub(crate) fn remember(&self, reader: ClientId, spec: &Spec, args: Args<'_>) {
        self.pushes.tracking.remember(self.tracking_context(), reader, spec, args);
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

    /// As `feed_monitors`, of a script that did not even begin, and is shown all the same.
    #[cold]
    pub(crate) fn feed_monitors_unbegun(
        &self,
        wakes: &PendingWakes,
        client: &Client,
        database: usize,
        entry: &CommandEntry,
        args: Args<'_>,
    ) {
        if self.pushes.monitors.any() && monitor::reports_itself(entry) {
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
        self.pushes.monitors.feed(self.outbox(wakes), &source, began, entry, args);
    }

    /// Replies a refusal as the error it is.
    pub fn refuse(&self, refusal: &Refusal, reply: &mut Reply<'_>) {
        self.observed.stats.error(write_refusal(refusal, reply));
    }

    /// Counts a refusal that was replied.
    #[cold]
    pub(crate) fn count_refusal(&self, refusal: &Refusal) {
        self.observed.stats.error(line_of(refusal));
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
