//! A session that has more to do lets others have its worker: in between the worker looks at its
//! sockets.
//!
//! DEBUG DRILL SHORT has each turn end as soon as it has done something, so no clock decides how
//! often that is.

use proto::value::Value;
use tests::render::render;
use tests::{Client, Server, check};

fn start() -> Server {
    let own = ["--enable-debug-command", "yes", "--worker-threads", "1", "--save", ""];
    let server = Server::start(&own);
    check(&mut server.client(), "> DEBUG DRILL SHORT\n(integer) 0");
    server
}

/// How often the worker has looked at its sockets: for sessions that waited for it, or as it had
/// nothing else to do.
fn looks(client: &mut Client) -> u64 {
    let workers = render(&client.call(&["INFO", "workers"]));
    let figure = workers.split("looks=").nth(1).expect("the worker's line has it");
    let figure = figure.split(|end: char| !end.is_ascii_digit()).next();
    let figure: u64 = figure.and_then(|it| it.parse().ok()).expect("it is a number");
    figure + client.figure("eventloop_cycles") as u64
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
    const MEMBERS: usize = 40_000;
    let script = "for i = 1, ARGV[1] do local m = 'member:' .. i
        redis.call('HSET', 'hash', m, m) redis.call('RPUSH', 'list', m)
        redis.call('SADD', 'set', m) redis.call('ZADD', 'sorted', i, m)
        redis.call('XADD', 'stream', i, 'field', m) end return 'OK'";
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
