//! `apus bench`: a load generator that takes memtier_benchmark's command lines.
//!
//! A run is a pipe of four parts, each ignorant of the next:
//! `options` (words to [`options::Options`]) -> `workload` (what to send, as bytes) -> `engine`
//! (connections, time, latencies: an [`outcome::Outcome`]) -> `report` (tables, JSON, HTML).
//! Nothing here knows the server: it measures Apus and its peers by the same bytes.
#![forbid(unsafe_code)]

pub mod engine;
pub mod options;
pub mod outcome;
pub mod report;
pub mod usage;
pub mod workload;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use options::{Options, Request};

/// The exit code of a command line that makes no sense: memtier_benchmark's.
const USAGE: u8 = 2;

/// Runs `apus bench` with the words that follow it. Fails with 2 where they make no sense, with 1
/// where a run was not possible or verified values were wrong.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let words = words.map_err(|word| format!("error: '{}' is not UTF-8.", word.display()));
    match words.and_then(|words| Options::parse(&words)) {
        Ok(Request::Help) => print(&options::help()),
        Ok(Request::Version) => print(&options::version()),
        Ok(Request::Preset(name, _)) => {
            fail(&format!("error: there is no preset '{name}'."), USAGE)
        }
        Ok(Request::Run(options)) => measure(*options).unwrap_or_else(|reason| fail(&reason, 1)),
        Err(reason) => fail(&format!("{reason}\nTry 'apus bench --help'."), USAGE),
    }
}

fn measure(mut options: Options) -> Result<ExitCode, String> {
    options.output.progress = std::io::stderr().is_terminal();
    let outcomes = engine::run(&options)?;
    report::publish(&options, &outcomes)?;
    let verified = outcomes.iter().all(|outcome| outcome.verify_errors == 0);
    Ok(if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A reader that has gone away is no failure.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(reason: &str, code: u8) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::from(code)
}
