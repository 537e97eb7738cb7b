//! Every command of the table that writes, with arguments drawn at random: each real server that
//! follows has what was written, or its link has ended with a line, where it cannot hold that.
//!
//! Invariant: no writing command is left out but those that cannot be drawn, which are named, and
//! each has had an effect at least once.
//!
//! `APUS_DRAWN_WRITES=50` asks for so many pieces of each command, of fresh seeds.

use base::random::Random;
use proto::value::Value;
use tests::Client;
use tests::differential::Command;
use tests::generator::{Declared, Generator, prologue, shared};
use tests::replication::NodeKind;

use crate::append_only::payloads;
use crate::replication_every_write::Group;

/// Pieces of a command; the replicas are compared behind each.
const PIECES: u64 = 2;
/// Requests of a piece.
const REQUESTS: usize = 12;
/// Pieces of other commands' requests, at most, until one has had an effect.
const PATIENCE: u64 = 60;

/// Commands that write and are not drawn here, and where they are tested instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("eval", "scripts_that_write: replication_digests"),
    ("evalsha", "as EVAL"),
    ("fcall", "functions: replication_digests"),
    ("function|delete", "replication_digests"),
    ("function|flush", "replication_digests"),
    ("function|load", "replication_digests"),
    ("function|restore", "replication_digests"),
    ("migrate", "migrate_changes"),
    ("pfdebug", "an internal look that rewrites a key's form"),
    ("restore-asking", "cluster_moves"),
    ("script|flush", "no data"),
];

#[test]
fn every_writing_command_reaches_every_replica_or_ends_its_link() {
    let group = Group::start();
    let mut client = group.primary.client();
    let declared = shared(&mut group.primary.client(), &mut group.primary.client());
    // What all hold: only a command's own requests end a link.
    let held = shared(&mut group.primary.client(), &mut group.replicas[0].1.client());
    // A replica takes no writes of clients, so payloads are made beside it.
    let maker = NodeKind::Genuine(group.replicas[0].0).start(&[]);
    let payloads = payloads(&mut maker.client());
    drop(maker);
    let (pieces, seed) = match std::env::var("APUS_DRAWN_WRITES") {
        Ok(pieces) => (pieces.parse().expect("a number"), Random::from_entropy().next_u64()),
        Err(_) => (PIECES, 1),
    };
    let mut idle = Vec::new();
    for command in writing(&mut client, declared.iter()) {
        if ELSEWHERE.iter().any(|(name, _)| *name == command.name) {
            continue;
        }
        let mut has_written = false;
        for piece in 0..PATIENCE {
            if piece >= pieces && has_written {
                break;
            }
            let seed = seed.wrapping_add(piece);
            let drawn = drawn(command, &held, seed, &payloads);
            has_written |= group.run_drawn(&drawn, &command.name);
        }
        if !has_written {
            idle.push(&command.name);
        }
    }
    assert!(idle.is_empty(), "without an effect: {idle:?}");
}

/// Those whose block says that they write.
fn writing<'a>(
    client: &mut Client,
    declared: impl Iterator<Item = &'a Declared>,
) -> Vec<&'a Declared> {
    let mut writes = |command: &&Declared| {
        let reply = client.call(&["COMMAND", "INFO", &command.name]);
        let Value::Array(entries) = reply else { panic!("{reply:?}") };
        let Some(Value::Array(fields)) = entries.first() else { return false };
        let Value::Array(flags) = &fields[2] else { panic!("{fields:?}") };
        flags.iter().any(|flag| flag.as_bytes() == Some(b"write"))
    };
    let found: Vec<&Declared> = declared.filter(&mut writes).collect();
    assert!(found.len() > 100, "the table has more that write than {}", found.len());
    found
}

/// Requests of one command, in a world that requests of others have made.
fn drawn(command: &Declared, held: &[Declared], seed: u64, payloads: &[Vec<u8>]) -> Vec<Command> {
    let mut others = Generator::new(seed, held, payloads);
    let world = (0..REQUESTS * 4).map(|_| others.draw().step.command);
    let lone = std::slice::from_ref(command);
    let mut own = Generator::new(seed, lone, payloads);
    let own = (0..REQUESTS).map(|_| own.draw().step.command);
    let begin = prologue(seed as usize, true);
    begin.into_iter().chain(world).chain(own).collect()
}

impl Group {
    /// Runs one piece, and compares all; whether its last requests have changed anything.
    fn run_drawn(&self, drawn: &[Command], what: &str) -> bool {
        self.clear();
        let client = &mut self.primary.client();
        let told = self.primary.log().len();
        let (world, own) = drawn.split_at(drawn.len() - REQUESTS);
        client.pipeline(world);
        client.call(&["SELECT", "0"]);
        let before = client.figure("rdb_changes_since_last_save");
        client.pipeline(own);
        let after = client.figure("rdb_changes_since_last_save");
        let lines: Vec<String> = drawn.iter().map(|it| tests::client::line(it)).collect();
        self.compare(told, &format!("{what}\n{}\n", lines.join("\n")));
        after != before
    }
}
