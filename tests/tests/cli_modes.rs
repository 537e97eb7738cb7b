//! What `apus cli` does instead of commands, beside redis-cli: both look at one server, or at two
//! in the same state, and are compared by their bytes and exit codes.
//!
//! Invariant: where an order is random in redis-cli, lines are compared in alphabetical order;
//! what has a time in it is compared without its numbers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use tests::environment::binary;
use tests::render::render;
use tests::server::eventually;
use tests::{Oracle, Server};

use crate::cli::{BOTH, fed, populated, program, same, told};

/// What both print and how they end, at one server.
fn beside(server: &Server, words: &[&str], input: &str) -> [(String, String, Option<i32>); 2] {
    BOTH.map(|which| told(&fed(program(which, server).args(words), input)))
}

/// Lines in alphabetical order: redis-cli tells types in a random one.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn all_keys_are_looked_at_as_by_redis_cli() {
    let server = populated();
    server.client().call(&["XADD", "stream", "*", "a", "b"]);
    server.client().call(&["SET", "", "empty name"]);
    for words in [
        &["--bigkeys"][..],
        &["--bigkeys", "--pattern", "s*"],
        &["--bigkeys", "--pattern", "nothing"],
        &["--bigkeys", "-n", "5"],
        &["--bigkeys", "-i", "0.01"],
        &["--memkeys"],
        &["--memkeys-samples", "0"],
        &["-3", "--bigkeys"],
    ] {
        let [theirs, ours] = beside(&server, words, "");
        assert_eq!(sorted(&ours.0), sorted(&theirs.0), "{words:?}");
        assert_eq!((&ours.1, ours.2), (&theirs.1, theirs.2), "{words:?}");
    }
}

#[test]
fn hot_keys_are_told_as_by_redis_cli() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lfu", "--lfu-decay-time", "0"]);
    let mut client = server.client();
    for key in 0..40 {
        client.call(&["SET", &format!("key:{key}"), "x"]);
        (0..key * 10).for_each(|_| drop(client.call(&["GET", &format!("key:{key}")])));
    }
    let [theirs, ours] = beside(&server, &["--hotkeys"], "");
    assert!(ours.0.contains("Sampled 40 keys in the keyspace!\nhot key found with counter: "));
    assert_eq!(ours, theirs);
    client.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let [theirs, ours] = beside(&server, &["--hotkeys"], "");
    assert_eq!(ours, theirs);
    assert_eq!(ours.2, Some(1));
}

#[test]
fn key_statistics_tell_every_key() {
    let server = populated();
    let (out, errors, code) =
        told(&fed(program(BOTH[1], &server).args(["--keystats", "--top", "2"]), ""));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    for part in [
        "\nKeys sampled: 6\n",
        "--- Top 2 key sizes ---\n  1 ",
        "\nstring     string has 3B\n",
        "\nhash       hash has 1 fields\n",
        "\nset        set has 1 members\n",
        "\nTotal key length is 29B (4B avg)\n",
        "\nlist                 1  16.67% ",
        "           3 items        3.00\n",
    ] {
        assert!(out.contains(part), "{part:?} in {out}");
    }
}

#[test]
fn the_protocol_is_piped_as_by_redis_cli() {
    for input in [
        "",
        "\r\n",
        "SET a 1\r\nGET a\r\n",
        "SET a x\r\nINCR a\r\nNOSUCH\r\nGET a\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n",
        "GET a",
        "LRANGE list 0 -1\r\nHGETALL hash\r\nMULTI\r\nGET number\r\nEXEC\r\n",
    ] {
        same(&["--pipe"], input);
    }
}

/// Neither side may wait for the other: what is on its way exceeds every buffer between them.
#[test]
fn a_pipe_reads_replies_while_it_sends() {
    let server = populated();
    let request = format!("*2\r\n$4\r\nECHO\r\n$65536\r\n{}\r\n", "x".repeat(65_536));
    let (out, errors, code) =
        told(&fed(program(BOTH[1], &server).arg("--pipe"), &request.repeat(400)));
    assert!(out.ends_with("\nerrors: 0, replies: 400\n"), "{out} {errors}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_pipe_without_replies_is_given_up() {
    let server = populated();
    server.client().call(&["CLIENT", "PAUSE", "1000000", "ALL"]);
    let [theirs, ours] = beside(&server, &["--pipe", "--pipe-timeout", "1"], "GET a\r\n");
    assert_eq!(ours, theirs);
    assert!(ours.0.ends_with("\nerrors: 1, replies: 0\n"), "{ours:?}");
}

#[test]
fn snapshots_are_fetched_as_by_redis_cli() {
    for how in ["yes", "no"] {
        let diskless = format!("--repl-diskless-sync {how}");
        let more = ["--repl-diskless-sync-delay 0", "--rdbcompression no"];
        let server = Server::start(&[&diskless, more[0], more[1]]);
        let mut client = server.client();
        client.call(&["SET", "key", "of the data"]);
        client.call(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('f', function() end)",
        ]);
        for flag in ["--rdb", "--functions-rdb"] {
            let path = server.folder().join("fetched.rdb");
            let path = path.to_str().expect("text");
            let [theirs, ours] = beside(&server, &[flag, path], "");
            assert_eq!(without_numbers(&ours.1), without_numbers(&theirs.1));
            assert_eq!((ours.0, ours.2), (theirs.0, theirs.2), "{flag} {how}");
            let checked =
                Command::new(binary()).args(["check", "rdb", path]).output().expect("runs");
            let said = String::from_utf8_lossy(&checked.stdout).into_owned();
            assert!(checked.status.success(), "{flag} {how}: {said}");
            let content = fs::read(path).expect("it was fetched");
            let holds = |part: &[u8]| content.windows(part.len()).any(|it| it == part);
            assert!(holds(b"register_function"));
            assert_eq!(holds(b"of the data"), flag == "--rdb");
        }
        let printed = fed(program(BOTH[1], &server).args(["--rdb", "-"]), "").stdout;
        assert!(printed.starts_with(b"REDIS"));
    }
}

#[test]
fn a_snapshot_that_cannot_be_fetched_fails_as_in_redis_cli() {
    let server = populated();
    let [theirs, ours] = beside(&server, &["--rdb", "/nonexistent/folder/file"], "");
    assert_eq!(without_numbers(&ours.1), without_numbers(&theirs.1));
    assert_eq!(ours.2, theirs.2);
    server.client().call(&["ACL", "SETUSER", "default", "-sync", "-psync"]);
    let [theirs, ours] = beside(&server, &["--rdb", "/dev/null"], "");
    // The end of the reply's line is no part of the reason.
    assert_eq!((ours.1, ours.2), (theirs.1.replace('\r', ""), theirs.2));
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// A child that goes on by itself, with the lines of both its outputs. Dead when it is gone.
struct Follower {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Follower {
    fn start(command: &mut Command) -> Follower {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it is installed");
        let (give, lines) = channel();
        let out = child.stdout.take().expect("it is piped");
        let errors = child.stderr.take().expect("it is piped");
        let other = give.clone();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).all(|line| give.send(line).is_ok())
        });
        std::thread::spawn(move || {
            BufReader::new(errors).lines().map_while(Result::ok).all(|it| other.send(it).is_ok())
        });
        Follower { child, lines, seen: Vec::new() }
    }

    /// Waits until a line holds this.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        eventually(&format!("{text:?} is printed; {:?}", self.seen), || {
            self.seen.extend(self.lines.try_iter());
            self.seen.iter().any(|line| line.contains(text))
        });
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // One that has ended by itself cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_replica_shows_what_it_is_sent() {
    let server = Server::start(&["--repl-diskless-sync-delay", "0"]);
    for words in [&["--replica"][..], &["SYNC"], &["PSYNC", "?", "-1"]] {
        let mut follower = Follower::start(program(BOTH[1], &server).args(words));
        follower.expect("SYNC with master, discarding ");
        follower.expect("Logging commands from master.");
        server.client().call(&["SET", "key", "of \"quotes\""]);
        follower.expect(r#""SET","key","of \"quotes\"""#);
    }
}

#[test]
fn streams_are_shown_until_they_end() {
    let server = populated();
    let mut follower = Follower::start(program(BOTH[1], &server).arg("MONITOR"));
    follower.expect("OK");
    server.client().call(&["SET", "watched", "x"]);
    follower.expect(r#""SET" "watched" "x""#);
    for (flag, lines) in [
        (
            "--no-raw",
            &["Reading messages... (press Ctrl-C to quit)", "1) \"message\"", "3) \"hi\""][..],
        ),
        ("--csv", &["\"subscribe\",\"channel\",1", "\"message\",\"channel\",\"hi\""]),
    ] {
        let command = &mut program(BOTH[1], &server);
        let mut follower = Follower::start(command.args([flag, "SUBSCRIBE", "channel"]));
        follower.expect("channel");
        eventually("the message has a reader", || {
            follower.seen.extend(follower.lines.try_iter());
            render(&server.client().call(&["PUBLISH", "channel", "hi"])) == "(integer) 1"
        });
        lines.iter().for_each(|line| follower.expect(line));
    }
}

#[test]
fn redirections_are_followed_as_by_redis_cli() {
    let server = populated();
    let command = &["GET", "number"][..];
    for (flags, words, input) in [
        (&["--no-raw"][..], command, ""),
        (&["--raw"], command, ""),
        (&["--no-raw", "-c"], command, ""),
        (&["--raw", "-c"], command, ""),
        (&["--no-raw", "-c"], &[], "GET number\nGET number\n"),
        (&["--no-raw"], &[], "GET number\nGET number\n"),
    ] {
        let [theirs, ours] = BOTH.map(|which| {
            let moved = format!("-MOVED 5798 127.0.0.1:{}\r\n", server.port());
            let (port, _serving) =
                tests::impostor::impostor(move |_| Some(moved.clone().into_bytes()));
            let port = port.to_string();
            let mut command = program(which, &server);
            told(&fed(command.args(["-p", &port]).args(flags).args(words), input))
        });
        assert_eq!(ours, theirs, "{flags:?} {input:?}");
        let last = ours.0.trim_end().lines().last().unwrap_or_default();
        assert_eq!(last.trim_matches('"') == "41", flags.contains(&"-c"), "{flags:?} {ours:?}");
    }
}

#[test]
fn scripts_are_debugged_as_by_redis_cli() {
    let server = Oracle::Redis70.start(&[]);
    server.client().call(&["SET", "key", "value"]);
    let file = server.folder().join("debugged.lua");
    let script = "local a = redis.call('get', KEYS[1])\nredis.debug('x', {1, 2})\n\
                  redis.breakpoint()\nreturn {a, ARGV[1]}\n";
    fs::write(&file, script).expect("a file");
    let file = file.to_str().expect("text");
    for lines in [
        "s\np\nn\nhelp\nw\nb 4\nb\nr set x y\ne 1 +  1 .. \"a  b\"\ntrace\nfoo\nc\nc\nGET key\n",
        "s\nrestart\ns\nabort\n",
        "\"unbalanced\n\ns\nquit\n",
        "c\n",
        "",
    ] {
        for flag in ["--ldb", "--ldb-sync-mode"] {
            let words = [flag, "--eval", file, "key", ",", "argument"];
            let [theirs, ours] = beside(&server, &words, lines);
            assert_eq!(ours, theirs, "{flag} {lines:?}");
        }
    }
    let [theirs, ours] = beside(&server, &["--ldb", "--eval", "/dev/null"], "c\n");
    assert_eq!(ours, theirs);
    let wrong = server.folder().join("wrong.lua");
    fs::write(&wrong, "return (").expect("a file");
    let wrong = wrong.to_str().expect("text");
    let [theirs, ours] = beside(&server, &["--ldb", "--eval", wrong], "c\n");
    assert_eq!(ours, theirs);
}

#[test]
fn latencies_of_the_machine_and_of_the_server_are_told() {
    let server = populated();
    let run = |words: &[&str]| Follower::start(program(BOTH[1], &server).args(words));
    run(&["--raw", "--latency-history", "-i", "0.05"]).expect(" seconds range");
    let mut spectrum = run(&["--latency-dist", "-i", "0.05"]);
    spectrum.expect("From 0 to 100%: ");
    spectrum.expect("\x1b[38;5;0m\x1b[48;5;");
    run(&["--lru-test", "100"]).expect(" Gets/sec | Hits: ");
    let (out, ..) = told(&fed(program(BOTH[1], &server).args(["--intrinsic-latency", "0.1"]), ""));
    let [first, .., last] = out.lines().collect::<Vec<_>>()[..] else { panic!("{out}") };
    assert!(first.starts_with("Max latency so far: "), "{out}");
    assert!(last.ends_with("x longer than the average latency."), "{out}");
}
