//! Commands of a primary's stream that are answered with an error here: that is told, and the
//! stream goes on.
//!
//! Invariants: what is told belongs to a unit that is committed; a log never has a command that
//! failed here, or could not be run.

use std::ops::Range;
use std::sync::atomic::Ordering;

use base::quote::quote;
use config::PropagationErrorBehavior;
use config::settings::{PROPAGATION_ERROR_BEHAVIOR, REPLICA_READ_ONLY};
use engine::journal::selection;
use engine::runtime::log::{log_notice, log_warning};
use proto::args::encode_command;
use proto::{Args, OwnedArgs};

use super::stream::{DivergentUnit, StreamThread};

/// Where a unit lies in a stream.
pub(super) struct UnitPlace<'u> {
    pub(super) offsets: Range<u64>,
    /// The piece of the stream that it came in.
    pub(super) piece: &'u [u8],
    /// The databases that are selected before and behind it.
    pub(super) databases: [usize; 2],
    /// Its commands, if it is a transaction.
    pub(super) commands: &'u [OwnedArgs],
}

/// The errors of one unit.
#[derive(Default)]
pub(super) struct UnitErrors {
    told: Vec<StreamError>,
    /// Which of a transaction's commands did nothing, in rising order.
    failed: Vec<usize>,
    /// Whether nothing of it was run.
    pub(super) is_thrown_away: bool,
}

/// An answer that nobody reads.
struct StreamError {
    command: String,
    answer: String,
}

/// Errors that Redis shows with their code, as it has them ready as whole lines.
const READY_MADE: [&str; 4] = [
    "-ERR syntax error",
    "-ERR no such key",
    "-ERR index out of range",
    "-ERR source and destination objects are the same",
];

impl UnitErrors {
    /// This command was answered so.
    pub(super) fn note(&mut self, index: usize, command: &str, answer: &[u8]) {
        if self.failed.last() != Some(&index) {
            self.failed.push(index);
        }
        self.add(command, answer);
    }

    /// A transaction was.
    pub(super) fn add(&mut self, command: &str, answer: &[u8]) {
        let answer =
            String::from_utf8_lossy(answer.strip_suffix(b"\r\n").unwrap_or(answer)).into_owned();
        let shown = match answer.strip_prefix("-ERR ") {
            Some(text) if !READY_MADE.contains(&&*answer) => text.to_owned(),
            _ => answer,
        };
        self.told.push(StreamError { command: command.to_owned(), answer: shown });
    }

    /// Whether this command of a transaction could not even be queued.
    pub(super) fn has_failed(&self, index: usize) -> bool {
        self.failed.contains(&index)
    }

    /// Tells of the errors of a unit that is committed, and notes what a log has in its place.
    /// Where the process is to end instead, the error is its last line.
    pub(super) fn report(self, stream: &StreamThread, unit: &UnitPlace<'_>) -> Result<(), String> {
        if self.told.is_empty() {
            return Ok(());
        }
        let server = stream.server;
        for StreamError { command, answer } in &self.told {
            server.observed.stats.unexpected_errors.fetch_add(1, Ordering::Relaxed);
            log_warning!(
                server.log,
                "== CRITICAL == This replica is sending an error to its master: '{answer}' after \
                 processing the command '{command}'"
            );
            let before = stream.source.bytes_before(unit.offsets.start, unit.piece);
            log_notice!(server.log, "Latest backlog is: '{}'", quote(&before));
            let behavior = server.config.get(PROPAGATION_ERROR_BEHAVIOR);
            if behavior != PropagationErrorBehavior::Ignore && server.config.get(REPLICA_READ_ONLY)
            {
                return Err(format!(
                    "This replica panicked sending an error to its master after processing the \
                     command '{command}'"
                ));
            }
        }
        let (place, databases) = (unit.offsets.clone(), unit.databases);
        stream.source.note_divergent(DivergentUnit { place, databases, kept: self.kept(unit) });
        Ok(())
    }

    /// What of a unit did something, or turned to another database.
    fn kept(&self, unit: &UnitPlace<'_>) -> Vec<u8> {
        if self.is_thrown_away {
            let [before, behind] = unit.databases;
            return if before == behind { Vec::new() } else { selection(behind) };
        }
        let mut kept = Vec::new();
        let all = unit.commands.iter().map(OwnedArgs::as_args).enumerate();
        let done: Vec<Args<'_>> =
            all.filter(|(index, _)| !self.has_failed(*index)).map(|(_, args)| args).collect();
        let is_group = done.len() > 1;
        if is_group {
            encode_command([b"MULTI".as_slice()].into_iter(), &mut kept);
        }
        done.iter().for_each(|args| args.encode(&mut kept));
        if is_group {
            encode_command([b"EXEC".as_slice()].into_iter(), &mut kept);
        }
        kept
    }
}
