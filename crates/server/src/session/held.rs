//! Replies that may not leave yet: the session's output is one ordered queue with watermarks.
//!
//! A reply, of a read too, leaves once the journal is safe up to the last write it saw; so no
//! client ever sees what a crash could undo. Execution goes on meanwhile.
//!
//! Invariant: positions and LSNs of the watermarks rise, so looking at the first is enough.

use std::collections::VecDeque;
use std::task::Context as TaskContext;

use keyspace::Lsn;
use proto::Output;

use super::Serve;

/// Watermarks of an output.
#[derive(Default)]
pub(super) struct Held {
    /// Up to which position of the output an LSN holds it.
    marks: VecDeque<(u64, Lsn)>,
    /// Up to which position nothing does any more.
    free: u64,
}

impl Serve {
    /// Holds back what was just appended, if the journal is not yet safe where its replies looked.
    #[inline]
    pub(super) fn hold(&mut self, output: &Output) {
        let lsn = std::mem::take(&mut self.session.seen);
        if !self.worker.server.journal.is_durable(lsn) {
            self.hold_until(output, lsn);
        }
    }

    #[cold]
    fn hold_until(&mut self, output: &Output, lsn: Lsn) {
        let held = self.held.get_or_insert_with(Box::default);
        held.free = held.free.max(output.consumed());
        let lsn = held.marks.back().map_or(lsn, |&(_, last)| lsn.max(last));
        held.marks.push_back((output.appended(), lsn));
    }

    /// How many of the output's bytes may leave; if not all, the session is woken when more may.
    #[inline]
    pub(super) fn free_bytes(&mut self, cx: &TaskContext<'_>, output: &Output) -> usize {
        match self.held {
            None => usize::MAX,
            Some(_) => self.release(cx, output),
        }
    }

    #[cold]
    fn release(&mut self, cx: &TaskContext<'_>, output: &Output) -> usize {
        let journal = &self.worker.server.journal;
        let Some(held) = &mut self.held else { return usize::MAX };
        while let Some(&(position, lsn)) = held.marks.front() {
            if !journal.is_durable(lsn) && journal.wait(lsn, cx.waker()) {
                return usize::try_from(held.free - output.consumed()).unwrap_or(usize::MAX);
            }
            held.free = position;
            held.marks.pop_front();
        }
        self.held = None;
        usize::MAX
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
    use crate::journal::JournalReader;
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
        server.journal.attach(Box::new(Deaf));
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
}
