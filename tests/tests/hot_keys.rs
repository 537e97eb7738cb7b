//! HOTKEYS: sessions that find the keys that take most, with the words and errors that Redis 8.6
//! has for them. No oracle here has the command, so its replies are written down.

use std::time::Duration;

use proto::value::Value;
use tests::memcached::Connection;
use tests::{Client, Server, check};

/// What is refused, and how.
const REFUSED: &str = r#"
    > HOTKEYS
    (error) ERR wrong number of arguments for 'hotkeys' command
    > HOTKEYS START
    (error) ERR METRICS parameter is required
    > HOTKEYS START METRICS
    (error) ERR METRICS parameter is required
    > HOTKEYS START COUNT 5
    (error) ERR METRICS parameter is required
    > HOTKEYS START METRICS 0
    (error) ERR METRICS count must be > 0 and <= 2
    > HOTKEYS START METRICS 3 CPU NET
    (error) ERR METRICS count must be > 0 and <= 2
    > HOTKEYS START METRICS x CPU
    (error) ERR METRICS count must be > 0 and <= 2
    > HOTKEYS START METRICS 2 CPU
    (error) ERR METRICS count does not match number of metric types provided
    > HOTKEYS START METRICS 1 CPU NET
    (error) ERR syntax error
    > HOTKEYS START METRICS 1 GPU
    (error) ERR METRICS no valid metrics passed. Supported: CPU|NET
    > HOTKEYS START METRICS 2 CPU CPU
    (error) ERR METRICS CPU defined more than once!
    > HOTKEYS START METRICS 2 net net
    (error) ERR METRICS NET defined more than once!
    > HOTKEYS START METRICS 1 CPU COUNT 0
    (error) ERR COUNT must be between 1 and 64
    > HOTKEYS START METRICS 1 CPU COUNT 65
    (error) ERR COUNT must be between 1 and 64
    > HOTKEYS START METRICS 1 CPU COUNT
    (error) ERR syntax error
    > HOTKEYS START METRICS 1 CPU DURATION 0
    (error) ERR DURATION must be between 1 and 1000000
    > HOTKEYS START METRICS 1 CPU SAMPLE 0
    (error) ERR SAMPLE ratio must be positive
    > HOTKEYS START METRICS 1 CPU SLOTS 1 0
    (error) ERR SLOTS parameter cannot be used in non-cluster mode
    > HOTKEYS STOP
    (nil)
    > HOTKEYS GET
    (nil)
    > HOTKEYS RESET
    OK
"#;

/// A session's life.
const LIFE: &str = r#"
    > HOTKEYS START METRICS 2 GPU CPU
    OK
    > HOTKEYS START METRICS 1 NET
    (error) ERR hotkey tracking session already in progress
    > HOTKEYS RESET
    (error) ERR hotkey tracking session in progress, stop tracking first
    > HOTKEYS STOP
    OK
    > HOTKEYS STOP
    (nil)
    > HOTKEYS START METRICS 1 NET
    OK
    > HOTKEYS STOP
    OK
    > HOTKEYS RESET
    OK
    > HOTKEYS GET
    (nil)
"#;

#[test]
fn words_are_refused_and_sessions_follow_each_other() {
    let server = Server::start(&[]);
    check(&mut server.client(), REFUSED);
    check(&mut server.client(), LIFE);
}

/// The report's fields by name.
fn report(client: &mut Client) -> Vec<(String, Value)> {
    let Value::Array(outer) = client.call(&["HOTKEYS", "GET"]) else { panic!("a report") };
    let [Value::Map(fields)] = &outer[..] else { panic!("one map: {outer:?}") };
    fields.iter().map(|(name, value)| (text(name), value.clone())).collect()
}

fn text(value: &Value) -> String {
    let Value::Bulk(bytes) = value else { panic!("a string: {value:?}") };
    String::from_utf8_lossy(bytes).into_owned()
}

fn field<'a>(report: &'a [(String, Value)], name: &str) -> &'a Value {
    let found = report.iter().find(|(own, _)| own == name);
    &found.unwrap_or_else(|| panic!("no {name}")).1
}

fn integer(value: &Value) -> i64 {
    let Value::Integer(number) = value else { panic!("a number: {value:?}") };
    *number
}

/// Keys and numbers, in order.
fn list(report: &[(String, Value)], name: &str) -> Vec<(String, i64)> {
    let Value::Array(words) = field(report, name) else { panic!("{name} is a list") };
    words.chunks(2).map(|pair| (text(&pair[0]), integer(&pair[1]))).collect()
}

#[test]
fn fields_are_those_of_the_metrics_that_were_asked_for() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    let common = [
        "tracking-active",
        "sample-ratio",
        "selected-slots",
        "all-commands-all-slots-us",
        "net-bytes-all-commands-all-slots",
        "collection-start-time-unix-ms",
        "collection-duration-ms",
    ];
    let cpu = ["total-cpu-time-user-ms", "total-cpu-time-sys-ms"];
    for (metrics, own) in [
        (&["1", "CPU"][..], [&cpu[..], &["by-cpu-time-us"]].concat()),
        (&["1", "NET"], vec!["total-net-bytes", "by-net-bytes"]),
        (
            &["2", "NET", "CPU"],
            [&cpu[..], &["total-net-bytes", "by-cpu-time-us", "by-net-bytes"]].concat(),
        ),
    ] {
        client.call(&[&["HOTKEYS", "START", "METRICS"], metrics, &["SAMPLE", "7"]].concat());
        check(&mut client, "> HOTKEYS STOP\nOK");
        let report = report(&mut client);
        let names: Vec<_> = report.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [&common[..], &own].concat());
        assert_eq!(integer(field(&report, "sample-ratio")), 7);
        assert_eq!(integer(field(&report, "tracking-active")), 0);
        let whole = Value::Array(vec![Value::Integer(0), Value::Integer(16383)]);
        assert_eq!(field(&report, "selected-slots"), &Value::Array(vec![whole]));
    }
    // RESP2 has the same, one behind the other.
    let Value::Array(outer) = server.client().call(&["HOTKEYS", "GET"]) else { panic!("a report") };
    let Value::Array(flat) = &outer[0] else { panic!("a flat list: {outer:?}") };
    assert_eq!((outer.len(), flat.len()), (1, 24));
}

/// Bytes are exact: a request's and its reply's, divided among the keys of the request.
#[test]
fn bytes_are_those_of_requests_and_replies() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    check(
        &mut client,
        "> HOTKEYS START METRICS 1 NET\nOK\n> SET one value\nOK\n> GET one\n\"value\"",
    );
    check(&mut client, "> MSET two 2 three 3\nOK\n> PING\nPONG\n> HOTKEYS STOP\nOK");
    let report = report(&mut client);
    let set = "*3\r\n$3\r\nSET\r\n$3\r\none\r\n$5\r\nvalue\r\n+OK\r\n".len();
    let get = "*2\r\n$3\r\nGET\r\n$3\r\none\r\n$5\r\nvalue\r\n".len();
    let mset =
        "*5\r\n$4\r\nMSET\r\n$3\r\ntwo\r\n$1\r\n2\r\n$5\r\nthree\r\n$1\r\n3\r\n+OK\r\n".len();
    let half = (mset / 2) as i64;
    let expected =
        [("one", (set + get) as i64), ("three", half), ("two", half)].map(|(k, n)| (k.into(), n));
    assert_eq!(list(&report, "by-net-bytes"), expected);
    let ping = "*1\r\n$4\r\nPING\r\n+PONG\r\n".len();
    let all = integer(field(&report, "net-bytes-all-commands-all-slots"));
    assert!(all >= (set + get + mset + ping) as i64, "{all}");
    assert!(integer(field(&report, "total-net-bytes")) >= all - 100);
}

/// Commands are noted wherever they run: in EXEC, by scripts under the keys of EVAL, behind a wait,
/// on other threads, for clients of memcached.
#[test]
fn commands_are_noted_wherever_they_run() {
    let port = tests::server::free_port();
    let server = Server::start(&["--memcached-port", &port.to_string()]);
    let mut client = server.client3();
    check(&mut client, "> HOTKEYS START METRICS 2 CPU NET COUNT 64\nOK");
    check(&mut client, "> MULTI\nOK\n> SET queued 1\nQUEUED\n> GET queued\nQUEUED");
    client.call(&["EXEC"]);
    client.call(&["EVAL", "redis.call('SET', KEYS[1], 1) return 1", "1", "scripted"]);
    let mut waiting = server.client();
    waiting.send(&["BLPOP", "awaited", "0"]);
    tests::server::eventually("it waits", || client.info("blocked_clients") == "1");
    client.call(&["RPUSH", "awaited", "x"]);
    waiting.receive();
    let members: Vec<String> = (0..300_000).map(|number| number.to_string()).collect();
    for part in members.chunks(10_000) {
        let mut words = vec!["RPUSH", "long"];
        words.extend(part.iter().map(String::as_str));
        client.call(&words);
    }
    client.call(&["SORT", "long", "STORE", "sorted"]);
    assert_eq!(Connection::to(port).line("set item 0 0 1\r\nx\r\n"), "STORED\r\n");
    check(&mut client, "> HOTKEYS STOP\nOK");
    let report = report(&mut client);
    let names: Vec<_> = list(&report, "by-net-bytes").into_iter().map(|(key, _)| key).collect();
    for key in ["item", "queued", "scripted", "awaited", "long", "sorted"] {
        assert!(names.iter().any(|name| name == key), "{key}: {names:?}");
    }
    let by_cpu = list(&report, "by-cpu-time-us");
    assert!(["long", "sorted"].contains(&by_cpu[0].0.as_str()), "{by_cpu:?}");
    assert!(by_cpu.is_sorted_by_key(|(_, micros)| -micros), "{by_cpu:?}");
}

/// Hot keys are told in order among many cold ones, of several workers and also by samples.
#[test]
fn hot_keys_are_found_among_many() {
    let server = Server::start(&["--io-threads", "2"]);
    for sample in ["1", "20"] {
        let mut client = server.client3();
        client.call(&["HOTKEYS", "START", "METRICS", "1", "NET", "COUNT", "5", "SAMPLE", sample]);
        let mut writers: Vec<_> = (0..4).map(|_| server.client()).collect();
        for round in 0..10_000 {
            let writer = &mut writers[round % 4];
            writer.send(&["SET", &format!("cold{round}"), "v"]);
            writer.send(&["SET", &format!("hot{}", round / 4 % 5), "v"]);
            writer.receive();
            writer.receive();
        }
        check(&mut client, "> HOTKEYS STOP\nOK");
        let found = list(&report(&mut client), "by-net-bytes");
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|(key, _)| key.starts_with("hot")), "{sample}: {found:?}");
    }
}

/// A session ends by itself, and what comes behind its time is in none.
#[test]
fn a_session_ends_in_time() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    // Of one batch, so that no time passes between them.
    client.send(&["HOTKEYS", "START", "METRICS", "1", "NET", "DURATION", "1"]);
    client.send(&["SET", "within", "1"]);
    for _ in 0..2 {
        assert_eq!(client.receive(), Value::Simple(b"OK".to_vec()));
    }
    tests::server::eventually("its time is over", || {
        std::thread::sleep(Duration::from_millis(50));
        integer(field(&report(&mut client), "tracking-active")) == 0
    });
    check(&mut client, "> SET behind 1\nOK");
    let report = report(&mut client);
    assert_eq!(integer(field(&report, "collection-duration-ms")), 1000);
    let names: Vec<_> = list(&report, "by-net-bytes").into_iter().map(|(key, _)| key).collect();
    assert_eq!(names, ["within"]);
}
