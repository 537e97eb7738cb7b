//! MONITOR: what it shows of commands, which secrets it and the slow log hide, and what a client
//! that watches may do itself.
//!
//! Invariant: what is shown is compared with Redis 8.2, but for the times and the ports.

use tests::client::encode;
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server, play};

/// What is done under the eyes of MONITOR.
const WATCHED: &[&[&str]] = &[
    &["SET", "a", "x y\n\"\\\u{e9}\t\u{7}"],
    &["AUTH", "secret"],
    &["HELLO", "3", "AUTH", "u", "p"],
    &["PING"],
    &["CONFIG", "GET", "port"],
    &["GET"],
    &["NOSUCH"],
    &["CLIENT", "SETNAME", "u"],
    &["CLIENT", "LIST"],
    &["COMMAND", "COUNT"],
    &["ROLE"],
    &["SLOWLOG", "LEN"],
    &["SELECT", "3"],
    &["get", "a"],
    &["INFO", "cluster"],
    &["OBJECT", "ENCODING", "a"],
    &["WAIT", "0", "0"],
    &["FLUSHALL"],
    &["MULTI"],
    &["SET", "a", "1"],
    &["SELECT", "5"],
    &["GET", "a"],
    &["CONFIG", "GET", "port"],
    &["SELECT", "4"],
    &["EXEC"],
    &["RESET"],
    &["ECHO", "end"],
];

#[test]
fn monitor_shows_what_redis_shows() {
    let watched = [Server::start(&[]), Oracle::redis82()].map(|server| {
        let mut watcher = server.client();
        assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
        let mut client = server.client();
        WATCHED.iter().for_each(|request| _ = client.call(request));
        let mut lines = Vec::new();
        loop {
            let line = text(&watcher.receive());
            // The time and the port are the server's and the client's own.
            let (time, rest) = line.split_once(' ').expect("a line has words");
            assert!(time.len() == 17 && time.as_bytes()[10] == b'.', "{line}");
            let (place, request) = rest.split_once("] ").expect("a line names its client");
            let (place, _port) = place.split_once(':').expect("an address has a port");
            lines.push(format!("{place}] {request}"));
            if line.ends_with(r#""ECHO" "end""#) {
                return lines;
            }
        }
    });
    let [ours, theirs] = watched;
    assert_eq!(ours, theirs);
}

#[test]
fn a_watcher_is_no_ordinary_client() {
    let script = r#"
        watcher> MONITOR
        OK
        watcher> GET a
        (error) ERR Replica can't interact with the keyspace
        watcher> MONITOR
        watcher> RESET
        RESET
        watcher> GET a
        (nil)
        other> SET a 1
        OK
        watcher> GET a
        "1"
    "#;
    play(&Server::start(&[]), script);
    play(&Oracle::redis82(), script);
}

/// Each script of a pipeline is asked for what it says of itself.
#[test]
fn a_watcher_writes_behind_no_script_that_does_not() {
    let reads = ["EVAL", "#!lua flags=no-writes\nreturn 1", "0"];
    let writes = ["EVAL", "return redis.call('INCR', KEYS[1])", "1", "count"];
    for server in [Server::start(&[]), Oracle::redis82()] {
        let mut client = server.client();
        client.call(&["MONITOR"]);
        let words = [&reads[..], &reads, &writes, &writes].map(encode);
        client.send_raw(&words.concat());
        // Beside the replies there is what the client watches.
        let replies = std::iter::repeat_with(|| render(&client.receive()));
        let refused = replies.filter(|reply| reply.starts_with("(error)")).take(2);
        for error in refused {
            assert!(error.starts_with("(error) ERR Replica can't interact"), "{error}");
        }
        assert_eq!(render(&server.client().call(&["EXISTS", "count"])), "(integer) 0");
    }
}

#[test]
fn unix_clients_are_watched_by_their_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (port, path) = (free_port().to_string(), socket.display().to_string());
    let server = Server::start(&["--port", &port, "--unixsocket", &path]);
    let mut watcher = server.client();
    watcher.call(&["MONITOR"]);
    Client::connect_unix(&socket).call(&["PING"]);
    let line = text(&watcher.receive());
    assert!(line.ends_with(&format!("[0 unix:{path}] \"PING\"")), "{line}");
}

/// Whatever words stand where a secret might: HELLO's options are read as HELLO reads them.
#[test]
fn no_log_has_the_password_of_a_hello() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut watcher, mut client) = (server.client(), server.client());
    watcher.call(&["MONITOR"]);
    let words = ["AUTH", "auth", "SETNAME", "2", "bob", "sEcReT", "sEcReT", "x"];
    let mut random = base::random::Random::from_seed(0x4845_4c4c);
    for _ in 0..400 {
        let mut request = vec!["HELLO", "2"];
        request.extend((0..random.below(7)).map(|_| words[random.below(8) as usize]));
        // As the name of a user or of a client it is no secret.
        let is_name = |(index, word): (usize, &&str)| {
            *word == "sEcReT" && matches!(request[index - 1], "AUTH" | "auth" | "SETNAME" | "2")
        };
        if !request.iter().enumerate().skip(2).any(is_name) {
            client.call(&request);
        }
    }
    client.call(&["HELLO", "2", "SETNAME", "auth", "AUTH", "bob", "sEcReT"]);
    client.call(&["ECHO", "end"]);
    let lines = std::iter::repeat_with(|| text(&watcher.receive()));
    for line in lines.take_while(|line| !line.contains("\"end\"")) {
        assert!(!line.contains("sEcReT"), "{line}");
    }
    let slow = render(&client.call(&["SLOWLOG", "GET", "-1"]));
    assert!(!slow.contains("sEcReT") && slow.contains("(redacted)"), "{slow}");
}

#[test]
fn a_watcher_that_wants_no_replies_is_sent_no_lines() {
    let ours = Server::start(&["--worker-threads", "1"]);
    let [ours, theirs] = [ours, Oracle::redis82()].map(|server| {
        let [mut watcher, mut other, mut client] = [(); 3].map(|()| server.client());
        assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
        watcher.send(&["CLIENT", "REPLY", "OFF"]);
        // Once the switch is over, the list of clients knows this name.
        watcher.send(&["CLIENT", "SETNAME", "mute"]);
        eventually("the watcher is mute", || {
            text(&client.call(&["CLIENT", "LIST"])).contains("name=mute")
        });
        // A line that another watcher has got has been left for this one, too.
        assert_eq!(text(&other.call(&["MONITOR"])), "OK");
        client.call(&["ECHO", "unseen"]);
        assert!(text(&other.receive()).ends_with(r#""ECHO" "unseen""#));
        assert_eq!(text(&watcher.call(&["CLIENT", "REPLY", "ON"])), "OK");
        client.call(&["ECHO", "seen"]);
        let mut seen = vec![text(&watcher.receive())];
        while !seen.last().is_some_and(|line| line.ends_with(r#""ECHO" "seen""#)) {
            seen.push(text(&watcher.receive()));
        }
        seen.iter().map(|line| line.split_once("] ").expect("a line").1.to_owned()).collect()
    }) as [Vec<String>; 2];
    assert_eq!(ours, theirs);
}
