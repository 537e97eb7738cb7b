//! JSON on Lua's own stack: each value is written where it lies and read to where it goes.
//!
//! Invariants: a table's keys decide whether it is an array, before anything of it is written;
//! nesting is bounded in both directions; what is held when Lua raises need not be dropped.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{LightUserData, Lua, Table};

use super::super::DEPTH_MAX;
use super::decode::{JsonToken, Kind, Scanner};
use super::encode::{ESCAPED_MAX, Keys, Shape, push_number, push_text, text_len};
use super::{JsonSettings, Settings};
use crate::scratch::{Problem, Scratch, bytes_at, finish, function, lend, tick};

/// So many slots each level of nesting needs.
const LEVEL_SLOTS: c_int = 8;
/// The metatable of arrays, among the upvalues of both functions.
const ARRAYS: c_int = ffi::lua_upvalueindex(2);
/// The settings of the instance, which the fourth upvalue keeps.
const SETTINGS: c_int = ffi::lua_upvalueindex(3);

/// Adds `encode` and `decode` to an instance of the library.
pub(super) fn add(
    lua: &Lua,
    table: &Table,
    scratch: &Rc<Scratch>,
    settings: &Rc<JsonSettings>,
    arrays: &Table,
) -> mlua::Result<()> {
    for (name, body) in [("encode", encode as ffi::lua_CFunction), ("decode", decode)] {
        let pointer = LightUserData(Rc::as_ptr(settings).cast_mut().cast());
        let keeper = lua.create_any_userdata(Rc::clone(settings))?;
        let upvalues = (arrays.clone(), pointer, keeper);
        table.raw_set(name, function(lua, scratch, body, upvalues)?)?;
    }
    Ok(())
}

/// The settings of the instance whose function runs.
///
/// # Safety
///
/// Called by a function that `add` made.
unsafe fn settings(state: *mut lua_State) -> Settings {
    // SAFETY: the upvalue behind it keeps what the pointer points to.
    unsafe { (*ffi::lua_touserdata(state, SETTINGS).cast::<JsonSettings>()).get() }
}

/// `cjson.encode`
///
/// # Safety
///
/// Called by Lua as `add` made it.
unsafe extern "C-unwind" fn encode(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: the bytes are given up at the end of this function; see `Encoder`.
        unsafe {
            if ffi::lua_gettop(state) != 1 {
                return Err(scratch.problem(Problem::Argument(1), "expected 1 argument"));
            }
            let settings = settings(state);
            let mut encoder =
                Encoder { state, settings, out: lend(scratch), budget: scratch.budget() };
            encoder.value(0)?;
            ffi::lua_pushlstring_(state, encoder.out.as_ptr().cast(), encoder.out.len());
        }
        Ok(1)
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

struct Encoder<'a> {
    state: *mut lua_State,
    settings: Settings,
    out: &'a mut Vec<u8>,
    budget: usize,
}

/// The functions that are `unsafe` read the value on top of the stack of `state`, leave it there,
/// and find `LEVEL_SLOTS` free slots.
impl Encoder<'_> {
    unsafe fn value(&mut self, depth: usize) -> Result<(), Problem> {
        Problem::check_result_budget(self.out.len(), self.budget)?;
        let state = self.state;
        // SAFETY: as said above.
        unsafe {
            tick(state, 1);
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => self.text(bytes_at(state, -1))?,
                ffi::LUA_TNUMBER => self.number(ffi::lua_tonumber(state, -1))?,
                ffi::LUA_TBOOLEAN => {
                    let is_true = ffi::lua_toboolean(state, -1) != 0;
                    self.out.extend_from_slice(if is_true { b"true" } else { b"false" });
                }
                ffi::LUA_TNIL => self.out.extend_from_slice(b"null"),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(state, -1).is_null() => {
                    self.out.extend_from_slice(b"null");
                }
                ffi::LUA_TTABLE => self.table(depth + 1)?,
                other => return Err(self.refuse(name_of(other), "type not supported")),
            }
        }
        Ok(())
    }

    /// One text can be as long as memory allows, and six times as long in the end: whether there is
    /// room is asked before it grows.
    fn text(&mut self, text: &[u8]) -> Result<(), Problem> {
        let budget = self.budget.saturating_sub(self.out.len());
        if text.len().saturating_mul(ESCAPED_MAX) > budget {
            let len = text_len(text);
            Problem::check_result_budget(len, budget)?;
            self.out.reserve_exact(len);
        }
        push_text(self.out, text);
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Problem> {
        if push_number(self.out, number, &self.settings) {
            return Ok(());
        }
        Err(self.refuse("number", "must not be NaN or Inf"))
    }

    unsafe fn table(&mut self, depth: usize) -> Result<(), Problem> {
        if depth > self.settings.encode_depth.min(DEPTH_MAX) {
            return Err(self.fail(&format!("Cannot serialise, excessive nesting ({depth})")));
        }
        // SAFETY: as said above.
        unsafe {
            if ffi::lua_checkstack(self.state, LEVEL_SLOTS) == 0 {
                return Err(Problem::ResultTooLarge);
            }
            match self.keys().shape(&self.settings) {
                Shape::Array(length) => self.array(length, depth),
                Shape::Empty if self.is_marked() => self.array(0, depth),
                Shape::Empty | Shape::Object => self.object(depth),
                Shape::TooSparse => Err(self.refuse("table", "excessively sparse array")),
            }
        }
    }

    /// Whether the table on top has the metatable of arrays.
    unsafe fn is_marked(&self) -> bool {
        // SAFETY: as said above.
        unsafe {
            if ffi::lua_getmetatable(self.state, -1) == 0 {
                return false;
            }
            let is_marked = ffi::lua_rawequal(self.state, -1, ARRAYS) != 0;
            ffi::lua_pop(self.state, 1);
            is_marked
        }
    }

    unsafe fn keys(&self) -> Keys {
        let state = self.state;
        let mut keys = Keys { count: 0, greatest: Some(0) };
        // SAFETY: as said above; the table does not change while it is gone through.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                ffi::lua_pop(state, 1);
                keys.count += 1;
                let is_number = ffi::lua_type(state, -1) == ffi::LUA_TNUMBER;
                let number = if is_number { ffi::lua_tonumber(state, -1) } else { 0.0 };
                let key = number as usize;
                let Some(greatest) = keys.greatest.filter(|_| key > 0 && key as f64 == number)
                else {
                    // An object, whatever comes.
                    ffi::lua_pop(state, 1);
                    keys.greatest = None;
                    break;
                };
                keys.greatest = Some(greatest.max(key));
            }
        }
        keys
    }

    unsafe fn array(&mut self, length: usize, depth: usize) -> Result<(), Problem> {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            // SAFETY: as said above.
            unsafe {
                ffi::lua_rawgeti_(self.state, -1, index as c_int);
                self.value(depth)?;
                ffi::lua_pop(self.state, 1);
            }
        }
        self.out.push(b']');
        Ok(())
    }

    unsafe fn object(&mut self, depth: usize) -> Result<(), Problem> {
        let state = self.state;
        self.out.push(b'{');
        let mut is_first = true;
        // SAFETY: as said above; a key is read as what it is, so it stays what it was.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                if !std::mem::take(&mut is_first) {
                    self.out.push(b',');
                }
                match ffi::lua_type(state, -2) {
                    ffi::LUA_TSTRING => self.text(bytes_at(state, -2))?,
                    ffi::LUA_TNUMBER => {
                        self.out.push(b'"');
                        self.number(ffi::lua_tonumber(state, -2))?;
                        self.out.push(b'"');
                    }
                    other => {
                        let reason = "table key must be a number or string";
                        return Err(self.refuse(name_of(other), reason));
                    }
                }
                self.out.push(b':');
                self.value(depth)?;
                ffi::lua_pop(state, 1);
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn refuse(&mut self, kind: &str, reason: &str) -> Problem {
        self.fail(&format!("Cannot serialise {kind}: {reason}"))
    }

    fn fail(&mut self, text: &str) -> Problem {
        self.out.clear();
        self.out.extend_from_slice(text.as_bytes());
        Problem::Located
    }
}

/// A type as Lua names it.
fn name_of(kind: c_int) -> &'static str {
    match kind {
        ffi::LUA_TNIL => "nil",
        ffi::LUA_TBOOLEAN => "boolean",
        ffi::LUA_TLIGHTUSERDATA | ffi::LUA_TUSERDATA => "userdata",
        ffi::LUA_TNUMBER => "number",
        ffi::LUA_TSTRING => "string",
        ffi::LUA_TTABLE => "table",
        ffi::LUA_TFUNCTION => "function",
        _ => "thread",
    }
}

/// `cjson.decode`
///
/// # Safety
///
/// Called by Lua as `add` made it.
unsafe extern "C-unwind" fn decode(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: the text stays at the bottom of the stack, and the bytes are given up at the end
        // of this function; see `Decoder`.
        unsafe {
            if ffi::lua_gettop(state) != 1 {
                return Err(scratch.problem(Problem::Argument(1), "expected 1 argument"));
            }
            ffi::luaL_checklstring(state, 1, std::ptr::null_mut());
            let text: &[u8] = bytes_at(state, 1);
            if matches!(*text, [0, _, ..] | [_, 0, ..]) {
                return Err(scratch.located("JSON parser does not support UTF-16 or UTF-32"));
            }
            let settings = settings(state);
            let scanner = Scanner::new(text, settings.decodes_invalid);
            let mut decoder = Decoder { state, settings, scanner, scratch: lend(scratch) };
            let first = decoder.token();
            decoder.value(first, 0)?;
            let last = decoder.token();
            if !matches!(last.kind, Kind::End) {
                return Err(decoder.unexpected("the end", &last));
            }
        }
        Ok(1)
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

struct Decoder<'a> {
    state: *mut lua_State,
    settings: Settings,
    scanner: Scanner<'a>,
    scratch: &'a mut Vec<u8>,
}

/// The functions that are `unsafe` push a value on `state`, where `LEVEL_SLOTS` slots are free.
impl<'a> Decoder<'a> {
    fn token(&mut self) -> JsonToken<'a> {
        self.scanner.token(self.scratch)
    }

    unsafe fn value(&mut self, token: JsonToken<'a>, depth: usize) -> Result<(), Problem> {
        let state = self.state;
        // SAFETY: as said above.
        unsafe {
            tick(state, 1);
            match token.kind {
                Kind::Plain(text) => push_string(state, text),
                Kind::Escaped => push_string(state, self.scratch),
                Kind::Number(number) => ffi::lua_pushnumber(state, number),
                Kind::Boolean(value) => ffi::lua_pushboolean(state, c_int::from(value)),
                Kind::Null => ffi::lua_pushlightuserdata(state, std::ptr::null_mut()),
                Kind::ObjectBegin => self.object(depth + 1)?,
                Kind::ArrayBegin => self.array(depth + 1)?,
                _ => return Err(self.unexpected("value", &token)),
            }
        }
        Ok(())
    }

    unsafe fn object(&mut self, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above.
        unsafe {
            self.open(depth)?;
            let mut token = self.token();
            if matches!(token.kind, Kind::ObjectEnd) {
                return Ok(());
            }
            loop {
                match token.kind {
                    Kind::Plain(text) => push_string(self.state, text),
                    Kind::Escaped => push_string(self.state, self.scratch),
                    _ => return Err(self.unexpected("object key string", &token)),
                }
                let colon = self.token();
                if !matches!(colon.kind, Kind::Colon) {
                    return Err(self.unexpected("colon", &colon));
                }
                let first = self.token();
                self.value(first, depth)?;
                ffi::lua_rawset(self.state, -3);
                let next = self.token();
                match next.kind {
                    Kind::ObjectEnd => return Ok(()),
                    Kind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or object end", &next)),
                }
            }
        }
    }

    unsafe fn array(&mut self, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above.
        unsafe {
            self.open(depth)?;
            if self.settings.marks_arrays {
                ffi::lua_pushvalue(self.state, ARRAYS);
                ffi::lua_setmetatable(self.state, -2);
            }
            let mut token = self.token();
            if matches!(token.kind, Kind::ArrayEnd) {
                return Ok(());
            }
            for index in 1.. {
                self.value(token, depth)?;
                ffi::lua_rawseti_(self.state, -2, index);
                let next = self.token();
                match next.kind {
                    Kind::ArrayEnd => break,
                    Kind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or array end", &next)),
                }
            }
        }
        Ok(())
    }

    /// Pushes an empty table.
    unsafe fn open(&mut self, depth: usize) -> Result<(), Problem> {
        let is_too_deep = depth > self.settings.decode_depth.min(DEPTH_MAX);
        // SAFETY: as said above; each level sees to its slots.
        unsafe {
            if is_too_deep || ffi::lua_checkstack(self.state, LEVEL_SLOTS) == 0 {
                let at = self.scanner.position();
                let text =
                    format!("Found too many nested data structures ({depth}) at character {at}");
                return Err(self.fail(&text));
            }
            ffi::lua_createtable(self.state, 0, 0);
        }
        Ok(())
    }

    fn unexpected(&mut self, expected: &str, found: &JsonToken<'_>) -> Problem {
        let (name, at) = (found.kind.name(), found.at + 1);
        self.fail(&format!("Expected {expected} but found {name} at character {at}"))
    }

    fn fail(&mut self, text: &str) -> Problem {
        self.scratch.clear();
        self.scratch.extend_from_slice(text.as_bytes());
        Problem::Located
    }
}

/// # Safety
///
/// There is a free slot; what raises jumps over nothing that must be dropped.
unsafe fn push_string(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: as the caller promises; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) };
}
