//! What of a log may be run by several threads.
//!
//! Each key belongs to a share, by its partition. A unit whose keys all belong to one share, and
//! that touches nothing else, depends on units of that share only. Segments of such units are run
//! apart, each share in its order; all other units are run together with what is around them.
//!
//! Invariant: two units that may touch the same data are in one share of one segment, in the order
//! of the file, or in segments that follow each other.

use std::ops::Range;

use commands::arguments::database;
use commands::{Flags, LockPlan, Role};
use engine::execute::Resolved;
use engine::table::command_table::Run;
use keyspace::{PartitionIndex, PartitionSet};
use persist::aof::Unit;
use persist::entry_notes::EntryNote;
use proto::{Args, OwnedArgs};

use super::non_data_commands::NonDataCommand;
use crate::durability::Durability;

/// Fewer units than this are not worth waking anybody for.
const APART_MIN: usize = if cfg!(test) { 4 } else { 512 };

/// So many are run at most before the next are begun: to readers of a replica they are one moment,
/// for which their keys are locked.
const APART_MAX: usize = if cfg!(test) { 512 } else { 2048 };

/// A unit of more bytes is run before others are read.
const LARGE: u64 = if cfg!(test) { 1 << 10 } else { 4 << 20 };

/// Units that follow each other in the file.
pub(crate) enum Segment {
    /// To be run in this order, with nothing beside them.
    Serial(Vec<Task>),
    /// To be run share by share.
    Parallel(Vec<Vec<Task>>),
}

/// A unit to be run.
pub(crate) struct Task {
    pub(crate) commands: TaskCommands,
    /// Where in the source it begins.
    pub(crate) offset: u64,
    /// Where in the source it ends.
    pub(crate) end: u64,
    pub(crate) state: ReplayState,
    /// What was found out about the first command.
    pub(crate) resolved: Option<Resolved>,
    /// Where all its keys lie, if it needs no more than those.
    pub(crate) partitions: PartitionSet,
    /// Whether it may need anything.
    pub(crate) needs_world: bool,
    /// The logical database behind it.
    pub(crate) selects: usize,
}

/// The commands of a unit.
pub(crate) enum TaskCommands {
    Own(Vec<OwnedArgs>),
    /// One command, at this place of the bytes that the unit came in.
    Within(Range<usize>),
}

/// What earlier units leave behind for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayState {
    /// The logical database.
    pub(crate) database: usize,
    /// What memcached's clients noted of the next string.
    pub(crate) flags: u32,
}

/// Makes segments of units.
pub(crate) struct Partitioner {
    server: &'static Durability,
    shares: usize,
    state: ReplayState,
    done: Vec<Segment>,
    together: Vec<Task>,
    /// The latest ones, which may be run apart, each with its share.
    apart: Vec<(usize, Task)>,
}

/// What a command touches.
enum ConflictClass {
    /// Nothing but the state for the next command.
    State,
    /// Keys of one share.
    Share(usize),
    /// Keys of several shares, or what is to be seen in its order with all.
    Several,
    Anything,
}

impl ConflictClass {
    /// What two touch together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (reach, Self::State) | (Self::State, reach) => reach,
            (Self::Share(one), Self::Share(other)) if one == other => Self::Share(one),
            (Self::Anything, _) | (_, Self::Anything) => Self::Anything,
            _ => Self::Several,
        }
    }
}

/// The one of so many shares to which a partition belongs.
pub(super) fn share_of(partition: PartitionIndex, shares: usize) -> usize {
    usize::from(partition) % shares
}

impl Partitioner {
    /// For so many shares.
    pub(crate) fn new(server: &'static Durability, shares: usize) -> Self {
        let (done, together, apart) = (Vec::new(), Vec::new(), Vec::new());
        Self { server, shares, state: ReplayState::default(), done, together, apart }
    }

    /// Adds the next unit.
    pub(crate) fn add(&mut self, unit: Unit) {
        let Unit { commands, offset, end, .. } = unit;
        let (state, mut partitions, mut reach) =
            (self.state, PartitionSet::new(), ConflictClass::State);
        let mut first = None;
        for command in &commands {
            let args = command.as_args();
            let resolved = Resolved::of_record(self.server, args);
            first = first.or(Some(resolved));
            reach = reach.and(self.classify(args, resolved, &mut partitions));
        }
        let (commands, resolved) = (TaskCommands::Own(commands), first.flatten());
        self.add_classified((commands, offset..end), state, resolved, (reach, partitions));
    }

    /// The same for a unit of one command, which lies at a place of the bytes that it came in.
    pub(crate) fn add_within(&mut self, args: Args<'_>, place: Range<usize>, offsets: Range<u64>) {
        let (state, mut partitions) = (self.state, PartitionSet::new());
        let resolved = Resolved::of_record(self.server, args);
        let reach = self.classify(args, resolved, &mut partitions);
        let commands = TaskCommands::Within(place);
        self.add_classified((commands, offsets), state, resolved, (reach, partitions));
    }

    fn add_classified(
        &mut self,
        (commands, Range { start: offset, end }): (TaskCommands, Range<u64>),
        state: ReplayState,
        resolved: Option<Resolved>,
        (reach, partitions): (ConflictClass, PartitionSet),
    ) {
        let is_large = end - offset > LARGE;
        let (needs_world, selects) =
            (matches!(reach, ConflictClass::Anything), self.state.database);
        let task =
            Task { commands, offset, end, state, resolved, partitions, needs_world, selects };
        match reach {
            ConflictClass::State => {}
            ConflictClass::Share(share) if self.shares > 1 && !is_large => {
                self.apart.push((share, task));
                if self.apart.len() == APART_MAX {
                    self.decide();
                }
            }
            ConflictClass::Share(_) | ConflictClass::Several | ConflictClass::Anything => {
                self.decide();
                self.together.push(task);
            }
        }
    }

    /// The logical database behind all units so far.
    pub(crate) fn database(&self) -> usize {
        self.state.database
    }

    /// Another database is selected, by nothing that is in a unit.
    pub(crate) fn select(&mut self, database: usize) {
        self.state.database = database;
    }

    /// What was made of the units so far.
    pub(crate) fn take(&mut self) -> Vec<Segment> {
        self.decide();
        self.end_together();
        std::mem::take(&mut self.done)
    }

    /// Decides on the latest units.
    fn decide(&mut self) {
        if self.apart.len() < APART_MIN {
            self.together.extend(self.apart.drain(..).map(|(_, task)| task));
            return;
        }
        self.end_together();
        let mut shares: Vec<Vec<Task>> = (0..self.shares).map(|_| Vec::new()).collect();
        self.apart.drain(..).for_each(|(share, task)| shares[share].push(task));
        self.done.push(Segment::Parallel(shares));
    }

    fn end_together(&mut self) {
        if !self.together.is_empty() {
            self.done.push(Segment::Serial(std::mem::take(&mut self.together)));
        }
    }

    /// Looks what a command touches, and what it leaves for the next one.
    fn classify(
        &mut self,
        args: Args<'_>,
        resolved: Option<Resolved>,
        partitions: &mut PartitionSet,
    ) -> ConflictClass {
        match EntryNote::of(args) {
            Some(EntryNote::Flags(flags)) => {
                self.state.flags = flags;
                return ConflictClass::State;
            }
            Some(EntryNote::Sticks(key, _)) => {
                let partition = self.server.keyspace.locate(key).partition();
                partitions.push(partition);
                return ConflictClass::Share(share_of(partition, self.shares));
            }
            // Told in its place among the units that its slots are of.
            Some(EntryNote::CopiedSlots(_)) => return ConflictClass::Several,
            None => {}
        }
        self.state.flags = 0;
        // What is no command is refused where it is run.
        let Some(Resolved { entry, location }) = resolved else { return ConflictClass::Anything };
        let (spec, keyspace) = (entry.spec, self.server.keyspace);
        match NonDataCommand::of(spec.role, args) {
            Some(NonDataCommand::Nothing) => return ConflictClass::State,
            Some(NonDataCommand::Message(..) | NonDataCommand::TakeOver(_)) => {
                return ConflictClass::Several;
            }
            None => {}
        }
        if !spec.arity.admits(args.len()) {
            return ConflictClass::Anything;
        }
        if spec.role == Role::Select {
            let Ok(database) = database(&args[1], keyspace.database_count()) else {
                return ConflictClass::Anything;
            };
            self.state.database = database;
            return ConflictClass::State;
        }
        let goes_on = [Flags::TOUCHES_ARBITRARY_KEYS, Flags::BLOCKING, Flags::USES_FIELDSET];
        let is_bound = matches!(entry.run, Run::Data(_))
            && spec.plan == LockPlan::Keys
            && !goes_on.into_iter().any(|flag| spec.flags.has(flag));
        if !is_bound {
            return ConflictClass::Anything;
        }
        let before = partitions.len();
        match location {
            Some(location) => partitions.push(location.partition()),
            None => {
                let visited = spec.visit_keys(args, |index| {
                    partitions.push(keyspace.locate(&args[index]).partition());
                });
                // Key counts that lie are refused where the command is run.
                if visited.is_err() {
                    return ConflictClass::Anything;
                }
            }
        }
        let mut shares = partitions[before..].iter().map(|&it| share_of(it, self.shares));
        match shares.next() {
            Some(first) if shares.all(|share| share == first) => ConflictClass::Share(first),
            Some(_) => ConflictClass::Several,
            None => ConflictClass::Anything,
        }
    }
}
