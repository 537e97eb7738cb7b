//! What memcached makes of values at the edges of their types, of lines that are none of its own,
//! and of conditions that ask for nothing: the same sessions are played to it.
//!
//! Invariant: whatever is asked, the answers are the same to the letter, but for CAS values.

use std::process::Command;

use tests::environment::binary;
use tests::memcached::{Connection, Memcached};
use tests::server::eventually;

use super::{Talk, start};

/// Each begins with an item `q` that holds `1`.
const SESSIONS: &[&str] = &[
    "set q 0 4294967295 1\r\nx\r\nget q\r\n",
    "set q 0 2147483648 1\r\nx\r\nget q\r\n",
    "set q 0 2147483647 1\r\nx\r\nget q\r\n",
    "set q 0 4294967296 1\r\nx\r\nmg q t\r\n",
    "set q 0 4294967297 1\r\nx\r\nmg q t\r\n",
    "set q 0 -4294967286 1\r\nx\r\nmg q t\r\n",
    "set q 0 9223372036854775807 1\r\nx\r\nget q\r\n",
    "set q 0 -9223372036854775808 1\r\nx\r\nget q\r\n",
    "touch q 4294967295\r\nget q\r\n",
    "touch q 2147483648\r\nget q\r\n",
    "touch q 4294967296\r\nmg q t\r\n",
    "gat 4294967295 q\r\nget q\r\n",
    "ms q 1 T4294967295\r\nx\r\nmg q v\r\n",
    "ms q 1 T4294967296\r\nx\r\nmg q v t\r\n",
    "mg q T4294967295 v\r\nmg q v\r\n",
    "set a 4294967296 0 1\r\n1\r\nget a\r\n",
    "set a 4294967297 0 1\r\n1\r\nget a\r\n",
    "set a 18446744073709551615 0 1\r\n1\r\nget a\r\n",
    "set a 18446744073709551616 0 1\r\n1\r\nset a -1 0 1\r\n1\r\nget a\r\n",
    "ms a 1 F4294967297\r\n1\r\nmg a f\r\n",
    "set q 0 10 1\r\nx\r\nmg q R30 T1000 v\r\nmg q v\r\n",
    "set q 0 10 1\r\nx\r\nmg q T1000 R30 v t\r\n",
    "set q 0 100 1\r\nx\r\nmg q R30 T-1 v\r\n",
    "set q 0 10 1\r\nx\r\nmg q t T1000\r\nmg q t\r\n",
    "set q 0 10 1\r\nx\r\nmg q T1000 t\r\n",
    "mg q R4294967295 v\r\n",
    "ma q C0\r\nget q\r\nma q C0 MD\r\nma q C1\r\nma none C0\r\nma none C0 N0 v\r\n",
    "ms q 1 C0 MA\r\n5\r\nms q 1 C0 MP\r\n5\r\nms q 1 C0 MA I\r\n5\r\nmg q v\r\n",
    "ms none 1 C0 MA\r\n5\r\nms q 1 MA C1\r\n5\r\nms q 1 C0 MS\r\n5\r\nmg q v\r\n",
    "incr q -0\r\ndecr q -0\r\nincr q -1\r\nma q D-0\r\nma q D-1\r\nma n N0 J-0 v\r\n",
    "incr q -18446744073709551615\r\nincr q -9223372036854775808\r\n",
    "incr q -9223372036854775809\r\nget q\r\n",
    "ms q 1 F-0\r\n5\r\nms q 1 F-1\r\n5\r\nms q 1 C-0\r\n5\r\nms q 1 C-1\r\n5\r\nmg q f\r\n",
    "set q -0 0 1\r\n5\r\nset q -1 0 1\r\n5\r\nget q\r\n",
    "set q -18446744073709551615 0 1\r\n5\r\nget q\r\n",
    "cas q 0 0 1 -0\r\n5\r\ncas q 0 0 1 -1\r\n5\r\nverbosity -0\r\nverbosity -1\r\n",
    "set q -0 -0 -0\r\n\r\nset q +1 +0 +1\r\n5\r\nset q 0 0 -1\r\n5\r\nget q\r\n",
    "ms q 1 C0\r\n5\r\nms q 1 I C0\r\n5\r\nms q 1 C0 MR\r\n5\r\nms q 1 I C1\r\n5\r\nmg q v s\r\n",
    "ms none 1 C0\r\n5\r\nmd q C0\r\nmd none C0\r\ncas q 0 0 1 0\r\n5\r\ncas none 0 0 1 0\r\n5\r\n",
    "touch q 0\r\nmg q h\r\n",
    "mg q h t\r\nmg q h\r\n",
    "incr q 1\r\nmg q h\r\n",
    "set q 0 0 2\r\n-0\r\nincr q 1\r\n",
    "set q 0 0 2\r\n-0\r\nincr q 7\r\nset q 0 0 3\r\n -0\r\nincr q 1\r\n",
    "set q 0 0 2\r\n-1\r\nincr q 1\r\nset q 0 0 2\r\n0-\r\nincr q 1\r\n",
    "set q 0 0 20\r\n-9223372036854775809\r\nincr q 1\r\n",
    "set q 0 0 20\r\n-9223372036854775808\r\nincr q 1\r\n",
    "set q 0 0 21\r\n-18446744073709551615\r\nincr q 1\r\n",
    "get GET\r\nGET\r\nGET q\r\nPOST q x\r\nA b c HTTP/1.1\r\nget q HTTP/1.1\r\n",
    "FOO bar HTTP\r\nFOO bar http/1.1\r\nFOO bar xHTTP/1.1\r\nmg q HTTP/1.1\r\n",
];

#[test]
fn values_at_the_edge_mean_what_they_mean_in_memcached() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    for session in SESSIONS {
        let play = |server: &Memcached| {
            server.connect().line(&format!("flush_all\r\nset q 0 0 1\r\n1\r\n{session}"))
        };
        assert_eq!(play(&ours), play(&theirs), "{session}");
    }
}

#[test]
fn an_item_has_no_room_for_more_than_the_largest_value() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    let (half, whole) = ("x".repeat(600_000), "x".repeat(1_100_000));
    let mut requests = vec![
        format!("append q 0 0 600000\r\n{half}\r\nmg q s\r\n"),
        format!("prepend q 0 0 600000\r\n{half}\r\nmg q s\r\n"),
        format!("ms q 600000 MA\r\n{half}\r\nmg q s\r\n"),
        format!("cas q 0 0 1100000 1\r\n{whole}\r\nmg q s\r\n"),
        format!("ms q 1100000 MA\r\n{whole}\r\nmg q s\r\n"),
    ];
    for name in ["set", "add", "replace", "append", "prepend"] {
        requests.push(format!("{name} q 0 0 1100000\r\n{whole}\r\nmg q s\r\n"));
    }
    for request in &requests {
        let play = |server: &Memcached| {
            let mut connection = server.connect();
            assert_eq!(connection.line(&format!("set q 0 0 600000\r\n{half}\r\n")), "STORED\r\n");
            connection.line(request)
        };
        assert_eq!(play(&ours), play(&theirs), "{}", &request[..20]);
    }
}

/// What no client of memcached sends ends the connection without a word.
#[test]
fn what_is_no_request_closes() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    for bytes in [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "POST / HTTP/1.0\r\n\r\nset k 0 0 1\r\nx\r\n".to_owned(),
        "FOO HTTP/1.1\r\n".to_owned(),
        "x".repeat(2049),
        format!("set {}", "x".repeat(2100)),
        format!("mg {}", "x".repeat(2100)),
    ] {
        for server in [&ours, &theirs] {
            let mut connection = server.connect();
            connection.send(bytes.as_bytes());
            assert_eq!(connection.rest(), b"", "{bytes}");
        }
    }
    // A client that asks for many keys may take its time.
    for server in [&ours, &theirs] {
        let mut connection = server.connect();
        connection.send(format!("get {}", "k ".repeat(2000)).as_bytes());
        assert_eq!(connection.line("\r\n"), "END\r\n");
    }
}

#[test]
fn a_description_names_the_key_itself() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    talk.send("me YQ== b\r\ntouch a 0\r\nme a\r\n");
    let said = talk.read_to("TOUCHED");
    assert!(said.starts_with("ME a exp=-1 la=0 ") && said.contains(" fetch=no "), "{said}");
    talk.send("version\r\n");
    let said = talk.read_to("VERSION 1.6.18");
    assert!(said.contains(" fetch=yes "), "{said}");
    // A key that would not be one word stays in base64, as in memcached.
    talk.ask("ms DQpWQQ== 1 b\r\nx\r\n", "HD\r\n");
    talk.send("me DQpWQQ== b\r\nversion\r\n");
    let said = talk.read_to("VERSION 1.6.18");
    assert!(said.starts_with("ME DQpWQQ== exp=-1 "), "{said}");
}

#[test]
fn figures_by_prefix_are_those_of_memcached() {
    let session = "get foo:1\r\nstats detail on\r\nget foo:1 foo:1 bar\r\nset foo:2 0 0 1\r\nx\r\n\
                   get foo:2\r\nmg foo:2 v\r\ndelete foo:2\r\ndelete foo:3\r\nset :x 0 0 1\r\nx\r\n\
                   add a:b:c 0 0 1\r\nx\r\nms m:1 1\r\nx\r\nma m:1 N0\r\nmd m:1\r\n\
                   mg foo:1 N0 v\r\ngat 0 foo:2 t:1\r\ntouch foo:2 0\r\nincr n:1 1\r\n\
                   append foo:2 0 0 1\r\ny\r\nreplace r:1 0 0 1\r\nx\r\nstats detail dump\r\n\
                   stats detail off\r\nget foo:1\r\nstats detail dump\r\n";
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    let lines = |server: &Memcached| {
        // In what order they come is told by nobody.
        let said = server.connect().line(session);
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&ours), lines(&theirs));
}

#[test]
fn connections_tell_what_they_are_at() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    for server in [&ours, &theirs] {
        let mut midway = server.connect();
        midway.send(b"set k 0 0 10\r\nxx");
        let mut idle = server.connect();
        assert_eq!(idle.line("get k\r\n"), "END\r\n");
        let mut asker = server.connect();
        let mut states = Vec::new();
        eventually("all are there", || {
            let said = asker.line("stats conns\r\n");
            let state = |line: &str| line.split_once(":state ").map(|(_, state)| state.to_owned());
            states = said.lines().filter_map(state).collect();
            states.sort();
            states == ["conn_listening", "conn_nread", "conn_parse_cmd", "conn_read"]
        });
    }
}

#[test]
fn a_small_memory_stores() {
    let server = Memcached::start_ours(&["-m", "2"]);
    assert!(server.log().contains("-m 2 is too little"));
    let mut connection = server.connect();
    for key in 0..200 {
        let set = format!("set {key} 0 0 100000\r\n{}\r\n", "x".repeat(100_000));
        assert_eq!(connection.line(&set), "STORED\r\n", "{key}");
    }
    assert_eq!(
        connection.line("set a 0 0 1\r\n1\r\nget a\r\n"),
        "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
}

#[test]
fn any_port_is_told_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ports");
    let mut command = Command::new(binary());
    command.current_dir(folder.path()).env("MEMCACHED_PORT_FILENAME", &file);
    command.args(["memcached", "-p", "-1", "-U", "-1", "-l", "127.0.0.1"]);
    let mut child = command.spawn().expect("it starts");
    let mut told = String::new();
    eventually("the file is there", || {
        told = std::fs::read_to_string(&file).unwrap_or_default();
        !told.is_empty()
    });
    let port = |line: Option<&str>, head: &str| -> u16 {
        let port = line.and_then(|line| line.strip_prefix(head)).expect("its line");
        port.parse().expect("a port")
    };
    let mut lines = told.lines();
    let tcp = port(lines.next(), "TCP INET: ");
    let udp = port(lines.next(), "UDP INET: ");
    assert!(udp > 0 && lines.next().is_none(), "{told}");
    assert_eq!(Connection::to(tcp).line("get k\r\n"), "END\r\n");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
