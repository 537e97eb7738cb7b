//! The tables `redis` of scripts and of libraries.
//!
//! Invariant: whatever a script passes, the answer is a value or an error that it can catch, unless
//! the host stops the run.

use std::rc::Rc;

use mlua::{Lua, Table, Value};
use proto::Resp;

use super::Version;
use super::failure::error_table;
use super::ffi::{Outcome, Purpose, command_function};
use super::register_function::register_function;
use super::shared::Shared;
use crate::call::{Call, Raised, ReplyError, define, located, place_at, to_i64};
use crate::host::{LogLevel, Replication};
use crate::program::Sha1;
use crate::result_budget::check_result_budget;

/// Makes the table that scripts see.
pub(super) fn script_api(lua: &Lua, version: &Version, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let table = library_api(lua, version, shared)?;
    define(lua, &table, "replicate_commands", |_| Ok(true))?;
    define(lua, &table, "breakpoint", |_| Ok(false))?;
    define(lua, &table, "debug", |_| Ok(()))?;
    Ok(table)
}

/// Makes the table that the functions of libraries see.
pub(super) fn library_api(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared>,
) -> mlua::Result<Table> {
    let table = common_api(lua, version, shared)?;
    for (name, purpose) in [
        ("call", Purpose::Call),
        ("pcall", Purpose::ProtectedCall),
        ("acl_check_cmd", Purpose::Check),
    ] {
        let own = Rc::clone(shared);
        let explain = lua.create_function(move |lua, ()| explain(lua, &own, purpose))?;
        table.raw_set(name, command_function(lua, shared, purpose, explain)?)?;
    }
    define(lua, &table, "error_reply", |call| one_field(call, "err"))?;
    define(lua, &table, "status_reply", |call| one_field(call, "ok"))?;
    define(lua, &table, "sha1hex", sha1_hex)?;
    let own = Rc::clone(shared);
    define(lua, &table, "setresp", move |call| set_resp(call, &own))?;
    let own = Rc::clone(shared);
    define(lua, &table, "set_repl", move |call| set_replication(call, &own))?;
    let masks = [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2)];
    for (name, number) in masks.into_iter().chain([("REPL_ALL", 3)]) {
        table.raw_set(name, number)?;
    }
    Ok(table)
}

/// Makes the table that a library sees while it is loaded.
pub(super) fn loading_api(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared>,
) -> mlua::Result<Table> {
    let table = common_api(lua, version, shared)?;
    let own = Rc::clone(shared);
    define(lua, &table, "register_function", move |call| register_function(call, &own))?;
    Ok(table)
}

fn common_api(lua: &Lua, version: &Version, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Rc::clone(shared);
    define(lua, &table, "log", move |call| log(call, &own))?;
    for (name, number) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REDIS_VERSION_NUM", version.number),
    ] {
        table.raw_set(name, number)?;
    }
    table.raw_set("REDIS_VERSION", version.text.as_str())?;
    Ok(table)
}

/// What a script is told of a command that did not simply answer with a value.
fn explain(lua: &Lua, shared: &Shared, purpose: Purpose) -> mlua::Result<Value> {
    /// Between this function and the script stands the one that asks for an explanation.
    const CALLER: usize = 2;
    let place = place_at(lua, CALLER);
    let new = |reason: &str, place| {
        let text = [b"ERR ", reason.as_bytes()].concat();
        ReplyError { text, place, is_new: true }
    };
    let outcome = shared.outcome.get();
    let error = match outcome {
        Outcome::Over => return Err(Raised::Stop.into()),
        Outcome::ResultTooLarge => return Err(Raised::Text(b"not enough memory".to_vec()).into()),
        Outcome::Malformed => {
            return Err(Raised::Text(b"ERR a command's reply is malformed".to_vec()).into());
        }
        Outcome::TooLong => {
            return Err(located(place.as_ref(), "too many bytes of arguments"));
        }
        Outcome::Value | Outcome::Allowed(_) => unreachable!("these need no explanation"),
        Outcome::Error => ReplyError { text: shared.error_text(), place, is_new: false },
        Outcome::Unknown => new("Invalid command passed to redis.acl_check_cmd()", place),
        Outcome::Outside => {
            new("redis.call/pcall can only be called inside a script invocation", place)
        }
        Outcome::NoArguments => {
            new("Please specify at least one argument for this redis lib call", place)
        }
        Outcome::NoText => {
            new("Lua redis lib command arguments must be strings or integers", place)
        }
    };
    shared.forget_reply();
    if purpose == Purpose::ProtectedCall && outcome != Outcome::Outside {
        return Ok(Value::Table(error_table(lua, &error)?));
    }
    Err(Raised::Reply(error).into())
}

/// An error of a command that was not even called.
pub(super) fn refuse(call: &Call<'_>, text: &str) -> mlua::Error {
    let text = format!("ERR {text}").into_bytes();
    Raised::Reply(ReplyError { text, place: place_at(call.lua, 1), is_new: true }).into()
}

/// `redis.error_reply` and `redis.status_reply`.
fn one_field(call: &Call<'_>, field: &str) -> mlua::Result<Table> {
    let table = call.lua.create_table_with_capacity(0, 1)?;
    let (1, Value::String(text)) = (call.args.len(), call.get(0)) else {
        table.raw_set("err", "ERR wrong number or type of arguments")?;
        return Ok(table);
    };
    if field == "ok" {
        table.raw_set(field, text)?;
        return Ok(table);
    }
    let bytes = text.as_bytes();
    let bytes = bytes.strip_prefix(b"-").unwrap_or(&bytes);
    let has_code = bytes.contains(&b' ');
    let text = if has_code { bytes.to_vec() } else { [b"ERR ", bytes].concat() };
    table.raw_set(field, call.lua.create_string(text)?)?;
    Ok(table)
}

fn log(call: &Call<'_>, shared: &Shared) -> mlua::Result<()> {
    if call.args.len() < 2 {
        return Err(refuse(call, "redis.log() requires two arguments or more."));
    }
    let level = match call.get(0) {
        Value::Integer(0) => LogLevel::Debug,
        Value::Integer(1) => LogLevel::Verbose,
        Value::Integer(2) => LogLevel::Notice,
        Value::Integer(3) => LogLevel::Warning,
        Value::Integer(_) | Value::Number(_) => return Err(refuse(call, "Invalid log level.")),
        _ => return Err(refuse(call, "First argument must be a number (log level).")),
    };
    let mut line = Vec::new();
    for value in call.args.iter().skip(1) {
        // What has no text is left out, as in Redis.
        let Some(text) = call.lua.coerce_string(value.clone())? else { continue };
        if !line.is_empty() {
            line.push(b' ');
        }
        line.extend_from_slice(&text.as_bytes());
        check_result_budget(call.lua, line.len())?;
    }
    if shared.loads_again.get() {
        return Ok(());
    }
    shared.ask(|host| {
        host.log(level, &line);
        Ok(())
    })?;
    Ok(())
}

fn set_resp(call: &Call<'_>, shared: &Shared) -> mlua::Result<()> {
    if call.args.len() != 1 {
        return Err(refuse(call, "redis.setresp() requires one argument."));
    }
    let resp = match call.get(0) {
        Value::Integer(2) => Resp::Two,
        Value::Integer(3) => Resp::Three,
        _ => return Err(refuse(call, "RESP version must be 2 or 3.")),
    };
    shared.resp.set(resp);
    Ok(())
}

fn set_replication(call: &Call<'_>, shared: &Shared) -> mlua::Result<()> {
    if call.args.len() != 1 {
        return Err(refuse(call, "redis.set_repl() requires one argument."));
    }
    // What is no number counts as none of the flags.
    let mask = call.lua.coerce_number(call.get(0).clone())?.map_or(0, to_i64);
    if !(0..=3).contains(&mask) {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or \
                    REPL_NONE.";
        return Err(refuse(call, text));
    }
    let to = Replication { journal: mask & 1 != 0, replicas: mask & 2 != 0 };
    shared.ask(|host| {
        host.set_replication(to);
        Ok(())
    })?;
    Ok(())
}

fn sha1_hex(call: &Call<'_>) -> mlua::Result<String> {
    if call.args.len() != 1 {
        return Err(refuse(call, "wrong number of arguments"));
    }
    // What has no text counts as none.
    let text = call.lua.coerce_string(call.get(0).clone())?;
    Ok(text.map_or_else(|| Sha1::of(b""), |text| Sha1::of(&text.as_bytes())).hex())
}
