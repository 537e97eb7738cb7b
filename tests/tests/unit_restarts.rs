//! A unit (EXEC, a script, the waiters they serve) that is begun again cannot be told from one that
//! is not: for each way of it one example beside Redis, and random units of all kinds of commands
//! on two servers, of which one has them begin again at some step, by each of the causes; those
//! that Redis has run there, too.
//!
//! `APUS_BEGUN_AGAIN=100000` asks for so many random units, of a fresh seed.

use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::render::{render, text};
use tests::script::play;
use tests::server::eventually;
use tests::units::{Draw, Stage, as_told_by_both, for_redis};
use tests::{Arrival, Oracle, Server};

/// How many random units a short run has.
const UNITS: usize = 600;
/// The seed of a short run; a long one draws its own.
const SEED: u64 = 38;
/// So many units run between two empty worlds.
const EPISODE: usize = 20;

/// Plays a session on Redis and on Apus, which has two workers.
#[track_caller]
fn beside_redis(script: &str) {
    for server in [Oracle::Redis82.start(&[]), Server::start(&["--worker-threads", "2"])] {
        play(&server, script);
    }
}

#[test]
fn what_became_of_whole_databases_is_undone() {
    beside_redis(
        "
        > SET k v
        OK
        > EVAL \"local v=redis.call('get',KEYS[1]) redis.call('flushall') \
            redis.call('set',KEYS[1],v) \
            return redis.call('lpush',KEYS[1],'x')\" 1 k
        ~ (error) WRONGTYPE *
        > GET k
        \"v\"
        > EVAL \"local v=redis.call('get',KEYS[1]) redis.call('flushdb') \
            for i=1,2000000 do end redis.call('set',KEYS[1],v) return v\" 1 k
        \"v\"
        > GET k
        \"v\"
        > EVAL \"redis.call('swapdb',0,1) for i=1,2000000 do end return 1\" 0
        (integer) 1
        > GET k
        (nil)
        > SELECT 1
        OK
        > GET k
        \"v\"
        ",
    );
}

#[test]
fn what_is_no_change_of_data_happens_once() {
    beside_redis(
        "
        waiter> BLMOVE q dst LEFT LEFT 0
        > CONFIG RESETSTAT
        OK
        > MULTI
        OK
        > FUNCTION LOAD \"#!lua name=lib1\\nredis.register_function('f1', function() return 1 end)\"
        QUEUED
        > CLIENT GETNAME
        QUEUED
        > CLIENT SETNAME me
        QUEUED
        > CONFIG GET slowlog-max-len
        QUEUED
        > CONFIG SET slowlog-max-len 77
        QUEUED
        > SCRIPT EXISTS 7413dc2440db1fea7c0a0bde841fa68eefaf149c
        QUEUED
        > EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        QUEUED
        > EVAL \"return 1\" 0
        QUEUED
        > RPUSH q v
        QUEUED
        > EXEC
        1) \"lib1\"
        2) (nil)
        3) OK
        4) 1) \"slowlog-max-len\"
           2) \"128\"
        5) OK
        6) 1) (integer) 0
        7) (error) NOSCRIPT No matching script. Please use EVAL.
        8) (integer) 1
        9) (integer) 1
        waiter<
        \"v\"
        ",
    );
}

#[test]
fn the_database_of_each_command_is_what_select_says() {
    beside_redis(
        "
        > SELECT 1
        OK
        > EVAL \"for i=1,30000 do redis.call('sadd',KEYS[1],i) \
            redis.call('sadd',KEYS[2],i) end\" 2 one other
        (nil)
        > SELECT 0
        OK
        waiter> SELECT 1
        OK
        waiter> BLMOVE q dst LEFT LEFT 0
        > MULTI
        OK
        > SET zero 0
        QUEUED
        > SELECT 1
        QUEUED
        > SINTERCARD 2 one other
        QUEUED
        > RPUSH q v
        QUEUED
        > EXEC
        1) OK
        2) OK
        3) (integer) 30000
        4) (integer) 1
        waiter<
        \"v\"
        > LRANGE dst 0 -1
        1) \"v\"
        > SELECT 0
        OK
        > DBSIZE
        (integer) 1
        ",
    );
}

#[test]
fn a_tracking_client_is_told_of_what_a_unit_read_before_it_began_again() {
    beside_redis(
        "
        other> SET s abc
        OK
        other> RPUSH k a b
        (integer) 2
        > HELLO 3
        ...
        > CLIENT TRACKING ON
        OK
        > MULTI
        OK
        > LTRIM k 0 -1
        QUEUED
        > GET s
        QUEUED
        > EVAL \"return redis.call('incr',KEYS[1])\" 1 s
        QUEUED
        > EXEC
        1) OK
        2) \"abc\"
        ~ 3) (error) ERR value is not an integer or out of range*
        > MULTI
        OK
        > SET n 1
        QUEUED
        > GET n
        QUEUED
        > SET n 2
        QUEUED
        > EXEC
        1) OK
        2) \"1\"
        3) OK
        <
        ...
        > PING
        PONG
        > EVAL \"redis.call('set',KEYS[1],1) redis.call('get',KEYS[1]) \
            redis.call('set',KEYS[1],2)\" 1 m
        (nil)
        <
        ...
        > PING
        PONG
        ",
    );
}

#[test]
fn a_transaction_sees_what_it_has_switched_on() {
    beside_redis(
        "
        listener> PSUBSCRIBE __key*
        ...
        > SET x old
        OK
        > HELLO 3
        ...
        > MULTI
        OK
        > CLIENT TRACKING ON
        QUEUED
        > GET x
        QUEUED
        > SET x new
        QUEUED
        > CONFIG SET notify-keyspace-events K$
        QUEUED
        > SET y 1
        QUEUED
        > ACL SETUSER default -append
        QUEUED
        > APPEND y 2
        QUEUED
        > EXEC
        1) OK
        2) \"old\"
        3) OK
        4) OK
        5) OK
        6) OK
        ~ 7) (error) NOPERM *
        <
        ...
        > PING
        PONG
        listener<
        1) \"pmessage\"
        2) \"__key*\"
        3) \"__keyspace@0__:y\"
        4) \"set\"
        ",
    );
}

/// What was queued before a load is judged when EXEC comes.
#[test]
fn exec_that_was_queued_before_a_reload_does_not_run_into_its_load() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let (mut client, mut reloader, mut admin) = (server.client(), server.client(), server.client());
    for words in [
        &["DEBUG", "POPULATE", "2000"][..],
        &["SAVE"],
        &["CONFIG", "SET", "key-load-delay", "3000"],
    ] {
        assert_eq!(render(&admin.call(words)), "OK");
    }
    for words in [&["MULTI"][..], &["FLUSHALL"], &["SET", "k", "v"]] {
        client.call(words);
    }
    reloader.send(&["DEBUG", "RELOAD", "NOSAVE"]);
    eventually("data are loaded", || {
        text(&admin.call(&["INFO", "persistence"])).contains("loading:1")
    });
    let refused = "(error) EXECABORT Transaction discarded because of: LOADING Redis is loading \
                   the dataset in memory";
    assert_eq!(render(&client.call(&["EXEC"])), refused);
    assert_eq!(render(&reloader.receive()), "OK");
    assert_eq!(render(&admin.call(&["DBSIZE"])), "(integer) 2000");
}

/// A client that is served makes the transaction widen, behind what ended another wait, or its
/// session.
#[test]
fn a_client_that_is_unblocked_or_killed_is_so_once() {
    for server in [Oracle::Redis82.start(&[]), Server::start(&["--worker-threads", "2"])] {
        for end in ["UNBLOCK", "KILL"] {
            let (mut client, mut waiter, mut other) =
                (server.client(), server.client(), server.client());
            let (id, waiters) = (other.id(), [waiter.id(), other.id()]);
            waiter.send(&["BLMOVE", "q", "dst", "LEFT", "LEFT", "0"]);
            other.send(&["BLPOP", "never", "0"]);
            eventually("both wait", || {
                waiters
                    .iter()
                    .all(|id| text(&client.call(&["CLIENT", "LIST", "ID", id])).contains("flags=b"))
            });
            client.call(&["MULTI"]);
            match end {
                "KILL" => client.call(&["CLIENT", "KILL", "ID", &id]),
                _ => client.call(&["CLIENT", "UNBLOCK", &id, "ERROR"]),
            };
            client.call(&["RPUSH", "q", "v"]);
            let expected = "1) (integer) 1\n2) (integer) 1";
            assert_eq!(render(&client.call(&["EXEC"])), expected, "{end}");
            assert_eq!(render(&waiter.receive()), "\"v\"", "{end}");
            let told = other.arrival(Duration::from_secs(30));
            match end {
                "KILL" => assert!(matches!(told, Ok(Arrival::Closed) | Err(_)), "{told:?}"),
                _ => assert!(matches!(told, Ok(Arrival::Reply(Value::Error(_)))), "{told:?}"),
            }
        }
    }
}

/// The watch is broken by another while EXEC waits for more locks.
#[test]
fn exec_that_is_refused_has_done_nothing() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut waiter = server.client();
    waiter.send(&["BLMOVE", "q", "dst", "LEFT", "LEFT", "0"]);
    let (mut client, mut other) = (server.client(), server.client());
    eventually("the client waits", || {
        text(&other.call(&["INFO", "clients"])).contains("blocked_clients:1")
    });
    client.call(&["WATCH", "w"]);
    for words in [
        &["MULTI"][..],
        &["CONFIG", "SET", "slowlog-max-len", "99"],
        &["SUBSCRIBE", "ch"],
        &["RPUSH", "q", "v"],
    ] {
        client.call(words);
    }
    // The target's lock is held for a while, and the watched key changed behind it.
    let mut busy = server.client();
    busy.send(&[
        "EVAL",
        "for i=1,20000000 do end return redis.call('set',KEYS[2],1)",
        "2",
        "dst",
        "w",
    ]);
    eventually("the script runs", || {
        text(&other.call(&["INFO", "clients"])).contains("blocked_clients:1")
    });
    client.send(&["EXEC"]);
    busy.receive();
    let reply = client.receive();
    let limit = render(&other.call(&["CONFIG", "GET", "slowlog-max-len"]));
    match reply {
        // The transaction was first.
        Value::Array(_) => assert!(limit.contains("99")),
        _ => assert!(limit.contains("128"), "{reply:?} {limit}"),
    }
}

/// How many units are asked for, if that is said, and the seed.
fn asked() -> (Option<usize>, u64) {
    let asked = std::env::var("APUS_BEGUN_AGAIN").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_BEGUN_AGAIN is a number"));
    (asked, if asked.is_some() { Random::from_entropy().next_u64() } else { SEED })
}

const CAUSES: [&str; 4] = ["WIDEN", "HEAVY", "GIVE-UP", "SERVICE"];

#[test]
fn a_unit_that_was_begun_again_cannot_be_told_from_one_that_was_not() {
    let (asked, seed) = asked();
    let (mut plain, mut drilled) = (Stage::new("no"), Stage::new("no"));
    let mut draw = Draw(Random::from_seed(seed));
    let mut struck = [0; CAUSES.len()];
    for number in 0..asked.unwrap_or(UNITS) {
        if number % EPISODE == 0 {
            plain.set_up();
            drilled.set_up();
        }
        let unit = draw.unit();
        let cause = draw.0.below(CAUSES.len() as u64) as usize;
        let step = 1 + draw.0.below(unit.len() as u64);
        plain.admin.call(&["DEBUG", "FAILPOINT"]);
        drilled.admin.call(&["DEBUG", "FAILPOINT", CAUSES[cause], &step.to_string()]);
        let (expected, found) = (plain.perform(&unit), drilled.perform(&unit));
        let is_to_come = drilled.admin.call(&["DEBUG", "FAILPOINT"]) == Value::Integer(1);
        plain.admin.call(&["DEBUG", "FAILPOINT"]);
        struck[cause] += usize::from(!is_to_come);
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(
                expected, found,
                "unit {number} of seed {seed}, {} at step {step}:\n{unit:#?}",
                CAUSES[cause]
            );
        }
        plain.wait_anew();
        drilled.wait_anew();
    }
    eprintln!("begun again: {CAUSES:?} {struck:?}");
    if asked.is_none() {
        assert!(struck.iter().all(|times| *times > UNITS / 40), "{struck:?}");
    }
    for stage in [&mut plain, &mut drilled] {
        let before = render(&stage.admin.call(&["DEBUG", "DIGEST"]));
        stage.server.kill();
        stage.server.restart();
        assert_eq!(render(&stage.server.client().call(&["DEBUG", "DIGEST"])), before);
    }
}

/// The run that is not begun again, beside Redis.
#[test]
fn what_a_unit_shows_is_what_redis_shows() {
    let (count, seed) = asked();
    let mut stages = Stage::beside_redis();
    let mut draw = Draw(Random::from_seed(seed));
    for number in 0..count.unwrap_or(UNITS / 4) {
        if number % EPISODE == 0 {
            Stage::set_up_alike(&mut stages);
        }
        let unit = for_redis(&draw.unit());
        let [found, expected] = stages.each_mut().map(|stage| {
            let mut seen = as_told_by_both(&unit, stage.perform(&unit));
            seen.push(("data".to_owned(), stage.data()));
            seen
        });
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "unit {number} of seed {seed}:\n{unit:#?}");
        }
        assert_eq!(found.len(), expected.len(), "unit {number} of seed {seed}:\n{unit:#?}");
        stages.iter_mut().for_each(Stage::wait_anew);
        Stage::number_alike(&mut stages);
    }
}
