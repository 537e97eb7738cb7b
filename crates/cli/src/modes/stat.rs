//! `--stat`: a line of what INFO says, again and again.
//!
//! Invariant: a field that the server does not have shows as nothing, and moves no column.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::{Client, print};

const TITLE: &str = "------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          \n";

/// Prints a line each interval, for ever or as often as `-r` says.
pub(crate) fn stat(client: &mut Client) -> Result<ExitCode, String> {
    let interval = client.options.interval.unwrap_or(Duration::from_secs(1));
    let times = client.options.repeat.filter(|times| *times > 1);
    let (mut requests, mut lines) = (None, 0);
    while times.is_none_or(|times| lines < times) {
        if lines > 0 {
            std::thread::sleep(interval);
        }
        let reply = client.ask(&["INFO"]).map_err(|why| format!("ERROR: {why}"))?;
        let info = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if lines % LINES_PER_TITLE == 0 {
            print(TITLE.as_bytes());
        }
        print(line(&info, &mut requests).as_bytes());
        lines += 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// So many lines stand below one title.
const LINES_PER_TITLE: u64 = 20;

/// What one INFO says; `requests` is how many there were at the one before.
fn line(info: &str, requests: &mut Option<i64>) -> String {
    let number = |name| field(info, name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let keys: i64 = info.lines().filter_map(keys_of).sum();
    let now = number("total_commands_processed");
    let more = now - requests.replace(now).unwrap_or(now);
    let children = [
        ("rdb_bgsave_in_progress", "SAVE"),
        ("aof_rewrite_in_progress", "AOF"),
        ("loading", "LOAD"),
    ];
    let child = children.iter().find(|(name, _)| number(name) == 1).map_or("", |it| it.1);
    let requests = format!("{now} (+{more})");
    format!(
        "{keys:<10} {:<8} {:<8}{:<8}{requests:<20}{:<12}{child}\n",
        human(u64::try_from(number("used_memory")).unwrap_or_default()),
        number("connected_clients"),
        number("blocked_clients"),
        number("total_connections_received"),
    )
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The keys of a database, in its line of INFO.
fn keys_of(line: &str) -> Option<i64> {
    let (name, fields) = line.split_once(":keys=")?;
    name.strip_prefix("db")?.parse::<u32>().ok()?;
    fields.split(',').next()?.parse().ok()
}

/// Bytes in the greatest unit that leaves at least one.
pub(super) fn human(bytes: u64) -> String {
    // A double holds each size that a machine has, as far as two digits tell.
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_tells_what_info_says() {
        let info = "# Memory\r\nused_memory:2097152\r\nconnected_clients:2\r\nblocked_clients:1\r\n\
                    total_commands_processed:50\r\ntotal_connections_received:7\r\n\
                    db0:keys=3,expires=0,avg_ttl=0\r\ndb5:keys=4,expires=0,avg_ttl=0\r\n";
        let mut requests = None;
        let first = line(info, &mut requests);
        assert_eq!(first, "7          2.00M    2       1       50 (+0)             7           \n");
        let info = info.replace("processed:50", "processed:63");
        assert!(line(&info, &mut requests).contains("63 (+13)"));
        let loading = format!("{info}loading:1\r\n");
        assert!(line(&loading, &mut requests).ends_with("LOAD\n"));
    }
}
