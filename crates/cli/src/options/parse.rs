//! Words to options, as redis-cli reads them: flags up to the first word that is none, then the
//! command. Invariant: no words make it panic, and what follows the command's name is never a flag.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base::quote::split_arguments;
use base::suggestion::nearest;

use super::flags::{self, Flag, Setter};
use super::{FromStdin, Mode, Options};

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Request {
    /// To talk to a server.
    Run(Box<Options>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

impl Options {
    /// Reads the words that follow `apus cli`.
    ///
    /// # Errors
    ///
    /// One line for the operator where a flag is unknown, a value is no value of it, or flags
    /// exclude each other.
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Request, String> {
        let mut options = Options::default();
        let mut rest = arguments;
        while let [first, after @ ..] = rest {
            let name = first.to_string_lossy();
            // A host, or the wish for help.
            if (name == "-h" && after.is_empty()) || name == "--help" {
                return Ok(Request::Help);
            }
            if name == "--version" || name == "-v" {
                return Ok(Request::Version);
            }
            let Some(flag) = flags::find(&name) else {
                if first.as_bytes().first() == Some(&b'-') {
                    return Err(unrecognized(&name));
                }
                break;
            };
            rest = set(flag, &mut options, &name, after)?;
        }
        options.words = rest.iter().map(|word| word.clone().into_vec()).collect();
        options.check()?;
        Ok(Request::Run(Box::new(options)))
    }

    /// What single flags cannot know.
    fn check(&mut self) -> Result<(), String> {
        if self.quoted_input {
            self.words = self.words.iter().map(|word| unquoted(word)).collect::<Result<_, _>>()?;
        }
        if let FromStdin::Tag(tag) = &self.from_stdin {
            let found = self.words.iter().filter(|word| *word == tag.as_bytes()).count();
            if found != 1 {
                return Err("Using -X option but stdin tag not match.".to_owned());
            }
        }
        match (self.debugging, &self.mode) {
            (None, _) => {}
            (Some(how), Mode::Eval(file)) => self.mode = Mode::Debug(file.clone(), how),
            (Some(_), _) => {
                return Err("Options --ldb and --ldb-sync-mode require --eval.".to_owned());
            }
        }
        if self.login.user.is_some() && self.login.password.is_none() && !self.asks_password {
            self.login.password = std::env::var("REDISCLI_AUTH").ok();
        }
        Ok(())
    }
}

/// Sets what a flag sets; the words behind it.
fn set<'a>(
    flag: &Flag,
    options: &mut Options,
    name: &str,
    after: &'a [OsString],
) -> Result<&'a [OsString], String> {
    match flag.setter {
        Setter::Switch(set) => {
            set(options)?;
            Ok(after)
        }
        Setter::Value(_, set) => {
            let Some((value, behind)) = after.split_first() else {
                return Err(unrecognized(name));
            };
            let text = value.to_str().ok_or_else(|| format!("{name}: the value is no UTF-8"))?;
            set(options, text).map_err(|why| {
                if why.is_empty() { format!("{name}: '{text}' is not understood") } else { why }
            })?;
            Ok(behind)
        }
    }
}

/// The bytes that a quoted word stands for; a word without quotes is what it is.
pub(super) fn unquoted(word: &[u8]) -> Result<Vec<u8>, String> {
    if !matches!(word.first(), Some(b'"' | b'\'')) {
        return Ok(word.to_vec());
    }
    match split_arguments(word).as_deref() {
        Some([bytes]) => Ok(bytes.clone()),
        _ => Err("Invalid quoted string".to_owned()),
    }
}

fn unrecognized(name: &str) -> String {
    let meant = nearest(name, flags::all().flat_map(|flag| flag.names.iter().copied()));
    let meant = meant.filter(|flag| *flag != name && flag.starts_with("--"));
    let meant = meant.map(|flag| format!("; did you mean '{flag}'?"));
    format!("Unrecognized option or bad number of args for: '{name}'{}", meant.unwrap_or_default())
}
