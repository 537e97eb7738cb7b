//! What the tests of WATCH share: the servers they run on, several commands in a line, and what an
//! aborted EXEC looks like. Invariant: every server is asked the same.

use base::quote::split_arguments;
use proto::value::Value;

use crate::render::render;
use crate::{Client, Oracle, Server};

/// Apus and all real servers.
pub fn servers() -> impl Iterator<Item = Server> {
    let oracles = Oracle::ALL.iter().map(|oracle| oracle.start(&[]));
    [Server::start(&["--worker-threads", "4"])].into_iter().chain(oracles)
}

/// Runs commands that are separated by `;` and returns the last reply.
#[track_caller]
pub fn say(client: &mut Client, commands: &str) -> Value {
    let mut last = Value::Null;
    for command in commands.split(';').map(str::trim).filter(|command| !command.is_empty()) {
        last = client.call(&split_arguments(command.as_bytes()).expect("quotes are balanced"));
        assert!(!matches!(last, Value::Error(_)), "{command}: {}", render(&last));
    }
    last
}

/// Whether EXEC was refused because something watched had changed.
pub fn is_aborted(reply: &Value) -> bool {
    match reply {
        Value::Null | Value::NullArray => true,
        Value::Array(_) => false,
        other => panic!("EXEC: {other:?}"),
    }
}
