//! `redis.register_function`.
//!
//! Invariant: the function works while a library is loaded and at no other time.

use mlua::{Function, Table, Value};

use super::api::refuse;
use super::shared::Shared;
use crate::call::Call;
use crate::library::{Registration, is_name};
use crate::shebang::Flags;

/// Takes a name and a function, or one table of named arguments.
pub(super) fn register_function(call: &Call<'_>, shared: &Shared) -> mlua::Result<()> {
    let mut loading = shared.loading.borrow_mut();
    let Some(registering) = loading.as_mut() else {
        let text = "redis.register_function can only be called on FUNCTION LOAD command";
        return Err(refuse(call, text));
    };
    let (registration, body) = match (call.args.len(), call.get(0)) {
        (1, Value::Table(named)) => from_named(call, named)?,
        (1, _) => {
            let text = "calling redis.register_function with a single argument is only \
                        applicable to Lua table (representing named arguments).";
            return Err(refuse(call, text));
        }
        (2, _) => from_positional(call)?,
        _ => {
            let text = "wrong number of arguments to redis.register_function";
            return Err(refuse(call, text));
        }
    };
    if !is_name(&registration.name) {
        let text = "Library names can only contain letters, numbers, or underscores(_) and must \
                    be at least one character long";
        return Err(refuse(call, text));
    }
    if registering.bodies.contains_key(&registration.name) {
        return Err(refuse(call, "Function already exists in the library"));
    }
    let body = call.lua.create_registry_value(body)?;
    registering.bodies.insert(registration.name.clone(), body);
    registering.registrations.push(registration);
    Ok(())
}

fn from_positional(call: &Call<'_>) -> mlua::Result<(Registration, Function)> {
    let Some(name) = call.lua.coerce_string(call.get(0).clone())? else {
        let text = "first argument to redis.register_function must be a string";
        return Err(refuse(call, text));
    };
    let Value::Function(body) = call.get(1) else {
        let text = "second argument to redis.register_function must be a function";
        return Err(refuse(call, text));
    };
    let name = (*name.as_bytes()).into();
    let registration = Registration { name, description: None, flags: Flags::default() };
    Ok((registration, body.clone()))
}

fn from_named(call: &Call<'_>, named: &Table) -> mlua::Result<(Registration, Function)> {
    let (mut name, mut description, mut body) = (None, None, None);
    let mut flags = Flags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = call.lua.coerce_string(key)? else {
            let text = "named argument key given to redis.register_function is not a string";
            return Err(refuse(call, text));
        };
        let text = call.lua.coerce_string(value.clone()).ok().flatten();
        let text = text.map(|text| Box::<[u8]>::from(&*text.as_bytes()));
        let what = match (&*key.as_bytes(), value) {
            (b"function_name", _) if text.is_some() => {
                name = text;
                continue;
            }
            (b"description", _) if text.is_some() => {
                description = text;
                continue;
            }
            (b"callback", Value::Function(function)) => {
                body = Some(function);
                continue;
            }
            (b"flags", Value::Table(names)) => {
                flags = flags_of(call, &names)?;
                continue;
            }
            (b"function_name", _) => "function_name argument given to $ must be a string",
            (b"description", _) => "description argument given to $ must be a string",
            (b"callback", _) => "callback argument given to $ must be a function",
            (b"flags", _) => "flags argument to $ must be a table representing function flags",
            _ => "unknown argument given to $",
        };
        return Err(refuse(call, &what.replace('$', "redis.register_function")));
    }
    let Some(name) = name else {
        let text = "redis.register_function must get a function name argument";
        return Err(refuse(call, text));
    };
    let Some(body) = body else {
        return Err(refuse(call, "redis.register_function must get a callback argument"));
    };
    Ok((Registration { name, description, flags }, body))
}

fn flags_of(call: &Call<'_>, names: &Table) -> mlua::Result<Flags> {
    let mut flags = Flags::default();
    for index in 1_usize.. {
        let is_known = match names.raw_get(index)? {
            Value::Nil => return Ok(flags),
            Value::String(name) => flags.set(&name.as_bytes()),
            _ => false,
        };
        if !is_known {
            return Err(refuse(call, "unknown flag given"));
        }
    }
    Ok(flags)
}
