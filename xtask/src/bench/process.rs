//! What the kernel says of a process. Invariant: a number is the kernel's own; nothing is asked of
//! the server that is measured.

use std::fs;

/// The unit in which the kernel tells CPU time, the same on all of today's Linux systems.
pub(super) const TICK_SECONDS: f64 = 0.01;

/// CPU time of a process and of its children that have ended, user and system time added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) own: u64,
    pub(super) children: u64,
}

/// The CPU time a process has taken, that of its ended threads included.
pub(super) fn ticks(pid: u32) -> Result<Ticks, String> {
    let file = format!("/proc/{pid}/stat");
    parse_stat(&read(&file)?).ok_or_else(|| format!("{file} has an unknown form"))
}

/// The bytes of a process that lie in memory. The count of `/proc/PID/status` may be behind by
/// many pages, this one is exact.
pub(super) fn resident_bytes(pid: u32) -> Result<u64, String> {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = read(&file)?;
    let kilobytes = field(&text, "Rss:").and_then(|value| value.parse::<u64>().ok());
    kilobytes.map(|count| count * 1024).ok_or_else(|| format!("{file} has no Rss"))
}

/// The first word after a label at the beginning of a line.
pub(super) fn field<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()
}

/// A file of the kernel's.
pub(super) fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

fn parse_stat(text: &str) -> Option<Ticks> {
    // The second field is the program's name, which may hold anything, parentheses too.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields 14 to 17 of the whole line: utime, stime, cutime, cstime.
    let times: Vec<u64> = fields.get(11..15)?.iter().filter_map(|word| word.parse().ok()).collect();
    let [user, system, children_user, children_system] = times[..] else { return None };
    Some(Ticks { own: user + system, children: children_user + children_system })
}

#[cfg(test)]
mod tests {
    use super::{Ticks, field, parse_stat, resident_bytes, ticks};

    #[test]
    fn reads_the_times_whatever_the_name() {
        let line = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 150 30 6 4 20 0 1 0 99 8 9";
        assert_eq!(parse_stat(line), Some(Ticks { own: 180, children: 10 }));
        assert_eq!(parse_stat("7 (a) S 1"), None);
    }

    #[test]
    fn knows_this_very_process() {
        let pid = std::process::id();
        assert!(ticks(pid).is_ok());
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }

    #[test]
    fn a_field_begins_its_line() {
        let text = "xRss: 1 kB\nRss:     24 kB\n";
        assert_eq!(field(text, "Rss:"), Some("24"));
        assert_eq!(field(text, "Pss:"), None);
    }
}
