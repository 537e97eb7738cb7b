//! A bug in the thread that writes the log: the thread goes on with another writer, which begins
//! with a base made of the memory.
//!
//! Invariants: no thread waits for a writer that is no more, and nothing is acknowledged in
//! between; each rewrite ends once.

use std::sync::Arc;
use std::time::Duration;

use engine::runtime::log::{log_notice, log_warning};
use engine::runtime::panics::contain;

use super::buffers::Pieces;
use super::files::AofDirectory;
use super::queue::{LastBatch, RecordQueue};
use super::writer::LogWriter;
use super::{AofState, WriterCommand, rewrite, set_failed};
use crate::durability::Durability;

/// Between two tries to begin anew.
const RETRY: Duration = Duration::from_millis(250);

/// What clients and the operator are told.
const BUG: &str = "the thread that writes it met a bug";

/// Has a writer work until it is told to close, and after a panic the next one.
pub(super) fn run(server: &'static Durability, mut writer: LogWriter) {
    loop {
        let worked = contain(|| writer.run());
        if worked.is_ok() {
            return;
        }
        let (queue, is_for_backup) = (Arc::clone(&writer.queue), writer.is_for_backup);
        // The writer's files go with it, and with those its claim.
        drop(writer);
        match succeed(server, Arc::clone(&queue), is_for_backup) {
            Some(next) => writer = next,
            None => return queue.detach_writer(),
        }
    }
}

/// The next writer, unless the log ends.
fn succeed(
    server: &'static Durability,
    queue: Arc<RecordQueue>,
    is_for_backup: bool,
) -> Option<LogWriter> {
    log_warning!(server.log, "The AOF begins anew, as {BUG}");
    server.backup.lose_log(server, BUG);
    if server.aof.is_on() {
        server.aof.set_lacks_base(true);
        server.journal.fail(queue.reader, BUG.to_owned(), || set_failed(server, true));
    } else if server.aof.phase() == AofState::Securing {
        server.aof.change_phase(server, AofState::Starting);
    }
    let mut is_first = true;
    loop {
        server.gates.log_backpressure.end();
        if !super::rewrite::is_same(Some(&queue), server.aof.queue().as_ref()) {
            // The thread that closes it does not wait for an answer that was lost.
            return None;
        }
        let orders = queue.take(Some(RETRY), Pieces::default(), LastBatch::default()).orders;
        let mut has_base = false;
        for (_, order) in orders {
            match order {
                // A thread that waits for these learns that no answer comes.
                WriterCommand::Reconfigure
                | WriterCommand::Cut(_)
                | WriterCommand::Secure(_)
                | WriterCommand::Seal(..) => {}
                WriterCommand::Flush(..) => {}
                WriterCommand::Close(_, done) => {
                    // As above.
                    let _ = done.send(());
                    return None;
                }
                WriterCommand::Base(base) => {
                    has_base = true;
                    rewrite::remove(server, base.into_iter().map(|base| base.path).collect());
                }
            }
        }
        // One that was handed over and is not here was with the writer that is no more.
        if has_base || is_first && server.aof.rewrite.is_handed_over() {
            rewrite::done(server, None);
        }
        is_first = false;
        match AofDirectory::find(server) {
            // What a backup needed is lost, and the log of the backup ends.
            _ if is_for_backup => {}
            Ok(files) => {
                log_notice!(server.log, "The AOF is written by another writer");
                return Some(LogWriter::new(server, queue, files));
            }
            Err(why) => log_warning!(server.log, "Can't begin the AOF anew: {why}"),
        }
    }
}
