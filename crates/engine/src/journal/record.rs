//! Records: what a transaction changed, as the exact bytes of the replication stream.
//!
//! Invariants: a record begins and ends in database 0; several commands stand between MULTI and
//! EXEC, so that a replica sees all of them or none; without a change there is no record.

use std::cell::Cell;
use std::ops::Deref;

use keyspace::{Effects, Propagation};
use proto::Args;
use proto::args::encode_command;
use proto::framing::encode_select;

/// The record of one command that no transaction ran, such as FUNCTION LOAD.
pub(crate) fn record_of_command(args: Args<'_>) -> Vec<u8> {
    let mut writer = RecordWriter { bytes: Vec::new(), database: 0 };
    writer.command(0, args.iter());
    writer.bytes
}

/// The record that turns to a database.
pub fn selection(database: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_select(database, &mut bytes);
    bytes
}

/// One command of a transaction: what it changed, where, and what the client sent.
pub(crate) struct CommandEffects<'e, 'a> {
    pub(crate) effects: &'e Effects,
    pub(crate) database: usize,
    pub(crate) args: Args<'a>,
}

/// A larger buffer is not kept for the next record.
const KEPT_CAPACITY: usize = 64 << 10;

thread_local! {
    /// Where the thread's next record is made, which its processor's cache still has.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A transaction's record.
pub(crate) enum Record<'a> {
    /// Just what the client sent.
    Sent(&'a [u8]),
    Made(Made),
}

/// A record that was made.
pub(crate) struct Made(Vec<u8>);

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Sent(bytes) => bytes,
            Self::Made(Made(bytes)) => bytes,
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_CAPACITY {
            self.0.clear();
            SPARE.set(std::mem::take(&mut self.0));
        }
    }
}

/// A transaction's record: its commands, in their databases, which begins and ends in database 0.
/// Empty if it changed nothing. Several commands stand between MULTI and EXEC, so that a replica
/// sees all of them or none.
pub(crate) fn record<'a>(commands: &[CommandEffects<'_, 'a>]) -> Record<'a> {
    if let [command] = commands
        && let Some(bytes) = command.sent()
    {
        return Record::Sent(bytes);
    }
    let mut writer = RecordWriter { bytes: SPARE.take(), database: 0 };
    let is_group = commands.iter().map(CommandEffects::commands).sum::<usize>() > 1;
    if is_group {
        writer.command(0, [b"MULTI".as_slice()].into_iter());
    }
    commands.iter().for_each(|command| command.write(&mut writer));
    writer.select(0);
    if is_group {
        writer.command(0, [b"EXEC".as_slice()].into_iter());
    }
    Record::Made(Made(writer.bytes))
}

impl<'a> CommandEffects<'_, 'a> {
    /// What the client sent, if that tells all of it.
    fn sent(&self) -> Option<&'a [u8]> {
        let is_as_sent = matches!(self.effects.propagation(), Propagation::AsSent);
        let is_all = is_as_sent && self.database == 0 && self.commands() == 1;
        if is_all && self.own_commands() == 1 { self.args.encoded() } else { None }
    }

    /// How many commands it takes to tell.
    fn commands(&self) -> usize {
        self.effects.expired().len() + self.effects.expired_members().len() + self.own_commands()
    }

    fn own_commands(&self) -> usize {
        match self.effects.propagation() {
            _ if self.effects.changes() == 0 => 0,
            Propagation::Instead(commands) => commands.len(),
            Propagation::AsSent => 1,
        }
    }

    fn write(&self, writer: &mut RecordWriter) {
        for (database, key) in self.effects.expired() {
            writer.command(*database, [b"DEL".as_slice(), key].into_iter());
        }
        for (database, command) in self.effects.expired_members() {
            writer.command(*database, command.iter().map(AsRef::as_ref));
        }
        match self.effects.propagation() {
            _ if self.own_commands() == 0 => {}
            Propagation::Instead(commands) => {
                for command in commands {
                    writer.command(self.database, command.iter().map(AsRef::as_ref));
                }
            }
            Propagation::AsSent => writer.command(self.database, self.args.iter()),
        }
    }
}

struct RecordWriter {
    bytes: Vec<u8>,
    database: usize,
}

impl RecordWriter {
    fn command<'a>(
        &mut self,
        database: usize,
        words: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) {
        /// Most lengths with their marks are not longer.
        const HEAD: usize = 8;
        self.select(database);
        self.bytes.reserve(words.clone().map(|word| word.len() + HEAD).sum::<usize>() + HEAD);
        encode_command(words, &mut self.bytes);
    }

    fn select(&mut self, database: usize) {
        if self.database != database {
            encode_select(database, &mut self.bytes);
            self.database = database;
        }
    }
}
