//! Entries that all groups have acknowledged, trimmed or deleted one by one: the replica has the
//! same stream, and counts as its primary does, whichever of both is Redis 8.2.

use base::quote::split_arguments;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::{Oracle, Server};

const REDIS82: NodeKind = NodeKind::Genuine(Oracle::Redis82);

/// Five entries of which two groups have acknowledged the second and the fourth.
const SCENE: &[&str] = &[
    "FLUSHALL",
    "XADD x 1-1 a b",
    "XADD x 2-1 a b",
    "XADD x 3-1 a b",
    "XADD x 4-1 a b",
    "XADD x 5-1 a b",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x other 0",
    "XREADGROUP GROUP g c COUNT 5 STREAMS x >",
    "XREADGROUP GROUP other c COUNT 5 STREAMS x >",
    "XACK x g 2-1 4-1",
    "XACK x other 2-1 4-1",
];

/// What is done behind it; in the second half something was deleted before.
const PIECES: &[&[&str]] = &[
    &["XTRIM x MAXLEN 1 ACKED"],
    &["XTRIM x MINID 5-1 ACKED"],
    &["XTRIM x MAXLEN ~ 1 ACKED"],
    &["XADD x ACKED MAXLEN 2 9-9 a b"],
    &["XADD x ACKED MINID 4-1 9-9 a b", "XTRIM x MAXLEN 1 ACKED"],
    &["XDELEX x ACKED IDS 3 2-1 3-1 4-1"],
    &["XACKDEL x g ACKED IDS 3 2-1 3-1 5-1"],
    &["XACKDEL x g DELREF IDS 2 3-1 5-1"],
    &["XTRIM x MAXLEN 1 ACKED", "XDEL x 1-1", "XTRIM x MAXLEN 0"],
    &["XDEL x 4-1", "XTRIM x MAXLEN 1 ACKED"],
    &["XDEL x 1-1", "XTRIM x MAXLEN 1 ACKED", "XADD x ACKED MAXLEN 1 9-9 a b"],
    &["XDELEX x ACKED IDS 1 2-1", "XTRIM x MINID 9-9 ACKED"],
    &["MULTI", "XTRIM x MAXLEN 1 ACKED", "XADD x ACKED MAXLEN 1 9-9 a b", "EXEC"],
];

fn ask(server: &Server, line: &str) -> String {
    let words = split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&server.client().call(&words))
}

/// What tells all of a stream but times, how it lies in memory, and a count that Redis 8.2 has not;
/// a line for each word, without its number in the reply.
fn told(server: &Server) -> String {
    const PASSING: [&str; 5] =
        ["seen-time", "active-time", "radix-tree-keys", "radix-tree-nodes", "nacked-count"];
    let lines = ["XINFO STREAM x FULL COUNT 0", "XINFO GROUPS x", "XRANGE x - +", "XLEN x"];
    let all = lines.map(|line| ask(server, line)).join("\n");
    let mut kept = Vec::new();
    let mut lines = all.lines();
    while let Some(line) = lines.next() {
        match PASSING.iter().any(|name| line.contains(name)) {
            true => _ = lines.next(),
            false => kept.push(line.rsplit(") ").next().unwrap_or_default()),
        }
    }
    kept.join("\n")
}

/// The same without moments: two servers that are told the same have others.
fn without_moments(told: &str) -> String {
    let is_moment = |line: &&str| {
        let digits = line.rsplit(' ').next().unwrap_or_default();
        digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    told.lines().filter(|line| !is_moment(line)).collect::<Vec<_>>().join("\n")
}

/// A primary of ours says that nothing was ever deleted by the lowest ID: XSETID has no word for
/// it that a real server takes.
fn as_said(told: &str) -> String {
    let none = "\"max-deleted-entry-id\"";
    let mut lines: Vec<String> = Vec::new();
    for line in told.lines() {
        let follows = lines.last().is_some_and(|before| before.contains(none));
        lines.push(if follows { line.replace("\"0-0\"", "\"0-1\"") } else { line.to_owned() });
    }
    lines.join("\n")
}

#[test]
fn what_was_acknowledged_is_trimmed_alike_on_redis_82_and_ours() {
    let kinds = [[NodeKind::Apus; 2], [NodeKind::Apus, REDIS82], [REDIS82, NodeKind::Apus]];
    for kinds in kinds {
        let [primary, replica] = kinds.map(|kind| kind.start(&[]));
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        let witness = REDIS82.start(&[]);
        for piece in PIECES {
            let mut clients = [primary.client(), witness.client()];
            for line in SCENE.iter().chain(*piece) {
                let words = split_arguments(line.as_bytes()).expect("its quotes are even");
                let [one, other] = clients.each_mut().map(|it| render(&it.call(&words)));
                assert_eq!(one, other, "{kinds:?}: {line}");
            }
            await_replica(&primary, &replica);
            let [expected, found, alone] = [&primary, &replica, &witness].map(told);
            assert_eq!(without_moments(&expected), without_moments(&alone), "{kinds:?}: {piece:?}");
            let is_said = kinds == [NodeKind::Apus, REDIS82] && as_said(&expected) == found;
            assert!(expected == found || is_said, "{kinds:?} {piece:?}\n{expected}\nand\n{found}");
        }
        assert_eq!(replica.client().figure("unexpected_error_replies"), 0, "{}", replica.log());
    }
}
