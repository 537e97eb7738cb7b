//! What a move has to send: entries that change before the walk comes to them, and the writes
//! behind the snapshot.
//!
//! Invariants: a command is kept if all its keys are of slots that move, and left out if none is; a
//! stream that would have to grow beyond its bound, or to take a command apart, is broken for good.

use std::sync::{Arc, Mutex, MutexGuard};

use base::hash_slot::hash_slot;
use cluster::{Slot, SlotSet};
use commands::{Flags, Plan, Role};
use engine::journal::JournalReader;
use engine::shared::Shared;
use keyspace::{EntryBox, EntryRef, Lsn, WalkSink};
use proto::framing::encode_select;
use proto::{Args, Limits, Progress, RequestParser};

/// The stream, shared by the journal, the walk and the thread that sends.
pub(super) struct SlotStream {
    server: &'static Shared,
    slots: SlotSet,
    bytes_max: usize,
    state: Mutex<StreamContent>,
}

#[derive(Default)]
pub(super) struct StreamContent {
    /// Commands behind the snapshot.
    pub(super) commands: Vec<u8>,
    /// The database that is selected behind them, once any is.
    selected: Option<usize>,
    /// Entries as they were at the cut, each with its physical database.
    pub(super) entries: Vec<(usize, EntryBox)>,
    entry_bytes: usize,
    /// Why the move cannot go on.
    pub(super) broken: Option<&'static str>,
}

impl SlotStream {
    pub(super) fn new(server: &'static Shared, slots: SlotSet, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { server, slots, bytes_max, state: Mutex::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StreamContent> {
        self.state.lock().expect("no critical section here panics")
    }

    /// Takes the commands that wait; an error says why the move cannot go on.
    pub(super) fn take_commands(&self) -> Result<Vec<u8>, &'static str> {
        let mut state = self.lock();
        state.broken.map_or(Ok(()), Err)?;
        Ok(std::mem::take(&mut state.commands))
    }

    /// As `take_commands`, of the entries.
    pub(super) fn take_entries(&self) -> Result<Vec<(usize, EntryBox)>, &'static str> {
        let mut state = self.lock();
        state.broken.map_or(Ok(()), Err)?;
        state.entry_bytes = 0;
        Ok(std::mem::take(&mut state.entries))
    }

    /// How many bytes of commands wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().commands.len()
    }

    fn moves(&self, key: &[u8]) -> bool {
        Slot::new(hash_slot(key)).is_some_and(|slot| self.slots.contains(slot))
    }
}

/// The walk's end of the stream.
pub(super) struct ChangedEntries(pub(super) Arc<SlotStream>);

impl WalkSink for ChangedEntries {
    fn save(&self, database: usize, entry: EntryRef<'_>) {
        let mut state = self.0.lock();
        if state.broken.is_some() {
            return;
        }
        state.entry_bytes += entry.memory();
        if state.entry_bytes > self.0.bytes_max {
            state.broken = Some("The buffer of the move is full");
            return;
        }
        state.entries.push((database, entry.duplicate(entry.key(), entry.deadline())));
    }
}

/// The journal's end of the stream.
pub(super) struct SlotReader {
    stream: Arc<SlotStream>,
    parser: RequestParser,
    /// The database that is selected where the journal ends.
    database: usize,
}

impl SlotReader {
    pub(super) fn new(stream: &Arc<SlotStream>) -> Self {
        Self { stream: Arc::clone(stream), parser: RequestParser::new(), database: 0 }
    }

    /// Takes the commands of a record.
    fn take(&mut self, mut bytes: &[u8], state: &mut StreamContent) -> Result<(), &'static str> {
        const NOT_READ: &str = "A record of the journal cannot be read";
        while !bytes.is_empty() {
            let progress = self.parser.advance(bytes, &Limits::OF_PRIMARY).map_err(|_| NOT_READ)?;
            let Progress::Complete { consumed } = progress else { return Err(NOT_READ) };
            let fate = self.use_of(self.parser.args(bytes));
            self.parser.reset();
            match fate {
                CommandUse::Kept => self.keep(&bytes[..consumed], state),
                CommandUse::LeftOut => {}
                CommandUse::Selects(database) => self.database = database,
                CommandUse::Breaks(why) => return Err(why),
            }
            if state.commands.len() > self.stream.bytes_max {
                return Err("The buffer of the move is full");
            }
            bytes = &bytes[consumed..];
        }
        Ok(())
    }

    /// What becomes of a command.
    fn use_of(&self, args: Args<'_>) -> CommandUse {
        const UNKNOWN: CommandUse = CommandUse::Breaks("A command of the journal is not known");
        const FLUSHED: CommandUse = CommandUse::Breaks("Data was flushed");
        const MIXED: CommandUse =
            CommandUse::Breaks("A command used keys of slots that move and of others");
        let Some(entry) = self.stream.server.table.resolve_declared(args) else { return UNKNOWN };
        let spec = entry.spec;
        if spec.role == Role::Select {
            let database = args.get(1).and_then(base::number::parse_i64);
            return CommandUse::Selects(
                database.and_then(|it| usize::try_from(it).ok()).unwrap_or(0),
            );
        }
        // What changes data under all locks is FLUSHALL, or of its kind.
        if spec.plan == Plan::World && spec.flags.has(Flags::WRITE) {
            return FLUSHED;
        }
        let (mut moves, mut stays) = (false, false);
        for keys in spec.keys {
            let _ = keys.visit(args, |index| match self.stream.moves(&args[index]) {
                true => moves = true,
                false => stays = true,
            });
        }
        match (moves && spec.flags.has(Flags::WRITE), moves && stays) {
            (true, false) => CommandUse::Kept,
            (true, true) => MIXED,
            (false, _) => CommandUse::LeftOut,
        }
    }

    fn keep(&self, command: &[u8], state: &mut StreamContent) {
        if state.selected != Some(self.database) {
            encode_select(self.database, &mut state.commands);
            state.selected = Some(self.database);
        }
        state.commands.extend_from_slice(command);
    }
}

/// What becomes of a command of the journal.
enum CommandUse {
    Kept,
    LeftOut,
    Selects(usize),
    Breaks(&'static str),
}

impl JournalReader for SlotReader {
    fn record(&mut self, _: Lsn, bytes: &[u8], _: bool) -> bool {
        let stream = Arc::clone(&self.stream);
        let mut state = stream.lock();
        if state.broken.is_none()
            && let Err(why) = self.take(bytes, &mut state)
        {
            state.broken = Some(why);
            state.commands = Vec::new();
        }
        false
    }

    fn selects(&mut self, database: usize) {
        self.database = database;
    }
}
