//! Values on Lua's stack: made of the reply of a nested command, and written as a script's own.
//!
//! Invariants: replies of commands come from our own, so they are well formed; one that is not is
//! refused, never a panic. What a script returns is bounded in its depth and by the room it has,
//! since a few bytes of Lua can stand for many of a reply. What may raise leaves by a jump, so a
//! function that pushes holds nothing that would have to be dropped.

use std::cell::Cell;
use std::ffi::c_int;

use base::number::parse_i64;
use mlua::ffi::{self, lua_State};
use mlua::{Lua, RegistryKey};
use proto::{Reply, Resp};

use crate::call::to_i64;
use crate::error::before_nul;

/// How deep the tables of a reply nest at most.
const DEPTH_MAX: usize = 1000;

/// What a value takes of Lua's memory where it stands in a table.
const VALUE_BYTES: usize = 16;

/// How many values a reply may have whatever memory they take: those of a table that stands in many
/// places take it once.
const SHARED_VALUES_MAX: usize = 1 << 20;

/// The slots that one level of a value takes at most.
const LEVEL_SLOTS: c_int = 6;

/// Pushes the value that a whole reply stands for. If it is none, `false`, and what was pushed is
/// anything.
///
/// # Safety
///
/// Called by a C function of Lua's, with `LUA_MINSTACK` free slots; whatever it raises jumps over
/// the caller.
pub(crate) unsafe fn push_reply(state: *mut lua_State, reply: &[u8]) -> bool {
    let mut reader = Reader { state, rest: reply };
    // SAFETY: as the caller promises; each level sees to its own slots.
    unsafe { reader.value() }.is_some()
}

struct Reader<'a> {
    state: *mut lua_State,
    rest: &'a [u8],
}

/// Each of the functions that are `unsafe` pushes on `state`, as `push_reply` does; `None` says
/// that the reply is malformed.
impl<'a> Reader<'a> {
    unsafe fn value(&mut self) -> Option<()> {
        let (kind, text) = self.line()?.split_first()?;
        let state = self.state;
        // SAFETY: as for `push_reply`.
        unsafe {
            match kind {
                b'$' => match self.bytes(text)? {
                    Some(bytes) => push_string(state, bytes),
                    None => ffi::lua_pushboolean(state, 0),
                },
                b':' => ffi::lua_pushnumber(state, parse_i64(text)? as f64),
                b'+' => self.string_field(b"ok", text),
                b'-' => self.string_field(b"err", text),
                b'*' if text == b"-1" => ffi::lua_pushboolean(state, 0),
                b'*' | b'>' => self.array(count(text)?)?,
                b'%' => self.pairs(b"map", count(text)?, true)?,
                b'~' => self.pairs(b"set", count(text)?, false)?,
                b'_' => ffi::lua_pushnil(state),
                b'#' => ffi::lua_pushboolean(state, c_int::from(text == b"t")),
                b',' => {
                    self.open(b"double");
                    ffi::lua_pushnumber(state, double(text)?);
                    ffi::lua_rawset(state, -3);
                }
                b'(' => self.string_field(b"big_number", text),
                b'=' => self.verbatim(text)?,
                b'|' => {
                    self.pairs(b"map", count(text)?, true)?;
                    ffi::lua_pop(state, 1);
                    return self.value();
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// The next line without its end.
    fn line(&mut self) -> Option<&'a [u8]> {
        let line = line_of(self.rest);
        self.rest = self.rest.get(line.len() + 2..)?;
        Some(line)
    }

    /// The bytes of a string whose length was read; `None` for the null string.
    fn bytes(&mut self, length: &[u8]) -> Option<Option<&'a [u8]>> {
        if length == b"-1" {
            return Some(None);
        }
        let length = count(length)?;
        let bytes = self.rest.get(..length)?;
        self.rest = self.rest.get(length + 2..)?;
        Some(Some(bytes))
    }

    /// A table for one field, and the field's name.
    unsafe fn open(&self, name: &[u8]) {
        // SAFETY: as for `push_reply`.
        unsafe {
            ffi::lua_createtable(self.state, 0, 1);
            push_string(self.state, name);
        }
    }

    unsafe fn string_field(&self, name: &[u8], text: &[u8]) {
        // SAFETY: as for `push_reply`.
        unsafe {
            self.open(name);
            push_string(self.state, text);
            ffi::lua_rawset(self.state, -3);
        }
    }

    unsafe fn array(&mut self, count: usize) -> Option<()> {
        // No element takes less than a byte.
        let capacity = count.min(self.rest.len());
        // SAFETY: as for `push_reply`; there are slots for one more level.
        unsafe {
            if ffi::lua_checkstack(self.state, LEVEL_SLOTS) == 0 {
                return None;
            }
            ffi::lua_createtable(self.state, c_int::try_from(capacity).ok()?, 0);
            for index in 1..=c_int::try_from(count).ok()? {
                self.value()?;
                ffi::lua_rawseti_(self.state, -2, index);
            }
        }
        Some(())
    }

    /// A table with the field `name`, whose keys are those of a map or the members of a set. What
    /// cannot be a key is left out.
    unsafe fn pairs(&mut self, name: &[u8], count: usize, has_values: bool) -> Option<()> {
        let state = self.state;
        // SAFETY: as for `push_reply`; there are slots for one more level.
        unsafe {
            if ffi::lua_checkstack(state, LEVEL_SLOTS) == 0 {
                return None;
            }
            self.open(name);
            ffi::lua_createtable(state, 0, 0);
            for _ in 0..count {
                self.value()?;
                if has_values {
                    self.value()?;
                } else {
                    ffi::lua_pushboolean(state, 1);
                }
                let is_key = match ffi::lua_type(state, -2) {
                    ffi::LUA_TNIL => false,
                    ffi::LUA_TNUMBER => !ffi::lua_tonumber(state, -2).is_nan(),
                    _ => true,
                };
                if is_key {
                    ffi::lua_rawset(state, -3);
                } else {
                    ffi::lua_pop(state, 2);
                }
            }
            ffi::lua_rawset(state, -3);
        }
        Some(())
    }

    unsafe fn verbatim(&mut self, length: &[u8]) -> Option<()> {
        let Some([a, b, c, b':', text @ ..]) = self.bytes(length)? else { return None };
        // SAFETY: as for `push_reply`.
        unsafe {
            self.open(b"verbatim_string");
            ffi::lua_createtable(self.state, 0, 2);
            for (name, text) in [(&b"format"[..], &[*a, *b, *c][..]), (b"string", text)] {
                push_string(self.state, name);
                push_string(self.state, text);
                ffi::lua_rawset(self.state, -3);
            }
            ffi::lua_rawset(self.state, -3);
        }
        Some(())
    }
}

/// # Safety
///
/// As for `push_reply`.
unsafe fn push_string(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: as the caller promises; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) };
}

/// What comes before the first line end.
fn line_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\r');
    &bytes[..end.unwrap_or(bytes.len())]
}

fn count(text: &[u8]) -> Option<usize> {
    usize::try_from(parse_i64(text)?).ok()
}

fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The names of the fields that make a table more than an array, as Lua strings.
pub(crate) struct Fields {
    err: RegistryKey,
    ignore_error_stats_update: RegistryKey,
    ok: RegistryKey,
    double: RegistryKey,
    map: RegistryKey,
    set: RegistryKey,
    big_number: RegistryKey,
    verbatim_string: RegistryKey,
    string: RegistryKey,
    format: RegistryKey,
}

impl Fields {
    /// Makes them once.
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Fields> {
        let name = |text: &str| lua.create_registry_value(text);
        Ok(Fields {
            err: name("err")?,
            ignore_error_stats_update: name("ignore_error_stats_update")?,
            ok: name("ok")?,
            double: name("double")?,
            map: name("map")?,
            set: name("set")?,
            big_number: name("big_number")?,
            verbatim_string: name("verbatim_string")?,
            string: name("string")?,
            format: name("format")?,
        })
    }
}

/// What stands in place of a value that lies too deep.
const STACK_LIMIT: &str = "ERR reached lua stack limit";

/// The value takes more than there is room for.
#[derive(Debug)]
pub(crate) struct ResultTooLarge;

/// Writes the value on top of the stack, in at most `budget` bytes; `memory` is what Lua has in
/// use. `resp` is what the script speaks, which may differ from what its client does. Each error in
/// it is told to `on_error`, and whether it is new: see
/// [`Host::note_returned_error`](crate::Host::note_returned_error).
///
/// # Safety
///
/// The stack has `LUA_MINSTACK` free slots, memory has no limit, and the names in `fields` are of
/// this Lua. Then nothing here raises.
pub(crate) unsafe fn write_value(
    state: *mut lua_State,
    fields: &Fields,
    (budget, memory): (usize, usize),
    resp: Resp,
    on_error: &dyn Fn(&[u8], bool),
    reply: &mut Reply<'_>,
) -> Result<(), ResultTooLarge> {
    let end = reply.unsent().saturating_add(budget);
    let values_left = Cell::new(SHARED_VALUES_MAX.max(memory / VALUE_BYTES));
    let writer = Writer { state, fields, resp, on_error, end, values_left };
    // SAFETY: as the caller promises.
    unsafe { writer.value(reply, 0) }
}

struct Writer<'a> {
    state: *mut lua_State,
    fields: &'a Fields,
    resp: Resp,
    on_error: &'a dyn Fn(&[u8], bool),
    /// How long the reply may become.
    end: usize,
    /// How many more values may be written. A table is written wherever it stands, and thirty
    /// tables that each name the one before twice are 2^30.
    values_left: Cell<usize>,
}

/// The functions that are `unsafe` read from `state` under the conditions of `write_value`, and
/// leave it as it was unless room runs out.
impl Writer<'_> {
    /// Writes the value on top.
    unsafe fn value(&self, reply: &mut Reply<'_>, depth: usize) -> Result<(), ResultTooLarge> {
        let state = self.state;
        self.values_left.set(self.values_left.get().checked_sub(1).ok_or(ResultTooLarge)?);
        // SAFETY: as for `write_value`.
        unsafe {
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => {
                    let bytes = self.string();
                    self.check_result_budget(reply.unsent() + bytes.len())?;
                    reply.bulk(bytes);
                }
                ffi::LUA_TNUMBER => reply.integer(to_i64(ffi::lua_tonumber(state, -1))),
                ffi::LUA_TBOOLEAN => match (self.resp, ffi::lua_toboolean(state, -1) != 0) {
                    (Resp::Three, value) => reply.boolean(value),
                    (Resp::Two, true) => reply.integer(1),
                    (Resp::Two, false) => reply.null(),
                },
                ffi::LUA_TTABLE => self.table(reply, depth + 1)?,
                _ => reply.null(),
            }
        }
        Ok(())
    }

    fn check_result_budget(&self, length: usize) -> Result<(), ResultTooLarge> {
        if length > self.end { Err(ResultTooLarge) } else { Ok(()) }
    }

    /// The bytes of the string on top, for as long as it is there.
    unsafe fn string(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the value is a string, so nothing is converted; a string stays where it is while
        // it is on the stack.
        unsafe {
            let bytes = ffi::lua_tolstring(self.state, -1, &mut length);
            std::slice::from_raw_parts(bytes.cast(), length)
        }
    }

    unsafe fn table(&self, reply: &mut Reply<'_>, depth: usize) -> Result<(), ResultTooLarge> {
        // SAFETY: as for `write_value`; the slots are there.
        unsafe {
            if depth > DEPTH_MAX || ffi::lua_checkstack(self.state, LEVEL_SLOTS) == 0 {
                reply.error(STACK_LIMIT);
                (self.on_error)(STACK_LIMIT.as_bytes(), true);
                return Ok(());
            }
            self.check_result_budget(reply.unsent())?;
            let is_special = self.named(reply, depth)?;
            if is_special { Ok(()) } else { self.array(reply, depth) }
        }
    }

    /// Writes a table that is more than an array, because of a field that it has.
    unsafe fn named(&self, reply: &mut Reply<'_>, depth: usize) -> Result<bool, ResultTooLarge> {
        let fields = self.fields;
        // SAFETY: as for `write_value`.
        unsafe {
            if self.enter(&fields.err, ffi::LUA_TSTRING) {
                reply.error(before_nul(self.string()));
                self.report_error();
            } else if self.enter(&fields.ok, ffi::LUA_TSTRING) {
                reply.simple(before_nul(self.string()));
            } else if self.enter(&fields.double, ffi::LUA_TNUMBER) {
                reply.double(ffi::lua_tonumber(self.state, -1));
            } else if self.enter(&fields.map, ffi::LUA_TTABLE) {
                self.pairs(reply, depth, true)?;
            } else if self.enter(&fields.set, ffi::LUA_TTABLE) {
                self.pairs(reply, depth, false)?;
            } else if self.enter(&fields.big_number, ffi::LUA_TSTRING) {
                let digits = String::from_utf8_lossy(self.string());
                reply.big_number(&digits.replace(['\r', '\n'], " "));
            } else if self.enter(&fields.verbatim_string, ffi::LUA_TTABLE) {
                let is_text = self.verbatim(reply);
                self.leave();
                return Ok(is_text);
            } else {
                return Ok(false);
            }
            self.leave();
        }
        Ok(true)
    }

    /// Tells of the error whose text is on top, with its table below.
    unsafe fn report_error(&self) {
        let state = self.state;
        // SAFETY: as for `write_value`; the text stays where it is, as its table is on the stack.
        unsafe {
            let text = before_nul(self.string());
            ffi::lua_rawgeti_(
                state,
                ffi::LUA_REGISTRYINDEX,
                self.fields.ignore_error_stats_update.id(),
            );
            ffi::lua_rawget_(state, -3);
            let is_counted =
                ffi::lua_type(state, -1) == ffi::LUA_TBOOLEAN && ffi::lua_toboolean(state, -1) != 0;
            self.leave();
            (self.on_error)(text, !is_counted);
        }
    }

    /// Pushes a field of the table on top, if it is of a type.
    unsafe fn enter(&self, name: &RegistryKey, kind: c_int) -> bool {
        // SAFETY: as for `write_value`; a registry key of this Lua names a value of it.
        unsafe {
            ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, name.id());
            ffi::lua_rawget_(self.state, -2);
            let is_there = ffi::lua_type(self.state, -1) == kind;
            if !is_there {
                self.leave();
            }
            is_there
        }
    }

    /// Pops what `enter` pushed.
    unsafe fn leave(&self) {
        // SAFETY: there is a value on top.
        unsafe { ffi::lua_pop(self.state, 1) };
    }

    /// Writes a format of three letters and its text; `false` if the table on top has no such.
    unsafe fn verbatim(&self, reply: &mut Reply<'_>) -> bool {
        // SAFETY: as for `write_value`.
        unsafe {
            if !self.enter(&self.fields.format, ffi::LUA_TSTRING) {
                return false;
            }
            // Whatever they are, as in Redis.
            let mut format = [b' '; 3];
            let letters = before_nul(self.string());
            format.iter_mut().zip(letters).for_each(|(place, letter)| *place = *letter);
            self.leave();
            if !self.enter(&self.fields.string, ffi::LUA_TSTRING) {
                return false;
            }
            reply.verbatim(&format, self.string());
            self.leave();
        }
        true
    }

    /// Writes all keys of the table on top, with their values if it is a map.
    unsafe fn pairs(
        &self,
        reply: &mut Reply<'_>,
        depth: usize,
        has_values: bool,
    ) -> Result<(), ResultTooLarge> {
        let (state, mark) = (self.state, reply.defer());
        let mut count = 0;
        // SAFETY: as for `write_value`; the table does not change, so `lua_next` finds each key.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                count += 1;
                ffi::lua_pushvalue(state, -2);
                self.value(reply, depth)?;
                self.leave();
                if has_values {
                    self.value(reply, depth)?;
                }
                self.leave();
            }
        }
        if has_values {
            reply.finish_map(mark, count);
        } else {
            reply.finish_set(mark, count);
        }
        Ok(())
    }

    /// Writes the elements before the first nil.
    unsafe fn array(&self, reply: &mut Reply<'_>, depth: usize) -> Result<(), ResultTooLarge> {
        let mark = reply.defer();
        for index in 1.. {
            // SAFETY: as for `write_value`.
            unsafe {
                ffi::lua_rawgeti_(self.state, -1, index);
                if ffi::lua_type(self.state, -1) == ffi::LUA_TNIL {
                    self.leave();
                    reply.finish_array(mark, index as usize - 1);
                    break;
                }
                self.value(reply, depth)?;
                self.leave();
            }
        }
        Ok(())
    }
}
