//! Scripts that come together: each runs as if it had come alone, whatever locks they share.

use proto::value::Value;
use tests::client::line;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Server, check};

const LIBRARY: &str = "#!lua name=lib
local function add(keys, args) return redis.call('INCRBY', keys[1], args[1]) end
local function add_elsewhere(keys, args)
    redis.call('INCRBY', keys[1], args[1])
    return redis.call('INCRBY', 'elsewhere', args[1])
end
redis.register_function('add', add)
redis.register_function('add_elsewhere', add_elsewhere)
redis.register_function{function_name = 'look', flags = {'no-writes'}, callback = function(keys)
    return redis.call('GET', keys[1])
end}";

/// Adds one to its key.
const ADD: &str = "return redis.call('INCR', KEYS[1])";
/// The same, and meets a key that nobody declared.
const ADD_ELSEWHERE: &str =
    "local sum = redis.call('INCR', KEYS[1]) redis.call('INCR', 'elsewhere') return sum";
/// Changes its key and fails.
const FAIL: &str = "redis.call('INCR', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')";
/// Takes longer than a worker gives it.
const LONG: &str =
    "redis.call('INCR', KEYS[1]) for i = 1, 300000 do end return redis.call('INCR', KEYS[1])";

fn command(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn eval(script: &str, key: &str) -> Vec<Vec<u8>> {
    command(&["EVAL", script, "1", key])
}

/// Scripts and functions of all sorts, with commands in between.
fn mixed() -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for script in [ADD, ADD_ELSEWHERE, ADD, FAIL, ADD, LONG, ADD, ADD_ELSEWHERE, ADD] {
        all.extend(["a", "a", "b"].map(|key| eval(script, key)));
    }
    let others: [&[&str]; 22] = [
        &["FCALL", "add", "1", "a", "5"],
        &["FCALL", "add", "1", "a"],
        &["FCALL", "add_elsewhere", "1", "b", "2"],
        &["FCALL", "look", "1", "a"],
        &["FCALL_RO", "look", "1", "b"],
        &["FCALL_RO", "add", "1", "b", "1"],
        &["FCALL", "nosuch", "1", "b"],
        &["EVAL", ADD, "1", "a", "unused"],
        &["EVAL", ADD, "2", "a", "b"],
        &["EVAL", ADD, "3", "a", "b"],
        &["EVAL", ADD, "x", "a"],
        &["EVAL", "return ARGV[1]", "0", "x"],
        &["EVAL", "return {KEYS[1], ARGV[1], redis.call('TTL', KEYS[1])}", "1", "a", "x"],
        &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "a"],
        &["EVAL_RO", ADD, "1", "a"],
        &["EVALSHA", "0000000000000000000000000000000000000000", "1", "a"],
        &["EVAL", "redis.call('SELECT', 1) return redis.call('INCR', KEYS[1])", "1", "a"],
        &["EVAL", "return", "1", "a"],
        &["EVAL", "return (", "1", "a"],
        &["EVAL", "redis.setresp(3) return redis.call('SET', KEYS[1], '7')", "1", "a"],
        &["EVAL", "return redis.pcall('LPUSH', KEYS[1], 'x')", "1", "a"],
        &["EVAL", "return redis.call('DEL', KEYS[1])", "1", "b"],
    ];
    for other in others {
        all.extend([command(other), eval(ADD, "a"), command(&["INCR", "a"]), eval(ADD, "c")]);
    }
    all.extend(["a", "b", "c", "elsewhere"].map(|key| command(&["GET", key])));
    all
}

/// Sends all at once.
#[track_caller]
fn exchange(client: &mut Client, expected: &[(Vec<Vec<u8>>, &str)]) {
    let sent: Vec<_> = expected.iter().map(|(command, _)| command.clone()).collect();
    for ((command, expected), reply) in expected.iter().zip(&client.pipeline(&sent)) {
        assert_eq!(render(reply), *expected, "{}", line(command));
    }
}

#[test]
fn what_comes_together_is_answered_as_what_comes_one_by_one() {
    let commands = mixed();
    let (alone, together) = (Server::start(&[]), Server::start(&[]));
    for server in [&alone, &together] {
        server.client().call(&["FUNCTION", "LOAD", LIBRARY]);
    }
    let mut client = alone.client();
    let expected: Vec<Value> = commands.iter().map(|command| client.call(command)).collect();
    for piece in [2, 3, 5, 8, 9, 16, 17, commands.len()] {
        let mut client = together.client();
        check(&mut client, "> FLUSHALL\nOK");
        let replies = commands.chunks(piece).flat_map(|piece| client.pipeline(piece));
        for ((command, expected), reply) in commands.iter().zip(&expected).zip(replies) {
            assert_eq!(render(&reply), render(expected), "{} by {piece}", line(command));
        }
    }
}

/// The arguments of one call lie where those of the call before lay.
#[test]
fn a_script_meets_other_keys_as_long_as_its_own() {
    const MEET: &str = "local met = {}
        for _, key in ipairs({KEYS[1], ARGV[1], KEYS[1], ARGV[2], ARGV[1]}) do
            redis.call('APPEND', key, key)
            met[#met + 1] = redis.call('GET', key)
        end
        return table.concat(met, ' ')";
    let server = Server::start(&[]);
    let mut client = server.client();
    let meet = command(&["EVAL", MEET, "1", "a", "b", "c"]);
    let get = |key| command(&["GET", key]);
    exchange(
        &mut client,
        &[
            (meet.clone(), "\"a b aa c bb\""),
            (meet.clone(), "\"aaa bbb aaaa cc bbbb\""),
            (get("a"), "\"aaaa\""),
            (get("b"), "\"bbbb\""),
            (get("c"), "\"cc\""),
        ],
    );
    exchange(&mut client, &[(meet, "\"aaaaa bbbbb aaaaaa ccc bbbbbb\"")]);
}

#[test]
fn a_script_that_is_undone_takes_nothing_back_of_those_before_it() {
    const ROUNDS: usize = 10;
    let server = Server::start(&[]);
    // New scripts in each round: nothing is known yet of how long they take.
    for round in 0..ROUNDS {
        let script = |text: &str| format!("{text} -- {round}");
        let (add, elsewhere) = (script(ADD), script(ADD_ELSEWHERE));
        exchange(
            &mut server.client(),
            &[
                (eval(&add, "k"), "(integer) 1"),
                (eval(&add, "k"), "(integer) 2"),
                (eval(&elsewhere, "k"), "(integer) 3"),
                (eval(&add, "k"), "(integer) 4"),
                (eval(&script(LONG), "k"), "(integer) 6"),
                (eval(&add, "k"), "(integer) 7"),
                (command(&["GETDEL", "k"]), "\"7\""),
            ],
        );
    }
    let elsewhere = server.client().call(&["GET", "elsewhere"]);
    assert_eq!(text(&elsewhere), ROUNDS.to_string());
}

#[test]
fn a_waiter_is_served_by_a_script_among_others() {
    let server = Server::start(&[]);
    let (mut waiting, mut other) = (server.client(), server.client());
    waiting.send(&["BLPOP", "queue", "0"]);
    eventually("it waits", || {
        text(&other.call(&["INFO", "clients"])).contains("blocked_clients:1\r\n")
    });
    let push = "return redis.call('RPUSH', KEYS[1], 'x', 'y')";
    let count = "return redis.call('LLEN', KEYS[1])";
    exchange(
        &mut other,
        &[
            (eval(ADD, "k"), "(integer) 1"),
            (eval(push, "queue"), "(integer) 2"),
            (eval(count, "queue"), "(integer) 1"),
            (eval(ADD, "k"), "(integer) 2"),
        ],
    );
    assert_eq!(render(&waiting.receive()), "1) \"queue\"\n2) \"x\"");
}

#[test]
fn a_watch_is_broken_by_a_script_that_writes_and_by_none_that_reads() {
    let server = Server::start(&[]);
    let (mut watcher, mut other) = (server.client(), server.client());
    let read = "return redis.call('GET', KEYS[1])";
    check(&mut watcher, "> WATCH k\nOK\n> MULTI\nOK");
    exchange(&mut other, &[(eval(read, "k"), "(nil)"), (eval(ADD, "l"), "(integer) 1")]);
    check(&mut watcher, "> EXEC\n(empty array)\n> WATCH k\nOK\n> MULTI\nOK");
    exchange(&mut other, &[(eval(read, "l"), "\"1\""), (eval(ADD, "k"), "(integer) 1")]);
    check(&mut watcher, "> EXEC\n(nil)");
}

#[test]
fn what_scripts_wrote_together_is_told_in_order_and_there_after_a_restart() {
    let settings = ["--notify-keyspace-events", "KEA", "--appendonly", "yes"];
    let mut server = Server::start(&settings);
    let mut ear = server.client();
    check(&mut ear, "> PSUBSCRIBE __keyevent@0__:*\n...");
    let delete = "return redis.call('DEL', KEYS[1])";
    let mut client = server.client();
    exchange(
        &mut client,
        &[
            (eval(ADD, "a"), "(integer) 1"),
            (eval(ADD_ELSEWHERE, "a"), "(integer) 2"),
            (eval(ADD, "b"), "(integer) 1"),
            (eval(delete, "b"), "(integer) 1"),
        ],
    );
    for expected in ["incrby a", "incrby a", "incrby elsewhere", "incrby b", "del b"] {
        let Value::Array(parts) = ear.receive() else { panic!("a message") };
        let (channel, key) = (text(&parts[2]), text(&parts[3]));
        assert_eq!(format!("{} {key}", &channel["__keyevent@0__:".len()..]), expected);
    }
    check(&mut client, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0");
    server.kill();
    server.restart();
    check(&mut server.client(), "> MGET a b elsewhere\n1) \"2\"\n2) (nil)\n3) \"1\"");
}

#[test]
fn scripts_that_want_the_same_keys_together_lose_nothing() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 50;
    let server = Server::start(&["--worker-threads", "4"]);
    let batch: Vec<_> = (0..16)
        .map(|number| {
            eval(if number % 5 == 4 { ADD_ELSEWHERE } else { ADD }, ["a", "b"][number % 2])
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = server.client();
            let batch = &batch;
            scope.spawn(move || (0..ROUNDS).for_each(|_| drop(client.pipeline(batch))));
        }
    });
    let sum = |number: usize| format!("\"{}\"", number * CLIENTS * ROUNDS);
    let expected = format!("1) {}\n2) {}\n3) {}", sum(8), sum(8), sum(3));
    let reply = server.client().call(&["MGET", "a", "b", "elsewhere"]);
    assert_eq!(render(&reply), expected);
}
