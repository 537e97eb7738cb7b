//! The prompt: a line editor with history, completion and hints.
//!
//! Invariants: a line that holds a password is never written to the history; the prompt says what
//! the server has confirmed.

use std::borrow::Cow;
use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;

use base::quote::split_arguments;
use rustyline::completion::Completer;
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use crate::client::Client;
use crate::docs::CommandDocs;
use crate::interrupt;
use crate::lines::{Next, run_line};
use crate::preferences::home_file;
use crate::secrets::holds_password;

/// What knows while a line is typed what may follow.
struct Assistant {
    docs: Rc<CommandDocs>,
    shows_hints: Cell<bool>,
}

/// Reads and runs lines until the user ends it.
pub(crate) fn run(client: &mut Client) -> Result<ExitCode, String> {
    let failed = |error: ReadlineError| format!("The terminal cannot be used: {error}");
    for fault in client.preferences.read_file() {
        eprintln!("{fault}");
    }
    let config = Config::builder().completion_type(CompletionType::Circular);
    let config = config.max_history_size(HISTORY_MAX).map_err(failed)?.build();
    let mut editor = Editor::<Assistant, FileHistory>::with_config(config).map_err(failed)?;
    let history = home_file("REDISCLI_HISTFILE", ".apus_cli_history");
    if let Some(path) = &history {
        // A first session has no history.
        let _ = editor.load_history(path);
    }
    if client.debugged.is_none()
        && let Err(reason) = client.connect()
    {
        eprintln!("{reason}");
    }
    loop {
        let assistant =
            Assistant { docs: client.docs(), shows_hints: client.preferences.shows_hints.into() };
        editor.set_helper(Some(assistant));
        let line = match editor.readline(&prompt(client)) {
            Ok(line) => line,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => break,
            Err(error) => return Err(failed(error)),
        };
        // What was typed before the line ended is none of the command's business.
        let _ = interrupt::was_asked();
        if !line.trim().is_empty() && !holds_password(line.as_bytes()) {
            editor.add_history_entry(&line).map_err(failed)?;
            if let Some(path) = &history {
                // A history that cannot be kept is no reason to stop.
                let _ = editor.append_history(path);
            }
        }
        if run_line(client, line.as_bytes()) == Next::End {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many lines are kept.
const HISTORY_MAX: usize = 1000;

/// What stands before the line.
fn prompt(client: &Client) -> String {
    if client.debugged.is_some() {
        return "lua debugger> ".to_owned();
    }
    if !client.is_connected() {
        return "not connected> ".to_owned();
    }
    let options = &client.options;
    let server = match &options.socket {
        Some(path) => format!("redis {}", path.display()),
        None => options.server(),
    };
    let state = &client.state;
    let database =
        if state.database == 0 { String::new() } else { format!("[{}]", state.database) };
    let transaction = if state.in_transaction { "(TX)" } else { "" };
    let subscribed = if state.subscriptions > 0 { "(subscribed mode)" } else { "" };
    format!("{server}{database}{transaction}{subscribed}> ")
}

/// The words of a line so far; the last one may be about to begin.
fn words(line: &str) -> Option<Vec<String>> {
    let words = split_arguments(line.as_bytes())?;
    Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

impl Helper for Assistant {}
impl Validator for Assistant {}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        if at < line.len() || !self.shows_hints.get() {
            return None;
        }
        let words = words(line)?;
        let (doc, count) = self.docs.find(&words)?;
        let rest = doc.rest(words.len() - count);
        let blank = if line.ends_with(' ') { "" } else { " " };
        (!rest.is_empty()).then(|| format!("{blank}{rest}"))
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, candidates(&self.docs, &line[..at])))
    }
}

/// Whole lines that one may become: names of commands, topics behind `help`.
fn candidates(docs: &CommandDocs, typed: &str) -> Vec<String> {
    let lower = typed.to_ascii_lowercase();
    let (before, rest) = match lower.strip_prefix("help ") {
        Some(rest) => (&typed[..typed.len() - rest.len()], rest),
        None => ("", lower.as_str()),
    };
    let mut topics: Vec<String> = docs.iter().map(|doc| doc.name.clone()).collect();
    if !before.is_empty() {
        topics.extend(docs.groups().iter().map(|group| format!("@{group}")));
    }
    topics.retain(|topic| topic.to_ascii_lowercase().starts_with(rest));
    topics.iter().map(|topic| format!("{before}{topic}")).collect()
}
