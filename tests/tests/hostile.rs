//! Hostile requests, by the rows of the corpus: whatever one client sends, the others are answered
//! within five seconds, memory stays within a bound that the test states, and nothing panics (the
//! harness asks for that at the end of every server).
//!
//! H01, H03, H86 and H88 are in unauthenticated.rs, H02 to H10 on the wire in protocol.rs, payloads
//! in dump.rs.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const MEGABYTE: u64 = 1 << 20;

/// Another client, and how much memory the server had before the attack.
struct Watch<'a> {
    server: &'a Server,
    before: u64,
}

impl<'a> Watch<'a> {
    fn begin(server: &'a Server) -> Self {
        Self { server, before: server.resident() }
    }

    /// The server answers others, and has grown by so many bytes at most.
    fn check(&self, row: &str, bound: u64) {
        assert_eq!(self.server.client().call(&["PING"]), Value::Simple(b"PONG".to_vec()), "{row}");
        let grown = self.server.resident().saturating_sub(self.before);
        assert!(grown <= bound, "{row}: grown by {} MB", grown / MEGABYTE);
    }
}

fn is_error(reply: &Value, beginning: &str) -> bool {
    matches!(reply, Value::Error(line) if line.starts_with(beginning.as_bytes()))
}

/// H02: a limit raised to terabytes does not make a declared length cost memory.
#[test]
fn h02_declared_lengths_under_a_raised_limit() {
    let server = Server::start(&["--proto-max-bulk-len", "1099511627776"]);
    let watch = Watch::begin(&server);
    let mut waiting = Vec::new();
    for length in ["5000000000", "4294967296", "1099511627776", "2147483648"] {
        for _ in 0..10 {
            let mut client = server.client();
            client.send_raw(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n").as_bytes());
            client.send_raw(&[b'x'; 100_000]);
            waiting.push(client);
        }
    }
    let mut client = server.client();
    client.send_raw(b"*1\r\n$1099511627777\r\n");
    let error = b"-ERR Protocol error: invalid bulk length\r\n";
    assert_eq!(client.receive_to_close(), error);
    watch.check("H02", 64 * MEGABYTE);
}

/// H04: a multibulk that promises a million arguments is paid for as they come.
#[test]
fn h04_declared_arguments_cost_nothing() {
    let server = Server::start(&[]);
    let watch = Watch::begin(&server);
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut client = server.client();
        client.send_raw(b"*2147483647\r\n$4\r\nMGET\r\n$1\r\nk\r\n");
        waiting.push(client);
    }
    watch.check("H04", 32 * MEGABYTE);
}

/// H09: connections that end while they are accepted do not hold up those behind them.
#[test]
fn h09_connections_that_end_at_once() {
    let server = Server::start(&[]);
    let watch = Watch::begin(&server);
    for _ in 0..2_000 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        // Unread bytes at the closing make it a reset.
        let _ = stream.write_all(b"PING\r\nGET");
    }
    watch.check("H09", 32 * MEGABYTE);
    eventually("they are gone", || {
        let reply = server.client().call(&["CLIENT", "LIST"]);
        let lines = reply.as_bytes().unwrap().iter().filter(|byte| **byte == b'\n').count();
        lines < 5
    });
}

/// A client that does not read is not read from. The other clients go on, and what the client asked
/// for is there once it reads.
#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let server = Server::start(&[]);
    server.client().call(&[b"SET", &b"big"[..], &vec![b'x'; 1 << 20]]);
    let watch = Watch::begin(&server);
    let mut slow = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    slow.write_all(&b"GET big\r\n".repeat(300)).unwrap();
    let mut waiting: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            stream.write_all(&b"GET big\r\n".repeat(100)).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    watch.check("slow readers", 64 * MEGABYTE);
    let mut rest = 300 * ((1 << 20) + b"$1048576\r\n\r\n".len());
    let mut buffer = vec![0; 1 << 20];
    slow.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    while rest > 0 {
        let length = slow.read(&mut buffer).unwrap();
        assert!(length > 0 && length <= rest);
        rest -= length;
    }
    waiting.clear();
    watch.check("slow readers", 64 * MEGABYTE);
}

/// H20, H44, H45: offsets at every limit, as Redis answers them.
#[test]
fn h20_offsets_at_the_limits() {
    let script = r#"
        > SET k abc
        OK
        > SETRANGE k 536870911 xx
        (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 600000000 x
        (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 2147483647 x
        (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 4294967296 x
        (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 9223372036854775807 x
        (error) ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > SETRANGE k 9223372036854775808 x
        (error) ERR value is not an integer or out of range
        > SETRANGE k -1 x
        (error) ERR offset is out of range
        > SETRANGE k -9223372036854775808 x
        (error) ERR offset is out of range
        > SET empty ""
        OK
        > GETRANGE empty -1 -1
        ""
        > GETRANGE empty 0 0
        ""
        > GETRANGE k -9223372036854775808 9223372036854775807
        "abc"
        > GETRANGE k 9223372036854775807 9223372036854775807
        ""
        > GETRANGE k -9223372036854775808 -9223372036854775808
        "a"
        > GETRANGE k 2 -1
        "c"
        > GETRANGE none -1 -1
        ""
        > GET k
        "abc"
    "#;
    let server = Server::start(&[]);
    let watch = Watch::begin(&server);
    check(&mut server.client(), script);
    check(&mut Oracle::redis82().client(), script);
    watch.check("H20", 16 * MEGABYTE);
}

/// H21: LCS of long strings is refused before it takes memory, or computed off the workers.
#[test]
fn h21_lcs_of_long_strings() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let long = vec![b'a'; 20 << 20];
    client.call(&[b"MSET", &b"a"[..], &long, b"b", &long]);
    client.call(&[b"MSET", &b"c"[..], &long[..11_000], b"d", &long[..11_000]]);
    let watch = Watch::begin(&server);
    for form in [&["LCS", "a", "b"][..], &["LCS", "a", "b", "LEN"], &["LCS", "a", "b", "IDX"]] {
        let reply = client.call(form);
        assert!(is_error(&reply, "ERR Insufficient memory"), "{reply:?}");
    }
    client.send(&["LCS", "c", "d", "LEN"]);
    watch.check("H21", 64 * MEGABYTE);
    assert_eq!(client.receive(), Value::Integer(11_000));
}

/// H26: the same key again and again in every command of many keys.
#[test]
fn h26_the_same_key_many_times() {
    let script = r#"
        > MSET a 1 a 2 a 3
        OK
        > MGET a a a
        1) "3"
        2) "3"
        3) "3"
        > MSETNX b 1 b 2
        (integer) 1
        > MSETNX b 1 c 2
        (integer) 0
        > GET b
        "2"
        > EXISTS a a b a
        (integer) 4
        > TOUCH a a
        (integer) 2
        > RENAME a a
        OK
        > RENAMENX a a
        (integer) 0
        > COPY a a
        (error) ERR source and destination objects are the same
        > LCS a a
        "3"
        > DEL a a b b
        (integer) 2
        > UNLINK a a
        (integer) 0
    "#;
    check(&mut Server::start(&[]).client(), script);
    check(&mut Oracle::redis82().client(), script);
}

/// H27: one argument, a million, and the sizes where arrays on the stack end.
#[test]
fn h27_any_number_of_keys() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let watch = Watch::begin(&server);
    for count in [1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1_024, 1_025, 1_000_000] {
        let keys: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
        let with = |name: &'static str| {
            [name].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<&str>>()
        };
        let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
        let mset: Vec<&str> = ["MSET"].into_iter().chain(pairs).collect();
        assert_eq!(client.call(&mset), Value::Simple(b"OK".to_vec()), "{count}");
        let all = Value::Integer(count);
        assert_eq!(client.call(&with("EXISTS")), all);
        assert_eq!(client.call(&with("TOUCH")), all);
        let Value::Array(values) = client.call(&with("MGET")) else { panic!("an array") };
        assert_eq!(values.len() as i64, count);
        assert_eq!(client.call(&with("UNLINK")), all);
        assert_eq!(client.call(&with("DEL")), Value::Integer(0));
    }
    watch.check("H27", 1024 * MEGABYTE);
}

/// H29: buffers grow for one large request and are small again for the next.
#[test]
fn h29_large_requests_between_small_ones() {
    let server = Server::start(&[]);
    let mut clients: Vec<Client> = (0..10).map(|_| server.client()).collect();
    let watch = Watch::begin(&server);
    for size in [100, 1 << 14, (1 << 14) + 1, 1 << 15, 1 << 20, 20 << 20, 1, 32_768, 39_000] {
        for client in &mut clients {
            let value = vec![b'v'; size];
            assert_eq!(client.call(&[b"ECHO", &value[..]]), Value::Bulk(value));
        }
    }
    // Ten clients of forty megabytes each; what the allocator keeps is by worker, not by client.
    watch.check("H29", 128 * MEGABYTE);
}

/// H30: a name of a hundred megabytes is a name like others.
#[test]
fn h30_huge_names() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let name = vec![b'n'; 100 << 20];
    assert_eq!(client.call(&[&b"SET"[..], &name, b"v"]), Value::Simple(b"OK".to_vec()));
    assert_eq!(client.call(&[&b"GET"[..], &name]), Value::Bulk(b"v".to_vec()));
    assert_eq!(client.call(&["RANDOMKEY"]), Value::Bulk(name.clone()));
    assert_eq!(client.call(&[&b"RENAME"[..], &name, b"short"]), Value::Simple(b"OK".to_vec()));
    assert_eq!(client.call(&[&b"COPY"[..], b"short", &name]), Value::Integer(1));
    assert_eq!(client.call(&[&b"DEL"[..], &name, b"short"]), Value::Integer(2));
    Watch::begin(&server).check("H30", 16 * MEGABYTE);
}

/// H31: patterns that make naive matchers go back for ever, or call themselves too deep.
#[test]
fn h31_patterns() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    client.call(&[b"SET", &vec![b'a'; 10_000][..], b"v"]);
    let watch = Watch::begin(&server);
    let mut patterns = vec![b"a*".repeat(40), vec![b'*'; 1_000_000], vec![b'['; 1_000_000]];
    patterns.extend([vec![b'?'; 1_000_000], vec![b'\\'; 1_000_000], b"[a-".repeat(300_000)]);
    patterns[0].push(b'b');
    for pattern in &patterns {
        let commands: [&[&[u8]]; 5] = [
            &[b"KEYS", pattern],
            &[b"SCAN", b"0", b"MATCH", pattern, b"COUNT", b"1000"],
            &[b"CONFIG", b"GET", pattern],
            &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", pattern],
            &[b"DEBUG", b"STRINGMATCH-LEN", b"1", pattern],
        ];
        for command in commands {
            client.send(command);
            watch.check("H31", 64 * MEGABYTE);
            client.receive();
        }
    }
}

/// H34, H36, H41, H43, H46: one reply each, and that of Redis where it has one.
#[test]
fn h34_words_that_are_missing_or_absurd() {
    let script = r#"
        > SET k v
        OK
        > SCAN 9223372036854775808
        1) "0"
        ...
        > SCAN 18446744073709551615
        1) "0"
        ...
        > SCAN 18446744073709551616
        (error) ERR invalid cursor
        > SCAN abc
        (error) ERR invalid cursor
        > SCAN 0 COUNT
        (error) ERR syntax error
        > SCAN 0 MATCH
        (error) ERR syntax error
        > SCAN 0 TYPE
        (error) ERR syntax error
        > SCAN 0 COUNT 0
        (error) ERR syntax error
        > SCAN 0 COUNT -1
        (error) ERR syntax error
        > SCAN 0 COUNT 536870912
        1) "0"
        2) 1) "k"
        > SCAN 0 COUNT 9223372036854775807
        1) "0"
        2) 1) "k"
        > SCAN 0 COUNT 9223372036854775808
        (error) ERR value is not an integer or out of range
        > EXPIRE k 100 NX XX
        (error) ERR NX and XX, GT or LT options at the same time are not compatible
        > EXPIRE k 100 GT LT
        (error) ERR GT and LT options at the same time are not compatible
        > EXPIRE k 100 NX XX GT LT
        (error) ERR NX and XX, GT or LT options at the same time are not compatible
        > PING one
        "one"
        > SET k v EX
        (error) ERR syntax error
        > SET k v GET PX
        (error) ERR syntax error
        > GETEX k PXAT
        (error) ERR syntax error
        > COPY k l DB
        (error) ERR syntax error
        > RESTORE r 0 x IDLETIME
        (error) ERR syntax error
        > LCS k k MINMATCHLEN
        (error) ERR syntax error
        > MEMORY USAGE
        (error) ERR wrong number of arguments for 'memory|usage' command
        > MEMORY USAGE k SAMPLES
        (error) ERR syntax error
        > MEMORY USAGE none
        (nil)
        > PING last
        "last"
    "#;
    check(&mut Server::start(&[]).client(), script);
    check(&mut Oracle::redis82().client(), script);
}

/// H40: numbers of keys that are negative, absurd or lies.
#[test]
fn h40_numbers_of_keys() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for count in ["-1", "0", "2147483648", "9223372036854775807", "9223372036854775808", "x", ""] {
        let reply = client.call(&["MSETEX", count, "k", "v"]);
        assert_eq!(reply, Value::Error(b"ERR invalid numkeys value".to_vec()), "{count}");
    }
    let reply = client.call(&["MSETEX", "2147483647", "k", "v"]);
    assert!(is_error(&reply, "ERR"), "{reply:?}");
    assert_eq!(client.call(&["EXISTS", "k"]), Value::Integer(0));
}

/// H89: no guess comes nearer to the password than any other.
#[test]
fn h89_wrong_passwords_are_all_alike() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut client = server.client();
    for (user, password) in
        [("default", "s"), ("default", "secre"), ("default", "secret\0"), ("nobody", "secret")]
    {
        let reply = client.call(&["AUTH", user, password]);
        assert!(is_error(&reply, "WRONGPASS invalid username-password pair"), "{reply:?}");
        assert!(is_error(&client.call(&["GET", "k"]), "NOAUTH"));
    }
    let long = vec![b's'; 10_000];
    assert!(is_error(&client.call(&[b"AUTH", &long[..]]), "WRONGPASS"));
    assert_eq!(client.call(&["AUTH", "secret"]), Value::Simple(b"OK".to_vec()));
}

/// H90: nobody plants a file through settings, or loads code, unless the operator allowed it.
#[test]
fn h90_settings_that_plant_files() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for (name, value) in [
        ("dir", "/etc/cron.d"),
        ("dbfilename", "authorized_keys"),
        ("logfile", "/etc/passwd"),
        ("enable-debug-command", "yes"),
        ("enable-protected-configs", "yes"),
        ("enable-module-command", "yes"),
    ] {
        let reply = client.call(&["CONFIG", "SET", name, value]);
        assert!(is_error(&reply, "ERR CONFIG SET failed"), "{name}: {reply:?}");
    }
    for command in
        [&["DEBUG", "SLEEP", "0"][..], &["DEBUG", "SEGFAULT"], &["MODULE", "LOAD", "/tmp/x.so"]]
    {
        assert!(is_error(&client.call(command), "ERR"), "{command:?}");
    }
}

/// H90: no value ends its line in the file of the configuration and begins another.
#[test]
fn h90_values_with_ends_of_lines_stay_values() {
    const EVIL: &str = "a\r\nuser evil on nopass ~* +@all\nmaxclients 77\r\n\"";
    let mut server = Server::start_with_config("maxclients 500\n", &[]);
    let mut client = server.client();
    let Value::Array(words) = client.call(&["CONFIG", "GET", "*"]) else { panic!("a list") };
    let names = words.iter().step_by(2).map(tests::render::text);
    let ok = Value::Simple("OK".into());
    let set = |name: &String| client.call(&["CONFIG", "SET", name, EVIL]) == ok;
    let taken: Vec<String> = names.filter(set).collect();
    assert!(taken.len() > 20 && taken.iter().any(|name| name == "requirepass"), "{taken:?}");
    assert_eq!(client.call(&["CONFIG", "REWRITE"]), ok);
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(client.call(&["AUTH", EVIL]), ok);
    for name in &taken {
        let pair = client.call(&["CONFIG", "GET", name]);
        let expected = [name, EVIL].map(|word| Value::Bulk(word.as_bytes().to_vec()));
        assert_eq!(pair, Value::Array(expected.to_vec()), "{name}");
    }
    assert_eq!(client.call(&["ACL", "USERS"]), Value::Array(vec![Value::Bulk("default".into())]));
    check(&mut client, "> CONFIG GET maxclients\n1) \"maxclients\"\n2) \"500\"");
    client.call(&["CONFIG", "SET", "requirepass", ""]);
}

/// Ten thousand at once: none is refused, all are served.
#[test]
fn ten_thousand_connect_at_once() {
    let server = Server::start(&[]);
    let port = server.port();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
                let mut streams: Vec<TcpStream> = (0..1_250).map(connect).collect();
                for stream in &mut streams {
                    stream.write_all(b"PING\r\n").unwrap();
                }
                for stream in &mut streams {
                    let mut reply = [0; 7];
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    stream.read_exact(&mut reply).unwrap();
                    assert_eq!(&reply, b"+PONG\r\n");
                }
                streams
            })
        })
        .collect();
    let streams: Vec<Vec<TcpStream>> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), 10_000);
}

/// One more than `maxclients` is told so and let go.
#[test]
fn a_client_beyond_maxclients_is_told_so() {
    let server = Server::start(&["--maxclients", "5"]);
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    for client in &mut clients {
        client.call(&["PING"]);
    }
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => assert_eq!(reply, b"-ERR max number of clients reached\r\n"),
    }
    clients.pop();
    eventually("a place is free", || {
        let reply = Client::try_connect(server.port()).and_then(|mut new| new.try_call(&["PING"]));
        matches!(reply, Ok(Value::Simple(_)))
    });
}
