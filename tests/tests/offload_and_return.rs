//! EXEC with scripts that run long, and commands that need the session around them: with one worker
//! others are answered meanwhile, scripts can be killed, replies are those of Redis, and whatever
//! becomes of the client, all of it is done.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::client::encode;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

const LOOP: &str = "EVAL 'while true do end' 0";

/// What needs the session, and can be told from its reply.
const OF_SESSION: [&str; 14] = [
    "SUBSCRIBE ch",
    "UNSUBSCRIBE ch",
    "CLIENT GETNAME",
    "CLIENT SETNAME x",
    "CLIENT TRACKING ON",
    "CLIENT REPLY ON",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
    "CLIENT UNBLOCK 999999",
    "CONFIG SET maxmemory 0",
    "ACL WHOAMI",
    "ACL SETUSER bob on",
    "HELLO 3",
    "SELECT 1",
];

/// The places where a command may stand.
fn queues(command: &str) -> [Vec<&str>; 5] {
    [
        vec![command, LOOP],
        vec![LOOP, command],
        vec![LOOP, command, LOOP],
        vec!["SET a 1", command, LOOP, "SET b 1", command],
        vec![command, "GET a", command, LOOP, command, "SET c 1", LOOP, "GET c"],
    ]
}

fn words(line: &str) -> Vec<Vec<u8>> {
    base::quote::split_arguments(line.as_bytes()).expect("quotes are balanced")
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&words(line)))
}

/// All that a client is sent for these, until the text comes that it asks for at the end. A script
/// that loops meanwhile is killed.
fn sent(server: &Server, lines: &[&str], killer: &mut Client) -> String {
    const END: &str = "that was it";
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(5))).expect("it is a socket");
    let end = format!("PING '{END}'");
    let all = lines.iter().copied().chain(["CLIENT REPLY ON", &end]);
    let bytes: Vec<u8> = all.flat_map(|line| encode(&words(line))).collect();
    stream.write_all(&bytes).expect("it reads");
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("closed behind {}", text.escape_ascii()),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        let text = String::from_utf8_lossy(&text);
        if text.contains(END) {
            return told(&text);
        }
        // Each is answered, whatever runs.
        ask(killer, "PING");
        ask(killer, "SCRIPT KILL");
    }
}

/// Without what differs from server to server.
fn told(text: &str) -> String {
    const MODULES: &str = "$7\r\nmodules\r\n";
    let mut told = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(MODULES) {
        // What Redis comes with.
        let own = "*1\r\n%4\r\n$4\r\nname\r\n$9\r\nvectorset\r\n$3\r\nver\r\n:1\r\n$4\r\npath\r\n\
            $0\r\n\r\n$4\r\nargs\r\n*0\r\n";
        let (id, before) = (before.find("$2\r\nid\r\n"), before);
        told += &before[..id.unwrap_or(before.len())];
        rest = behind.strip_prefix(own).or(behind.strip_prefix("*0\r\n")).expect("a list");
    }
    told + rest
}

/// Both servers are to send the same, and to have the same keys behind it.
fn compare(servers: &[Server; 2], queue: &[&str]) {
    let [ours, theirs] = [0, 1].map(|at| {
        let server = &servers[at];
        let mut killer = server.client();
        let lines: Vec<&str> =
            ["MULTI"].into_iter().chain(queue.iter().copied()).chain(["EXEC"]).collect();
        let sent = sent(server, &lines, &mut killer);
        let keys = ["a", "b", "c"].map(|key| ask(&mut killer, &format!("GET {key}")));
        ask(&mut killer, "FLUSHALL");
        (sent, keys)
    });
    assert_eq!(ours, theirs, "{queue:?}");
}

#[test]
fn long_scripts_and_what_needs_the_session_stand_in_one_transaction() {
    for workers in ["1", "3"] {
        let [ours, theirs] = Oracle::Redis82.beside(&["--busy-reply-threshold", "30"]);
        let mut control = ours.client();
        assert_eq!(ask(&mut control, &format!("CONFIG SET worker-threads {workers}")), "OK");
        let servers = [ours, theirs];
        for (at, command) in OF_SESSION.into_iter().enumerate() {
            // The others have the other number of workers.
            let is_whole = at % 2 == usize::from(workers == "1");
            let queues = queues(command);
            let some = if is_whole { &queues[..] } else { &queues[3..4] };
            some.iter().for_each(|queue| compare(&servers, queue));
        }
    }
}

/// Whether the replies within a transaction are wanted is looked at for each of them.
#[test]
fn replies_that_are_not_wanted_within_a_transaction_are_left_out_as_in_redis() {
    const MODES: [&str; 4] = ["PING", "CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY ON"];
    let servers = Oracle::Redis82.beside(&["--busy-reply-threshold", "30"]);
    for before in MODES {
        for first in MODES {
            for second in MODES {
                // A script that has to be killed takes its time.
                let loops = before == MODES[0] && first != second;
                for middle in ["GET a"].into_iter().chain(loops.then_some(LOOP)) {
                    let queue = [first, "SET a 1", middle, second, "INCR a", "LPUSH a 1"];
                    let [ours, theirs] = [0, 1].map(|at| {
                        let mut killer = servers[at].client();
                        let mut lines = vec![before, "MULTI"];
                        lines.extend(queue);
                        lines.extend(["EXEC", "PING", "ECHO behind"]);
                        sent(&servers[at], &lines, &mut killer)
                    });
                    assert_eq!(ours, theirs, "{before}, then {queue:?}");
                }
            }
        }
    }
    // Nor are refusals of EXEC.
    for before in MODES {
        for broken in [false, true] {
            let [ours, theirs] = [0, 1].map(|at| {
                let (server, mut killer) = (&servers[at], servers[at].client());
                ask(&mut killer, "SET w 0");
                let mut lines = vec!["WATCH w"];
                lines.extend(broken.then_some("SET w 2"));
                lines.extend([before, "MULTI", "SET w 1"]);
                lines.extend((!broken).then_some("NOSUCH"));
                lines.extend(["EXEC", "EXEC", "PING", "GET w"]);
                sent(server, &lines, &mut killer)
            });
            assert_eq!(ours, theirs, "{before}, {broken}");
        }
    }
}

/// OFF and what SKIP says are apart, in whatever order they are said.
#[test]
fn modes_of_reply_follow_each_other_within_a_transaction_as_in_redis() {
    const MODES: [&str; 4] = ["PING", "CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY ON"];
    let servers = Oracle::Redis82.beside(&[]);
    let mut killers = [0, 1].map(|at| servers[at].client());
    for number in 0..MODES.len().pow(5) {
        let [before, modes @ ..] =
            [0, 1, 2, 3, 4].map(|at| MODES[number / MODES.len().pow(at) % MODES.len()]);
        let queue = [&[before, "MULTI"], &modes[..], &["EXEC", "ECHO 1", "ECHO 2"]].concat();
        let [ours, theirs] = [0, 1].map(|at| sent(&servers[at], &queue, &mut killers[at]));
        assert_eq!(ours, theirs, "{queue:?}");
    }
}

/// A transaction that goes to and fro.
const HALVES: [&str; 11] = [
    "WATCH w",
    "MULTI",
    "SET a 1",
    "CLIENT SETNAME half",
    LOOP,
    "CONFIG SET maxmemory 1gb",
    "SUBSCRIBE ch",
    "SET b 1",
    LOOP,
    "RPUSH q v",
    "CLIENT SETNAME done",
];

/// What becomes of the client in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Killed,
    HangsUp,
    Unblocked,
    Moves,
    LosesItsUser,
}

/// The half that is done is followed by the other, which needs the session, even where no client
/// listens any more.
#[test]
fn an_exec_is_done_whole_whatever_becomes_of_its_client() {
    use Fate::{HangsUp, Killed, LosesItsUser, Moves, Stays, Unblocked};
    for workers in ["1", "3"] {
        let server = Server::start(&["--worker-threads", workers, "--busy-reply-threshold", "30"]);
        for fate in [Stays, Killed, HangsUp, Unblocked, Moves, LosesItsUser] {
            let (mut other, mut waiter) = (server.client(), server.client());
            ask(&mut other, "FLUSHALL");
            ask(&mut other, "CONFIG SET maxmemory 0");
            ask(&mut other, "ACL SETUSER ann on nopass allkeys allchannels +@all");
            let mut client = server.client();
            assert_eq!(ask(&mut client, "AUTH ann x"), "OK");
            let id = client.id();
            waiter.send(&words("BLPOP q 0"));
            eventually("it waits", || {
                ask(&mut other, "INFO clients").contains("blocked_clients:1")
            });
            HALVES.iter().for_each(|line| _ = ask(&mut client, line));
            client.send(&["EXEC"]);
            eventually("it loops", || ask(&mut other, "CLIENT LIST").contains("name=half"));
            match fate {
                Stays => {}
                Killed => {
                    assert_eq!(ask(&mut other, &format!("CLIENT KILL ID {id}")), "(integer) 1");
                }
                HangsUp => client = server.client(),
                Unblocked => {
                    assert_eq!(ask(&mut other, &format!("CLIENT UNBLOCK {id}")), "(integer) 0");
                }
                Moves => {
                    for count in ["4", "1", workers] {
                        let line = format!("CONFIG SET worker-threads {count}");
                        assert_eq!(ask(&mut other, &line), "OK");
                    }
                }
                LosesItsUser => assert_eq!(ask(&mut other, "ACL DELUSER ann"), "(integer) 1"),
            }
            let is_gone = matches!(fate, Killed | LosesItsUser);
            if is_gone {
                eventually("it is closed at once", || client.is_closed());
            }
            eventually("it is over", || {
                ask(&mut other, "PING");
                ask(&mut other, "SCRIPT KILL").contains("NOTBUSY")
                    && !ask(&mut other, "GET b").contains("BUSY")
            });
            assert_eq!(render(&waiter.receive()), "1) \"q\"\n2) \"v\"", "{fate:?}");
            assert_eq!(ask(&mut other, "GET a"), "\"1\"", "{fate:?}");
            assert_eq!(ask(&mut other, "GET b"), "\"1\"", "{fate:?}");
            assert!(ask(&mut other, "CONFIG GET maxmemory").contains("1073741824"), "{fate:?}");
            if is_gone || fate == HangsUp {
                eventually("it has left", || !ask(&mut other, "CLIENT LIST").contains("name=done"));
                assert_eq!(ask(&mut other, "PUBLISH ch m"), "(integer) 0", "{fate:?}");
            } else {
                let Value::Array(replies) = client.receive() else { panic!("{fate:?}") };
                assert_eq!(replies.len(), 9, "{fate:?}: {replies:?}");
                assert_eq!(ask(&mut other, "PUBLISH ch m"), "(integer) 1", "{fate:?}");
            }
        }
    }
}

/// A script that has written goes on to its end, and others of the only worker are answered.
#[test]
fn a_script_that_has_written_is_told_to_be_so() {
    let servers = Oracle::Redis82.beside(&["--busy-reply-threshold", "30"]);
    for server in servers {
        let (mut client, mut other) = (server.client(), server.client());
        let script = "redis.call('SET', KEYS[1], 'v') local began = os.clock() \
            while os.clock() - began < 1 do end return 'done'";
        ask(&mut client, "MULTI");
        ask(&mut client, "CLIENT GETNAME");
        client.call(&["EVAL", script, "1", "k"]);
        ask(&mut client, "SUBSCRIBE ch");
        client.send(&["EXEC"]);
        eventually("its key is held", || ask(&mut other, "GET k").contains("BUSY"));
        eventually("it has written", || {
            ask(&mut other, "PING");
            ask(&mut other, "SCRIPT KILL").starts_with("(error) UNKILLABLE")
        });
        let reply = render(&client.receive());
        assert!(reply.contains("\"done\""), "{reply}");
        assert_eq!(ask(&mut other, "GET k"), "\"v\"");
    }
}

/// At the end of the process what has begun comes to its end, or nobody saw it: not even another
/// transaction that waited for its locks.
#[test]
fn the_end_of_the_process_shows_no_half() {
    let log = ["--save", "", "--appendonly", "yes", "--enable-debug-command", "yes"];
    for by_signal in [false, true] {
        let mut server = Server::start(&log);
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
        let lines =
            ["MULTI", "SET x 100", "DEBUG SLEEP 0.7", "CLIENT SETNAME a", "SET y 1", "EXEC"];
        for line in lines {
            stream.write_all(&encode(&words(line))).expect("it is taken");
        }
        let (mut other, mut ender) = (server.client(), server.client());
        eventually("EXEC runs", || ask(&mut ender, "CLIENT LIST").contains("cmd=exec"));
        const COPY: &str = "for i = 1, 1000000 do end redis.call('set', KEYS[1], \
            tostring(redis.call('get', ARGV[1])))";
        other.send(&["EVAL", COPY, "1", "z", "x"]);
        std::thread::sleep(Duration::from_millis(200));
        if by_signal {
            server.signal(rustix::process::Signal::TERM);
        } else {
            ender.send(&["SHUTDOWN", "NOSAVE"]);
        }
        eventually("it ends", || server.has_ended());
        server.restart();
        let mut client = server.client();
        let [x, y, z] = ["x", "y", "z"].map(|key| ask(&mut client, &format!("GET {key}")));
        assert_eq!(x == "(nil)", y == "(nil)", "{x} {y} {z}");
        assert!(z != "\"100\"" || x == "\"100\"", "{x} {y} {z}");
    }
}

/// What a program needs of its session it takes along each time that it leaves its worker: field
/// sets of HIMPORT are there behind any command that needs the session between two long scripts.
#[test]
fn an_exec_that_leaves_twice_has_what_its_session_has() {
    const LONG: &str = "EVAL 'local x = 0 for i = 1, 2000000 do x = x + i end return 1' 0";
    let server = Server::start(&[]);
    let mut client = server.client();
    for between in ["CLIENT GETNAME", "CLIENT SETNAME x", "ACL WHOAMI", "HIMPORT PREPARE f a c"] {
        client.call(&["FLUSHALL"]);
        client.call(&words("HIMPORT PREPARE f a b"));
        client.call(&["MULTI"]);
        for line in [LONG, between, LONG, "HIMPORT SET h f 1 2", "SET s 1"] {
            client.call(&words(line));
        }
        let reply = ask(&mut client, "EXEC");
        assert!(!reply.contains("(error)"), "{between}: {reply}");
        assert_eq!(ask(&mut client, "HGET h a"), "\"1\"", "{between}");
    }
}
