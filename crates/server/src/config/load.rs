//! From the command line and the configuration files to a [`Config`].
//!
//! Later lines win: the file first, then the standard input if asked for, then the command line.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base::glob;
use base::quote::{quote, split_arguments};

use super::kind::{Fault, Standing};
use super::option::Status;
use super::options::ALL;
use super::special::error_text;
use super::store::{Config, default_of, find};

/// All that the command line and the configuration files say.
pub struct Startup {
    /// The values of the options.
    pub config: Config,
    /// One line for each directive that was accepted but has no effect, for the log.
    pub notices: Vec<String>,
    /// `rename-command` lines, in order.
    pub renames: Vec<Rename>,
    /// `user` lines without their first word.
    pub users: Vec<CommandLine>,
    /// `loadmodule` lines without their first word.
    pub modules: Vec<CommandLine>,
    /// What the process was asked to do.
    pub show: Show,
}

/// What the process was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Say its version and end.
    Version,
    /// Say how it is called and end.
    Help,
    /// Serve.
    Run,
}

/// A `rename-command` line; an empty new name takes the command away.
pub struct Rename {
    /// The command.
    pub from: Vec<u8>,
    /// Its new name.
    pub to: Vec<u8>,
    /// Where it says so, for an error.
    pub place: Place,
}

/// A directive whose arguments only other parts of the server understand.
pub struct CommandLine {
    /// The arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Where it stands, for an error.
    pub place: Place,
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The included file that it stands in, if it is one.
    pub file: Option<PathBuf>,
    /// Its number, from 1; the command line goes on behind the file.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// Why the server cannot start with this configuration.
#[derive(Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A line is wrong.
    Line {
        /// Which one.
        place: Place,
        /// Why.
        why: Fault,
    },
    /// A file cannot be read.
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        why: Fault,
    },
}

/// How deep files may include files: deeper is a circle.
const INCLUDE_DEPTH_MAX: usize = 16;

impl Startup {
    /// Reads the command line (without the program's name) and all that it names. Only if it says
    /// `-` is `standard_input` read.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        standard_input: &mut dyn Read,
    ) -> Result<Startup, LoadError> {
        let arguments: Vec<Vec<u8>> = arguments.into_iter().map(OsString::into_vec).collect();
        let mut reader = Reader::new();
        let mut arguments = arguments.as_slice();
        match arguments.first().map(Vec::as_slice) {
            Some(b"-v" | b"--version") => return Ok(reader.finish(Show::Version)),
            Some(b"-h" | b"--help") => return Ok(reader.finish(Show::Help)),
            _ => {}
        }
        if let [path, rest @ ..] = arguments
            && !path.starts_with(b"-")
        {
            arguments = rest;
            reader.main_file(Path::new(OsStr::from_bytes(path)))?;
        }
        let asks_for_input = match arguments {
            [first, rest @ ..] if first == b"-" => {
                arguments = rest;
                true
            }
            [rest @ .., last] if last == b"-" => {
                arguments = rest;
                true
            }
            _ => false,
        };
        if asks_for_input {
            reader.standard_input(standard_input)?;
        }
        reader.command_line(arguments)?;
        Ok(reader.finish(Show::Run))
    }
}

/// What has been read so far.
struct Reader {
    startup: Startup,
    /// Whether a line has set the option.
    seen: Vec<bool>,
    /// How many lines there were before, outside included files; the command line is told apart by
    /// an empty one.
    lines: usize,
}

impl Reader {
    fn new() -> Reader {
        let startup = Startup {
            config: Config::new(),
            notices: Vec::new(),
            renames: Vec::new(),
            users: Vec::new(),
            modules: Vec::new(),
            show: Show::Run,
        };
        Reader { startup, seen: vec![false; ALL.len()], lines: 0 }
    }

    fn finish(mut self, show: Show) -> Startup {
        self.startup.show = show;
        for (index, option) in ALL.iter().enumerate() {
            let value = self.startup.config.load(index);
            if !self.seen[index] || value == *default_of(index) {
                continue;
            }
            let why = match option.status {
                Status::Works => continue,
                Status::Accepted => "has no effect here",
                Status::NotYet => "has no effect yet",
            };
            self.startup.notices.push(format!("'{}' {why}: {}", option.name, option.doc));
        }
        self.startup
    }

    fn main_file(&mut self, path: &Path) -> Result<(), LoadError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = read_file(&absolute)?;
        self.startup.config.set_path(absolute);
        self.text(&text, None, 0)
    }

    fn standard_input(&mut self, input: &mut dyn Read) -> Result<(), LoadError> {
        let mut text = Vec::new();
        input.read_to_end(&mut text).map_err(|error| LoadError::File {
            path: PathBuf::from("-"),
            why: error_text(&error),
        })?;
        self.text(&text, None, 0)
    }

    /// `--name value ...`: what follows a name is its value, even `--so`; so is what follows that,
    /// up to the next name.
    fn command_line(&mut self, arguments: &[Vec<u8>]) -> Result<(), LoadError> {
        let mut rest = arguments;
        while let [name, after @ ..] = rest {
            let is_save = name.eq_ignore_ascii_case(b"--save");
            let first = match after {
                [value, ..] if !(is_save && value.starts_with(b"--")) => 1,
                _ => 0,
            };
            let more = after.iter().skip(first).take_while(|next| !next.starts_with(b"--")).count();
            // No value at all for `save` means no snapshots.
            let values = if is_save && first == 0 { &[Vec::new()] } else { &after[..first + more] };
            rest = &after[first + more..];
            let named = name.strip_prefix(b"--");
            let mut words = vec![named.unwrap_or(name).to_vec()];
            words.extend_from_slice(values);
            self.lines += 1;
            let quoted = words.iter().skip(1).map(|word| format!(" {}", quote(word)));
            let text =
                String::from_utf8_lossy(&words[0]).into_owned() + &quoted.collect::<String>();
            let place = Place { file: None, line: self.lines + 1, text };
            if named.is_none() {
                return Err(place.refuse(UNKNOWN));
            }
            self.directive(&words, &place, 0)?;
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8], file: Option<&Path>, depth: usize) -> Result<(), LoadError> {
        for (count, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = Place {
                file: file.map(Path::to_owned),
                line: if file.is_none() { self.lines } else { 0 } + count + 1,
                text: String::from_utf8_lossy(line).into_owned(),
            };
            let words = split_arguments(line)
                .ok_or_else(|| place.refuse("Unbalanced quotes in configuration line"))?;
            if !words.is_empty() {
                self.directive(&words, &place, depth)?;
            }
        }
        if file.is_none() {
            self.lines += text.iter().filter(|byte| **byte == b'\n').count();
        }
        Ok(())
    }

    fn directive(
        &mut self,
        words: &[Vec<u8>],
        place: &Place,
        depth: usize,
    ) -> Result<(), LoadError> {
        let name = words[0].to_ascii_lowercase();
        let arguments = &words[1..];
        let line = || CommandLine { arguments: arguments.to_vec(), place: place.clone() };
        match (name.as_slice(), arguments) {
            (b"include", [pattern]) => return self.include(pattern, place, depth),
            (b"rename-command", [from, to]) => {
                let rename = Rename { from: from.clone(), to: to.clone(), place: place.clone() };
                self.startup.renames.push(rename);
            }
            (b"user", [_, ..]) => self.startup.users.push(line()),
            (b"loadmodule", [_, ..]) => self.startup.modules.push(line()),
            _ => {
                let index = find(&name).ok_or_else(|| place.refuse(UNKNOWN))?;
                let current = self.startup.config.load(index);
                let standing = Standing { value: &current, by_earlier_line: self.seen[index] };
                let value = ALL[index].kind.parse(arguments, standing);
                let value = value.map_err(|why| place.refuse(why))?;
                self.startup.config.store(index, &value);
                self.seen[index] = true;
            }
        }
        Ok(())
    }

    fn include(&mut self, pattern: &[u8], place: &Place, depth: usize) -> Result<(), LoadError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(place.refuse("include goes in a circle"));
        }
        for path in expand(pattern) {
            let text = read_file(&path)?;
            self.text(&text, Some(&path), depth + 1)?;
        }
        Ok(())
    }
}

const UNKNOWN: &str = "Bad directive or wrong number of arguments";

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    std::fs::read(path)
        .map_err(|error| LoadError::File { path: path.to_owned(), why: error_text(&error) })
}

/// The files that a pattern names, sorted; a plain path names itself, be it there or not.
fn expand(pattern: &[u8]) -> Vec<PathBuf> {
    if glob::is_literal(pattern) {
        return vec![PathBuf::from(OsStr::from_bytes(pattern))];
    }
    let mut found = vec![PathBuf::new()];
    for part in Path::new(OsStr::from_bytes(pattern)).components() {
        let part = part.as_os_str();
        found = if glob::is_literal(part.as_bytes()) {
            found.into_iter().map(|path| path.join(part)).collect()
        } else {
            found.iter().flat_map(|path| entries(path, part.as_bytes())).collect()
        };
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

/// The entries of a directory whose names match; hidden ones only if the pattern says so.
fn entries(directory: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(listing) = std::fs::read_dir(listed) else { return Vec::new() };
    let names = listing.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
    names
        .filter(|name| !name.as_bytes().starts_with(b".") || pattern.starts_with(b"."))
        .filter(|name| glob::matches(pattern, name.as_bytes(), false))
        .map(|name| directory.join(name))
        .collect()
}

impl Place {
    /// Says why this line is wrong.
    pub fn refuse(&self, why: impl Into<Fault>) -> LoadError {
        LoadError::Line { place: self.clone(), why: why.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Line { place, why } => {
                let version = env!("CARGO_PKG_VERSION");
                write!(f, "*** FATAL CONFIG FILE ERROR (Apus {version}) *** ")?;
                write!(f, "Reading the configuration file, at line {}", place.line)?;
                if let Some(file) = &place.file {
                    write!(f, " of '{}'", file.display())?;
                }
                write!(f, " >>> '{}': {why}", place.text)
            }
            LoadError::File { path, why } => {
                write!(f, "Fatal error, can't open config file '{}': {why}", path.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}
