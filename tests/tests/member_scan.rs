//! SSCAN, HSCAN and ZSCAN: a member that is there all the time is found, whatever comes and goes
//! meanwhile, be the key small or large or on its way from the one to the other; and none is told
//! that never was there.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::{Client, Oracle, Server};

const STABLE: usize = 3_000;
const PASSING: usize = 20_000;
/// Members of one request.
const PIECE: usize = 1_000;

/// A type: how members come, how they go, how they are scanned, and how many items each has in a
/// scan.
struct Family {
    scan: &'static str,
    put: fn(&str) -> Vec<String>,
    add: &'static str,
    remove: &'static str,
    items: usize,
}

const FAMILIES: [Family; 3] = [
    Family { scan: "SSCAN", put: |name| vec![name.into()], add: "SADD", remove: "SREM", items: 1 },
    Family {
        scan: "HSCAN",
        put: |name| vec![name.into(), "v".into()],
        add: "HSET",
        remove: "HDEL",
        items: 2,
    },
    Family {
        scan: "ZSCAN",
        put: |name| vec![name.len().to_string(), name.into()],
        add: "ZADD",
        remove: "ZREM",
        items: 2,
    },
];

impl Family {
    fn fill(&self, client: &mut Client, prefix: &str, count: usize) {
        self.each_piece(client, self.add, prefix, count, self.put);
    }

    fn empty(&self, client: &mut Client, prefix: &str, count: usize) {
        self.each_piece(client, self.remove, prefix, count, |name| vec![name.into()]);
    }

    fn each_piece(
        &self,
        client: &mut Client,
        command: &str,
        prefix: &str,
        count: usize,
        words: fn(&str) -> Vec<String>,
    ) {
        for first in (0..count).step_by(PIECE) {
            let names = (first..count.min(first + PIECE)).map(|number| format!("{prefix}{number}"));
            let start = [command, "k"].map(str::to_owned).into_iter();
            let request: Vec<String> = start.chain(names.flat_map(|name| words(&name))).collect();
            assert!(matches!(client.call(&request), Value::Integer(_)));
        }
    }

    /// One step: the next cursor and the members.
    fn step(&self, client: &mut Client, cursor: &[u8], count: &str) -> (Vec<u8>, Vec<String>) {
        let words = [self.scan.as_bytes(), b"k", cursor, b"COUNT", count.as_bytes()];
        let reply = client.call(&words);
        let Value::Array(parts) = &reply else { panic!("{reply:?}") };
        let [cursor, Value::Array(items)] = &parts[..] else { panic!("{reply:?}") };
        let members = items.iter().step_by(self.items).map(tests::render::text);
        (cursor.as_bytes().expect("a cursor is a string").to_vec(), members.collect())
    }

    /// All that one scan finds; `meanwhile` happens after each step.
    fn scan(&self, client: &mut Client, count: &str, mut meanwhile: impl FnMut()) -> Vec<String> {
        let (mut found, mut cursor) = (Vec::new(), b"0".to_vec());
        loop {
            let (next, members) = self.step(client, &cursor, count);
            found.extend(members);
            cursor = next;
            if cursor == b"0" {
                return found;
            }
            meanwhile();
        }
    }
}

fn stable(found: &[String]) -> usize {
    let stable = found.iter().filter(|member| member.starts_with("stable:"));
    stable.collect::<HashSet<_>>().len()
}

#[test]
fn members_that_stay_are_found_while_others_come_and_go() {
    let server = Server::start(&["--worker-threads", "2"]);
    let mut client = server.client();
    for family in &FAMILIES {
        client.call(&["DEL", "k"]);
        family.fill(&mut client, "stable:", STABLE);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let other = server.client();
            let over = &over;
            scope.spawn(move || {
                let mut client = other;
                while !over.load(Ordering::Relaxed) {
                    family.fill(&mut client, "passing:", PASSING);
                    family.empty(&mut client, "passing:", PASSING);
                }
            });
            for count in ["10", "100", "100000"] {
                let found = family.scan(&mut client, count, || {});
                assert_eq!(stable(&found), STABLE, "{} COUNT {count}", family.scan);
                let known = |member: &String| {
                    let number = member.split_once(':').and_then(|(_, number)| number.parse().ok());
                    number.is_some_and(|number: usize| number < PASSING)
                };
                assert!(found.iter().all(known), "{}", family.scan);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

/// The scan begins in a key that is small, and goes on in one that became large, and back again.
#[test]
fn a_scan_outlives_the_form_of_its_key() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut client, mut other) = (server.client(), server.client());
        for family in &FAMILIES {
            for (members, passing) in [(100, 1_000), (600, 2_000)] {
                client.call(&["DEL", "k"]);
                family.fill(&mut client, "stable:", members);
                let mut is_large = false;
                let found = family.scan(&mut client, "50", || {
                    match is_large {
                        false => family.fill(&mut other, "passing:", passing),
                        true => family.empty(&mut other, "passing:", passing),
                    }
                    is_large = !is_large;
                });
                assert_eq!(stable(&found), members, "{}", family.scan);
            }
        }
    }
}

#[test]
fn a_quiet_key_is_told_exactly_once() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for family in &FAMILIES {
        for members in [1, 100, 5_000] {
            client.call(&["DEL", "k"]);
            family.fill(&mut client, "m:", members);
            for count in ["1", "7", "1000"] {
                let found = family.scan(&mut client, count, || {});
                let distinct: HashSet<_> = found.iter().collect();
                assert_eq!((found.len(), distinct.len()), (members, members), "{}", family.scan);
            }
        }
    }
}
