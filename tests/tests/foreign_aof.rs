//! What the real servers write to their logs is taken as they take it: random requests of all
//! commands and options that both declare, run there, and what their log gives there and here.
//!
//! `APUS_PEER_EPISODES=100` asks for so many episodes of each server, of a fresh seed.

use base::random::Random;
use proto::value::Value;
use tests::differential::Command;
use tests::generator::{Generator, prologue, shared};
use tests::server::eventually;
use tests::{Oracle, Server, check};

use crate::append_only::{differences, forget_what_is_over, payloads, state};

/// Episodes for each server.
const EPISODES: usize = 8;
/// Requests in an episode.
const REQUESTS: usize = 600;

const OWN: &[&str] = &["--enable-debug-command", "yes", "--save", ""];

/// A server whose log says command by command what was done.
const LOGGED: &[&str] = &[
    "--appendonly",
    "yes",
    "--auto-aof-rewrite-percentage",
    "0",
    "--enable-debug-command",
    "yes",
    "--save",
    "",
];

/// Runs commands there; what a snapshot of what they load from their log, and what that log, give
/// here. What their own log does not tell they have lost by then.
fn compare(oracle: Oracle, has_small_sets: bool, commands: &[Command], what: &str) {
    let theirs = oracle.start(LOGGED);
    let mut client = theirs.client();
    client.pipeline(&prologue(0, has_small_sets));
    client.pipeline(commands);
    check(&mut client, "> SELECT 0\nOK\n> DEBUG LOADAOF\nOK\n> SAVE\nOK");
    let dump = std::fs::read(theirs.folder().join("dump.rdb")).expect("it was just saved");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    eventually("the server ends", || client.is_closed());
    let by_snapshot = Server::start_prepared(
        |folder| std::fs::write(folder.join("dump.rdb"), &dump).expect("the folder is new"),
        OWN,
    );
    let log = crate::file_compatibility::with_log_of(&theirs);
    let by_log = Server::start_prepared(log, &[LOGGED, OWN].concat());
    let mut expected = state(&mut by_snapshot.client());
    let mut found = state(&mut by_log.client());
    forget_what_is_over([&mut expected, &mut found]);
    if expected != found {
        let lines: Vec<String> = commands.iter().map(|it| tests::client::line(it)).collect();
        panic!("{oracle:?}, {what}: {}\n{}", differences(&expected, &found), lines.join("\n"));
    }
}

/// Redis 7.0 and Valkey keep a number of entries that were never added; Redis 8.2 and Apus take it
/// for all that were.
fn is_bounded_here(oracle: Oracle, command: &Command) -> bool {
    let mut words = command.iter();
    oracle != Oracle::Redis82 && words.any(|word| word.eq_ignore_ascii_case(b"ENTRIESREAD"))
}

#[test]
fn the_logs_of_the_real_servers_give_the_data_that_they_had() {
    let (episodes, seed) = match std::env::var("APUS_PEER_EPISODES") {
        Ok(number) => (number.parse().expect("a number"), Random::from_entropy().next_u64()),
        Err(_) => (EPISODES, 1),
    };
    for oracle in Oracle::ALL {
        let (ours, theirs) = (Server::start(OWN), oracle.start(&["--enable-debug-command", "yes"]));
        let declared = shared(&mut ours.client(), &mut theirs.client());
        let payloads = payloads(&mut theirs.client());
        let mut generator = Generator::new(seed, &declared, &payloads);
        for episode in 0..episodes {
            let mut commands: Vec<_> =
                (0..REQUESTS).map(|_| generator.draw().step.command).collect();
            commands.retain(|command| !is_bounded_here(oracle, command));
            let what = format!("seed {seed}, episode {episode}");
            compare(oracle, oracle != Oracle::Redis70, &commands, &what);
        }
    }
}

/// What chance finds seldom: each line in the words of the request.
#[test]
fn what_the_real_servers_journal_in_other_words_is_understood() {
    let add = |count: usize| (1..=count).map(|id| format!("XADD s {id} a {id}"));
    let lines: Vec<String> = add(300)
        .chain(
            [
                "XADD s MAXLEN ~ 100 LIMIT 100 400 a 1",
                "XADD s MINID ~ 150 LIMIT 200 401 a 1",
                "XTRIM s MAXLEN ~ 50 LIMIT 100",
                "XTRIM s MINID ~ 290 LIMIT 1000",
                "XADD s NOMKSTREAM MAXLEN ~ 20 500-* a 1",
                "XADD t MAXLEN ~ 0 * a 1",
                "SET k v EX 100000",
                "GETEX k PX 100000000",
                "GETEX k PERSIST",
                "INCRBYFLOAT f 0.1",
                "HINCRBYFLOAT h f 0.1",
                "SPOP nothing 3",
                "SADD set a b c d e f",
                "SPOP set 3",
                "RESTORE r 0 \"\\x00\\x01a\\x0b\\x00\" REPLACE",
                "COPY k l DB 3 REPLACE",
                "MOVE k 4",
                "ZADD z -0 m 1e308 n",
                "SORT set ALPHA STORE sorted",
                "GEOADD geo 13.361389 38.115556 a 15.087269 37.502669 b",
                "GEOSEARCHSTORE near geo FROMMEMBER a BYRADIUS 200 km STOREDIST",
                "PFADD p a b c",
                "PFMERGE q p",
                "BITFIELD bits SET u8 0 255 OVERFLOW SAT INCRBY u2 1 5",
                "SWAPDB 3 5",
                "ZADD scores 1 a 2 b 16 c 17 d",
                "ZRANGESTORE some scores 0x10 +inf BYSCORE",
                "ZRANGESTORE blank scores \"( 1\" \"\\t2\" BYSCORE",
                "ZRANGESTORE beyond scores -0x1p99999 0x1p1024 BYSCORE",
                "ZRANGESTORE tiny scores (0x1p-99999 0x1p999999999999999999999 BYSCORE",
                "ZREMRANGEBYSCORE scores 0x1p-99999 0x1p-1080",
                "ZREMRANGEBYSCORE scores -inf 0x1p1",
                "ZREMRANGEBYSCORE scores \"\" (0X11",
                "HSET timed a 1 b 2 c 3 d 4",
                "HPEXPIREAT timed 70368744177664 FIELDS 1 a",
                "HEXPIRE timed 9000000000000 FIELDS 1 b",
                "HGETEX timed PXAT 400000000000000 FIELDS 1 c",
                "HSETEX timed PXAT 70368744177664 FIELDS 1 e 5",
            ]
            .map(str::to_owned),
        )
        .collect();
    for oracle in Oracle::ALL {
        let split = |line: &String| {
            let words = base::quote::split_arguments(line.as_bytes());
            words.expect("its quotes are even")
        };
        let commands: Vec<Command> = lines.iter().map(split).collect();
        compare(oracle, oracle != Oracle::Redis70, &commands, "other words");
    }
}

/// A value that the server of now would not take was taken once.
#[test]
fn what_is_longer_than_may_be_sent_now_is_there_again() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.client();
    check(
        &mut client,
        "> SETRANGE long 3000000 x\n(integer) 3000001\n> APPEND long y\n(integer) 3000002\n\
         > SETBIT bits 24000000 1\n(integer) 0\n> BITFIELD field SET u8 24000000 7\n1) (integer) 0",
    );
    server.kill();
    let log = crate::file_compatibility::with_log_of(&server);
    let limited = [&["--proto-max-bulk-len", "1mb"], LOGGED].concat();
    let again = Server::start_prepared(log, &limited);
    let mut client = again.client();
    check(
        &mut client,
        "> STRLEN long\n(integer) 3000002\n> STRLEN bits\n(integer) 3000001\n\
         > STRLEN field\n(integer) 3000001\n\
         > APPEND long z\n(error) ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    );
}

/// A command that is answered with an error did something where it was written.
#[test]
fn a_log_with_a_command_that_fails_here_is_refused_unless_that_is_wanted() {
    let log = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n\
        *3\r\n$3\r\nSET\r\n$1\r\nl\r\n$1\r\nw\r\n";
    let prepare = |folder: &std::path::Path| {
        std::fs::write(folder.join("appendonly.aof"), log).expect("the folder is new");
    };
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    let path = folder.path().display().to_string();
    let port = tests::server::free_port().to_string();
    let arguments = ["--appendonly", "yes", "--save", "", "--port", &port, "--dir", &path];
    let (status, said) = Server::refuses(&arguments);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("at offset 27: 'incr' is answered with '-ERR value is not an"), "{said}");
    assert!(said.contains("aof-load-errors ignore") && !said.contains("--fix"), "{said}");
    let ignoring = ["--appendonly", "yes", "--aof-load-errors", "ignore"];
    let mut server = Server::start_prepared(prepare, &ignoring);
    server.wait_for_log("== CRITICAL == This server is sending an error to its AOF-loading-client");
    assert_eq!(server.client().call(&["DBSIZE"]), Value::Integer(2));
}
