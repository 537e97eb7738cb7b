//! What a session keeps between MULTI and EXEC, and from WATCH on.
//!
//! Invariant: a watch's registrations are taken off its keys when it ends, however it ends.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use commands::{Flags, Role};
use keyspace::{Acquisition, Keyspace, Location, Tx, TxOptions, Watch};
use proto::{Args, ArgsBuffer};

use super::lock_set::LockSet;
use crate::clients::registry::Client;
use crate::clients::unregistration::{Registered, Unregistration};
use crate::lane::Lane;
use crate::runtime::yielding::FEW;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;
use crate::table::flag_set::FlagSet;

/// So many commands a new queue has room for.
const COMMANDS: usize = 16;

thread_local! {
    /// The memory of a queue that is over: still in the caches for the next.
    static SPARE: Cell<MultiQueue> = Cell::default();
}

/// A session's transaction to be.
#[derive(Clone, Default)]
pub struct MultiState {
    /// The commands since MULTI.
    pub(crate) queue: Option<Arc<MultiQueue>>,
    pub(crate) watching: Option<Watching>,
}

/// Commands that wait for EXEC.
#[derive(Clone, Default)]
pub(crate) struct MultiQueue {
    commands: Vec<QueuedCommand>,
    /// The arguments of all commands, one behind the other; more than one only beyond 4 GiB.
    arguments: Vec<ArgsBuffer>,
    /// The flags of all of them together.
    flags: FlagSet,
    /// The database that its SELECTs lead to, if there is any.
    selected: Option<usize>,
    /// Whether one was refused, so that EXEC will be.
    pub(crate) is_dirty: bool,
}

/// Where a command is that waits for EXEC.
#[derive(Clone)]
struct QueuedCommand {
    entry: &'static CommandEntry,
    /// Which of the buffers its arguments are in, where they begin there, and how many they are.
    buffer: u32,
    first: u32,
    count: u32,
    /// Where its one key belongs, if it has just one, at index 1.
    location: Option<Location>,
}

/// A command of a queue, to be run.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    pub(crate) entry: &'static CommandEntry,
    pub(crate) args: Args<'a>,
    /// Where its one key belongs, if it has just one, at index 1.
    pub(crate) location: Option<Location>,
}

impl MultiQueue {
    /// The flags of all its commands together.
    pub(crate) fn flags(&self) -> FlagSet {
        self.flags
    }

    /// The same, as this finds them for each.
    pub(crate) fn flags_by(&self, flags_of: impl Fn(&CommandEntry, Args<'_>) -> Flags) -> Flags {
        let flags_of = |flags: Flags, it: Queued<'_>| flags.and(flags_of(it.entry, it.args));
        self.iter_from(0).fold(Flags::NONE, flags_of)
    }

    /// A queue that need not grow for a transaction of usual size, in the memory of one that is
    /// over if there is any.
    fn with_room() -> Self {
        const WORDS: usize = 3 * COMMANDS;
        const BYTES: usize = 24 * WORDS;
        let spare = SPARE.take();
        if spare.commands.capacity() > 0 {
            return spare;
        }
        let arguments = vec![ArgsBuffer::with_capacity(WORDS, BYTES)];
        Self { commands: Vec::with_capacity(COMMANDS), arguments, ..Self::default() }
    }

    /// Leaves its memory to the thread's next one, unless it is much.
    pub(crate) fn recycle(&mut self) {
        let Self { mut commands, mut arguments, .. } = std::mem::take(self);
        let Some(first) = arguments.first_mut() else { return };
        if commands.capacity() <= 4 * COMMANDS {
            first.clear();
            arguments.truncate(1);
            commands.clear();
            SPARE.set(Self { commands, arguments, ..Self::default() });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<Queued<'_>> {
        let &QueuedCommand { entry, buffer, first, count, location } = self.commands.get(index)?;
        let (first, count) = (first as usize, count as usize);
        let args = self.arguments[buffer as usize].as_args().slice(first..first + count);
        Some(Queued { entry, args, location })
    }

    /// What all commands lock.
    pub(crate) fn needs(&self, server: &Shared) -> LockSet {
        let mut needs = LockSet::default();
        needs.partitions.reserve(self.commands.len());
        for (index, slot) in self.commands.iter().enumerate() {
            if let Some(location) = slot.location {
                needs.partitions.push(location.partition());
            } else if let Some(Queued { entry, args, .. }) = self.get(index) {
                needs.add(server, entry, args);
            }
        }
        needs
    }

    /// The commands from one on.
    pub(crate) fn iter_from(&self, index: usize) -> impl Iterator<Item = Queued<'_>> {
        (index..self.len()).filter_map(|index| self.get(index))
    }

    /// Adds a command; `location` says where its one key belongs, if it has just one, at index 1.
    pub(crate) fn push(
        &mut self,
        entry: &'static CommandEntry,
        args: Args<'_>,
        location: Option<Location>,
    ) {
        self.flags = self.flags.and(FlagSet::of(entry.spec.flags));
        let last = self.arguments.last_mut();
        let first = last.and_then(|buffer| buffer.append(args)).unwrap_or_else(|| {
            self.arguments.push(ArgsBuffer::default());
            let fresh = self.arguments.last_mut().expect("it was just added");
            fresh.append(args).expect("a command has arguments and stays below 4 GiB")
        });
        let [buffer, first, count] = [self.arguments.len() - 1, first, args.len()].map(|number| {
            u32::try_from(number).expect("who sends 4 Gi arguments exceeds the limit of a query")
        });
        self.commands.push(QueuedCommand { entry, buffer, first, count, location });
    }

    /// What is queued from here on runs in this database.
    pub(crate) fn select(&mut self, database: usize) {
        self.selected = Some(database);
    }

    pub(super) fn memory(&self) -> usize {
        let arguments: usize = self.arguments.iter().map(ArgsBuffer::memory).sum();
        arguments + self.commands.capacity() * size_of::<QueuedCommand>()
    }
}

/// A client's watch and its keys, by logical database.
#[derive(Clone)]
pub(crate) struct Watching {
    pub(crate) watch: Arc<Watch>,
    /// Shared with the program that EXEC makes of it.
    pub(crate) keys: Arc<HashSet<(usize, Box<[u8]>)>>,
    /// What the keys take, here and in their partitions.
    pub(crate) bytes: usize,
}

impl MultiState {
    /// Whether commands are queued instead of run.
    #[inline]
    pub fn is_queueing(&self) -> bool {
        self.queue.is_some()
    }

    /// The database that the queue's SELECTs lead to, if there is any.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.queue.as_ref().and_then(|queue| queue.selected)
    }

    /// What EXEC would do, as far as flags tell.
    pub(crate) fn flags(&self) -> FlagSet {
        self.queue.as_ref().map_or(FlagSet::EMPTY, |queue| queue.flags)
    }

    /// What EXEC would do, by the flags that `flags_of` finds for each of its commands.
    pub(crate) fn flags_by(&self, flags_of: impl Fn(&CommandEntry, Args<'_>) -> Flags) -> Flags {
        self.queue.as_ref().map_or(Flags::NONE, |queue| queue.flags_by(flags_of))
    }

    /// Ends it without EXEC.
    pub(crate) fn end(self, server: &'static Shared) {
        if let Some(watching) = self.watching {
            watching.end_elsewhere(server);
        }
    }

    /// As `end`, and at once where the locks of all watched keys are free.
    pub fn end_at(self, lane: &Lane) {
        let Some(watching) = self.watching else { return };
        if watching.keys.len() > FEW {
            return watching.end_elsewhere(lane.shared);
        }
        let keyspace = lane.shared.keyspace;
        let partitions = watching.keys.iter().map(|(_, key)| keyspace.locate(key).partition());
        let mut acquisition = Acquisition::of_partitions(keyspace, partitions.collect());
        if !lane.enter() || !acquisition.attempt() {
            return watching.end_elsewhere(lane.shared);
        }
        let options = TxOptions::internal(lane.number, lane.now_ms());
        watching.end(&mut Tx::begin(acquisition, options));
    }

    /// Whether EXEC does nothing, as what was watched has changed.
    pub(crate) fn is_broken(&self) -> bool {
        // A queue that is dirty is refused in other words.
        self.queue.as_ref().is_some_and(|queue| !queue.is_dirty)
            && self.watching.as_ref().is_some_and(|watching| watching.watch.is_broken())
    }

    /// Whether EXEC will run nothing, whatever is queued yet.
    pub(crate) fn is_lost(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.is_dirty) || self.is_broken()
    }

    /// As `is_broken`; if something is watched and has not changed, the waker is called when it
    /// does.
    pub fn poll_broken(&self, waker: &Waker) -> bool {
        self.is_queueing()
            && self.watching.as_ref().is_some_and(|watching| watching.watch.poll_broken(waker))
            && self.is_broken()
    }

    /// Shows each command of the queue.
    pub(crate) fn each_queued(&self, visit: impl FnMut(Queued<'_>)) {
        if let Some(queue) = &self.queue {
            queue.iter_from(0).for_each(visit);
        }
    }

    /// The commands that wait for EXEC, if another node of the cluster may run them all: they are
    /// about keys, or are the same wherever they run, and nothing is watched here.
    pub(crate) fn queue_for_elsewhere(&self) -> Option<&Arc<MultiQueue>> {
        let queue = self.queue.as_ref().filter(|_| self.watching.is_none())?;
        let is_alike = |role: Role| matches!(role, Role::Ping | Role::Publish);
        let may_go = |it: Queued<'_>| it.entry.runs_elsewhere() || is_alike(it.entry.spec.role);
        queue.iter_from(0).all(may_go).then_some(queue)
    }

    /// MULTI: what comes is queued from here on.
    pub fn begin(&mut self) {
        self.queue = Some(Arc::new(MultiQueue::with_room()));
    }

    /// The commands that wait for EXEC, to be added to.
    pub(crate) fn queue_mut(&mut self) -> Option<&mut MultiQueue> {
        self.queue.as_mut().map(Arc::make_mut)
    }

    /// Bytes of the commands that wait for EXEC, as their client sent them.
    pub fn query_bytes(&self) -> usize {
        let queue = self.queue.iter();
        queue.flat_map(|queue| &queue.arguments).map(|buffer| buffer.as_args().extent()).sum()
    }

    /// A command was refused while others are queued: EXEC will be, too.
    #[cold]
    pub(crate) fn mark_dirty(&mut self) {
        if let Some(queue) = self.queue_mut() {
            queue.is_dirty = true;
        }
    }

    /// Shows it in CLIENT LIST.
    pub(crate) fn show(multi: Option<&Self>, client: &Client) {
        let live = &client.live;
        let queue = multi.and_then(|it| it.queue.as_ref());
        let queued = queue.map_or(-1, |queue| queue.len() as i32);
        let watching = multi.and_then(|it| it.watching.as_ref());
        live.queued.store(queued, Ordering::Relaxed);
        live.queued_bytes.store(queue.map_or(0, |queue| queue.memory() as u64), Ordering::Relaxed);
        let keys = watching.map_or(0, |it| it.keys.len());
        client.show_watch(watching.map(|it| &it.watch), keys, watching.map_or(0, |it| it.bytes));
    }
}

impl Watching {
    pub(crate) fn begin(keyspace: &'static Keyspace) -> Self {
        Self { watch: Watch::new(keyspace), keys: Arc::default(), bytes: 0 }
    }

    /// Adds a key unless it is there.
    pub(crate) fn add(&mut self, key: (usize, Box<[u8]>)) {
        /// Its place in the partition's map, and what allocations cost.
        const PLACE: usize = 160;
        let length = key.1.len();
        if Arc::make_mut(&mut self.keys).insert(key) {
            self.bytes += PLACE + 2 * length;
        }
    }

    /// Takes the watch off its keys, which the transaction holds.
    pub(crate) fn end(&self, tx: &mut Tx) {
        self.keys.iter().for_each(|(database, key)| tx.unwatch(*database, key, &self.watch));
    }

    /// As `end`, at some time soon: no client waits for it.
    pub(crate) fn end_elsewhere(self, server: &'static Shared) {
        let is_much = self.keys.len() > FEW;
        let begin = move || {
            let keys = self.keys.iter().cloned().collect();
            drop(Unregistration::new(&server.unregistrar, Registered::Watch(self.watch, keys)));
        };
        match is_much {
            true => server.threads.background.spawn(move |_| begin()),
            false => begin(),
        }
    }
}
