//! Compaction: what removals left half empty goes back to the system, and nothing else changes.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::HashMap;

use base::random::Random;
use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Server, check};

const MEGABYTE: u64 = 1 << 20;

fn info(client: &mut Client, name: &str) -> u64 {
    let reply = client.call(&["INFO", "all"]);
    let text = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}:")));
    let value = line.unwrap_or_else(|| panic!("INFO has {name}")).split_once(':').unwrap().1;
    value.parse().unwrap()
}

/// A value of any size, most of them small; what it holds follows from the key's number.
fn value(number: u64, random: &mut Random) -> String {
    let length = match random.below(100) {
        0 => 60_000,
        1..4 => 20_000,
        4..10 => 5000,
        10..30 => 1500,
        _ => 400,
    };
    let letter = char::from(b'a' + (number % 26) as u8);
    letter.to_string().repeat(random.below(length) as usize)
}

fn key(number: u64) -> String {
    format!("key:{number}")
}

fn set(number: u64, value: &str) -> Vec<String> {
    vec!["SET".to_owned(), key(number), value.to_owned()]
}

/// Makes keys of 100 MB and removes nine of ten; those that are left, and what was in use and
/// resident before.
fn fill_and_thin(server: &Server, client: &mut Client) -> (HashMap<u64, String>, u64, u64) {
    const BATCH: u64 = 500;
    let before = (info(client, "allocator_allocated"), server.resident());
    let mut random = Random::from_seed(5);
    let mut left = HashMap::new();
    let (mut number, mut bytes) = (0, 0);
    while bytes < 100 * MEGABYTE as usize {
        let values: Vec<_> = (0..BATCH).map(|step| value(number + step, &mut random)).collect();
        bytes += values.iter().map(String::len).sum::<usize>();
        let numbered = (number..).zip(&values);
        client.pipeline(&numbered.map(|(number, value)| set(number, value)).collect::<Vec<_>>());
        for (number, value) in (number..).zip(values) {
            if random.below(10) == 0 {
                left.insert(number, value);
            }
        }
        number += BATCH;
    }
    let gone = (0..number).filter(|number| !left.contains_key(number));
    let removals: Vec<_> = gone.map(|number| vec!["DEL".to_owned(), key(number)]).collect();
    client.pipeline(&removals);
    (left, before.0, before.1)
}

/// Waits until what is resident is little more than what is in use, both since the start.
fn becomes_compact(server: &Server, client: &mut Client, used_before: u64, resident_before: u64) {
    eventually("memory goes back to the system", || {
        let used = info(client, "allocator_allocated").saturating_sub(used_before);
        let resident = server.resident().saturating_sub(resident_before);
        resident < used + used / 5 + 8 * MEGABYTE
    });
}

fn check_values(client: &mut Client, left: &HashMap<u64, String>) {
    assert_eq!(client.call(&["DBSIZE"]), Value::Integer(left.len() as i64));
    let numbers: Vec<_> = left.keys().copied().collect();
    for part in numbers.chunks(500) {
        let reads: Vec<_> =
            part.iter().map(|number| vec!["GET".to_owned(), key(*number)]).collect();
        for (number, reply) in part.iter().zip(client.pipeline(&reads)) {
            assert_eq!(reply.as_bytes().unwrap(), left[number].as_bytes(), "key {number}");
        }
    }
}

#[test]
fn memory_goes_back_after_most_keys_are_gone() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    let (left, used, resident) = fill_and_thin(&server, &mut client);
    becomes_compact(&server, &mut client, used, resident);
    assert!(info(&mut client, "active_defrag_hits") > 0);
    check_values(&mut client, &left);
    // Where nothing lies idle nothing is done.
    eventually("it comes to rest", || info(&mut client, "active_defrag_running") == 0);
}

#[test]
fn cycles_that_take_long_are_told_by_latency() {
    let more = ["--active-defrag-cycle-us", "100000", "--latency-monitor-threshold", "1"];
    let server = Server::start(&more);
    let mut client = server.client();
    fill_and_thin(&server, &mut client);
    eventually("a cycle took a millisecond", || {
        let latest = format!("{:?}", client.call(&["LATENCY", "HISTORY", "active-defrag-cycle"]));
        latest.contains("Integer")
    });
}

#[test]
fn large_values_that_are_gone_leave_no_memory_behind() {
    const VALUES: usize = 100;
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    let resident = server.resident();
    let text = "x".repeat(MEGABYTE as usize);
    let fields: Vec<String> =
        (0..10_000).map(|number| format!("field-of-a-hash:{number}")).collect();
    for number in 0..VALUES {
        client.call(&["SET", &format!("string:{number}"), &text]);
        let name = format!("hash:{number}");
        let pairs = fields
            .iter()
            .flat_map(|field| [field.as_str(), "a value of some fifty bytes, as they often come"]);
        client.call(&["HSET", &name].into_iter().chain(pairs).collect::<Vec<_>>());
    }
    let full = server.resident().saturating_sub(resident);
    assert!(full > 100 * MEGABYTE, "{full}");
    for number in (0..VALUES).filter(|number| number % 10 != 0) {
        client.call(&["DEL", &format!("string:{number}"), &format!("hash:{number}")]);
    }
    eventually("memory goes back to the system", || {
        server.resident().saturating_sub(resident) < full / 5 + 8 * MEGABYTE
    });
    let reply = client.call(&["STRLEN", "string:50"]);
    assert_eq!(reply, Value::Integer(MEGABYTE as i64));
    assert_eq!(client.call(&["HLEN", "hash:90"]), Value::Integer(10_000));
}

#[test]
fn memory_purge_compacts_where_active_defrag_is_off() {
    let server = Server::start(&["--activedefrag", "no"]);
    let mut client = server.client();
    let (left, used, resident) = fill_and_thin(&server, &mut client);
    assert_eq!(info(&mut client, "active_defrag_hits"), 0);
    check(&mut client, "> MEMORY PURGE\nOK");
    becomes_compact(&server, &mut client, used, resident);
    check_values(&mut client, &left);
}

#[test]
fn where_sizes_shift_memory_stays_within_the_limit_and_is_used() {
    const LIMIT: u64 = 24 * MEGABYTE;
    for policy in ["allkeys-random", "allkeys-apus"] {
        let server = Server::start(&["--worker-threads", "2", "--maxmemory-policy", policy]);
        let mut client = server.client();
        let (used, resident) = (info(&mut client, "allocator_allocated"), server.resident());
        let limit = (LIMIT + used).to_string();
        client.call(&["CONFIG", "SET", "maxmemory", &limit]);
        let mut number = 0;
        for length in [100, 1000, 3000, 24_000, 300, 9000, 50] {
            let text = "x".repeat(length);
            let keys = 3 * LIMIT / (length as u64 + 60);
            let mut written = 0;
            while written < keys {
                let batch = (MEGABYTE / length as u64).clamp(10, 1000);
                let sets: Vec<_> = (number..number + batch).map(|at| set(at, &text)).collect();
                client.pipeline(&sets);
                number += batch;
                written += batch;
                let grown = server.resident().saturating_sub(resident);
                // What lies idle does not count for the limit, but is given back while others come.
                assert!(grown < 2 * LIMIT, "{policy}, {length}: {grown}");
            }
            let allocated = info(&mut client, "allocator_allocated") - used;
            assert!(allocated > LIMIT / 4 * 3, "{policy}, {length}: {allocated}");
        }
        assert!(info(&mut client, "active_defrag_hits") > 0, "{policy}");
    }
}
