//! Rules over words and calls that have a room of their own, or none.

use super::source::Source;

/// A silenced warning and a skipped test are work left undone that nobody sees. An `expect` with
/// its reason is fine, and fails as soon as it is no longer needed.
pub(super) fn suppressions(source: &Source) -> Vec<(usize, String)> {
    let silences = |text: &str| {
        let skips = text == "ignore" || text.starts_with("ignore=");
        skips || (text.starts_with("allow(") && text.contains("dead_code"))
    };
    let found = source.attributes.iter().filter(|(_, text)| silences(text));
    found.map(|(line, text)| (*line, format!("`#[{text}]`: delete or mend"))).collect()
}

/// What is not written yet is not offered.
pub(super) fn stubs(source: &Source) -> Vec<(usize, String)> {
    let found =
        source.words.iter().filter(|(_, word)| matches!(&**word, "todo!" | "unimplemented!"));
    found.map(|(line, word)| (*line, format!("`{word}` is a panic in waiting"))).collect()
}

/// Time is given to a command, fixed while it runs; only one module asks the system for it.
pub(super) fn clocks(source: &Source) -> Vec<(usize, String)> {
    let rooms = ["crates/base/src/time", "crates/bench/", "tests/", "xtask/"];
    banned(source, &rooms, "ask base::time", |word| {
        ends_with_path(word, "Instant::now") || ends_with_path(word, "SystemTime::now")
    })
}

/// The room that starts a thread owns its turnstile, its name and its end: the server and its
/// parts.
pub(super) fn threads(source: &Source) -> Vec<(usize, String)> {
    let rooms = [
        "crates/crash/",
        "crates/engine/",
        "crates/durability/",
        "crates/server/",
        "crates/bench/",
        "tests/",
        "xtask/",
    ];
    banned(source, &rooms, "only the server starts threads", |word| {
        ends_with_path(word, "thread::spawn") || ends_with_path(word, "thread::Builder")
    })
}

/// Data and protocols know no files; a simulator can then replace the disk.
pub(super) fn file_system(source: &Source) -> Vec<(usize, String)> {
    let rooms = [
        "crates/config/",
        "crates/crash/",
        "crates/engine/src/runtime/",
        "crates/server/",
        "crates/persist/",
        "crates/apus/",
        "crates/bench/",
        "crates/cli/",
        "crates/tls/",
        "fuzz/",
        "tests/",
        "vendor/",
        "xtask/",
    ];
    banned(source, &rooms, "this room knows no files", |word| {
        word == "std::fs" || word.starts_with("std::fs::")
    })
}

/// The engine and what keeps the data are driven by their callers; of the library of the event loop
/// they know the channels.
pub(super) fn event_loop(source: &Source) -> Vec<(usize, String)> {
    if !source.is_in(&["crates/engine/", "crates/durability/"]) {
        return Vec::new();
    }
    banned(source, &[], "an event loop is the server's", |word| {
        word.starts_with("tokio::") && !word.starts_with("tokio::sync")
    })
}

fn banned(
    source: &Source,
    rooms: &[&str],
    reason: &str,
    is_banned: impl Fn(&str) -> bool,
) -> Vec<(usize, String)> {
    if source.is_in(rooms) {
        return Vec::new();
    }
    let found = source.product_words().filter(|(_, word)| is_banned(word));
    let mut lines: Vec<_> =
        found.map(|(line, word)| (*line, format!("`{word}`: {reason}"))).collect();
    // An import is both a path in the text and an imported path.
    lines.sort();
    lines.dedup();
    lines
}

/// Whether a path is `end` or ends with it, segment by segment.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}
