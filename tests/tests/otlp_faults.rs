//! Collectors that refuse, hang, close or speak without end: clients are served all the same, and
//! what was not exported is counted.

use std::net::TcpListener;

use tests::collector::{Collector, Conduct};
use tests::server::eventually;
use tests::{Client, Server, check};

fn start(url: &str, more: &[&str]) -> Server {
    Server::start(&[&["--otlp-endpoint", url, "--otlp-interval", "1"], more].concat())
}

/// Waits until so many more requests have failed.
#[track_caller]
fn fails(client: &mut Client, count: i64) {
    let before = client.figure("otlp_requests_failed");
    eventually("exports fail", || client.figure("otlp_requests_failed") >= before + count);
}

#[test]
fn a_collector_that_refuses_connections_is_told_of_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let server = start(&format!("http://127.0.0.1:{port}"), &[]);
    let mut client = server.client();
    fails(&mut client, 3);
    check(&mut client, "> PING\nPONG");
    let log = server.log();
    assert_eq!(log.matches("Cannot export telemetry to").count(), 1, "{log}");
    assert!(log.contains(&format!("Cannot export telemetry to 127.0.0.1:{port}: ")), "{log}");
    assert_eq!(client.figure("otlp_points_exported"), 0);
}

/// What the specification says may be sent again is sent again as it was, and when the collector
/// said.
#[test]
fn what_may_be_sent_again_is_sent_again() {
    let collector = Collector::start();
    for status in [429, 502, 503, 504] {
        collector.conduct(Conduct::Says(status, "Retry-After: 0\r\n"));
        let before = collector.exports().len();
        let server = start(&collector.url(), &[]);
        let mut client = server.client();
        fails(&mut client, 2);
        collector.conduct(Conduct::Takes);
        eventually("it is taken", || client.figure("otlp_points_exported") > 0);
        server.expect_log("Telemetry is exported again");
        let exports = collector.exports();
        assert_eq!(exports[before].body, exports[before + 1].body, "{status}");
        assert_eq!(client.figure("otlp_points_failed"), 0, "{status}");
    }
}

#[test]
fn what_is_refused_is_never_sent_again() {
    let collector = Collector::start();
    collector.conduct(Conduct::Says(400, "Retry-After: 0\r\n"));
    let server = start(&collector.url(), &[]);
    let mut client = server.client();
    collector.wait_for_more(3);
    let exports = collector.exports();
    assert!(exports.windows(2).all(|pair| pair[0].body != pair[1].body), "each is another one");
    assert!(client.figure("otlp_points_failed") > 0);
    assert_eq!(client.figure("otlp_points_exported"), 0);
    assert!(client.figure("otlp_requests_failed") >= 2);
}

#[test]
fn a_redirection_is_not_followed() {
    let (collector, elsewhere) = (Collector::start(), Collector::start());
    collector.conduct(Conduct::Says(307, "Location: /elsewhere\r\n"));
    let server = start(&collector.url(), &["--otlp-headers", "authorization=sesame"]);
    fails(&mut server.client(), 2);
    assert!(elsewhere.exports().is_empty() && collector.exports_to("/elsewhere").is_empty());
}

#[test]
fn collectors_that_say_nothing_or_too_much_hold_nobody_up() {
    let collector = Collector::start();
    collector.conduct(Conduct::Closes);
    let server = start(&collector.url(), &[]);
    let mut client = server.client();
    for conduct in [Conduct::Closes, Conduct::SpeaksWithoutEnd, Conduct::Hangs] {
        collector.conduct(conduct);
        collector.wait_for_more(1);
        // The endpoint has a request, and says nothing that would be an answer.
        check(&mut client, "> SET a 1\nOK\n> PING\nPONG");
        fails(&mut client, 1);
    }
    assert_eq!(client.figure("otlp_points_exported"), 0);
    collector.conduct(Conduct::TakesWithoutEnd);
    eventually("its head says all", || client.figure("otlp_points_exported") > 0);
    let exported = client.figure("otlp_points_exported");
    collector.conduct(Conduct::Takes);
    eventually("more are exported", || client.figure("otlp_points_exported") > exported);
}

#[test]
fn spans_that_find_no_room_are_dropped_and_counted() {
    let collector = Collector::start();
    // Longer than the test takes.
    collector.conduct(Conduct::Says(503, "Retry-After: 3600\r\n"));
    let more = ["--otlp-traces", "yes", "--slowlog-log-slower-than", "0"];
    let server = start(&collector.url(), &more);
    let mut client = server.client();
    eventually("the collector asks for a pause", || client.figure("otlp_points_failed") > 0);
    let requests: Vec<_> = (0..3000).map(|_| vec!["PING"]).collect();
    assert_eq!(client.pipeline(&requests).len(), 3000);
    let dropped = client.figure("otlp_spans_dropped");
    assert!(dropped >= 3000 - 2048, "{dropped}");
    assert_eq!(collector.exports().len(), 1, "nothing is sent before the collector said");
    // Another endpoint asked for no pause.
    let other = Collector::start();
    client.call(&["CONFIG", "SET", "otlp-endpoint", &other.url()]);
    eventually("what waited is exported", || other.spans().len() >= 2048);
    eventually("all of it is counted", || client.figure("otlp_spans_exported") >= 2048);
    collector.conduct(Conduct::Takes);
}

#[test]
fn a_server_ends_while_its_collector_hangs() {
    let collector = Collector::start();
    collector.conduct(Conduct::Hangs);
    let server = start(&collector.url(), &[]);
    collector.wait_for_more(1);
    assert!(server.terminate().success());
}
