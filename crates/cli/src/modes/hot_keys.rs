//! `--hotkeys`: the keys that are used most often, by the counters of an LFU policy.
//!
//! Invariant: of the keys seen so far the list holds those with the greatest counters; of two
//! equal ones the one that was seen first stands first.

use std::process::ExitCode;

use base::quote::{escape, quote};
use proto::value::Value;

use super::big_keys::percent;
use super::walk::{self, Walk, Words, words};
use crate::client::{Client, print};

const TITLE: &str = "
# Scanning the entire keyspace to find hot keys as well as
# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec
# per 100 SCAN commands (not usually needed).

";

/// Looks at all keys and tells the hottest.
pub(crate) fn hot_keys(client: &mut Client) -> Result<ExitCode, String> {
    client.connect()?;
    let total = walk::key_count(client)?;
    print(TITLE.as_bytes());
    let (mut sampled, mut hottest) = (0, HottestKeys::default());
    let mut walk = Walk::from(client.options.cursor);
    while let Some(keys) = walk.next(client)? {
        let percent = percent(sampled, total);
        let counters = counters(client, &keys)?;
        for (key, counter) in keys.iter().zip(counters) {
            sampled += 1;
            let name = quote(key);
            if hottest.add(counter, &name) {
                let line = format!(
                    "[{percent:05.2}%] Hot key '{name}' found so far with counter {counter}\n"
                );
                print(line.as_bytes());
            }
        }
        walk.pause(client);
    }
    let mut text =
        format!("\n-------- summary -------\n\nSampled {sampled} keys in the keyspace!\n");
    for (counter, name) in &hottest.keys {
        text.push_str(&format!("hot key found with counter: {counter}\tkeyname: {name}\n"));
    }
    print(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// How often keys are used. A key that is gone is not.
fn counters(client: &mut Client, keys: &[Vec<u8>]) -> Result<Vec<u64>, String> {
    let requests: Vec<Words> = keys.iter().map(|key| words("OBJECT", &[b"FREQ", key])).collect();
    let replies = client.ask_all(&requests)?;
    let counter = |(reply, key): (&Value, &Vec<u8>)| match reply {
        Value::Integer(counter) => Ok(u64::try_from(*counter).unwrap_or_default()),
        Value::Error(line) if line.starts_with(b"ERR no such key") => Ok(0),
        Value::Error(line) => Err(format!("Error: {}", String::from_utf8_lossy(line))),
        Value::Null => Ok(0),
        _ => {
            Err(format!("Warning: OBJECT freq on '{}' failed (may have been deleted)", escape(key)))
        }
    };
    replies.iter().zip(keys).map(counter).collect()
}

/// How many keys are told.
const KEYS_MAX: usize = 16;

/// The keys with the greatest counters, the greatest first.
#[derive(Debug, Default)]
struct HottestKeys {
    keys: Vec<(u64, String)>,
}

impl HottestKeys {
    /// Whether a key is among the hottest, where it now stands. A key that is not used never is.
    fn add(&mut self, counter: u64, name: &str) -> bool {
        let at = self.keys.partition_point(|(other, _)| *other >= counter);
        if counter == 0 || at == KEYS_MAX {
            return false;
        }
        self.keys.truncate(KEYS_MAX - 1);
        self.keys.insert(at, (counter, name.to_owned()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{HottestKeys, KEYS_MAX};

    #[test]
    fn the_hottest_stay_and_the_first_of_equals_stands_first() {
        let mut hottest = HottestKeys::default();
        assert!(hottest.add(1, "first") && hottest.add(1, "second") && hottest.add(3, "hot"));
        assert!(!hottest.add(0, "cold"));
        let names: Vec<&str> = hottest.keys.iter().map(|key| key.1.as_str()).collect();
        assert_eq!(names, ["hot", "first", "second"]);
        for _ in 3..KEYS_MAX {
            assert!(hottest.add(2, "more"));
        }
        assert!(!hottest.add(1, "late"));
        assert!(hottest.add(9, "hottest"));
        assert_eq!(hottest.keys.len(), KEYS_MAX);
        assert_eq!(hottest.keys[0], (9, "hottest".to_owned()));
        assert_eq!(hottest.keys[KEYS_MAX - 1], (1, "first".to_owned()));
    }
}
