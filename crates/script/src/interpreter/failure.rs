//! Errors on their way: what a script sees of what was raised in Rust, and what is kept of an error
//! that nobody caught.
//!
//! Invariant: fields of error tables are read and written raw, so no script runs here.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::shared::{Failure, Shared};
use crate::call::{Place, Raised, ReplyError, define, place_at};

/// So many levels may lie between an error and the line of the script that led to it.
const RAISER_MAX: usize = 5;

/// Adds `visible` and `on_error`.
pub(super) fn add(lua: &Lua, native: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    let own = Rc::clone(shared);
    define(lua, native, "visible", move |call| {
        if own.stop.get().is_some() {
            return Err(Raised::Stop.into());
        }
        visible(call.lua, call.get(0))
    })?;
    let own = Rc::clone(shared);
    define(lua, native, "on_error", move |call| {
        if own.stop.get().is_none() {
            let failure = failure_of(call.lua, call.get(0))?;
            own.failure.replace(Some(failure));
        }
        Ok(())
    })
}

/// An error as a script that caught it sees it.
fn visible(lua: &Lua, problem: &Value) -> mlua::Result<Value> {
    let Value::Error(error) = problem else { return Ok(problem.clone()) };
    match Raised::find(error) {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply(reply)) => Ok(Value::Table(error_table(lua, reply)?)),
        Some(Raised::Stop) => Err(Raised::Stop.into()),
        None => Ok(Value::String(lua.create_string(first_line(&error.to_string()))?)),
    }
}

/// The table that scripts see for the error of a command.
pub(super) fn error_table(lua: &Lua, error: &ReplyError) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(&error.text)?)?;
    if !error.is_new {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// What is kept of an error; called where it was raised.
fn failure_of(lua: &Lua, problem: &Value) -> mlua::Result<Failure> {
    let raiser = raiser(lua, 1);
    let failure = match problem {
        Value::Error(error) => match Raised::find(error) {
            Some(Raised::Reply(reply)) => Failure {
                text: reply.text.clone(),
                place: reply.place.clone().or(raiser),
                is_new: reply.is_new,
            },
            Some(raised) => plain(raised.to_string().as_bytes(), raiser),
            None => plain(first_line(&error.to_string()).as_bytes(), raiser),
        },
        Value::Table(table) => from_table(lua, table, raiser)?,
        other => plain(&text_of(lua, other)?, raiser),
    };
    Ok(failure)
}

/// The line of the script from a level on: the first that is neither ours nor of a C function.
pub(super) fn raiser(lua: &Lua, level: usize) -> Option<Place> {
    (level..=RAISER_MAX).find_map(|level| place_at(lua, level).filter(|place| !place.is_ours()))
}

fn plain(text: &[u8], place: Option<Place>) -> Failure {
    Failure { text: [b"ERR ", text].concat(), place, is_new: true }
}

/// A table that a script raised, perhaps one that it caught before.
fn from_table(lua: &Lua, table: &Table, raiser: Option<Place>) -> mlua::Result<Failure> {
    let text = match table.raw_get("err")? {
        Value::String(text) => text.as_bytes().to_vec(),
        number @ (Value::Integer(_) | Value::Number(_)) => text_of(lua, &number)?,
        _ => b"ERR unknown error".to_vec(),
    };
    let is_known = matches!(table.raw_get("ignore_error_stats_update")?, Value::Boolean(true));
    Ok(Failure { text, place: raiser, is_new: !is_known })
}

fn text_of(lua: &Lua, value: &Value) -> mlua::Result<Vec<u8>> {
    let text = match value {
        Value::String(text) => return Ok(text.as_bytes().to_vec()),
        Value::Nil => "nil".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::LightUserData(pointer) if pointer.0.is_null() => "userdata: (nil)".to_owned(),
        Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone())?;
            text.map_or_else(String::new, |text| text.to_string_lossy())
        }
        other => format!("{}: {:p}", crate::call::type_name(other), other.to_pointer()),
    };
    Ok(text.into_bytes())
}

/// Errors of the binding carry a traceback that scripts would not know.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What was raised where no handler of ours stood: while values went in or out.
pub(super) fn from_outside(error: &mlua::Error) -> Failure {
    let text = match (Raised::find(error), error) {
        (Some(raised), _) => raised.to_string(),
        (None, mlua::Error::MemoryError(_)) => "not enough memory".to_owned(),
        (None, other) => first_line(&other.to_string()).to_owned(),
    };
    plain(text.as_bytes(), None)
}

/// What Lua raises without asking a handler: that memory or its stack is out.
pub(super) fn without_handler(text: Option<&[u8]>) -> Failure {
    plain(text.unwrap_or(b"unknown error"), None)
}
