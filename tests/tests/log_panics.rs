//! A bug in the thread that writes the log: between any two things that it does it panics, while
//! clients write under `always`, the log is rewritten, turned off and on, moved or backed up. Each
//! command is answered, with an error where nobody knows; the log goes on with a new base by
//! itself; INFO and the log tell of it; what was acknowledged is there after a kill.

use proto::value::Value;
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

fn drill(subject: &Subject, words: &[&str]) -> i64 {
    let words = [&["DEBUG", "DRILL"], words].concat();
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
    drill(&subject, &["PANIC-IN-LOG", &place.to_string()]);
    write_while(&mut subject, &ledger, STEPS, |subject| {
        for words in lines {
            subject.ask(words).unwrap_or_else(|| panic!("{words:?} is answered"));
            await_rewrites(subject);
        }
    });
    let is_met = drill(&subject, &[]) == 0;
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

/// Until there is a new base, whoever wrote is told that nobody knows, whoever would write is
/// refused, and INFO says why.
#[test]
fn meanwhile_clients_and_info_are_told_of_a_log_that_panicked() {
    let (folder, row) = (folder(), row_of("name a file"));
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &ARGUMENTS);
    assert!(subject.serves(), "{}", subject.log());
    await_log(&mut subject);
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    drill(&subject, &["PANIC-IN-LOG", "1"]);
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
