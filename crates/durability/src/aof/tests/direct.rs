//! What of the log goes to the disk past the memory of the system, and when it does not.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use persist::storage::read_whole;
use persist::storage::simulated::HaltGuard;

use super::ends::end_of_batches;
use super::{LONG, WRITES, append_value, await_end, end, flush, has, new_disk, start};
use super::{sync_now_and_then, write};
use crate::aof::aligned_buffer::BLOCK;
use crate::aof::increment::OVER_PADDING;

#[test]
fn what_is_long_goes_past_the_memory_of_the_system_unless_that_is_unwanted_or_refused() {
    let path = std::env::current_dir().unwrap().join("appendonlydir/appendonly.aof.1.incr.aof");
    for (wanted, refuses) in [(&b"yes"[..], false), (b"no", false), (b"yes", true)] {
        let disk = new_disk();
        if refuses {
            disk.refuse_direct();
        }
        let server = start(&disk).unwrap();
        server.config.set_many(&[b"aof-direct-writes", wanted], true).unwrap();
        assert_eq!(sync_now_and_then(server, &LONG).len(), WRITES);
        end(server);
        let bytes = read_whole(&disk, &path).unwrap();
        let is_begun = |five: &&[u8]| matches!(*five, b".\r\n#S" | b".\r\n#C");
        let behind_filler = bytes.windows(5).filter(is_begun).count();
        // Three at least are synced. Before padding, and before it is refused, there is some, too.
        let is_direct = wanted == b"yes" && !refuses;
        assert_eq!(behind_filler > 2, is_direct, "{behind_filler} batches");
        let server = start(&disk).unwrap();
        assert!((0..WRITES).all(|number| has(server, number)));
        end(server);
    }
}

#[test]
fn a_slow_disk_is_given_what_is_long_through_the_memory_of_the_system() {
    let path = std::env::current_dir().unwrap().join("appendonlydir/appendonly.aof.1.incr.aof");
    let disk = new_disk();
    let server = start(&disk).unwrap();
    server.config.set_many(&[b"appendfsync", b"everysec"], true).unwrap();
    server.aof.policy_changed(server);
    let write = |halt: Option<HaltGuard>| {
        append_value(server, 0, &LONG).unwrap();
        if halt.is_some() {
            // Longer than the disk may take.
            thread::sleep(Duration::from_millis(60));
        }
        drop(halt);
        await_end("a write", || server.aof.queued() == 0);
        let length = read_whole(&disk, &path).unwrap().len();
        length.is_multiple_of(BLOCK)
    };
    assert!(write(None), "in whole blocks");
    // A sync in between would end it.
    let is_copied = |_| write(Some(disk.halt())) && !write(None);
    assert!((0..20).any(is_copied), "after a slow write comes one that is copied");
    let is_whole_again = |_| {
        flush(server);
        write(None)
    };
    assert!((0..20).any(is_whole_again), "and behind a sync whole blocks again");
    end(server);
}

#[test]
fn padding_is_there_before_a_batch_needs_it() {
    let path = std::env::current_dir().unwrap().join("appendonlydir/appendonly.aof.1.incr.aof");
    let disk = new_disk();
    let server = start(&disk).unwrap();
    let lengths = RefCell::new(BTreeSet::new());
    for _ in 0..40 {
        assert!(write(server, 1));
        await_end("more padding", || {
            let bytes = read_whole(&disk, &path).unwrap();
            lengths.borrow_mut().insert(bytes.len());
            // Nothing is written over the last block.
            bytes.len() - end_of_batches(&bytes) >= OVER_PADDING + BLOCK
        });
    }
    assert!(lengths.borrow().len() > 3, "it was added to");
    end(server);
}
