//! JSON written as lua-cjson writes it.
//!
//! Invariant: a table's keys decide whether it is an array, before anything of it is written.

use base::number::format_f64_digits;
use mlua::{Table, Value};

use super::super::DEPTH_MAX;
use super::{Invalid, Settings};
use crate::call::{Call, type_name};
use crate::room::check_room;

/// Encodes the one argument.
pub(super) fn encode(
    call: &Call<'_>,
    settings: &Settings,
    arrays: &Table,
) -> mlua::Result<mlua::String> {
    if call.args.len() != 1 {
        return Err(call.bad_argument(0, "expected 1 argument"));
    }
    let mut encoder = Encoder { call, settings, arrays, out: Vec::new() };
    encoder.value(call.get(0), 0)?;
    call.lua.create_string(&encoder.out)
}

struct Encoder<'a> {
    call: &'a Call<'a>,
    settings: &'a Settings,
    arrays: &'a Table,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        check_room(self.call.lua, self.out.len())?;
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            null if *null == Value::NULL => self.out.extend_from_slice(b"null"),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refuse(type_name(other), "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encodes_invalid {
                Invalid::Refused => {
                    return Err(self.refuse("number", "must not be NaN or Inf"));
                }
                Invalid::Null => {
                    self.out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        self.out.extend_from_slice(&format_f64_digits(number, self.settings.precision));
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            let escape = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                8 => b'b',
                9 => b't',
                10 => b'n',
                12 => b'f',
                13 => b'r',
                0..32 | 127 => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                other => {
                    self.out.push(*other);
                    continue;
                }
            };
            self.out.extend_from_slice(&[b'\\', escape]);
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth > self.settings.encode_depth.min(DEPTH_MAX) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(self.call.error(text));
        }
        match self.array_length(table)? {
            Some(length) => self.array(table, length, depth),
            None => self.object(table, depth),
        }
    }

    /// The length of a table that is an array; an empty one is, if it was decoded from one.
    fn array_length(&self, table: &Table) -> mlua::Result<Option<usize>> {
        let mut count = 0;
        let mut greatest = Some(0);
        table.for_each(|key: Value, _: Value| {
            count += 1;
            greatest = match (greatest, key) {
                (Some(greatest), Value::Integer(key)) if key > 0 => {
                    Some(greatest.max(key as usize))
                }
                _ => None,
            };
            Ok(())
        })?;
        let Some(greatest) = greatest else { return Ok(None) };
        if greatest == 0 {
            let is_marked = table.metatable().is_some_and(|mark| mark == *self.arrays);
            return Ok(is_marked.then_some(0));
        }
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0
            && greatest > count * settings.sparse_ratio
            && greatest > settings.sparse_safe;
        if !is_sparse {
            return Ok(Some(greatest));
        }
        if settings.convert_sparse {
            return Ok(None);
        }
        Err(self.refuse("table", "excessively sparse array"))
    }

    fn array(&mut self, table: &Table, length: usize, depth: usize) -> mlua::Result<()> {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        table.for_each(|key: Value, value: Value| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match key {
                Value::String(key) => self.text(&key.as_bytes()),
                Value::Integer(key) => self.quoted_number(key as f64)?,
                Value::Number(key) => self.quoted_number(key)?,
                other => {
                    let kind = type_name(&other);
                    return Err(self.refuse(kind, "table key must be a number or string"));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)
        })?;
        self.out.push(b'}');
        Ok(())
    }

    fn quoted_number(&mut self, number: f64) -> mlua::Result<()> {
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    fn refuse(&self, kind: &str, reason: &str) -> mlua::Error {
        self.call.error(format!("Cannot serialise {kind}: {reason}"))
    }
}
