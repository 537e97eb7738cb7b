//! Hostile sizes inside containers, by the rows of the corpus: many elements, huge elements, forms
//! without bounds, forged bytes, patterns. Invariant: whatever one client sends, the others are
//! answered and memory stays bounded.

use proto::value::Value;
use tests::{Duel, Oracle, Server, check};

const MEGABYTE: u64 = 1 << 20;

/// H28: encodings that should stay small whatever comes.
#[test]
fn h28_small_forms_without_bounds() {
    let server = Server::start(&[
        "--hash-max-listpack-entries",
        "4294967295",
        "--hash-max-listpack-value",
        "4294967295",
        "--set-max-intset-entries",
        "4294967295",
        "--zset-max-listpack-entries",
        "4294967295",
        "--zset-max-listpack-value",
        "4294967295",
        "--list-max-listpack-size",
        "2147483647",
        "--stream-node-max-bytes",
        "4294967295",
        "--stream-node-max-entries",
        "0",
    ]);
    let mut client = server.client();
    let long = "x".repeat(70_000);
    for number in 0..3000 {
        let word = number.to_string();
        client.send(&["HSET", "hash", &word, &long[..number * 20]]);
        client.send(&["SADD", "set", &word]);
        client.send(&["ZADD", "sorted", &word, &long[..number * 20]]);
        client.send(&["RPUSH", "list", &long[..number * 20]]);
        client.send(&["XADD", "stream", "*", "f", &long[..number * 20]]);
        (0..5).for_each(|_| assert!(!matches!(client.receive(), Value::Error(_))));
    }
    for key in ["hash", "set", "sorted", "list", "stream"] {
        assert_eq!(client.call(&["COPY", key, "copy", "REPLACE"]), Value::Integer(1), "{key}");
    }
    let script = "
        > HLEN hash
        (integer) 3000
        > SCARD set
        (integer) 3000
        > ZCARD sorted
        (integer) 3000
        > LLEN list
        (integer) 3000
        > XLEN stream
        (integer) 3000
        > XLEN copy
        (integer) 3000
    ";
    check(&mut client, script);
}

/// H32: bytes that say they are a HyperLogLog.
#[test]
fn h32_forged_hyperloglogs() {
    let zeros = "\\x00".repeat(7);
    let sparse = format!("HYLL\\x01\\x00\\x00\\x00{zeros}\\x80");
    let dense = format!("HYLL\\x00\\x00\\x00\\x00{zeros}\\x80");
    let both = [
        // A dense one without registers, or with some, or with too many.
        dense.clone(),
        format!("{dense}abc"),
        format!("{dense}{}", "\\xff".repeat(12_289)),
        // Encodings and heads that do not exist.
        format!("HYLL\\x02\\x00\\x00\\x00{zeros}\\x80"),
        format!("HYLL\\xff\\x00\\x00\\x00{zeros}\\x80"),
        format!("hyll\\x01\\x00\\x00\\x00{zeros}\\x80\\x7f\\xff"),
        "HYLL".to_owned(),
        "HYLL\\x01".to_owned(),
        // Sparse: runs beyond the end.
        format!("{sparse}\\x7f\\xff\\x7f\\xff"),
        format!("{sparse}{}", "\\x7f\\xff".repeat(1000)),
    ];
    let [apus, redis] = Oracle::Redis82.beside(&[]);
    let mut duel = Duel::new(apus.client(), redis.client(), 0);
    for value in &both {
        let start = "FLUSHALL\nPFADD hyperloglog a b c";
        duel.run_lines(&format!("{start}\nSET forged \"{value}\"\n{USES}"));
    }
    // Redis reads on beyond the end of these, or makes numbers of infinity.
    let worse = [
        format!("{dense}{}", "\\xff".repeat(12_288)),
        sparse.clone(),
        format!("{sparse}\\x40\\x00"),
        format!("{sparse}\\x7f"),
        format!("{sparse}\\x7f\\xff\\xfc"),
        format!("{sparse}{}", "\\xff".repeat(4096)),
        format!("{sparse}{}", "\\x3f".repeat(257)),
    ];
    let mut client = apus.client();
    for value in &worse {
        check(&mut client, &format!("> PFADD hyperloglog a\n...\n> SET forged \"{value}\"\nOK"));
        for line in USES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let reply = client.call(&line.split(' ').collect::<Vec<_>>());
            let is_sane = match &reply {
                Value::Error(line) => line.starts_with(b"INVALIDOBJ"),
                Value::Integer(count) => *count >= 0,
                _ => true,
            };
            assert!(is_sane, "{line}: {reply:?}");
        }
    }
}

/// What may be done with a HyperLogLog.
const USES: &str = "
    PFCOUNT forged
    PFADD forged
    PFADD forged a b c d e f g h i j k l m n o p
    PFCOUNT forged hyperloglog
    PFMERGE into forged
    PFMERGE forged hyperloglog
    PFMERGE into hyperloglog forged
    PFCOUNT into
    PFDEBUG ENCODING forged
    PFDEBUG TODENSE forged
    STRLEN forged
";

/// H27: one element, many, and the sizes where arrays on the stack end.
#[test]
fn h27_any_number_of_elements() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for count in [1, 2, 7, 8, 9, 15, 16, 17, 64, 65, 128, 129, 1_024, 1_025, 20_000] {
        client.call(&["FLUSHALL"]);
        let ids: Vec<String> = (1..=count).map(|number| format!("{number}-1")).collect();
        let entries = ids.iter().map(|id| vec!["XADD", "x", id, "f", "v"]).collect::<Vec<_>>();
        client.pipeline(&entries);
        client.call(&["XGROUP", "CREATE", "x", "g", "0"]);
        client.call(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">"]);
        let number = count.to_string();
        let mut request = |head: &[&str], tail: &[&str]| {
            let words: Vec<&str> = head.iter().copied().chain(tail.iter().copied()).collect();
            let reply = client.call(&words);
            assert!(!matches!(reply, Value::Error(_)), "{head:?} with {count}: {reply:?}");
            reply
        };
        let all = Value::Integer(count);
        let words: Vec<&str> = ids.iter().map(String::as_str).collect();
        let pairs: Vec<&str> = words.iter().flat_map(|word| [*word, "1"]).collect();
        let scored: Vec<&str> = words.iter().flat_map(|word| ["1", *word]).collect();
        request(&["XCLAIM", "x", "g", "d", "0"], &words);
        let deleted = request(&["XACKDEL", "x", "g", "KEEPREF", "IDS", &number], &words);
        let Value::Array(deleted) = deleted else { panic!("an array") };
        assert!(
            deleted.len() == words.len() && deleted.iter().all(|one| *one == Value::Integer(1))
        );
        assert_eq!(request(&["XACK", "x", "g"], &words), Value::Integer(0));
        assert_eq!(request(&["XDEL", "x"], &words), Value::Integer(0));
        assert_eq!(request(&["SADD", "s"], &words), all);
        request(&["SMISMEMBER", "s"], &words);
        assert_eq!(request(&["SREM", "s"], &words), all);
        assert_eq!(request(&["HSET", "h"], &pairs), all);
        request(&["HMGET", "h"], &words);
        request(&["HEXPIRE", "h", "100", "FIELDS", &number], &words);
        request(&["HGETEX", "h", "PERSIST", "FIELDS", &number], &words);
        assert_eq!(request(&["HDEL", "h"], &words), all);
        assert_eq!(request(&["ZADD", "z"], &scored), all);
        request(&["ZMSCORE", "z"], &words);
        assert_eq!(request(&["ZREM", "z"], &words), all);
        assert_eq!(request(&["RPUSH", "l"], &words), all);
        request(&["PFADD", "p"], &words);
        request(&["SUNION"], &words);
        request(&["PFCOUNT"], &words);
        request(&["ZUNION", &number], &words);
    }
}

/// H30: elements of a hundred megabytes are elements like others.
#[test]
fn h30_huge_elements() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let huge = vec![b'e'; 100 << 20];
    let mut answers = |words: &[&[u8]], expected: Value| {
        let name = String::from_utf8_lossy(words[0]).into_owned();
        assert!(client.call(words) == expected, "{name}");
    };
    answers(&[b"SADD", b"s", &huge, b"small"], Value::Integer(2));
    answers(&[b"SISMEMBER", b"s", &huge], Value::Integer(1));
    answers(&[b"SREM", b"s", &huge], Value::Integer(1));
    answers(&[b"HSET", b"h", &huge, b"v"], Value::Integer(1));
    answers(&[b"HGET", b"h", &huge], Value::Bulk(b"v".to_vec()));
    answers(&[b"HDEL", b"h", &huge], Value::Integer(1));
    answers(&[b"ZADD", b"z", b"1", &huge, b"1", b"f"], Value::Integer(2));
    answers(&[b"ZRANK", b"z", &huge], Value::Integer(0));
    answers(&[b"ZREM", b"z", &huge], Value::Integer(1));
    answers(&[b"RPUSH", b"l", &huge, b"f"], Value::Integer(2));
    answers(&[b"LPOS", b"l", &huge], Value::Integer(0));
    answers(&[b"LREM", b"l", b"0", &huge], Value::Integer(1));
    answers(&[b"PFADD", b"p", &huge], Value::Integer(1));
    answers(&[b"DEL", b"s", b"h", b"z", b"l", b"p"], Value::Integer(4));
}

/// H31: patterns that make naive matchers go back for ever, over the elements of a key.
#[test]
fn h31_patterns_over_elements() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let word = "a".repeat(10_000);
    client.call(&["SADD", "s", &word]);
    client.call(&["HSET", "h", &word, "v"]);
    client.call(&["ZADD", "z", "1", &word]);
    let mut patterns = vec![b"a*".repeat(40), vec![b'*'; 1_000_000], vec![b'['; 1_000_000]];
    patterns.push(b"[a-".repeat(300_000));
    patterns[0].push(b'b');
    for pattern in &patterns {
        for (command, key) in [("SSCAN", "s"), ("HSCAN", "h"), ("ZSCAN", "z")] {
            client.send(&[command.as_bytes(), key.as_bytes(), b"0", b"MATCH", pattern]);
            assert_eq!(server.client().call(&["PING"]), Value::Simple(b"PONG".to_vec()));
            assert!(matches!(client.receive(), Value::Array(_)), "{command}");
        }
    }
}

/// Counts that Redis itself would answer with all its memory are refused or answered here.
#[test]
fn counts_beyond_memory_are_not_taken_at_their_word() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    client.call(&["XADD", "x", "1-1", "f", "v"]);
    client.call(&["XGROUP", "CREATE", "x", "g", "0"]);
    client.call(&["SADD", "s", "a"]);
    client.call(&["HSET", "h", "f", "v"]);
    let before = server.resident();
    for count in ["2147483647", "576460752303423487", "922337203685477580"] {
        client.call(&["XAUTOCLAIM", "x", "g", "c", "0", "0", "COUNT", count]);
        client.call(&["XREAD", "COUNT", count, "STREAMS", "x", "0"]);
        client.call(&["SPOP", "none", count]);
        client.call(&["SRANDMEMBER", "s", count]);
        client.call(&["HRANDFIELD", "h", count, "WITHVALUES"]);
        client.call(&["LPOP", "none", count]);
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown <= 32 * MEGABYTE, "grown by {} MB", grown / MEGABYTE);
}

/// Lengths whose bits nobody could count any more.
#[test]
fn no_limit_lets_a_string_become_too_long_for_its_bits() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let ok = Value::Simple(b"OK".to_vec());
    let limit = i64::MAX.to_string();
    assert_eq!(client.call(&["CONFIG", "SET", "proto-max-bulk-len", &limit]), ok);
    for offset in [1_u64 << 60, 1 << 61, (1 << 62) - 1, (1 << 63) - 2] {
        let reply = client.call(&["SETRANGE", "k", &offset.to_string(), "x"]);
        assert!(matches!(reply, Value::Error(_)), "{offset}: {reply:?}");
    }
    let reply = client.call(&["SETBIT", "k", &limit, "1"]);
    assert!(matches!(reply, Value::Error(_)), "{reply:?}");
    assert_eq!(client.call(&["EXISTS", "k"]), Value::Integer(0));
}
