//! Replies that may not leave yet: the session's output is one ordered queue with watermarks.
//!
//! A reply, of a read too, leaves once the journal is safe up to the last write it saw; so no
//! client ever sees what a crash could undo. Execution goes on meanwhile. While the journal's
//! reader has failed, reads leave, and writes that are not safe are answered with the failure.
//!
//! Invariant: positions and LSNs of the watermarks rise, so looking at the first is enough.

use std::collections::VecDeque;
use std::ops::Range;
use std::task::Context as TaskContext;

use keyspace::Lsn;
use proto::{Output, Reply, Resp};

use super::Serve;

/// Watermarks of an output.
#[derive(Default)]
pub(super) struct Held {
    marks: VecDeque<Mark>,
    /// Up to which position nothing does any more.
    free: u64,
    /// The LSN that the session stands in line for.
    queued: Option<Lsn>,
}

/// A run of an output that an LSN holds.
struct Mark {
    /// From the first byte of the newest reply in it to its last byte.
    reply: Range<u64>,
    lsn: Lsn,
    /// Whether that reply says that something was written.
    tells_of_write: bool,
}

impl Held {
    /// The session has another waker now.
    pub(super) fn requeue(&mut self) {
        self.queued = None;
    }
}

impl Serve {
    /// Holds back the reply that was just appended from `begun` on, if the journal is not yet safe
    /// where it looked.
    #[inline]
    pub(super) fn hold(&mut self, output: &Output, begun: u64) {
        let (lsn, tells_of_write) = self.session.take_seen();
        if !self.worker.server.journal.is_durable(lsn) {
            self.hold_until(output, Mark { reply: begun..output.appended(), lsn, tells_of_write });
        }
    }

    #[cold]
    fn hold_until(&mut self, output: &Output, mut mark: Mark) {
        let held = self.held.get_or_insert_with(Box::default);
        held.free = held.free.max(output.consumed());
        mark.lsn = held.marks.back().map_or(mark.lsn, |last| mark.lsn.max(last.lsn));
        held.marks.push_back(mark);
    }

    /// How many of the output's bytes may leave; if not all, the session is woken when more may.
    #[inline]
    pub(super) fn free_bytes(&mut self, cx: &TaskContext<'_>, output: &mut Output) -> usize {
        match self.held {
            None => usize::MAX,
            Some(_) => self.release(cx, output),
        }
    }

    #[cold]
    fn release(&mut self, cx: &TaskContext<'_>, output: &mut Output) -> usize {
        let journal = &self.worker.server.journal;
        let Some(held) = &mut self.held else { return usize::MAX };
        while let Some(&Mark { ref reply, lsn, .. }) = held.marks.front() {
            if !journal.is_durable(lsn) {
                // In line already, or only just.
                if held.queued == Some(lsn) && !journal.has_failed()
                    || journal.wait(lsn, cx.waker())
                {
                    held.queued = Some(lsn);
                    return usize::try_from(held.free - output.consumed()).unwrap_or(usize::MAX);
                }
                if journal.has_failed() {
                    break;
                }
            }
            held.free = reply.end;
            held.marks.pop_front();
        }
        if let Some(held) = self.held.take().filter(|held| !held.marks.is_empty()) {
            self.answer_lost(held.marks, output);
        }
        usize::MAX
    }

    /// Answers writes that will not be safe with the failure.
    fn answer_lost(&mut self, marks: VecDeque<Mark>, output: &mut Output) {
        let refusal = self.worker.server.journal.refusal();
        let lost = marks.into_iter().filter(|mark| mark.tells_of_write).map(|mark| mark.reply);
        let mut line = Output::new();
        let Some(dialogue) = &self.session.memcached else {
            self.worker.server.refuse(&refusal, &mut Reply::new(&mut line, Resp::Two));
            return output.replace(lost.filter(|reply| !reply.is_empty()), line.front());
        };
        self.worker.server.stats.error(refusal.line().unwrap_or_default());
        let has_lines = dialogue.write_failure(&refusal, &mut line);
        // A binary answer cannot be made here, and where silence means success nothing that comes
        // behind may leave: such a client learns it by the end of the connection.
        let (mut told, mut cut) = (Vec::new(), None);
        for reply in lost {
            if reply.is_empty() || !has_lines {
                cut = Some(reply.start..output.appended());
                break;
            }
            told.push(reply);
        }
        if cut.is_some() {
            self.session.close();
        }
        let cut = cut.filter(|rest| !rest.is_empty());
        output.replace(told.into_iter().chain(cut), line.front());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use keyspace::Lsn;

    use crate::clients::Peer;
    use crate::journal::{JournalReader, Reliance};
    use crate::server::Server;
    use crate::session::{Moving, RawStream, Session};

    struct Deaf;

    impl JournalReader for Deaf {
        fn record(&mut self, _: Lsn, _: &[u8]) {}
    }

    fn connect(server: &'static Server) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
        let session = Session::new(client, true, true);
        let moving = Moving::fresh(RawStream::Unix(theirs), session);
        server.crew.hand_over(server, Box::new(moving));
        ours
    }

    fn receive(stream: &mut UnixStream, length: usize) -> String {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Whether nothing comes for a while.
    fn is_silent(stream: &mut UnixStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let result = stream.read(&mut [0]);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        result.is_err()
    }

    #[test]
    fn replies_leave_in_order_once_the_journal_is_safe() {
        let server = crate::start::test_server();
        server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
        server.journal.attach(Box::new(Deaf), Reliance::Disk);
        server.crew.resize(server, 1).unwrap();
        let (mut writer, mut reader) = (connect(server), connect(server));
        writer.write_all(b"SET k v\r\n").unwrap();
        assert!(is_silent(&mut writer), "the write is not safe yet");
        let written = server.journal.end();
        assert_ne!(written, 0, "the command ran all the same");
        writer.write_all(b"PING\r\n").unwrap();
        assert!(is_silent(&mut writer), "what comes later does not overtake");
        reader.write_all(b"GET k\r\n").unwrap();
        assert!(is_silent(&mut reader), "a read that saw the write waits for it too");
        server.journal.acknowledge(written);
        assert_eq!(receive(&mut writer, 12), "+OK\r\n+PONG\r\n");
        assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
        reader.write_all(b"GET k\r\n").unwrap();
        assert_eq!(receive(&mut reader, 7), "$1\r\nv\r\n");
        server.crew.dismiss();
    }
    #[test]
    fn replies_wait_while_the_journal_is_late_and_for_no_longer() {
        let server = crate::start::test_server();
        server.keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
        server.journal.attach(Box::new(Deaf), Reliance::System);
        server.crew.resize(server, 1).unwrap();
        let (mut writer, mut reader) = (connect(server), connect(server));
        writer.write_all(b"SET k v\r\n").unwrap();
        assert_eq!(receive(&mut writer, 5), "+OK\r\n");
        // As a worker does that finds the oldest record unwritten for long.
        server.journal.look(i64::MAX - 1);
        writer.write_all(b"SET k w\r\n").unwrap();
        assert!(is_silent(&mut writer), "nobody is told of what a kill takes");
        reader.write_all(b"GET k\r\n").unwrap();
        assert!(is_silent(&mut reader), "nor shown it");
        reader.write_all(b"PING\r\n").unwrap();
        let now_us = server.keyspace.clock().monotonic_us();
        server.journal.note_written(server.journal.end(), now_us);
        assert_eq!(receive(&mut writer, 5), "+OK\r\n");
        assert_eq!(receive(&mut reader, 14), "$1\r\nw\r\n+PONG\r\n");
        server.crew.dismiss();
    }
}
