//! What units show beside Redis, in words that both servers have.
//!
//! Invariant: nothing is left out but what is each server's own, or documented as different; each
//! is named here.

use std::fmt::Write;

use super::{Words, is_counted, sorted};

/// What is each server's own: its digest; CLIENT ID, for which the harness asks as often as it
/// must; and which databases were denied, as Valkey tells it. An error that CLIENT UNBLOCK gives
/// another client counts in Redis as one of its own.
const OWN: [&str; 4] =
    ["DEBUG DIGEST", "cmdstat_client|id", "cmdstat_client|unblock", "acl_access_denied_db"];

/// A unit in words that mean the same to Redis: where it has no command, PING stands for that; and
/// since a client that waits for a list is not served there where SORT puts it in place of another
/// value, the other value is removed before.
pub fn for_redis(unit: &[Words]) -> Vec<Words> {
    const SORT: &str = "'SORT','l','BY','nosort','STORE'";
    const SORT_ALONE: &str = "'SORT',redis.call('DEL','new') and 'l','BY','nosort','STORE'";
    let own = |line: &str| line.split(' ').map(str::to_owned).collect::<Words>();
    let mut translated = Vec::new();
    for words in unit {
        match words[0].as_str() {
            "HIMPORT" => translated.push(vec!["PING".to_owned()]),
            "AUTH" => {
                translated.push(own("ACL SETUSER guest on nopass ~* &* +@all"));
                translated.push(words.clone());
            }
            "SORT" if words.iter().any(|word| word == "STORE") => {
                translated.push(own("DEL new"));
                translated.push(words.clone());
            }
            _ => {
                let mut words = words.clone();
                for word in &mut words {
                    while let Some(at) = word.find("'HIMPORT'") {
                        let end = at + word[at..].find(')').expect("a call has an end");
                        word.replace_range(at..end, "'PING'");
                    }
                    *word = word.replace(SORT, SORT_ALONE);
                }
                translated.push(words);
            }
        }
    }
    translated
}

/// What is seen of a unit, as both servers tell it: counts in one order, and what has no order in
/// one, too.
pub fn as_told_by_both(unit: &[Words], seen: Vec<(String, String)>) -> Vec<(String, String)> {
    let has = |what: &str| unit.iter().flatten().any(|word| word.to_uppercase().contains(what));
    // Functions and libraries have no order.
    let has_table = has("LIST");
    // A message of a unit goes here by the subscriptions at its end, in Redis by those of its time.
    let moves = has("PUBLISH") && has("SUBSCRIBE");
    // After SWAPDB all copies are old here; in Redis nobody is told.
    let swaps = has("SWAPDB");
    // All is told at the end, to clients that track by then.
    let is_late = swaps || has("FLUSH") && has("TRACKING");
    let is_told = |what: &str, told: &str| match what {
        "a message" => !(moves || is_late && told.contains("invalidate")),
        "listener 1" => !swaps,
        _ => !OWN.contains(&what),
    };
    let seen = seen.into_iter().filter(|(what, told)| is_told(what, told));
    let told = seen.map(|(what, told)| {
        let told = match &*what {
            "listener 2" => since_watch(&told),
            _ => without_modules(&told),
        };
        let told = if has_table { sorted(&told) } else { told };
        (what, told)
    });
    let (mut counts, mut told): (Vec<_>, Vec<_>) = told.partition(|(what, _)| is_counted(what));
    counts.sort_unstable();
    told.append(&mut counts);
    told
}

/// What MONITOR told since the watcher began to watch: what the harness looks at comes before.
fn since_watch(told: &str) -> String {
    let line = " \"WATCH\" \"s\" \"l\" \"new\"\n";
    told.rsplit(line).next().unwrap_or_default().to_owned()
}

/// A reply without the modules that HELLO tells of.
fn without_modules(reply: &str) -> String {
    let blanks = |line: &str| line.len() - line.trim_start().len();
    let (mut kept, mut within) = (String::new(), None);
    for line in reply.lines() {
        if within.is_some_and(|depth| blanks(line) > depth) {
            continue;
        }
        within = line.contains("\"modules\" => ").then(|| blanks(line));
        let told = if within.is_some() { "modules" } else { line };
        let _ = writeln!(kept, "{told}");
    }
    kept
}
