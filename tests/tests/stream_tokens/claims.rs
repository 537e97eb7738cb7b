//! Which entries XREAD and XREADGROUP give, and in which order, with CLAIM, MAXCOUNT and MAXSIZE:
//! redis.io/commands/xread, redis.io/commands/xreadgroup and redis.io/commands/xnack.

use proto::value::Value;
use tests::render::{render, text};
use tests::{Client, Server};

/// The keys and IDs in a reply of XREAD or XREADGROUP: `s: 1-1 2-1, t: 1-1`.
fn ids(reply: &Value) -> String {
    let stream = |key: &Value, entries: &Value| {
        let ids: Vec<String> = items(entries).iter().map(|entry| text(&items(entry)[0])).collect();
        format!("{}: {}", text(key), ids.join(" "))
    };
    let streams: Vec<String> = match reply {
        Value::Map(pairs) => pairs.iter().map(|(key, entries)| stream(key, entries)).collect(),
        Value::Array(pairs) => {
            pairs.iter().map(|pair| stream(&items(pair)[0], &items(pair)[1])).collect()
        }
        other => return render(other),
    };
    streams.join(", ")
}

fn items(reply: &Value) -> &[Value] {
    match reply {
        Value::Array(items) => items,
        other => panic!("no list: {other:?}"),
    }
}

fn call(client: &mut Client, request: &str) -> Value {
    client.call(&request.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn gives(client: &mut Client, request: &str, expected: &str) {
    assert_eq!(ids(&call(client, request)), expected, "{request}");
}

/// The number of entries that are pending, and of each consumer.
fn pending(client: &mut Client) -> String {
    let reply = call(client, "XPENDING s g");
    let [count, _, _, consumers] = items(&reply) else { panic!("{reply:?}") };
    let consumers = items(consumers).iter();
    let shares = consumers.map(|share| items(share).iter().map(text).collect::<Vec<_>>().join(" "));
    [render(count)].into_iter().chain(shares).collect::<Vec<_>>().join(", ")
}

/// Five entries; a consumer has had the first three for a minute.
fn three_idle(client: &mut Client) {
    call(client, "FLUSHALL");
    (1..=5).for_each(|number| _ = call(client, &format!("XADD s {number}-1 a b")));
    call(client, "XGROUP CREATE s g 0");
    gives(client, "XREADGROUP GROUP g c COUNT 3 STREAMS s >", "s: 1-1 2-1 3-1");
    call(client, "XCLAIM s g c 0 1-1 2-1 3-1 IDLE 60000 JUSTID");
}

fn clients(server: &Server) -> [Client; 2] {
    [server.client(), server.client3()]
}

#[test]
fn what_is_idle_comes_first_and_that_the_longest() {
    let server = Server::start(&[]);
    for mut client in clients(&server) {
        three_idle(&mut client);
        call(&mut client, "XCLAIM s g c 0 2-1 IDLE 90000 JUSTID");
        let claim = "XREADGROUP GROUP g d CLAIM 40000 STREAMS s >";
        gives(&mut client, claim, "s: 2-1 1-1 3-1 4-1 5-1");
        assert_eq!(pending(&mut client), "(integer) 5, d 5");
        gives(&mut client, claim, "(nil)");
        // What was given back comes before all else.
        three_idle(&mut client);
        call(&mut client, "XNACK s g FAIL IDS 1 3-1");
        gives(&mut client, claim, "s: 3-1 1-1 2-1 4-1 5-1");
    }
}

#[test]
fn a_claimed_entry_tells_its_idle_time_and_deliveries() {
    let server = Server::start(&[]);
    for mut client in clients(&server) {
        three_idle(&mut client);
        // The longest idle, however late this is after the others were claimed.
        call(&mut client, "XCLAIM s g c 0 1-1 IDLE 90000 RETRYCOUNT 7 JUSTID");
        let reply = call(&mut client, "XREADGROUP GROUP g d COUNT 1 CLAIM 1 STREAMS s >");
        let entries = match &reply {
            Value::Map(pairs) => &pairs[0].1,
            pairs => &items(&items(pairs)[0])[1],
        };
        let [id, fields, idle, deliveries] = items(&items(entries)[0]) else { panic!("{reply:?}") };
        assert_eq!((text(id), items(fields).len()), ("1-1".to_owned(), 2));
        assert!(matches!(idle, Value::Integer(90_000..)), "{idle:?}");
        assert_eq!(*deliveries, Value::Integer(7));
        // The entry was delivered once more.
        let reply = render(&call(&mut client, "XPENDING s g - + 1 d"));
        assert!(reply.ends_with("4) (integer) 8"), "{reply}");
    }
}

#[test]
fn other_options_keep_their_meaning_beside_claim() {
    let server = Server::start(&[]);
    for mut client in clients(&server) {
        three_idle(&mut client);
        gives(&mut client, "XREADGROUP GROUP g d COUNT 2 CLAIM 1 STREAMS s >", "s: 1-1 2-1");
        three_idle(&mut client);
        let four = "XREADGROUP GROUP g d CLAIM 1 COUNT 4 STREAMS s >";
        gives(&mut client, four, "s: 1-1 2-1 3-1 4-1");
        // Without acknowledgement are those alone that nobody had.
        three_idle(&mut client);
        let all = "XREADGROUP GROUP g d NOACK CLAIM 1 STREAMS s >";
        gives(&mut client, all, "s: 1-1 2-1 3-1 4-1 5-1");
        assert_eq!(pending(&mut client), "(integer) 3, d 3");
        // A consumer that asks for what it has claims nothing.
        three_idle(&mut client);
        gives(&mut client, "XREADGROUP GROUP g d BLOCK 1 CLAIM 1 STREAMS s 0", "s: ");
        assert_eq!(pending(&mut client), "(integer) 3, c 3");
        gives(&mut client, "XREADGROUP GROUP g c CLAIM 1 STREAMS s 1-1", "s: 2-1 3-1");
        // What is not idle for long enough stays with its consumer.
        gives(&mut client, "XREADGROUP GROUP g d CLAIM 9000000 STREAMS s >", "s: 4-1 5-1");
        assert_eq!(pending(&mut client), "(integer) 5, c 3, d 2");
    }
}

#[test]
fn all_streams_together_have_limits() {
    let server = Server::start(&[]);
    for mut client in clients(&server) {
        call(&mut client, "FLUSHALL");
        for key in ["s", "t", "u"] {
            (1..=3).for_each(|number| _ = call(&mut client, &format!("XADD {key} {number} a b")));
            call(&mut client, &format!("XGROUP CREATE {key} g 0"));
        }
        let all = "s: 1-0 2-0 3-0, t: 1-0 2-0 3-0, u: 1-0 2-0 3-0";
        for (words, expected) in [
            ("MAXCOUNT 4", "s: 1-0 2-0 3-0, t: 1-0"),
            ("MAXCOUNT 3", "s: 1-0 2-0 3-0"),
            ("COUNT 2 MAXCOUNT 3", "s: 1-0 2-0, t: 1-0"),
            ("maxcount 2 count 2", "s: 1-0 2-0"),
            ("COUNT 1 MAXCOUNT 9", "s: 1-0, t: 1-0, u: 1-0"),
            ("MAXCOUNT 9", all),
            ("MAXSIZE 1", "s: 1-0"),
            ("MAXSIZE 1000000", all),
            ("MAXCOUNT 9 MAXSIZE 1", "s: 1-0"),
            ("BLOCK 1 MAXCOUNT 1 MAXSIZE 1000000", "s: 1-0"),
        ] {
            gives(&mut client, &format!("XREAD {words} STREAMS s t u 0 0 0"), expected);
        }
        let read = |words: &str| format!("XREADGROUP GROUP g c {words} STREAMS s t u > > >");
        gives(&mut client, &read("MAXSIZE 1"), "s: 1-0");
        gives(&mut client, &read("MAXCOUNT 3"), "s: 2-0 3-0, t: 1-0");
        gives(&mut client, &read("COUNT 1 MAXCOUNT 2"), "t: 2-0, u: 1-0");
        assert_eq!(pending(&mut client), "(integer) 3, c 3");
        // What is claimed counts like what is new.
        gives(&mut client, &read("CLAIM 0 MAXCOUNT 2"), "s: 1-0 2-0");
        let had = "XREADGROUP GROUP g c MAXCOUNT 4 STREAMS s t 0 0";
        gives(&mut client, had, "s: 1-0 2-0 3-0, t: 1-0");
    }
}
