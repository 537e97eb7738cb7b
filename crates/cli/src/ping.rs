//! `apus ping`: whether a server answers.
//!
//! Invariant: success means that PING was answered with PONG on this very connection.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use proto::value::Value;

use crate::client::{Client, print};
use crate::connection::{Failure, Waited};
use crate::options::{Options, Request};
use crate::terminal;

const HELP: &str = "Usage: apus ping [options]
Whether a server answers PING with PONG: the exit code is 0 if it does, else 1, and the reason is
said. It takes the options of `apus cli` that say where the server is and who asks, as -h, -p, -s,
-u, -a, --user, --tls; -t bounds in seconds how long the answer may take (default: 5).

Examples:
       apus ping
       apus ping -h cache.example.org -p 6380 --tls --cacert ca.pem
       apus ping -s /run/apus/apus.sock -t 1
";

/// How long an answer may take, unless the options say so.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `apus ping` with the words that follow it.
#[must_use]
pub fn ping(arguments: &[OsString]) -> ExitCode {
    let result = match Options::parse(arguments) {
        Ok(Request::Help) => {
            print(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            print(format!("apus ping {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Request::Run(options)) if options.words.is_empty() => answer(*options),
        Ok(Request::Run(_)) => Err("apus ping takes options only. Try 'apus ping --help'.".into()),
        Err(reason) => Err(format!("{reason}\nTry 'apus ping --help'.")),
    };
    match result {
        Ok(()) => {
            print(b"PONG\n");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn answer(mut options: Options) -> Result<(), String> {
    let patience = *options.connect_timeout.get_or_insert(PATIENCE);
    terminal::complete_login(&mut options)?;
    let mut client = Client::new(options);
    let connection = client.connection()?;
    let failed = |failure: Failure| format!("Error: {failure}");
    connection.send(&["PING"]).map_err(failed)?;
    loop {
        match connection.parsed().map_err(failed)? {
            Some(Value::Simple(text)) if text == b"PONG" => return Ok(()),
            Some(Value::Error(line)) => return Err(String::from_utf8_lossy(&line).into_owned()),
            Some(other) => return Err(format!("The answer is no PONG: {other:?}")),
            None => {}
        }
        if connection.wait(None, Some(patience)).map_err(failed)? == Waited::TooLong {
            return Err(format!("No answer within {} seconds", patience.as_secs_f64()));
        }
        connection.take_in().map_err(failed)?;
    }
}
