//! The tables `redis` of scripts and of libraries.
//!
//! Invariant: whatever a script passes, the answer is a value or an error that it can catch, unless
//! the host stops the run.

use std::rc::Rc;

use base::number::{format_f64, format_i64};
use mlua::{Lua, Table, Value};
use proto::Resp;

use super::Version;
use super::failure::error_table;
use super::registering::register_function;
use super::shared::Shared;
use crate::call::{Call, Raised, ReplyError, define, place_at, to_i64};
use crate::host::{Host, LogLevel, Replication};
use crate::program::Sha1;
use crate::replies::{Received, receive};
use crate::room::check_room;

/// Integers below this are exact as doubles.
const EXACT_BOUND: u64 = 1 << 53;

/// Makes the table that scripts see.
pub(super) fn script_api<H: Host>(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared<H>>,
) -> mlua::Result<Table> {
    let table = library_api(lua, version, shared)?;
    define(lua, &table, "replicate_commands", |_| Ok(true))?;
    define(lua, &table, "breakpoint", |_| Ok(false))?;
    define(lua, &table, "debug", |_| Ok(()))?;
    Ok(table)
}

/// Makes the table that the functions of libraries see.
pub(super) fn library_api<H: Host>(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared<H>>,
) -> mlua::Result<Table> {
    let table = common_api(lua, version, shared)?;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let own = Rc::clone(shared);
        define(lua, &table, name, move |call| call_command(call, &own, raises))?;
    }
    define(lua, &table, "error_reply", |call| one_field(call, "err"))?;
    define(lua, &table, "status_reply", |call| one_field(call, "ok"))?;
    define(lua, &table, "sha1hex", sha1_hex)?;
    let own = Rc::clone(shared);
    define(lua, &table, "setresp", move |call| set_resp(call, &own))?;
    let own = Rc::clone(shared);
    define(lua, &table, "set_repl", move |call| set_replication(call, &own))?;
    let own = Rc::clone(shared);
    define(lua, &table, "acl_check_cmd", move |call| may_call(call, &own))?;
    let masks = [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2)];
    for (name, number) in masks.into_iter().chain([("REPL_ALL", 3)]) {
        table.raw_set(name, number)?;
    }
    Ok(table)
}

/// Makes the table that a library sees while it is loaded.
pub(super) fn loading_api<H: Host>(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared<H>>,
) -> mlua::Result<Table> {
    let table = common_api(lua, version, shared)?;
    let own = Rc::clone(shared);
    define(lua, &table, "register_function", move |call| register_function(call, &own))?;
    Ok(table)
}

fn common_api<H: Host>(
    lua: &Lua,
    version: &Version,
    shared: &Rc<Shared<H>>,
) -> mlua::Result<Table> {
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

/// `redis.call` and `redis.pcall`, which differ in what becomes of an error.
fn call_command<H: Host>(call: &Call<'_>, shared: &Shared<H>, raises: bool) -> mlua::Result<Value> {
    let problem = gather(call, shared)?.problem();
    let error = match problem {
        Some(text) => {
            ReplyError { text: [b"ERR ", text.as_bytes()].concat(), place: None, is_new: true }
        }
        None => match execute(call, shared)? {
            Received::Value(value) => return Ok(value),
            Received::Error(text) => ReplyError { text, place: None, is_new: false },
        },
    };
    let error = ReplyError { place: place_at(call.lua, 1), ..error };
    if raises {
        return Err(Raised::Reply(error).into());
    }
    Ok(Value::Table(error_table(call.lua, &error)?))
}

enum Gathered {
    All,
    Nothing,
    NoText,
}

impl Gathered {
    fn problem(&self) -> Option<&'static str> {
        match self {
            Gathered::All => None,
            Gathered::Nothing => {
                Some("Please specify at least one argument for this redis lib call")
            }
            Gathered::NoText => Some("Lua redis lib command arguments must be strings or integers"),
        }
    }
}

/// Puts the arguments of a command together.
fn gather<H>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<Gathered> {
    if call.args.is_empty() {
        return Ok(Gathered::Nothing);
    }
    let mut args = shared.args.borrow_mut();
    args.clear();
    let mut total = 0;
    for value in &call.args {
        let fits = match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                total += bytes.len();
                check_room(call.lua, total)?;
                args.push(&bytes)
            }
            Value::Integer(number) if number.unsigned_abs() < EXACT_BOUND => {
                args.push(format_i64(*number, &mut [0; 20]))
            }
            Value::Integer(number) => args.push(&format_f64(*number as f64)),
            Value::Number(0.0) => args.push(b"0"),
            // The sign of a NaN shows, as it does in C.
            Value::Number(number) if number.is_nan() && number.is_sign_negative() => {
                args.push(b"-nan")
            }
            Value::Number(number) => args.push(&format_f64(*number)),
            _ => return Ok(Gathered::NoText),
        };
        if !fits {
            return Err(call.error("too many bytes of arguments"));
        }
    }
    Ok(Gathered::All)
}

fn execute<H: Host>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<Received> {
    let (args, mut output) = (shared.args.borrow(), shared.output.borrow_mut());
    output.clear();
    let resp = shared.resp.get();
    let answer = shared.ask(|host| host.call(args.as_args(), resp, &mut output))?;
    if answer.is_none() {
        let text = "redis.call/pcall can only be called inside a script invocation";
        return Err(refuse(call, text));
    }
    output.finish();
    let front = output.front();
    let received = if front.len() == output.len() {
        receive(call.lua, front)
    } else {
        let mut whole = Vec::with_capacity(output.len());
        while !output.is_empty() {
            let count = output.front().len();
            whole.extend_from_slice(output.front());
            output.consume(count);
        }
        receive(call.lua, &whole)
    };
    output.clear();
    output.release_if_large();
    received
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

fn log<H: Host>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<()> {
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
        check_room(call.lua, line.len())?;
    }
    shared.ask(|host| {
        host.log(level, &line);
        Ok(())
    })?;
    Ok(())
}

fn set_resp<H: Host>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<()> {
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

fn set_replication<H: Host>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<()> {
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

fn may_call<H: Host>(call: &Call<'_>, shared: &Shared<H>) -> mlua::Result<bool> {
    if let Some(problem) = gather(call, shared)?.problem() {
        return Err(refuse(call, problem));
    }
    let args = shared.args.borrow();
    let answer = shared.ask(|host| Ok(host.may_call(args.as_args())))?;
    answer.flatten().ok_or_else(|| refuse(call, "Invalid command passed to redis.acl_check_cmd()"))
}

fn sha1_hex(call: &Call<'_>) -> mlua::Result<String> {
    if call.args.len() != 1 {
        return Err(refuse(call, "wrong number of arguments"));
    }
    // What has no text counts as none.
    let text = call.lua.coerce_string(call.get(0).clone())?;
    Ok(text.map_or_else(|| Sha1::of(b""), |text| Sha1::of(&text.as_bytes())).hex())
}
