//! A script holds a key for long: a client that meets the key, or needs all keys, is told BUSY when
//! the threshold is over, all others go on, and time goes on for the script.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use tests::render::render;
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Oracle, Server};

const BUSY: &str = "(error) BUSY Redis is busy running a long command.";

/// How long a reply is waited for that must come: much longer than the threshold.
const PATIENCE: Duration = Duration::from_secs(20);

/// The key that the scripts hold, named so that DEBUG POPULATE would make it.
const HELD: &str = "held:0";

fn start(arguments: &[&str]) -> Server {
    let common =
        ["--worker-threads", "2", "--enable-debug-command", "yes", "--lua-time-limit", "100"];
    Server::start(&[&common, arguments].concat())
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// Has a script hold the key until it is killed.
fn hold(server: &Server) -> (Client, Client) {
    let (mut holder, mut other) = (server.client(), server.client());
    assert_eq!(ask(&mut other, &format!("SET {HELD} value")), "OK");
    holder.send(&["EVAL", "while true do end", "1", HELD]);
    eventually("the key is held", || ask(&mut other, &format!("GET {HELD}")) == BUSY);
    (holder, other)
}

/// Looks at keys that a clock begins, or a monitoring job, wait for a held key no longer than the
/// threshold, one at a time: as many as there are threads would keep all others from theirs.
#[test]
fn looks_at_keys_keep_no_thread_from_the_operator() {
    let port = free_port().to_string();
    let clocks = ["--key-prefixes-interval", "1", "--big-keys", "yes", "--memcached-port", &port];
    let server = start(&[&["--save", ""], &clocks[..]].concat());
    let mut memcached = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let mut client = server.client();
    let elements = "element ".repeat(1000);
    for _ in 0..20 {
        ask(&mut client, &format!("RPUSH {HELD} {}", elements.trim()));
    }
    let mut holder = server.client();
    holder.send(&["EVAL", "while true do redis.call('LLEN', KEYS[1]) end", "1", HELD]);
    eventually("the key is held", || ask(&mut client, &format!("LLEN {HELD}")) == BUSY);
    // The clock comes by more often than there are threads.
    for _ in 0..10 {
        memcached.write_all(b"flush_all 1\r\n").unwrap();
        std::thread::sleep(Duration::from_secs(1));
    }
    let jobs = ["BIG", "PREFIXES"].repeat(8);
    let mut jobs: Vec<Client> = jobs
        .iter()
        .map(|what| {
            let mut job = server.client();
            job.send(&["KEYSTATS", what]);
            job
        })
        .collect();
    for request in [&["BGSAVE"][..], &["CLIENT", "PAUSE", "1", "WRITE"], &["SAVE"]] {
        assert_eq!(reply_of(&mut client, request), BUSY, "{request:?}");
    }
    assert_eq!(reply_of(&mut client, &["CONFIG", "SET", "hz", "20"]), "OK");
    for job in &mut jobs {
        match job.arrival(PATIENCE) {
            Ok(Arrival::Reply(reply)) => assert_eq!(render(&reply), BUSY),
            other => panic!("no reply: {other:?}"),
        }
    }
    kill(holder, &mut client);
    eventually("what was due is done", || ask(&mut client, "DBSIZE") == "(integer) 0");
}

#[track_caller]
fn kill(mut holder: Client, other: &mut Client) {
    assert_eq!(ask(other, "SCRIPT KILL"), "OK");
    assert!(render(&holder.receive()).contains("Script killed by user"));
}

/// The reply to a request, or that there is none.
fn reply_of(client: &mut Client, words: &[&str]) -> String {
    client.send(words);
    match client.arrival(PATIENCE) {
        Ok(Arrival::Reply(reply)) => render(&reply),
        other => format!("no reply: {other:?}"),
    }
}

#[test]
fn a_client_that_meets_a_held_key_is_told_busy() {
    let server = start(&["--save", ""]);
    let (holder, mut other) = hold(&server);
    let spin = "for turn = 1, 1000000 do end return redis.call('GET', 'held:0')";
    let requests: &[&[&str]] = &[
        &["GET", HELD],
        &["MGET", "other", HELD],
        &["KEYS", "*"],
        &["KEYS", HELD],
        &["RM", "0", "MATCH", "*", "COUNT", "100000"],
        &["SORT", "list", "BY", "held:*"],
        &["EVAL", "return redis.call('GET', 'held:0')", "0"],
        &["EVAL", spin, "0"],
        &["EVAL", "return redis.call('KEYS', '*')", "0"],
        &["FLUSHALL"],
        &["FLUSHDB"],
        &["SWAPDB", "0", "1"],
        &["SAVE"],
        &["BGSAVE"],
        &["DEBUG", "DIGEST"],
        &["DEBUG", "DIGEST-VALUE", HELD],
        &["DEBUG", "OBJECT", HELD],
        &["DEBUG", "HTSTATS", "0"],
        &["DEBUG", "POPULATE", "1", "held"],
        &["DEBUG", "STOP-WORLD", "0"],
        &["DEBUG", "RELOAD"],
        &["DEBUG", "RELOAD", "NOSAVE"],
        &["DEBUG", "LOADAOF"],
        &["MEMORY", "USAGE", HELD],
        &["WATCH", HELD],
        &["DUMP", HELD],
        &["KEYSTATS", "PREFIXES"],
        &["COPY", HELD, "copy"],
        &["PFCOUNT", HELD],
        &["BLPOP", HELD, "0"],
    ];
    assert_eq!(reply_of(&mut other, &["RANDOMKEY"]), BUSY, "it is the only key");
    assert_eq!(ask(&mut other, "RPUSH list 0"), "(integer) 1");
    for request in requests {
        assert_eq!(reply_of(&mut other, request), BUSY, "{request:?}");
    }
    let mut cursor = "0".to_owned();
    let met = loop {
        match reply_of(&mut other, &["SCAN", &cursor, "COUNT", "1000"]) {
            reply if reply == BUSY => break true,
            reply => {
                let next = reply.split('"').nth(1).unwrap_or_else(|| panic!("{reply}"));
                next.clone_into(&mut cursor);
            }
        }
        if cursor == "0" {
            break false;
        }
    };
    assert!(met, "SCAN passed the key over");
    for exec in [&["GET", HELD][..], &["KEYS", "*"], &["EVAL", spin, "0"], &["DEBUG", "DIGEST"]] {
        assert_eq!(ask(&mut other, "MULTI"), "OK");
        assert_eq!(reply_of(&mut other, exec), "QUEUED");
        let expected =
            format!("(error) EXECABORT Transaction discarded because of: {}", &BUSY[8..]);
        assert_eq!(reply_of(&mut other, &["EXEC"]), expected, "{exec:?}");
    }
    kill(holder, &mut other);
    // Nothing was left behind that would keep the world from anybody.
    for request in [&["FLUSHALL"][..], &["SAVE"], &["DEBUG", "RELOAD"]] {
        assert_eq!(reply_of(&mut other, request), "OK", "{request:?}");
    }
    assert!(ask(&mut other, "INFO persistence").contains("rdb_last_bgsave_status:ok"));
}

#[test]
fn a_client_that_needs_no_key_goes_on() {
    let server = start(&["--save", ""]);
    let (holder, mut other) = hold(&server);
    for request in [
        "PING",
        "INFO everything",
        "DBSIZE",
        "CONFIG SET maxmemory-samples 7",
        "CLIENT LIST",
        "BGREWRITEAOF",
        "CONFIG SET appendonly yes",
        "CONFIG SET appendonly no",
        "ACL LIST",
        "FUNCTION STATS",
        "SCRIPT LOAD return",
        "MEMORY STATS",
        "MEMORY DOCTOR",
        "LATENCY DOCTOR",
        "COMMAND COUNT",
        "DEBUG SLEEP 0",
        "SUBSCRIBE channel",
    ] {
        let reply = reply_of(&mut other, &request.split(' ').collect::<Vec<_>>());
        let is_told = !reply.starts_with("no reply") && !reply.starts_with("(error)");
        assert!(is_told, "{request}: {reply}");
    }
    kill(holder, &mut server.client());
}

/// However short or long a client may have to wait for room.
#[test]
fn the_limit_is_kept_while_all_that_may_go_is_held() {
    const ROOM: i64 = 1 << 20;
    const OOM: &str = "(error) OOM command not allowed when used memory > 'maxmemory'.";
    let value = "x".repeat(10_000);
    for (policy, tenacity) in [
        ("volatile-lru", "0"),
        ("volatile-lfu", "1"),
        ("volatile-ttl", "10"),
        ("volatile-random", "100"),
    ] {
        let arguments = ["--maxmemory-policy", policy, "--maxmemory-eviction-tenacity", tenacity];
        let server = start(&arguments);
        let (mut holder, mut other) = (server.client(), server.client());
        assert_eq!(ask(&mut other, &format!("SET {HELD} value EX 10000")), "OK");
        holder.send(&["EVAL", "while true do end", "1", HELD]);
        eventually("the key is held", || ask(&mut other, &format!("GET {HELD}")) == BUSY);
        let limit = other.figure("used_memory") + ROOM;
        assert_eq!(ask(&mut other, &format!("CONFIG SET maxmemory {limit}")), "OK");
        for mut client in [server.client(), server.client()] {
            for number in 0..200 {
                let reply = render(&client.call(&["SET", &format!("own:{number}"), &value]));
                // A key may lie in the partition of the one that is held.
                let is_answer = ["OK", OOM, BUSY].contains(&&*reply);
                assert!(is_answer, "{policy}, {tenacity}: {reply}");
            }
            assert_eq!(ask(&mut client, "PING"), "PONG");
            // What is little enough is gone on with, and each worker finds that out by itself.
            let excess = other.figure("used_memory") - limit;
            assert!(excess < limit / 16, "{policy}, {tenacity}: {excess} above {limit}");
        }
        kill(holder, &mut other);
        eventually("the key that was held goes", || {
            other.call(&["SET", "one", "more"]);
            ask(&mut other, &format!("EXISTS {HELD}")) == "(integer) 0"
        });
    }
}

#[test]
fn time_goes_on_for_a_script_that_has_run_for_long() {
    let script = "
        local function now()
            local time = redis.call('TIME')
            return time[1] * 1000000 + time[2]
        end
        local began = now()
        for turn = 1, 1000 do
            if now() ~= began then return 'it did not stand still' end
        end
        while now() < began + 300000 do end
        return 'over'";
    let server = start(&[]);
    let mut client = server.client();
    assert_eq!(reply_of(&mut client, &["EVAL", script, "0"]), "\"over\"");
    assert_eq!(ask(&mut client, "MULTI"), "OK");
    assert_eq!(ask(&mut client, "SET a 1"), "QUEUED");
    assert_eq!(render(&client.call(&["EVAL", script, "0"])), "QUEUED");
    let replies = reply_of(&mut client, &["EXEC"]);
    assert!(replies.contains("\"over\""), "{replies}");
}

/// What came before a script in its transaction cannot be undone for the script alone.
#[test]
fn a_long_script_within_a_transaction_leaves_its_worker() {
    let server = start(&["--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    let spin = "redis.call('INCR', KEYS[1]) for turn = 1, 2000000 do end \
                return redis.call('INCR', KEYS[1])";
    for script in ["while true do end", spin] {
        for line in ["DEL a b", "WATCH watched", "MULTI", "SET a 1", "INCR a"] {
            ask(&mut client, line);
        }
        assert_eq!(render(&client.call(&["EVAL", script, "1", "b"])), "QUEUED");
        assert_eq!(ask(&mut client, "INCR a"), "QUEUED");
        client.send(&["EXEC"]);
        // One worker is all there is.
        assert_eq!(ask(&mut other, "PING"), "PONG");
        if script != spin {
            eventually("it is killed", || ask(&mut other, "SCRIPT KILL") == "OK");
        }
        let replies = render(&client.receive());
        let lines: Vec<&str> = replies.lines().collect();
        assert_eq!((lines[0], lines[1], lines[3]), ("1) OK", "2) (integer) 2", "4) (integer) 3"));
        let third = if script == spin { "3) (integer) 2" } else { "3) (error) ERR Script killed" };
        assert!(lines[2].starts_with(third), "{replies}");
        assert_eq!(ask(&mut other, "GET a"), "\"3\"");
        assert_eq!(ask(&mut client, "SET watched 1"), "OK");
    }
}

/// Within one call of a function of Lua's, in which no instruction of the script's is run.
#[test]
fn a_script_leaves_its_worker_and_is_killed_within_a_long_function() {
    let server = start(&["--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    let pattern = "string.rep('a', 400000), '(.-)*b'";
    for script in [
        format!("return string.match({pattern})"),
        format!("return string.find({pattern})"),
        format!("return (string.gsub({pattern}, 'c'))"),
        format!("for word in string.gmatch({pattern}) do end"),
        format!("return pcall(string.match, {pattern})"),
        format!("return coroutine.wrap(function() return string.match({pattern}) end)()"),
        // No loop of its own, and the same behind other commands.
        format!("redis.call('GET', KEYS[1]) return string.match({pattern})"),
    ] {
        client.send(&["EVAL", &script, "1", "k"]);
        assert_eq!(ask(&mut other, "PING"), "PONG");
        assert!(matches!(client.arrival(Duration::ZERO), Ok(Arrival::Silence)), "{script}");
        eventually("it is killed", || ask(&mut other, "SCRIPT KILL") == "OK");
        let reply = render(&client.receive());
        assert!(reply.contains("Script killed by user"), "{script}: {reply}");
    }
}

/// The users of `busy-scope server` expect what Redis answers.
#[test]
fn a_long_script_makes_everybody_busy_where_that_is_wanted() {
    let requests = [
        "PING",
        "GET other",
        "INFO",
        "CONFIG GET port",
        "CLIENT LIST",
        "FLUSHALL",
        "SUBSCRIBE channel",
        "SCRIPT LOAD return",
        "EVAL return 0",
        "FUNCTION STATS",
        "FUNCTION LIST",
        "MULTI",
        "GET other",
        "EXEC",
        "MULTI",
        "DISCARD",
        "WATCH other",
        "UNWATCH",
        "HELLO 3",
        "SHUTDOWN",
        "RESET",
    ];
    let ours = start(&["--busy-scope", "server"]);
    let theirs = Oracle::Redis82.start(&["--lua-time-limit", "100"]);
    let library = "#!lua name=l\nredis.register_function('long', function() while true do end end)";
    for server in [&ours, &theirs] {
        assert_eq!(reply_of(&mut server.client(), &["FUNCTION", "LOAD", library]), "\"l\"");
    }
    for (run, of_the_other_kind, kill) in [
        (["EVAL", "while true do end", "0"], "FUNCTION KILL", "SCRIPT KILL"),
        (["FCALL", "long", "0"], "SCRIPT KILL", "FUNCTION KILL"),
    ] {
        let answers = [&ours, &theirs].map(|server| {
            let (mut holder, mut other) = (server.client(), server.client());
            holder.send(&run);
            eventually("it has run for long", || ask(&mut other, "PING").contains("BUSY"));
            let lines = requests.iter().chain([&of_the_other_kind, &kill]);
            let answers = lines.map(|line| {
                let reply = reply_of(&mut other, &line.split(' ').collect::<Vec<_>>());
                // HELLO names versions, FUNCTION STATS a duration.
                let is_long = reply.contains('\n');
                (*line, if is_long { "many lines".to_owned() } else { reply })
            });
            let answers: Vec<_> = answers.collect();
            assert!(render(&holder.receive()).contains("killed by user"));
            assert_eq!(ask(&mut other, "PING"), "PONG");
            answers
        });
        assert_eq!(answers[0], answers[1], "{run:?}");
    }
}

#[test]
fn a_script_makes_others_busy_as_long_as_the_directive_says_so() {
    let server = start(&["--busy-scope", "server"]);
    let (mut holder, mut other) = (server.client(), server.client());
    holder.send(&["EVAL", "while redis.call('EXISTS', 'go') == 0 do end return 1", "0"]);
    eventually("it has run for long", || ask(&mut other, "PING").contains("BUSY"));
    let kill = |client: &mut Client| ask(client, "SCRIPT KILL");
    assert_eq!(kill(&mut other), "OK");
    assert!(render(&holder.receive()).contains("Script killed by user"));
    for scope in ["keys", "server"] {
        assert_eq!(ask(&mut other, &format!("CONFIG SET busy-scope {scope}")), "OK");
        assert!(ask(&mut other, "CONFIG GET busy-scope").contains(scope));
    }
    assert!(ask(&mut other, "CONFIG SET busy-scope all").contains("(error)"));
}

/// Low priorities turn a held lock into a wait for everybody: a thread that holds one runs as any
/// other, whatever it does.
#[cfg(target_os = "linux")]
#[test]
fn no_thread_that_holds_locks_has_a_low_priority() {
    let server = start(&["--rdb-key-save-delay", "1000"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "DEBUG POPULATE 100000"), "OK");
    assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
    let (holder, mut other) = hold(&server);
    let tasks = format!("/proc/{}/task", server.pid());
    let mut seen = 0;
    for task in std::fs::read_dir(tasks).unwrap() {
        let Ok(line) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
        let (name, fields) = line.rsplit_once(") ").unwrap();
        let niceness = fields.split(' ').nth(19 - 3);
        let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let ours = own.rsplit_once(") ").unwrap().1.split(' ').nth(19 - 3).map(str::to_owned);
        assert_eq!(niceness, ours.as_deref(), "{name}");
        seen += usize::from(name.contains("heavy") || name.contains("encoder"));
    }
    assert!(seen > 1, "{seen}");
    kill(holder, &mut other);
}

/// A run is judged by its own beginning, not by that of an attempt before a wait in which others
/// ran.
#[test]
fn a_script_that_waited_runs_with_the_time_of_behind_the_wait() {
    let server = start(&[]);
    let library = "#!lua name=spin\nredis.register_function('spin', \
        function() while true do end end)";
    assert_eq!(render(&server.client().call(&["FUNCTION", "LOAD", library])), "\"spin\"");
    let script = "redis.call('GET', ARGV[1]) redis.call('SET', KEYS[1], 'v', 'PX', 100000) \
        local time = redis.call('TIME') \
        return {time[1] * 1000 + math.floor(time[2] / 1000), \
        redis.call('PEXPIRETIME', KEYS[1]) - 100000, redis.call('PTTL', KEYS[1])}";
    // On its worker, and on another thread.
    let spins = format!("for turn = 1, 1000000 do end {script}");
    for (script, is_in_exec) in [(script, false), (&spins, false), (script, true), (&spins, true)] {
        let (mut holder, mut client, mut other) =
            (server.client(), server.client(), server.client());
        assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 20"), "OK");
        // Not a script, as the waiters are: only the holder is killed.
        holder.send(&["FCALL", "spin", "1", HELD]);
        eventually("the key is held", || ask(&mut other, &format!("GET {HELD}")) == BUSY);
        assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 0"), "OK");
        let id = client.id();
        if is_in_exec {
            assert_eq!(ask(&mut client, "MULTI"), "OK");
        }
        client.send(&["EVAL", script, "1", "mine", HELD]);
        if is_in_exec {
            assert_eq!(render(&client.receive()), "QUEUED");
            client.send(&["EXEC"]);
        }
        let command = if is_in_exec { "cmd=exec" } else { "cmd=eval" };
        eventually("it has begun", || {
            ask(&mut other, &format!("CLIENT LIST ID {id}")).contains(command)
        });
        std::thread::sleep(Duration::from_millis(30));
        let time = ask(&mut other, "TIME");
        let numbers = time.split('"').filter_map(|word| word.parse::<i64>().ok());
        let [seconds, micros] = numbers.collect::<Vec<_>>()[..] else { panic!("{time}") };
        let present = seconds * 1000 + micros / 1000;
        assert_eq!(ask(&mut other, "FUNCTION KILL"), "OK");
        assert!(render(&holder.receive()).contains("Script killed by user"));
        let reply = render(&client.receive());
        let words = reply.split_whitespace().filter_map(|word| word.parse::<i64>().ok());
        let [said, set, left] = words.collect::<Vec<_>>()[..] else { panic!("{reply}") };
        // TIME goes on for a script that takes long; what expires is judged by the beginning.
        assert!(set >= present && said >= set, "{script}: {set}, {said} behind {present}");
        assert_eq!(left, 100_000, "{script}");
    }
}

#[test]
fn a_client_that_is_told_busy_is_in_the_database_of_before() {
    let server = start(&[]);
    let (holder, mut other) = hold(&server);
    let spin = "for turn = 1, 1000000 do end return redis.call('GET', ARGV[1])";
    for script in ["return redis.call('GET', ARGV[1])", spin] {
        for select in ["SELECT 1", "PING", "CLIENT INFO"] {
            assert_eq!(ask(&mut other, "MULTI"), "OK");
            for line in [select, "SELECT 2", "PING", "SELECT 0", "PING", "SELECT 1", "PING"] {
                assert_eq!(ask(&mut other, line), "QUEUED");
            }
            assert_eq!(ask(&mut other, "SELECT 0"), "QUEUED");
            assert_eq!(render(&other.call(&["EVAL", script, "0", HELD])), "QUEUED");
            let reply = reply_of(&mut other, &["EXEC"]);
            assert!(reply.starts_with("(error) EXECABORT") && reply.contains("BUSY"), "{reply}");
            let info = ask(&mut other, "CLIENT INFO");
            assert!(info.contains(" db=0 "), "{script}: {info}");
        }
    }
    kill(holder, &mut other);
}

#[test]
fn a_client_that_ends_a_transaction_waits_for_no_lock() {
    let server = start(&["--save", ""]);
    let number = |client: &mut Client, name: &str| {
        let info = ask(client, "INFO all");
        let (_, after) = info.split_once(name).unwrap();
        after.split('\\').next().unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let sessions = [
        // What is said between MULTI and the end, and the end and its reply.
        (&[][..], "UNWATCH", "OK"),
        (&["MULTI"], "DISCARD", "OK"),
        (&["MULTI", "SET a 1"], "DISCARD", "OK"),
        (&["MULTI", "SET a"], "DISCARD", "OK"),
        (&["MULTI", "SET a"], "EXEC", "(error) EXECABORT Transaction discarded because of"),
        (&["MULTI", "SET b 1"], "EXEC", "(nil)"),
        (&["MULTI", "SET held:0 1"], "EXEC", "(nil)"),
        (&["MULTI"], "RESET", "RESET"),
    ];
    let mut clients: Vec<Client> = sessions.iter().map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(ask(client, &format!("WATCH {HELD} broken")), "OK");
    }
    let (holder, mut other) = hold(&server);
    // From here on a client that waits for the key waits for ever.
    assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 0"), "OK");
    assert_eq!(ask(&mut other, "SET broken 1"), "OK");
    for (client, (before, end, reply)) in clients.iter_mut().zip(sessions) {
        before.iter().for_each(|line| _ = ask(client, line));
        let got = reply_of(client, &[end]);
        assert!(got.starts_with(reply), "{before:?} {end}: {got}");
        // Nothing is queued, and nothing is watched.
        assert_eq!(ask(client, "PING"), "PONG", "{before:?} {end}");
        let info = ask(client, "CLIENT INFO");
        assert!(info.contains(" multi=-1 watch=0 "), "{before:?} {end}: {info}");
        assert_eq!(ask(client, "MULTI"), "OK");
        assert_eq!(ask(client, "UNWATCH"), "QUEUED");
        assert_eq!(reply_of(client, &["EXEC"]), "1) OK");
    }
    kill(holder, &mut other);
    eventually("all watches have ended", || number(&mut other, "total_watched_keys:") == "0");
    let mut last = server.client();
    assert_eq!(ask(&mut last, "WATCH k"), "OK");
    assert_eq!(number(&mut other, "total_watched_keys:"), "1");
    assert_eq!(ask(&mut last, "UNWATCH"), "OK");
    assert_eq!(number(&mut other, "total_watched_keys:"), "0", "where locks are free, at once");
}

/// An EXEC that is undone takes back what its EVAL brought, unless another client has it, too.
#[test]
fn a_script_that_somebody_else_called_stays_when_an_exec_is_undone() {
    let server = start(&[]);
    let (holder, mut other) = hold(&server);
    let mut client = server.client();
    for number in 0..5 {
        let script = format!(
            "if ARGV[1] == 'brief' then return 1 end for turn = 1, 2000000 do end \
            return redis.call('GET', ARGV[1]) -- {number}"
        );
        let digest = render(&other.call(&["SCRIPT", "LOAD", &script]));
        let digest = digest.trim_matches('"');
        assert_eq!(ask(&mut other, "SCRIPT FLUSH"), "OK");
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        assert_eq!(render(&client.call(&["EVAL", &script, "0", HELD])), "QUEUED");
        client.send(&["EXEC"]);
        let exists = format!("SCRIPT EXISTS {digest}");
        eventually("it is there", || ask(&mut other, &exists) == "1) (integer) 1");
        assert_eq!(render(&other.call(&["EVAL", &script, "0", "brief"])), "(integer) 1");
        let reply = render(&client.receive());
        assert!(reply.contains("BUSY"), "{reply}");
        assert_eq!(ask(&mut other, &format!("EVALSHA {digest} 0 brief")), "(integer) 1");
    }
    kill(holder, &mut other);
}
