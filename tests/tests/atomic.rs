//! Commands of many keys are seen whole or not at all, whatever partitions the keys lie in and
//! whatever else happens. Renames, swaps and MSET beside DEL are in generic.rs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::{Client, Server};

const KEYS: usize = 50;
/// How often each writer writes.
const ROUNDS: u64 = 1_000;

fn server() -> Server {
    Server::start(&["--worker-threads", "4"])
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// A command of all keys, each followed by `value` if there is one.
fn of_all(name: &[&str], prefix: &str, value: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = name.iter().map(|word| (*word).to_owned()).collect();
    for number in 0..KEYS {
        words.push(format!("{prefix}{number}"));
        words.extend(value.map(str::to_owned));
    }
    words
}

/// Whether all elements of a reply are the same.
fn is_uniform(reply: &Value) -> bool {
    let Value::Array(items) = reply else { panic!("an array, not {reply:?}") };
    items.iter().all(|item| *item == items[0])
}

/// Reads while the others write; `look` fails the test when what it sees is torn.
fn while_looking(
    server: &Server,
    writers: &[&(dyn Fn(&mut Client) + Sync)],
    look: impl Fn(&mut Client) + Sync,
) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                while !over.load(Ordering::Relaxed) {
                    look(&mut client);
                }
            });
        }
        let writers: Vec<_> = writers
            .iter()
            .map(|write| {
                scope.spawn(|| {
                    let mut client = server.client();
                    (0..ROUNDS).for_each(|_| write(&mut client));
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
    });
}

#[test]
fn writers_of_the_same_keys_do_not_mix() {
    let server = server();
    let write = |value: &'static str| {
        move |client: &mut Client| {
            assert_eq!(client.call(&of_all(&["MSET"], "k", Some(value))), ok());
        }
    };
    let backwards = |client: &mut Client| {
        let mut words = of_all(&[], "k", Some("back"));
        let mut pairs: Vec<_> = words.chunks_exact_mut(2).map(|pair| pair.to_vec()).collect();
        pairs.reverse();
        let words: Vec<String> =
            ["MSET".to_owned()].into_iter().chain(pairs.into_iter().flatten()).collect();
        assert_eq!(client.call(&words), ok());
    };
    while_looking(&server, &[&write("one"), &write("two"), &backwards], |client| {
        assert!(is_uniform(&client.call(&of_all(&["MGET"], "k", None))));
    });
}

#[test]
fn only_one_of_many_msetnx_sets_its_keys() {
    let server = server();
    let set = |client: &mut Client| {
        let reply = client.call(&of_all(&["MSETNX"], "k", Some("x")));
        if reply == Value::Integer(1) {
            // A client that set all may take all away.
            let gone = client.call(&of_all(&["DEL"], "k", None));
            assert_eq!(gone, Value::Integer(KEYS as i64));
        }
    };
    while_looking(&server, &[&set, &set, &set], |client| {
        let seen = client.call(&of_all(&["EXISTS"], "k", None));
        assert!(matches!(seen, Value::Integer(0 | 50)), "{seen:?}");
    });
}

#[test]
fn conditions_over_many_keys_hold_for_all() {
    let server = server();
    let count = KEYS.to_string();
    let set = |client: &mut Client| {
        let mut words = of_all(&["MSETEX", &count], "k", Some("x"));
        words.extend(["NX", "EX", "100"].map(str::to_owned));
        if client.call(&words) == Value::Integer(1) {
            client.call(&of_all(&["UNLINK"], "k", None));
        }
    };
    while_looking(&server, &[&set, &set], |client| {
        assert!(is_uniform(&client.call(&of_all(&["MGET"], "k", None))));
    });
}

#[test]
fn a_copy_replaces_at_once() {
    let server = server();
    server.client().call(&["MSET", "one", "1", "two", "2", "target", "0"]);
    let copy = |source: &'static str| {
        move |client: &mut Client| {
            let reply = client.call(&["COPY", source, "target", "REPLACE"]);
            assert_eq!(reply, Value::Integer(1));
        }
    };
    while_looking(&server, &[&copy("one"), &copy("two")], |client| {
        assert_eq!(client.call(&["EXISTS", "target"]), Value::Integer(1));
    });
}

#[test]
fn a_flush_takes_everything_at_once() {
    let server = server();
    let set =
        |client: &mut Client| assert_eq!(client.call(&of_all(&["MSET"], "k", Some("x"))), ok());
    let flush = |client: &mut Client| assert_eq!(client.call(&["FLUSHALL"]), ok());
    let flush_later = |client: &mut Client| assert_eq!(client.call(&["FLUSHALL", "ASYNC"]), ok());
    while_looking(&server, &[&set, &set, &flush, &flush_later], |client| {
        assert!(is_uniform(&client.call(&of_all(&["MGET"], "k", None))));
    });
}

#[test]
fn a_swap_loses_no_write() {
    let server = server();
    let add = |client: &mut Client| {
        client.call(&["SELECT", "0"]);
        for _ in 0..20 {
            client.call(&["INCR", "counter"]);
        }
    };
    let swap = |client: &mut Client| assert_eq!(client.call(&["SWAPDB", "0", "1"]), ok());
    while_looking(&server, &[&add, &add, &swap], |client| {
        client.call(&["PING"]);
    });
    let mut client = server.client();
    let mut sum = 0;
    for database in ["0", "1"] {
        client.call(&["SELECT", database]);
        let reply = client.call(&["GET", "counter"]);
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or(b"0")).into_owned();
        sum += text.parse::<u64>().unwrap();
    }
    assert_eq!(sum, 2 * 20 * ROUNDS);
}
