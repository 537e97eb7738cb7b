//! Passwords and users on all sides: of a Sentinel's clients, of the other Sentinels, and of the
//! servers that are watched.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::sentinel::{NAME, Sentinel, SentinelProgram, World, watch_lines};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, check};

const APUS: SentinelProgram = SentinelProgram::Apus;
const STOCK: SentinelProgram = SentinelProgram::Stock(Oracle::Redis70);

/// A client that has logged in.
fn known(sentinel: &Sentinel, words: &[&str]) -> Client {
    let mut client = sentinel.client();
    let reply = client.call(&[&["AUTH"], words].concat());
    assert_eq!(reply.as_bytes(), Some(b"OK".as_slice()));
    client
}

/// What SENTINEL MASTER says under this name, to a client that may ask.
fn field(client: &mut Client, name: &str) -> String {
    let reply = client.call(&["SENTINEL", "MASTER", NAME]);
    tests::sentinel::field_of(&reply, name).unwrap_or_default()
}

#[test]
fn clients_log_in() {
    let lines = format!(
        "requirepass secret\nuser probe on >probe -@all +ping +sentinel|master\n{}",
        watch_lines(free_port(), 1)
    );
    let sentinel = APUS.start(&lines);
    let mut client = sentinel.client();
    check(&mut client, "> SENTINEL MASTERS\n(error) NOAUTH Authentication required.");
    check(&mut client, "> PING\n(error) NOAUTH Authentication required.");
    check(
        &mut client,
        "> AUTH wrong\n(error) WRONGPASS invalid username-password pair or user is disabled.",
    );
    check(
        &mut client,
        "> AUTH secret\nOK\n> PING\nPONG\n> SENTINEL CKQUORUM nobody\n\
                        (error) ERR No such master with that name",
    );
    let mut probe = known(&sentinel, &["probe", "probe"]);
    check(&mut probe, "> PING\nPONG");
    assert_eq!(field(&mut probe, "name"), NAME);
    for words in [&["SENTINEL", "MASTERS"][..], &["SENTINEL", "REMOVE", NAME], &["ROLE"]] {
        let Value::Error(error) = probe.call(words) else { panic!("{words:?}") };
        assert!(error.starts_with(b"NOPERM "), "{words:?}");
    }
    let Value::Array(log) = client.call(&["ACL", "LOG"]) else { panic!() };
    // Three that were refused, and a password that was wrong.
    assert_eq!(log.len(), 4);
}

/// Sentinels whose clients need a password know each other by it, or by a user of their own.
#[test]
fn sentinels_log_in_at_each_other() {
    for lines in [
        "requirepass shared\n",
        "requirepass shared\nuser watcher on >watching +@all ~* &*\n\
         sentinel sentinel-user watcher\nsentinel sentinel-pass watching\n",
    ] {
        let world = World::start(1, &[]);
        let both = [APUS, STOCK].map(|program| program.watch(&world, 2, lines));
        for sentinel in &both {
            let mut client = known(sentinel, &["shared"]);
            eventually("they know and reach each other", || {
                let reply = client.call(&["SENTINEL", "CKQUORUM", NAME]);
                reply.as_bytes().is_some_and(|text| text.starts_with(b"OK 2 usable Sentinels."))
            });
        }
    }
}

/// The password and the user that a Sentinel has for the servers, through a failover.
#[test]
fn servers_want_a_password_or_a_user() {
    let rules = "allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish \
                 +info +client|setname +client|kill +script|kill";
    let acl: Vec<&str> =
        ["--user", "watcher", "on", ">watching"].into_iter().chain(rules.split(' ')).collect();
    for (arguments, lines) in [
        (vec![], format!("sentinel auth-pass {NAME} secret\n")),
        (acl, format!("sentinel auth-user {NAME} watcher\nsentinel auth-pass {NAME} watching\n")),
    ] {
        let passwords = ["--requirepass", "secret", "--masterauth", "secret"];
        let mut world = World::start(1, &[&passwords[..], &arguments[..]].concat());
        let sentinel = APUS.watch(&world, 1, &lines);
        sentinel.meet(1, 0);
        world.servers()[0].kill();
        let new = world.port(1);
        eventually("the replica is promoted", || sentinel.primary_port() == Some(new));
        assert!(sentinel.file().contains(&lines), "what stood there stays");
    }
}

#[test]
fn a_wrong_password_is_a_server_that_is_down() {
    let world = World::start(0, &["--requirepass", "secret"]);
    let sentinel = APUS.watch(&world, 1, &format!("sentinel auth-pass {NAME} wrong\n"));
    eventually("it is down", || sentinel.field("flags").contains("s_down"));
    let set = sentinel.ask(&["SENTINEL", "SET", NAME, "auth-pass", "secret"]);
    assert_eq!(set.as_bytes(), Some(b"OK".as_slice()));
    eventually("it is up", || !sentinel.field("flags").contains("down"));
}
