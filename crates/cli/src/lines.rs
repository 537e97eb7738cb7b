//! Commands that are read line by line, from a terminal or from a file.
//!
//! Invariant: a line does what it does in redis-cli: repetitions, settings, `connect`, `clear`,
//! `quit`; and no line ends the client but `quit`, `exit` and the end of the input.

use std::io::BufRead;
use std::process::ExitCode;

use base::quote::split_arguments;

use crate::client::{Client, print};
use crate::interrupt;
use crate::modes::debug_line;
use crate::options::Output;

/// Whether more lines are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another line.
    Line,
    /// The end of the client.
    End,
}

/// Reads and runs commands until the input ends.
pub(crate) fn run(client: &mut Client) -> Result<ExitCode, String> {
    // `-e` is about the command of the command line.
    client.options.fails_on_errors = false;
    client.reads_lines = true;
    if crate::is_interactive() {
        client.is_interactive = true;
        interrupt::listen();
        return crate::prompt::run(client);
    }
    if client.debugged.is_none()
        && let Err(reason) = client.connect()
    {
        eprintln!("{reason}");
    }
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| format!("Error reading the standard input: {error}"))?;
        if run_line(client, &line) == Next::End {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one line.
pub(crate) fn run_line(client: &mut Client, line: &[u8]) -> Next {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Next::Line;
    }
    if let Some(session) = client.debugged.clone() {
        return debug_line(client, session, line);
    }
    let Some(words) = split_arguments(line) else {
        print(b"Invalid argument(s)\n");
        return Next::Line;
    };
    let Some(first) = words.first() else { return Next::Line };
    match (first.to_ascii_lowercase().as_slice(), words.len()) {
        (b"quit" | b"exit", _) => return Next::End,
        ([b':', ..], _) => {
            if let Err(reason) = client.preferences.set(&words) {
                print(format!("{reason}\n").as_bytes());
            }
        }
        (b"connect", 3) => reconnect(client, &words),
        (b"clear", 1) => print(b"\x1b[H\x1b[2J"),
        (b"help" | b"?", _) => help(client, &words[1..]),
        _ => run_repeatedly(client, &words),
    }
    Next::Line
}

fn help(client: &mut Client, words: &[Vec<u8>]) {
    let words: Vec<String> =
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    if words.is_empty() {
        print(HELP.as_bytes());
    } else {
        print(client.docs().help(&words).as_bytes());
    }
}

const HELP: &str = concat!(
    "apus cli ",
    env!("CARGO_PKG_VERSION"),
    "
To get help about Redis commands type:
      \"help @<group>\" to get a list of commands in <group>
      \"help <command>\" for help on <command>
      \"help <tab>\" to get a list of possible help topics
      \"quit\" to exit

To set redis-cli preferences:
      \":set hints\" enable online hints
      \":set nohints\" disable online hints
      \":set pager\" page long replies
      \":set nopager\" do not page them
      \":set colors\" show replies in colours
      \":set nocolors\" show them without
Set your preferences in ~/.redisclirc
"
);

fn reconnect(client: &mut Client, words: &[Vec<u8>]) {
    let [_, host, port] = words else { return };
    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
    let (Ok(host), Some(port)) = (std::str::from_utf8(host), port) else {
        print(b"Invalid argument(s)\n");
        return;
    };
    client.options.socket = None;
    client.options.host = host.to_owned();
    client.options.port = port;
    if let Err(reason) = client.connect() {
        eprintln!("{reason}");
    }
}

/// A number before a command says how often it runs.
fn run_repeatedly(client: &mut Client, words: &[Vec<u8>]) {
    let first = std::str::from_utf8(&words[0]).ok().and_then(|it| it.parse::<i64>().ok());
    let (times, words) = match first.filter(|_| words.len() > 1) {
        Some(times) => (u64::try_from(times).unwrap_or_default(), &words[1..]),
        None => (1, words),
    };
    if times == 0 {
        print(b"Invalid redis-cli repeat command option value.\n");
        return;
    }
    let started = client.clock.monotonic_us();
    for _ in 0..times {
        if let Err(reason) = client.run(words) {
            eprintln!("{reason}");
            break;
        }
        if times > 1
            && let Some(interval) = client.options.interval
        {
            std::thread::sleep(interval);
        }
        if interrupt::was_asked() {
            break;
        }
    }
    let elapsed_ms = (client.clock.monotonic_us() - started) / 1000;
    if elapsed_ms >= SLOW_MS && client.formatter.output == Output::Standard {
        print(format!("({}.{:02}s)\n", elapsed_ms / 1000, elapsed_ms % 1000 / 10).as_bytes());
    }
}

/// What took longer is told how long it took.
const SLOW_MS: i64 = 500;
