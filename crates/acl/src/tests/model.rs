//! A naive model of the rules, which keeps the words of each selector and, for every question, goes
//! through them from the first one.

use base::glob;

use super::COMMANDS;
use crate::KeyAccess;

/// The words of the root and of the selectors.
#[derive(Clone, Default, Debug)]
pub(super) struct Model {
    parts: Vec<Vec<String>>,
}

/// What is asked of the model.
pub(super) struct Question<'a> {
    pub(super) command: &'a str,
    pub(super) argument: &'a str,
    pub(super) key: Option<(&'a str, KeyAccess)>,
    pub(super) channel: Option<&'a str>,
    pub(super) database: usize,
}

impl Model {
    pub(super) fn of(root: Vec<String>, selectors: Vec<Vec<String>>) -> Model {
        Model { parts: std::iter::once(root).chain(selectors).collect() }
    }

    pub(super) fn allows(&self, asked: &Question<'_>) -> bool {
        self.parts.iter().any(|words| {
            let key = asked.key.is_none_or(|(key, needs)| may_use_key(words, key, needs));
            let channel = asked.channel.is_none_or(|channel| may_use_channel(words, channel));
            key && channel && may_run(words, asked) && may_enter(words, asked.database)
        })
    }
}

fn may_run(words: &[String], asked: &Question<'_>) -> bool {
    if asked.command == "auth" {
        return true;
    }
    let (_, categories) = COMMANDS.iter().find(|(name, _)| *name == asked.command).unwrap();
    let container = asked.command.split('|').next().unwrap();
    let mut may = false;
    for word in words {
        let (allows, target) = match word.as_str() {
            "allcommands" => (true, "@all"),
            "nocommands" => (false, "@all"),
            other => match other.split_at_checked(1) {
                Some(("+", target)) => (true, target),
                Some(("-", target)) => (false, target),
                _ => continue,
            },
        };
        let is_meant = target == "@all"
            || categories.contains(&target)
            || target == asked.command
            || target == container;
        let with_argument = format!("{}|{}", asked.command, asked.argument);
        if is_meant {
            may = allows;
        } else if target.eq_ignore_ascii_case(&with_argument) {
            may = true;
        }
    }
    may
}

/// What was said since the list was emptied last, or nothing where all is allowed.
fn since<'a>(words: &'a [String], all: [&str; 2], reset: &str) -> Option<&'a [String]> {
    let last = words.iter().rposition(|word| all.contains(&&**word) || word == reset);
    let from = last.map_or(0, |last| last + 1);
    let is_all = last.is_some_and(|last| words[last] != reset);
    (!is_all).then_some(&words[from..])
}

fn may_use_key(words: &[String], key: &str, needs: KeyAccess) -> bool {
    let Some(words) = since(words, ["~*", "allkeys"], "resetkeys") else { return true };
    let pattern = |word: &String| {
        let (sign, pattern) = word.split_once('~')?;
        let granted = match sign {
            "" => 3,
            "%R" => 1,
            "%W" => 2,
            _ => return None,
        };
        Some((pattern.to_owned(), granted))
    };
    let patterns: Vec<(String, u8)> = words.iter().filter_map(pattern).collect();
    patterns.iter().any(|(it, _)| {
        let same = patterns.iter().filter(|(other, _)| other == it);
        let granted = same.fold(0, |all, (_, granted)| all | granted);
        let needed = [KeyAccess::READ, KeyAccess::WRITE].map(|need| needs.and(need) == needs);
        let is_enough = (!needed[0] || granted & 1 != 0) && (!needed[1] || granted & 2 != 0);
        is_enough && glob::matches(it.as_bytes(), key.as_bytes(), false)
    })
}

fn may_use_channel(words: &[String], channel: &str) -> bool {
    let Some(words) = since(words, ["&*", "allchannels"], "resetchannels") else { return true };
    let mut patterns = words.iter().filter_map(|word| word.strip_prefix('&'));
    patterns.any(|it| glob::matches(it.as_bytes(), channel.as_bytes(), false))
}

fn may_enter(words: &[String], database: usize) -> bool {
    let says = |word: &&String| {
        word.starts_with("db=") || [&"alldbs", &"resetdbs"].contains(&&word.as_str())
    };
    match words.iter().rfind(says).map(String::as_str) {
        None | Some("alldbs") => true,
        Some(word) => {
            word.trim_start_matches("db=").split(',').any(|it| it == database.to_string())
        }
    }
}
