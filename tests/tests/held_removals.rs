//! RM steps aside for a key that a script holds: what others do meanwhile (WATCH, a log that
//! begins, SWAPDB) sees all that it removes, or nothing of it.

use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Arrival, Client, Server};

const BUSY: &str = "(error) BUSY Redis is busy running a long command.";

fn start(arguments: &[&str]) -> Server {
    let common = ["--worker-threads", "2", "--enable-debug-command", "yes"];
    Server::start(&[&common, arguments].concat())
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// The keys that RM is to remove. Each is held in turn, so that RM steps aside wherever it may.
const REMOVED: [&str; 6] = ["rm:0", "rm:1", "rm:2", "rm:3", "rm:4", "rm:5"];

/// RM waits for a key that a script holds; `meanwhile` is what others do then, and leaves to be
/// heard when the script is over.
fn remove_around_a_held_key<T>(
    server: &Server,
    held: &str,
    meanwhile: impl FnOnce(&mut Client) -> T,
) -> (T, Client) {
    let (mut holder, mut other) = (server.client(), server.client());
    for key in REMOVED {
        assert_eq!(ask(&mut other, &format!("SET {key} value")), "OK");
    }
    assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 30"), "OK");
    holder.send(&["EVAL", "while true do end", "1", held]);
    eventually("the key is held", || ask(&mut other, &format!("GET {held}")) == BUSY);
    // From here on all wait as long as that takes.
    assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 0"), "OK");
    let mut remover = server.client();
    remover.send(&["RM", "0", "MATCH", "rm:*", "COUNT", "100000"]);
    eventually("RM has begun", || ask(&mut other, "CLIENT LIST").contains("cmd=rm"));
    let left = meanwhile(&mut other);
    assert_eq!(ask(&mut other, "SCRIPT KILL"), "OK");
    assert!(render(&holder.receive()).contains("Script killed by user"));
    let reply = render(&remover.receive());
    assert!(reply.ends_with("(integer) 6") || reply.ends_with("(integer) 0"), "{held}: {reply}");
    (left, other)
}

/// What was deleted behind WATCH breaks it.
#[test]
fn a_client_that_watches_a_key_that_rm_is_about_to_remove_is_told() {
    let server = start(&["--save", ""]);
    for held in REMOVED {
        let watch = |_: &mut Client| {
            REMOVED.map(|key| {
                let mut client = server.client();
                client.send(&["WATCH", key]);
                // A client that has to wait for the key may watch it when it is gone.
                let answer = client.arrival(Duration::from_millis(20));
                (client, matches!(answer, Ok(Arrival::Reply(Value::Simple(_)))))
            })
        };
        let (watchers, _) = remove_around_a_held_key(&server, held, watch);
        assert!(watchers.iter().filter(|(_, watches)| *watches).count() > 2, "{held}");
        for ((mut watcher, watches), key) in watchers.into_iter().zip(REMOVED) {
            if !watches {
                assert_eq!(render(&watcher.receive()), "OK");
            }
            let was_there = ask(&mut watcher, &format!("EXISTS {key}"));
            assert_eq!(was_there, "(integer) 0", "{held}: {key} was removed");
            assert_eq!(ask(&mut watcher, "MULTI"), "OK");
            assert_eq!(ask(&mut watcher, "PING"), "QUEUED");
            if watches {
                assert_eq!(ask(&mut watcher, "EXEC"), "(nil)", "{held}: {key}");
            }
        }
    }
}

/// A log that is switched on meanwhile knows what is removed.
#[test]
fn a_log_that_begins_while_rm_waits_is_whole() {
    for held in REMOVED {
        let text = "save \"\"\nappendfsync always\nworker-threads 2\n";
        let mut server = Server::start_with_config(text, &[]);
        let begin = |other: &mut Client| ask(other, "CONFIG SET appendonly yes");
        let (reply, mut other) = remove_around_a_held_key(&server, held, begin);
        assert_eq!(reply, "OK");
        assert_eq!(ask(&mut other, "SET behind 1"), "OK");
        assert_eq!(ask(&mut other, "CONFIG REWRITE"), "OK");
        eventually("the log is there", || {
            let told = ask(&mut other, "INFO persistence");
            told.contains("aof_rewrite_in_progress:0") && told.contains("aof_rewrite_scheduled:0")
        });
        server.kill();
        server.restart();
        assert_eq!(render(&server.client().call(&["KEYS", "*"])), "1) \"behind\"", "{held}");
    }
}

/// Databases that are swapped meanwhile are the same in memory and behind a start.
#[test]
fn databases_that_are_swapped_while_rm_waits_are_as_in_the_log() {
    for held in REMOVED {
        let log = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        let mut server = start(&log);
        let mut swapper = server.client();
        let swap = |_: &mut Client| swapper.send(&["SWAPDB", "0", "1"]);
        let ((), mut other) = remove_around_a_held_key(&server, held, swap);
        assert_eq!(render(&swapper.receive()), "OK");
        let look = |client: &mut Client| {
            ["SELECT 0", "DBSIZE", "SELECT 1", "DBSIZE", "DEBUG DIGEST"].map(|it| ask(client, it))
        };
        let before = look(&mut other);
        server.kill();
        server.restart();
        assert_eq!(look(&mut server.client()), before, "{held}");
    }
}

/// What is over goes before a command finds that it is heavy and must wait: that is in the log.
#[test]
fn what_a_command_removes_before_it_waits_is_in_the_log() {
    const FILL: &str = "for i = 1, 20000 do local m = 'm' .. i redis.call('hset', 'h', m, 7) \
        redis.call('zadd', 'z', 7, m) if i <= 300 then \
        redis.call('hpexpire', 'h', 1, 'fields', 1, m) \
        redis.call('expiremember', 'z', m, 1, 'ms') end end";
    let heavy = [
        ("HRANDFIELD h 15000", "HINCRBY h m1 1", "HGET h m1", "\"1\""),
        ("ZRANDMEMBER z 15000", "ZINCRBY z 1 m1", "ZSCORE z m1", "\"1\""),
        ("ZUNIONSTORE d 2 z z", "ZINCRBY z 1 m1", "ZSCORE z m1", "\"1\""),
    ];
    for (request, write, read, value) in heavy {
        let mut server = start(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        let (mut holder, mut client, mut other) =
            (server.client(), server.client(), server.client());
        assert_eq!(ask(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
        client.call(&["EVAL", FILL, "0"]);
        assert_eq!(ask(&mut client, "CONFIG SET busy-reply-threshold 0"), "OK");
        holder.send(&["EVAL", "while true do end", "1", "held"]);
        eventually("a script runs", || {
            ask(&mut client, "INFO everything").contains("number_of_running_scripts:1")
                || !ask(&mut client, "FUNCTION STATS").contains("running_script\n")
        });
        other.send(&["SWAPDB", "5", "6"]);
        client.send(&request.split(' ').collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(50));
        let mut killer = server.client();
        eventually("the script is killed", || ask(&mut killer, "SCRIPT KILL") == "OK");
        holder.receive();
        other.receive();
        client.receive();
        ask(&mut client, write);
        assert_eq!(ask(&mut client, read), value, "{request}");
        server.kill();
        server.restart();
        assert_eq!(ask(&mut server.client(), read), value, "{request}: after a start");
    }
}
