//! `apus cli` and `apus ping`: a client that takes redis-cli's command lines, and a health check.
//!
//! A run goes `options` (words to what was asked for) -> `connection` (bytes to and from the
//! server) -> `client` (commands, and the state that they leave a connection in) -> `format`
//! (replies as text). `lines` reads commands, `modes` are what is done instead. Nothing here knows
//! the server: Apus and its peers are talked to by the same bytes.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod docs;
mod format;
mod interrupt;
mod lines;
mod modes;
mod options;
mod ping;
mod preferences;
mod prompt;
mod secrets;
mod terminal;

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

pub use ping::ping;

use client::{Client, Outcome};
use options::{FromStdin, Options, Request};

/// Runs `apus cli` with the words that follow it. Fails where the command line makes no sense,
/// where the server cannot be reached, and with `-e` where a command fails.
#[must_use]
pub fn run(arguments: &[OsString]) -> ExitCode {
    match Options::parse(arguments) {
        Ok(Request::Help) => {
            client::print(options::help().as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Version) => {
            client::print(format!("apus cli {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => match talk(*options) {
            Ok(code) => code,
            Err(reason) => fail(&reason),
        },
        Err(reason) => fail(&format!("{reason}\nTry 'apus cli --help'.")),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}

fn talk(mut options: Options) -> Result<ExitCode, String> {
    terminal::complete_login(&mut options)?;
    read_stdin_argument(&mut options)?;
    let words = options.words.clone();
    let mode = options.mode.clone();
    let mut client = Client::new(options);
    if let Some(result) = modes::run(&mut client, &mode, &words) {
        return result;
    }
    if words.is_empty() {
        return lines::run(&mut client);
    }
    client.connect()?;
    repeat(&mut client, &words)
}

/// Sends a command as often as it was asked for.
pub(crate) fn repeat(client: &mut Client, words: &[Vec<u8>]) -> Result<ExitCode, String> {
    let mut done = 0;
    while client.options.repeat.is_none_or(|times| done < times) {
        if done > 0
            && let Some(interval) = client.options.interval
        {
            std::thread::sleep(interval);
        }
        if client.run(words)? == Outcome::Refused && client.options.fails_on_errors {
            return Ok(ExitCode::FAILURE);
        }
        done += 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts what the standard input holds where `-x` or `-X` wants it.
fn read_stdin_argument(options: &mut Options) -> Result<(), String> {
    let mut content = Vec::new();
    if options.from_stdin != FromStdin::Nothing {
        let read = std::io::stdin().lock().read_to_end(&mut content);
        read.map_err(|error| format!("Error reading the standard input: {error}"))?;
    }
    match &options.from_stdin {
        FromStdin::Nothing => {}
        FromStdin::Last => options.words.push(content),
        FromStdin::Tag(tag) => {
            let place = options.words.iter_mut().find(|word| *word == tag.as_bytes());
            if let Some(place) = place {
                *place = content;
            }
        }
    }
    Ok(())
}

/// Whether a user sits before both ends.
fn is_interactive() -> bool {
    std::io::stdin().is_terminal()
}
