//! The source of a move: sends the snapshot of some slots, the writes behind it, and
//! at last the slots themselves.
//!
//! Invariants: writers that are held go on when the move is over, whatever came of the move; the
//! slots are this node's until the target's claim is heard on the bus.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use base::io_error_text::strerror;
use config::settings::{
    CLUSTER_MANUAL_FAILOVER_TIMEOUT, CLUSTER_SLOT_MOVE_BUFFER_LIMIT, CLUSTER_SLOT_MOVE_RATE,
    REPL_TIMEOUT, SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES,
};
use engine::journal::{DurabilityLevel, ReaderId};
use engine::limits::pause::Ticket;
use engine::runtime::background::{BackgroundAccess, wait_for};
use keyspace::{Acquisition, EntryBox, PartitionIndex, Walk};
use proto::args::encode_command;
use proto::framing::encode_select;
use proto::{Limits, Progress, RequestParser};

use super::entry_commands::{OWN_COMMAND, write_entry};
use super::grant::GrantGuard;
use super::slot_stream::{ChangedEntries, SlotReader, SlotStream};
use super::{MoveJob, MoveState, SnapshotTurn};
use crate::cluster::peer_socket::{PeerSocket, has_not_ended};
use crate::cluster::start::ClusterContext;
use crate::cluster::{PeerClient, World};

/// A connection may take so long to be made, and a word of the beginning to be answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// So long a look at what the target says waits for it where nothing else is to be done.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A target that takes nothing is waited for so long between two looks whether the move goes on.
const STUCK: Duration = Duration::from_millis(100);

const SILENT: &str = "Timed out after too long with no interaction";
const LATE: &str = "Unpaused before failover completed";

/// Between two looks whether a snapshot can be taken.
const BETWEEN_TURNS: Duration = Duration::from_millis(100);

/// The target is told so often that this end is there.
const BETWEEN_ACKS_MS: i64 = 1000;

/// So many entries are copied under one hold of their partition.
const ENTRIES_OF_HOLD: usize = 64;

/// Carries out a move from here.
pub(super) fn run(start: ClusterContext, job: &MoveJob) {
    // The move may have waited for its thread.
    job.note_heard(start.server);
    let ended = Export::connect(start, job).and_then(|mut export| export.run());
    job.finish(start.server, ended);
}

/// A move from here.
struct Export<'a> {
    start: ClusterContext,
    job: &'a MoveJob,
    socket: PeerSocket,
    stream: Arc<SlotStream>,
    /// Whether the target takes what Redis has no words for.
    takes_own_words: bool,
    /// What the target has said and was not read yet.
    heard: Vec<u8>,
    parser: RequestParser,
    acked_ms: i64,
    began_us: i64,
    sent: u64,
    /// The database that is selected at the target.
    selected: usize,
    /// When the target has to have asked for the slots, once the writers are held.
    pause_ends_us: Option<i64>,
}

/// What the target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetWord {
    Pause,
    Failover,
}

impl<'a> Export<'a> {
    /// Connects, and has the target agree.
    fn connect(start: ClusterContext, job: &'a MoveJob) -> Result<Self, String> {
        let server = start.server;
        let connect = || {
            let mut peer = PeerClient::connect(start, job.target)?;
            let takes_own_words = peer.has_command(OWN_COMMAND)?;
            let socket = peer.into_socket();
            let limited = socket.transport().set_write_timeout(Some(STUCK));
            limited.map(|()| (socket, takes_own_words)).map_err(|error| strerror(&error))
        };
        let (socket, takes_own_words) =
            connect().map_err(|why| format!("Connection to target: {why}"))?;
        let bytes_max = server.config.get(CLUSTER_SLOT_MOVE_BUFFER_LIMIT);
        let clock = server.keyspace.clock();
        let stream = SlotStream::new(server, job.slots.clone(), bytes_max, takes_own_words);
        job.stream.get_or_init(|| Arc::downgrade(&stream));
        let mut export = Self {
            start,
            job,
            socket,
            stream,
            takes_own_words,
            heard: Vec::new(),
            parser: RequestParser::new(),
            acked_ms: clock.now_ms(),
            began_us: clock.monotonic_us(),
            sent: 0,
            selected: 0,
            pause_ends_us: None,
        };
        export.introduce()?;
        Ok(export)
    }

    fn introduce(&mut self) -> Result<(), String> {
        let (source, name) = (self.job.source.to_string(), self.job.name.clone());
        let ranges = self.job.slots.ranges().into_iter();
        let bounds: Vec<String> =
            ranges.flat_map(|(first, last)| [first.to_string(), last.to_string()]).collect();
        let words = ["CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", &source, "NAME", &name];
        let words = words.into_iter().chain(["SLOTSRANGE"]);
        let words: Vec<&[u8]> =
            words.chain(bounds.iter().map(String::as_str)).map(str::as_bytes).collect();
        self.ask(&words)?;
        // Valkey takes a snapshot from a source only that has acknowledged what was agreed on.
        self.send_command(&[b"CLUSTER", b"SYNCSLOTS", b"ACK"])
    }

    /// Sends a command that is answered by OK.
    fn ask(&mut self, words: &[&[u8]]) -> Result<(), String> {
        self.send_command(words)?;
        let deadline = self.now_us() + PATIENCE.as_micros() as i64;
        while !self.heard.contains(&b'\n') {
            if self.now_us() > deadline {
                return Err(SILENT.to_owned());
            }
            self.read(POLL_INTERVAL)?;
        }
        let end = self.heard.iter().position(|byte| *byte == b'\n').unwrap_or(0);
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match line.starts_with('+') {
            true => Ok(()),
            false => Err(format!("Received error during handshake to target: {line}")),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let server = self.start.server;
        let (turn, walk, reader) = self.await_cut()?;
        self.job.set(server, MoveState::Snapshotting, "");
        let sent = self.send_snapshot(&walk);
        end_walk(self.start, &walk);
        drop(turn);
        let sent = sent.and_then(|()| self.hand_over());
        server.journal.detach(reader);
        let left = std::mem::take(&mut self.stream.lock().entries);
        left.into_iter().for_each(|(_, entry)| server.keyspace.lazy_free(entry));
        sent
    }

    /// Waits for its turn, and for a walk, which may be with saves and full syncs.
    fn await_cut(&mut self) -> Result<(SnapshotTurn<'static>, Arc<Walk>, ReaderId), String> {
        let moves = &self.start.node.moves;
        self.job.set(self.start.server, MoveState::WaitingToSnapshot, "");
        loop {
            if let Some(turn) = moves.take_turn()
                && let Some((walk, reader)) = self.cut()?
            {
                return Ok((turn, walk, reader));
            }
            self.poll_target(BETWEEN_TURNS)?;
        }
    }

    /// Begins the walk and the stream at one instant; nothing where all walks are taken.
    fn cut(&self) -> Result<Option<(Arc<Walk>, ReaderId)>, String> {
        let server = self.start.server;
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        let job = self.job;
        job.check_owner(self.start)?;
        let partitions: Vec<PartitionIndex> = job.slots.iter().map(cluster::Slot::get).collect();
        let sink = Box::new(ChangedEntries(Arc::clone(&self.stream)));
        let walk = Walk::begin_of(&mut world, sink, partitions.into());
        let Some(walk) = walk else { return Ok(None) };
        let reader = server.journal.new_reader_id();
        let slot_reader = Box::new(SlotReader::new(&self.stream));
        server.journal.attach(reader, slot_reader, DurabilityLevel::None);
        Ok(Some((walk, reader)))
    }

    fn send_snapshot(&mut self, walk: &Walk) -> Result<(), String> {
        let keyspace = self.start.server.keyspace;
        while let Some(partition) = walk.next_partition() {
            let mut from = Some((0, 0));
            while let Some(place) = from {
                let mut taken = Vec::new();
                {
                    let mut access = BackgroundAccess::wait(keyspace);
                    let grant = access.acquire_next(partition);
                    from = walk.visit(&grant, partition, place, ENTRIES_OF_HOLD, |database, it| {
                        taken.push((database, it.pre_image()));
                    });
                }
                self.send_entries(walk, taken)?;
                let changed = self.stream.take_entries()?;
                self.send_entries(walk, changed)?;
                self.poll_target(Duration::ZERO)?;
            }
        }
        let changed = self.stream.take_entries()?;
        self.send_entries(walk, changed)?;
        self.job.set(self.start.server, MoveState::Replicating, "");
        self.send_command(&[b"CLUSTER", b"SYNCSLOTS", b"SNAPSHOT-EOF"])
    }

    /// Sends entries, no faster than they may be sent.
    fn send_entries(&mut self, walk: &Walk, entries: Vec<(usize, EntryBox)>) -> Result<(), String> {
        let server = self.start.server;
        let compresses = server.keyspace.settings().compresses_dumps.load(Ordering::Relaxed);
        let mut sent = Ok(());
        for (physical, entry) in entries {
            // What is over goes, too: its end is in the stream, or its new deadline.
            if sent.is_ok() {
                let mut bytes = Vec::new();
                let database = walk.name(physical);
                if self.selected != database {
                    encode_select(database, &mut bytes);
                    self.selected = database;
                }
                write_entry(entry.borrow(), compresses, self.takes_own_words, &mut bytes);
                sent = self.send(&bytes).and_then(|()| self.keep_to_rate(bytes.len()));
            }
            server.keyspace.lazy_free(entry);
        }
        sent
    }

    fn keep_to_rate(&mut self, bytes: usize) -> Result<(), String> {
        self.sent += bytes as u64;
        loop {
            let rate = self.start.server.config.get(CLUSTER_SLOT_MOVE_RATE) as u64;
            let elapsed_us = u64::try_from(self.now_us() - self.began_us).unwrap_or(0);
            let due_us = self.sent.saturating_mul(1_000_000).checked_div(rate).unwrap_or(0);
            if due_us <= elapsed_us {
                return Ok(());
            }
            sleep(Duration::from_micros(due_us - elapsed_us).min(POLL_INTERVAL));
            self.poll_target(Duration::ZERO)?;
        }
    }

    /// Sends the writes until the target has all, and gives it the slots.
    fn hand_over(&mut self) -> Result<(), String> {
        let server = self.start.server;
        loop {
            self.send_commands()?;
            if self.poll_target(POLL_INTERVAL)? == Some(TargetWord::Pause) {
                break;
            }
        }
        self.job.set(server, MoveState::WaitingToPause, "");
        let most = server.config.get(SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES);
        let is_near = |waiting: usize| usize::try_from(most).is_ok_and(|most| waiting <= most);
        while most >= 0 && !is_near(self.stream.waiting()) {
            self.send_commands()?;
            self.poll_target(Duration::ZERO)?;
        }
        let held_us = self.now_us();
        let _held = self.pause()?;
        let timeout = i64::try_from(server.config.get(CLUSTER_MANUAL_FAILOVER_TIMEOUT));
        let timeout_us = timeout.unwrap_or(i64::MAX).saturating_mul(1000);
        let result = self.give_slots(held_us, timeout_us);
        let paused_ms = (self.now_us() - held_us) / 1000;
        self.job.paused_ms.store(paused_ms, Ordering::Relaxed);
        result
    }

    /// Gives the slots, with the writers held for twice this time at most. What the target claims
    /// it claims within the first half of it, counted from when it asked: so that is to be within
    /// the first half, too.
    fn give_slots(&mut self, held_us: i64, timeout_us: i64) -> Result<(), String> {
        let ClusterContext { server, node, .. } = self.start;
        self.job.set(server, MoveState::FailoverPaused, "");
        self.pause_ends_us = Some(held_us.saturating_add(timeout_us));
        self.send_commands()?;
        self.send_command(&[b"CLUSTER", b"SYNCSLOTS", b"PAUSED"])?;
        while self.poll_target(POLL_INTERVAL)? != Some(TargetWord::Failover) {}
        // Once the claim is heard they are deleted.
        let keys = self.job.key_count(server);
        self.job.set(server, MoveState::FailoverGranted, "");
        let grant = GrantGuard::begin(self.start, self.job, self.takes_own_words)?;
        self.tell_of(&grant)?;
        let job = self.job;
        let is_claimed = || {
            node.with_engine(|cluster| {
                job.slots.iter().all(|it| cluster.owner(it) == Some(job.target))
            })
        };
        while is_claimed() != Some(true) {
            if self.now_us() - held_us >= timeout_us.saturating_mul(2) {
                return Err(LATE.to_owned());
            }
            sleep(POLL_INTERVAL);
        }
        self.job.note_keys(keys);
        // A writer that goes on finds the table by which the slots are gone.
        node.publish_slot_map(server, World::Going);
        Ok(())
    }

    fn tell_of(&mut self, grant: &GrantGuard<'_>) -> Result<(), String> {
        let epochs = grant.epochs();
        let (first, last) = (epochs.first.to_string(), epochs.last.to_string());
        let words = ["CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED", "EPOCHS", &first, &last];
        let most = if self.takes_own_words { words.len() } else { 3 };
        let words: Vec<&[u8]> = words.iter().take(most).map(|word| word.as_bytes()).collect();
        self.send_command(&words)
    }

    /// Holds the writers, unless the data to send are others than those of the snapshot by now; no
    /// write comes behind that.
    fn pause(&self) -> Result<Ticket, String> {
        let server = self.start.server;
        let ticket = server.gates.pause.begin_own();
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        self.job.check_owner(self.start)?;
        Ok(ticket)
    }

    fn send_commands(&mut self) -> Result<(), String> {
        let commands = self.stream.take_commands()?;
        self.job.waiting.store(commands.len(), Ordering::Relaxed);
        if commands.is_empty() { Ok(()) } else { self.send(&commands) }
    }

    /// Hears what the target says, says that this end is there, and finds out whether it goes on.
    fn poll_target(&mut self, patience: Duration) -> Result<Option<TargetWord>, String> {
        let server = self.start.server;
        self.check()?;
        let now = server.keyspace.clock().now_ms();
        if now - self.acked_ms >= BETWEEN_ACKS_MS {
            self.acked_ms = now;
            self.send_command(&[b"CLUSTER", b"SYNCSLOTS", b"ACK"])?;
        }
        self.read(patience)?;
        let silence = now - self.job.heard_ms.load(Ordering::Relaxed);
        if silence > self.silence_max_ms() {
            return Err(SILENT.to_owned());
        }
        self.next_word()
    }

    /// Whether the move goes on.
    fn check(&self) -> Result<(), String> {
        if self.job.is_cancelled() {
            return Err("Cancelled".to_owned());
        }
        if self.pause_ends_us.is_some_and(|ends| self.now_us() >= ends) {
            return Err(LATE.to_owned());
        }
        self.job.check(self.start.server)
    }

    fn silence_max_ms(&self) -> i64 {
        i64::from(self.start.server.config.get(REPL_TIMEOUT)) * 1000
    }

    fn next_word(&mut self) -> Result<Option<TargetWord>, String> {
        loop {
            let progress = self.parser.advance(&self.heard, &Limits::default());
            let progress = progress.map_err(|_| "The target speaks nonsense".to_owned())?;
            let (consumed, word) = match progress {
                Progress::Incomplete { .. } => return Ok(None),
                Progress::Empty { consumed } => (consumed, None),
                Progress::Complete { consumed } => {
                    let args = self.parser.args(&self.heard);
                    let word = match args.get(2) {
                        Some(b"REQUEST-PAUSE") => Some(TargetWord::Pause),
                        Some(b"REQUEST-FAILOVER") => Some(TargetWord::Failover),
                        _ => None,
                    };
                    (consumed, word)
                }
            };
            self.parser.reset();
            self.heard.drain(..consumed);
            if word.is_some() {
                return Ok(word);
            }
        }
    }

    fn read(&mut self, patience: Duration) -> Result<(), String> {
        let mut chunk = [0; 1024];
        let waits = !patience.is_zero();
        // A socket that is open takes both; one that is not says so when it is read.
        let _ = match waits {
            true => self.socket.transport().set_read_timeout(Some(patience)),
            false => self.socket.transport().set_nonblocking(true),
        };
        let result = self.socket.read(&mut chunk);
        if !waits {
            let _ = self.socket.transport().set_nonblocking(false);
        }
        match result {
            Ok(0) => Err("Connection to target lost".to_owned()),
            Ok(count) => {
                self.heard.extend_from_slice(&chunk[..count]);
                self.job.note_heard(self.start.server);
                Ok(())
            }
            Err(error) if has_not_ended(error.kind()) => Ok(()),
            Err(error) => Err(format!("Connection to target lost: {}", strerror(&error))),
        }
    }

    fn send_command(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        encode_command(words.iter().copied(), &mut bytes);
        self.send(&bytes)
    }

    /// Sends all of it, for as long as the target takes some of it in time.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let mut taken_us = self.now_us();
        loop {
            // Ciphertext may wait when all plaintext is taken.
            let is_taken = bytes.is_empty();
            let taken = match is_taken {
                true => self.socket.flush().map(|()| 0),
                false => self.socket.write(bytes),
            };
            match taken {
                Ok(_) if is_taken => return Ok(()),
                Ok(count) if count > 0 => {
                    self.job.own_figures().add_bytes(count as u64);
                    bytes = &bytes[count..];
                    taken_us = self.now_us();
                }
                Err(error) if has_not_ended(error.kind()) => {
                    self.check()?;
                    if self.now_us() - taken_us > self.silence_max_ms() * 1000 {
                        return Err(SILENT.to_owned());
                    }
                }
                Err(error) => {
                    return Err(format!("Connection to target lost: {}", strerror(&error)));
                }
                Ok(_) => return Err("Connection to target lost".to_owned()),
            }
        }
    }

    fn now_us(&self) -> i64 {
        self.start.server.keyspace.clock().monotonic_us()
    }
}

/// Ends a walk, wherever it stands.
fn end_walk(start: ClusterContext, walk: &Walk) {
    let keyspace = start.server.keyspace;
    walk.abort();
    walk.start_over();
    while let Some(partition) = walk.next_partition() {
        let mut from = Some((0, 0));
        while let Some(place) = from {
            let mut access = BackgroundAccess::wait(keyspace);
            let grant = access.acquire_next(partition);
            from = walk.visit(&grant, partition, place, ENTRIES_OF_HOLD, |_, _| ());
        }
    }
    walk.end();
}
