//! What is exported to a collector of OpenTelemetry: the metrics of `/metrics`, slow commands, and
//! what the directives say of both.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tests::collector::{Collector, attribute, value_of};
use tests::http::send;
use tests::replication::{await_replica, follow};
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Server, check};

/// A server that exports to a collector each second.
fn start(collector: &Collector, more: &[&str]) -> Server {
    let url = collector.url();
    Server::start(&[&["--otlp-endpoint", &url, "--otlp-interval", "1"], more].concat())
}

/// The first span of this name, once it came.
#[track_caller]
fn span(collector: &Collector, name: &str) -> Span {
    let find = || collector.spans().into_iter().find(|span| span.name == name);
    eventually(&format!("a span {name}"), || find().is_some());
    find().expect("it came")
}

/// The threads of a server that export.
fn threads(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name == "otlp\n").count()
}

#[test]
fn what_is_exported_is_what_metrics_say() {
    let (collector, port) = (Collector::start(), free_port());
    let port_text = port.to_string();
    let more =
        ["--http-port", &port_text, "--otlp-service-name", "store", "--otlp-arguments", "yes"];
    let server = start(&collector, &more);
    check(&mut server.client(), "> SET a 1\nOK\n> SET b 2\nOK\n> GET a\n\"1\"");
    let told = || -> BTreeSet<String> {
        let text = send(port, "GET", "/metrics", "", "").body;
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        names.map(|name| name.strip_suffix("_total").unwrap_or(name).to_owned()).collect()
    };
    let calls = [("command", "set")];
    // Families of what happened meanwhile come with the next export.
    eventually("the same names are in both", || {
        let metrics = collector.latest_metrics();
        let names: BTreeSet<_> = metrics.iter().map(|it| it.name.clone()).collect();
        names == told() && value_of(&metrics, "apus_commands", &calls) == Some((2.0, true))
    });
    let metrics = collector.latest_metrics();
    assert_eq!(value_of(&metrics, "apus_db_keys", &[("db", "0")]), Some((2.0, false)));
    let info = metrics.iter().find(|it| it.name == "apus_server_info").expect("it is there");
    assert!(matches!(info.data, Some(Data::Gauge(_))), "{info:?}");
    let memory = metrics.iter().find(|it| it.name == "apus_memory_used_bytes");
    assert_eq!(memory.map(|it| &*it.unit), Some("By"), "{metrics:?}");
    let durations = metrics.iter().find(|it| it.name == "apus_command_duration_seconds");
    let durations = durations.expect("commands ran");
    assert_eq!(durations.unit, "s");
    let Some(Data::Histogram(histogram)) = &durations.data else { panic!("{durations:?}") };
    let of_set =
        histogram.data_points.iter().find(|it| attribute(&it.attributes, "command") == "set");
    let of_set = of_set.expect("SET ran");
    assert_eq!((of_set.count, of_set.bucket_counts.iter().sum::<u64>()), (2, 2));
    assert_eq!(of_set.bucket_counts.len(), of_set.explicit_bounds.len() + 1);
    assert!(of_set.start_time_unix_nano > 0 && of_set.time_unix_nano > of_set.start_time_unix_nano);
    let exports = collector.exports_to("/v1/metrics");
    assert_eq!(exports[0].header("content-type"), Some("application/x-protobuf"));
    let request = exports[0].metrics_request();
    let resource = request.resource_metrics[0].resource.as_ref().expect("there is one");
    assert_eq!(attribute(&resource.attributes, "service.name"), "store");
    let mut client = server.client();
    assert_eq!(attribute(&resource.attributes, "service.instance.id"), client.info("run_id"));
    assert_eq!(attribute(&resource.attributes, "service.version"), client.info("apus_version"));
    assert!(client.figure("otlp_points_exported") > 100);
    assert!(collector.spans().is_empty(), "spans are not asked for");
}

#[test]
fn slow_commands_are_spans_without_their_arguments() {
    let collector = Collector::start();
    let server = start(&collector, &["--otlp-traces", "yes", "--slowlog-log-slower-than", "0"]);
    let mut client = server.client();
    check(&mut client, "> SELECT 3\nOK\n> SET sesame 1\nOK\n> CONFIG GET sesame\n(empty array)");
    check(&mut client, "> EVAL \"return redis.call('INCR', KEYS[1])\" 1 sesame\n(integer) 2");
    let set = span(&collector, "SET");
    assert_eq!((set.trace_id.len(), set.span_id.len()), (16, 8));
    assert!(set.parent_span_id.is_empty() && set.span_id != [0; 8]);
    assert_eq!(set.kind(), SpanKind::Server);
    assert!(set.end_time_unix_nano >= set.start_time_unix_nano && set.start_time_unix_nano > 0);
    let port = server.port().to_string();
    for (name, value) in [
        ("db.system.name", "redis"),
        ("db.operation.name", "SET"),
        ("db.namespace", "3"),
        ("client.address", "127.0.0.1"),
        ("server.address", "127.0.0.1"),
        ("server.port", &port),
        ("network.transport", "tcp"),
    ] {
        assert_eq!(attribute(&set.attributes, name), value, "{name}");
    }
    let get = span(&collector, "CONFIG GET");
    assert_eq!(attribute(&get.attributes, "db.operation.name"), "CONFIG GET");
    // No client has sent what a script calls.
    let called = span(&collector, "INCR");
    assert!(!called.attributes.iter().any(|it| it.key == "client.address"), "{called:?}");
    assert_eq!(attribute(&called.attributes, "db.namespace"), "3");
    let is_told = |text: &str| {
        let holds = |body: &[u8]| body.windows(text.len()).any(|part| part == text.as_bytes());
        collector.exports().iter().any(|export| holds(&export.body))
    };
    assert!(!is_told("sesame") && !is_told("db.query.text"), "no argument is told");
    eventually("spans are counted", || client.figure("otlp_spans_exported") >= 4);
    check(&mut client, "> CONFIG SET otlp-arguments yes\nOK\n> SET sesame \"a b\"\nOK");
    check(&mut client, "> AUTH nobody swordfish\n~ (error) WRONGPASS*\n");
    eventually("arguments are told", || is_told("SET sesame \"a b\""));
    span(&collector, "AUTH");
    assert!(!is_told("swordfish"), "a password is none that is told");
}

#[test]
fn snapshots_and_rewrites_are_spans() {
    let collector = Collector::start();
    let server = start(&collector, &["--otlp-traces", "yes", "--appendonly", "yes"]);
    let mut client = server.client();
    check(&mut client, "> SET a 1\nOK");
    client.call(&["BGREWRITEAOF"]);
    let rewrite = span(&collector, "aof rewrite");
    client.call(&["BGSAVE"]);
    let snapshot = span(&collector, "snapshot");
    for task in [rewrite, snapshot] {
        assert_eq!((task.kind(), task.status), (SpanKind::Internal, None), "{}", task.name);
        assert!(task.end_time_unix_nano >= task.start_time_unix_nano);
    }
}

#[test]
fn exports_begin_and_end_by_config_set() {
    let (first, second) = (Collector::start(), Collector::start());
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut set = |value: &str| {
        let words = ["CONFIG", "SET", "otlp-interval", "1", "otlp-endpoint", value];
        assert_eq!(client.call(&words), proto::value::Value::Simple(b"OK".to_vec()));
    };
    assert_eq!(threads(&server), 0, "without an endpoint nothing exports");
    set(&first.url());
    assert_eq!(threads(&server), 1);
    first.wait_for_more(2);
    set(&second.url());
    second.wait_for_more(1);
    // What was under way is over, as one request is at a time.
    let before = first.exports().len();
    second.wait_for_more(2);
    assert_eq!(first.exports().len(), before, "the endpoint is another one");
    set("");
    set(&format!("{}/below/", first.url()));
    eventually("the path is below that of the URL", || {
        !first.exports_to("/below/v1/metrics").is_empty()
    });
    assert_eq!(threads(&server), 1);
}

#[test]
fn without_an_endpoint_nothing_is_noted() {
    let server = Server::start(&["--otlp-traces", "yes", "--slowlog-log-slower-than", "0"]);
    let mut client = server.client();
    let requests: Vec<_> = (0..3000).map(|_| vec!["PING"]).collect();
    client.pipeline(&requests);
    assert_eq!(client.figure("otlp_spans_dropped"), 0);
    assert_eq!(threads(&server), 0);
}

#[test]
fn what_cannot_be_exported_to_is_refused() {
    let server = Server::start(&["--otlp-headers", "a=1"]);
    let mut client = server.client();
    for (name, value, why) in [
        ("otlp-endpoint", "localhost:4318", "begins with http:// or https://"),
        ("otlp-endpoint", "http://ada:sesame@localhost", "name it by otlp-headers"),
        ("otlp-endpoint", "https://localhost:4318", "tls-ca-cert-file"),
        ("otlp-headers", "a=1,sesame", "header 2 is no name=value"),
        ("otlp-headers", "content-length=1", "header 1 has a name that cannot be set"),
        ("otlp-interval", "0", "must be between"),
    ] {
        let reply = client.call(&["CONFIG", "SET", name, value]);
        let proto::value::Value::Error(text) = reply else { panic!("{value}: {reply:?}") };
        let text = String::from_utf8(text).expect("an error is a text");
        assert!(text.contains(name) && text.contains(why), "{text}");
        assert!(!text.contains("sesame"), "{text}");
    }
    check(&mut client, "> CONFIG GET otlp-endpoint\n1) \"otlp-endpoint\"\n2) \"\"");
    check(&mut client, "> CONFIG GET otlp-headers\n1) \"otlp-headers\"\n2) \"a=1\"");
    let (status, log) = Server::refuses(&["--port", "0", "--otlp-endpoint", "ftp://localhost"]);
    assert!(!status.success() && log.contains("otlp-endpoint: it must be a URL"), "{log}");
}

#[test]
fn headers_are_sent_and_told_nobody_else() {
    let collector = Collector::start();
    let server = start(&collector, &["--loglevel", "debug", "--slowlog-log-slower-than", "0"]);
    let mut client = server.client();
    let headers = "authorization=Bearer%20sesame,x-tenant=a%2Cb";
    client.call(&["CONFIG", "SET", "otlp-headers", headers]);
    let last = || collector.exports().last().cloned();
    eventually("the headers come", || {
        last().is_some_and(|it| it.header("authorization") == Some("Bearer sesame"))
    });
    assert_eq!(last().expect("one came").header("x-tenant"), Some("a,b"));
    collector.conduct(tests::collector::Conduct::Says(401, ""));
    server.expect_log("Cannot export telemetry to ");
    let log = format!("{:?}", client.call(&["SLOWLOG", "GET", "100"]));
    assert!(!log.contains("sesame"), "{log}");
    assert!(!server.log().contains("sesame"), "{}", server.log());
}

#[test]
fn a_collector_is_trusted_by_its_authority_and_its_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let file = authority.file().display().to_string();
    let own = authority.issue("collector", None);
    // The certificate is of `localhost` and 127.0.0.1.
    let good = Collector::start_encrypted("127.0.0.1", &own);
    let server = start(&good, &["--tls-ca-cert-file", &file]);
    good.wait_for_more(2);
    assert!(!good.latest_metrics().is_empty());
    let wrong_name = Collector::start_encrypted("127.0.0.2", &own);
    let stranger = Collector::start_encrypted("127.0.0.1", &other.issue("collector", None));
    let mut client = server.client();
    for bad in [&wrong_name, &stranger] {
        let before = client.figure("otlp_requests_failed");
        client.call(&["CONFIG", "SET", "otlp-endpoint", &bad.url()]);
        eventually("it is refused", || client.figure("otlp_requests_failed") > before + 1);
        assert!(bad.exports().is_empty(), "nothing is told to whom nobody trusts");
    }
    client.call(&["CONFIG", "SET", "otlp-endpoint", &good.url()]);
    good.wait_for_more(1);
}

#[test]
fn a_confined_server_exports() {
    let collector = Collector::start();
    let server = start(&collector, &["--sandbox", "yes", "--otlp-traces", "yes"]);
    let mut client = server.client();
    check(&mut client, "> CONFIG SET slowlog-log-slower-than 0\nOK\n> SET a 1\nOK");
    span(&collector, "SET");
    assert!(!collector.latest_metrics().is_empty());
    assert_eq!(client.figure("otlp_requests_failed"), 0);
}

#[test]
fn full_syncs_and_failovers_are_spans() {
    let collector = Collector::start();
    let primary = start(&collector, &["--otlp-traces", "yes"]);
    let replica = Server::start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    assert_eq!(span(&collector, "full sync").status, None);
    let mut client = primary.client();
    // The port is of nobody.
    let to = free_port().to_string();
    check(&mut client, &format!("> FAILOVER TO 127.0.0.1 {to}\n~ (error) ERR *\n"));
    let to = replica.port().to_string();
    check(&mut client, &format!("> FAILOVER TO 127.0.0.1 {to}\nOK"));
    let failover = span(&collector, "failover");
    assert_eq!((failover.kind(), failover.status), (SpanKind::Internal, None));
}
