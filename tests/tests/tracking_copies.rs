//! CLIENT TRACKING under load: clients keep copies of what they read while others write, and no
//! copy is used after it was said to be old.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::render::{render, text};
use tests::{Client, Server, check};

const KEYS: usize = 24;
const READERS: usize = 4;
const WRITERS: usize = 2;
const READS: usize = 12_500;
const WRITES: usize = 25_000;

/// A client with copies of its own.
struct Cache {
    client: Client,
    copies: HashMap<String, u64>,
    /// The newest value it has seen of each key.
    newest: HashMap<String, u64>,
    /// How often it was told that copies are old.
    told: usize,
}

impl Cache {
    fn new(server: &Server) -> Self {
        let mut client = server.client3();
        check(&mut client, "> CLIENT TRACKING ON\nOK");
        let (copies, newest) = (HashMap::new(), HashMap::new());
        Self { client, copies, newest, told: 0 }
    }

    /// Reads some keys: those without a copy are asked for in one request.
    fn read(&mut self, keys: &[String]) {
        let missing: Vec<_> = keys.iter().filter(|key| !self.copies.contains_key(*key)).collect();
        if missing.is_empty() {
            return;
        }
        let words = [vec!["MGET".to_owned()], missing.iter().copied().cloned().collect()].concat();
        self.client.send(&words);
        let Value::Array(values) = self.reply() else { panic!("MGET replies an array") };
        for (key, value) in missing.into_iter().zip(&values) {
            let value = number(value);
            let newest = self.newest.entry(key.clone()).or_default();
            assert!(value >= *newest, "{key}: {value} after {newest}");
            *newest = value;
            self.copies.insert(key.clone(), value);
        }
    }

    /// The next reply; what comes before it says which copies are old.
    fn reply(&mut self) -> Value {
        loop {
            match self.client.receive() {
                Value::Push(message) => {
                    let Value::Array(keys) = &message[1] else { panic!("{message:?}") };
                    self.told += 1;
                    keys.iter().for_each(|key| _ = self.copies.remove(&text(key)));
                }
                reply => return reply,
            }
        }
    }
}

/// A counter's value; one that was never raised is not there.
fn number(value: &Value) -> u64 {
    if *value == Value::Null { 0 } else { text(value).parse().expect("a number") }
}

#[test]
fn copies_are_what_the_server_has_once_all_was_told() {
    let server = Server::start(&["--worker-threads", "4"]);
    let name = |number: usize| format!("key:{}", number % KEYS);
    let done = AtomicBool::new(false);
    let mut caches = thread::scope(|scope| {
        let read = |seed: usize| {
            let mut cache = Cache::new(&server);
            let mut random = seed * 7919 + 1;
            for turn in 0..READS {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let first = random >> 33;
                // Some of them are so long that another thread does the work.
                let count = if turn % 500 == 0 { 1500 } else { 1 + first % 3 };
                let keys: Vec<_> = (first..first + count).map(name).collect();
                cache.read(&keys);
            }
            // Until nothing is written any more there is something to be told.
            while !done.load(Ordering::Acquire) {
                cache.read(&[name(random)]);
                random += 1;
            }
            cache
        };
        let write = |seed: usize| {
            let mut client = server.client();
            let mut random = seed * 104_729 + 3;
            for turn in 0..WRITES {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (one, other) = (name(random >> 33), name(random >> 40));
                if turn % 4 > 0 {
                    client.call(&["INCR", &one]);
                    continue;
                }
                let commands: [Vec<&str>; 4] =
                    [vec!["MULTI"], vec!["INCR", &one], vec!["INCR", &other], vec!["EXEC"]];
                client.pipeline(&commands);
            }
        };
        let readers: Vec<_> = (0..READERS).map(|seed| scope.spawn(move || read(seed))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|seed| scope.spawn(move || write(seed))).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("writers do not fail"));
        done.store(true, Ordering::Release);
        readers
            .into_iter()
            .map(|it| it.join().expect("no reader saw time go back"))
            .collect::<Vec<_>>()
    });
    let mut judge = server.client();
    for cache in &mut caches {
        let all: Vec<_> = (0..KEYS).map(name).collect();
        cache.read(&all);
        cache.client.send(&["PING"]);
        assert_eq!(render(&cache.reply()), "PONG");
        cache.read(&all);
        for (key, copy) in &cache.copies {
            assert_eq!(number(&judge.call(&["GET", key])), *copy, "{key} is old");
        }
        assert!(cache.told > 0 && cache.copies.len() == KEYS);
    }
}
