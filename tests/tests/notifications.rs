//! Keyspace notifications: the same events in the same order as in the real servers, whatever the
//! commands; and what only Redis 8.8 has, by script.

use std::collections::HashSet;

use proto::value::Value;
use tests::client::{encode, line};
use tests::differential::Command;
use tests::generator::{Generator, REDIS70, REDIS82, VALKEY91, prologue, rule, shared};
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check, play};

/// Requests between two empty worlds.
const EPISODE: usize = 60;
/// How many are drawn for each real server.
const REQUESTS: usize = 30_000;
/// How many differences are told before a run gives up.
const TOLD: usize = 8;

/// A message of a keyspace channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    channel: String,
    payload: String,
}

/// A connection that hears all events, and where they belong: between commands, a message is
/// published in a channel of its own.
struct Ear(Client);

const MARKER: &str = "__marker";

impl Ear {
    fn new(server: &Server) -> Self {
        let mut client = server.client();
        check(&mut client, "> PSUBSCRIBE __*\n...");
        Self(client)
    }

    /// The events up to the next marker.
    fn hear(&mut self) -> Vec<Event> {
        let is_event = |event: &Event| event.channel != MARKER;
        std::iter::repeat_with(|| self.next()).take_while(is_event).collect()
    }

    fn next(&mut self) -> Event {
        let Value::Array(items) = self.0.receive() else { panic!("a message is an array") };
        let [channel, payload] = [&items[2], &items[3]].map(text);
        Event { channel, payload }
    }
}

fn marker() -> Command {
    ["PUBLISH", MARKER, ""].map(|word| word.as_bytes().to_vec()).to_vec()
}

/// Commands that would change which events there are, or are in the way of the markers.
fn is_in_the_way(command: &Command) -> bool {
    let names: [&[u8]; 4] = [b"CONFIG", b"FLUSHALL", b"MULTI", b"PUBLISH"];
    names.iter().any(|name| command[0].eq_ignore_ascii_case(name))
}

fn compare(oracle: Oracle, letters: &str) {
    let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
    let declared = shared(&mut ours.client(), &mut theirs.client());
    let exceptions = match oracle {
        Oracle::Redis62 | Oracle::Redis70 => REDIS70,
        Oracle::Redis82 => REDIS82,
        Oracle::Valkey91 => VALKEY91,
    };
    let mut ears = [Ear::new(&ours), Ear::new(&theirs)];
    let mut maker = theirs.client();
    maker.call(&["SET", "payload", "text"]);
    let payload = maker.call(&["DUMP", "payload"]).as_bytes().expect("a string").to_vec();
    let payloads = [payload];
    let mut generator = Generator::new(1, &declared, &payloads);
    let mut duel = Duel::new(ours.client(), theirs.client(), 1).ruled(rule).except(exceptions);
    let (mut told, mut met, mut compared) = (Vec::new(), HashSet::new(), 0);
    for number in 0..REQUESTS / EPISODE {
        let mut commands = prologue(number, oracle != Oracle::Redis70);
        let begin = ["CONFIG", "SET", "notify-keyspace-events", letters];
        commands.push(begin.map(|word| word.as_bytes().to_vec()).to_vec());
        let drawn = std::iter::repeat_with(|| generator.draw().step.command);
        commands.extend(drawn.filter(|command| !is_in_the_way(command)).take(EPISODE));
        let marked: Vec<Command> =
            commands.iter().flat_map(|command| [command.clone(), marker()]).collect();
        // Where replies differ, chance or the time had a say.
        let replies = duel.try_run_all(&marked).unwrap_or_default();
        let heard =
            ears.each_mut().map(|ear| commands.iter().map(|_| ear.hear()).collect::<Vec<_>>());
        if duel.has_parted() {
            continue;
        }
        compared += replies.len() / 2;
        for at in 0..replies.len() / 2 {
            let [ours, theirs] = heard.each_ref().map(|heard| {
                let mut events = heard[at].clone();
                events.retain(|event| !is_excused(oracle, &commands[at], &replies[2 * at], event));
                events
            });
            if ours == theirs {
                continue;
            }
            let name = commands[at][0].to_ascii_uppercase();
            if met.insert(name) {
                let (ours, theirs) = (told_of(&ours), told_of(&theirs));
                told.push(format!("{}\nours: {ours}\ntheirs: {theirs}", line(&commands[at])));
            }
        }
        if told.len() >= TOLD {
            break;
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n\n"));
    assert!(compared > REQUESTS / 3, "only {compared} requests were compared");
}

/// What may be told by one and not by the other.
fn is_excused(oracle: Oracle, command: &Command, reply: &Value, event: &Event) -> bool {
    let is =
        |names: &[&str]| names.iter().any(|name| command[0].eq_ignore_ascii_case(name.as_bytes()));
    let tells =
        |name: &str| [&event.channel, &event.payload].iter().any(|text| text.ends_with(name));
    let is_error = matches!(reply, Value::Error(_));
    match oracle {
        // A refused command may have been refused before the key was looked for.
        _ if is_error => tells("keymiss"),
        // The real servers look twice, or once more when the wait is over; and of HGETEX Valkey
        // always tells, Redis never.
        _ if is(&["XREAD", "HGETEX"]) => tells("keymiss"),
        // Redis 7.0 says nothing of consumers that are met on the way.
        Oracle::Redis70 if is(&["XREADGROUP", "XCLAIM", "XAUTOCLAIM"]) => {
            tells("xgroup-createconsumer")
        }
        // What is over at once has expired in Valkey, and is deleted in Redis.
        Oracle::Valkey91 if is(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]) => {
            tells("del") || tells("expired")
        }
        _ => false,
    }
}

#[test]
fn events_are_those_of_redis70() {
    compare(Oracle::Redis70, "KEAmn");
}

#[test]
fn events_are_those_of_redis82() {
    compare(Oracle::Redis82, "KEAmnoc");
}

#[test]
fn events_are_those_of_valkey91() {
    compare(Oracle::Valkey91, "KEAmn");
}

const SUBKEYS: &str = r#"
    > CONFIG SET notify-keyspace-events STIVh
    OK
    ear> PSUBSCRIBE __sub*
    ...
    > HSET hash field1 a field2 b
    (integer) 2
    ear<
    1) "pmessage"
    2) "__sub*"
    3) "__subkeyspace@0__:hash"
    4) "hset|6:field1,6:field2"
    ear<
    1) "pmessage"
    2) "__sub*"
    3) "__subkeyevent@0__:hset"
    4) "4:hash|6:field1,6:field2"
    ear<
    1) "pmessage"
    2) "__sub*"
    3) "__subkeyspaceitem@0__:hash\nfield1"
    4) "hset"
    ear<
    1) "pmessage"
    2) "__sub*"
    3) "__subkeyspaceitem@0__:hash\nfield2"
    4) "hset"
    ear<
    1) "pmessage"
    2) "__sub*"
    3) "__subkeyspaceevent@0__:hset|hash"
    4) "6:field1,6:field2"
"#;
/// As the page of Redis 8.8 has them; no real server here knows them yet.
#[test]
fn the_members_of_an_event_are_told_in_channels_of_their_own() {
    let server = Server::start(&[]);
    play(&server, SUBKEYS);
    let mut client = server.client();
    client.call(&["DEL", "hash"]);
    client.call(&["HSET", "hash", "a", "1", "b", "2", "a", "3", "c", "4"]);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "Th"]);
    let mut ear = Ear::new(&server);
    for (request, expected) in [
        ("HSET hash a 1 b 2 a 3", "__subkeyevent@0__:hset 4:hash|1:a,1:b,1:a"),
        ("HDEL hash a x b", "__subkeyevent@0__:hdel 4:hash|1:a,1:b"),
        ("HDEL hash x", ""),
        ("HSETNX hash c 5", ""),
        ("HSETNX hash a 5", "__subkeyevent@0__:hset 4:hash|1:a"),
        ("HINCRBY hash n 5", "__subkeyevent@0__:hincrby 4:hash|1:n"),
        ("HINCRBYFLOAT hash n 0.5", "__subkeyevent@0__:hincrbyfloat 4:hash|1:n"),
        ("HEXPIRE hash 100 FIELDS 3 a x c", "__subkeyevent@0__:hexpire 4:hash|1:a,1:c"),
        ("HPERSIST hash FIELDS 3 a x n", "__subkeyevent@0__:hpersist 4:hash|1:a"),
        ("HGETEX hash PERSIST FIELDS 2 a c", "__subkeyevent@0__:hpersist 4:hash|1:c"),
        ("HGETEX hash EX 100 FIELDS 1 a", "__subkeyevent@0__:hexpire 4:hash|1:a"),
        ("HEXPIRE hash 0 FIELDS 1 a", "__subkeyevent@0__:hdel 4:hash|1:a"),
        ("HGETDEL hash FIELDS 2 c x", "__subkeyevent@0__:hdel 4:hash|1:c"),
        ("SET string value", ""),
    ] {
        let words: Vec<&str> = request.split(' ').collect();
        let reply = client.call(&words);
        assert!(!matches!(reply, Value::Error(_)), "{request}: {reply:?}");
        assert_eq!(heard(&mut client, &mut ear), expected, "{request}");
    }
    client.call(&["HSETEX", "hash", "EX", "100", "FIELDS", "1", "k", "v"]);
    let expected = "__subkeyevent@0__:hset 4:hash|1:k, __subkeyevent@0__:hexpire 4:hash|1:k";
    assert_eq!(heard(&mut client, &mut ear), expected);
    client.call(&["HPEXPIRE", "hash", "1", "FIELDS", "1", "k"]);
    assert_eq!(heard(&mut client, &mut ear), "__subkeyevent@0__:hexpire 4:hash|1:k");
    eventually("the field expires", || client.call(&["HEXISTS", "hash", "k"]) == Value::Integer(0));
    eventually("it is told", || {
        heard(&mut client, &mut ear) == "__subkeyevent@0__:hexpired 4:hash|1:k"
    });
}

/// The events of a connection's commands so far.
fn heard(client: &mut Client, ear: &mut Ear) -> String {
    client.call(&marker());
    told_of(&ear.hear())
}

fn told_of(events: &[Event]) -> String {
    let told = events.iter().map(|event| format!("{} {}", event.channel, event.payload));
    told.collect::<Vec<String>>().join(", ")
}

/// What no command asks for is told, too: keys that expire while nobody looks, and services of
/// clients that wait; and what a transaction does is told in its order.
#[test]
fn expiry_services_and_transactions_are_told() {
    for server in [Server::start(&[]), Oracle::redis82(), Oracle::valkey91()] {
        let mut client = server.client();
        client.call(&["CONFIG", "SET", "notify-keyspace-events", "EA"]);
        let mut ear = Ear::new(&server);
        let mut waiter = server.client();
        waiter.send(&["BLPOP", "queue", "0"]);
        let info = |client: &mut Client| text(&client.call(&["INFO", "clients"]));
        eventually("it waits", || info(&mut client).contains("blocked_clients:1"));
        client.call(&["RPUSH", "queue", "job"]);
        assert_eq!(render(&waiter.receive()).lines().count(), 2);
        let expected =
            "__keyevent@0__:rpush queue, __keyevent@0__:lpop queue, __keyevent@0__:del queue";
        assert_eq!(heard(&mut client, &mut ear), expected);
        let requests = ["MULTI", "SET a 1", "PUBLISH __other x", "INCR a", "LPUSH a x", "EXEC"];
        for request in requests {
            client.call(&request.split(' ').collect::<Vec<_>>());
        }
        let expected = "__keyevent@0__:set a, __other x, __keyevent@0__:incrby a";
        assert_eq!(heard(&mut client, &mut ear), expected);
        client.call(&["SELECT", "3"]);
        client.call(&["SET", "short", "lived", "PX", "1"]);
        let expected = "__keyevent@3__:set short, __keyevent@3__:expire short";
        assert_eq!(heard(&mut client, &mut ear), expected);
        // No client sends anything meanwhile.
        assert_eq!(told_of(&[ear.next()]), "__keyevent@3__:expired short");
        client.call(&["FLUSHALL"]);
        assert_eq!(heard(&mut client, &mut ear), "");
    }
}

/// Every set of letters is shown as the real servers show it.
#[test]
fn the_classes_are_shown_as_in_redis() {
    let servers = Oracle::Redis82.beside(&[]);
    let mut clients = servers.each_ref().map(Server::client);
    let letters = "g$lshzxetdnocKEmA";
    let mut sets: Vec<String> = (0..letters.len())
        .flat_map(|at| [letters[..at].to_owned(), letters[at..].to_owned()])
        .collect();
    sets.extend(["KEA", "AKEmnoc", "Kq", "Ex", "AA", "Ag", "KEKE"].map(str::to_owned));
    // There `A` is all but `a`, the arrays of Redis 8.8, which are none to Redis 8.2.
    sets.retain(|set| set.contains('A') || !"g$lshzxetd".chars().all(|one| set.contains(one)));
    for set in sets {
        let shown = clients.each_mut().map(|client| {
            let reply = render(&client.call(&["CONFIG", "SET", "notify-keyspace-events", &set]));
            let shown = render(&client.call(&["CONFIG", "GET", "notify-keyspace-events"]));
            (reply, shown)
        });
        assert_eq!(shown[0], shown[1], "{set}");
    }
}

#[test]
fn a_client_hears_its_own_changes_right_behind_the_reply() {
    for server in [Server::start(&[]), Oracle::redis82(), Oracle::valkey91()] {
        let mut client = server.client3();
        client.call(&["CONFIG", "SET", "notify-keyspace-events", "K$"]);
        client.call(&["PSUBSCRIBE", "__key*"]);
        client.send_raw(&[encode(&["SET", "k", "v"]), encode(&["GET", "k"])].concat());
        let shown: Vec<String> = (0..3).map(|_| render(&client.receive())).collect();
        assert_eq!(shown[0], "OK");
        assert!(shown[1].ends_with("4> \"set\""), "{}", shown[1]);
        assert_eq!(shown[2], "\"v\"");
    }
}
