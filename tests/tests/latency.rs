//! LATENCY: what was slow, and how long commands take.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use proto::value::Value;
use tests::{Client, Duel, Oracle, Server, check};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// Whatever has the same reply on Redis 8.2.
const COMMON: &str = r#"
    LATENCY
    LATENCY NOSUCH
    LATENCY HELP
    LATENCY HELP x
    LATENCY DOCTOR
    LATENCY DOCTOR x
    LATENCY LATEST
    LATENCY LATEST x
    LATENCY HISTORY
    LATENCY HISTORY command
    LATENCY HISTORY a b
    LATENCY GRAPH
    LATENCY GRAPH command
    LATENCY GRAPH a b
    LATENCY RESET
    LATENCY RESET command fast-command
    LATENCY HISTOGRAM nosuch
    CONFIG SET latency-monitor-threshold 1000
    LATENCY DOCTOR
    LATENCY LATEST
    CONFIG SET latency-monitor-threshold -1
"#;

#[test]
fn replies_are_those_of_redis() {
    for connect in [Server::client, Server::client3] {
        let (ours, theirs) = (Server::start(DEBUG), Oracle::Redis82.start(DEBUG));
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        for line in COMMON.lines().map(str::trim).filter(|line| !line.is_empty()) {
            duel.run(base::quote::split_arguments(line.as_bytes()).unwrap());
        }
    }
}

fn text(client: &mut Client, arguments: &[&str]) -> String {
    let reply = client.call(arguments);
    String::from_utf8(reply.as_bytes().unwrap_or_else(|| panic!("{reply:?}")).to_vec()).unwrap()
}

#[test]
fn slow_events_are_remembered_until_they_are_reset() {
    let server = Server::start(DEBUG);
    let mut client = server.client();
    check(&mut client, "> DEBUG SLEEP 0.02\nOK\n> LATENCY LATEST\n(empty array)");
    check(&mut client, "> CONFIG SET latency-monitor-threshold 5\nOK\n> DEBUG SLEEP 0.02\nOK");
    let latest = "> LATENCY LATEST\n~ 1) 1) *\n~    2) (integer) 1*\n~    3) (integer) 2?\n\
                  ~    4) (integer) 2?";
    check(&mut client, latest);
    std::thread::sleep(Duration::from_millis(1010));
    check(&mut client, "> DEBUG SLEEP 0.05\nOK");
    let Value::Array(history) = client.call(&["LATENCY", "HISTORY", "COMMAND"]) else { panic!() };
    assert_eq!(history.len(), 2, "one sample for each second");
    let graph = text(&mut client, &["LATENCY", "GRAPH", "command"]);
    assert!(graph.starts_with("command - high 5") && graph.ends_with("s\n"), "{graph}");
    let report = text(&mut client, &["LATENCY", "DOCTOR"]);
    assert!(report.contains("1. command: 2 latency spikes (average "), "{report}");
    assert!(report.contains("'CONFIG SET slowlog-log-slower-than 5000'"), "{report}");
    check(&mut client, "> CONFIG SET slowlog-log-slower-than -1\nOK");
    let report = text(&mut client, &["LATENCY", "DOCTOR"]);
    assert!(report.contains("Try to enable the Slow Log"), "{report}");
    check(&mut client, "> LATENCY RESET nosuch command\n(integer) 1\n> LATENCY RESET\n(integer) 0");
    check(&mut client, "> LATENCY LATEST\n(empty array)");
}

#[test]
fn work_on_other_threads_counts() {
    let server =
        Server::start(&["--latency-monitor-threshold", "1", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    // On a busy machine some other event may have been slow as well.
    check(&mut client, "> DEBUG POPULATE 200000\nOK\n> LATENCY RESET\n~ (integer) *");
    // So many keys are listed on a heavy-work thread.
    client.call(&["KEYS", "*"]);
    let Value::Array(history) = client.call(&["LATENCY", "HISTORY", "command"]) else { panic!() };
    assert!(!history.is_empty());
}

/// Makes a list of so many thousand elements, and pops all of them by one call.
const MAKE: &str = "local t = {} for i = 1, 1000 do t[i] = 'v' .. i end \
                    for i = 1, ARGV[1] do redis.call('rpush', KEYS[1], unpack(t)) end";
const POP: &str = "return #redis.call('lpop', KEYS[1], ARGV[1] * 1000)";

/// EVAL is none of the fast commands, LPOP is one.
#[test]
fn what_a_script_calls_is_an_event_of_its_own() {
    let options = &["--latency-monitor-threshold", "1"][..];
    for server in [Server::start(options), Oracle::Redis82.start(options)] {
        let mut client = server.client();
        client.call(&["EVAL", MAKE, "1", "k", "600"]);
        client.call(&["LATENCY", "RESET"]);
        let popped = client.call(&["EVAL", POP, "1", "k", "600"]);
        assert_eq!(popped, Value::Integer(600_000));
        let history = client.call(&["LATENCY", "HISTORY", "fast-command"]);
        let Value::Array(samples) = &history else { panic!("samples: {history:?}") };
        assert!(!samples.is_empty(), "{}", if server.is_oracle() { "Redis" } else { "Apus" });
    }
}

#[test]
fn histograms_count_every_call() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    check(&mut client, "> LATENCY HISTOGRAM get\n(empty hash)");
    for _ in 0..10 {
        check(&mut client, "> GET k\n(nil)");
    }
    check(&mut client, "> CLIENT ID\n~ (integer) *\n> CLIENT GETNAME\n(nil)");
    let Value::Map(commands) = client.call(&["LATENCY", "HISTOGRAM", "GET", "client", "nosuch"])
    else {
        panic!("a map");
    };
    let names: Vec<String> = commands
        .iter()
        .map(|(name, _)| String::from_utf8(name.as_bytes().unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(names, ["get", "client|getname", "client|id"]);
    let Value::Map(figures) = &commands[0].1 else { panic!("a map") };
    assert_eq!(figures[0], (Value::Bulk(b"calls".to_vec()), Value::Integer(10)));
    let Value::Map(buckets) = &figures[1].1 else { panic!("a map") };
    assert_eq!(buckets.last().unwrap().1, Value::Integer(10));
    check(&mut client, "> LATENCY RESET\n(integer) 0");
    let Value::Map(all) = client.call(&["LATENCY", "HISTOGRAM"]) else { panic!("a map") };
    assert!(all.len() >= 5, "LATENCY RESET leaves the histograms");
    check(&mut client, "> CONFIG SET latency-tracking no\nOK\n> LATENCY HISTOGRAM\n(empty hash)");
}

/// What 99 of 100 calls of EVAL take: so many turns of a loop, by as many calls as make a window.
fn loop_often(client: &mut Client, turns: u64) {
    let script = "for i = 1, tonumber(ARGV[1]) do end";
    let turns = turns.to_string();
    client.pipeline(&vec![vec!["EVAL", script, "0", &turns]; 120]);
}

/// The labels of EVAL's calls that bring and get little.
const EVAL: &str = "{command=\"eval\",size=\"small\"}";

fn metric(port: u16, name: &str) -> Option<f64> {
    let told = tests::http::send(port, "GET", "/metrics", "", "").body;
    told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_command_that_strays_from_its_best_is_told() {
    let port = tests::server::free_port();
    let text = port.to_string();
    let more = ["--http-port", &text, "--latency-baseline-window", "1"];
    let server = Server::start(&[&more[..], &["--latency-monitor-threshold", "1"]].concat());
    let mut client = server.client();
    tests::server::eventually("the best is learned", || {
        loop_often(&mut client, 1);
        metric(port, &format!("apus_command_best_p99_seconds{EVAL}")).is_some()
    });
    // However slow the machine was while that was learned, this is slower in the end.
    let mut turns = 20_000;
    tests::server::eventually("it strays", || {
        loop_often(&mut client, turns);
        turns = (turns * 2).min(50_000_000);
        metric(port, &format!("apus_command_latency_regressions_total{EVAL}"))
            .is_some_and(|it| it > 0.0)
    });
    server.expect_log("Command 'eval' strays from its best: 99% of its small calls took up to ");
    let regressed = tests::http::send(port, "GET", "/api/latency", "", "").json();
    assert_eq!(regressed["regressed"][0]["command"], "eval", "{}", regressed["regressed"]);
    assert_eq!(client.figure("regressed_commands"), 1);
    let history = client.call(&["LATENCY", "HISTORY", "command-regression"]);
    assert!(matches!(&history, Value::Array(samples) if !samples.is_empty()), "{history:?}");
    tests::server::eventually("it is itself again", || {
        loop_often(&mut client, 1);
        server.log().contains("Command 'eval' is itself again")
    });
}

#[test]
fn no_command_is_compared_where_that_is_off() {
    let port = tests::server::free_port();
    let server =
        Server::start(&["--http-port", &port.to_string(), "--latency-baseline-window", "0"]);
    let mut client = server.client();
    for _ in 0..20 {
        loop_often(&mut client, 1);
    }
    assert_eq!(metric(port, &format!("apus_command_best_p99_seconds{EVAL}")), None);
}

/// What moves much is compared with its own best, so a large value makes no command stray.
#[test]
fn each_size_of_calls_has_a_best_of_its_own() {
    let port = tests::server::free_port();
    let server =
        Server::start(&["--http-port", &port.to_string(), "--latency-baseline-window", "1"]);
    let mut client = server.client();
    let values = [10, 10_000, 100_000].map(|length| "v".repeat(length));
    let of = |size: &str| format!("{{command=\"set\",size=\"{size}\"}}");
    tests::server::eventually("each is learned", || {
        for value in &values {
            client.pipeline(&vec![vec!["SET", "key", value]; 120]);
        }
        ["small", "medium", "large"].iter().all(|size| {
            metric(port, &format!("apus_command_best_p99_seconds{}", of(size))).is_some()
        })
    });
    let calls = client.info("cmdstat_set");
    assert!(calls.starts_with("calls="), "{calls}");
    let histogram = metric(port, "apus_command_duration_seconds_count{command=\"set\"}");
    let told = calls.trim_start_matches("calls=").split(',').next().and_then(|it| it.parse().ok());
    assert_eq!(histogram, told, "the histogram is that of all sizes");
}

/// Where the system tells how long threads wait for a core, each worker's is told.
#[test]
fn waits_for_a_core_are_told_of_each_worker() {
    let port = tests::server::free_port();
    let more = ["--http-port", &port.to_string(), "--worker-threads", "2"];
    let server = Server::start(&more);
    let mut client = server.client();
    if !std::path::Path::new("/proc/self/schedstat").exists() {
        return assert!(!client.info("worker_0").contains("core_wait_us"));
    }
    for worker in ["worker_0", "worker_1"] {
        tests::server::eventually("the slow clock has looked", || {
            client.info(worker).contains(",core_wait_us=")
        });
    }
    assert!(metric(port, "apus_worker_core_wait_seconds_total{worker=\"1\"}").is_some());
}
