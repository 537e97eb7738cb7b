//! A primary of ours and a replica of each kind of server: whether all hold the same.
//!
//! Invariant: a replica that does not hold what the primary holds is told of in the primary's log,
//! as one that cannot; an Apus is never, and nobody is for what its kind can hold.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::contents::contents;
use crate::process::PATIENCE;
use crate::render::text;
use crate::replication::{NodeKind, follow, promote};
use crate::server::{Oracle, Server, eventually};

/// What the primary says where a replica cannot hold something.
const UNHOLDABLE: &str = "cannot hold what was written, ";

/// What every server but Redis 7.0 can hold.
const TIMED_FIELDS: &str = "a hash whose fields expire";

/// Between two looks whether a replica has all.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A primary of ours and a replica of each kind.
pub struct ReplicaGroup {
    /// The primary.
    pub primary: Server,
    /// A client of the primary that nobody else uses.
    client: Client,
    replicas: Vec<Replica>,
    /// How long the primary's log was when the world was emptied.
    log_len: usize,
}

struct Replica {
    kind: NodeKind,
    server: Server,
    client: Client,
    /// Whether it follows nobody, since its link has ended.
    is_away: bool,
    /// Errors that its primary's stream has met there, up to the last look.
    errors: i64,
}

impl ReplicaGroup {
    /// All of them, each with a link that is up.
    pub fn start() -> Self {
        let primary = NodeKind::Apus.start(&["--repl-ping-replica-period", "3600"]);
        let genuine = Oracle::ALL.into_iter().map(NodeKind::Genuine);
        let start = |kind: NodeKind| {
            let server = kind.start(&[]);
            let client = server.client();
            Replica { kind, server, client, is_away: true, errors: 0 }
        };
        let replicas = genuine.chain([NodeKind::Apus]).map(start).collect();
        let client = primary.client();
        let mut group = Self { primary, client, replicas, log_len: 0 };
        group.gather();
        group
    }

    /// An empty world that all have, those whose link has ended, too.
    pub fn gather(&mut self) {
        self.client.call(&["FLUSHALL"]);
        for replica in self.replicas.iter_mut().filter(|replica| replica.is_away) {
            follow(&replica.server, self.primary.port());
            replica.is_away = false;
        }
        self.clear();
    }

    /// An empty world that those have whose link has not ended.
    pub fn clear(&mut self) {
        self.client.call(&["FLUSHALL"]);
        self.client.call(&["FUNCTION", "FLUSH"]);
        for replica in self.replicas.iter_mut().filter(|replica| !replica.is_away) {
            let what = format!("{:?} follows", replica.kind);
            eventually(&what, || replica.has_all(&mut self.client));
            replica.errors = replica.client.figure("unexpected_error_replies");
        }
        self.log_len = self.primary.log().len();
    }

    /// What a replica has otherwise than the primary, or else nothing: but for those whose link
    /// has ended, with a line, since the world was emptied.
    pub fn difference(&mut self) -> Option<String> {
        let primary = &mut self.client;
        let (expected, digest) = (contents(primary), text_of(primary, &["DEBUG", "DIGEST"]));
        for replica in self.replicas.iter_mut().filter(|replica| !replica.is_away) {
            let log = || self.primary.log()[self.log_len..].to_owned();
            let deadline = Instant::now() + PATIENCE;
            while !replica.has_all(primary) {
                replica.is_away = replica.is_told_of(&log());
                if replica.is_away {
                    break;
                }
                if Instant::now() > deadline {
                    return Some(format!("{:?} has not all and is not told of", replica.kind));
                }
                sleep(BETWEEN_LOOKS);
            }
            if replica.is_away {
                promote(&replica.server);
            } else if let Some(difference) = replica.difference(&expected, &digest) {
                return Some(format!("{:?}: {difference}", replica.kind));
            }
        }
        None
    }

    /// Where the stream of the primary stands.
    pub fn offset(&mut self) -> String {
        offset(&mut self.client)
    }
}

impl Replica {
    /// Whether it stands where the primary stands.
    fn has_all(&mut self, primary: &mut Client) -> bool {
        let info = text_of(&mut self.client, &["INFO", "replication"]);
        let has = |line: &str| info.lines().any(|it| it == line);
        has("master_link_status:up") && has(&format!("slave_repl_offset:{}", offset(primary)))
    }

    /// What it has otherwise than a primary with these contents and this digest.
    fn difference(&mut self, expected: &[String], digest: &str) -> Option<String> {
        if self.client.figure("unexpected_error_replies") != self.errors {
            return Some(format!("it met errors:\n{}", self.server.log()));
        }
        let is_ours = self.kind == NodeKind::Apus;
        if is_ours && text_of(&mut self.client, &["DEBUG", "DIGEST"]) == digest {
            return None;
        }
        let found = contents(&mut self.client);
        let of_digests = || is_ours.then(|| "it has another digest".to_owned());
        first_difference(expected, &found).or_else(of_digests)
    }

    /// Whether these lines of the primary say that this replica cannot hold what was written.
    fn is_told_of(&self, log: &str) -> bool {
        let port = self.server.port();
        let told = |what: &str| log.contains(&format!(":{port} {UNHOLDABLE}{what}"));
        match self.kind {
            NodeKind::Apus => false,
            NodeKind::Genuine(Oracle::Redis70) => told(""),
            NodeKind::Genuine(_) => told("") && !told(TIMED_FIELDS),
        }
    }
}

fn offset(client: &mut Client) -> String {
    let info = text_of(client, &["INFO", "replication"]);
    let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    offset.expect("a server tells its offset").to_owned()
}

fn text_of(client: &mut Client, words: &[&str]) -> String {
    text(&client.call(words))
}

fn first_difference(expected: &[String], found: &[String]) -> Option<String> {
    let nothing = String::from("nothing more");
    let length = expected.len().max(found.len());
    let line = |lines: &[String], at: usize| lines.get(at).unwrap_or(&nothing).clone();
    let differs = (0..length).find(|at| expected.get(*at) != found.get(*at));
    differs.map(|at| format!("it has\n  {}\nfor\n  {}", line(found, at), line(expected, at)))
}
