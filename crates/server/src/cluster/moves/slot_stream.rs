//! What a move has to send: entries that change before the walk comes to them, and the writes
//! behind the snapshot.
//!
//! Invariants: a command is kept if all its keys are of slots that move, and left out if none is; a
//! stream that would have to grow beyond its bound, or to take a command apart, is broken for good.

use std::sync::{Arc, Mutex, MutexGuard};

use base::hash_slot::hash_slot;
use cluster::{Slot, SlotSet};
use commands::{Flags, LockPlan, Role};
use engine::journal::JournalReader;
use engine::shared::Shared;
use keyspace::{EntryBox, EntryRef, Lsn, WalkSink};
use persist::entry_notes::EntryNote;
use proto::framing::encode_select;
use proto::{Args, Limits, Progress, RequestParser};

use super::entry_commands::{write_set, write_sticks};

/// The stream, shared by the journal, the walk and the thread that sends.
pub(super) struct SlotStream {
    server: &'static Shared,
    slots: SlotSet,
    bytes_max: usize,
    /// Whether the target takes what Redis has no words for.
    takes_own_words: bool,
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
    pub(super) fn new(
        server: &'static Shared,
        slots: SlotSet,
        bytes_max: usize,
        takes_own_words: bool,
    ) -> Arc<Self> {
        Arc::new(Self { server, slots, bytes_max, takes_own_words, state: Mutex::default() })
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

    /// How much memory what is kept takes.
    pub(super) fn kept_bytes(&self) -> usize {
        let state = self.lock();
        state.commands.capacity() + state.entry_bytes
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
        state.entries.push((database, entry.pre_image()));
    }
}

/// The journal's end of the stream.
pub(super) struct SlotReader {
    stream: Arc<SlotStream>,
    parser: RequestParser,
    /// The database that is selected where the journal ends.
    database: usize,
    /// What the journal notes of the string that its next command stores.
    flags: u32,
}

impl SlotReader {
    pub(super) fn new(stream: &Arc<SlotStream>) -> Self {
        Self { stream: Arc::clone(stream), parser: RequestParser::new(), database: 0, flags: 0 }
    }

    /// Takes the commands of a record.
    fn take(&mut self, mut bytes: &[u8], state: &mut StreamContent) -> Result<(), &'static str> {
        const NOT_READ: &str = "A record of the journal cannot be read";
        while !bytes.is_empty() {
            let progress = self.parser.advance(bytes, &Limits::OF_PRIMARY).map_err(|_| NOT_READ)?;
            let Progress::Complete { consumed } = progress else { return Err(NOT_READ) };
            let flags = std::mem::take(&mut self.flags);
            let fate = self.use_of(self.parser.args(bytes), flags);
            self.parser.reset();
            match fate {
                CommandUse::Kept => self.keep(&bytes[..consumed], state),
                CommandUse::Reworded(command) => self.keep(&command, state),
                CommandUse::Notes(flags) => self.flags = flags,
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

    /// What becomes of a command; of a SET these flags are noted.
    fn use_of(&self, args: Args<'_>, flags: u32) -> CommandUse {
        const UNKNOWN: CommandUse = CommandUse::Breaks("A command of the journal is not known");
        const FLUSHED: CommandUse = CommandUse::Breaks("Data was flushed");
        const MIXED: CommandUse =
            CommandUse::Breaks("A command used keys of slots that move and of others");
        if let Some(note) = EntryNote::of(args) {
            return self.use_of_note(&note);
        }
        let Some(entry) = self.stream.server.table.resolve_declared(args) else { return UNKNOWN };
        let spec = entry.spec;
        if spec.role == Role::Select {
            let database = args.get(1).and_then(base::number::parse_i64);
            return CommandUse::Selects(
                database.and_then(|it| usize::try_from(it).ok()).unwrap_or(0),
            );
        }
        // What changes data under all locks is FLUSHALL, or of its kind.
        if spec.plan == LockPlan::World && spec.flags.has(Flags::WRITE) {
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
            (true, false) if flags != 0 && spec.role == Role::StoreText => {
                let mut command = Vec::new();
                let is_item = self.stream.takes_own_words && write_set(args, flags, &mut command);
                if is_item { CommandUse::Reworded(command) } else { CommandUse::Kept }
            }
            (true, false) => CommandUse::Kept,
            (true, true) => MIXED,
            (false, _) => CommandUse::LeftOut,
        }
    }

    /// What becomes of a note of the journal: flags belong to the command behind them, and what is
    /// said of sticking names its key.
    fn use_of_note(&self, note: &EntryNote<'_>) -> CommandUse {
        match *note {
            EntryNote::Flags(flags) => CommandUse::Notes(flags),
            EntryNote::Sticks(key, is_sticky)
                if self.stream.takes_own_words && self.stream.moves(key) =>
            {
                let mut command = Vec::new();
                write_sticks(key, is_sticky, &mut command);
                CommandUse::Reworded(command)
            }
            EntryNote::Sticks(..) | EntryNote::CopiedSlots(_) => CommandUse::LeftOut,
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
    /// The command goes in these words.
    Reworded(Vec<u8>),
    /// The next command stores a string with these flags.
    Notes(u32),
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
