//! What clients of a writable replica write beside its primary's stream: the log has it, and no
//! replica below.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::journal::StreamHistory;
use engine::testing::run_beside;
use replication::ids::ReplicationId;

use super::{Rig, ask, encoded, values, words};
use crate::aof::flush;
use crate::testing::{HERE, durability_on, end, new_disk, start, start_log};

#[test]
fn a_log_keeps_what_clients_write_and_the_stream_does_not() {
    let disk = new_disk();
    let mut rig = Rig::on(start(&disk).unwrap(), 2, 1000);
    let shift = 1000 - i64::try_from(rig.server.journal.end()).unwrap();
    let id = ReplicationId::from_random([7; 20]);
    rig.server.journal.set_history(Some(StreamHistory { id, shift, second: None }));
    assert_eq!(rig.ask(0, "SET lost 1"), "+OK\r\n");
    assert!(rig.server.journal.set_takes_local(true));
    let mut stream = encoded(&["SET a 1", "SELECT 3"]);
    rig.push_in(0, &stream);
    rig.settle().unwrap();
    for (database, line) in [(0, "SET b 2"), (3, "SET c 3"), (5, "INCR d"), (0, "APPEND a x")] {
        assert!(!rig.ask(database, line).starts_with('-'), "{line}");
    }
    let more = encoded(&["SET e 5", "MULTI", "SET f 6", "SELECT 0", "APPEND a y", "EXEC"]);
    rig.push_in(3, &more);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "APPEND a z"), ":4\r\n");
    assert!(flush(rig.server));
    stream.extend(more);
    assert_eq!(rig.journal.bytes(), stream, "nothing of it is passed on");
    let (first, behind) = (rig.server, rig.end);
    drop(rig);
    end(first);
    let again = durability_on(Box::new(disk.clone()));
    let history = start_log(again, HERE).unwrap().expect("it stands in the history");
    assert_eq!((history.offset, history.database), (behind, 0));
    assert_eq!(values(again, "a b lost"), "1xyz 2 -");
    let others = [(3, "EXISTS c e f", 3), (5, "GET d", 1)];
    assert_eq!(ask(again, others[0].0, others[0].1), ":3\r\n");
    assert_eq!(ask(again, others[1].0, others[1].1), "$1\r\n1\r\n");
    end(again);
}

/// Where both write one key, the log has their writes in the order in which they ran.
#[test]
fn a_log_has_both_writers_in_their_order() {
    const KEYS: &str = "k0 k1 k2 k3 k4 k5 k6 k7";
    for round in 0..4 {
        let disk = new_disk();
        let mut rig = Rig::on(start(&disk).unwrap(), 2, 0);
        rig.server.journal.set_takes_local(true);
        let (server, is_over) = (rig.server, AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    run_beside(server, &words(&format!("APPEND k{} c", number % 8)));
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for _ in 0..40 {
                let lines: Vec<_> =
                    (0..100).map(|number| format!("APPEND k{} s", (number * 5) % 8)).collect();
                rig.push(&lines.iter().map(String::as_str).collect::<Vec<_>>());
            }
            rig.settle().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(flush(server));
        let expected = values(server, KEYS);
        assert!(expected.contains('s') && expected.contains('c'), "both write: {expected}");
        drop(rig);
        end(server);
        let again = start(&disk).unwrap();
        assert_eq!(values(again, KEYS), expected, "round {round}");
        end(again);
    }
}
