//! A panic leaves nothing half done, wherever in a unit it comes: its changes are undone, the
//! clients that it served wait on and all locks are free; or the process says why and ends, and
//! what its log brings back is what was there before. So it is beside the data: what steers the
//! server.
//!
//! `APUS_PANICS=10000` asks for so many of each kind, of a fresh seed.

use std::path::Path;

use base::random::Random;
use proto::value::Value;
use tests::client::Arrival;
use tests::render::{render, text};
use tests::server::eventually;
use tests::units::{Draw, Stage};
use tests::{Client, Server};

/// How many units of each kind a short run has.
const UNITS: usize = 30;
/// The seed of a short run; a long one draws its own.
const SEED: u64 = 14;

fn digest(client: &mut Client) -> String {
    render(&client.call(&["DEBUG", "DIGEST"]))
}

/// Units that panic by one cause; how many did and were undone, and how many ended the process.
fn panic_by(cause: &str) -> (usize, usize) {
    let asked = std::env::var("APUS_PANICS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_PANICS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    let mut draw = Draw(Random::from_seed(seed));
    let mut stage = Stage::new("always");
    stage.server.may_panic();
    let (mut undone, mut ended) = (0, 0);
    for number in 0..asked.unwrap_or(UNITS) {
        let unit = draw.unit();
        let step = (1 + draw.0.below(unit.len() as u64)).to_string();
        let what = format!("unit {number} of seed {seed}, {cause} at step {step}:\n{unit:#?}");
        let before = digest(&mut stage.admin);
        stage.admin.call(&["DEBUG", "FAILPOINT", cause, &step]);
        stage.attempt(&unit);
        // A process that has ended answers nothing more.
        let is_to_come = stage.admin.try_call(&["DEBUG", "FAILPOINT"]);
        if is_to_come.is_err() {
            eventually("the process has ended", || stage.server.has_ended());
            ended += 1;
            assert!(stage.server.log().contains("The process ends: "), "{what}");
            stage.server.restart();
            stage.admin = stage.server.client();
            // Behind the record what it tells of is done.
            if cause != "PANIC-BEHIND-COMMIT" {
                assert_eq!(digest(&mut stage.admin), before, "{what}");
            }
        } else if matches!(is_to_come, Ok(Value::Integer(0))) {
            undone += 1;
            assert_eq!(digest(&mut stage.admin), before, "{what}");
            for (client, id) in &mut stage.waiters {
                let unblocked = stage.admin.call(&["CLIENT", "UNBLOCK", id]);
                // The unit itself may have ended its wait before.
                if unblocked == Value::Integer(1) {
                    assert!(matches!(client.receive(), Value::Null | Value::NullArray), "{what}");
                }
            }
        }
        // All locks are free, and everybody is served.
        stage.set_up();
    }
    let before = digest(&mut stage.admin);
    stage.server.kill();
    stage.server.restart();
    assert_eq!(digest(&mut stage.server.client()), before);
    (undone, ended)
}

#[test]
fn of_a_step_that_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-BEFORE");
    eprintln!("before a step: {undone} undone, {ended} ended");
    assert!(undone > 0);
}

#[test]
fn of_a_change_whose_step_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-BEHIND");
    eprintln!("behind a step: {undone} undone, {ended} ended");
    assert!(undone > 0 && ended > 0);
}

#[test]
fn of_a_commit_that_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-AT-COMMIT");
    eprintln!("at the commit: {undone} undone, {ended} ended");
    assert!(undone > 0 && ended > 0);
}

#[test]
fn of_a_panic_when_others_are_served_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-AT-SERVICE");
    eprintln!("at a service: {undone} undone, {ended} ended");
    assert!(undone > 0);
}

#[test]
fn half_a_commit_ends_the_process() {
    let (undone, ended) = panic_by("PANIC-BEHIND-COMMIT");
    eprintln!("behind the commit: {undone} undone, {ended} ended");
    assert!(undone == 0 && ended > 0);
}

/// What is closed by a panic says no more.
#[test]
fn a_panic_outside_of_units_costs_one_client() {
    let mut stage = Stage::new("no");
    stage.server.may_panic();
    stage.admin.call(&["DEBUG", "FAILPOINT", "PANIC-BEFORE"]);
    let mut client = stage.server.client();
    client.send(&["EVAL", "return redis.call('GET', 's')", "1", "s"]);
    assert!(matches!(client.arrival(std::time::Duration::from_secs(30)), Ok(Arrival::Closed)));
    assert_eq!(render(&stage.admin.call(&["GET", "s"])), "\"text\"");
}

#[test]
fn what_an_exec_watched_that_panics_elsewhere_is_watched_no_more() {
    let mut stage = Stage::new("no");
    stage.server.may_panic();
    let mut client = stage.server.client();
    client.call(&["WATCH", "s", "other"]);
    client.call(&["MULTI"]);
    // More than a worker does.
    for _ in 0..520 {
        client.call(&["INCR", "n"]);
    }
    stage.admin.call(&["DEBUG", "FAILPOINT", "PANIC-BEFORE"]);
    client.send(&["EXEC"]);
    assert!(client.is_closed());
    eventually("nothing is watched", || stage.admin.figure("total_watched_keys") == 0);
}

/// Commands beside the data that a panic may come in.
const BESIDE: &[&[&str]] = &[
    &["CONFIG", "SET", "maxmemory", "1gb", "slowlog-max-len", "99"],
    &["CONFIG", "SET", "worker-threads", "3", "bind", "127.0.0.1 127.0.0.2"],
    &["CONFIG", "SET", "worker-threads", "2", "bind", "127.0.0.1"],
    &["CONFIG", "SET", "appendonly", "no"],
    &["CONFIG", "SET", "appendonly", "yes"],
    &["CONFIG", "REWRITE"],
    &["CONFIG", "RESETSTAT"],
    &["ACL", "SETUSER", "guest", "on", "nopass", "+@all"],
    &["ACL", "SAVE"],
    &["ACL", "LOAD"],
    &["ACL", "DELUSER", "guest"],
    &["FUNCTION", "LOAD", "REPLACE", LIBRARY],
    &["FUNCTION", "DELETE", "beside"],
    &["FUNCTION", "FLUSH"],
    &["SCRIPT", "LOAD", "return 1"],
    &["SCRIPT", "FLUSH"],
    &["CLIENT", "SETNAME", "somebody"],
    &["CLIENT", "PAUSE", "1", "ALL"],
    &["CLIENT", "TRACKING", "ON"],
    &["CLIENT", "KILL", "TYPE", "pubsub"],
    &["SUBSCRIBE", "news"],
    &["SAVE"],
    &["BGSAVE"],
    &["BGREWRITEAOF"],
    &["SLOWLOG", "RESET"],
];

const LIBRARY: &str = "#!lua name=beside\nredis.register_function('f', function() return 1 end)";

/// More places than one command passes.
const PLACES: u64 = 30;

/// Whether the process goes on and does all that it did before; else it has said why it ends.
fn goes_on(server: &mut Server, what: &str) -> bool {
    let asked = |words: &[&str]| {
        let mut client = Client::try_connect(server.port()).ok()?;
        client.try_call(words).ok()
    };
    let lines: [&[&str]; 10] = [
        &["CONFIG", "SET", "maxmemory", "0", "worker-threads", "2", "bind", "127.0.0.1"],
        &["CONFIG", "REWRITE"],
        &["ACL", "SETUSER", "other", "on"],
        &["ACL", "SAVE"],
        &["FUNCTION", "LOAD", "REPLACE", LIBRARY],
        &["SCRIPT", "LOAD", "return 2"],
        &["CLIENT", "LIST"],
        &["CONFIG", "SET", "appendonly", "yes"],
        &["SET", "key", "value"],
        &["EVAL", "for i = 1, 100000 do end return 1", "1", "key"],
    ];
    for words in lines {
        let Some(reply) = asked(words) else {
            eventually("the process has ended", || server.has_ended());
            assert!(server.log().contains("The process ends: "), "{what}:\n{}", server.log());
            return false;
        };
        assert!(!matches!(reply, Value::Error(_)), "{what}: {words:?}: {reply:?}");
    }
    // Neither a save nor a rewrite lasts for ever.
    for (words, field) in
        [("SAVE", "rdb_bgsave_in_progress:0"), ("BGREWRITEAOF", "aof_rewrite_in_progress:0")]
    {
        eventually(&format!("{what}: {words}"), || {
            let reply = asked(&[words]);
            reply.is_some_and(|reply| !matches!(reply, Value::Error(_)))
        });
        eventually(&format!("{what}: {field}"), || {
            let report = asked(&["INFO", "persistence"]).map(|reply| text(&reply));
            report.is_some_and(|report| report.contains(field))
        });
    }
    true
}

/// Files that were to take the place of others.
fn temporaries(server: &Server) -> Vec<String> {
    let names = std::fs::read_dir(server.folder()).expect("it is there").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn a_panic_beside_the_data_leaves_nothing_half_done() {
    let arguments = [
        "--enable-debug-command",
        "local",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--worker-threads",
        "2",
        "--stop-writes-on-bgsave-error",
        "no",
    ];
    let prepare = |folder: &Path| std::fs::write(folder.join("users.acl"), "").expect("it is new");
    let mut server = Server::start_configured(prepare, "aclfile users.acl\n", &arguments);
    server.may_panic();
    let (mut went_on, mut ended) = (0, 0);
    for words in BESIDE {
        for place in 1..=PLACES {
            let mut admin = server.client();
            admin.call(&["DEBUG", "FAILPOINT", "PANIC-BESIDE", &place.to_string()]);
            let what = format!("{words:?} at place {place}");
            // The connection may be closed, or the process end.
            let _ = server.client().try_call(words);
            let is_to_come = admin.try_call(&["DEBUG", "FAILPOINT"]);
            assert!(is_to_come.is_err() || temporaries(&server).is_empty(), "{what}");
            if matches!(is_to_come, Ok(Value::Integer(1))) {
                assert!(place > 1, "{what}: it passes none");
                break;
            }
            if is_to_come.is_ok() && goes_on(&mut server, &what) {
                went_on += 1;
                continue;
            }
            ended += 1;
            eventually("the process has ended", || server.has_ended());
            assert!(server.log().contains("The process ends: "), "{what}:\n{}", server.log());
            server.restart();
            assert!(temporaries(&server).is_empty(), "{what}: behind a start");
            assert!(goes_on(&mut server, &what), "{what}: behind a start");
        }
    }
    eprintln!("{went_on} times it went on, {ended} times it ended");
    assert!(went_on > 0);
}
