//! A bug in the thread that writes the log: between any two things that it does it panics, while
//! clients write under `always`, the log is rewritten, turned off and on, moved or backed up. Each
//! command is answered, with an error where nobody knows; the log goes on with a new base by
//! itself; INFO and the log tell of it; what was acknowledged is there after a kill.

use std::path::Path;

use proto::value::Value;
use rustix::process::Signal;
use tests::Client;
use tests::faults::ledger::Ledger;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::work::{ARGUMENTS, await_idle, write_while};
use tests::faults::{Fault, Injector};
use tests::server::eventually;

/// What goes on meanwhile.
const OCCASIONS: [(&str, &[&[&str]]); 5] = [
    ("writes", &[]),
    ("a rewrite", &[&["BGREWRITEAOF"]]),
    (
        "off and on",
        &[&["CONFIG", "SET", "appendonly", "no"], &["CONFIG", "SET", "appendonly", "yes"]],
    ),
    ("a move", &[&["CONFIG", "SET", "dir", "elsewhere"], &["BGREWRITEAOF"]]),
    ("a backup", &[&["BACKUP", "START"], &["BACKUP", "SEAL"], &["BACKUP", "CLEANUP"]]),
];

/// Each writer takes so many steps meanwhile.
const STEPS: u64 = 2;

/// More places than any occasion has: a bound for a loop that ends before.
const MOST: u64 = 100;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    std::fs::create_dir(folder.path().join("elsewhere")).expect("a folder");
    folder
}

fn failpoint(subject: &Subject, words: &[&str]) -> i64 {
    let words = [&["DEBUG", "FAILPOINT"], words].concat();
    match subject.ask(&words) {
        Some(Value::Integer(number)) => number,
        reply => panic!("{reply:?}"),
    }
}

fn is_ok(reply: &Value) -> bool {
    *reply == Value::Simple("OK".into())
}

/// Waits until the log is whole and on, whatever has happened.
fn await_log(subject: &mut Subject) {
    assert!(subject.ask_until(&["CONFIG", "SET", "appendonly", "yes"], is_ok));
    eventually("the log is on", || subject.info("aof_enabled").as_deref() == Some("1"));
    eventually("writes are taken", || {
        subject.ask(&["SET", "new", "1"]).as_ref().is_some_and(is_ok)
    });
    // A writer that panicked has its base begun a moment later: only this waits for all of that.
    eventually("what was written is in a file", || {
        let copies = subject.ask(&["WAITAOF", "1", "0", "1000"]);
        copies == Some(Value::Array(vec![Value::Integer(1), Value::Integer(0)]))
    });
    await_rewrites(subject);
}

fn await_rewrites(subject: &mut Subject) {
    eventually("no rewrite is under way, nor is one to come", || {
        await_idle(subject, "aof_rewrite_in_progress");
        await_idle(subject, "aof_rewrite_scheduled");
        subject.info("aof_rewrite_in_progress").as_deref() == Some("0")
    });
}

/// One panic at this place of the occasion; whether there is such a place.
fn panic_at(place: u64, lines: &[&[&str]]) -> bool {
    let (folder, ledger) = (folder(), Ledger::default());
    let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &ARGUMENTS);
    assert!(subject.serves(), "{}", subject.log());
    await_log(&mut subject);
    failpoint(&subject, &["PANIC-IN-LOG", &place.to_string()]);
    write_while(&mut subject, &ledger, STEPS, |subject| {
        for words in lines {
            subject.ask(words).unwrap_or_else(|| panic!("{words:?} is answered"));
            await_rewrites(subject);
        }
    });
    let is_met = failpoint(&subject, &[]) == 0;
    await_log(&mut subject);
    let (panics, log) = (subject.info("panics"), subject.log());
    assert_eq!(panics.as_deref(), Some(if is_met { "1" } else { "0" }), "{log}");
    assert_eq!(log.contains("The AOF begins anew"), is_met, "{log}");
    assert_eq!(subject.info("aof_last_write_status").as_deref(), Some("ok"), "{log}");
    let mut client = Client::connect(subject.port());
    ledger.check(&mut client).unwrap_or_else(|why| panic!("in memory: {why}\n{log}"));
    let moves = lines.iter().any(|words| words.contains(&"dir"));
    let directory = folder.path().join(if moves { "elsewhere" } else { "" });
    if moves {
        // Where the panic came before the move, the base behind it was of the old place.
        client.call(&["BGREWRITEAOF"]);
        await_rewrites(&mut subject);
    }
    subject.kill();
    let directory = directory.display().to_string();
    let arguments = [&ARGUMENTS[..], &["--dir", &directory]].concat();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &arguments);
    assert!(subject.serves(), "it does not start again:\n{}", subject.log());
    let mut client = Client::connect(subject.port());
    ledger.check(&mut client).unwrap_or_else(|why| panic!("behind a start: {why}\n{log}"));
    subject.kill();
    is_met
}

fn every_place(occasion: &str) {
    let (what, lines) = OCCASIONS.iter().find(|(what, _)| *what == occasion).expect("a row");
    let place = (1..MOST).find(|place| {
        eprintln!("{what}, place {place}");
        !panic_at(*place, lines)
    });
    assert!(place.is_some_and(|place| place > 3), "{what}: {place:?} places");
}

#[test]
fn a_panic_of_the_log_beside_writes_costs_nothing_that_was_acknowledged() {
    every_place("writes");
}

#[test]
fn a_panic_of_the_log_beside_a_rewrite_costs_nothing_that_was_acknowledged() {
    every_place("a rewrite");
}

#[test]
fn a_panic_of_the_log_while_it_is_turned_off_and_on_costs_nothing_that_was_acknowledged() {
    every_place("off and on");
}

#[test]
fn a_panic_of_the_log_while_it_moves_costs_nothing_that_was_acknowledged() {
    every_place("a move");
}

#[test]
fn a_panic_of_the_log_beside_a_backup_costs_nothing_that_was_acknowledged() {
    every_place("a backup");
}

/// Until there is a new base, clients that wrote are told that nobody knows, further writes are
/// refused, and INFO says why.
#[test]
fn meanwhile_clients_and_info_are_told_of_a_log_that_panicked() {
    let (folder, row) = (folder(), row_of("name a file"));
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &ARGUMENTS);
    assert!(subject.serves(), "{}", subject.log());
    await_log(&mut subject);
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    failpoint(&subject, &["PANIC-IN-LOG", "1"]);
    let error_of = |reply: Option<Value>| match reply {
        Some(Value::Error(error)) => String::from_utf8_lossy(&error).into_owned(),
        reply => panic!("{reply:?}"),
    };
    let why = "the thread that writes it met a bug";
    let told = error_of(subject.ask(&["SET", "key", "value"]));
    assert!(told.starts_with("UNSAFE ") && told.contains(why), "{told}");
    let told = error_of(subject.ask(&["SET", "key", "other"]));
    assert!(told.starts_with("MISCONF ") && told.contains(why), "{told}");
    assert_eq!(subject.info("aof_last_write_status").as_deref(), Some("err"));
    assert_eq!(subject.info("panics").as_deref(), Some("1"));
    eventually("the base waits for its name", || subject.injector.met() > 0);
    subject.injector.disarm();
    await_log(&mut subject);
    assert_eq!(subject.ask(&["GET", "key"]), Some(Value::Bulk(b"value".into())));
    assert_eq!(subject.info("aof_last_write_status").as_deref(), Some("ok"));
}

/// What the restart behind an end finds of a key.
fn value_behind_a_start(folder: &Path, key: &str) -> Option<Value> {
    let mut subject = Subject::start(folder, Injector::of(vec![]), &ARGUMENTS);
    assert!(subject.serves(), "it does not start again:\n{}", subject.log());
    let value = subject.ask(&["GET", key]);
    subject.kill();
    value
}

/// A server whose log is written each second, which has panicked, or does as soon as it writes; the
/// base behind that is held back until the injector is disarmed, where that is wanted.
fn acknowledged_behind_a_panic(folder: &Path, holds_the_base: bool) -> Subject {
    // The log may do something by itself, and panic, before the write comes, which is refused then.
    let mut tries = (0..20).filter_map(|_| {
        let row = row_of("name a file");
        let arguments = [&ARGUMENTS[..], &["--appendfsync", "everysec"]].concat();
        let mut subject = Subject::start(folder, Injector::of(vec![row]), &arguments);
        assert!(subject.serves(), "{}", subject.log());
        await_log(&mut subject);
        let mut client = Client::connect(subject.port());
        client.call(&["SET", "before", "1"]);
        client.call(&["WAITAOF", "1", "0", "0"]);
        if holds_the_base {
            subject.injector.arm(row, Fault::Held, 0, u64::MAX);
        }
        failpoint(&subject, &["PANIC-IN-LOG", "1"]);
        if is_ok(&client.call(&["SET", "key", "acknowledged"])) {
            return Some(subject);
        }
        subject.injector.disarm();
        subject.kill();
        None
    });
    let subject = tries.next().expect("the write comes first");
    if holds_the_base {
        eventually("the base waits for its name", || subject.injector.met() > 0);
    }
    subject
}

/// The memory is whole, so the end of the process waits until the log is.
#[test]
fn an_orderly_end_behind_a_panic_of_the_log_costs_nothing_that_was_acknowledged() {
    for (how, holds_the_base) in
        [(None, false), (Some("NOSAVE"), false), (None, true), (Some("NOSAVE"), true)]
    {
        let folder = folder();
        let mut subject = acknowledged_behind_a_panic(folder.path(), holds_the_base);
        match how {
            None => subject.signal(Signal::TERM),
            Some(word) => {
                let mut client = Client::connect(subject.port());
                client.send(&["SHUTDOWN", word]);
            }
        }
        eventually("it is about to end", || subject.log().contains("User requested shutdown"));
        subject.injector.disarm();
        assert!(subject.wait().success(), "{}", subject.log());
        let kept = value_behind_a_start(folder.path(), "key");
        assert_eq!(kept, Some(Value::Bulk(b"acknowledged".into())), "{how:?} {holds_the_base}");
    }
}

/// Its files lack what the panic took.
#[test]
fn a_log_without_its_base_is_not_loaded_in_place_of_the_memory() {
    for holds_the_base in [false, true] {
        let folder = folder();
        let mut subject = acknowledged_behind_a_panic(folder.path(), holds_the_base);
        let reply = subject.ask(&["DEBUG", "LOADAOF"]);
        // Where the next base was quick, the log is whole again.
        let is_refused = matches!(reply, Some(Value::Error(_)));
        assert!(is_refused || !holds_the_base, "{reply:?}");
        subject.injector.disarm();
        let acknowledged = Some(Value::Bulk(b"acknowledged".into()));
        assert_eq!(subject.ask(&["GET", "key"]), acknowledged, "{reply:?}");
        await_log(&mut subject);
        assert_eq!(subject.ask(&["GET", "key"]), acknowledged, "{reply:?}");
        subject.kill();
        assert_eq!(value_behind_a_start(folder.path(), "key"), acknowledged, "{reply:?}");
    }
}

/// A log that is written for a backup alone, which is still to begin: there is nothing to go on
/// with, and the backup says so.
#[test]
fn a_backup_that_is_to_begin_fails_where_the_log_for_it_panics() {
    let (folder, row) = (folder(), row_of("name a file"));
    let arguments = [&ARGUMENTS[..], &["--appendonly", "no"]].concat();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &arguments);
    assert!(subject.serves(), "{}", subject.log());
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    assert!(subject.ask(&["BGSAVE"]).is_some());
    eventually("the snapshot waits for its name", || subject.injector.met() > 0);
    assert!(subject.ask(&["BACKUP", "START"]).as_ref().is_some_and(is_ok));
    failpoint(&subject, &["PANIC-IN-LOG", "1"]);
    // Has the writer of the log do something.
    subject.ask(&["CONFIG", "SET", "appendfsync", "no"]);
    eventually("the log has panicked", || subject.info("panics").as_deref() == Some("1"));
    subject.injector.disarm();
    let is_failed = |reply: &Value| {
        let Value::Array(fields) = reply else { return false };
        fields.get(1) == Some(&Value::Bulk(b"failed".into()))
    };
    assert!(subject.ask_until(&["BACKUP", "STATUS"], is_failed), "{}", subject.log());
    await_rewrites(&mut subject);
    assert!(!subject.log().contains("append only file rewriting started"), "{}", subject.log());
    assert!(subject.ask(&["BACKUP", "START"]).as_ref().is_some_and(is_ok));
    subject.kill();
}
