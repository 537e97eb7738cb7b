//! A replica's append-only file: it has the stream as it came, and each of its files is loaded in
//! the database that the primary had selected.

use super::faults::FAILING;
use super::{Rig, ask, encoded, values};
use crate::aof::{begin_rewrite, flush};
use crate::testing::{await_end, end, new_disk, start};

#[test]
fn an_increment_that_begins_within_a_stream_begins_in_its_database() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
    rig.push_in(2, &encoded(&["SET a 1", "PING", "REPLCONF GETACK *", "PUBLISH c m"]));
    rig.settle().unwrap();
    begin_rewrite(rig.server);
    await_end("a rewrite", || !rig.server.aof.rewrite.status(0).is_underway);
    rig.push_in(2, &encoded(&["SET b 1", "MULTI", "SET c 1", "SELECT 1", "SET d 1", "EXEC"]));
    rig.push_in(1, &encoded(&["SET e 1"]));
    rig.settle().unwrap();
    assert!(flush(rig.server));
    let first = rig.server;
    drop(rig);
    end(first);
    let again = start(&disk).unwrap();
    for (database, keys, count) in [(2, "a b c", 3), (1, "d e", 2), (0, "a b c d e", 0)] {
        assert_eq!(ask(again, database, &format!("EXISTS {keys}")), format!(":{count}\r\n"));
    }
    end(again);
}

/// A log with a command that fails would stop the next start.
#[test]
fn a_log_has_nothing_of_a_stream_that_failed() {
    for (lines, _, expected) in FAILING {
        let disk = new_disk();
        let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
        rig.push(&[&["SET a 1", "SET other 1"], *lines, &["INCR other", "PING"]].concat());
        rig.settle().unwrap();
        assert!(flush(rig.server));
        let first = rig.server;
        drop(rig);
        end(first);
        let again = start(&disk).unwrap_or_else(|why| panic!("{lines:?}: {why}"));
        assert_eq!(values(again, "a b other"), format!("{expected} 2"), "{lines:?}");
        end(again);
    }
}
