//! What a script returns, as a reply.
//!
//! Invariants: nesting is bounded; what is written is bounded by the interpreter's room, since a
//! few bytes of Lua can stand for many of a reply.

use mlua::{Lua, Table, Value};
use proto::{Reply, Resp};

use crate::call::to_i64;
use crate::room::check_room;

/// How deep the tables of a reply nest at most.
const DEPTH_MAX: usize = 1000;

/// The names of the fields that make a table more than an array, as Lua strings.
pub(crate) struct Fields {
    pub(crate) err: mlua::String,
    pub(crate) ok: mlua::String,
    pub(crate) double: mlua::String,
    pub(crate) map: mlua::String,
    pub(crate) set: mlua::String,
    pub(crate) big_number: mlua::String,
    pub(crate) verbatim_string: mlua::String,
    pub(crate) string: mlua::String,
    pub(crate) format: mlua::String,
}

impl Fields {
    /// Makes them once.
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Fields> {
        Ok(Fields {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            string: lua.create_string("string")?,
            format: lua.create_string("format")?,
        })
    }
}

/// Writes a value; `resp` is what the script speaks, which may differ from what its client does.
pub(crate) fn write_value(
    lua: &Lua,
    fields: &Fields,
    value: &Value,
    resp: Resp,
    reply: &mut Reply<'_>,
) -> mlua::Result<()> {
    Writer { lua, fields, resp, start: reply.unsent() }.value(value, reply, 0)
}

struct Writer<'a> {
    lua: &'a Lua,
    fields: &'a Fields,
    resp: Resp,
    /// What was there before.
    start: usize,
}

impl Writer<'_> {
    fn value(&self, value: &Value, reply: &mut Reply<'_>, depth: usize) -> mlua::Result<()> {
        match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                check_room(self.lua, reply.unsent() - self.start + bytes.len())?;
                reply.bulk(&bytes);
            }
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => reply.integer(to_i64(*number)),
            Value::Boolean(value) => match (self.resp, value) {
                (Resp::Three, value) => reply.boolean(*value),
                (Resp::Two, true) => reply.integer(1),
                (Resp::Two, false) => reply.null(),
            },
            Value::Table(table) => self.table(table, reply, depth + 1)?,
            _ => reply.null(),
        }
        Ok(())
    }

    fn table(&self, table: &Table, reply: &mut Reply<'_>, depth: usize) -> mlua::Result<()> {
        if depth > DEPTH_MAX {
            reply.error("ERR reached lua stack limit");
            return Ok(());
        }
        check_room(self.lua, reply.unsent() - self.start)?;
        let fields = self.fields;
        if let Some(text) = text_of(table, &fields.err)? {
            reply.error(text.as_bytes());
        } else if let Some(text) = text_of(table, &fields.ok)? {
            reply.simple(&text.to_string_lossy());
        } else if let Some(number) = number_of(table, &fields.double)? {
            reply.double(number);
        } else if let Value::Table(map) = table.raw_get(&fields.map)? {
            self.map(&map, reply, depth)?;
        } else if let Value::Table(set) = table.raw_get(&fields.set)? {
            self.set(&set, reply, depth)?;
        } else if let Some(text) = text_of(table, &fields.big_number)? {
            reply.big_number(&text.to_string_lossy().replace(['\r', '\n'], " "));
        } else if let Some((format, text)) = self.verbatim(table)? {
            reply.verbatim(&format, &text.as_bytes());
        } else {
            self.array(table, reply, depth)?;
        }
        Ok(())
    }

    /// A format of three letters and its text.
    fn verbatim(&self, table: &Table) -> mlua::Result<Option<(String, mlua::String)>> {
        let Value::Table(inner) = table.raw_get(&self.fields.verbatim_string)? else {
            return Ok(None);
        };
        let format = text_of(&inner, &self.fields.format)?;
        let (Some(format), Some(text)) = (format, text_of(&inner, &self.fields.string)?) else {
            return Ok(None);
        };
        let letters = format.as_bytes();
        let letters = letters.iter().filter(|byte| byte.is_ascii_graphic()).chain(b"   ").take(3);
        Ok(Some((letters.map(|byte| char::from(*byte)).collect(), text)))
    }

    fn map(&self, map: &Table, reply: &mut Reply<'_>, depth: usize) -> mlua::Result<()> {
        let mark = reply.defer();
        let mut count = 0;
        map.for_each(|key: Value, value: Value| {
            count += 1;
            self.value(&key, reply, depth)?;
            self.value(&value, reply, depth)
        })?;
        reply.finish_map(mark, count);
        Ok(())
    }

    fn set(&self, set: &Table, reply: &mut Reply<'_>, depth: usize) -> mlua::Result<()> {
        let mark = reply.defer();
        let mut count = 0;
        set.for_each(|member: Value, _: Value| {
            count += 1;
            self.value(&member, reply, depth)
        })?;
        reply.finish_set(mark, count);
        Ok(())
    }

    /// The elements before the first nil.
    fn array(&self, table: &Table, reply: &mut Reply<'_>, depth: usize) -> mlua::Result<()> {
        let mark = reply.defer();
        for index in 1_usize.. {
            let element: Value = table.raw_get(index)?;
            if element.is_nil() {
                reply.finish_array(mark, index - 1);
                break;
            }
            self.value(&element, reply, depth)?;
        }
        Ok(())
    }
}

/// A field that is a string, or a number as one.
fn text_of(table: &Table, field: &mlua::String) -> mlua::Result<Option<mlua::String>> {
    match table.raw_get(field)? {
        Value::String(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}

fn number_of(table: &Table, field: &mlua::String) -> mlua::Result<Option<f64>> {
    Ok(match table.raw_get(field)? {
        Value::Integer(number) => Some(number as f64),
        Value::Number(number) => Some(number),
        _ => None,
    })
}
