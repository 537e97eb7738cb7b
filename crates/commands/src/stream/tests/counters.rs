//! Counters at their greatest: what comes of them has records that other servers take.

use crate::testing::Session;

/// The greatest number that a command can say.
const GREATEST: i64 = i64::MAX;

/// Runs each line, and what the journal got for it elsewhere: nothing of that is refused there, and
/// both have the same stream in the end.
#[track_caller]
fn records_are_taken(script: &[&str]) {
    let (mut session, mut replica) = (Session::new(), Session::new());
    for line in script {
        let reply = session.call(&line.replace("MOST", &GREATEST.to_string()));
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        for record in session.journal() {
            let reply = replica.call(record);
            assert!(!reply.starts_with('-'), "{record}: {reply}");
        }
    }
    let request = "XINFO STREAM s FULL";
    assert_eq!(replica.call(request), session.call(request), "{script:?}");
}

#[test]
fn deliveries_beyond_the_greatest_are_told() {
    let delivered =
        ["XADD s 1-1 a b", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"].as_slice();
    let claimed = [delivered, &["XCLAIM s g c 0 1-1 RETRYCOUNT MOST"]].concat();
    let fatal = [delivered, &["XNACK s g FATAL IDS 1 1-1"]].concat();
    for begun in [&claimed, &fatal] {
        for last in [
            "XCLAIM s g d 0 1-1",
            "XAUTOCLAIM s g d 0 0",
            "XREADGROUP GROUP g d CLAIM 0 STREAMS s >",
        ] {
            records_are_taken(&[begun, [last].as_slice(), &[last]].concat());
        }
    }
}

#[test]
fn entries_beyond_the_greatest_are_told() {
    let begun = ["XADD s 1-1 a b", "XSETID s 5-5 ENTRIESADDED MOST MAXDELETEDID 0-0"].as_slice();
    let reads = ["XREADGROUP GROUP g c STREAMS s >", "XREADGROUP GROUP g c NOACK STREAMS s >"];
    for read in reads {
        for create in ["XGROUP CREATE s g 0", "XGROUP CREATE s g $ ENTRIESREAD MOST"] {
            let rest = ["XADD s 6-1 a b", create, "XADD s 6-2 a b", read, "XADD s 6-3 a b", read];
            records_are_taken(&[begun, &rest].concat());
        }
    }
    let trimmed = ["XADD s 6-1 a b", "XADD s 6-2 a b", "XTRIM s ACKED MAXLEN 1"];
    records_are_taken(&[begun, &trimmed].concat());
}
