//! SORT and SORT_RO from outside: beside the real servers by script and by random requests, whole
//! over all the keys that they read, and a burden to nobody.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::Random;
use proto::value::Value;
use tests::differential::{Command, Rule};
use tests::{Duel, Oracle, Server, check};

/// Every option word, and what each is refused for; the same in both protocols but for nulls.
const COMMON: &str = r#"
    > RPUSH l 3 10 -1 2.5 1e1
    (integer) 5
    > SORT l
    1) "-1"
    2) "2.5"
    3) "3"
    4) "10"
    5) "1e1"
    > SORT_RO l DESC LIMIT 1 2
    1) "10"
    2) "3"
    > SORT l ALPHA LIMIT 0 1 ASC
    1) "-1"
    > MSET w_3 x w_10 y w_-1 z w_2.5 a w_1e1 b
    OK
    > SORT l BY w_* ALPHA
    1) "2.5"
    2) "1e1"
    3) "3"
    4) "10"
    5) "-1"
    > SORT l BY w_*
    (error) ERR One or more scores can't be converted into double
    > SORT l BY nosort LIMIT 1 2 GET # GET w_*
    1) "10"
    2) "y"
    3) "-1"
    4) "z"
    > SORT l BY nosort DESC LIMIT 0 1 GET none_*
    1) (nil)
    > HSET h:3 n 1
    (integer) 1
    > SORT l BY h:*->n DESC LIMIT 0 1 GET h:*->n GET h:*
    1) "1"
    2) (nil)
    > SORT l BY w_* ALPHA GET # GET none_* STORE d
    (integer) 10
    > LRANGE d 0 3
    1) "2.5"
    2) ""
    3) "1e1"
    4) ""
    > SORT none STORE d
    (integer) 0
    > EXISTS d
    (integer) 0
    > SORT none
    (empty array)
    > ZADD z 2 a 1 c 3 b
    (integer) 3
    > SORT z BY nosort DESC LIMIT 0 2
    1) "b"
    2) "a"
    > SORT z
    (error) ERR One or more scores can't be converted into double
    > SORT z ALPHA DESC
    1) "c"
    2) "b"
    3) "a"
    > SADD s b c a
    (integer) 3
    > SORT s BY nosort STORE d
    (integer) 3
    > LRANGE d 0 -1
    1) "a"
    2) "b"
    3) "c"
    > SORT l STORE l
    (integer) 5
    > LINDEX l -1
    "1e1"
    > SORT h:3
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SORT w_3
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > SORT l LIMIT 0 x
    (error) ERR value is not an integer or out of range
    > SORT l LIMIT 0
    (error) ERR syntax error
    > SORT l STORE
    (error) ERR syntax error
    > SORT_RO l STORE d
    (error) ERR syntax error
    > SORT l LIMIT 9223372036854775807 9223372036854775807
    (empty array)
    > SORT l LIMIT -9223372036854775808 1
    1) "-1"
    > COMMAND GETKEYS SORT l BY STORE GET x LIMIT 1 2 STORE a STORE b
    1) "l"
    2) "b"
    > COMMAND GETKEYS SORT_RO l BY w_* GET x_*
    1) "l"
"#;

#[test]
fn sort_answers_as_written() {
    let server = Server::start(&[]);
    for mut client in [server.client(), server.client3()] {
        client.call(&["FLUSHALL"]);
        check(&mut client, COMMON);
    }
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        for mut client in [server.client(), server.client3()] {
            client.call(&["FLUSHALL"]);
            check(&mut client, COMMON);
        }
    }
}

const ROUNDS: usize = 400;
const REQUESTS: usize = 12;

#[test]
fn random_requests_get_the_replies_of_the_real_servers() {
    for oracle in Oracle::ALL {
        let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
        for (seed, (one, other)) in
            [(ours.client(), theirs.client()), (ours.client3(), theirs.client3())]
                .into_iter()
                .enumerate()
        {
            let mut random = Random::from_seed(seed as u64);
            let mut duel = Duel::new(one, other, seed as u64).ruled(rule);
            for _ in 0..ROUNDS {
                let mut commands = world(&mut random);
                for _ in 0..REQUESTS {
                    commands.push(request(&mut random));
                    commands.push(words("LRANGE d 0 -1"));
                }
                duel.run_all(commands);
            }
        }
    }
}

/// What lies in a set comes in any order.
fn rule(command: &Command) -> Rule {
    let has = |word: &[u8]| command.iter().any(|other| other == word);
    if has(b"nosort") && command[1] == b"s" && !has(b"STORE") {
        return if has(b"LIMIT") || has(b"GET") { Rule::Kind } else { Rule::Unordered };
    }
    Rule::Exact
}

fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A list, a set and a sorted set of the same kind of elements, some keys named after them, some
/// of another type, and some missing. Equal words are left out: what is compared as text has no
/// order among equals.
fn world(random: &mut Random) -> Vec<Command> {
    let mut commands = vec![words("FLUSHALL")];
    let len = 1 + random.below(40);
    let numeric = random.below(4) > 0;
    for number in 0..len {
        let element = match random.below(6) {
            _ if !numeric => format!("{}{number}", ["a", "B", "~", "c-"][random.below(4) as usize]),
            0 => format!("{number}.5"),
            1 => format!("-{number}"),
            _ => random.below(1000).to_string(),
        };
        commands.push(words(&format!("RPUSH l {element}")));
        commands.push(words(&format!("SADD s {element}")));
        commands.push(words(&format!("ZADD z {number} {element}")));
        let weight = random.below(20);
        match random.below(8) {
            0 => {}
            1 => commands.push(words(&format!("HSET w_{element} f {weight}"))),
            2 => commands.push(words(&format!("SET w_{element} {weight}.25"))),
            _ => commands.push(words(&format!("SET w_{element} {weight}"))),
        }
        commands.push(words(&format!("HSET h_{element} f {weight} g text{number}")));
    }
    commands
}

fn request(random: &mut Random) -> Command {
    let mut line = format!("SORT {}", ["l", "s", "z", "none"][random.below(4) as usize]);
    let alpha = random.below(3) == 0;
    let by: &[&str] = match alpha {
        // What sorts text by weights must tell them all apart.
        true => &["", "", " BY h_*->g", " BY nosort"],
        false => &["", " BY w_*", " BY h_*->f", " BY nosort", " BY none_*", " BY w_*->f"],
    };
    line += by[random.below(by.len() as u64) as usize];
    line += if alpha { " ALPHA" } else { "" };
    for _ in 0..random.below(3) {
        line += [" GET #", " GET w_*", " GET h_*->g", " GET h_*->nope", " GET w_1"]
            [random.below(5) as usize];
    }
    if random.below(2) == 0 {
        let (offset, count) = (random.below(50) as i64 - 5, random.below(50) as i64 - 5);
        line += &format!(" LIMIT {offset} {count}");
    }
    line += ["", " ASC", " DESC"][random.below(3) as usize];
    line += if random.below(3) == 0 { " STORE d" } else { "" };
    words(&line)
}

#[test]
fn what_it_reads_is_one_moment() {
    const ELEMENTS: usize = 60;
    const READS: usize = 300;
    let server = Server::start(&["--worker-threads", "4"]);
    let mut client = server.client();
    let names: Vec<String> = (0..ELEMENTS).map(|number| number.to_string()).collect();
    let mut push = vec!["RPUSH", "l"];
    push.extend(names.iter().map(String::as_str));
    client.call(&push);
    let all = |value: &str| {
        let pairs = names.iter().flat_map(|name| [format!("k{name}"), value.to_owned()]);
        ["MSET".to_owned()].into_iter().chain(pairs).collect::<Vec<_>>()
    };
    client.call(&all("0"));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (over, server) = (&over, &server);
        let writers = ["1", "2"].map(|value| {
            let request = all(value);
            scope.spawn(move || {
                let mut client = server.client();
                while !over.load(Ordering::Relaxed) {
                    client.call(&request);
                }
            })
        });
        for round in 0..READS {
            let request: &[&str] = match round % 2 {
                0 => &["SORT", "l", "GET", "k*"],
                _ => &["SORT", "l", "BY", "k*", "GET", "k*", "STORE", "d"],
            };
            let mut reply = client.call(request);
            if round % 2 == 1 {
                assert_eq!(reply, Value::Integer(ELEMENTS as i64));
                reply = client.call(&["LRANGE", "d", "0", "-1"]);
            }
            let Value::Array(values) = reply else { panic!("an array, not {reply:?}") };
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        }
        over.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_long_one_keeps_nobody_waiting() {
    const ELEMENTS: usize = 200_000;
    let server = Server::start(&["--worker-threads", "1"]);
    let mut client = server.client();
    for first in (0..ELEMENTS).step_by(1000) {
        let mut push = vec!["RPUSH".to_owned(), "l".to_owned()];
        push.extend((first..first + 1000).map(|number| (number * 7919 % ELEMENTS).to_string()));
        client.call(&push);
    }
    // On a worker that sorted by itself the answer would always come after the sort's reply. How
    // often it comes before is the machine's affair.
    let mut other = server.client();
    let answered_meanwhile = (0..100).any(|_| {
        client.send(&["SORT", "l", "DESC", "STORE", "d"]);
        other.call(&["INCR", "counter"]);
        let (reply, is_early) = match client.arrival(std::time::Duration::from_millis(1)).unwrap() {
            tests::Arrival::Reply(reply) => (reply, false),
            tests::Arrival::Silence => (client.receive(), true),
            tests::Arrival::Closed => panic!("the client was closed"),
        };
        assert_eq!(reply, Value::Integer(ELEMENTS as i64));
        is_early
    });
    assert!(answered_meanwhile);
    assert_eq!(other.call(&["LINDEX", "d", "-1"]), Value::Bulk(b"0".to_vec()));
}
