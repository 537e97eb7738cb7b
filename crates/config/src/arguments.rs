//! The command line as lines of a configuration.
//!
//! Redis makes text of its arguments: `--name value` and `"--name value"` are the same line, which
//! stands behind the file's. Invariant: a value that is an argument of its own is taken as it is,
//! with its blanks and quotes; within an argument that holds the name, the rules of a file hold.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::quote::{quote, split_arguments};

use super::option::ConfigOption;

/// What the arguments of the process ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// The configuration file.
    pub(super) file: Option<PathBuf>,
    /// Whether the standard input is read as well.
    pub(super) asks_for_input: bool,
    /// The rest, as a configuration file would say it.
    pub(super) text: Vec<u8>,
}

impl Arguments {
    pub(super) fn read(arguments: &[Vec<u8>]) -> Arguments {
        let mut rest = arguments;
        let mut read = Arguments::default();
        if let [path, after @ ..] = rest
            && !path.starts_with(b"-")
        {
            rest = after;
            let path = Path::new(OsStr::from_bytes(path));
            read.file = (!path.as_os_str().is_empty()).then(|| path.to_owned());
        }
        if let [first, after @ ..] = rest
            && first == b"-"
        {
            rest = after;
            read.asks_for_input = true;
        } else if let [before @ .., last] = rest
            && last == b"-"
        {
            rest = before;
            read.asks_for_input = true;
        }
        read.text = text_of(rest);
        read
    }
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The argument begins a line: a name, perhaps with values behind it.
    Name,
    /// The same, of a `save` without any value, which saves never.
    Nothing,
    /// A value of the line.
    Value,
}

/// What each argument is. What follows a name that stands alone is its value, even `--so`; so is
/// what follows that, up to the next name.
fn roles(arguments: &[Vec<u8>]) -> impl Iterator<Item = (&[u8], Role)> {
    let mut wants_value = false;
    arguments.iter().enumerate().map(move |(index, argument)| {
        let named = argument.strip_prefix(b"--").filter(|_| !wants_value);
        let Some(line) = named else {
            wants_value = false;
            return (argument.as_slice(), Role::Value);
        };
        let has_value = arguments.get(index + 1).is_some_and(|next| !next.starts_with(b"--"));
        let is_nothing = line.eq_ignore_ascii_case(b"save") && !has_value;
        wants_value = !is_nothing && split_arguments(line).is_some_and(|words| words.len() == 1);
        (line, if is_nothing { Role::Nothing } else { Role::Name })
    })
}

fn text_of(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, (words, role)) in roles(arguments).enumerate() {
        if role == Role::Value {
            text.extend((index > 0).then_some(b' '));
            text.extend_from_slice(quote(words).as_bytes());
            continue;
        }
        text.extend((index > 0).then_some(b'\n'));
        text.extend_from_slice(words);
        if role == Role::Nothing {
            text.extend_from_slice(b" \"\"");
        }
    }
    text
}

/// The arguments with stars in the place of passwords, each as long as it was.
pub fn without_secrets(arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut is_secret, mut has_name) = (false, false);
    let hidden = roles(arguments).zip(arguments).map(|((words, role), argument)| {
        let mut shown = argument.clone();
        let mut names = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let from = match role {
            Role::Value if is_secret => Some(0),
            // Behind a file a line may begin without dashes.
            Role::Value => {
                is_secret = !has_name && holds_secret(words);
                None
            }
            Role::Name | Role::Nothing => {
                has_name = true;
                is_secret = names.clone().next().is_some_and(holds_secret);
                let blank = argument.iter().position(u8::is_ascii_whitespace);
                blank.filter(|_| names.any(holds_secret))
            }
        };
        shown[from.unwrap_or(argument.len())..].fill(b'*');
        shown
    });
    hidden.collect()
}

/// Whether what follows this directive's name is for nobody's eyes.
fn holds_secret(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"\"").unwrap_or(name);
    let name = name.strip_suffix(b"\"").unwrap_or(name);
    name.eq_ignore_ascii_case(b"user")
        || ConfigOption::named(name).is_some_and(|option| option.sensitive)
}

#[cfg(test)]
mod tests {
    use super::{Arguments, without_secrets};

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    /// Each is what Redis 7.0, Redis 8.2 and Valkey 9.1 make of it.
    #[test]
    fn arguments_are_lines() {
        let table: &[(&[&str], &str)] = &[
            (&["--port", "7000"], "port \"7000\""),
            (&["--port 7000"], "port 7000"),
            (&["--port 7000", "--maxmemory 5mb"], "port 7000\nmaxmemory 5mb"),
            (&["--port", "7000", "--maxmemory 5mb"], "port \"7000\"\nmaxmemory 5mb"),
            (&["--bind 127.0.0.1", "::1"], "bind 127.0.0.1 \"::1\""),
            (&["--bind", "127.0.0.1", "::1"], "bind \"127.0.0.1\" \"::1\""),
            (&["--requirepass", "--x"], "requirepass \"--x\""),
            (&["--requirepass", "--maxmemory 5mb"], "requirepass \"--maxmemory 5mb\""),
            (&["--requirepass", "a", "--hz", "5"], "requirepass \"a\"\nhz \"5\""),
            (&["--requirepass \"a b\""], "requirepass \"a b\""),
            (&["--requirepass", "\"a b\""], "requirepass \"\\\"a b\\\"\""),
            (&["--requirepass", "a\nb"], "requirepass \"a\\nb\""),
            (&["--maxmemory ", "5mb"], "maxmemory  \"5mb\""),
            (&["--maxmemory\t5mb", "--hz\t5"], "maxmemory\t5mb\nhz\t5"),
            (&["--maxmemory 5mb\nhz 5"], "maxmemory 5mb\nhz 5"),
            (&["--", "maxmemory", "5mb"], " \"maxmemory\" \"5mb\""),
            (&["-- maxmemory", "5mb"], " maxmemory \"5mb\""),
            (&["--save"], "save \"\""),
            (&["--save", ""], "save \"\""),
            (&["--save", "--hz", "5"], "save \"\"\nhz \"5\""),
            (&["--SAVE", "--hz 5"], "SAVE \"\"\nhz 5"),
            (&["--save ", "--hz 5"], "save  \"--hz 5\""),
            (&["--save 900 1", "--save 300 10"], "save 900 1\nsave 300 10"),
            (&["--# nothing", "--hz 5"], "# nothing\nhz 5"),
            (&["-p", "1"], "\"-p\" \"1\""),
        ];
        for (arguments, text) in table {
            let read = Arguments::read(&words(arguments));
            assert_eq!(String::from_utf8_lossy(&read.text), *text, "{arguments:?}");
            assert!(read.file.is_none() && !read.asks_for_input, "{arguments:?}");
        }
    }

    #[test]
    fn a_file_comes_first_and_a_dash_at_an_end() {
        let table: &[(&[&str], Option<&str>, bool, &str)] = &[
            (&[], None, false, ""),
            (&["r.conf"], Some("r.conf"), false, ""),
            (&["", "--hz", "5"], None, false, "hz \"5\""),
            (&["r.conf", "maxmemory", "5mb"], Some("r.conf"), false, "\"maxmemory\" \"5mb\""),
            (&["r.conf", "--hz 5", "-"], Some("r.conf"), true, "hz 5"),
            (&["r.conf", "-"], Some("r.conf"), true, ""),
            (&["-", "--hz", "5"], None, true, "hz \"5\""),
            (&["-"], None, true, ""),
        ];
        for (arguments, file, asks_for_input, text) in table {
            let read = Arguments::read(&words(arguments));
            assert_eq!(read.file.as_deref(), file.map(std::path::Path::new), "{arguments:?}");
            assert_eq!(read.asks_for_input, *asks_for_input, "{arguments:?}");
            assert_eq!(String::from_utf8_lossy(&read.text), *text, "{arguments:?}");
        }
    }

    #[test]
    fn passwords_are_stars() {
        let table: &[(&[&str], &[&str])] = &[
            (&["--requirepass", "secret"], &["--requirepass", "******"]),
            (&["--RequirePass secret"], &["--RequirePass"]),
            (&["r.conf", "masterauth", "secret"], &["r.conf", "masterauth", "******"]),
            (&["r.conf", "hz", "5", "--hz 5"], &["r.conf", "hz", "5", "--hz 5"]),
            (&["--masterauth", "--x", "--hz", "5"], &["--masterauth", "***", "--hz", "5"]),
            (&["--user", "bob", "on", ">pw"], &["--user", "***", "**", "***"]),
            (&["--hz 5\nrequirepass x"], &["--hz"]),
            (&["--port", "7000", "--save", "900 1"], &["--port", "7000", "--save", "900 1"]),
        ];
        for (arguments, shown) in table {
            let arguments = words(arguments);
            let hidden = without_secrets(&arguments);
            for ((hidden, argument), shown) in hidden.iter().zip(&arguments).zip(*shown) {
                let hidden = String::from_utf8_lossy(hidden);
                assert!(hidden.starts_with(shown), "{hidden}");
                assert!(hidden[shown.len()..].bytes().all(|byte| byte == b'*'), "{hidden}");
                assert_eq!(hidden.len(), argument.len());
            }
        }
    }
}
