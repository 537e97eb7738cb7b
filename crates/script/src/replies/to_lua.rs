//! The reply of a nested command, read straight into Lua values.
//!
//! Invariant: replies come from our own commands, so they are well formed; one that is not ends the
//! run with an error, and never with a panic.

use base::number::parse_i64;
use mlua::{Lua, Table, Value};

use crate::call::Raised;

/// What a nested command answered.
pub(crate) enum Received {
    /// A value.
    Value(Value),
    /// An error, its code first.
    Error(Vec<u8>),
}

/// Reads one whole reply.
pub(crate) fn receive(lua: &Lua, reply: &[u8]) -> mlua::Result<Received> {
    if let [b'-', rest @ ..] = reply {
        return Ok(Received::Error(line_of(rest).to_vec()));
    }
    let mut reader = Reader { lua, rest: reply };
    Ok(Received::Value(reader.value()?))
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> mlua::Result<Value> {
        let line = self.line()?;
        let Some((kind, text)) = line.split_first() else { return Err(malformed()) };
        Ok(match kind {
            b'$' => match self.bytes(text)? {
                Some(bytes) => Value::String(self.lua.create_string(bytes)?),
                None => Value::Boolean(false),
            },
            b':' => Value::Number(parse_i64(text).ok_or_else(malformed)? as f64),
            b'+' => self.field("ok", self.string(text)?)?,
            b'-' => self.field("err", self.string(text)?)?,
            b'*' if text == b"-1" => Value::Boolean(false),
            b'*' | b'>' => self.array(count(text)?)?,
            b'%' => {
                let map = self.map(count(text)?)?;
                self.field("map", map)?
            }
            b'~' => {
                let set = self.set(count(text)?)?;
                self.field("set", set)?
            }
            b'_' => Value::Nil,
            b'#' => Value::Boolean(text == b"t"),
            b',' => self.field("double", Value::Number(double(text)?))?,
            b'(' => self.field("big_number", self.string(text)?)?,
            b'=' => self.verbatim(text)?,
            b'|' => {
                self.map(count(text)?)?;
                self.value()?
            }
            _ => return Err(malformed()),
        })
    }

    /// The next line without its end.
    fn line(&mut self) -> mlua::Result<&'a [u8]> {
        let line = line_of(self.rest);
        self.rest = self.rest.get(line.len() + 2..).ok_or_else(malformed)?;
        Ok(line)
    }

    /// The bytes of a string whose length was read; `None` for the null string.
    fn bytes(&mut self, length: &[u8]) -> mlua::Result<Option<&'a [u8]>> {
        if length == b"-1" {
            return Ok(None);
        }
        let length = count(length)?;
        let bytes = self.rest.get(..length).ok_or_else(malformed)?;
        self.rest = self.rest.get(length + 2..).ok_or_else(malformed)?;
        Ok(Some(bytes))
    }

    fn string(&self, text: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(text)?))
    }

    /// A table of one field.
    fn field(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn array(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(count.min(self.rest.len()), 0)?;
        for index in 1..=count {
            table.raw_set(index, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value()?;
            let value = self.value()?;
            self.set_pair(&table, key, value)?;
        }
        Ok(Value::Table(table))
    }

    fn set(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let member = self.value()?;
            self.set_pair(&table, member, Value::Boolean(true))?;
        }
        Ok(Value::Table(table))
    }

    /// What cannot be a key is left out.
    fn set_pair(&self, table: &Table, key: Value, value: Value) -> mlua::Result<()> {
        match key {
            Value::Nil => Ok(()),
            Value::Number(number) if number.is_nan() => Ok(()),
            key => table.raw_set(key, value),
        }
    }

    fn verbatim(&mut self, length: &[u8]) -> mlua::Result<Value> {
        let Some([a, b, c, b':', text @ ..]) = self.bytes(length)? else {
            return Err(malformed());
        };
        let inner = self.lua.create_table_with_capacity(0, 2)?;
        inner.raw_set("format", self.string(&[*a, *b, *c])?)?;
        inner.raw_set("string", self.string(text)?)?;
        self.field("verbatim_string", Value::Table(inner))
    }
}

/// What comes before the first line end.
fn line_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\r');
    &bytes[..end.unwrap_or(bytes.len())]
}

fn count(text: &[u8]) -> mlua::Result<usize> {
    parse_i64(text).and_then(|count| usize::try_from(count).ok()).ok_or_else(malformed)
}

fn double(text: &[u8]) -> mlua::Result<f64> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

fn malformed() -> mlua::Error {
    Raised::Text(b"ERR a command's reply is malformed".to_vec()).into()
}
