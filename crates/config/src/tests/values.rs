//! Tests of single values: what a directive takes, what it becomes, and what it refuses.

use super::super::{
    BindAddress, Config, LogLevel, OutputBufferLimit, QuotaLimit, QuotaRule, SavePoint, settings,
};
use super::{check, load};

#[test]
fn memory_values() {
    const NO: Result<&str, &str> = Err("argument must be a memory value");
    const BELOW: Result<&str, &str> = Err("argument must be greater or equal to 0");
    check(
        "maxmemory",
        &[
            ("1k", Ok("1000")),
            ("1kb", Ok("1024")),
            ("1K", Ok("1000")),
            ("1KB", Ok("1024")),
            ("1m", Ok("1000000")),
            ("1gb", Ok("1073741824")),
            ("1b", Ok("1")),
            ("", Ok("0")),
            ("00012", Ok("12")),
            ("9223372036854775807", Ok("9223372036854775807")),
            ("9223372036854775808", BELOW),
            ("18446744073709551616", BELOW),
            ("17179869184gb", BELOW),
            ("1 kb", NO),
            ("1t", NO),
            ("-1", NO),
            ("-5kb", NO),
            ("1.5mb", NO),
            ("+5", NO),
            (" 5", NO),
            ("5 ", NO),
            ("1kb1", NO),
            ("10%", Ok("10%")),
            ("100%", Ok("100%")),
            ("0%", Err("percentage argument must be between 1 and 100")),
            ("101%", Err("percentage argument must be between 1 and 100")),
            ("1.5%", NO),
            ("kb", NO),
        ],
    );
    check(
        "proto-max-bulk-len",
        &[
            ("1mb", Ok("1048576")),
            ("1", Err("argument must be between 1048576 and 9223372036854775807 inclusive")),
        ],
    );
    check(
        "maxmemory-clients",
        &[
            ("5%", Ok("5%")),
            ("1mb", Ok("1048576")),
            ("0%", Ok("0")),
            ("105%", Err("percentage argument must be less or equal to 100")),
            ("5.5%", Err("argument must be a memory or percent value")),
            ("abc", Err("argument must be a memory or percent value")),
        ],
    );
}

#[test]
fn integers_and_words() {
    const NO: Result<&str, &str> = Err("argument couldn't be parsed into an integer");
    check(
        "repl-backlog-ttl",
        &[
            ("", NO),
            ("1kb", NO),
            ("1.0", NO),
            (" 1", NO),
            ("1 ", NO),
            ("01", NO),
            ("+1", NO),
            ("9223372036854775808", NO),
            ("2147483648", Ok("2147483648")),
            ("-1", Err("argument must be between 0 and 9223372036854775807 inclusive")),
        ],
    );
    check("port", &[("70000", Err("argument must be between 0 and 65535 inclusive"))]);
    check(
        "maxclients",
        &[
            ("-5", Err("argument must be greater or equal to 0")),
            ("0", Err("argument must be between 1 and 4294967295 inclusive")),
        ],
    );
    check(
        "appendonly",
        &[("YES", Ok("yes")), ("No", Ok("no")), ("1", Err("argument must be 'yes' or 'no'"))],
    );
    check(
        "appendfsync",
        &[
            ("ALWAYS", Ok("always")),
            ("", Err("argument(s) must be one of the following: everysec, always, no")),
        ],
    );
    check("server-thread-affinity", &[("true", Ok("yes")), ("no", Ok("no"))]);
}

#[test]
fn special_values() {
    const SAVE: Result<&str, &str> = Err("Invalid save parameters");
    check(
        "save",
        &[
            ("", Ok("")),
            ("3600 1", Ok("3600 1")),
            ("1 1 1 1", Ok("1 1 1 1")),
            ("3600 0", Ok("3600 0")),
            ("3600 1 60", SAVE),
            ("a b", SAVE),
            ("0 1", SAVE),
            ("-1 5", SAVE),
            ("60  100", SAVE),
            (" 3600 1", SAVE),
        ],
    );
    const FLAGS: Result<&str, &str> = Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    check(
        "notify-keyspace-events",
        &[
            ("KEA", Ok("AKE")),
            ("g$lshzxetamdn", Ok("Am")),
            ("Kg$", Ok("g$K")),
            ("KEgx$", Ok("g$xKE")),
            ("KEAn", Ok("AKE")),
            ("KEAm", Ok("AKEm")),
            ("An", Ok("A")),
            ("Knmo", Ok("noKm")),
            ("", Ok("")),
            ("q", FLAGS),
            ("KEA ", FLAGS),
        ],
    );
    const PERCENTILES: &str = "Invalid latency-tracking-info-percentiles parameters";
    const OUTSIDE: &str =
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
    check(
        "latency-tracking-info-percentiles",
        &[
            ("", Ok("")),
            ("99.99 50", Ok("99.99 50")),
            ("99.9999999", Ok("100")),
            ("1e1", Ok("10")),
            ("0.000001", Ok("0.000001")),
            ("0", Ok("0")),
            ("101", Err(OUTSIDE)),
            ("-1", Err(OUTSIDE)),
            ("inf", Err(OUTSIDE)),
            ("nan", Err(PERCENTILES)),
            ("50  99", Err(PERCENTILES)),
            ("a", Err(PERCENTILES)),
        ],
    );
    check(
        "proc-title-template",
        &[("{foo}", Err("template format is invalid or contains unknown variables"))],
    );
}

#[test]
fn ways_to_shut_down() {
    let words = "argument(s) must be one of the following: default, save, nosave, now, force, \
                 safe, failover";
    check(
        "shutdown-on-sigterm",
        &[
            ("nosave now", Ok("nosave now")),
            ("default now", Ok("now")),
            ("default", Ok("default")),
            ("failover safe force now nosave", Ok("nosave now force safe failover")),
            ("", Err(words)),
            ("nosave save", Err("shutdown options SAVE and NOSAVE can't be used simultaneously")),
        ],
    );
}

#[test]
fn lists_of_numbers() {
    const ELEMENTS: &str = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    check(
        "oom-score-adj-values",
        &[
            ("100 50 800", Ok("100 50 800")),
            ("", Err("wrong number of arguments")),
            ("0 200", Err("wrong number of arguments")),
            ("1  2 3", Err("wrong number of arguments")),
            ("-2001 0 0", Err(ELEMENTS)),
            ("a b c", Err(ELEMENTS)),
        ],
    );
    const COUNT: &str = "Wrong number of arguments in buffer limit configuration.";
    const CLASS: &str = "Invalid client class specified in buffer limit configuration.";
    const LIMIT: &str =
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    check(
        "client-output-buffer-limit",
        &[
            ("", Ok("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")),
            ("replica 1gb 0 0", Ok("normal 0 0 0 slave 1073741824 0 0 pubsub 33554432 8388608 60")),
            (
                "pubsub 32mb 8mb 60 NORMAL 1 1 1",
                Ok("normal 1 1 1 slave 1073741824 0 0 pubsub 33554432 8388608 60"),
            ),
            ("slave 1 2", Err(COUNT)),
            ("normal 0  0 0", Err(COUNT)),
            ("master 1 2 3", Err(CLASS)),
            ("normal -1 0 0", Err(LIMIT)),
            ("normal 0 0 -5", Err(LIMIT)),
        ],
    );
    check(
        "bind",
        &[
            ("127.0.0.1 ::1", Ok("127.0.0.1 ::1")),
            (
                "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
                Err("Too many bind addresses specified."),
            ),
        ],
    );
}

#[test]
fn quotas() {
    const FORM: &str = "a quota is a name, a limit and an amount";
    const LIMIT: &str = "a quota limits requests, bytes-in, bytes-out, cpu-microseconds or memory";
    const AMOUNT: &str = "a quota's amount is a number above zero, as 1000 or 1000/60";
    const MEMORY: &str = "memory is limited of databases 0 to 127 only";
    check(
        "user-quota",
        &[
            ("a requests 5", Ok("a requests 5")),
            ("b bytes-in 1kb/60 b requests 2/1", Ok("b bytes-in 1024/60 b requests 2")),
            ("a requests 5 A REQUESTS 6 a requests 7", Ok("a requests 7 A requests 6")),
            ("a requests", Err(FORM)),
            ("a calls 5", Err(LIMIT)),
            ("a memory 5", Err("a user has no memory to limit")),
            ("a requests 0", Err(AMOUNT)),
            ("a requests 1kb", Err(AMOUNT)),
            ("a requests 5/0", Err(AMOUNT)),
            ("a requests -1", Err(AMOUNT)),
            ("a requests 5/31622401", Err(AMOUNT)),
            ("", Ok("")),
        ],
    );
    check(
        "db-quota",
        &[
            (
                "3 memory 1gb 0 cpu-microseconds 500000",
                Ok("3 memory 1073741824 0 cpu-microseconds 500000"),
            ),
            ("127 memory 1", Ok("127 memory 1")),
            ("128 memory 1", Err(MEMORY)),
            ("3 memory 1/1", Err(AMOUNT)),
            ("x requests 1", Err("no database has such a number")),
        ],
    );
    let config = load("user-quota a requests 5/60\nuser-quota a bytes-out 1mb\n").config;
    let rule =
        |limit, amount, seconds| QuotaRule { subject: (*b"a").into(), limit, amount, seconds };
    let rules = [rule(QuotaLimit::Requests, 5, 60), rule(QuotaLimit::BytesOut, 1 << 20, 1)];
    assert_eq!(config.get(settings::USER_QUOTA), rules);
}

#[test]
fn typed_readings() {
    let config = load(
        "save 60 5\nsave 1 2\nclient-output-buffer-limit normal 1kb 2 3\nloglevel debug\n\
         bind 127.0.0.1 -::1\nnotify-keyspace-events Ex\nunixsocketperm 700\n",
    )
    .config;
    let point = |seconds, changes| SavePoint { seconds, changes };
    assert_eq!(config.get(settings::SAVE), [point(60, 5), point(1, 2)]);
    let limits = config.get(settings::CLIENT_OUTPUT_BUFFER_LIMIT);
    assert_eq!(limits.normal, OutputBufferLimit { hard: 1024, soft: 2, soft_seconds: 3 });
    assert_eq!(limits.pubsub.soft_seconds, 60);
    assert_eq!(config.get(settings::LOGLEVEL), LogLevel::Debug);
    let bind = config.get(settings::BIND);
    assert_eq!(bind[1], BindAddress { address: "::1".to_owned(), optional: true });
    let events = config.get(settings::NOTIFY_KEYSPACE_EVENTS);
    assert!(events.has(b'x') && events.has(b'E') && !events.has(b'K') && !events.is_empty());
    assert_eq!(config.get(settings::UNIXSOCKETPERM), 0o700);
    assert_eq!(config.get(settings::PORT), 6379);
    assert_eq!(config.get(settings::MAXCLIENTS), 10_000);
    assert!(config.get(settings::PROTECTED_MODE));
}

/// H56.
#[test]
fn a_name_for_people_is_one_that_all_files_of_nodes_can_hold() {
    let config = Config::new();
    let name = |text: &[u8]| config.set_many(&[b"cluster-announce-human-nodename", text], false);
    for text in [&b""[..], b"node-1.rack_2/a`", &[b'x'; 255]] {
        assert!(name(text).is_ok(), "{text:?}");
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-./_`".contains(&byte);
    for byte in (0..=u8::MAX).filter(|byte| !legal(*byte)) {
        let why = name(&[b'a', byte, b'b']).expect_err("no such name");
        let line = String::from_utf8_lossy(&why.line()).into_owned();
        assert!(line.contains("Announced human node name contained invalid character"), "{line}");
    }
    assert!(name(&[b'x'; 256]).is_err());
}
