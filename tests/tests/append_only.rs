//! What the append-only file says, run again, gives the data there were: whatever commands changed
//! them, however long ago.
//!
//! `APUS_REPLAY_EPISODES=1000` asks for so many episodes of a fresh seed.

use std::collections::BTreeMap;
use std::path::Path;

use base::random::Random;
use base::time::Clock;
use proto::value::Value;
use tests::client::{encode, line};
use tests::differential::Command;
use tests::folder::copy_folder;
use tests::generator::{Generator, Transactions, prologue, shared};
use tests::render::{render, text};
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Oracle, Server, check};

/// Episodes of random requests, each followed by a new start.
const EPISODES: usize = 24;
/// Requests in an episode.
const REQUESTS: usize = 400;

/// The arguments of a server whose acknowledged writes outlive a kill.
pub(super) const DURABLE: &[&str] =
    &["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];

#[test]
fn random_commands_give_the_same_data_when_they_are_run_again() {
    let (episodes, seed) = match std::env::var("APUS_REPLAY_EPISODES") {
        Ok(number) => (number.parse().expect("a number"), Random::from_entropy().next_u64()),
        Err(_) => (EPISODES, 1),
    };
    let own = [DURABLE, &["--aof-use-rdb-preamble", "no"]].concat();
    let mut server = Server::start(&own);
    let declared = shared(&mut server.client(), &mut server.client());
    let payloads = payloads(&mut server.client());
    let mut one_by_one = Generator::new(seed, &declared, &payloads);
    let mut in_transactions = Transactions::new(Generator::new(seed, &declared, &payloads), true);
    let mut kept = 0;
    for episode in 0..episodes {
        let mut client = server.client();
        client.pipeline(&prologue(episode, true));
        let commands: Vec<Command> = if episode % 3 == 2 {
            in_transactions.begin();
            (0..REQUESTS).map(|_| in_transactions.draw().step.command).collect()
        } else {
            (0..REQUESTS).map(|_| one_by_one.draw().step.command).collect()
        };
        client.pipeline(&commands);
        if episode % 2 == 1 {
            // What is run again is then what tells the data, in place of what made them.
            let mut other = server.client();
            other.call(&["BGREWRITEAOF"]);
            settle(&mut other);
        }
        let mut before = state(&mut server.client());
        kept += before.len();
        server.kill();
        server.restart();
        let mut after = state(&mut server.client());
        forget_what_is_over([&mut before, &mut after]);
        if before != after {
            let told = differences(&before, &after);
            let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
            panic!("seed {seed}, episode {episode}: {told}\n{}", lines.join("\n"));
        }
    }
    assert!(kept > 10 * episodes, "{kept} keys are few");
}

/// What DUMP makes of some values.
pub(crate) fn payloads(client: &mut Client) -> Vec<Vec<u8>> {
    let makers = ["SET p 1", "SET p text", "RPUSH p a b", "SADD p 1 2", "HSET p f v", "ZADD p 1 a"];
    let dump = |maker: &&str| {
        client.call(&["DEL", "p"]);
        client.call(&maker.split(' ').collect::<Vec<_>>());
        client.call(&["DUMP", "p"]).as_bytes().expect("it is there").to_vec()
    };
    makers.iter().map(dump).collect()
}

/// What a key holds, and until when: milliseconds, or -1 for ever.
#[derive(PartialEq)]
pub(crate) struct Held {
    deadline: i64,
    what: String,
}

/// The keys of all databases.
pub(crate) type State = BTreeMap<(usize, Vec<u8>), Held>;

/// Leaves out keys that are over by now: these may have gone between two looks.
pub(crate) fn forget_what_is_over(states: [&mut State; 2]) {
    let now = Clock::system().now_ms();
    states
        .into_iter()
        .for_each(|state| state.retain(|_, held| !(0..=now).contains(&held.deadline)));
}

/// Leaves out how many entries groups of streams have read: Redis 7.0 does not tell its replicas,
/// and Valkey takes numbers that cannot be.
pub(crate) fn forget_entries_read(states: [&mut State; 2]) {
    for held in states.into_iter().flat_map(BTreeMap::values_mut) {
        let pieces = held.what.split("entries-read ");
        let tails = pieces.skip(1).filter_map(|piece| piece.split_once("pel-count"));
        let tails: String = tails.map(|(_, tail)| tail).collect();
        let end = held.what.find("entries-read ").unwrap_or(held.what.len());
        held.what.truncate(end);
        held.what.push_str(&tails);
    }
}

/// Leaves out what streams count, which Redis 6.2 does not.
pub(crate) fn forget_counters(states: [&mut State; 2]) {
    const FIRST: &str = "max-deleted-entry-id ";
    const BEHIND: &str = "recorded-first-entry-id";
    for held in states.into_iter().flat_map(BTreeMap::values_mut) {
        if let Some((before, rest)) = held.what.split_once(FIRST)
            && let Some((_, after)) = rest.split_once(BEHIND)
        {
            held.what = format!("{before}{after}");
        }
    }
}

/// Leaves out consumers that have nothing pending: real servers do not tell their replicas of one
/// that was given nothing when it first came.
pub(crate) fn forget_idle_consumers(states: [&mut State; 2]) {
    const IDLE: &str = " seen-time .. active-time .. pel-count Integer(0) pending []]";
    for held in states.into_iter().flat_map(BTreeMap::values_mut) {
        let mut pieces = held.what.split("[name ");
        let mut kept = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match piece.split_once(IDLE) {
                Some((_, rest)) => kept.push_str(rest),
                None => kept += &format!("[name {piece}"),
            }
        }
        held.what = kept.replace("  ", " ").replace("[ ", "[").replace(" ]", "]");
    }
}

/// What each key of each database holds.
pub(crate) fn state(client: &mut Client) -> State {
    let mut state = BTreeMap::new();
    for database in 0..16 {
        client.call(&["SELECT", &database.to_string()]);
        let Value::Array(keys) = client.call(&["KEYS", "*"]) else { panic!("KEYS replies a list") };
        for key in keys {
            let key = key.as_bytes().expect("a key is a string").to_vec();
            let kind = client.call(&[b"TYPE", &*key]);
            let value = match kind.as_bytes() {
                // When consumers were last seen is not kept, as in Redis.
                Some(b"stream") => {
                    let info =
                        client.call(&[&b"XINFO"[..], b"STREAM", &key, b"FULL", b"COUNT", b"0"]);
                    without_times(&info)
                }
                _ => format!("{:?}", client.call(&[&b"DEBUG"[..], b"DIGEST-VALUE", &key])),
            };
            let Value::Integer(deadline) = client.call(&[b"PEXPIRETIME", &*key]) else {
                panic!("PEXPIRETIME replies a number")
            };
            let what = format!("{kind:?} {value}");
            // One that went meanwhile is not there.
            if deadline != -2 {
                state.insert((database, key), Held { deadline, what });
            }
        }
    }
    state
}

/// A reply of XINFO without what a restart does not keep: times, and how the settings have it lie.
fn without_times(value: &Value) -> String {
    let Value::Array(elements) = value else {
        let text = value.as_bytes().map(|bytes| bytes.escape_ascii().to_string());
        return text.unwrap_or_else(|| format!("{value:?}"));
    };
    let is_passing = |name: &Value| {
        let names: [&[u8]; 4] =
            [b"seen-time", b"active-time", b"radix-tree-keys", b"radix-tree-nodes"];
        name.as_bytes().is_some_and(|name| names.contains(&name))
    };
    let mut told = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let is_hidden = index.checked_sub(1).is_some_and(|before| is_passing(&elements[before]));
        told.push(if is_hidden { "..".to_owned() } else { without_times(element) });
    }
    format!("[{}]", told.join(" "))
}

pub(crate) fn differences(before: &State, after: &State) -> String {
    let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let differing = keys.filter(|key| before.get(*key) != after.get(*key));
    let told = differing.map(|(database, key)| {
        let place = (*database, key.clone());
        let show = |held: &Held| format!("{} until {}", held.what, held.deadline);
        let [old, new] =
            [before, after].map(|it| it.get(&place).map_or_else(|| "nothing".to_owned(), show));
        format!("{database}/{}: it was\n  {old}\nand is\n  {new}", key.escape_ascii())
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Waits until neither a snapshot nor a new log is being made.
pub(super) fn settle(client: &mut Client) {
    eventually("the background is quiet", || {
        let info = text(&client.call(&["INFO", "persistence"]));
        let fields =
            ["rdb_bgsave_in_progress:0", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        fields.iter().all(|field| info.contains(field))
    });
}

/// A log that waits for its first base keeps nothing yet, and nobody is told that it does.
#[test]
fn nothing_is_in_a_log_that_has_no_base() {
    let server = Server::start(&["--save", "", "--appendonly", "no"]);
    let (mut client, mut waiter) = (server.client(), server.client());
    check(&mut client, "> CONFIG SET rdb-key-save-delay 100000000\nOK\n> MSET a 1 b 2 c 3\nOK");
    check(&mut client, "> BGSAVE\nBackground saving started");
    check(&mut client, "> CONFIG SET appendonly yes\nOK");
    check(&mut client, "> SET d 4\nOK\n> WAITAOF 1 0 50\n1) (integer) 0\n2) (integer) 0");
    waiter.send(&["WAITAOF", "1", "0", "0"]);
    assert!(waiter.is_silent());
    check(&mut client, "> BGSAVE CANCEL\nBackground saving cancelled");
    check(&mut client, "> CONFIG SET rdb-key-save-delay 0\nOK");
    assert_eq!(waiter.receive(), Value::Array(vec![Value::Integer(1), Value::Integer(0)]));
    let prepare = |folder: &Path| copy_folder(server.folder(), folder);
    let found = Server::start_prepared(prepare, &["--appendonly", "yes"]);
    check(&mut found.client(), "> DBSIZE\n(integer) 4");
}

#[test]
fn the_files_are_waited_for_and_made_in_both_protocols() {
    for server in &Oracle::Redis82.beside(&["--appendonly", "yes"]) {
        for mut client in [server.client(), server.client3()] {
            settle(&mut client);
            check(
                &mut client,
                "
                > SET k v
                OK
                > WAITAOF 1 0 9000
                1) (integer) 1
                2) (integer) 0
                > WAITAOF 1 1 1
                1) (integer) 1
                2) (integer) 0
                > WAITAOF 0 0 0
                1) (integer) 1
                2) (integer) 0
                > WAITAOF 0 1 1
                1) (integer) 1
                2) (integer) 0
                > SAVE
                OK
                > BGSAVE
                Background saving started
                ",
            );
            settle(&mut client);
            check(&mut client, "> BGSAVE SCHEDULE\nBackground saving started\n");
            settle(&mut client);
            check(&mut client, "> BGREWRITEAOF\nBackground append only file rewriting started\n");
            settle(&mut client);
        }
    }
}

#[test]
fn the_log_is_loaded_on_demand_whether_it_is_on_or_was() {
    for preamble in ["yes", "no"] {
        let own = ["--aof-use-rdb-preamble", preamble, "--enable-debug-command", "yes"];
        for server in &Oracle::Redis82.beside(&[&["--appendonly", "yes"], &own[..]].concat()) {
            let mut client = server.client();
            check(
                &mut client,
                "> SET base 1\nOK\n> BGREWRITEAOF\nBackground append only file rewriting started\n",
            );
            settle(&mut client);
            check(
                &mut client,
                r#"
                > SELECT 3
                OK
                > HSET later a 1
                (integer) 1
                > DEBUG LOADAOF
                OK
                > KEYS *
                1) "later"
                > HGET later a
                "1"
                > CONFIG SET appendonly no
                OK
                > HSET later a 2
                (integer) 0
                > DEBUG LOADAOF
                OK
                > HGET later a
                "1"
                > SELECT 0
                OK
                > KEYS *
                1) "base"
                "#,
            );
        }
    }
    // Redis ends where there is no log; we keep the data.
    let server = Server::start(&["--enable-debug-command", "yes"]);
    check(
        &mut server.client(),
        r#"
        > SET k v
        OK
        > DEBUG LOADAOF
        (error) ERR Error trying to load the AOF files, check server logs.
        > GET k
        "v"
        "#,
    );
}

/// Else a server that always ends before its log has grown by enough would never rewrite it.
#[test]
fn after_a_start_the_log_has_grown_by_all_that_is_behind_its_base() {
    let arguments = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
    let arguments = [&arguments[..], &["--enable-debug-command", "yes"]].concat();
    for mut server in Oracle::Redis82.beside(&arguments) {
        let mut client = server.client();
        check(&mut client, "> BGREWRITEAOF\nBackground append only file rewriting started");
        settle(&mut client);
        client.call(&["SET", "key", &"x".repeat(5000)]);
        check(&mut client, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0");
        server.kill();
        server.restart();
        let mut client = server.client();
        let field = |client: &mut Client, name: &str| -> u64 {
            let info = text(&client.call(&["INFO", "persistence"]));
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.expect("a field of the section").trim().parse().expect("a number")
        };
        let [base, all] = ["aof_base_size", "aof_current_size"].map(|it| field(&mut client, it));
        assert!(base < 3000 && all > base + 5000, "{base} {all}");
        check(
            &mut client,
            "> CONFIG SET auto-aof-rewrite-min-size 1 auto-aof-rewrite-percentage 100\nOK",
        );
        eventually("the log is rewritten", || field(&mut client, "aof_rewrites") == 1);
    }
}

#[test]
fn the_log_moves_with_its_next_base_when_the_directory_changes() {
    let own = ["--appendonly", "yes", "--appendfsync", "always"];
    let protected = ["--enable-protected-configs", "yes"];
    for oracle in Oracle::ALL {
        for mut server in oracle.beside(&[&own[..], &protected].concat()) {
            let mut client = server.client();
            settle(&mut client);
            let elsewhere = server.folder().join("elsewhere");
            std::fs::create_dir(&elsewhere).expect("the folder is new");
            check(&mut client, "> SET a 1\nOK\n");
            let path = elsewhere.to_str().expect("a temporary folder has a simple name");
            check(&mut client, &format!("> CONFIG SET dir {path}\nOK\n> SET b 2\nOK\n"));
            assert!(!elsewhere.join("appendonlydir").exists(), "nothing moves by itself");
            client.call(&["BGREWRITEAOF"]);
            settle(&mut client);
            check(&mut client, "> SET c 3\nOK\n");
            client.call(&["BGREWRITEAOF"]);
            settle(&mut client);
            check(&mut client, "> SET d 4\nOK\n");
            server.kill();
            let moved = |folder: &Path| {
                std::fs::rename(elsewhere.join("appendonlydir"), folder.join("appendonlydir"))
                    .expect("both folders are of one disk");
            };
            let successor = Server::start_prepared(moved, &own);
            check(
                &mut successor.client(),
                "> MGET a b c d\n1) \"1\"\n2) \"2\"\n3) \"3\"\n4) \"4\"\n",
            );
        }
    }
}

/// A session with more than a megabyte of replies that wait for the disk reads no further. The
/// session goes on when they have left.
#[test]
fn a_client_with_many_replies_waiting_for_the_disk_goes_on_behind_them() {
    const LONG: usize = 200_000;
    let server = Server::start(DURABLE);
    let mut client = server.client();
    client.call(&["SET", "long", &"x".repeat(LONG)]);
    for round in 0..100_usize {
        let number = round.to_string();
        let reads = encode(&["GET", "long"]).repeat(8);
        let behind = [encode(&["SET", "round", "over"]), encode(&["ECHO", &number])].concat();
        client.send_raw(&[encode(&["SET", "round", &number]), reads, behind].concat());
        assert_eq!(text(&client.receive()), "OK");
        for _ in 0..8 {
            assert_eq!(text(&client.receive()).len(), LONG, "in round {round}");
        }
        assert_eq!([client.receive(), client.receive()].map(|it| text(&it)), ["OK", &*number]);
    }
}

/// Commands that came to more or less than their words say of themselves where they run again.
const ODD: &[&str] = &[
    "XGROUP CREATE trimmed g 0",
    "XREADGROUP GROUP g c COUNT 1000 STREAMS trimmed >",
    // All but the first are acknowledged by then.
    "XTRIM trimmed MINID ~ 150-1 ACKED",
    "XADD holes 1 a 1",
    "XADD holes 2 a 1",
    "XADD holes 3 a 1",
    "XADD holes 4 a 1",
    "XADD holes 5 a 1",
    "XGROUP CREATE holes g 0",
    "XREADGROUP GROUP g c COUNT 3 STREAMS holes >",
    "XDEL holes 2",
    "XDEL holes 5",
    "XGROUP CREATE holes late 4",
    "BITFIELD grown OVERFLOW FAIL SET u8 100 300",
];

#[test]
fn what_a_command_came_to_is_there_again_whatever_its_words_were() {
    for (preamble, rewrites) in [("no", false), ("no", true), ("yes", true)] {
        let mut server = Server::start(&[DURABLE, &["--aof-use-rdb-preamble", preamble]].concat());
        let mut client = server.client();
        for id in 1..=200 {
            client.call(&["XADD", "trimmed", &format!("{id}-1"), "a", "1"]);
        }
        for line in ODD {
            client.call(&line.split(' ').collect::<Vec<_>>());
            if line.starts_with("XREADGROUP GROUP g c COUNT 1000") {
                let ids: Vec<String> = (2..=200).map(|id| format!("{id}-1")).collect();
                let words = ["XACK", "trimmed", "g"].map(str::to_owned);
                assert_eq!(client.call(&[&words[..], &ids].concat()), Value::Integer(199));
            }
        }
        let sent =
            ["one", "two"].map(|id| client.call(&["XADD", "sent", "IDMP", "p", id, "*", "a", "1"]));
        client.call(&["XTRIM", "sent", "MAXLEN", "0"]);
        serve_one_whose_consumer_is_gone(&server);
        for number in 0..200 {
            client.call(&["ZADD", "zeros", "1", &number.to_string()]);
        }
        client.call(&["ZADD", "zeros", "-0", "signed"]);
        assert_eq!(render(&client.call(&["ZSCORE", "zeros", "signed"])), "\"-0\"");
        if rewrites {
            client.call(&["BGREWRITEAOF"]);
            settle(&mut client);
        }
        let before = state(&mut server.client());
        server.kill();
        server.restart();
        let mut client = server.client();
        let after = state(&mut server.client());
        let told = differences(&before, &after);
        assert!(before == after, "preamble {preamble}, a rewrite {rewrites}: {told}");
        assert_eq!(render(&client.call(&["ZSCORE", "zeros", "signed"])), "\"-0\"");
        let again =
            ["one", "two"].map(|id| client.call(&["XADD", "sent", "IDMP", "p", id, "*", "a", "1"]));
        assert_eq!(again, sent, "they were sent before");
        check(&mut client, "> STRLEN grown\n(integer) 14");
    }
}

/// A client waits as a consumer, which is deleted before it is served.
fn serve_one_whose_consumer_is_gone(server: &Server) {
    let (mut client, mut waiter) = (server.client(), server.client());
    client.call(&["XGROUP", "CREATE", "awaited", "g", "$", "MKSTREAM"]);
    waiter.send(&[
        "XREADGROUP",
        "GROUP",
        "g",
        "w",
        "NOACK",
        "BLOCK",
        "0",
        "STREAMS",
        "awaited",
        ">",
    ]);
    eventually("a client waits", || {
        text(&client.call(&["INFO", "clients"])).contains("blocked_clients:1")
    });
    client.call(&["XGROUP", "DELCONSUMER", "awaited", "g", "w"]);
    client.call(&["XADD", "awaited", "*", "a", "1"]);
    waiter.receive();
}

/// Neither XSETID nor XNACK FORCE minds the order of IDs that a stream has by itself.
#[test]
fn streams_with_any_ids_are_written_as_commands_and_read() {
    const STREAMS: &[&str] = &[
        "XTRIM x MAXLEN 0; XSETID x 1-2",
        "XDEL x 1-3; XTRIM x MAXLEN 0; XSETID x 1-3",
        "XTRIM x MAXLEN 1; XADD x 2-1 b 2; XTRIM x MAXLEN 1",
        "XTRIM x MAXLEN 0; XSETID x 1-1; XADD x 1-2 b 2",
        "XNACK x g FAIL IDS 1 9-9 FORCE",
        "XTRIM x MAXLEN 0; XNACK x g FAIL IDS 1 9-9 FORCE",
        "XTRIM x MAXLEN 0; XSETID x 0-1; XADD x 0-2 b 2; XADD x 7-7 c 3; XDEL x 7-7",
    ];
    for commands in STREAMS {
        let arguments = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--save", ""];
        let mut server = Server::start(&arguments);
        let mut client = server.client();
        say(&mut client, "XADD x 1-1 a 1; XADD x 1-2 a 1; XADD x 1-3 a 1");
        say(&mut client, "XGROUP CREATE x g 0; SET other data");
        say(&mut client, "XREADGROUP GROUP g c STREAMS x >");
        say(&mut client, commands);
        let told = |client: &mut Client| {
            ["XINFO STREAM x", "XINFO GROUPS x", "XPENDING x g", "XRANGE x - +", "GET other"]
                .map(|line| render(&client.call(&line.split(' ').collect::<Vec<_>>())))
        };
        let before = told(&mut client);
        say(&mut client, "BGREWRITEAOF");
        eventually("it is written", || {
            client.info("aof_rewrite_in_progress") == "0"
                && client.info("aof_rewrite_scheduled") == "0"
        });
        server.kill();
        eventually("it has ended", || server.has_ended());
        server.restart();
        assert_eq!(told(&mut server.client()), before, "{commands}");
    }
}
