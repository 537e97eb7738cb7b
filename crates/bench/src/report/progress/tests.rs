//! The progress line and the gauges, without and with a run behind them.

use std::net::UdpSocket;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use super::super::tests::options;
use super::{Live, Rates, Sample, draw, gauges, line};
use crate::options::{Statsd, Until};

fn rates() -> Rates {
    let sample = |seconds, requests, bytes, latency_us| Sample {
        elapsed: Duration::from_secs(seconds),
        requests,
        bytes,
        latency_us,
    };
    Rates {
        before: sample(9, 1_000_000, 100 << 20, 500_000_000),
        sample: sample(10, 1_200_000, 121 << 20, 660_000_000),
    }
}

#[test]
fn the_line_is_memtiers() {
    let mut options = options();
    options.until = Until::Time(Duration::from_secs(24));
    assert_eq!(
        line(&options, 1, &rates(), false),
        "[RUN #1 42%,  10 secs]  4 threads:     1200000 ops,  200000 (avg:  120000) ops/sec, \
         21.00MB/sec (avg: 12.10MB/sec),  0.80 (avg:  0.55) msec latency"
    );
    assert!(line(&options, 2, &rates(), true).starts_with("[RUN #2 100%,  10 secs]  0 threads:"));
}

#[test]
fn progress_is_known_by_time_by_requests_and_by_keys() {
    let mut options = options();
    let cases = [
        (Until::Time(Duration::from_secs(5)), "100%"),
        (Until::Requests(24_000), "25%"),
        (Until::AllKeys, "12%"),
        (Until::Requests(0), "100%"),
    ];
    for (until, percent) in cases {
        options.until = until;
        let text = line(&options, 1, &rates(), false);
        assert!(text.starts_with(&format!("[RUN #1 {percent},")), "{text}");
    }
}

#[test]
fn the_first_reading_divides_by_no_zero() {
    let nothing = Rates { before: Sample::default(), sample: Sample::default() };
    let text = line(&options(), 1, &nothing, false);
    assert!(text.contains("0 ops,       0 (avg:       0) ops/sec, 0B/sec (avg: 0B/sec)"), "{text}");
    assert!(gauges(&options(), &nothing, 0).iter().all(|(_, value, _)| value.is_finite()));
}

#[test]
fn statsd_gets_memtiers_metrics_and_zeros_at_the_end() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
    let mut options = options();
    options.output.statsd = Some(Statsd {
        host: "127.0.0.1".into(),
        port: server.local_addr().expect("it is bound").port(),
        prefix: "memtier".into(),
        label: "baseline".into(),
    });
    let live = Live::default();
    live.connections.store(200, Relaxed);
    live.requests.store(10, Relaxed);
    live.finished.store(true, Release);
    draw(&live, &options, 1);
    let mut buffer = [0; 2048];
    let mut receive = || {
        let count = server.recv(&mut buffer).expect("a datagram comes");
        String::from_utf8(buffer[..count].to_vec()).expect("it is text")
    };
    let names = |datagram: &str| -> Vec<String> {
        datagram
            .lines()
            .map(|line| {
                let (name, rest) = line.split_once(':').expect("a name and a value");
                let kind = rest.split_once('|').expect("a value and a kind").1;
                format!("{name}|{kind}")
            })
            .collect()
    };
    let first = receive();
    let expected = [
        "ops_sec|g",
        "ops_sec_avg|g",
        "bytes_sec|g",
        "bytes_sec_avg|g",
        "latency_ms|ms",
        "latency_avg_ms|ms",
        "connections|g",
        "progress_pct|g",
    ];
    assert_eq!(names(&first), expected.map(|name| format!("memtier.baseline.{name}")));
    assert!(first.contains("memtier.baseline.connections:200.000|g"), "{first}");
    let last = receive();
    assert_eq!(last.lines().count(), 5, "{last}");
    assert!(last.lines().all(|line| line.ends_with(":0.000|g")), "{last}");
}
