//! What a server holds, in words that are the same for every kind of server that holds the same.
//!
//! Invariant: what a kind of server does not tell its replicas, or tells in a way of its own, is
//! not among the words: how many entries a group has read, when consumers were seen, and the
//! highest ID that was deleted, of which XSETID cannot say to real servers that there is none.

use proto::value::Value;

use crate::client::Client;
use crate::differential::Command;
use crate::render::render;

/// The databases that requests are drawn for.
const DATABASES: [&str; 3] = ["0", "1", "15"];

/// The libraries of functions, and a line for each key.
pub fn contents(client: &mut Client) -> Vec<String> {
    let libraries = client.call(&["FUNCTION", "LIST", "WITHCODE"]);
    let mut told = vec![sorted(items(&libraries).to_vec())];
    for database in DATABASES {
        client.call(&["SELECT", database]);
        let Value::Array(keys) = client.call(&["KEYS", "*"]) else { panic!("keys are listed") };
        let mut keys: Vec<Vec<u8>> = keys.iter().map(|key| bytes(key).to_vec()).collect();
        keys.sort_unstable();
        told.extend(values(client, database, &keys));
    }
    client.call(&["SELECT", "0"]);
    told
}

fn values(client: &mut Client, database: &str, keys: &[Vec<u8>]) -> Vec<String> {
    let of = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Command>();
    let ask: Vec<Command> =
        keys.iter().flat_map(|key| [of(&[b"TYPE", key]), of(&[b"PEXPIRETIME", key])]).collect();
    let heads = client.pipeline(&ask);
    let kinds: Vec<&[u8]> = heads.chunks(2).map(|head| bytes(&head[0])).collect();
    let reads: Vec<Command> = keys
        .iter()
        .zip(&kinds)
        .map(|(key, kind)| match *kind {
            b"string" => of(&[b"GET", key]),
            b"list" => of(&[b"LRANGE", key, b"0", b"-1"]),
            b"set" => of(&[b"SMEMBERS", key]),
            b"zset" => of(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            b"hash" => of(&[b"HGETALL", key]),
            b"stream" => of(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]),
            _ => of(&[b"EXISTS", key]),
        })
        .collect();
    let replies = client.pipeline(&reads);
    let mut lines = Vec::new();
    for (at, (key, kind)) in keys.iter().zip(&kinds).enumerate() {
        let value = match (*kind, &replies[at]) {
            (b"set", Value::Array(members)) => sorted(members.clone()),
            (b"zset", Value::Array(words)) => scores(words),
            (b"hash", Value::Array(words)) => fields(client, key, words),
            (b"stream", reply) => stream(reply),
            (_, reply) => render(reply),
        };
        let (name, kind) = (key.escape_ascii(), kind.escape_ascii());
        let deadline = render(&heads[2 * at + 1]);
        lines.push(format!("{database} {name} {kind} until {deadline}: {value}"));
    }
    lines
}

fn sorted(mut values: Vec<Value>) -> String {
    values.sort_by_key(render);
    render(&Value::Array(values))
}

/// Members and scores, whose digits are not the same on all servers.
fn scores(words: &[Value]) -> String {
    let number = |score: &Value| {
        let digits = String::from_utf8_lossy(bytes(score)).into_owned();
        Value::Double(digits.parse().expect("a number"))
    };
    let pairs = words.chunks(2).flat_map(|pair| [pair[0].clone(), number(&pair[1])]);
    render(&Value::Array(pairs.collect()))
}

/// Fields and values, and the deadlines of fields that have any.
fn fields(client: &mut Client, key: &[u8], words: &[Value]) -> String {
    let mut pairs: Vec<&[Value]> = words.chunks(2).collect();
    pairs.sort_by_key(|pair| render(&pair[0]));
    let count = pairs.len().to_string();
    let mut ask: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
    ask.extend(pairs.iter().map(|pair| bytes(&pair[0])));
    let deadlines = match client.call(&ask) {
        Value::Array(deadlines) => deadlines,
        // Where fields do not expire, the command is not known.
        _ => Vec::new(),
    };
    let expire = deadlines.iter().any(|deadline| *deadline != Value::Integer(-1));
    let deadlines = if expire { deadlines } else { Vec::new() };
    let pairs = pairs.into_iter().map(|pair| Value::Array(pair.to_vec()));
    render(&Value::Array(pairs.chain([Value::Array(deadlines)]).collect()))
}

/// A stream's entries, and what each group has pending.
fn stream(info: &Value) -> String {
    let own = ["last-generated-id", "entries-added", "entries"];
    let mut told: Vec<Value> = own.iter().map(|name| field(info, name).clone()).collect();
    for group in items(field(info, "groups")) {
        let own = ["name", "last-delivered-id", "pending"];
        told.extend(own.iter().map(|name| field(group, name).clone()));
        let consumers = items(field(group, "consumers")).iter();
        let mut consumers: Vec<Value> =
            consumers.map(|consumer| field(consumer, "name").clone()).collect();
        consumers.sort_by_key(render);
        told.push(Value::Array(consumers));
    }
    render(&Value::Array(told))
}

/// What follows a name in a flat list.
#[track_caller]
fn field<'a>(list: &'a Value, name: &str) -> &'a Value {
    let pairs = items(list).chunks(2);
    let mut found = pairs.filter(|pair| pair[0].as_bytes() == Some(name.as_bytes()));
    &found.next().unwrap_or_else(|| panic!("no {name} in {}", render(list)))[1]
}

#[track_caller]
fn items(list: &Value) -> &[Value] {
    match list {
        Value::Array(items) => items,
        other => panic!("a list, not {other:?}"),
    }
}

#[track_caller]
fn bytes(value: &Value) -> &[u8] {
    value.as_bytes().expect("a text")
}
