//! What sorted set commands leave in the journal, and which events there are.

use crate::testing::Session;

/// Requests with the journal and the events each of them leaves.
#[track_caller]
fn check_effects(session: &mut Session, table: &[(&str, &str)]) {
    for (request, expected) in table {
        session.call(request);
        let effects = format!("{} / {}", session.journal().join("; "), session.events().join(", "));
        assert_eq!(effects.trim(), *expected, "{request}");
    }
}

#[test]
fn effects_are_told() {
    let mut session = Session::new();
    check_effects(
        &mut session,
        &[
            ("ZADD z 1 a 2 b", "ZADD z 1 a 2 b / new z, zadd z"),
            ("ZADD z 1 a", "/"),
            ("ZADD z XX 5 none", "/"),
            ("ZADD z 3 b", "ZADD z 3 b / zadd z"),
            ("ZADD z INCR 1 b", "ZADD z INCR 1 b / zincr z"),
            ("ZADD z INCR 0 b", "/"),
            ("ZINCRBY z 1 c", "ZINCRBY z 1 c / zincr z"),
            ("ZREM z x", "/"),
            ("ZREM z c", "ZREM z c / zrem z"),
            ("ZREMRANGEBYSCORE z 9 9", "/"),
            ("ZREMRANGEBYSCORE z 4 4", "ZREMRANGEBYSCORE z 4 4 / zremrangebyscore z"),
            ("ZREMRANGEBYRANK z 0 0", "ZREMRANGEBYRANK z 0 0 / zremrangebyrank z, del z"),
            ("ZADD z 0 a 0 b 0 c 0 d 0 e", "ZADD z 0 a 0 b 0 c 0 d 0 e / new z, zadd z"),
            ("ZREMRANGEBYLEX z - [a", "ZREMRANGEBYLEX z - [a / zremrangebylex z"),
            ("ZPOPMIN z 0", "/"),
            ("ZPOPMAX z", "ZPOPMAX z / zpopmax z"),
            ("BZPOPMIN none z 0", "ZPOPMIN z / zpopmin z"),
            ("ZUNIONSTORE d 1 z", "ZUNIONSTORE d 1 z / new d, zunionstore d"),
            ("ZINTERSTORE d 1 z", "ZINTERSTORE d 1 z / overwritten d, zinterstore d"),
            ("ZRANGESTORE d z 0 -1", "ZRANGESTORE d z 0 -1 / overwritten d, zrangestore d"),
            ("ZDIFFSTORE d 2 z z", "ZDIFFSTORE d 2 z z / del d"),
            ("ZDIFFSTORE d 2 z z", "/"),
            ("SET d x", "SET d x / new d, set d"),
            ("ZDIFFSTORE d 1 z", "ZDIFFSTORE d 1 z / overwritten d, type_changed d, zdiffstore d"),
            ("BZMPOP 0 1 z MAX COUNT 9", "ZPOPMAX z 2 / zpopmax z, del z"),
            ("ZMPOP 1 z MIN", "/"),
        ],
    );
}

/// Valkey reads no hexadecimal digits. What only looks like a number stays as it is.
#[test]
fn the_journal_has_numbers_in_decimal_digits() {
    let mut session = Session::new();
    session.call("ZADD z 1 0x1");
    session.call("GEOADD g 5 5 0x5 5.5 5.5 n");
    for (request, expected) in [
        ("ZADD z 0x10 0x10 -0X1.8p1 b 3 c", "ZADD z 16 0x10 -3 b 3 c"),
        ("zadd z GT CH INCR +0x1 0x1", "zadd z GT CH INCR 1 0x1"),
        ("ZADD z 7 0x10 1e2 d", "ZADD z 7 0x10 1e2 d"),
        ("ZADD z 0x1p-1074 0x0", "ZADD z 4.9406564584124654e-324 0x0"),
        ("ZINCRBY z 0x.8 0x1", "ZINCRBY z 0.5 0x1"),
        ("ZADD 0x2 1 m", "ZADD 0x2 1 m"),
        (
            "ZUNIONSTORE 0x3 2 z 0x2 WEIGHTS 0x2 inf AGGREGATE max",
            "ZUNIONSTORE 0x3 2 z 0x2 WEIGHTS 2 inf AGGREGATE max",
        ),
        ("ZINTERSTORE w 1 0x2 WEIGHTS 0x2", "ZINTERSTORE w 1 0x2 WEIGHTS 2"),
        ("GEOADD g 0x2 0x3 0x4", "ZADD g 3378964761752270 0x4"),
        (
            "GEOSEARCHSTORE w g FROMLONLAT 0x5 0X5 BYBOX 0x200 500 km",
            "GEOSEARCHSTORE w g FROMLONLAT 5 5 BYBOX 512 500 km",
        ),
        (
            "GEOSEARCHSTORE 0x6 g frommember 0x5 BYRADIUS 0x200 km",
            "GEOSEARCHSTORE 0x6 g frommember 0x5 BYRADIUS 512 km",
        ),
        ("GEORADIUS g 0x5 5 0x200 km STORE 0x7", "GEORADIUS g 5 5 512 km STORE 0x7"),
        (
            "GEORADIUSBYMEMBER g 0x5 0x200 km STOREDIST 0x8",
            "GEORADIUSBYMEMBER g 0x5 512 km STOREDIST 0x8",
        ),
    ] {
        session.call(request);
        assert_eq!(session.journal().join("; "), expected, "{request}");
    }
}
