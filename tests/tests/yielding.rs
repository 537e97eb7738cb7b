//! A session that has more to do lets others have its worker: in between the worker looks at its
//! sockets.
//!
//! DEBUG FAILPOINT SHORT has each turn end as soon as it has done something, so no clock decides
//! how often that is.

use proto::value::Value;
use tests::memcached::Connection;
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::{Client, Server, check};

fn start() -> Server {
    start_with(&[])
}

fn start_with(arguments: &[&str]) -> Server {
    let own = ["--enable-debug-command", "yes", "--worker-threads", "1", "--save", ""];
    let server = Server::start(&[&own, arguments].concat());
    check(&mut server.client(), "> DEBUG FAILPOINT SHORT\n(integer) 0");
    server
}

/// How often the worker has looked at its sockets: for sessions that waited for it, or as it had
/// nothing else to do.
fn looks(client: &mut Client) -> u64 {
    figure(client, "looks") + client.figure("eventloop_cycles") as u64
}

/// What the line of the only worker says.
fn figure(client: &mut Client, name: &str) -> u64 {
    let workers = render(&client.call(&["INFO", "workers"]));
    let figure = workers.split(&format!("{name}=")).nth(1).expect("the worker's line has it");
    let figure = figure.split(|end: char| !end.is_ascii_digit()).next();
    figure.and_then(|digits| digits.parse().ok()).expect("a number")
}

fn call(client: &mut Client, line: &str) -> Value {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

fn pipeline(client: &mut Client, line: &str, count: usize) {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    client.pipeline::<String>(&vec![words; count]);
}

/// Values of which each makes at least so many pieces of 64 KB, in the replies to these requests.
const LONG_REPLIES: &[(&str, u64)] = &[
    ("HGETALL hash", 12),
    ("LRANGE list 0 -1", 6),
    ("SMEMBERS set", 6),
    ("ZRANGE sorted 0 -1 WITHSCORES", 8),
    ("XRANGE stream - +", 12),
    ("XREVRANGE stream + -", 12),
];

fn fill(client: &mut Client) {
    const MEMBERS: usize = 20_000;
    let script = "local pairs, members, scores = {}, {}, {}
        for i = 1, ARGV[1] do
            local m = 'member-of-at-least-forty-characters:' .. i
            redis.call('XADD', 'stream', i, 'field', m)
            for _, list in ipairs({pairs, pairs, members}) do list[#list + 1] = m end
            scores[#scores + 1], scores[#scores + 2] = i, m
            if i % 1000 == 0 then
                redis.call('HSET', 'hash', unpack(pairs))
                redis.call('RPUSH', 'list', unpack(members))
                redis.call('SADD', 'set', unpack(members))
                redis.call('ZADD', 'sorted', unpack(scores))
                pairs, members, scores = {}, {}, {}
            end
        end return 'OK'";
    let done = client.call(&["EVAL", script, "0", &MEMBERS.to_string()]);
    assert_eq!(render(&done), "\"OK\"");
}

#[test]
fn between_the_pieces_of_a_long_reply_the_worker_looks_at_its_sockets() {
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    for (line, pieces) in LONG_REPLIES {
        let before = looks(&mut other);
        call(&mut client, line);
        let looks = looks(&mut other) - before;
        assert!(looks >= *pieces, "{line}: {looks}");
    }
}

#[test]
fn between_the_pieces_of_a_reply_that_was_made_elsewhere_the_worker_looks_at_its_sockets() {
    /// One write takes so many pieces.
    const TOGETHER: u64 = 4;
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    call(&mut client, "MULTI");
    for (line, _) in LONG_REPLIES {
        call(&mut client, line);
    }
    let before = looks(&mut other);
    call(&mut client, "EXEC");
    let looks = looks(&mut other) - before;
    let pieces: u64 = LONG_REPLIES.iter().map(|(_, pieces)| pieces).sum();
    assert!(looks >= pieces / TOGETHER, "{looks}");
}

#[test]
fn between_the_pieces_of_a_long_request_the_worker_looks_at_its_sockets() {
    /// What one read brings.
    const PIECE: usize = 256 * 1024;
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    let before = looks(&mut other);
    client.call(&["SET", "long", &"x".repeat(40 * PIECE)]);
    let looks = looks(&mut other) - before;
    assert!(looks >= 40, "{looks}");
}

#[test]
fn between_the_commands_of_a_pipeline_the_worker_looks_at_its_sockets() {
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    // Commands of one key share turns where they share locks.
    for (line, count, least) in
        [("SET k v", 300, 10), ("EVAL return{1,2,3} 0", 300, 10), ("INFO", 100, 50)]
    {
        let before = looks(&mut other);
        pipeline(&mut client, line, count);
        let looks = looks(&mut other) - before;
        assert!(looks >= least, "{line}: {looks}");
    }
}

/// So many names are done in steps, of which each has sixteen where turns are short.
const NAMES: usize = 1600;
const STEPS: u64 = NAMES as u64 / 16;

/// A request with so many names.
fn of_names(line: &str, count: usize) -> Vec<String> {
    let names = (0..count).map(|number| format!("name:{number}"));
    line.split(' ').map(str::to_owned).chain(names).collect()
}

/// What is done with very many names, how many replies there are, and the last one.
const OF_NAMES: &[(&str, bool, usize, &str)] = &[
    ("SUBSCRIBE", true, NAMES, "subscribe name:1599 1600"),
    ("PSUBSCRIBE", true, NAMES, "psubscribe name:1599 3200"),
    ("SSUBSCRIBE", true, NAMES, "ssubscribe name:1599 1600"),
    ("UNSUBSCRIBE", true, NAMES, "unsubscribe name:1599 1600"),
    ("SUBSCRIBE", true, NAMES, "subscribe name:1599 3200"),
    ("UNSUBSCRIBE", false, NAMES, "unsubscribe name:999 1600"),
    ("PUNSUBSCRIBE", false, NAMES, "punsubscribe name:999 0"),
    ("SUNSUBSCRIBE", true, NAMES, "sunsubscribe name:1599 0"),
    ("PSUBSCRIBE", true, NAMES, "psubscribe name:1599 1600"),
    ("RESET", false, 1, "RESET"),
    ("WATCH", true, 1, "OK"),
    ("HIMPORT PREPARE set", true, 1, "OK"),
    ("SSUBSCRIBE", true, NAMES, "ssubscribe name:1599 1600"),
    ("QUIT", false, 1, "OK"),
];

/// A reply in words.
fn words(reply: &Value) -> String {
    match reply {
        Value::Array(parts) => parts.iter().map(words).collect::<Vec<_>>().join(" "),
        other => render(other).replace("(integer) ", "").replace('"', ""),
    }
}

#[test]
fn very_many_names_are_done_in_steps_and_replied_one_by_one() {
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    for &(command, has_names, replies, last) in OF_NAMES {
        let before = looks(&mut other);
        client.send(&of_names(command, if has_names { NAMES } else { 0 }));
        let replies: Vec<String> = (0..replies).map(|_| words(&client.receive())).collect();
        assert_eq!(replies.last().map(String::as_str), Some(last), "{command}");
        let looks = looks(&mut other) - before;
        assert!(looks >= STEPS, "{command}: {looks}");
    }
    eventually("nobody listens any more", || counts(&mut other) == [0, 0, 0]);
}

/// How many channels, shard channels and patterns somebody listens to.
fn counts(client: &mut Client) -> [usize; 3] {
    let names = |line: &str, client: &mut Client| match call(client, line) {
        Value::Array(names) => names.len(),
        other => panic!("{line}: {other:?}"),
    };
    let channels = names("PUBSUB CHANNELS", client);
    let shard_channels = names("PUBSUB SHARDCHANNELS", client);
    let patterns = render(&call(client, "PUBSUB NUMPAT")).replace("(integer) ", "");
    [channels, shard_channels, patterns.parse().expect("a number")]
}

#[test]
fn a_client_that_hangs_up_in_the_middle_leaves_nothing() {
    let server = start();
    let mut other = server.client();
    for command in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH"] {
        let mut client = server.client();
        client.send(&of_names(command, 50_000));
        let has_begun = |other: &mut Client| {
            let clients = render(&call(other, "CLIENT LIST"));
            counts(other) != [0, 0, 0] || !clients.contains(" watch=0 ")
        };
        if command != "WATCH" {
            eventually("it has begun", || has_begun(&mut other));
        }
        drop(client);
        eventually("nobody listens any more", || counts(&mut other) == [0, 0, 0]);
        eventually("nobody watches any more", || other.info("watching_clients") == "0");
    }
}

/// Messages stand behind the replies that were under way, and before the end of what they are for.
#[test]
fn messages_keep_their_place_beside_very_many_names() {
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    client.send(&of_names("SUBSCRIBE", NAMES));
    eventually("it listens", || render(&call(&mut other, "PUBLISH name:0 early")) == "(integer) 1");
    for number in 0..NAMES {
        assert_eq!(words(&client.receive()), format!("subscribe name:{number} {}", number + 1));
    }
    assert_eq!(words(&client.receive()), "message name:0 early");
    for number in 0..NAMES {
        call(&mut other, &format!("PUBLISH name:{number} late"));
    }
    client.send(&["UNSUBSCRIBE"]);
    let mut told = std::collections::HashSet::new();
    for _ in 0..2 * NAMES {
        let reply = words(&client.receive());
        match reply.split(' ').collect::<Vec<_>>()[..] {
            ["message", name, "late"] => assert!(told.insert(name.to_owned()), "{name} twice"),
            ["unsubscribe", name, _] => assert!(told.contains(name), "{name} without its message"),
            _ => panic!("{reply}"),
        }
    }
    check(&mut client, "> PING\nPONG");
}

/// A watch that is entered in steps is one: what changes behind its reply breaks it.
#[test]
fn very_many_keys_are_watched_and_no_longer_watched() {
    let server = start();
    let (mut client, mut other) = (server.client(), server.client());
    for number in [0, NAMES / 2, NAMES - 1] {
        assert_eq!(render(&client.call(&of_names("WATCH", NAMES))), "OK");
        call(&mut other, &format!("SET name:{number} v"));
        check(&mut client, "> MULTI\nOK\n> PING\nQUEUED\n> EXEC\n(nil)");
    }
    assert_eq!(render(&client.call(&of_names("WATCH", NAMES))), "OK");
    check(&mut client, "> MULTI\nOK\n> PING\nQUEUED\n> EXEC\n1) PONG");
    assert_eq!(render(&client.call(&of_names("WATCH", NAMES))), "OK");
    check(&mut client, "> UNWATCH\nOK");
    call(&mut other, "SET name:7 v");
    check(&mut client, "> MULTI\nOK\n> PING\nQUEUED\n> EXEC\n1) PONG");
    eventually("nobody watches any more", || other.info("watching_clients") == "0");
}

#[test]
fn between_the_keys_of_a_get_of_memcached_the_worker_looks_at_its_sockets() {
    let port = free_port();
    let server = start_with(&["--memcached-port", &port.to_string()]);
    let (mut client, mut other) = (Connection::to(port), server.client());
    let keys: Vec<String> = (0..5_000).map(|number| format!("k{number}")).collect();
    let before = looks(&mut other);
    assert_eq!(client.line(&format!("get {}\r\n", keys.join(" "))), "END\r\n");
    let looks = looks(&mut other) - before;
    // The clock is looked at behind each sixteenth key.
    assert!(looks >= 5_000 / 16, "{looks}");
}

#[test]
fn reads_that_a_pause_of_writes_lets_pass_wait_for_nothing() {
    let server = Server::start(&["--worker-threads", "1", "--save", ""]);
    let (mut client, mut other) = (server.client(), server.client());
    call(&mut client, "CLIENT PAUSE 600000 WRITE");
    let before = figure(&mut other, "waits");
    pipeline(&mut client, "GET k", 1000);
    assert!(figure(&mut other, "waits") - before < 100);
}

/// What a command of EXEC leaves with its session costs the commands behind it nothing, however
/// much that is.
#[test]
fn very_many_preparations_within_exec_cost_what_each_costs() {
    /// With a copy of all for each, minutes.
    const PREPARED: usize = 60_000;
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    let prepare =
        |name: usize| ["HIMPORT", "PREPARE", &format!("set{name}"), "field"].map(str::to_owned);
    let mut requests = vec![vec!["MULTI".to_owned()]];
    requests.extend((0..PREPARED).map(|name| Vec::from(prepare(name))));
    requests.push(["HIMPORT", "SET", "key", "set7", "value"].map(str::to_owned).to_vec());
    requests.push(vec!["EXEC".to_owned()]);
    let replies = client.pipeline(&requests);
    let Some(Value::Array(done)) = replies.last() else { panic!("a transaction") };
    assert_eq!(done.len(), PREPARED + 1);
    check(&mut client, "> HGET key field\n\"value\"");
}
