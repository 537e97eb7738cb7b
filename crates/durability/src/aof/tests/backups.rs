//! Backups on a disk that fails, tears and forgets: what is sealed is whole, and is left alone.

use std::path::PathBuf;

use persist::storage::read_whole;
use persist::storage::simulated::{Fault, SimulatedDisk};

use super::{FAULTS, await_end, end, for_each, has, new_disk, start, write};
use crate::aof::find_foreign;
use crate::backup::BackupStage;
use crate::durability::Durability;
use crate::testing::durability_on;

/// Writes before START, as many between it and SEAL, and as many after that.
const EACH: usize = 3;

/// A server with a log or without one.
fn server_on(disk: &SimulatedDisk, is_logged: bool) -> &'static Durability {
    match is_logged {
        true => start(disk).expect("the disk is sound"),
        false => durability_on(Box::new(disk.clone())),
    }
}

fn stage(server: &Durability) -> BackupStage {
    server.backup.status().stage
}

/// Waits until a backup has its base, or has failed.
fn await_base(server: &'static Durability) {
    await_end("a backup's base", || {
        server.backup.tick(server);
        !matches!(stage(server), BackupStage::Pending | BackupStage::Snapshotting)
    });
}

/// A backup that was sealed.
struct Sealed {
    manifest: PathBuf,
    /// The writes that it holds.
    written: Vec<usize>,
    /// The first write after it.
    end: usize,
}

/// Takes a server through a backup, with keys from this number on.
fn back_up(server: &'static Durability, first: usize) -> Option<Sealed> {
    let write_each = |from: usize| (from..from + EACH).filter(|number| write(server, *number));
    let mut written: Vec<_> = write_each(first).collect();
    server.backup.start(server).ok()?;
    await_base(server);
    written.extend(write_each(first + EACH));
    server.backup.seal(server).ok()?;
    let files = server.backup.status().files;
    assert_eq!(files.len(), 3, "{files:?}");
    // These are not to be found in it.
    let end = first + 2 * EACH;
    write_each(end).for_each(drop);
    Some(Sealed { manifest: files[2].clone(), written, end })
}

/// Starts from a backup and looks for what it must hold, and for what it cannot.
fn check_sealed(disk: &SimulatedDisk, sealed: &Sealed, what: &str) {
    let server = durability_on(Box::new(disk.clone()));
    let stock =
        find_foreign(server, &sealed.manifest).unwrap_or_else(|why| panic!("{what}: {why}"));
    stock.read(server).unwrap_or_else(|why| panic!("{what}: {why}"));
    for number in &sealed.written {
        assert!(has(server, *number), "{what}: {number} is missing");
    }
    let mut later = sealed.end..sealed.end + EACH;
    assert!(!later.any(|number| has(server, number)), "{what}: it is newer");
    end(server);
}

#[test]
fn a_sealed_backup_is_whole_whatever_the_disk_did_and_a_failed_one_is_followed_by_a_whole_one() {
    for is_logged in [true, false] {
        let disk = new_disk();
        let server = server_on(&disk, is_logged);
        let first = disk.calls();
        assert_eq!(back_up(server, 0).expect("the disk is sound").written.len(), 2 * EACH);
        let calls = 0..disk.calls() - first;
        end(server);
        assert!(calls.end > 10, "{calls:?} are few");
        let all: Vec<_> = calls.flat_map(|call| FAULTS.map(|fault| (call, fault))).collect();
        for_each(&all, |&(call, fault)| {
            let what = format!("with a log: {is_logged}, {fault:?} at call {call}");
            let disk = new_disk();
            let server = server_on(&disk, is_logged);
            disk.fail_at(disk.calls() + call, fault);
            let sealed = back_up(server, 0).unwrap_or_else(|| {
                assert!(matches!(stage(server), BackupStage::Failed | BackupStage::Idle), "{what}");
                disk.heal();
                await_end(&what, || !server.journal.has_failed());
                back_up(server, 3 * EACH).unwrap_or_else(|| {
                    panic!("{what}: the next one fails too: {:?}", server.backup.status())
                })
            });
            disk.fail_from(disk.calls(), Fault::Error(libc::EIO));
            disk.crash(call);
            end(server);
            disk.heal();
            check_sealed(&disk, &sealed, &what);
        });
    }
}

#[test]
fn what_is_sealed_never_changes_and_cleanup_leaves_nothing() {
    for is_logged in [true, false] {
        let disk = new_disk();
        let server = server_on(&disk, is_logged);
        assert!(write(server, 0));
        server.backup.start(server).unwrap();
        await_base(server);
        server.backup.seal(server).unwrap();
        let files = server.backup.status().files;
        let read = || files.iter().map(|file| read_whole(&disk, file).unwrap()).collect::<Vec<_>>();
        let before = read();
        assert!((1..4).all(|number| write(server, number)));
        crate::aof::flush(server);
        assert_eq!(read(), before, "with a log: {is_logged}");
        server.backup.clean_up(server).unwrap();
        assert!(files.iter().all(|file| read_whole(&disk, file).is_err()));
        assert_eq!(stage(server), BackupStage::Idle);
        end(server);
    }
}
