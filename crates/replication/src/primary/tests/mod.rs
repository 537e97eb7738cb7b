//! A primary without a driver: events by hand, actions as short texts.
//!
//! Invariant: the history and what is kept of the stream are changed by actions only, as a driver
//! would.

mod channel;
mod numbered;
mod peer;
mod replconf_state;
mod rounds;
mod simulation;
mod sync;
mod watch;

use super::replconf_state::Nameable;
use super::{
    CloseWhen, Primary, PrimaryAction, PrimarySettings, RandomIds, ReplconfState, ReplicaId, Role,
    RoundId, ServerRole, SnapshotTarget, StreamView, SyncKind, SyncRequest, SyncVerdict,
};
use crate::history::{History, KeptRange};
use crate::ids::ReplicationId;

const PRIMARY: ServerRole = ServerRole { role: Role::Primary, fails_over: false };

/// Ids of equal bytes: 1, 2, 3.
fn counting_ids() -> RandomIds {
    let mut last = 0;
    Box::new(move || {
        last += 1;
        [last; 20]
    })
}

fn id(number: u8) -> ReplicationId {
    ReplicationId::from_random([number; 20])
}

/// A primary, what a driver would have beside it, and the clock.
struct Hand {
    primary: Primary,
    history: History,
    kept: Option<KeptRange>,
    end: u64,
    now_ms: u64,
}

impl Hand {
    fn new(change: impl FnOnce(&mut PrimarySettings)) -> Hand {
        let mut settings = PrimarySettings::default();
        change(&mut settings);
        Hand {
            primary: Primary::new(settings, counting_ids(), 0),
            history: History::new(id(99)),
            kept: None,
            end: 1000,
            now_ms: 0,
        }
    }

    /// One that keeps bytes 901 to 1000 of the stream with id 99.
    fn with_backlog(change: impl FnOnce(&mut PrimarySettings)) -> Hand {
        let mut hand = Hand::new(change);
        hand.kept = Some(KeptRange { first: 900, end: 1000 });
        hand
    }

    fn ask(&mut self, number: u64, words: &str, ask: SyncKind<'_>) -> SyncVerdict {
        self.ask_as(number, words, ask, PRIMARY)
    }

    fn ask_as(
        &mut self,
        number: u64,
        words: &str,
        ask: SyncKind<'_>,
        standing: ServerRole,
    ) -> SyncVerdict {
        self.request(number, words, &announced(words), ask, standing)
    }

    fn ask_announced(
        &mut self,
        number: u64,
        words: &str,
        announced: &ReplconfState,
        ask: SyncKind<'_>,
    ) -> SyncVerdict {
        self.request(number, words, announced, ask, PRIMARY)
    }

    fn request(
        &mut self,
        number: u64,
        words: &str,
        announced: &ReplconfState,
        ask: SyncKind<'_>,
        standing: ServerRole,
    ) -> SyncVerdict {
        let request = SyncRequest {
            replica: ReplicaId(number),
            peer: "10.0.0.1",
            client: "id=7",
            announced,
            ask,
            is_monitor: words.contains("monitor"),
            has_output: words.contains("output"),
            asks_for_unmet: false,
        };
        let mut view = StreamView { history: &mut self.history, kept: self.kept };
        self.primary.sync(&request, standing, &mut view, self.now_ms)
    }

    /// A replica that has nothing attaches.
    fn attach(&mut self, number: u64, words: &str) {
        assert_eq!(self.ask(number, words, psync("?", "-1")), SyncVerdict::Attached);
    }

    fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let mut view = StreamView { history: &mut self.history, kept: self.kept };
        self.primary.tick(Role::Primary, false, &mut view, now_ms);
    }

    /// `connected_slaves`.
    fn replica_count(&self) -> usize {
        self.primary.replicas.iter().filter(|replica| !replica.is_channel()).count()
    }

    /// How many online replicas have applied the stream up to this offset.
    fn acked_by(&self, offset: u64) -> usize {
        self.primary.acks().filter(|(acked, _)| *acked >= offset).count()
    }

    /// How many online replicas have the stream up to this offset on disk.
    fn fsynced_by(&self, offset: u64) -> usize {
        self.primary.acks().filter(|(_, fsynced)| *fsynced >= offset).count()
    }

    fn cut(&mut self, round: u64) {
        self.primary.snapshot_cut(RoundId(round), self.end, 5, &self.history);
    }

    fn ack(&mut self, number: u64, offset: &str) {
        let args: [&[u8]; 2] = [b"ack", offset.as_bytes()];
        self.primary.replconf(ReplicaId(number), &args, "id=7", self.now_ms);
    }

    /// All actions since the last call, without the log.
    fn done(&mut self) -> Vec<String> {
        let actions = self.primary.take_actions();
        actions.iter().filter_map(|action| self.shown(action)).collect()
    }

    /// The lines of the log since the last call.
    fn logged(&mut self) -> Vec<String> {
        let line = |action| match action {
            PrimaryAction::Log { line, .. } => Some(line),
            _ => None,
        };
        self.primary.take_actions().into_iter().filter_map(line).collect()
    }

    fn shown(&mut self, action: &PrimaryAction) -> Option<String> {
        Some(match action {
            PrimaryAction::Send { replica, bytes } => {
                let text = String::from_utf8_lossy(bytes).replace("\r\n", "|").replace('\n', "~");
                format!("{}: {}", replica.0, self.short(&text))
            }
            PrimaryAction::CreateBacklog => {
                self.kept = Some(KeptRange { first: self.end, end: self.end });
                "create".to_owned()
            }
            PrimaryAction::FreeBacklog => {
                self.kept = None;
                "free".to_owned()
            }
            PrimaryAction::Pin { replica, from } => format!("{}: pin {from}", replica.0),
            PrimaryAction::Unpin { replica } => format!("{}: unpin", replica.0),
            PrimaryAction::Stream { replica } => format!("{}: stream", replica.0),
            PrimaryAction::StartSnapshot { round, target, replicas, .. } => {
                let target = match target {
                    SnapshotTarget::Socket => "socket",
                    SnapshotTarget::Disk => "disk",
                };
                let replicas: Vec<u64> = replicas.iter().map(|replica| replica.0).collect();
                format!("start {} {target} {replicas:?}", round.0)
            }
            PrimaryAction::AbortSnapshot { round } => format!("abort {}", round.0),
            PrimaryAction::SendFile { replica, .. } => format!("{}: file", replica.0),
            PrimaryAction::NoteSent { replica } => format!("{}: note", replica.0),
            PrimaryAction::Append { record } => {
                format!("append {}", String::from_utf8_lossy(record).replace("\r\n", "|"))
            }
            PrimaryAction::Close { replica, when: CloseWhen::Now } => {
                format!("{}: close", replica.0)
            }
            PrimaryAction::Close { replica, when: CloseWhen::Flushed } => {
                format!("{}: flush, close", replica.0)
            }
            PrimaryAction::Log { .. } => return None,
        })
    }

    /// Ids are written as `#` and their number.
    fn short(&self, text: &str) -> String {
        (0..=99).fold(text.to_owned(), |text, number| {
            text.replace(&id(number).to_string(), &format!("#{number}"))
        })
    }
}

/// What a client announced with these words, which are `capa`s if they are no known ones.
fn announced(words: &str) -> ReplconfState {
    let mut announced = ReplconfState::default();
    for word in words.split_whitespace() {
        let pair: [&[u8]; 2] = match word.split_once('=') {
            Some((word, value)) => [word.as_bytes(), value.as_bytes()],
            None => [b"capa", word.as_bytes()],
        };
        announced.replconf(&pair, &Nameable::default());
    }
    announced
}

fn psync<'a>(id: &'a str, byte: &'a str) -> SyncKind<'a> {
    SyncKind::Psync { id: id.as_bytes(), byte: byte.as_bytes(), failover: false }
}
