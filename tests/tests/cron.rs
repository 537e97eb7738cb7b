//! The slow clock waits for nothing: whatever call of the disk takes for ever that a rewrite, a
//! save or a backup begins with, which nobody has just asked for, the main thread goes on.

use proto::value::Value;
use tests::Client;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::{Fault, Injector};
use tests::server::eventually;

/// What asks the disk for something. Files are opened by that thread, too, to read what the system
/// tells of the process.
const ROWS: [&str; 5] =
    ["make a directory", "look at a file", "name a file", "sync a file", "remove a file"];

/// What has the slow clock begin something.
struct Occasion {
    what: &'static str,
    options: &'static [&'static str],
    /// What is sent before the disk stands still, and behind that.
    before: &'static [&'static [&'static str]],
    behind: &'static [&'static [&'static str]],
}

const OCCASIONS: [Occasion; 4] = [
    Occasion {
        what: "the log has grown",
        options: &[
            "--save",
            "",
            "--auto-aof-rewrite-percentage",
            "1",
            "--auto-aof-rewrite-min-size",
            "9000",
        ],
        before: &[],
        behind: &[],
    },
    Occasion {
        what: "a rewrite is scheduled",
        options: &["--save", ""],
        before: &[],
        behind: &[&["MULTI"], &["BGREWRITEAOF"], &["EXEC"]],
    },
    Occasion { what: "a save is due", options: &["--save", "1 1"], before: &[], behind: &[] },
    Occasion {
        what: "a backup waits for its turn",
        options: &["--save", "", "--rdb-key-save-delay", "10000000"],
        before: &[&["BGSAVE"], &["BACKUP", "START"]],
        behind: &[&["BGSAVE", "CANCEL"]],
    },
];

#[test]
fn what_is_due_by_itself_keeps_nobody_waiting_for_the_disk() {
    for Occasion { what, options, before, behind } in OCCASIONS {
        let mut held = 0;
        for row in ROWS {
            eprintln!("{what}: {row}");
            held += stand_still(what, row_of(row), options, before, behind);
        }
        assert!(held > 0, "{what}: the disk was asked for nothing");
    }
}

/// Has the disk stand still, and what is due begin; how many calls were held.
fn stand_still(
    what: &str,
    row: usize,
    options: &[&str],
    before: &[&[&str]],
    behind: &[&[&str]],
) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let usual = ["--appendonly", "yes", "--appendfsync", "no"];
    let arguments = [&usual[..], options].concat();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &arguments);
    assert!(subject.serves(), "{}", subject.log());
    let mut client = Client::connect(subject.port());
    client.call(&["SET", "key", "value"]);
    before.iter().for_each(|words| drop(client.call(words)));
    let begun = subject.log().len();
    subject.injector.arm(row, Fault::Held, 0, u64::MAX);
    behind.iter().for_each(|words| drop(client.call(words)));
    client.call(&["SET", "key", &"v".repeat(10_000)]);
    // What asks the disk for nothing of this kind comes to its end.
    eventually(what, || {
        let log = subject.log();
        let has_ended = |words| log[begun..].contains(words);
        subject.injector.met() > 0
            || has_ended("DB saved on disk")
            || has_ended("rewrite finished successfully")
    });
    // Connections are accepted by the thread that the slow clock is on.
    let mut other = Client::connect(subject.port());
    assert_eq!(other.call(&["PING"]), Value::Simple("PONG".into()));
    let held = subject.injector.disarm();
    subject.kill();
    held
}
