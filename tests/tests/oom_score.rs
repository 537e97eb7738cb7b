//! `oom-score-adj`: what the kernel's out-of-memory killer is told, by role, and what it was told
//! before.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::{Server, check};

fn score(server: &Server) -> i64 {
    let file = format!("/proc/{}/oom_score_adj", server.pid());
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

#[test]
fn the_score_follows_the_configuration_and_the_role() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let base = score(&server);
    let mut set = |words: &[&str]| {
        let words = [&["CONFIG", "SET"], words].concat();
        assert_eq!(client.call(&words), Value::Simple("OK".into()), "{words:?}");
    };
    set(&["oom-score-adj-values", "10 20 30"]);
    assert_eq!(score(&server), base, "it is not to be set");
    for (how, expected) in
        [("yes", base + 10), ("absolute", 10), ("relative", base + 10), ("no", base)]
    {
        set(&["oom-score-adj", how]);
        assert_eq!(score(&server), expected, "{how}");
    }
    set(&["oom-score-adj", "relative", "oom-score-adj-values", "15 25 35"]);
    assert_eq!(score(&server), base + 15);
    client.call(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(score(&server), base + 25);
    client.call(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(score(&server), base + 15);
    let server = Server::start(&["--oom-score-adj", "absolute", "--oom-score-adj-values", "1 2 3"]);
    assert_eq!(score(&server), 1);
}

/// A change that fails elsewhere changes no score.
#[test]
fn a_change_that_fails_leaves_the_score() {
    let own = ["--oom-score-adj", "yes", "--oom-score-adj-values", "10 20 30"];
    let server = Server::start(&[&own[..], &["--enable-protected-configs", "yes"]].concat());
    let before = score(&server);
    let mut client = server.client();
    check(
        &mut client,
        "> CONFIG SET oom-score-adj-values \"50 60 70\" dir /nonexistent\n\
         (error) ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or \
         directory",
    );
    assert_eq!(score(&server), before);
}
