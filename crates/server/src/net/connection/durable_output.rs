//! Replies that may not leave yet: the session's output is one ordered queue with watermarks.
//!
//! A reply, of a read too, leaves once the journal is safe up to the last write it saw; so no
//! client ever sees what a crash could undo. Execution goes on meanwhile. While the journal's
//! reader has failed, what tells of a write that is not safe is answered with the failure, and so
//! is what read one where replies wait for the disk. What tells of a write also waits while the
//! snapshot file is to follow a FLUSHALL.
//!
//! Invariants: positions and LSNs of the watermarks rise, so looking at the first is enough; while
//! there are watermarks the session keeps the output whose bytes they count, though it be empty.

use std::ops::Range;
use std::task::Context as TaskContext;

use keyspace::Lsn;
use proto::{Output, Reply, Resp};
use smallvec::SmallVec;

use super::Connection;
use crate::memcached::write_failure;

/// Watermarks of an output.
#[derive(Default)]
pub(super) struct Watermarks {
    list: WatermarkList,
    /// The LSN that the session stands in line for.
    queued: Option<Lsn>,
}

/// A client that sends no pipeline has one.
type WatermarkList = SmallVec<[Watermark; 1]>;

/// A run of an output that an LSN holds.
struct Watermark {
    /// From the reply's first byte to its last one.
    reply: Range<u64>,
    lsn: Lsn,
    tells: ReplyContent,
    /// Whether more of that reply was still to be made.
    is_long: bool,
    /// Whether the replies wait for the snapshot file, too.
    awaits_file: bool,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyContent {
    /// What others left, which may come of any write and answers no request.
    Message,
    /// What was read.
    Read,
    /// That something was written.
    Write,
}

impl Watermarks {
    /// The session has another waker now.
    pub(super) fn requeue(&mut self) {
        self.queued = None;
    }
}

impl Connection {
    /// Holds back the reply that was just appended from `begun` on, if the journal is not yet safe
    /// where it looked.
    #[inline]
    pub(super) fn hold(&mut self, output: &Output, begun: u64) {
        let (lsn, tells_of_write) = self.session.take_seen();
        let server = self.worker.server;
        let awaits_file = tells_of_write && server.journal.snapshot_fence.is_up();
        if awaits_file || !server.journal.is_durable(lsn) {
            let tells = if tells_of_write { ReplyContent::Write } else { ReplyContent::Read };
            self.hold_until(output, begun, (lsn, tells, awaits_file));
        }
    }

    /// The same for messages.
    pub(super) fn hold_messages(&mut self, output: &Output, begun: u64) {
        let (lsn, _) = self.session.take_seen();
        if !self.worker.server.journal.is_durable(lsn) {
            self.hold_until(output, begun, (lsn, ReplyContent::Message, false));
        }
    }

    #[cold]
    fn hold_until(
        &mut self,
        output: &Output,
        begun: u64,
        (lsn, tells, awaits_file): (Lsn, ReplyContent, bool),
    ) {
        let (reply, is_long) = (begun..output.appended(), output.is_streaming());
        let is_silent = reply.is_empty() && !is_long;
        let says_something = tells == ReplyContent::Write || self.session.memcached.is_some();
        if is_silent && (tells == ReplyContent::Message || !says_something) {
            return;
        }
        let mut watermark = Watermark { reply, lsn, tells, is_long, awaits_file };
        let watermarks = self.watermarks.get_or_insert_with(Box::default);
        if let Some(last) = watermarks.list.last_mut() {
            watermark.lsn = watermark.lsn.max(last.lsn);
            if is_silent && last.reply == watermark.reply {
                // However many say nothing, one watermark is enough.
                let tells = if last.tells == ReplyContent::Write { last.tells } else { tells };
                *last =
                    Watermark { awaits_file: last.awaits_file || awaits_file, tells, ..watermark };
                return;
            }
        }
        watermarks.list.push(watermark);
    }

    /// How many of the output's bytes may leave; if not all, more are written when more may.
    #[inline]
    pub(super) fn free_bytes(&mut self, cx: &TaskContext<'_>, output: &mut Output) -> usize {
        match self.watermarks {
            None => usize::MAX,
            Some(_) => self.release(cx, output),
        }
    }

    #[cold]
    fn release(&mut self, cx: &TaskContext<'_>, output: &mut Output) -> usize {
        let server = self.worker.server;
        let (journal, fence) = (&server.journal, &server.journal.snapshot_fence);
        let Some(watermarks) = &mut self.watermarks else { return usize::MAX };
        let (mut passed, mut free) = (0, None);
        while let Some(&Watermark { ref reply, lsn, awaits_file, .. }) = watermarks.list.get(passed)
        {
            if awaits_file && fence.wait(cx.waker()) {
                free = Some(reply.start);
                break;
            }
            if !journal.is_durable(lsn) {
                // In line already, or only just.
                if watermarks.queued == Some(lsn) && !journal.has_failed()
                    || self.worker.durability_waiters.wait(journal, lsn, &self.own)
                {
                    watermarks.queued = Some(lsn);
                    free = Some(reply.start);
                    break;
                }
                if journal.has_failed() {
                    break;
                }
            }
            passed += 1;
        }
        watermarks.list.drain(..passed);
        if let Some(free) = free {
            debug_assert!((output.consumed()..=output.appended()).contains(&free));
            return usize::try_from(free - output.consumed()).unwrap_or(usize::MAX);
        }
        if let Some(watermarks) =
            self.watermarks.take().filter(|watermarks| !watermarks.list.is_empty())
        {
            self.answer_lost(watermarks.list, output);
        }
        usize::MAX
    }

    /// Answers with the failure what tells of writes that are not safe, and may never be.
    fn answer_lost(&mut self, marks: WatermarkList, output: &mut Output) {
        let server = self.worker.server;
        let hides_reads = server.journal.hides_unsafe();
        let lost = marks.into_iter().filter(|watermark| match watermark.tells {
            ReplyContent::Message => false,
            ReplyContent::Read => hides_reads,
            ReplyContent::Write => true,
        });
        let mut lost = lost.peekable();
        if lost.peek().is_none() {
            return;
        }
        let (doubt, mut line) = (server.journal.unknown_outcome(), Output::new());
        let (is_silent, has_lines) = match &self.session.memcached {
            None => {
                server.refuse(&doubt, &mut Reply::new(&mut line, Resp::Two));
                (false, true)
            }
            Some(state) => {
                server.observed.stats.error(doubt.line().unwrap_or_default());
                (true, write_failure(state, &doubt, &mut line))
            }
        };
        // A binary answer cannot be made here, where silence means success nothing that comes
        // behind may leave, and where a reply ends that was not made whole nobody knows: such a
        // client learns it by the end of the connection.
        let (mut told, mut cut) = (Vec::new(), None);
        for Watermark { reply, is_long, .. } in lost {
            if is_long || !has_lines || is_silent && reply.is_empty() {
                cut = Some(reply.start..output.appended());
                break;
            }
            told.extend(Some(reply).filter(|reply| !reply.is_empty()));
        }
        if cut.is_some() {
            output.discard_source();
            self.session.close();
        }
        let cut = cut.filter(|rest| !rest.is_empty());
        output.replace(told.into_iter().chain(cut), line.front());
    }
}

#[cfg(test)]
mod tests;
