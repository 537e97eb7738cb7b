//! Sessions of members with a time to live.

use super::{members_of, told};
use crate::testing::{START, Session};

#[test]
fn members_with_a_time_to_live() {
    let mut session = Session::new();
    assert_eq!(session.call("SADDEX s 10 a b"), ":2");
    let at = START + 10_000;
    let timed = |member: &str| format!("PEXPIREMEMBERAT s {member} {at}");
    let journal = ["SADD s a b".to_owned(), timed("a"), timed("b")];
    assert_eq!(session.journal(), journal);
    assert_eq!(session.events(), ["new s", "sadd s"]);
    session.advance(4000);
    session.check(
        "FIELDTTL s a
         SADD s a c
         FIELDTTL s a
         FIELDTTL s c
         SADDEX s KEEPTTL 100 a d
         FIELDTTL s a
         FIELDTTL s d
         SADDEX s 100 b
         FIELDTTL s b
         SADDEX s keepttl 1 a b",
        ":6\n:1\n:6\n:-1\n:1\n:6\n:100\n:0\n:100\n:0",
    );
    told(&session, &[], &[]);
    session.check(
        "SADDEX s 0 x
         SADDEX s -1 x
         SADDEX s x x
         SADDEX s 9223372036854775807 x
         SADDEX s KEEPTTL 10
         SADDEX s 10",
        "-ERR invalid expire time in 'saddex' command
         -ERR invalid expire time in 'saddex' command
         -ERR value is not an integer or out of range
         -ERR invalid expire time in 'saddex' command
         -ERR wrong number of arguments for 'saddex' command
         -ERR wrong number of arguments for 'saddex' command",
    );
    session.advance(6000);
    assert_eq!(members_of(&mut session, "SMEMBERS s"), ["b", "c", "d"]);
}

/// What every command makes of `a`, which has expired and is still there, and `b`, which has not.
#[test]
fn a_member_that_has_expired_is_absent() {
    let mut session = Session::new();
    for (requests, replies) in [
        ("SCARD s\nSISMEMBER s a\nSISMEMBER s b\nSMISMEMBER s a b", ":1\n:0\n:1\n[:0 :1]"),
        ("SMEMBERS s\nSRANDMEMBER s\nSRANDMEMBER s 5", "[\"b\"]\n\"b\"\n[\"b\"]"),
        ("SRANDMEMBER s -3\nSSCAN s 0", "[\"b\" \"b\" \"b\"]\n[\"0\" [\"b\"]]"),
        ("SINTER s t\nSUNION s\nSDIFF t s", "[]\n[\"b\"]\n[\"a\"]"),
        ("SINTERCARD 2 s t\nSUNIONCARD 1 s\nSDIFFCARD 2 t s", ":0\n:1\n:1"),
        ("SUNIONCARD 1 s APPROX\nFIELDTTL s a\nFIELDTTL s b", ":1\n:-3\n:-1"),
        ("SADD s a\nFIELDTTL s a\nSCARD s", ":1\n:-1\n:2"),
        ("SADDEX s KEEPTTL 100 a\nFIELDTTL s a", ":1\n:100"),
        ("SREM s a\nSCARD s", ":0\n:1"),
        ("SPOP s\nSPOP s\nEXISTS s", "\"b\"\nnil\n:0"),
        ("SPOP s 5\nEXISTS s", "[\"b\"]\n:0"),
        ("SMOVE s d a\nSMOVE s d b\nEXISTS s", ":0\n:1\n:0"),
        ("SMOVE t s a\nFIELDTTL s a\nSCARD s", ":1\n:-1\n:2"),
        ("SINTERSTORE d s t\nSUNIONSTORE d s\nSDIFFSTORE d t s", ":0\n:1\n:1"),
    ] {
        session.call("FLUSHALL");
        session.call("SADD t a");
        session.call("SADD s b");
        session.call("SADDEX s 1 a");
        session.advance(1000);
        session.check(requests, replies);
    }
}

#[test]
fn the_next_change_removes_who_has_expired() {
    let mut session = Session::new();
    session.call("SADD s b");
    session.call("SADDEX s 1 a");
    session.advance(1000);
    assert_eq!(session.call("SCARD s"), ":1");
    told(&session, &[], &[]);
    assert_eq!(session.call("SADD s c"), ":1");
    assert_eq!(session.journal(), ["SREM s a", "SADD s c"]);
    session.call("SADDEX t 1 x");
    session.advance(1000);
    assert_eq!(session.call("SREM t y"), ":0");
    assert_eq!(session.journal(), ["SREM t x"]);
    assert_eq!(session.call("EXISTS t"), ":0");
    session.call("SADDEX u 1 x");
    session.advance(1000);
    assert_eq!(session.call("SUNIONSTORE d u s"), ":2");
    assert_eq!(session.journal(), ["SREM u x", "SUNIONSTORE d u s"]);
}

#[test]
fn a_member_takes_its_time_to_live_along() {
    let mut session = Session::new();
    session.call("SADDEX s 100 a b");
    session.call("SADD d b");
    session.check(
        "SMOVE s d a
         SMOVE s d b
         FIELDTTL d a
         FIELDTTL d b
         SUNIONSTORE e d none
         FIELDTTL e a",
        ":1\n:1\n:100\n:-1\n:2\n:-1",
    );
}
