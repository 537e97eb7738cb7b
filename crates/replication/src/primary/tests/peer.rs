//! A fake replica: reads what a primary sends, byte by byte as the protocol has it, and fails on
//! any byte that is not in its place.
//!
//! Invariant: what a peer has of the stream is what the stream had there.

use crate::ids::ReplicationId;
use crate::primary::ReplicaId;

/// What the peer expects next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// The line that answers PSYNC.
    Line,
    /// `$`, and the length or the mark.
    Header,
    /// A snapshot of this length.
    Sized(usize),
    /// A snapshot up to this mark.
    Marked(Vec<u8>),
    /// Nothing, until an acknowledgement is sent.
    Silence,
    /// The stream.
    Stream,
    /// The stream behind a snapshot that comes on another connection.
    Beside,
    /// Nothing ever again: there was a snapshot, and more was not wanted.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Psync,
    Sync,
    SnapshotOnly,
    /// The second connection of the replica with this index.
    Channel(usize),
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) kind: Kind,
    pub(super) words: String,
    pub(super) link: Option<ReplicaId>,
    pub(super) expects: Expects,
    /// Of a second connection: which link the other one is.
    pub(super) main_link: Option<ReplicaId>,
    /// Of which history, and up to where.
    pub(super) has: Option<(ReplicationId, u64)>,
    /// What the reply to PSYNC said.
    coming: Option<(ReplicationId, u64)>,
    unread: Vec<u8>,
}

/// What a snapshot as of this offset is in this world.
pub(super) fn snapshot_at(cut: u64) -> Vec<u8> {
    format!("<snapshot as of {cut}>").into_bytes()
}

impl Peer {
    pub(super) fn new(kind: Kind, words: String) -> Peer {
        Peer {
            kind,
            words,
            link: None,
            main_link: None,
            expects: Expects::Line,
            has: None,
            coming: None,
            unread: Vec::new(),
        }
    }

    pub(super) fn connect(&mut self, link: ReplicaId) {
        self.link = Some(link);
        self.expects = if self.kind == Kind::Sync { Expects::Header } else { Expects::Line };
        (self.coming, self.unread) = (None, Vec::new());
    }

    /// An acknowledgement is sent, if this is the time for one. What was applied by a client of
    /// SYNC is not known to it.
    pub(super) fn ack(&mut self) -> Option<u64> {
        match self.expects {
            Expects::Silence => self.expects = Expects::Stream,
            Expects::Stream if self.kind == Kind::Psync => {}
            _ => return None,
        }
        Some(self.has.map_or(0, |(_, offset)| offset))
    }

    pub(super) fn read(&mut self, bytes: &[u8], stream: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while self.step(stream) {}
    }

    /// Reads one thing, if it is there as a whole.
    fn step(&mut self, stream: &[u8]) -> bool {
        match self.expects.clone() {
            Expects::Line | Expects::Header => {
                let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') else {
                    return false;
                };
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if line != b"\n" {
                    let line = line.strip_suffix(b"\r\n").expect("lines end in CR LF");
                    let line = String::from_utf8(line.to_vec()).unwrap();
                    if !line.starts_with('-') {
                        self.take_line(&line);
                    }
                }
                true
            }
            Expects::Sized(len) => self.unread.len() >= len && self.loaded(len, 0, Expects::Stream),
            // As replicas do that load from a file: bytes behind the mark would hide the end.
            Expects::Marked(mark) => {
                self.unread.ends_with(&mark)
                    && self.loaded(self.unread.len() - mark.len(), mark.len(), Expects::Silence)
            }
            Expects::Beside => false,
            Expects::Silence | Expects::End => {
                assert!(self.unread.is_empty(), "nothing may come now: {self:?}");
                false
            }
            Expects::Stream => {
                let offset = &mut self.has.as_mut().expect("a stream begins somewhere").1;
                let at = *offset as usize;
                assert!(stream[at..].starts_with(&self.unread), "bytes {at} of the stream");
                *offset += self.unread.len() as u64;
                self.unread.clear();
                false
            }
        }
    }

    fn take_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |text: &str| ReplicationId::parse(text.as_bytes()).expect("an id");
        match (&self.expects, &words[..]) {
            (Expects::Line, ["+FULLRESYNC", new, offset]) => {
                self.coming = Some((id(new), offset.parse().unwrap()));
                self.expects = Expects::Header;
            }
            (Expects::Line, ["+RDBCHANNELSYNC", main]) => {
                assert_eq!(Some(ReplicaId(main.parse().unwrap())), self.link);
                self.has = None;
                self.expects = Expects::Beside;
            }
            (Expects::Line, ["+CONTINUE"]) => self.expects = Expects::Stream,
            (Expects::Line, ["+CONTINUE", new]) => {
                self.has.as_mut().expect("something to go on from").0 = id(new);
                self.expects = Expects::Stream;
            }
            (Expects::Header, [header]) => {
                self.has = None;
                self.expects = match header.strip_prefix("$EOF:") {
                    Some(mark) => Expects::Marked(mark.as_bytes().to_vec()),
                    None => Expects::Sized(header.strip_prefix('$').unwrap().parse().unwrap()),
                };
            }
            _ => panic!("{line} while {self:?}"),
        }
    }

    /// The snapshot came on the other connection.
    pub(super) fn loaded_beside(&mut self, channel: &Peer, stream: &[u8]) {
        if self.link == channel.main_link && self.expects == Expects::Beside {
            (self.has, self.expects) = (channel.has, Expects::Stream);
            self.read(&[], stream);
        }
    }

    /// A snapshot is there as a whole, and is the one that was announced.
    fn loaded(&mut self, len: usize, behind: usize, then: Expects) -> bool {
        let body: Vec<u8> = self.unread.drain(..len + behind).take(len).collect();
        let text = std::str::from_utf8(&body).unwrap();
        let cut = text.strip_prefix("<snapshot as of ").and_then(|it| it.strip_suffix('>'));
        let cut: u64 = cut.expect("a snapshot").parse().unwrap();
        if let Some((_, offset)) = self.coming {
            assert_eq!(offset, cut, "a snapshot is as of the announced offset");
        }
        let id = self.coming.map_or(ReplicationId::NONE, |(id, _)| id);
        self.has = Some((id, cut));
        self.expects = match self.kind {
            Kind::SnapshotOnly | Kind::Channel(_) => Expects::End,
            Kind::Psync | Kind::Sync => then,
        };
        true
    }
}
