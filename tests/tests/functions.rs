//! FUNCTION and FCALL: libraries of Lua functions, as Redis has them.

use std::path::Path;
use std::time::Duration;

use proto::value::Value;
use tests::client::encode;
use tests::faults::subject::Subject;
use tests::faults::table::row_of;
use tests::faults::{Fault, Injector};
use tests::render::render;
use tests::script::afresh;
use tests::server::{Oracle, eventually};
use tests::{Arrival, Client, Server};

const LIBRARY: &str = "#!lua name=lib
local count = 0
redis.register_function('echo', function(keys, args) return {keys, args} end)
redis.register_function('count', function() count = count + 1 return count end)
redis.register_function('fails', function() return redis.call('incr', 'text') end)
redis.register_function{function_name='reads', callback=function()
    return redis.call('set', 'a', 'b') end, flags={'no-writes'}, description='tells'}
redis.register_function{function_name='gets', callback=function(keys)
    return redis.call('get', keys[1]) end, flags={'no-writes'}}";

fn on_both(script: &str) {
    for server in &Oracle::Redis82.beside(&[]) {
        for protocol in ["2", "3"] {
            let mut client = server.client();
            client.call(&["FUNCTION", "FLUSH"]);
            client.call(&["FUNCTION", "LOAD", LIBRARY]);
            afresh(server, protocol, script);
        }
    }
}

#[test]
fn functions_are_called() {
    on_both(
        r##"
        > FCALL echo 1 key argument
        1) 1) "key"
        2) 1) "argument"
        > FCALL ECHO 0
        1) (empty array)
        2) (empty array)
        > FCALL count 0
        (integer) 1
        > FCALL count 0
        (integer) 2
        > SET text words
        OK
        > FCALL fails 0
        (error) ERR value is not an integer or out of range script: fails, on @user_function:5.
        > FCALL reads 0
        ~ (error) ERR Write commands are not allowed from read-only scripts. script: reads, *
        > FCALL_RO gets 1 text
        "words"
        > FCALL_RO echo 0
        (error) ERR Can not execute a script with write flag using *_ro command.
        > FCALL missing 0
        (error) ERR Function not found
        > FCALL echo x
        (error) ERR Bad number of keys provided
        > FCALL echo -1
        (error) ERR Number of keys can't be negative
        > FCALL echo 1
        (error) ERR Number of keys can't be greater than number of args
        > EVAL "return redis.call('fcall', 'echo', 0)" 0
        ~ (error) ERR This Redis command is not allowed from script script: *
        > MULTI
        OK
        > FUNCTION DELETE lib
        QUEUED
        > FCALL echo 0
        QUEUED
        > EXEC
        1) OK
        2) (error) ERR Function not found
        "##,
    );
}

#[test]
fn libraries_are_loaded_and_deleted() {
    on_both(
        r##"
        > FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function() end)"
        (error) ERR Library 'lib' already exists
        > FUNCTION LOAD "#!lua name=other\nredis.register_function('COUNT', function() end)"
        (error) ERR Function COUNT already exists
        > FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('f', function() end)"
        "lib"
        > FCALL count 0
        (error) ERR Function not found
        > FCALL f 0
        (nil)
        > FUNCTION LOAD NEVER "#!lua name=x\nx"
        (error) ERR Unknown option given: NEVER
        > FUNCTION LOAD "return 1"
        (error) ERR Missing library metadata
        > FUNCTION LOAD "#!lua name=x\nreturn 1"
        (error) ERR No functions registered
        > FUNCTION LOAD "#!lua name=x\nwhile true do end"
        (error) ERR Error registering functions: ERR FUNCTION LOAD timeout
        > FUNCTION DELETE other
        (error) ERR Library not found
        > FUNCTION DELETE lib
        OK
        > FUNCTION LIST
        (empty array)
        > FUNCTION FLUSH NEVER
        (error) ERR FUNCTION FLUSH only supports SYNC|ASYNC option
        > FUNCTION FLUSH SYNC x
        ~ (error) ERR unknown subcommand or wrong number of arguments for 'FLUSH'. *
        > FUNCTION FLUSH ASYNC
        OK
        > FUNCTION KILL
        (error) NOTBUSY No scripts in execution right now.
        > FUNCTION NOSUCH
        (error) ERR unknown subcommand 'NOSUCH'. Try FUNCTION HELP.
        "##,
    );
}

/// Libraries and functions come in no order, so one of each is looked at.
#[test]
fn libraries_are_listed() {
    let list = [
        "FUNCTION LIST LIBRARYNAME sol*",
        "FUNCTION LIST LIBRARYNAME SOLO WITHCODE",
        "FUNCTION LIST LIBRARYNAME nothing",
        "FUNCTION LIST LIBRARYNAME",
        "FUNCTION LIST NEVER",
        "FUNCTION LIST WITHCODE WITHCODE",
        "FUNCTION STATS",
        "FUNCTION HELP",
    ];
    let servers = Oracle::Redis82.beside(&[]);
    for open in [Server::client, Server::client3] {
        let answers = servers.each_ref().map(|server| {
            let mut client = open(server);
            client.call(&["FUNCTION", "FLUSH"]);
            client.call(&["FUNCTION", "LOAD", LIBRARY]);
            let solo = "#!lua name=solo\nredis.register_function{function_name='f',
                callback=function() end, flags={'no-writes', 'allow-oom'}, description='d'}";
            client.call(&["FUNCTION", "LOAD", solo]);
            list.map(|line| {
                let words: Vec<_> = line.split(' ').collect();
                render(&client.call(&words))
            })
        });
        let [ours, theirs] = answers;
        // Flags are a set, without an order either.
        let sorted = |text: &String| {
            let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
            lines.iter_mut().for_each(|line| *line = line.replace(['1', '2', ')', ' '], ""));
            lines.sort();
            lines
        };
        for (line, (ours, theirs)) in list.iter().zip(ours.iter().zip(&theirs)) {
            assert_eq!(sorted(ours), sorted(theirs), "{line}\n{ours}\n{theirs}");
        }
    }
}

/// The payload of all libraries.
fn dump(client: &mut Client) -> Vec<u8> {
    match client.call(&["FUNCTION", "DUMP"]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}

fn restore(client: &mut Client, payload: &[u8], policy: &str) -> String {
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", payload, policy.as_bytes()];
    render(&client.call(&words))
}

#[test]
fn libraries_are_exchanged_with_other_servers() {
    for oracle in Oracle::ALL {
        let servers = oracle.beside(&[]);
        for protocol in ["2", "3"] {
            let open = if protocol == "3" { Server::client3 } else { Server::client };
            let mut clients = servers.each_ref().map(open);
            for from in [0, 1] {
                clients.iter_mut().for_each(|client| {
                    client.call(&["FUNCTION", "FLUSH"]);
                });
                client_load(&mut clients[from]);
                let payload = dump(&mut clients[from]);
                let other = &mut clients[1 - from];
                assert_eq!(restore(other, &payload, "APPEND"), "OK");
                let called = render(&other.call(&["FCALL", "count", "0"]));
                assert_eq!(called, "(integer) 1", "{oracle:?}");
                let again = restore(other, &payload, "APPEND");
                assert_eq!(again, "(error) ERR Library lib already exists");
                assert_eq!(restore(other, &payload, "REPLACE"), "OK");
                assert_eq!(restore(other, &payload, "FLUSH"), "OK");
                let never = restore(other, &payload, "NEVER");
                assert!(never.starts_with("(error) ERR Wrong restore policy given"), "{never}");
                let broken = restore(other, &payload[1..], "FLUSH");
                assert_eq!(broken, "(error) ERR DUMP payload version or checksum are wrong");
            }
        }
    }
}

fn client_load(client: &mut Client) {
    assert_eq!(render(&client.call(&["FUNCTION", "LOAD", LIBRARY])), "\"lib\"");
}

const SPINNING: &str = "#!lua name=long\nredis.register_function('spin', function()
    while true do pcall(function() while true do end end) end end)";

/// H69: a function that catches all errors is ended, too.
#[test]
fn a_long_function_is_told_of_and_can_be_killed() {
    let server = Server::start(&["--busy-reply-threshold", "1000000"]);
    let mut client = server.client();
    client.call(&["FUNCTION", "LOAD", SPINNING]);
    client.send(&["FCALL", "spin", "1", "key", "argument"]);
    for open in [Server::client, Server::client3] {
        let mut other = open(&server);
        eventually("the function is told of", || {
            let stats = render(&other.call(&["FUNCTION", "STATS"]));
            ["\"spin\"", "\"FCALL\"", "\"argument\"", "duration_ms"]
                .iter()
                .all(|word| stats.contains(word))
        });
    }
    // What is told of can be ended, long before it keeps anybody waiting.
    let mut other = server.client();
    let script = render(&other.call(&["SCRIPT", "KILL"]));
    let expected = "(error) BUSY Redis is busy running a script. You can only call FUNCTION KILL \
                    or SHUTDOWN NOSAVE.";
    assert_eq!(script, expected);
    assert_eq!(render(&other.call(&["FUNCTION", "KILL"])), "OK");
    let error = render(&client.receive());
    let expected = "(error) ERR Script killed by user with SCRIPT KILL... script: spin, on ";
    assert!(error.starts_with(expected), "{error}");
    let memory = render(&client.call(&["INFO", "memory"]));
    assert!(memory.contains("number_of_functions:1") && memory.contains("number_of_libraries:1"));
}

#[test]
fn a_long_function_is_told_of_without_a_gap() {
    let server = Server::start(&["--busy-reply-threshold", "1000000"]);
    let (mut client, mut other) = (server.client(), server.client());
    client.call(&["FUNCTION", "LOAD", SPINNING]);
    for _ in 0..50 {
        client.send(&["FCALL", "spin", "1", "key", "argument"]);
        let mut tells = || render(&other.call(&["FUNCTION", "STATS"])).contains("\"spin\"");
        eventually("the function is told of", &mut tells);
        // The function moves to another thread meanwhile.
        assert!((0..20).all(|_| tells()));
        assert_eq!(render(&other.call(&["FUNCTION", "KILL"])), "OK");
        let error = render(&client.receive());
        assert!(error.starts_with("(error) ERR Script killed by user"), "{error}");
    }
}

/// How often the threads went to sleep that do what workers pass on.
fn rests_of_jobs(server: &Server) -> u64 {
    let tasks = format!("/proc/{}/task", server.pid());
    let statuses = std::fs::read_dir(tasks).expect("it runs").filter_map(|task| {
        std::fs::read_to_string(task.expect("it can be read").path().join("status")).ok()
    });
    let of = |status: &str, name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
    };
    let jobs = statuses.filter(|status| of(status, "Name:").is_some_and(|it| it.contains("job")));
    let rests = jobs.map(|status| of(&status, "voluntary_ctxt_switches:").expect("it is told"));
    let rests: Vec<u64> = rests.map(|text| text.parse().expect("a number")).collect();
    assert!(!rests.is_empty(), "there are such threads");
    rests.iter().sum()
}

#[test]
fn a_short_library_is_loaded_where_it_is_read() {
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let before = rests_of_jobs(&server);
    for number in 0..2000 {
        let library = format!(
            "#!lua name=lib{number}\nredis.register_function('f{number}', function() return 1 end)"
        );
        let name = format!("\"lib{number}\"");
        assert_eq!(render(&client.call(&["FUNCTION", "LOAD", &library])), name);
    }
    let rests = rests_of_jobs(&server) - before;
    assert!(rests < 1000, "{rests}");
    assert_eq!(render(&client.call(&["FCALL", "f1999", "0"])), "(integer) 1");
}

/// A library that first says so in the log, and then takes its time.
fn slow_library(name: &str, turns: &str) -> String {
    format!(
        "#!lua name={name}\nredis.log(redis.LOG_WARNING, '{name} begins') \
         for turn = 1, {turns} do end \
         redis.register_function('{name}', function() return 'of {name}' end)"
    )
}

#[test]
fn a_long_library_leaves_the_worker() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, mut other) = (server.client(), server.client());
    // Alone, in a transaction, and where the transaction cannot be begun again.
    let load = ["FUNCTION", "LOAD", &slow_library("slow", "3e5")];
    assert_eq!(render(&client.call(&load)), "\"slow\"");
    assert_eq!(render(&client.call(&["FCALL", "slow", "0"])), "\"of slow\"");
    for first in [&["PING"][..], &["CLIENT", "SETNAME", "me"]] {
        let name = format!("within{}", first.len());
        client.call(&["MULTI"]);
        client.call(first);
        client.call(&["FUNCTION", "LOAD", &slow_library(&name, "3e5")]);
        client.call(&["FCALL", &name, "0"]);
        let replies = client.call(&["EXEC"]);
        let Value::Array(replies) = replies else { panic!("{replies:?}") };
        assert_eq!(render(&replies[1]), format!("\"{name}\""));
        assert_eq!(render(&replies[2]), format!("\"of {name}\""));
    }
    // What is begun again says all once.
    for name in ["slow", "within1", "within3"] {
        let line = format!("{name} begins");
        eventually("it is read from the log", || server.log().contains(&line));
        assert_eq!(server.log().matches(&line).count(), 1, "{name}");
    }
    // One without an end ends, and nobody waits for it.
    client.send(&["FUNCTION", "LOAD", &slow_library("endless", "1/0")]);
    let mut asked = 0;
    let reply = loop {
        assert_eq!(render(&other.call(&["PING"])), "PONG");
        asked += 1;
        match client.arrival(Duration::ZERO).expect("it can be read") {
            Arrival::Silence => {}
            Arrival::Reply(reply) => break render(&reply),
            Arrival::Closed => panic!("it was closed"),
        }
    };
    let timeout = "(error) ERR Error registering functions: ERR FUNCTION LOAD timeout";
    assert_eq!(reply, timeout);
    assert!(asked > 2, "{asked}");
    assert_eq!(render(&client.call(&["FCALL", "endless", "0"])), "(error) ERR Function not found");
}

/// What a library writes to the log is written once, and is not kept meanwhile, however much it is.
#[test]
fn what_a_library_says_while_it_is_loaded_is_not_kept() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, dots) = (server.client(), ".".repeat(100));
    for (name, lines) in [("few", 20), ("many", 2000)] {
        let library = format!(
            "#!lua name={name}\nfor line = 1, {lines} do \
             redis.log(redis.LOG_WARNING, '{name} ' .. line .. '{dots}') end \
             redis.register_function('{name}', function() return 1 end)"
        );
        assert_eq!(render(&client.call(&["FUNCTION", "LOAD", &library])), format!("\"{name}\""));
        let said = |log: &str| log.matches(&format!("{name} ")).count();
        eventually("all is in the log", || said(&server.log()) >= lines);
        assert_eq!(said(&server.log()), lines, "{name}");
    }
    // Lines of this level have no reader.
    let library = "#!lua name=big\nlocal line = 'x' for times = 1, 20 do line = line .. line end \
        for number = 1, 400 do redis.log(redis.LOG_DEBUG, line) end \
        redis.register_function('big', function() return 1 end)";
    let before = server.peak();
    let reply = render(&client.call(&["FUNCTION", "LOAD", library]));
    // On a slow machine its time may be over first.
    assert!(reply == "\"big\"" || reply.contains("FUNCTION LOAD timeout"), "{reply}");
    let taken = server.peak() - before;
    assert!(taken < 64 << 20, "{taken}");
}

/// A library was accepted, so a machine that is slower, or busy, or stopped for a while has to load
/// it, too: here its code takes longer than FUNCTION LOAD allows.
#[test]
fn what_was_accepted_is_loaded_however_long_that_takes() {
    let (brief, long) = ("0000000001", "0100000000");
    // A log as other servers write it.
    let library = slow_library("slow", long);
    let log = encode(&["FUNCTION", "LOAD", &library]);
    let prepare = |folder: &Path| {
        std::fs::write(folder.join("appendonly.aof"), &log).expect("the folder is new");
    };
    let server = Server::start_prepared(prepare, &["--appendonly", "yes"]);
    assert_eq!(render(&server.client().call(&["FCALL", "slow", "0"])), "\"of slow\"");
    // A snapshot, in which the code stands as it was sent.
    let mut server = Server::start(&["--rdbchecksum", "no", "--rdbcompression", "no"]);
    let mut client = server.client();
    let load = ["FUNCTION", "LOAD", &slow_library("slow", brief)];
    assert_eq!(render(&client.call(&load)), "\"slow\"");
    client.call(&["SAVE"]);
    server.kill();
    let path = server.folder().join("dump.rdb");
    let mut bytes = std::fs::read(&path).expect("it was saved");
    let place = bytes.windows(brief.len()).position(|it| it == brief.as_bytes());
    let place = place.expect("the code is in the file as it was sent");
    bytes[place..place + long.len()].copy_from_slice(long.as_bytes());
    std::fs::write(&path, bytes).expect("it can be written");
    server.restart();
    assert_eq!(render(&server.client().call(&["FCALL", "slow", "0"])), "\"of slow\"");
}

#[test]
fn a_library_is_told_of_when_it_is_safe() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("apus.conf"), "").expect("a folder");
    let row = row_of("sync a file");
    let own = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let own = [&own[..], &["--worker-threads", "1"]].concat();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &own);
    assert!(subject.serves(), "{}", subject.log());
    let long = |name: &str| format!("{}--{}", slow_library(name, "1"), "-".repeat(100_000));
    let mut prober = Client::connect(subject.port());
    let loads = [slow_library("short", "1"), slow_library("long", "3e5"), long("large")];
    for (number, library) in loads.iter().enumerate() {
        for is_queued in [false, true] {
            let mut loader = Client::connect(subject.port());
            let mut others = [(); 3].map(|()| Client::connect(subject.port()));
            prober.call(&["FUNCTION", "FLUSH"]);
            subject.injector.arm(row, Fault::Held, 0, u64::MAX);
            let load = ["FUNCTION", "LOAD", library];
            let name = ["short", "long", "large"][number];
            if is_queued {
                loader.call(&["MULTI"]);
                loader.call(&load);
                loader.send(&["EXEC"]);
            } else {
                loader.send(&load);
            }
            // INFO tells of it at once.
            eventually("it is there", || prober.info("number_of_libraries") == "1");
            eventually("the disk is waited for", || subject.injector.met() > 0);
            // With one worker what is asked for is answered in turn.
            others[0].send(&["FUNCTION", "LIST", "WITHCODE"]);
            others[1].send(&["FCALL", name, "0"]);
            others[2].send(&["FUNCTION", "STATS"]);
            (0..3).for_each(|_| assert_eq!(render(&prober.call(&["PING"])), "PONG"));
            let clients = others.iter_mut().chain([&mut loader]);
            for (place, client) in clients.enumerate() {
                let arrival = client.arrival(Duration::ZERO).expect("it can be read");
                assert_eq!(arrival, Arrival::Silence, "{name}, {is_queued}, {place}");
            }
            subject.injector.disarm();
            let replies = others.iter_mut().chain([&mut loader]).map(|it| render(&it.receive()));
            replies.for_each(|reply| {
                assert!(reply.contains(name) || reply.contains("LUA"), "{reply}");
            });
        }
    }
}
