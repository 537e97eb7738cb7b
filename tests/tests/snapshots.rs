//! Snapshots: SAVE, BGSAVE, the points of `save`, SHUTDOWN, and what follows when they fail, equal
//! to the real servers; and files of one instant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use rustix::process::Signal;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check, play};

const MISCONF: &str = "(error) MISCONF Redis is configured to save RDB snapshots, but it's \
                       currently unable to persist to disk. Commands that may modify the data set \
                       are disabled, because this instance is configured to report errors during \
                       writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). \
                       Please check the Redis logs for details about the RDB error.";

fn number(client: &mut Client, name: &str) -> u64 {
    client.info(name).parse().expect("a number")
}

/// Waits until no save is under way.
fn until_saved(client: &mut Client) {
    eventually("the save ends", || client.info("rdb_bgsave_in_progress") == "0");
}

/// Ours with further arguments and so many strings of this length under names of this kind.
fn filled(arguments: &[&str], count: &str, kind: &str, length: &str) -> Server {
    let all = [&["--save", "", "--enable-debug-command", "local"], arguments].concat();
    let server = Server::start(&all);
    let reply = server.client().call(&["DEBUG", "POPULATE", count, kind, length]);
    assert_eq!(render(&reply), "OK");
    server
}

/// Tells threads to stop, in a failing test too.
#[derive(Default)]
struct Stop(AtomicBool);

impl Stop {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag when the result is dropped.
    fn at_end(&self) -> impl Drop + '_ {
        struct AtEnd<'a>(&'a Stop);
        impl Drop for AtEnd<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        AtEnd(self)
    }
}

/// Files of a folder that a save leaves only when it is killed.
fn leftovers(server: &Server) -> usize {
    let files = std::fs::read_dir(server.folder()).expect("it is there");
    let names = files.map(|file| file.expect("it can be listed").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("temp-")).count()
}

fn servers(arguments: &[&str]) -> Vec<Server> {
    let oracles = Oracle::ALL.map(|oracle| oracle.start(arguments));
    [Server::start(arguments)].into_iter().chain(oracles).collect()
}

#[test]
fn saves_are_answered_as_everywhere() {
    for server in servers(&["--save", ""]) {
        let mut client = server.client();
        check(&mut client, "> BGSAVE FOO\n(error) ERR syntax error");
        check(&mut client, "> BGSAVE SCHEDULE FOO\n(error) ERR syntax error");
        check(&mut client, "> SET k v\nOK\n> SAVE\nOK");
        assert_eq!(number(&mut client, "rdb_saves"), 1);
        assert_eq!(client.info("rdb_last_bgsave_time_sec"), "-1", "nobody waited elsewhere");
        assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0);
        check(&mut client, "> SET k w\nOK\n> BGSAVE\nBackground saving started");
        until_saved(&mut client);
        assert_ne!(client.info("rdb_last_bgsave_time_sec"), "-1");
        let saved = render(&client.call(&["LASTSAVE"]));
        assert_eq!(saved, format!("(integer) {}", client.info("rdb_last_save_time")));
        check(&mut client, "> MULTI\nOK\n> BGSAVE\nQUEUED\n> EXEC\n1) Background saving scheduled");
        eventually("the scheduled save is made", || number(&mut client, "rdb_saves") == 3);
        until_saved(&mut client);
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
        assert!(number(&mut client, "total_forks") >= 2 && leftovers(&server) == 0);
    }
}

#[test]
fn one_save_at_a_time_and_a_second_one_is_refused() {
    for server in servers(&["--save", "", "--rdb-key-save-delay", "10000000"]) {
        let mut client = server.client();
        check(&mut client, "> SET k v\nOK\n> BGSAVE\nBackground saving started");
        let refused = "(error) ERR Background save already in progress";
        check(&mut client, &format!("> BGSAVE\n{refused}\n> BGSAVE SCHEDULE\n{refused}"));
        check(&mut client, &format!("> SAVE\n{refused}"));
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1");
        eventually("INFO says how much there is to do", || {
            number(&mut client, "current_save_keys_total") == 1
        });
        assert_ne!(client.info("rdb_current_bgsave_time_sec"), "-1");
        check(&mut client, "> SET k w\nOK\n> GET k\n\"w\"");
        // Whatever is under way, the end comes at once, and leaves nothing behind.
        client.send(&["SHUTDOWN", "NOSAVE"]);
        assert_eq!(client.receive_to_close(), b"");
        assert!(!server.folder().join("dump.rdb").exists());
        if !server.is_oracle() {
            eventually("the file is removed", || leftovers(&server) == 0);
        }
    }
}

#[test]
fn a_save_can_be_cancelled() {
    for server in [
        Server::start(&["--save", "", "--rdb-key-save-delay", "10000000"]),
        Oracle::Valkey91.start(&["--save", "", "--rdb-key-save-delay", "10000000"]),
    ] {
        let mut client = server.client();
        let none = "(error) ERR Background saving is currently not in progress or scheduled";
        check(&mut client, &format!("> BGSAVE CANCEL\n{none}\n> SET k v\nOK"));
        check(&mut client, "> BGSAVE\nBackground saving started");
        check(&mut client, "> BGSAVE CANCEL\nBackground saving cancelled");
        until_saved(&mut client);
        // Nothing failed, so nothing is refused.
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
        check(&mut client, "> CONFIG SET save \"3600 1\"\nOK\n> SET k w\nOK");
        assert!(!server.folder().join("dump.rdb").exists() && leftovers(&server) == 0);
        // Its traces are swept: the next one is as any other.
        if !server.is_oracle() {
            check(&mut client, "> CONFIG SET rdb-key-save-delay 0\nOK\n> SAVE\nOK");
            assert_eq!(keys_of(&Oracle::Redis70.start_prepared(server.snapshot(), &[])), 1);
        }
    }
}

/// A client that flushes everything wants no snapshot of it: that is nothing to warn of.
#[test]
fn a_save_that_a_flush_cancels_is_no_error() {
    let server = Server::start(&["--save", "", "--rdb-key-save-delay", "10000000"]);
    let mut client = server.client();
    check(&mut client, "> SET k v\nOK\n> BGSAVE\nBackground saving started");
    check(&mut client, "> FLUSHALL\nOK");
    until_saved(&mut client);
    eventually("it is told", || server.log().contains("Background saving was cancelled"));
    let is_warning =
        |line: &&str| line.contains(" # ") && !line.contains("the server runs as root");
    let warnings: Vec<_> = server.log().lines().filter(is_warning).map(str::to_owned).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
}

fn keys_of(server: &Server) -> i64 {
    match server.client().call(&["DBSIZE"]) {
        Value::Integer(keys) => keys,
        other => panic!("{other:?}"),
    }
}

#[test]
fn writes_are_refused_while_saves_fail_and_taken_when_they_no_longer_do() {
    for server in servers(&["--save", "3600 1000"]) {
        let mut client = server.client();
        // What a file cannot replace.
        let obstacle = server.folder().join("dump.rdb");
        std::fs::create_dir(&obstacle).unwrap();
        check(&mut client, "> SET k 1\nOK\n> BGSAVE\nBackground saving started");
        until_saved(&mut client);
        assert_eq!(client.info("rdb_last_bgsave_status"), "err");
        assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 1);
        assert_eq!(leftovers(&server), 0);
        let refused = |client: &mut Client, words: &[&str]| {
            let reply = render(&client.call(words)).replace("Valkey", "Redis");
            assert_eq!(reply, MISCONF, "{words:?}");
        };
        refused(&mut client, &["SET", "k", "2"]);
        refused(&mut client, &["PING"]);
        refused(&mut client, &["FLUSHALL"]);
        check(&mut client, "> MULTI\nOK");
        refused(&mut client, &["SET", "k", "2"]);
        let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
        check(
            &mut client,
            &format!("> EXEC\n{aborted}\n> GET k\n\"1\"\n> PUBLISH c m\n(integer) 0"),
        );
        let writes = "return redis.call('set', KEYS[1], 1)";
        let reply = render(&client.call(&["EVAL", writes, "1", "k"])).replace("Valkey", "Redis");
        assert!(reply.starts_with(MISCONF) && reply.contains(" script: "), "{reply}");
        refused(&mut client, &["EVAL", "return redis.pcall('set', KEYS[1], 1)", "1", "k"]);
        refused(&mut client, &["EVAL", "#!lua\nreturn redis.call('get', KEYS[1])", "1", "k"]);
        for reads in ["return redis.call('get', KEYS[1])", "return redis.call('ping') and '1'"] {
            assert_eq!(render(&client.call(&["EVAL", reads, "1", "k"])), "\"1\"");
        }
        check(&mut client, "> SAVE\n(error) ERR");
        check(&mut client, "> SHUTDOWN\n(error) ERR Errors trying to SHUTDOWN. Check logs.");
        check(&mut client, "> SHUTDOWN SAVE\n(error) ERR Errors trying to SHUTDOWN. Check logs.");
        for (way_out, way_back) in [
            (["stop-writes-on-bgsave-error", "no"], ["stop-writes-on-bgsave-error", "yes"]),
            (["save", ""], ["save", "3600 1000"]),
        ] {
            client.call(&[&["CONFIG", "SET"][..], &way_out].concat());
            check(&mut client, "> SET k 2\nOK\n> PING\nPONG");
            client.call(&[&["CONFIG", "SET"][..], &way_back].concat());
            refused(&mut client, &["SET", "k", "3"]);
        }
        std::fs::remove_dir(&obstacle).unwrap();
        check(&mut client, "> SAVE\nOK\n> SET k 4\nOK\n> PING\nPONG");
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    }
}

#[test]
fn points_of_save_are_reached_by_changes_and_time() {
    for mut server in servers(&["--save", "1 3"]) {
        let mut client = server.client();
        check(&mut client, "> SET a 1\nOK\n> SET b 2\nOK");
        thread::sleep(std::time::Duration::from_millis(2500));
        assert_eq!(number(&mut client, "rdb_saves"), 0, "two changes are not three");
        check(&mut client, "> SET c 3\nOK");
        eventually("it saves by itself", || number(&mut client, "rdb_saves") == 1);
        until_saved(&mut client);
        assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0);
        server.wait_for_log("3 changes in 1 seconds. Saving...");
        if !server.is_oracle() {
            assert_eq!(keys_of(&Oracle::Redis70.start_prepared(server.snapshot(), &[])), 3);
        }
    }
}

#[test]
fn the_end_saves_where_points_are_set_or_it_is_told_to() {
    let ways: [(&str, &[&str], bool); 5] = [
        ("", &["SHUTDOWN"], false),
        ("", &["SHUTDOWN", "SAVE"], true),
        ("3600 1", &["SHUTDOWN"], true),
        ("3600 1", &["SHUTDOWN", "NOSAVE"], false),
        ("3600 1", &["SHUTDOWN", "NOW"], true),
    ];
    for (points, words, saves) in ways {
        for server in servers(&["--save", points]) {
            let mut client = server.client();
            check(&mut client, "> SET k v\nOK");
            client.send(words);
            assert_eq!(client.receive_to_close(), b"");
            eventually("it ends", || Client::try_connect(server.port()).is_err());
            let file = server.folder().join("dump.rdb");
            assert_eq!(file.exists(), saves, "{words:?} {points:?}");
        }
    }
}

#[test]
fn signals_save_as_they_are_told_to() {
    for (points, how, saves) in [
        ("3600 1", "default", true),
        ("3600 1", "nosave", false),
        ("", "default", false),
        ("", "save", true),
    ] {
        for (signal, option) in
            [(Signal::TERM, "--shutdown-on-sigterm"), (Signal::INT, "--shutdown-on-sigint")]
        {
            let server = Server::start(&["--save", points, option, how]);
            check(&mut server.client(), "> SET k v\nOK");
            let file = server.folder().join("dump.rdb");
            server.signal(signal);
            eventually("it ends", || Client::try_connect(server.port()).is_err());
            eventually("it has saved if it does", || file.exists() == saves);
        }
    }
}

#[test]
fn a_failed_end_leaves_a_server_that_serves() {
    let mut server = Server::start(&["--save", "3600 1"]);
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    server.signal(Signal::TERM);
    server.wait_for_log("SIGTERM received but errors trying to shut down the server");
    server.signal(Signal::INT);
    server.wait_for_log("SIGINT received but errors trying to shut down the server");
    check(&mut server.client(), "> SET k v\nOK\n> GET k\n\"v\"");
    let mut client = server.client();
    client.send(&["SHUTDOWN", "SAVE", "FORCE"]);
    assert_eq!(client.receive_to_close(), b"");
    assert!(server.wait().success());
}

#[test]
fn an_end_can_be_called_off_while_it_saves() {
    let server = Server::start(&["--save", "", "--rdb-key-save-delay", "10000000"]);
    let mut client = server.client();
    check(&mut client, "> SET k v\nOK");
    client.send(&["SHUTDOWN", "SAVE"]);
    let mut other = server.client();
    eventually("the end is called off", || render(&other.call(&["SHUTDOWN", "ABORT"])) == "OK");
    assert_eq!(render(&client.receive()), "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    check(&mut client, "> SET k w\nOK");
    check(&mut other, "> SHUTDOWN ABORT\n(error) ERR No shutdown in progress.");
    check(&mut other, "> CONFIG SET rdb-key-save-delay 0\nOK\n> SAVE\nOK");
    assert_eq!(leftovers(&server), 0);
}

/// How many accounts clients move money between, and what each begins with.
const ACCOUNTS: usize = 300;
const DEPOSIT: i64 = 100;

/// Moves money between accounts, and renames and expires others, until told to stop.
fn churn(mut client: Client, seed: usize, stop: &Stop) {
    let mut turn = seed;
    while !stop.is_set() {
        turn += 7;
        let (from, to) = (turn % ACCOUNTS, (turn * 31 + 5) % ACCOUNTS);
        let (from, to) = (format!("account:{from}"), format!("account:{to}"));
        let commands: Vec<Vec<&str>> = vec![
            vec!["MULTI"],
            vec!["DECRBY", &from, "3"],
            vec!["INCRBY", &to, "3"],
            vec!["EXEC"],
            vec!["RENAME", "pair:a", "pair:b"],
            vec!["RENAME", "pair:b", "pair:a"],
            vec!["SET", "passing", "x", "PX", "1"],
            vec!["SWAPDB", "1", "2"],
            vec!["LPUSH", "list", &from],
            vec!["LTRIM", "list", "0", "5000"],
        ];
        client.pipeline(&commands);
    }
}

#[test]
fn a_snapshot_under_load_is_of_one_instant() {
    let server = filled(&["--worker-threads", "3"], "20000", "filler", "100");
    let mut client = server.client();
    for number in 0..ACCOUNTS {
        client.call(&["SET", &format!("account:{number}"), &DEPOSIT.to_string()]);
    }
    check(&mut client, "> SET pair:a 1\nOK\n> SELECT 1\nOK\n> SET in:one 1\nOK\n> SELECT 0\nOK");
    let stop = Stop::default();
    thread::scope(|scope| {
        let _stop = stop.at_end();
        for seed in 0..4 {
            let (client, stop) = (server.client(), &stop);
            scope.spawn(move || churn(client, seed, stop));
        }
        for _ in 0..6 {
            check(&mut client, "> BGSAVE\nBackground saving started");
            until_saved(&mut client);
            assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
            let restored = Oracle::Redis70.start_prepared(server.snapshot(), &[]);
            check_instant(&mut restored.client());
        }
    });
}

/// What holds at every instant of the churn.
fn check_instant(client: &mut Client) {
    let names: Vec<String> = (0..ACCOUNTS).map(|number| format!("account:{number}")).collect();
    let mut words = vec!["MGET"];
    words.extend(names.iter().map(String::as_str));
    let Value::Array(balances) = client.call(&words) else { panic!("MGET gives an array") };
    let numbers = balances.iter().map(|balance| text(balance).parse::<i64>());
    let sum: i64 = numbers.map(|number| number.expect("an account holds a number")).sum();
    assert_eq!(sum, ACCOUNTS as i64 * DEPOSIT, "no transfer is there by half");
    assert_eq!(render(&client.call(&["EXISTS", "pair:a", "pair:b"])), "(integer) 1");
    let mut found = 0;
    for database in ["1", "2"] {
        client.call(&["SELECT", database]);
        found += i64::from(render(&client.call(&["EXISTS", "in:one"])) == "(integer) 1");
    }
    client.call(&["SELECT", "0"]);
    assert_eq!(found, 1, "it is in one of the databases that are swapped");
    assert_eq!(text(&client.call(&["GET", "filler:77"])).len(), 100);
}

#[test]
fn what_was_acknowledged_before_the_end_is_in_the_file() {
    let server = filled(&["--worker-threads", "2"], "20000", "filler", "100");
    let stop = Stop::default();
    let acknowledged: Vec<i64> = thread::scope(|scope| {
        // Where the server does not end.
        let _at_end = stop.at_end();
        let count = |number: usize| {
            let (mut client, stop) = (server.client(), &stop);
            scope.spawn(move || {
                let key = format!("counter:{number}");
                let mut last = 0;
                while !stop.is_set() {
                    let Ok(Value::Integer(value)) = client.try_call(&["INCR", &key]) else { break };
                    last = value;
                }
                last
            })
        };
        let counters: Vec<_> = (0..6).map(count).collect();
        let mut client = server.client();
        eventually("all count", || {
            // Nothing is counted at first.
            let mut count = |number: usize| {
                let reply = render(&client.call(&["GET", &format!("counter:{number}")]));
                reply.trim_matches('"').parse::<i64>().unwrap_or(0)
            };
            (0..6).all(|number| count(number) > 100)
        });
        client.send(&["SHUTDOWN", "SAVE"]);
        counters.into_iter().map(|counter| counter.join().unwrap()).collect()
    });
    eventually("it ends", || Client::try_connect(server.port()).is_err());
    let restored = Oracle::Redis70.start_prepared(server.snapshot(), &[]);
    let mut client = restored.client();
    for (number, acknowledged) in acknowledged.into_iter().enumerate() {
        let saved = text(&client.call(&["GET", &format!("counter:{number}")]));
        let saved: i64 = saved.parse().unwrap();
        // One more may have been counted whose answer did not come through.
        assert!((acknowledged..=acknowledged + 1).contains(&saved), "{saved} of {acknowledged}");
    }
}

#[test]
fn the_pace_is_kept_and_writers_wait_for_a_slow_disk_while_readers_do_not() {
    let server = filled(&["--rdbcompression", "no"], "3000", "key", "20000");
    let mut client = server.client();
    check(&mut client, "> CONFIG SET rdb-save-max-bytes-per-second 1mb\nOK");
    check(&mut client, "> BGSAVE\nBackground saving started");
    let before = number(&mut client, "rdb_changes_since_last_save");
    let stop = Stop::default();
    thread::scope(|scope| {
        let at_end = stop.at_end();
        let (mut writer, stop) = (server.client(), &stop);
        let written = scope.spawn(move || {
            let mut count = 0;
            for number in 0..3000 {
                if stop.is_set() {
                    break;
                }
                writer.call(&["SET", &format!("key:{number}"), "new"]);
                count += 1;
            }
            count
        });
        let mut other = server.client();
        // 16 MB of copies are enough: the writer stands still, and the reader does not.
        eventually("the writer waits", || {
            text(&other.call(&["CLIENT", "LIST"])).contains("cmd=set")
        });
        thread::sleep(std::time::Duration::from_millis(700));
        let changes = number(&mut client, "rdb_changes_since_last_save") - before;
        assert!(changes < 2500, "{changes} changes, and the copies of all are 60 MB");
        let read = text(&client.call(&["GET", "key:2999"]));
        assert_eq!(read.len(), 20_000, "readers go on");
        drop(at_end);
        check(&mut client, "> CONFIG SET rdb-save-max-bytes-per-second 0\nOK");
        assert!(written.join().unwrap() < 3000);
    });
    until_saved(&mut client);
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    let copies = number(&mut client, "rdb_last_cow_size");
    assert!((16 << 20..24 << 20).contains(&copies), "{copies} bytes of copies at most");
    play(&server, "> DBSIZE\n(integer) 3000");
}

#[test]
fn what_is_reloaded_is_what_was_there() {
    let server = filled(&[], "500", "filler", "100");
    let mut client = server.client();
    for line in [
        "SET int 12345",
        "APPEND raw partly",
        "RPUSH list a b 3",
        "SADD ints 1 2 3",
        "SADD set a b c",
        "HSET hash f v g w",
        "HPEXPIREAT hash 60000000000000 FIELDS 1 f",
        "ZADD zset 1 a 2.5 b",
        "XADD stream 1-1 f v",
        "XGROUP CREATE stream group 0",
        "ARSET array 7 x",
        "SET timed v PXAT 99999999999999",
        "SWAPDB 0 3",
        "SET elsewhere v",
    ] {
        let reply = render(&client.call(&line.split(' ').collect::<Vec<_>>()));
        assert!(!reply.starts_with("(error)"), "{line}: {reply}");
    }
    let code = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    client.call(&["FUNCTION", "LOAD", code]);
    let before = text(&client.call(&["DEBUG", "DIGEST"]));
    check(&mut client, "> DEBUG RELOAD\nOK");
    assert_eq!(text(&client.call(&["DEBUG", "DIGEST"])), before);
    check(&mut client, "> FCALL f 0\n(integer) 7\n> DBSIZE\n(integer) 1");
    assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0);
    check(&mut client, "> SET elsewhere changed\nOK\n> DEBUG RELOAD NOSAVE\nOK");
    assert_eq!(text(&client.call(&["DEBUG", "DIGEST"])), before, "as it was saved");
    check(&mut client, "> FLUSHALL\nOK\n> FUNCTION FLUSH\nOK\n> DEBUG RELOAD NOSAVE NOFLUSH\nOK");
    assert_eq!(text(&client.call(&["DEBUG", "DIGEST"])), before);
    let unknown = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
    check(&mut client, &format!("> DEBUG RELOAD NO\n(error) {unknown}"));
    // A start reads the same file.
    let mut server = server;
    server.kill();
    server.restart();
    assert_eq!(text(&server.client().call(&["DEBUG", "DIGEST"])), before);
}

/// Another's save fails before a script, between two of its writes, or behind it.
#[test]
fn a_script_is_done_or_not_whatever_fails_meanwhile() {
    let server = Server::start(&["--worker-threads", "2", "--save", "3600 1"]);
    let [mut admin, mut client] = [(); 2].map(|()| server.client());
    // The snapshot cannot take the place of a folder.
    std::fs::create_dir(server.folder().join("dump.rdb")).expect("it is new");
    let script = "redis.call('SET', KEYS[1], 1) for i = 1, 10000000 do end \
                  redis.call('SET', KEYS[2], 1) return 1";
    client.send(&["EVAL", script, "2", "from", "to"]);
    admin.call(&["BGSAVE"]);
    let is_done = client.receive() == Value::Integer(1);
    eventually("the save has failed", || admin.info("rdb_last_bgsave_status") == "err");
    let expected = Value::Integer(if is_done { 2 } else { 0 });
    assert_eq!(admin.call(&["EXISTS", "from", "to"]), expected);
}
