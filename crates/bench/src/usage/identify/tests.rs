//! Servers that name their process, honestly and not.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, JoinHandle};

use super::super::Watch;
use super::{node_address, reply_length, server_processes};
use crate::options::Options;
use crate::report::tests::options;

/// Answers each line that begins with a known word, on as many connections as come, until the
/// listener's last connection is over.
fn serve(connections: usize, answer: fn(&str) -> Option<String>) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = thread::spawn(move || {
        let mut heard = Vec::new();
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection comes");
            let reader = BufReader::new(stream.try_clone().expect("it can be cloned"));
            for line in reader.lines().map_while(Result::ok) {
                let reply = answer(&line);
                heard.push(line);
                // A client that has heard enough may be gone before all lines are answered.
                if reply.is_some_and(|reply| stream.write_all(reply.as_bytes()).is_err()) {
                    break;
                }
            }
        }
        heard
    });
    (port, server)
}

fn local(port: u16) -> Options {
    let mut options = options();
    (options.port, options.authenticate) = (port, None);
    options
}

/// Seconds for which this process has run, by its own record.
fn own_uptime() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it is there");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let ticks: u64 = fields.split(' ').nth(19).expect("a start").parse().expect("a number");
    let uptime = std::fs::read_to_string("/proc/uptime").expect("it is there");
    let uptime: f64 = uptime.split(' ').next().expect("a number").parse().expect("a number");
    uptime as u64 - ticks / rustix::param::clock_ticks_per_second()
}

fn information(process: u32, uptime: u64) -> String {
    let text = format!("# Server\r\nprocess_id:{process}\r\nuptime_in_seconds:{uptime}\r\n");
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn a_local_server_is_found_and_measured() {
    let (port, server) =
        serve(2, |line| (line == "server").then(|| information(std::process::id(), own_uptime())));
    let watch = Watch::begin(&local(port), None);
    assert_eq!(watch.end().0.expect("it was found").pid, std::process::id());
    server.join().expect("it served");
}

#[test]
fn a_password_is_given_first() {
    let (port, server) = serve(2, |line| match line {
        "secret" => Some("+OK\r\n".into()),
        "server" => Some(information(std::process::id(), own_uptime())),
        _ => None,
    });
    let mut options = local(port);
    options.authenticate = Some((Some("user".into()), "secret".into()));
    assert_eq!(server_processes(&options), [std::process::id()]);
    let heard = server.join().expect("it served");
    assert!(heard.join(" ").starts_with("*3 $4 AUTH $4 user $6 secret *2 $4 INFO"), "{heard:?}");
}

#[test]
fn a_process_of_another_age_is_not_believed() {
    let (port, server) = serve(3, |line| {
        (line == "server").then(|| information(std::process::id(), own_uptime() + 86_400))
    });
    assert_eq!(server_processes(&local(port)), [0_u32; 0]);
    drop(server);
}

#[test]
fn memcached_is_asked_in_its_own_words() {
    let (port, server) = serve(3, |line| match line {
        "stats" => Some(format!(
            "STAT pid {}\r\nSTAT uptime {}\r\nSTAT time 1\r\nEND\r\n",
            std::process::id(),
            own_uptime()
        )),
        _ => Some("ERROR\r\n".into()),
    });
    assert_eq!(server_processes(&local(port)), [std::process::id()]);
    server.join().expect("it served");
}

#[test]
fn the_nodes_of_a_cluster_are_found() {
    static PORT: AtomicU16 = AtomicU16::new(0);
    let (port, server) = serve(3, |line| match line {
        "server" => Some(information(std::process::id(), own_uptime())),
        "NODES" => {
            let port = PORT.load(Ordering::Relaxed);
            let text = format!("07c3 127.0.0.1:{port}@1 myself,master - 0 0 1 connected 0-1\n");
            Some(format!("${}\r\n{text}\r\n", text.len()))
        }
        _ => None,
    });
    PORT.store(port, Ordering::Relaxed);
    let mut options = local(port);
    options.cluster = true;
    assert_eq!(server_processes(&options), [std::process::id()]);
    server.join().expect("it served");
}

#[test]
fn only_local_nodes_have_an_address() {
    let asked: SocketAddr = "127.0.0.1:7000".parse().expect("an address");
    let cases = [
        ("07c3 127.0.0.1:7001@17001,host slave 67ed", Some("127.0.0.1:7001")),
        ("07c3 :7000@17000 myself,master - 0", Some("127.0.0.1:7000")),
        ("07c3 ::1:7002@17002 master", Some("[::1]:7002")),
        ("07c3 10.0.0.9:7001@17001 master", None),
        ("07c3 127.0.0.1:99999@1 master", None),
        ("", None),
    ];
    for (line, address) in cases {
        assert_eq!(node_address(line, asked).map(|found| found.to_string()).as_deref(), address);
    }
}

#[test]
fn replies_are_as_long_as_they_say() {
    assert_eq!(reply_length(b"+OK"), None);
    assert_eq!(reply_length(b"+OK\r\n"), Some(5));
    assert_eq!(reply_length(b"$3\r\nab"), Some(9));
    assert_eq!(reply_length(b"$-1\r\n"), Some(5));
    assert_eq!(reply_length(b"$18446744073709551615\r\n"), None);
}
