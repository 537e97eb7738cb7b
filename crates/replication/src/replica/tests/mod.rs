//! The link as a driver sees it, in sessions of lines: what the primary says, and what is done.

mod channel;
mod cuts;
mod handover;
mod handshake;
mod roles;
mod simulation;
mod stream;
mod sync;

use super::action::{PrimaryChannel, ReplicaAction};
use super::link::{LoadOutcome, ReplicaLink};
use super::settings::{PrimaryAddress, ReplicaSettings};
use crate::history::SavedHistory;
use crate::ids::ReplicationId;

const ID: &str = "1234567890abcdef1234567890abcdef12345678";
const OTHER_ID: &str = "fedcba0987654321fedcba0987654321fedcba09";
const MARK: &str = "0123456789012345678901234567890123456789";

fn id(text: &str) -> ReplicationId {
    ReplicationId::parse(text.as_bytes()).expect("an id")
}

fn at(id_text: &str, offset: u64, database: u32) -> SavedHistory {
    SavedHistory { id: id(id_text), offset, database, second: None }
}

fn primary() -> PrimaryAddress {
    PrimaryAddress { host: "top".to_owned(), port: 7000 }
}

fn command(line: &str) -> Vec<u8> {
    let words = line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
    let mut bytes = Vec::new();
    proto::args::encode_command(words.into_iter(), &mut bytes);
    bytes
}

/// The lines behind a stream that ended.
const LOST: &str = "log Connection with master lost.";
const CACHED: &str = "log Caching the disconnected master state.";
const AGAIN: &str = "log Reconnecting to MASTER top:7000";

/// A link, its driver's buffer, and a clock.
struct Session {
    link: ReplicaLink,
    rest: Vec<u8>,
    /// The same for the second connection.
    channel_rest: Vec<u8>,
    now_ms: u64,
}

impl Session {
    /// A replica that has just begun to connect, with data that stands there.
    fn begin(settings: ReplicaSettings, own: Option<SavedHistory>) -> Session {
        let mut session = Session::idle(settings);
        session.link.replicaof(primary(), own, None, session.now_ms);
        session.done();
        session
    }

    fn idle(settings: ReplicaSettings) -> Session {
        Session {
            link: ReplicaLink::new(settings),
            rest: Vec::new(),
            channel_rest: Vec::new(),
            now_ms: 10_000,
        }
    }

    /// A replica that has sent PSYNC.
    fn asking(settings: ReplicaSettings, own: Option<SavedHistory>) -> Session {
        let mut session = Session::begin(settings, own);
        session.link.connected(PrimaryChannel::Main, session.now_ms);
        session.hear("+PONG\r\n+OK\r\n+OK\r\n");
        session
    }

    /// A replica at offset 100 of a stream, in database 0.
    fn streaming(settings: ReplicaSettings) -> Session {
        let mut session = Session::asking(settings, None);
        session.hear(&format!("+FULLRESYNC {ID} 100\r\n$3\r\nRDB"));
        session.loaded(LoadOutcome::Loaded { database: 0 });
        session
    }

    /// The primary says this; returns what is done.
    fn hear(&mut self, text: &str) -> Vec<String> {
        self.hear_bytes(text.as_bytes())
    }

    fn hear_bytes(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let done = self.link.received(PrimaryChannel::Main, &self.rest, self.now_ms);
        let lines = self.done();
        self.rest.drain(..done);
        lines
    }

    /// The primary says this on the second connection.
    fn hear_on_channel(&mut self, text: &str) -> Vec<String> {
        self.channel_rest.extend_from_slice(text.as_bytes());
        let done = self.link.received(PrimaryChannel::Rdb, &self.channel_rest, self.now_ms);
        let buffer = std::mem::take(&mut self.channel_rest);
        let lines = self.done_with(&buffer);
        self.channel_rest = buffer[done..].to_vec();
        lines
    }

    fn loaded(&mut self, outcome: LoadOutcome) -> Vec<String> {
        self.link.loaded(outcome, self.now_ms);
        let mut lines = self.done();
        lines.extend(self.hear(""));
        lines
    }

    fn closed(&mut self) -> Vec<String> {
        self.rest.clear();
        self.link.closed(PrimaryChannel::Main, self.now_ms);
        self.done()
    }

    /// So much time passes, with a tick at its end.
    fn pass(&mut self, ms: u64) -> Vec<String> {
        self.now_ms += ms;
        self.link.tick(self.now_ms);
        self.done()
    }

    fn applied(&mut self, offset: u64) -> Vec<String> {
        self.link.applied(offset, self.now_ms);
        self.done()
    }

    fn synced(&mut self, offset: u64) -> Vec<String> {
        self.link.synced(offset, self.now_ms);
        self.done()
    }

    fn done(&mut self) -> Vec<String> {
        let buffer = std::mem::take(&mut self.rest);
        let lines = self.done_with(&buffer);
        self.rest = buffer;
        lines
    }

    /// The same behind what a buffer showed.
    fn done_with(&mut self, buffer: &[u8]) -> Vec<String> {
        self.link.take_actions().into_iter().map(|action| Self::shown(action, buffer)).collect()
    }

    fn shown(action: ReplicaAction, buffer: &[u8]) -> String {
        let text = |range: std::ops::Range<usize>| buffer[range].escape_ascii().to_string();
        match action {
            ReplicaAction::Connect { wire, host, port } => {
                format!("{}connect {host}:{port}", on(wire))
            }
            ReplicaAction::Send { wire, bytes } => format!("{}> {}", on(wire), words(&bytes)),
            ReplicaAction::Close { wire } => format!("{}close", on(wire)),
            ReplicaAction::Hold(range) => format!("hold {}", text(range)),
            ReplicaAction::BeginLoad(order) => {
                let of = order.of.map(|(id, offset)| format!("{id}:{offset}"));
                let of = of.unwrap_or_default();
                let ours = if order.is_our_history { " ours" } else { "" };
                format!("load {:?} {:?} {of}{ours}", order.mode, order.framing)
            }
            ReplicaAction::Rdb(range) => format!("rdb {}", text(range)),
            ReplicaAction::EndOfRdb => "end of rdb".to_owned(),
            ReplicaAction::AbortLoad => "abort load".to_owned(),
            ReplicaAction::SetHistory(history) => {
                history.map_or("history unknown".to_owned(), |it| format!("history {it}"))
            }
            ReplicaAction::Follow { id, at } => format!("follow {id} at {at}"),
            ReplicaAction::Stream { range, end, databases: [database, _], .. } => {
                format!("stream to {end} in {database}: {}", words(&buffer[range]))
            }
            ReplicaAction::AwaitSync(offset) => format!("await the disk to {offset}"),
            ReplicaAction::Log { line, .. } => format!("log {line}"),
        }
    }
}

/// The second connection is named.
fn on(wire: PrimaryChannel) -> &'static str {
    match wire {
        PrimaryChannel::Main => "",
        PrimaryChannel::Rdb => "channel ",
    }
}

/// Commands as their words; anything else as it is.
fn words(bytes: &[u8]) -> String {
    let (mut parser, mut rest, mut lines) = (proto::RequestParser::new(), bytes, Vec::new());
    while rest.first() == Some(&b'*') {
        let parsed = parser.advance(rest, &proto::Limits::default()).expect("a command");
        let proto::Progress::Complete { consumed } = parsed else { panic!("half a command") };
        let args = parser.args(rest);
        let words = args.iter().map(|word| word.escape_ascii().to_string());
        lines.push(words.collect::<Vec<_>>().join(" "));
        parser.reset();
        rest = &rest[consumed..];
    }
    if !rest.is_empty() {
        lines.push(rest.escape_ascii().to_string());
    }
    lines.join(" | ")
}
