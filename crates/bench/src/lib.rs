//! `apus bench`: a load generator that takes memtier_benchmark's command lines.
//!
//! A run is a pipe of four parts, each ignorant of the next: `options` (words to
//! [`options::Options`]) -> `workload` (what to send, as bytes) -> `engine` (connections, time,
//! latencies: an [`outcome::Outcome`]) -> `report` (tables, JSON, HTML). Nothing here knows the
//! server: Apus and its peers are measured by the same bytes.
#![forbid(unsafe_code)]

pub mod engine;
mod interrupt;
pub mod options;
pub mod outcome;
pub mod presets;
pub mod report;
pub mod usage;
pub mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use options::{Options, Request};
use outcome::Outcome;
use presets::Series;

/// The exit code of a command line that makes no sense: memtier_benchmark's.
const USAGE: u8 = 2;

/// Runs `apus bench` with the words that follow it. Fails with 2 where they make no sense, with 1
/// where a run was not possible or not clean: error replies, requests without a reply, connections
/// that were lost, values that were wrong, a signal.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let words = words.map_err(|word| format!("error: '{}' is not UTF-8.", word.display()));
    let request = words.as_ref().map_err(Clone::clone).and_then(|words| Options::parse(words));
    match request {
        Ok(Request::Help) => print(&(options::help() + &presets::help() + EXAMPLES)),
        Ok(Request::Version) => print(&options::version()),
        Ok(Request::Preset(name, words)) if asks_for_help(&words) => {
            presets::help_of(&name).map_or_else(|reason| fail(&reason, USAGE), |text| print(&text))
        }
        Ok(Request::Preset(name, words)) => match Series::parse(&name, &words) {
            Ok(series) => run_series(series),
            Err(reason) => fail(&reason, USAGE),
        },
        Ok(Request::Run(options)) if !options.against.is_empty() => {
            let words: Vec<String> = words.unwrap_or_default();
            run_series(Series::compare(*options, &words))
        }
        Ok(Request::Run(options)) => measure(&options).unwrap_or_else(|reason| fail(&reason, 1)),
        Err(reason) => fail(&format!("{reason}\nTry 'apus bench --help'."), USAGE),
    }
}

fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| matches!(word.as_str(), "--help" | "-h" | "help"))
}

fn run_series(series: Series) -> ExitCode {
    interrupt::listen();
    match series.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => fail(&reason, 1),
    }
}

fn measure(options: &Options) -> Result<ExitCode, String> {
    interrupt::listen();
    let outcomes = engine::run(options)?;
    report::publish(options, &outcomes)?;
    let is_clean = outcomes.iter().all(Outcome::is_clean);
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A reader that has gone away is no failure.
/// What `--help` ends with.
const EXAMPLES: &str = "
Examples:
       apus bench --requests 100000 --clients 50 --threads 2 --ratio 1:10
       apus bench -s 127.0.0.1 -p 6379 --pipeline 30 --data-size 256 --test-time 10
       apus bench --protocol memcache_text -p 11211
       apus bench --preset s0-get --against 127.0.0.1:6380
";

fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(reason: &str, code: u8) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::net::TcpListener;
    use std::os::unix::ffi::OsStringExt;
    use std::process::ExitCode;

    /// Exit codes have no equality of their own.
    fn code(words: &[OsString]) -> String {
        format!("{:?}", super::run(words.iter().cloned()))
    }

    #[test]
    fn the_exit_code_says_whether_the_words_or_the_run_went_wrong() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        let port = listener.local_addr().expect("it is bound").port().to_string();
        drop(listener);
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let code_of = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(&words("--version")), code_of(0));
        assert_eq!(code(&words("--nonsense")), code_of(2));
        assert_eq!(code(&words("--ratio 0:0")), code_of(2));
        assert_eq!(code(&words("--preset nonsense")), code_of(2));
        assert_eq!(code(&[OsString::from_vec(vec![0xff])]), code_of(2));
        assert_eq!(code(&words(&format!("-p {port} -t 1 -c 1 -n 1"))), code_of(1));
    }
}
