//! The server family: INFO, the command logs, SHUTDOWN, WAIT and the small ones, equal to
//! Redis 8.2 and Valkey 9.1 wherever they know the command.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proto::value::Value;
use tests::render::text;
use tests::server::eventually;
use tests::{Arrival, Client, Duel, Oracle, Server, check};

/// Requests with the same reply on Redis 8.2, whatever the server.
const COMMON: &str = r#"
    TIME x
    LASTSAVE x
    ROLE x
    MONITOR x
    WAIT
    WAIT 0
    WAIT 0 0
    WAIT -1 0
    WAIT x 0
    WAIT 0 x
    WAIT 0 -1
    WAIT 1 20
    WAIT 1 9223372036854775807
    WAITAOF 0 0
    WAITAOF 0 0 0
    WAITAOF 1 0 20
    WAITAOF 2 0 0
    WAITAOF -1 0 0
    WAITAOF x 0 0
    WAITAOF 0 -1 0
    WAITAOF 0 x 0
    WAITAOF 0 1 20
    WAITAOF 0 0 -1
    WAITAOF 0 0 x
    WAITAOF 1 0 x
    WAITAOF 0 1 9223372036854775807
    SHUTDOWN FOO
    SHUTDOWN SAVE NOSAVE
    SHUTDOWN ABORT
    SHUTDOWN ABORT NOW
    SHUTDOWN ABORT FORCE
    SHUTDOWN ABORT SAVE
    SHUTDOWN NOSAVE ABORT
    LOLWUT VERSION x
    SLOWLOG
    SLOWLOG FOO
    SLOWLOG HELP
    SLOWLOG HELP x
    SLOWLOG RESET
    SLOWLOG RESET x
    SLOWLOG LEN
    SLOWLOG LEN x
    SLOWLOG GET
    SLOWLOG GET 0
    SLOWLOG GET -1
    SLOWLOG GET -2
    SLOWLOG GET x
    SLOWLOG GET 1 2
    INFO nosuch
    INFO CLUSTER
    INFO Cluster cluster nosuch
    INFO keyspace
"#;

/// The same for Valkey 9.1.
const COMMANDLOG: &str = r#"
    COMMANDLOG
    COMMANDLOG FOO
    COMMANDLOG HELP
    COMMANDLOG HELP x
    COMMANDLOG GET
    COMMANDLOG GET 1
    COMMANDLOG GET 1 foo
    COMMANDLOG GET x slow
    COMMANDLOG GET -2 slow
    COMMANDLOG GET -2 foo
    COMMANDLOG GET 10 slow
    COMMANDLOG GET -1 large-request
    COMMANDLOG GET 10 LARGE-REPLY
    COMMANDLOG GET 1 slow x
    COMMANDLOG LEN
    COMMANDLOG LEN slow
    COMMANDLOG LEN Large-Request
    COMMANDLOG LEN large-reply
    COMMANDLOG LEN foo
    COMMANDLOG RESET
    COMMANDLOG RESET foo
    COMMANDLOG RESET slow
    COMMANDLOG RESET large-request
    COMMANDLOG RESET large-reply
"#;

fn duel(lines: &str, oracle: Oracle) {
    let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
    for connect in [Server::client as fn(&Server) -> Client, Server::client3] {
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        duel.run_lines(lines);
    }
}

#[test]
fn replies_equal_those_of_redis() {
    duel(COMMON, Oracle::Redis82);
}

#[test]
fn command_logs_equal_those_of_valkey() {
    duel(COMMANDLOG, Oracle::Valkey91);
}

#[test]
fn time_goes_on_and_the_role_is_that_of_a_master() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = seconds();
    let Value::Array(parts) = client.call(&["TIME"]) else { panic!("an array") };
    let number = |value: &Value| text(value).parse::<u64>().unwrap();
    assert!((before..=seconds()).contains(&number(&parts[0])));
    assert!(number(&parts[1]) < 1_000_000);
    let Value::Integer(saved) = client.call(&["LASTSAVE"]) else { panic!("an integer") };
    assert!(u64::try_from(saved).unwrap() <= seconds() && saved > 1_600_000_000);
    let role = r#"
        > ROLE
        1) "master"
        2) (integer) 0
        3) (empty array)
    "#;
    check(&mut client, role);
}

#[test]
fn lolwut_draws_and_says_the_version() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    for request in [
        &["LOLWUT"][..],
        &["LOLWUT", "VERSION", "5"],
        &["LOLWUT", "VERSION", "8", "30", "4"],
        &["LOLWUT", "999999999", "999999999"],
        &["LOLWUT", "-5", "x", "y"],
        &["LOLWUT", "VERSION"],
    ] {
        let Value::Verbatim(format, drawing) = client.call(request) else { panic!("verbatim") };
        let drawing = String::from_utf8(drawing).unwrap();
        assert_eq!(&format, b"txt");
        assert!(drawing.contains("Redis ver. 8.2.") && drawing.contains("Apus ver. "), "{drawing}");
        assert!(drawing.len() < 10_000, "{request:?}");
    }
}

#[test]
fn waiting_ends_by_time_or_by_others() {
    let server = Server::start(&[]);
    let mut waiter = server.client();
    let Value::Integer(id) = waiter.call(&["CLIENT", "ID"]) else { panic!("an integer") };
    let id = id.to_string();
    let started = Instant::now();
    assert_eq!(waiter.call(&["WAIT", "1", "60"]), Value::Integer(0));
    assert!(started.elapsed() >= Duration::from_millis(60));
    let mut other = server.client();
    for (request, how, reply) in [
        (&["WAIT", "2", "0"][..], "TIMEOUT", Value::Integer(0)),
        (&["WAITAOF", "0", "1", "0"], "TIMEOUT", Value::Array(vec![Value::Integer(0); 2])),
        (
            &["WAIT", "1", "0"],
            "ERROR",
            Value::Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK".to_vec()),
        ),
    ] {
        waiter.send(request);
        eventually("it waits", || other.info("blocked_clients") == "1");
        assert_eq!(waiter.arrival(Duration::from_millis(10)).unwrap(), Arrival::Silence);
        assert_eq!(other.call(&["CLIENT", "UNBLOCK", &id, how]), Value::Integer(1));
        assert_eq!(waiter.receive(), reply);
    }
    assert_eq!(other.info("blocked_clients"), "0");
}

#[test]
fn shutdown_ends_the_process() {
    for modifiers in
        [&["NOSAVE"][..], &[], &["NOW", "FORCE"], &["SAVE", "FORCE"], &["nosave", "now"]]
    {
        let server = Server::start(&[]);
        let mut client = server.client();
        client.send(&[&["SHUTDOWN"], modifiers].concat());
        assert_eq!(client.receive_to_close(), b"", "the end of the connection is the answer");
        assert_eq!(server.wait().code(), Some(0), "{modifiers:?}");
    }
}

/// The section titles of an INFO text.
fn titles(info: &str) -> Vec<&str> {
    info.lines().filter_map(|line| line.strip_prefix("# ")).collect()
}

#[test]
fn info_has_the_sections_of_redis() {
    let (ours, theirs) = (Server::start(&[]), Oracle::redis82());
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    for sections in [
        &[][..],
        &["default"],
        &["all"],
        &["everything"],
        &["Server", "CPU", "nosuch", "server"],
        &["default", "commandstats"],
        &["latencystats", "errorstats", "threads", "modules", "keysizes"],
    ] {
        let request = [&["INFO"], sections].concat();
        let (own, their) = (text(&ours.call(&request)), text(&theirs.call(&request)));
        let ours_alone = ["Workers", "TLS", "OTLP"];
        let own_titles = titles(&own).into_iter().filter(|it| !ours_alone.contains(it));
        assert_eq!(own_titles.collect::<Vec<_>>(), titles(&their), "{sections:?}");
    }
}

#[test]
fn info_has_every_field_of_redis() {
    let (ours, theirs) = (Server::start(&[]), Oracle::redis82());
    let fields = |server: &Server| {
        let mut client = server.client();
        client.call(&["SET", "a", "1"]);
        client.call(&["NOSUCH"]);
        let info = text(&client.call(&["INFO", "everything"]));
        let names = info.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
        // A module of the oracle's, and the commands it was sent before.
        let names = names.filter(|name| *name != "module");
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (ours, theirs) = (fields(&ours), fields(&theirs));
    // Sizes of values are not counted yet.
    let missing = theirs.difference(&ours).filter(|name| !name.starts_with("db0_distrib"));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new());
    for own in ["server_name", "apus_version", "panics", "workers", "worker_0"] {
        assert!(ours.contains(own), "{own}");
    }
}

#[test]
fn info_counts_what_happens() {
    let server = Server::start(&["--databases", "4"]);
    let script = r#"
        > SET a 1
        OK
        > SET b 1 EX 1000
        OK
        > GET a
        "1"
        > GET missing
        (nil)
        > GET
        (error) ERR wrong number of arguments for 'get' command
        > INCRBY a x
        (error) ERR value is not an integer or out of range
        > INCRBY a x
        (error) ERR value is not an integer or out of range
        > NOSUCH
        (error) ERR unknown command 'NOSUCH', with args beginning with: 
        > CLIENT GETNAME
        (nil)
        > SELECT 3
        OK
        > SET c 1
        OK
    "#;
    let mut client = server.client();
    check(&mut client, script);
    let mut field = |name: &str| client.info(name);
    assert_eq!(field("redis_mode"), "standalone");
    assert_eq!((field("keyspace_hits"), field("keyspace_misses")), ("1".into(), "1".into()));
    assert_eq!(field("total_error_replies"), "4");
    assert_eq!(field("errorstat_ERR"), "count=4");
    let db0 = field("db0");
    assert!(db0.starts_with("keys=2,expires=1,avg_ttl=") && db0.ends_with(",subexpiry=0"), "{db0}");
    assert_eq!(field("db3"), "keys=1,expires=0,avg_ttl=0,subexpiry=0");
    assert!(field("cmdstat_client|getname").starts_with("calls=1,usec="));
    let get = field("cmdstat_get");
    assert!(get.starts_with("calls=2,usec=") && get.contains(",usec_per_call="), "{get}");
    assert!(get.ends_with(",rejected_calls=1,failed_calls=0"), "{get}");
    let incrby = field("cmdstat_incrby");
    assert!(incrby.ends_with(",rejected_calls=0,failed_calls=2"), "{incrby}");
    let latency = field("latency_percentiles_usec_get");
    assert!(latency.starts_with("p50=") && latency.contains(",p99.9="), "{latency}");
    client.call(&["CONFIG", "SET", "latency-tracking-info-percentiles", "0.5 100"]);
    let latency = client.info("latency_percentiles_usec_get");
    assert!(latency.starts_with("p0.5=") && latency.contains(",p100="), "{latency}");
    client.call(&["CONFIG", "SET", "latency-tracking", "no"]);
    assert_eq!(text(&client.call(&["INFO", "latencystats"])), "# Latencystats\r\n");
    client.call(&["CONFIG", "RESETSTAT"]);
    assert_eq!(text(&client.call(&["INFO", "errorstats"])), "# Errorstats\r\n");
    assert_eq!(client.info("keyspace_hits"), "0");
    let calls = text(&client.call(&["INFO", "commandstats"]));
    assert!(!calls.contains("cmdstat_get:"), "{calls}");
}

#[test]
fn info_tells_the_load() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    assert_eq!(client.info("instantaneous_ops_per_sec"), "0");
    let gets = vec![vec!["GET", "a"]; 1000];
    eventually("the rate is seen", || {
        client.pipeline(&gets);
        client.info("instantaneous_ops_per_sec").parse::<u64>().unwrap() > 100
    });
    assert!(client.info("total_commands_processed").parse::<u64>().unwrap() > 1000);
    assert!(client.info("total_net_input_bytes").parse::<u64>().unwrap() > 20_000);
    assert!(client.info("total_reads_processed").parse::<u64>().unwrap() > 1);
    assert_eq!(client.info("workers"), "2");
    let busiest = client.info("worker_0");
    assert!(busiest.starts_with("sessions=1,commands="), "{busiest}");
    let cpu = text(&client.call(&["INFO", "cpu"]));
    assert!(cpu.contains("used_cpu_user_main_thread:"), "{cpu}");
}

/// The real server counts a cycle for each turn; here one is counted when a loop goes to sleep, so
/// that it has to be waited for.
#[test]
fn the_event_loops_count_their_cycles_and_their_time() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let mut client = server.client();
        for name in ["eventloop_cycles", "eventloop_duration_sum"] {
            let mut figure = || client.info(name).parse::<u64>().expect("a number");
            let before = figure();
            assert!(before > 0, "{name}");
            eventually(name, || figure() > before);
        }
        eventually("the rates are told", || {
            ["instantaneous_eventloop_cycles_per_sec", "instantaneous_eventloop_duration_usec"]
                .iter()
                .all(|name| client.info(name) != "0")
        });
    }
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = Server::start(&["--timeout", "1", "--enable-debug-command", "yes"]);
    let (mut idle, mut waiting) = (server.client(), server.client());
    let mut working = server.client();
    assert_eq!(text(&idle.call(&["PING"])), "PONG");
    waiting.send(&["WAIT", "1", "2500"]);
    working.send(&["DEBUG", "SLEEP", "3"]);
    let closed = idle.arrival(Duration::from_secs(5)).unwrap();
    assert_eq!(closed, Arrival::Closed);
    assert_eq!(waiting.receive(), Value::Integer(0), "who waits is not idle");
    assert_eq!(text(&working.receive()), "OK", "nor is one whose command takes long");
    assert_eq!(text(&working.call(&["PING"])), "PONG", "nor right after it");
}

#[test]
fn the_mean_time_to_live_is_told() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for number in 0..500 {
        let (key, seconds) =
            (number.to_string(), if number % 2 == 0 { "100000" } else { "200000" });
        client.call(&["SET", &key, "x", "EX", seconds]);
        client.call(&["SET", &format!("plain:{key}"), "x"]);
    }
    client.call(&["SELECT", "3"]);
    client.call(&["SET", "only", "x", "EX", "100000"]);
    let report = text(&client.call(&["INFO", "keyspace"]));
    let mean = |database: &str| -> i64 {
        let line = report.lines().find(|line| line.starts_with(database)).expect("it has keys");
        let (_, mean) = line.split_once("avg_ttl=").expect("it is told");
        mean.split(',').next().and_then(|digits| digits.parse().ok()).expect("a number")
    };
    // A sample of 200 lies this far off once in many millions.
    assert!((125_000_000..175_000_000).contains(&mean("db0")), "{report}");
    assert!((99_000_000..=100_000_000).contains(&mean("db3")), "{report}");
}

#[test]
fn slow_commands_are_remembered() {
    let server = Server::start(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "5"]);
    let mut client = server.client();
    client.call(&["CLIENT", "SETNAME", "me"]);
    client.call(&["SET", "key", "value"]);
    let Value::Array(entries) = client.call(&["SLOWLOG", "GET", "1"]) else { panic!("an array") };
    let Value::Array(parts) = &entries[0] else { panic!("an entry") };
    assert!(matches!(parts[..], [Value::Integer(_), Value::Integer(time), Value::Integer(_), ..]
        if time > 1_600_000_000));
    assert_eq!(parts[3], words(&["SET", "key", "value"]));
    assert!(text(&parts[4]).starts_with("127.0.0.1:"));
    assert_eq!(text(&parts[5]), "me");

    // Long requests are cut; secrets are not shown (H88).
    let long = "x".repeat(200);
    let cut = format!("{}... (72 more bytes)", "x".repeat(128));
    assert_eq!(logged(&mut client, &["PING", &long]), words(&["PING", &cut]));
    let mut many = vec!["DEL"];
    many.extend(vec!["k"; 39]);
    let mut shown = vec!["DEL"];
    shown.extend(vec!["k"; 30]);
    shown.push("... (9 more arguments)");
    assert_eq!(logged(&mut client, &many), words(&shown));
    for (request, shown) in [
        (&["AUTH", "pw"][..], &["AUTH", "(redacted)"][..]),
        (&["AUTH", "u", "pw"], &["AUTH", "(redacted)", "(redacted)"]),
        (&["HELLO", "2", "AUTH", "u", "pw"], &["HELLO", "2", "AUTH", "(redacted)", "(redacted)"]),
        (
            &["CONFIG", "SET", "masterauth", "pw", "maxmemory", "0"],
            &["CONFIG", "SET", "masterauth", "(redacted)", "maxmemory", "0"],
        ),
        (
            &["CONFIG", "SET", "slowlog-entry-max-argc", "3", "slowlog-entry-max-string-len", "4"],
            &["CONF... (2 more bytes)", "SET", "... (4 more arguments)"],
        ),
    ] {
        assert_eq!(logged(&mut client, request), words(shown));
    }
    let shown =
        words(&["EXIS... (2 more bytes)", "abcd... (1 more bytes)", "... (2 more arguments)"]);
    assert_eq!(logged(&mut client, &["EXISTS", "abcde", "b", "c"]), shown);

    let script = r#"
        > SLOWLOG LEN
        (integer) 5
        > CONFIG SET slowlog-max-len 2
        OK
        > SLOWLOG LEN
        (integer) 2
        > CONFIG SET slowlog-log-slower-than -1
        OK
        > SLOWLOG RESET
        OK
        > PING
        PONG
        > SLOWLOG LEN
        (integer) 0
    "#;
    check(&mut client, script);
}

/// The arguments under which a command stands in the slow log.
fn logged(client: &mut Client, request: &[&str]) -> Value {
    client.call(request);
    let Value::Array(entries) = client.call(&["SLOWLOG", "GET", "1"]) else { panic!("an array") };
    let Some(Value::Array(parts)) = entries.into_iter().next() else { panic!("an entry") };
    parts.into_iter().nth(3).expect("an entry has six parts")
}

/// The logs of Valkey on both servers, told by the same commands.
#[test]
fn large_requests_and_replies_are_remembered() {
    let limits = [
        "--commandlog-request-larger-than",
        "100",
        "--commandlog-reply-larger-than",
        "100",
        "--commandlog-execution-slower-than",
        "-1",
        "--commandlog-large-request-max-len",
        "2",
    ];
    let [ours, theirs] = [Server::start(&limits), Oracle::Valkey91.start(&limits)].map(|server| {
        let mut client = server.client();
        let value = "v".repeat(100);
        for key in ["a", "b", "c"] {
            client.call(&["SET", key, &value]);
        }
        client.call(&["GET", "a"]);
        client.call(&["GET", "missing"]);
        let mut shown = Vec::new();
        for kind in ["slow", "large-request", "large-reply"] {
            let Value::Array(entries) = client.call(&["COMMANDLOG", "GET", "-1", kind]) else {
                panic!("an array")
            };
            for entry in entries {
                let Value::Array(parts) = entry else { panic!("an entry") };
                shown.push((kind, parts[0].clone(), parts[2].clone(), parts[3].clone()));
            }
        }
        shown
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours.iter().filter(|entry| entry.0 == "large-request").count(), 2);
}

fn words(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| Value::Bulk(word.as_bytes().to_vec())).collect())
}
