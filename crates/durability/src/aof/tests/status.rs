//! What is told to be done: a crash cannot undo it any more.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use persist::storage::simulated::Fault;

use super::{
    TRACES, Trace, WRITES, append, await_end, calls_of, check_after_crash, end, for_each, has,
    new_disk, run, start, write,
};
use crate::aof::{AofState, switch_off, switch_on};
use crate::durability::Durability;
use crate::save::SaveMode;

/// How often a log is turned off and on again.
const TURNS: u64 = 20;

/// Whether INFO says that the log is on, and that no rewrite is under way nor to come.
fn is_told_to_be_on(server: &Durability) -> bool {
    let (phase, told) = server.aof.status(0);
    phase != AofState::Off && !told.is_underway && !told.is_scheduled
}

/// Replies of which many do not wait for the disk, as the log is not on yet.
#[test]
fn a_log_is_told_to_be_on_when_all_that_was_told_before_is_safe() {
    for turn in 0..TURNS {
        let disk = new_disk();
        let server = start(&disk).unwrap();
        server.config.set_many(&[b"appendfsync", b"always"], true).unwrap();
        assert!(write(server, 0));
        switch_off(server);
        // From here on the disk takes its time.
        disk.fail_from(disk.calls(), Fault::Delay);
        let (told, is_over) = (AtomicUsize::new(1), AtomicBool::new(false));
        let acknowledged = thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1.. {
                    let lsn = append(server, number).expect("nothing failed");
                    while !server.journal.is_durable(lsn) {
                        if is_over.load(Ordering::Acquire) {
                            return;
                        }
                        thread::yield_now();
                    }
                    told.store(number + 1, Ordering::Release);
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                }
            });
            await_end("a writer", || told.load(Ordering::Acquire) > 1);
            switch_on(server).unwrap();
            await_end("a switch", || is_told_to_be_on(server));
            let acknowledged: Vec<usize> = (0..told.load(Ordering::Acquire)).collect();
            disk.fail_from(disk.calls(), Fault::Error(libc::EIO));
            is_over.store(true, Ordering::Release);
            acknowledged
        });
        check_after_crash((server, &disk), turn, &acknowledged, &format!("turn {turn}"));
    }
}

/// As while data are loaded, when no rewrite may begin.
#[test]
fn a_log_that_waits_for_its_first_rewrite_says_so() {
    let disk = new_disk();
    let server = start(&disk).unwrap();
    switch_off(server);
    server.gates.loading.begin(server.keyspace.clock(), 0);
    switch_on(server).unwrap();
    let (phase, told) = server.aof.status(0);
    assert!(phase == AofState::Starting && told.is_scheduled);
    server.gates.loading.end();
    await_end("a switch", || is_told_to_be_on(server));
    assert!(server.aof.is_on());
    end(server);
}

/// A bug of the thread that writes: no client waits for ever, and the log begins anew.
#[test]
fn after_a_panic_of_the_thread_that_writes_the_log_begins_anew() {
    let first = {
        let disk = new_disk();
        let server = start(&disk).unwrap();
        let first = disk.calls();
        run(server);
        let calls = disk.calls() - first;
        end(server);
        calls
    };
    let calls: Vec<u64> = (0..first).collect();
    super::for_each(&calls, |&call| {
        let disk = new_disk();
        let server = start(&disk).unwrap();
        disk.fail_at(disk.calls() + call, Fault::Panic);
        let what = format!("a panic at call {call}");
        let mut acknowledged = run(server);
        let resumes = || {
            await_end(&what, || !server.journal.has_failed());
            write(server, WRITES)
        };
        assert!(resumes() || resumes(), "{what}: writes resume");
        acknowledged.push(WRITES);
        await_end(&what, || is_told_to_be_on(server));
        check_after_crash((server, &disk), call, &acknowledged, &what);
    });
}

/// `appendonly.aof` beside a log whose base has that name is none of it: such a file was taken over
/// once.
#[test]
fn a_file_of_the_old_name_beside_a_log_that_was_taken_over_is_left_alone() {
    let disk = new_disk();
    let here = std::env::current_dir().unwrap();
    let command = |number: usize| {
        format!("*3\r\n$3\r\nSET\r\n$5\r\nkey:{number}\r\n$1\r\n1\r\n").into_bytes()
    };
    disk.put(&here.join("appendonly.aof"), &command(1));
    disk.put(&here.join("appendonlydir/appendonly.aof"), &command(2));
    let manifest = b"file appendonly.aof seq 1 type b\n";
    disk.put(&here.join("appendonlydir/appendonly.aof.manifest"), manifest);
    let server = start(&disk).unwrap();
    assert!(has(server, 2) && !has(server, 1));
    end(server);
}

/// Saves a snapshot.
fn save(server: &'static Durability) -> Vec<usize> {
    let begun = server.saves.begin(server, SaveMode::Background, None);
    await_end("a save", || begun.is_err() || !server.saves.is_running());
    Vec::new()
}

/// Whichever call is the first that finds no space, the operator learns what file it was for, and
/// clients do not.
#[test]
fn each_line_about_a_full_disk_names_a_file() {
    let here = std::env::current_dir().unwrap();
    let lines_seen = AtomicUsize::new(0);
    for (name, trace) in TRACES.into_iter().chain([("a save", save as Trace)]) {
        let calls = match name {
            "a save" => 12,
            _ => calls_of(name, trace),
        };
        for_each(&(0..calls).collect::<Vec<_>>(), |&call| {
            let disk = new_disk();
            let server = start(&disk).unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            server.config.put(b"logfile", file.path().as_os_str().as_bytes());
            server.log.change(server.log.prepare(&server.config).unwrap());
            disk.fail_from(disk.calls() + call, Fault::Error(libc::ENOSPC));
            trace(server);
            let refusal = server.journal.has_failed().then(|| server.journal.unknown_outcome());
            disk.heal();
            end(server);
            let log = std::fs::read_to_string(file.path()).unwrap();
            for line in log.lines().filter(|line| line.contains("No space left")) {
                let is_named = line.contains(here.to_str().unwrap());
                assert!(is_named, "{name}, call {call}: {line}");
                lines_seen.fetch_add(1, Ordering::Relaxed);
            }
            let said = refusal.as_ref().and_then(|refusal| refusal.line());
            let said = String::from_utf8_lossy(said.unwrap_or_default()).into_owned();
            assert!(!said.contains('/'), "{name}, call {call}: {said}");
        });
    }
    assert!(lines_seen.into_inner() > 100, "most calls that fail are told of");
}
