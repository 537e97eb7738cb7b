//! `--bigkeys` and `--memkeys`: the greatest key of each type, and how much there is of each.
//!
//! Invariant: a key is told once it is greater than all of its type before it.

use std::process::ExitCode;

use base::quote::quote;

use super::walk::{self, Measure, TYPES, Walk};
use crate::client::{Client, print};

/// What was seen of a type.
#[derive(Clone, Debug, Default)]
struct TypeTally {
    name: String,
    unit: &'static str,
    keys: u64,
    total: u64,
    greatest: u64,
    /// The greatest key, in quotes.
    greatest_key: Option<String>,
}

/// What was seen of all keys.
struct Census {
    types: Vec<TypeTally>,
    measure: Measure,
    sampled: u64,
    name_bytes: u64,
}

const TITLE: &str = "
# Scanning the entire keyspace to find biggest keys as well as
# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec
# per 100 SCAN commands (not usually needed).

";

/// Looks at all keys and tells the greatest.
pub(crate) fn big_keys(client: &mut Client, measure: Measure) -> Result<ExitCode, String> {
    client.connect()?;
    let total = walk::key_count(client)?;
    print(TITLE.as_bytes());
    let mut census = Census::new(measure);
    let mut walk = Walk::from(client.options.cursor);
    while let Some(keys) = walk.next(client)? {
        let percent = percent(census.sampled, total);
        let types = walk::types(client, &keys)?;
        let keys = keys.into_iter().zip(types);
        let keys: Vec<_> = keys.filter_map(|(key, name)| Some((key, name?))).collect();
        let sizes = walk::sizes(client, &keys, measure)?;
        for ((key, name), size) in keys.iter().zip(sizes) {
            if let Some(line) = census.add(key, name, size) {
                print(format!("[{percent:05.2}%] {line}\n").as_bytes());
            }
            if census.sampled.is_multiple_of(KEYS_PER_LINE) {
                let line = format!("[{percent:05.2}%] Sampled {} keys so far\n", census.sampled);
                print(line.as_bytes());
            }
        }
        walk.pause(client);
    }
    print(census.summary().as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// So many keys without news are told themselves.
const KEYS_PER_LINE: u64 = 1_000_000;

/// A share in percent; of nothing it is nothing. Doubles hold numbers of keys.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// A mean; of nothing it is nothing.
pub(super) fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

impl Census {
    fn new(measure: Measure) -> Census {
        let types = TYPES.map(|(name, ..)| TypeTally::new(name, measure));
        Census { types: types.to_vec(), measure, sampled: 0, name_bytes: 0 }
    }

    /// Takes in a key; a line, if it is the greatest of its type so far.
    fn add(&mut self, key: &[u8], name: &str, size: u64) -> Option<String> {
        self.sampled += 1;
        self.name_bytes += key.len() as u64;
        let at = self.types.iter().position(|tally| tally.name == name);
        let at = at.unwrap_or_else(|| {
            self.types.push(TypeTally::new(name, self.measure));
            self.types.len() - 1
        });
        let tally = &mut self.types[at];
        tally.keys += 1;
        tally.total += size;
        if size <= tally.greatest {
            return None;
        }
        tally.greatest = size;
        let key = quote(key);
        let line = format!("Biggest {name:<6} found so far '{key}' with {size} {}", tally.unit);
        tally.greatest_key = Some(key);
        Some(line)
    }

    fn summary(&self) -> String {
        let Census { sampled, name_bytes, .. } = self;
        let mut text = format!(
            "\n-------- summary -------\n\nSampled {sampled} keys in the keyspace!\n\
             Total key length in bytes is {name_bytes} (avg len {:.2})\n\n",
            mean(*name_bytes, *sampled)
        );
        for TypeTally { name, unit, greatest, greatest_key, .. } in &self.types {
            if let Some(key) = greatest_key {
                text.push_str(&format!("Biggest {name:>6} found '{key}' has {greatest} {unit}\n"));
            }
        }
        text.push('\n');
        for TypeTally { name, unit, keys, total, .. } in &self.types {
            let share = percent(*keys, *sampled);
            let mean = mean(*total, *keys);
            text.push_str(&format!(
                "{keys} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {mean:.2})\n"
            ));
        }
        text
    }
}

impl TypeTally {
    fn new(name: &str, measure: Measure) -> TypeTally {
        let unit = match measure {
            Measure::Memory => "bytes",
            Measure::Length => walk::unit_of(name).unwrap_or("?"),
        };
        TypeTally { name: name.to_owned(), unit, ..TypeTally::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Census, Measure};

    #[test]
    fn the_greatest_of_each_type_is_told_once() {
        let mut census = Census::new(Measure::Length);
        let line = census.add(b"a\n", "string", 3);
        assert_eq!(line.as_deref(), Some(r#"Biggest string found so far '"a\n"' with 3 bytes"#));
        assert_eq!(census.add(b"b", "string", 3), None);
        assert_eq!(census.add(b"empty", "set", 0), None);
        assert_eq!(census.add(b"other", "vectorset", 0), None);
        let text = census.summary();
        for line in [
            "Sampled 4 keys in the keyspace!\nTotal key length in bytes is 13 (avg len 3.25)\n\n",
            "\n2 strings with 6 bytes (50.00% of keys, avg size 3.00)\n",
            "\n0 lists with 0 items (00.00% of keys, avg size 0.00)\n",
            "\n1 vectorsets with 0 ? (25.00% of keys, avg size 0.00)\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(text.matches("Biggest").count(), 1);
    }
}
