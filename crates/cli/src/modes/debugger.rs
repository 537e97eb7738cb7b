//! `--ldb`: a script of `--eval` under the debugger of the server.
//!
//! Invariant: lines go to the debugger as long as the server says that its session runs, and are
//! commands from there on.

use std::process::ExitCode;

use base::quote::split_arguments;
use proto::value::Value;

use crate::client::{Client, print};
use crate::lines::{self, Next};
use crate::options::{Debugging, Output};

/// A session of the server's debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugSession {
    how: Debugging,
    /// The request that is debugged.
    request: Vec<Vec<u8>>,
}

const TITLE: &str = "Lua debugging session started, please use:
quit    -- End the session.
restart -- Restart the script in debug mode again.
help    -- Show Lua script debugging commands.

";

/// Debugs a request, by lines of the user, which then are commands.
pub(crate) fn debug(
    client: &mut Client,
    request: Vec<Vec<u8>>,
    how: Debugging,
) -> Result<ExitCode, String> {
    client.formatter.output = Output::Standard;
    match start(client, DebugSession { how, request })? {
        Stage::NotBegun => Ok(ExitCode::SUCCESS),
        Stage::Begun => lines::run(client),
    }
}

/// Whether a session has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The script cannot be run.
    NotBegun,
    Begun,
}

/// Starts a session over a connection of its own.
fn start(client: &mut Client, session: DebugSession) -> Result<Stage, String> {
    print(TITLE.as_bytes());
    client.connect()?;
    let how = match session.how {
        Debugging::Forked => "YES",
        Debugging::Synchronous => "SYNC",
    };
    client.ask(&["SCRIPT", "DEBUG", how]).map_err(|why| format!("(error) {why}"))?;
    let request = session.request.clone();
    client.debugged = Some(session);
    let reply = reply_to(client, &request)?;
    if !show(client, &reply) {
        return Ok(Stage::Begun);
    }
    match result(client)? {
        result @ Value::Error(_) => {
            print(b"\nEval debugging session can't start:\n");
            print(&client.formatter.format(&result));
            client.debugged = None;
            Ok(Stage::NotBegun)
        }
        result => end(client, &result).map(|()| Stage::Begun),
    }
}

fn reply_to(client: &mut Client, words: &[Vec<u8>]) -> Result<Value, String> {
    let replies = client.ask_all(&[words.to_vec()])?;
    replies.into_iter().next().ok_or_else(|| "No reply".to_owned())
}

/// Gives a line to the debugger.
pub(crate) fn run_line(client: &mut Client, session: DebugSession, line: &[u8]) -> Next {
    let Some(words) = split_arguments(line) else {
        print(b"Invalid argument(s)\n");
        return Next::Line;
    };
    let Some(first) = words.first() else { return Next::Line };
    let done = match first.to_ascii_lowercase().as_slice() {
        b"quit" | b"exit" => return Next::End,
        b"restart" => {
            print(b"\n");
            start(client, session).map(drop)
        }
        // What is evaluated is one text, with all its blanks.
        b"e" | b"eval" if words.len() > 1 => {
            let code = line[first.len()..].trim_ascii_start().to_vec();
            step(client, &[first.clone(), code])
        }
        _ => step(client, &words),
    };
    if let Err(reason) = done {
        eprintln!("{reason}");
        client.debugged = None;
    }
    Next::Line
}

fn step(client: &mut Client, words: &[Vec<u8>]) -> Result<(), String> {
    let reply = reply_to(client, words)?;
    if show(client, &reply) {
        let result = result(client)?;
        end(client, &result)?;
    }
    Ok(())
}

/// Shows what the debugger says; whether that was the last.
fn show(client: &Client, reply: &Value) -> bool {
    let Value::Array(lines) = reply else {
        print(&client.formatter.format(reply));
        return false;
    };
    let lines = lines.iter().filter_map(Value::as_bytes);
    let (ends, lines): (Vec<&[u8]>, Vec<&[u8]>) = lines.partition(|line| *line == b"<endsession>");
    for line in lines {
        let line = String::from_utf8_lossy(line);
        print(format!("\x1b[{}m{line}\x1b[0m\n", colour(&line)).as_bytes());
    }
    !ends.is_empty()
}

/// What the script replies, which follows the debugger's last word.
fn result(client: &mut Client) -> Result<Value, String> {
    client.connection()?.receive().map_err(|failure| format!("Error: {failure}"))
}

/// Shows what the script replies. What follows goes over a connection without a debugger.
fn end(client: &mut Client, result: &Value) -> Result<(), String> {
    print(b"\n");
    print(&client.formatter.format(result));
    let session = client.debugged.take();
    print(match session.map(|session| session.how) {
        Some(Debugging::Synchronous) => b"\n(Lua debugging session ended)\n\n",
        _ => b"\n(Lua debugging session ended -- dataset changes rolled back)\n\n".as_slice(),
    });
    client.connect()
}

/// The colour of a line, as codes of the terminal.
fn colour(line: &str) -> &'static str {
    let starts = [
        ("->", "0;33;49"),
        ("<debug>", "1;37;49"),
        ("<redis>", "0;32;49"),
        ("<reply>", "0;36;49"),
        ("<error>", "0;31;49"),
        ("<value>", "0;35;49"),
        ("<retval>", "0;35;49"),
        ("  #", "1;37;49"),
    ];
    starts.iter().find(|(start, _)| line.starts_with(start)).map_or("0;37;49", |it| it.1)
}
