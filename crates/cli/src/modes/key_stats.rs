//! `--keystats`: the greatest keys by memory and by elements, and how sizes are distributed.
//!
//! Invariant: what is told is about the keys that were looked at, also where a signal has cut the
//! walk off; then the place is told where it goes on.

use std::process::ExitCode;

use base::quote::{escape, quote};

use super::big_keys::{mean, percent};
use super::size_histogram::{Percentile, SizeHistogram};
use super::stat::human;
use super::walk::{self, Measure, Walk};
use crate::client::{Client, print};
use crate::interrupt;
use crate::options::Output;

const TITLE: &str = "
# Scanning the entire keyspace to find the biggest keys and distribution information.
# Use -i 0.1 to sleep 0.1 sec per 100 SCAN commands (not usually needed).
# Use --cursor <n> to start the scan at the cursor <n> (usually after a Ctrl-C).
# Use --top <n> to display <n> top key sizes (default is 10).
# Ctrl-C to stop the scan.

";

/// Looks at all keys and tells what they say.
pub(crate) fn key_stats(client: &mut Client) -> Result<ExitCode, String> {
    interrupt::listen();
    client.connect()?;
    let total = walk::key_count(client)?;
    print(TITLE.as_bytes());
    let shows_progress = client.formatter.output == Output::Standard;
    let mut stats = KeyStats { top_max: client.options.top, ..KeyStats::default() };
    let mut walk = Walk::from(client.options.cursor);
    let mut cut_off_at = None;
    while !walk.is_over() && cut_off_at.is_none() {
        let here = walk.cursor();
        match count_page(client, &mut walk, &mut stats) {
            // A signal may come while a reply is waited for: that page is not counted.
            Err(_) if interrupt::was_asked() => cut_off_at = Some(here),
            Err(reason) => return Err(reason),
            Ok(()) if interrupt::was_asked() => cut_off_at = Some(walk.cursor()),
            Ok(()) => {}
        }
        if shows_progress && !walk.is_over() && cut_off_at.is_none() {
            // The lines are written over by the next ones.
            print(format!("{}\x1b[3A\r", stats.progress(total)).as_bytes());
        }
        walk.pause(client);
    }
    let is_whole = cut_off_at.is_none();
    print(stats.progress(if is_whole { stats.sampled } else { total }).as_bytes());
    if let Some(cursor) = cut_off_at {
        print(format!("\nScan interrupted: go on there with --cursor {cursor}\n").as_bytes());
    }
    print(stats.report().as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Counts the keys of the next page.
fn count_page(client: &mut Client, walk: &mut Walk, stats: &mut KeyStats) -> Result<(), String> {
    let Some(keys) = walk.next(client)? else { return Ok(()) };
    let types = walk::types(client, &keys)?;
    let keys = keys.into_iter().zip(types);
    let keys: Vec<_> = keys.filter_map(|(key, name)| Some((key, name?))).collect();
    let sizes = walk::sizes(client, &keys, Measure::Memory)?;
    let lengths = walk::sizes(client, &keys, Measure::Length)?;
    for ((key, name), (size, length)) in keys.iter().zip(sizes.into_iter().zip(lengths)) {
        stats.add(key, name, size, length);
    }
    Ok(())
}

const TABLE_TITLE: &str =
    "Type        Total keys  Keys % Tot size Avg size  Total length/card Avg ln/card";
const TABLE_RULE: &str =
    "--------- ------------ ------- -------- -------- ------------------ -----------";

/// What was seen of a type.
#[derive(Debug, Default)]
struct TypeStats {
    name: String,
    keys: u64,
    size: u64,
    length: u64,
    largest: Option<(u64, String)>,
    longest: Option<(u64, String)>,
}

/// What was seen of all keys.
#[derive(Debug, Default)]
struct KeyStats {
    types: Vec<TypeStats>,
    sampled: u64,
    size: u64,
    sizes: SizeHistogram,
    /// The largest keys, the largest first, as size, type and name.
    top: Vec<(u64, String, String)>,
    top_max: usize,
    name_lengths: NameLengths,
}

/// How long names are.
#[derive(Debug, Default)]
struct NameLengths {
    counts: [u64; NAME_BOUNDS.len()],
    sum: u64,
    longest: u64,
}

/// Up to which lengths names are counted together.
const NAME_BOUNDS: [u64; 8] =
    [1 << 5, 1 << 8, 1 << 16, 1 << 20, 1 << 24, 1 << 27, 1 << 29, u64::MAX];

/// A mean of sizes for people; a part of a byte is none.
fn human_mean(bytes: f64) -> String {
    human(bytes.clamp(0.0, 1e18) as u64)
}

/// Elements with their unit; bytes in the greatest unit that fits.
fn length_text(length: u64, unit: &str) -> String {
    if unit == "bytes" { human(length) } else { format!("{length} {unit}") }
}

impl NameLengths {
    fn add(&mut self, length: u64) {
        let at = NAME_BOUNDS.iter().position(|bound| length <= *bound);
        self.counts[at.expect("the last bound is above all")] += 1;
        self.sum += length;
        self.longest = self.longest.max(length);
    }

    fn percentiles(&self) -> Vec<Percentile> {
        let total: u64 = self.counts.iter().sum();
        let mut count = 0;
        let lines = NAME_BOUNDS.iter().zip(self.counts).filter(|(_, counted)| *counted > 0);
        lines
            .map(|(bound, counted)| {
                count += counted;
                let size = self.longest.min(*bound);
                Percentile { size, percent: percent(count, total), count }
            })
            .collect()
    }
}

impl KeyStats {
    fn add(&mut self, key: &[u8], name: &str, size: u64, length: u64) {
        self.sampled += 1;
        self.size += size;
        self.sizes.add(size);
        self.name_lengths.add(key.len() as u64);
        let at = self.top.partition_point(|it| it.0 >= size);
        if at < self.top_max {
            self.top.insert(at, (size, name.to_owned(), quote(key)));
            self.top.truncate(self.top_max);
        }
        let at = self.types.iter().position(|it| it.name == name).unwrap_or_else(|| {
            self.types.push(TypeStats { name: name.to_owned(), ..TypeStats::default() });
            self.types.len() - 1
        });
        let stats = &mut self.types[at];
        stats.keys += 1;
        stats.size += size;
        stats.length += length;
        let note = |greatest: &mut Option<(u64, String)>, value: u64| {
            if value > greatest.as_ref().map_or(0, |it| it.0) {
                *greatest = Some((value, escape(key)));
            }
        };
        note(&mut stats.largest, size);
        note(&mut stats.longest, length);
    }

    /// How far the walk is; three lines.
    fn progress(&self, total: u64) -> String {
        let done = if total == 0 { 100.0 } else { percent(self.sampled, total).min(100.0) };
        // A bar has sixty places at most.
        let bar = "|".repeat((done * 0.6) as usize);
        let size = human(self.size);
        format!("{done:6.2}% {bar:<60}\nKeys sampled: {}\nKeys size: {size:>8}\n", self.sampled)
    }

    fn report(&self) -> String {
        let mut text = format!("\n--- Top {} key sizes ---\n", self.top_max);
        for (index, (size, name, key)) in self.top.iter().enumerate() {
            text.push_str(&format!("{:>3} {:>8} {name:<10} {key}\n", index + 1, human(*size)));
        }
        text.push_str("\n--- Top size per type ---\n");
        for TypeStats { name, largest, .. } in &self.types {
            if let Some((size, key)) = largest {
                text.push_str(&format!("{name:<10} {key} is {}\n", human(*size)));
            }
        }
        text.push_str("\n--- Top length and cardinality per type ---\n");
        for TypeStats { name, longest, .. } in &self.types {
            if let (Some((length, key)), Some(unit)) = (longest, walk::unit_of(name)) {
                text.push_str(&format!("{name:<10} {key} has {}\n", length_text(*length, unit)));
            }
        }
        text + &self.distributions() + &self.table()
    }

    fn distributions(&self) -> String {
        let mut text =
            "\nKey size Percentile Total keys\n-------- ---------- -----------\n".to_owned();
        for Percentile { size, percent, count } in self.sizes.percentiles() {
            text.push_str(&format!("{:>8} {percent:>9.4}% {count:>11}\n", human(size)));
        }
        text.push_str(&format!(
            "Note: 0.01% size precision, Mean: {}, StdDeviation: {}\n\nKey name length Percentile \
             Total keys\n--------------- ---------- -----------\n",
            human_mean(self.sizes.mean()),
            human_mean(self.sizes.standard_deviation()),
        ));
        for Percentile { size, percent, count } in self.name_lengths.percentiles() {
            text.push_str(&format!("{:>15} {percent:>9.4}% {count:>11}\n", human(size)));
        }
        let sum = self.name_lengths.sum;
        let mean = human_mean(mean(sum, self.sampled));
        text + &format!("Total key length is {} ({mean} avg)\n\n", human(sum))
    }

    fn table(&self) -> String {
        let mut text = format!("{TABLE_TITLE}\n{TABLE_RULE}\n");
        for TypeStats { name, keys, size, length, .. } in &self.types {
            let (share, average) = (percent(*keys, self.sampled), mean(*length, *keys));
            let (total, each) = match walk::unit_of(name) {
                None => ("- ".to_owned(), "- ".to_owned()),
                Some("bytes") => (human(*length), human_mean(average)),
                Some(unit) => (format!("{length} {unit}"), format!("{average:.2}")),
            };
            let size_mean = human_mean(mean(*size, *keys));
            text.push_str(&format!(
                "{name:<10} {keys:>11} {share:>6.2}% {:>8} {size_mean:>8} {total:>18} {each:>11}\n",
                human(*size),
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::KeyStats;

    /// Lines of the example in the documentation of redis-cli.
    #[test]
    fn lines_are_those_of_redis_cli() {
        let mut stats = KeyStats { top_max: 2, ..KeyStats::default() };
        stats.add(b"bikes:finished", "list", 104, 1);
        stats.add(b"all_bikes", "string", 120, 36);
        stats.add(b"race:italy", "stream", 7172, 4);
        stats.add(b"bikes:sales", "TDIS-TYPE", 9832, 0);
        let text = stats.progress(4) + &stats.report();
        let full = "|".repeat(60);
        for expected in [
            &format!("100.00% {full}\nKeys sampled: 4\nKeys size:   16.82K\n\n"),
            "\n--- Top 2 key sizes ---\n  1    9.60K TDIS-TYPE  \"bikes:sales\"\n  2    7.00K \
             stream     \"race:italy\"\n\n",
            "\nlist       bikes:finished is 104B\n",
            "\nstring     all_bikes has 36B\nstream     race:italy has 4 entries\n\n",
            "\n    104B    0.0000%           1\n    120B   50.0000%           2\n",
            "\n            14B  100.0000%           4\nTotal key length is 44B (11B avg)\n\n",
            "\nlist                 1  25.00%     104B     104B            1 items        1.00\n",
            "\nstring               1  25.00%     120B     120B                36B         36B\n",
            "\nTDIS-TYPE            1  25.00%    9.60K    9.60K                 -           - \n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
