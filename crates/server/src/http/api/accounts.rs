//! The accounts of users and databases, as QUOTA tells them.
//!
//! Invariant: each half is told by its command, with the right that the command asks for; a half
//! that the caller may not see is the error that says so, and the other is told all the same.

use proto::value::Value;

use super::super::command_session::{Caller, CommandSession};
use super::super::json::{object, record};
use super::super::response::Failure;
use super::{accepted, words};

/// `/api/accounts`.
pub(super) async fn list(caller: &Caller) -> Result<String, Failure> {
    let server = caller.server;
    let mut session = CommandSession::open(caller)?;
    let requests = [words(server, [b"QUOTA", b"USERS"])?, words(server, [b"QUOTA", b"DATABASES"])?];
    let mut replies = session.run(&requests).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Null);
    let (users, databases) = (next(), next());
    if matches!(databases, Value::Error(_)) {
        // Of two errors the first is the answer.
        accepted(users.clone())?;
    }
    let is_on = server.gates.quotas.is_accounting_on();
    Ok(object([
        ("accounting", is_on.to_string()),
        ("users", record(&users)),
        ("databases", record(&databases)),
    ]))
}
