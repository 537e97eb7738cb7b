//! Streams token by token: of each page at redis.io/commands/x* every option, by itself and beside
//! others, and every error, in both protocols. What Redis 8.2 has is proven on it; for the rest the
//! page is the authority, and where it tells no text, the tests that redis-py and go-redis carry.

mod adding;
mod claims;
mod deleting;
mod groups;
mod idempotence;
mod nacks;
mod pending;
mod reading;

use proto::value::Value;
use tests::render::text;
use tests::script::afresh;
use tests::{Oracle, Server, check};

/// What Redis 8.2 has.
const KNOWN: [&str; 5] =
    [adding::SCRIPT, deleting::SCRIPT, groups::SCRIPT, pending::SCRIPT, reading::SCRIPT];

/// What came with Redis 8.4 to 8.10.
const NEWER: [&str; 2] = [idempotence::SCRIPT, nacks::SCRIPT];

#[test]
fn stream_options_answer_as_documented() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        for script in KNOWN.iter().chain(&NEWER) {
            afresh(&server, protocol, script);
        }
    }
}

#[test]
fn redis_says_the_same() {
    let server = Oracle::redis82();
    for protocol in ["2", "3"] {
        for script in KNOWN {
            afresh(&server, protocol, script);
        }
    }
}

/// redis.io/commands/xinfo-stream: the fields that a stream has once somebody sent it anything with
/// IDMP.
#[test]
fn a_stream_tells_of_its_producers() {
    let server = Server::start(&[]);
    check(
        &mut server.client(),
        r#"
        > XADD s 9999999999999-1 a b
        "9999999999999-1"
        > XCFGSET s IDMP-DURATION 600 IDMP-MAXSIZE 50
        OK
        > XIDMPRECORD s p 1 9999999999999-1
        OK
        > XADD s IDMP q 1 * a b
        "9999999999999-2"
        > XADD s IDMP q 2 * a b
        "9999999999999-3"
        > XADD s IDMP q 2 * a b
        "9999999999999-3"
        "#,
    );
    let expected = [
        ("idmp-duration", 600),
        ("idmp-maxsize", 50),
        ("pids-tracked", 2),
        ("iids-tracked", 3),
        ("iids-added", 3),
        ("iids-duplicates", 1),
    ];
    for mut client in [server.client(), server.client3()] {
        for request in [&["XINFO", "STREAM", "s"][..], &["XINFO", "STREAM", "s", "FULL"]] {
            let fields: Vec<(String, Value)> = match client.call(request) {
                Value::Map(pairs) => pairs.into_iter().map(|(k, v)| (text(&k), v)).collect(),
                Value::Array(items) => {
                    items.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
                }
                other => panic!("{other:?}"),
            };
            for (name, number) in expected {
                let field = fields.iter().find(|(field, _)| field == name);
                assert_eq!(field.map(|(_, value)| value), Some(&Value::Integer(number)), "{name}");
            }
        }
    }
}
