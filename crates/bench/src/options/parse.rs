//! Words to settings, by the rules of getopt_long: values after a blank or `=`, short flags in
//! bundles, long names cut short while they stay unique. Invariant: no words make it panic.
//!
//! Command lines in articles have lost their hyphens to typography: any dash that a typesetter
//! may have put is taken as one, and one long dash before a name as two.

use base::suggestion::nearest;

use super::draft::Draft;
use super::flags::{self, Flag, Setter, UNSUPPORTED};
use super::{Options, Request};

/// What getopt's messages begin with.
const PROGRAM: &str = "apus bench";

/// How one word reads, before it is known which flags there are.
#[derive(Debug, PartialEq, Eq)]
enum Word<'a> {
    /// `--name` or `--name=value`; whether it may as well be a bundle of short flags.
    Long { name: String, value: Option<&'a str>, bundle: Option<&'a str> },
    /// `-abc`.
    Bundle(&'a str),
    /// `--`.
    End,
    /// No flag.
    Plain,
}

/// Whether a letter is a hyphen, or what typesetting makes of one or two.
pub(super) fn is_dash(letter: char) -> bool {
    matches!(letter, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

impl Options {
    /// Reads the words that follow `apus bench`.
    ///
    /// # Errors
    ///
    /// One line for the operator, in memtier's manner, where a flag is unknown or not supported,
    /// a value is out of its range, or flags exclude each other.
    pub fn parse(arguments: &[String]) -> Result<Request, String> {
        if let Some(request) = preset(arguments)? {
            return Ok(request);
        }
        let mut draft = Draft::new();
        let mut rest = arguments;
        while let [first, after @ ..] = rest {
            rest = after;
            let asked = match read(first) {
                Word::Long { name, value, bundle } => match (find_long(&name)?, bundle) {
                    (Some(flag), _) => long(&mut draft, flag, value, &mut rest)?,
                    (None, Some(bundle)) => short(&mut draft, bundle, &mut rest)?,
                    (None, None) => return Err(unrecognized(&name)),
                },
                Word::Bundle(bundle) => short(&mut draft, bundle, &mut rest)?,
                Word::End if rest.is_empty() => None,
                Word::End => return Err(unexpected(&rest[0])),
                Word::Plain => return Err(unexpected(first)),
            };
            if let Some(request) = asked {
                return Ok(request);
            }
        }
        draft.finish().map(|options| Request::Run(Box::new(options)))
    }
}

/// `--preset NAME`, wherever it stands: all other words are the preset's.
fn preset(arguments: &[String]) -> Result<Option<Request>, String> {
    let is_preset = |word: &String| match read(word) {
        Word::Long { name, .. } => {
            find_long(&name).is_ok_and(|flag| flag.is_some_and(|flag| flag.long == "preset"))
        }
        Word::Bundle(_) | Word::End | Word::Plain => false,
    };
    let Some(at) = arguments.iter().position(is_preset) else {
        return Ok(None);
    };
    let mut words = arguments.to_vec();
    let own = words.remove(at);
    let name = match own.split_once('=') {
        Some((_, name)) => name.to_owned(),
        None if at < words.len() => words.remove(at),
        None => return Err(needs_argument("preset")),
    };
    Ok(Some(Request::Preset(name, words)))
}

fn read(word: &str) -> Word<'_> {
    let bare = word.trim_start_matches(is_dash);
    let dashes = &word[..word.len() - bare.len()];
    let (count, typeset) = (dashes.chars().count(), !dashes.is_ascii());
    if count == 0 || (bare.is_empty() && count == 1) {
        return Word::Plain;
    }
    if bare.is_empty() {
        return Word::End;
    }
    let (name, value) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    };
    let long = count > 1 || (typeset && name.chars().count() > 1);
    if !long {
        return Word::Bundle(bare);
    }
    let name = name.chars().map(|letter| if is_dash(letter) { '-' } else { letter }).collect();
    Word::Long { name, value, bundle: (count == 1).then_some(bare) }
}

/// What is said of a flag that is none: which one may have been meant.
fn unrecognized(name: &str) -> String {
    let meant = nearest(name, flags::all().map(|flag| flag.long));
    let meant = meant.map(|flag| format!("; did you mean '--{flag}'?"));
    format!("{PROGRAM}: unrecognized option '--{name}'{}", meant.unwrap_or_default())
}

/// The flag of this name, or of the only one that begins so.
fn find_long(name: &str) -> Result<Option<&'static Flag>, String> {
    if let Some(flag) = flags::all().find(|flag| flag.long == name) {
        return Ok(Some(flag));
    }
    if UNSUPPORTED.contains(&name) {
        return Err(format!("error: --{name} is not supported."));
    }
    let known = flags::all().map(|flag| flag.long).chain(UNSUPPORTED.iter().copied());
    let alike: Vec<&str> = known.filter(|long| long.starts_with(name)).collect();
    match alike.as_slice() {
        [] => Ok(None),
        _ if name.is_empty() => Ok(None),
        [only] => find_long(only),
        _ => {
            let list: String = alike.iter().map(|long| format!(" '--{long}'")).collect();
            Err(format!("{PROGRAM}: option '--{name}' is ambiguous; possibilities:{list}"))
        }
    }
}

fn long(
    draft: &mut Draft,
    flag: &'static Flag,
    value: Option<&str>,
    rest: &mut &[String],
) -> Result<Option<Request>, String> {
    match (&flag.setter, value) {
        (Setter::Value(..), None) => {
            let value = next_word(rest).ok_or_else(|| needs_argument(flag.long))?;
            set(draft, flag, value)
        }
        (Setter::Value(..), Some(value)) => set(draft, flag, value),
        (_, Some(_)) => {
            Err(format!("{PROGRAM}: option '--{}' doesn't allow an argument", flag.long))
        }
        (_, None) => set(draft, flag, ""),
    }
}

/// A bundle of short flags: the first that takes a value takes the rest of it.
fn short(draft: &mut Draft, bundle: &str, rest: &mut &[String]) -> Result<Option<Request>, String> {
    for (at, letter) in bundle.char_indices() {
        let Some(flag) = flags::all().find(|flag| flag.short == Some(letter)) else {
            return Err(format!("{PROGRAM}: invalid option -- '{letter}'"));
        };
        let after = &bundle[at + letter.len_utf8()..];
        // Older versions of memtier have -h for help, newer ones for the host.
        let no_host = rest.first().is_none_or(|word| read(word) != Word::Plain);
        if letter == 'h' && after.is_empty() && no_host {
            return Ok(Some(Request::Help));
        }
        let value = match flag.setter {
            Setter::Value(..) if !after.is_empty() => after,
            Setter::Value(..) => next_word(rest)
                .ok_or_else(|| format!("{PROGRAM}: option requires an argument -- '{letter}'"))?,
            Setter::Switch(_) | Setter::Ask(_) => "",
        };
        let asked = set(draft, flag, value)?;
        if asked.is_some() || matches!(flag.setter, Setter::Value(..)) {
            return Ok(asked);
        }
    }
    Ok(None)
}

fn set(draft: &mut Draft, flag: &'static Flag, value: &str) -> Result<Option<Request>, String> {
    draft.given.push(flag.long);
    match &flag.setter {
        Setter::Value(_, set) => set(draft, flag.long, value).map(|()| None),
        Setter::Switch(set) => {
            set(draft);
            Ok(None)
        }
        Setter::Ask(request) => Ok(Some(request())),
    }
}

fn next_word<'a>(rest: &mut &'a [String]) -> Option<&'a str> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

fn needs_argument(long: &str) -> String {
    format!("{PROGRAM}: option '--{long}' requires an argument")
}

fn unexpected(word: &str) -> String {
    format!("error: unexpected argument '{word}'.")
}
