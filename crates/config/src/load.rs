//! From the command line and the configuration files to a [`Config`].
//!
//! Later lines win: the file first, then the standard input if asked for, then the command line.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base::glob;
use base::quote::split_arguments;
use base::suggestion::nearest;

use super::arguments::Arguments;
use super::kind::{PreviousValue, ValueError};
use super::option::{ConfigOption, Status};
use super::options::ALL;
use super::profile::Profile;
use super::special::error_text;
use super::store::{Config, check_is_there, default_of, find};

/// All that the command line and the configuration files say.
pub struct Startup {
    /// The values of the options.
    pub config: Config,
    /// One line for each directive that was accepted but has no effect, for the log.
    pub notices: Vec<String>,
    /// `rename-command` lines, in order.
    pub renames: Vec<Rename>,
    /// `user` lines without their first word.
    pub users: Vec<DeferredDirective>,
    /// What the process was asked to do.
    pub show: StartupAction,
}

/// What the process was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupAction {
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
    /// Where the file says so, for an error.
    pub place: ConfigLine,
}

/// A directive whose arguments only other parts of the server understand.
pub struct DeferredDirective {
    /// The arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Where the directive stands, for an error.
    pub place: ConfigLine,
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigLine {
    /// Where the line comes from.
    pub source: Source,
    /// Its number there, from 1.
    pub line: usize,
    /// What the line says.
    pub text: String,
}

/// Where lines of a configuration come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, the main one or one that is included.
    File(PathBuf),
    /// The standard input.
    Input,
    /// The arguments of the process.
    CommandLine,
}

/// Why the server cannot start with this configuration.
#[derive(Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A line is wrong.
    Line {
        /// Which one.
        place: ConfigLine,
        /// Why.
        why: ValueError,
    },
    /// A file cannot be read.
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        why: ValueError,
    },
}

/// How deep files may include files: deeper is a circle.
const INCLUDE_DEPTH_MAX: usize = 16;

impl Startup {
    /// Reads the command line (without the program's name) and all that it names. Only if it says
    /// `-` is `standard_input` read.
    pub fn read(
        profile: Profile,
        arguments: impl IntoIterator<Item = OsString>,
        standard_input: &mut dyn Read,
    ) -> Result<Startup, LoadError> {
        let arguments: Vec<Vec<u8>> = arguments.into_iter().map(OsString::into_vec).collect();
        let mut reader = Reader::new(profile);
        match arguments.first().map(Vec::as_slice) {
            Some(b"-v" | b"--version") => return Ok(reader.finish(StartupAction::Version)),
            Some(b"-h" | b"--help") => return Ok(reader.finish(StartupAction::Help)),
            _ => {}
        }
        let Arguments { file, asks_for_input, text } = Arguments::read(&arguments);
        if let Some(path) = file {
            reader.main_file(&path)?;
        }
        if asks_for_input {
            reader.standard_input(standard_input)?;
        }
        reader.text(&text, &Source::CommandLine, 0)?;
        Ok(reader.finish(StartupAction::Run))
    }
}

/// What has been read so far.
struct Reader {
    startup: Startup,
    /// Whether a line has set the option.
    seen: Vec<bool>,
}

impl Reader {
    fn new(profile: Profile) -> Reader {
        let startup = Startup {
            config: Config::of(profile),
            notices: Vec::new(),
            renames: Vec::new(),
            users: Vec::new(),
            show: StartupAction::Run,
        };
        Reader { startup, seen: vec![false; ALL.len()] }
    }

    fn finish(mut self, show: StartupAction) -> Startup {
        self.startup.show = show;
        for (index, option) in ALL.iter().enumerate() {
            let value = self.startup.config.load(index);
            if !self.seen[index] || value == *default_of(index) {
                continue;
            }
            let why = match option.status {
                Status::Works => continue,
                Status::Accepted => "has no effect here",
                Status::NotYet | Status::Missing => "has no effect yet",
            };
            self.startup.notices.push(format!("'{}' {why}: {}", option.name, option.doc));
        }
        let config = &self.startup.config;
        config.put_all(config.profile().fixed());
        self.startup
    }

    fn main_file(&mut self, path: &Path) -> Result<(), LoadError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = read_file(&absolute)?;
        self.startup.config.set_path(absolute.clone());
        self.text(&text, &Source::File(absolute), 0)
    }

    fn standard_input(&mut self, input: &mut dyn Read) -> Result<(), LoadError> {
        let mut text = Vec::new();
        input.read_to_end(&mut text).map_err(|error| LoadError::File {
            path: PathBuf::from("-"),
            why: error_text(&error),
        })?;
        self.text(&text, &Source::Input, 0)
    }

    fn text(&mut self, text: &[u8], source: &Source, depth: usize) -> Result<(), LoadError> {
        for (count, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = ConfigLine {
                source: source.clone(),
                line: count + 1,
                text: String::from_utf8_lossy(line).into_owned(),
            };
            let words = split_arguments(line)
                .ok_or_else(|| place.refuse("Unbalanced quotes in configuration line"))?;
            if !words.is_empty() {
                self.directive(&words, &place, depth)?;
            }
        }
        Ok(())
    }

    fn directive(
        &mut self,
        words: &[Vec<u8>],
        place: &ConfigLine,
        depth: usize,
    ) -> Result<(), LoadError> {
        let name = words[0].to_ascii_lowercase();
        let arguments = &words[1..];
        let line = || DeferredDirective { arguments: arguments.to_vec(), place: place.clone() };
        match (name.as_slice(), arguments) {
            (b"include", [pattern]) => return self.include(pattern, place, depth),
            (b"rename-command", [from, to]) => {
                let rename = Rename { from: from.clone(), to: to.clone(), place: place.clone() };
                self.startup.renames.push(rename);
            }
            (b"user", [_, ..]) => self.startup.users.push(line()),
            (b"loadmodule", [_, ..]) => return Err(place.refuse(NO_MODULES)),
            (b"sentinel", [_, ..]) => self.check_sentinel(place, depth)?,
            _ => {
                let index = find(&name).ok_or_else(|| place.refuse(unknown(&name)))?;
                let current = self.startup.config.load(index);
                let standing = PreviousValue { value: &current, by_earlier_line: self.seen[index] };
                let value = ALL[index].kind.parse(arguments, standing);
                let value = value.map_err(|why| place.refuse(why))?;
                check_is_there(index, &value).map_err(|why| place.refuse(why))?;
                self.startup.config.store(index, &value);
                self.seen[index] = true;
            }
        }
        Ok(())
    }

    /// What such a line says is for the Sentinel to read, which also writes them.
    fn check_sentinel(&self, place: &ConfigLine, depth: usize) -> Result<(), LoadError> {
        let is_rewritten = depth == 0 && matches!(place.source, Source::File(_));
        match self.startup.config.profile() {
            Profile::Server => Err(place.refuse("sentinel directive while not in sentinel mode")),
            Profile::Sentinel if is_rewritten => Ok(()),
            Profile::Sentinel => Err(place.refuse(
                "sentinel directives must stand in the configuration file itself, which is \
                 rewritten",
            )),
        }
    }

    fn include(
        &mut self,
        pattern: &[u8],
        place: &ConfigLine,
        depth: usize,
    ) -> Result<(), LoadError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(place.refuse("include goes in a circle"));
        }
        for path in expand(pattern) {
            let text = read_file(&path)?;
            self.text(&text, &Source::File(path), depth + 1)?;
        }
        Ok(())
    }
}

/// What a module would bring is not there: data would be refused, or rules would not hold.
const NO_MODULES: &str = "modules are not supported";

/// What is said of a name that no directive has: which one may have been meant.
fn unknown(name: &[u8]) -> ValueError {
    let names = ALL.iter().flat_map(ConfigOption::names);
    match nearest(&String::from_utf8_lossy(name), names) {
        Some(meant) => format!("{UNKNOWN}; did you mean {meant}?").into(),
        None => ValueError::Borrowed(UNKNOWN),
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

impl ConfigLine {
    /// Says why this line is wrong.
    pub fn refuse(&self, why: impl Into<ValueError>) -> LoadError {
        LoadError::Line { place: self.clone(), why: why.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Line { place, why } => {
                let version = env!("CARGO_PKG_VERSION");
                write!(f, "*** FATAL CONFIG FILE ERROR (Apus {version}) *** ")?;
                match &place.source {
                    Source::File(path) => {
                        write!(f, "Reading the configuration file, at line {}", place.line)?;
                        write!(f, " of '{}'", path.display())?;
                    }
                    Source::Input => {
                        write!(f, "Reading the standard input, at line {}", place.line)?;
                    }
                    Source::CommandLine => write!(f, "Reading the command line")?,
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
