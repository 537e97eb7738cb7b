//! What a user likes: `:set hints` and its kin, from a line or from the file of settings.
//!
//! Invariant: a word that is none is named, and changes nothing.

use std::path::PathBuf;

use base::quote::split_arguments;

/// What a user likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// Whether the syntax of a command is shown while it is typed.
    pub(crate) shows_hints: bool,
    /// Whether what is longer than the terminal goes through a pager.
    pub(crate) pages: bool,
    /// Whether replies have colours; none if the terminal decides.
    pub(crate) colours: Option<bool>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self { shows_hints: true, pages: true, colours: None }
    }
}

impl Preferences {
    /// Takes in a line's words, which begin with `:set`; what is wrong with them, if anything is.
    pub(crate) fn set(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [":set", "hints"] => self.shows_hints = true,
            [":set", "nohints"] => self.shows_hints = false,
            [":set", "pager"] => self.pages = true,
            [":set", "nopager"] => self.pages = false,
            [":set", "colors"] => self.colours = Some(true),
            [":set", "nocolors"] => self.colours = Some(false),
            _ => {
                let first = words.first().copied().unwrap_or_default();
                return Err(format!("unknown redis-cli internal command '{first}'"));
            }
        }
        Ok(())
    }

    /// Reads the file of settings, if there is one; what is wrong in it.
    pub(crate) fn read_file(&mut self) -> Vec<String> {
        let path = home_file("REDISCLI_RCFILE", ".redisclirc");
        let content = path.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        let mut faults = Vec::new();
        for line in content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            let words = split_arguments(line).unwrap_or_default();
            match words.first() {
                None => {}
                Some(first) if first.starts_with(b":") => faults.extend(self.set(&words).err()),
                Some(_) => {
                    let line = String::from_utf8_lossy(line);
                    faults.push(format!("unknown redis-cli preference '{line}'"));
                }
            }
        }
        faults
    }
}

/// A file of the user: named by the environment, or in the home folder. `/dev/null` is none.
pub(crate) fn home_file(variable: &str, name: &str) -> Option<PathBuf> {
    match std::env::var_os(variable).filter(|path| !path.is_empty()) {
        Some(path) if path == "/dev/null" => None,
        Some(path) => Some(path.into()),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(name)),
    }
}
