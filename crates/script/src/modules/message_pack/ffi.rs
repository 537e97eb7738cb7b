//! MessagePack on Lua's own stack: a value is packed where it lies and unpacked to where it goes.
//!
//! Invariants: a count in the input reserves next to nothing; nesting is bounded both ways;
//! what is held when Lua raises need not be dropped.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Lua, Table};

use super::super::DEPTH_MAX;
use crate::scratch::{Problem, Scratch, bytes_at, finish, function, lend, tick};

/// What lies deeper than this is packed as nil.
const PACKED_DEPTH_MAX: usize = 16;
/// So many slots each level of nesting needs.
const LEVEL_SLOTS: c_int = 8;
/// So many elements a container is made for at first, whatever its count says.
const RESERVED_MAX: usize = 64;

/// Makes the library.
pub(crate) fn cmsgpack(lua: &Lua, scratch: &Rc<Scratch>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, body) in [
        ("pack", pack as ffi::lua_CFunction),
        ("unpack", unpack),
        ("unpack_one", unpack_one),
        ("unpack_limit", unpack_limit),
    ] {
        table.raw_set(name, function(lua, scratch, body, ())?)?;
    }
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.raw_set(name, text)?;
    }
    Ok(table)
}

/// `cmsgpack.pack`
///
/// # Safety
///
/// Called by Lua as a function of the scratch buffer, as the functions below that Lua calls.
unsafe extern "C-unwind" fn pack(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: the bytes are given up at the end of this function; see `Packer`.
        unsafe {
            let count = ffi::lua_gettop(state);
            if count == 0 {
                let text = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
                return Err(scratch.located(text));
            }
            if ffi::lua_checkstack(state, LEVEL_SLOTS) == 0 {
                return Err(scratch.located("stack overflow (too many arguments)"));
            }
            let mut packer = Packer { state, out: lend(scratch), budget: scratch.budget() };
            for index in 1..=count {
                ffi::lua_pushvalue(state, index);
                packer.value(0)?;
                ffi::lua_settop(state, count);
            }
            ffi::lua_pushlstring_(state, packer.out.as_ptr().cast(), packer.out.len());
        }
        Ok(1)
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

struct Packer<'a> {
    state: *mut lua_State,
    out: &'a mut Vec<u8>,
    budget: usize,
}

/// The functions that are `unsafe` read the value on top of the stack of `state`, leave it there,
/// and find `LEVEL_SLOTS` free slots.
impl Packer<'_> {
    unsafe fn value(&mut self, depth: usize) -> Result<(), Problem> {
        Problem::check_result_budget(self.out.len(), self.budget)?;
        let state = self.state;
        // SAFETY: as said above.
        unsafe {
            tick(state, 1);
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => {
                    let text = bytes_at(state, -1);
                    Problem::check_result_budget(text.len(), self.budget)?;
                    push_text(self.out, text);
                }
                ffi::LUA_TNUMBER => push_number(self.out, ffi::lua_tonumber(state, -1)),
                ffi::LUA_TBOOLEAN => {
                    self.out.push(0xc2 + u8::from(ffi::lua_toboolean(state, -1) != 0));
                }
                ffi::LUA_TTABLE if depth < PACKED_DEPTH_MAX => self.table(depth + 1)?,
                _ => self.out.push(0xc0),
            }
        }
        Ok(())
    }

    unsafe fn table(&mut self, depth: usize) -> Result<(), Problem> {
        let state = self.state;
        // SAFETY: as said above; the table does not change while it is gone through.
        unsafe {
            if ffi::lua_checkstack(state, LEVEL_SLOTS) == 0 {
                return Err(Problem::ResultTooLarge);
            }
            let (pairs, greatest) = self.shape();
            if greatest == Some(pairs) {
                push_count(self.out, pairs, [Some((0x90, 16)), None], 0xdc);
                for index in 1..=pairs as c_int {
                    ffi::lua_rawgeti_(state, -1, index);
                    self.value(depth)?;
                    ffi::lua_pop(state, 1);
                }
                return Ok(());
            }
            push_count(self.out, pairs, [Some((0x80, 16)), None], 0xde);
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                ffi::lua_pushvalue(state, -2);
                self.value(depth)?;
                ffi::lua_pop(state, 1);
                self.value(depth)?;
                ffi::lua_pop(state, 1);
            }
        }
        Ok(())
    }

    /// How many pairs a table has, and the greatest key if all keys are positive integers.
    unsafe fn shape(&self) -> (usize, Option<usize>) {
        let state = self.state;
        let (mut pairs, mut greatest) = (0, Some(0));
        // SAFETY: as said above.
        unsafe {
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                pairs += 1;
                ffi::lua_pop(state, 1);
                if let Some(so_far) = greatest {
                    let is_number = ffi::lua_type(state, -1) == ffi::LUA_TNUMBER;
                    let number = if is_number { ffi::lua_tonumber(state, -1) } else { 0.0 };
                    let key = number as usize;
                    let is_index = key > 0 && key as f64 == number;
                    greatest = is_index.then(|| so_far.max(key));
                }
            }
        }
        (pairs, greatest)
    }
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    let (mark, width) = match number {
        -32..=127 => return out.push(number as u8),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(mark);
    out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

fn push_number(out: &mut Vec<u8>, number: f64) {
    let integer = number as i64;
    if integer as f64 == number && integer != i64::MAX {
        return push_integer(out, integer);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_count(out, text.len(), [Some((0xa0, 32)), Some((0xd9, 0x100))], 0xda);
    out.extend_from_slice(text);
}

/// A length: in the mark itself below the first bound, in one byte below the second, otherwise in
/// two or four bytes behind the `wide` mark or the one after it.
fn push_count(out: &mut Vec<u8>, count: usize, short: [Option<(u8, usize)>; 2], wide: u8) {
    let [within, in_byte] = short.map(|form| form.filter(|(_, bound)| count < *bound));
    if let Some((mark, _)) = within {
        out.push(mark + count as u8);
    } else if let Some((mark, _)) = in_byte {
        out.extend_from_slice(&[mark, count as u8]);
    } else if let Ok(count) = u16::try_from(count) {
        out.push(wide);
        out.extend_from_slice(&count.to_be_bytes());
    } else {
        out.push(wide + 1);
        // A string of 4 GiB does not exist in our Lua.
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
}

/// `cmsgpack.unpack`
///
/// # Safety
///
/// As for `pack`.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: as for `pack`.
        unsafe { unpack_some(state, scratch, None, 0) }
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

/// `cmsgpack.unpack_one`
///
/// # Safety
///
/// As for `pack`.
unsafe extern "C-unwind" fn unpack_one(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: as for `pack`.
        unsafe {
            let offset = ffi::luaL_optinteger(state, 2, 0);
            unpack_some(state, scratch, Some(1), offset as i64)
        }
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

/// `cmsgpack.unpack_limit`
///
/// # Safety
///
/// As for `pack`.
unsafe extern "C-unwind" fn unpack_limit(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: as for `pack`.
        unsafe {
            let limit = ffi::luaL_checkinteger(state, 2);
            let offset = ffi::luaL_optinteger(state, 3, 0);
            unpack_some(state, scratch, Some(limit as i64), offset as i64)
        }
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

/// Unpacks up to `limit` values (`None` or 0: all) from an offset, and before them where to go on,
/// unless all were asked for.
///
/// # Safety
///
/// Called by a function of the scratch buffer whose first argument is the input.
unsafe fn unpack_some(
    state: *mut lua_State,
    scratch: &Scratch,
    limit: Option<i64>,
    offset: i64,
) -> Result<c_int, Problem> {
    // SAFETY: the input stays at the bottom of the stack until the function returns.
    unsafe {
        ffi::luaL_checklstring(state, 1, std::ptr::null_mut());
        ffi::lua_settop(state, 1);
        let input: &[u8] = bytes_at(state, 1);
        let length = input.len();
        if offset < 0 || limit.is_some_and(|limit| limit < 0) {
            let text =
                format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
            return Err(scratch.located(&text));
        }
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| input.get(offset..)) else {
            let text = format!("Start offset {offset} greater than input length {length}.");
            return Err(scratch.located(&text));
        };
        let limit = limit.filter(|limit| *limit > 0);
        if limit.is_some() {
            // Where to go on comes here.
            ffi::lua_pushnil(state);
        }
        let mut unpacker = MessageUnpacker { state, scratch, rest };
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        let mut count = 0;
        while count < most && !unpacker.rest.is_empty() {
            if ffi::lua_checkstack(state, LEVEL_SLOTS) == 0 {
                return Err(scratch.located("stack overflow (too many results)"));
            }
            unpacker.value(0)?;
            count += 1;
        }
        if limit.is_some() {
            let read = length - unpacker.rest.len();
            let next = if unpacker.rest.is_empty() { -1.0 } else { read as f64 };
            ffi::lua_pushnumber(state, next);
            ffi::lua_replace(state, 2);
        }
        Ok(ffi::lua_gettop(state) - 1)
    }
}

struct MessageUnpacker<'a> {
    state: *mut lua_State,
    scratch: &'a Scratch,
    rest: &'a [u8],
}

/// The functions that are `unsafe` push a value on `state`, where `LEVEL_SLOTS` slots are free.
impl<'a> MessageUnpacker<'a> {
    unsafe fn value(&mut self, depth: usize) -> Result<(), Problem> {
        let mark = self.take(1)?[0];
        let number = match mark {
            0x00..=0x7f => f64::from(mark),
            0xe0..=0xff => f64::from(mark as i8),
            0xca => f64::from(f32::from_bits(self.unsigned(4)? as u32)),
            0xcb => f64::from_bits(self.unsigned(8)?),
            0xcc => self.unsigned(1)? as f64,
            0xcd => self.unsigned(2)? as f64,
            0xce => self.unsigned(4)? as f64,
            // Without a sign as with one, as lua-cmsgpack reads it.
            0xcf | 0xd3 => self.unsigned(8)? as i64 as f64,
            0xd0 => f64::from(self.unsigned(1)? as i8),
            0xd1 => f64::from(self.unsigned(2)? as i16),
            0xd2 => f64::from(self.unsigned(4)? as i32),
            // SAFETY: as said above.
            _ => return unsafe { self.other(mark, depth) },
        };
        // SAFETY: as said above.
        unsafe { ffi::lua_pushnumber(self.state, number) };
        Ok(())
    }

    /// What is no number.
    unsafe fn other(&mut self, mark: u8, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above.
        unsafe {
            match mark {
                0x80..=0x8f => self.map(usize::from(mark & 0xf), depth),
                0x90..=0x9f => self.array(usize::from(mark & 0xf), depth),
                0xa0..=0xbf => self.text(usize::from(mark & 0x1f)),
                0xd9..=0xdb => {
                    let length = self.unsigned(1 << (mark - 0xd9))? as usize;
                    self.text(length)
                }
                0xdc | 0xdd => {
                    let count = self.unsigned(2 << (mark - 0xdc))? as usize;
                    self.array(count, depth)
                }
                0xde | 0xdf => {
                    let count = self.unsigned(2 << (mark - 0xde))? as usize;
                    self.map(count, depth)
                }
                0xc0 => {
                    ffi::lua_pushnil(self.state);
                    Ok(())
                }
                0xc2 | 0xc3 => {
                    ffi::lua_pushboolean(self.state, c_int::from(mark == 0xc3));
                    Ok(())
                }
                _ => Err(self.scratch.located("Bad data format in input.")),
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let parts = self.rest.split_at_checked(count);
        let (taken, rest) = parts.ok_or_else(|| self.scratch.located("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, width: usize) -> Result<u64, Problem> {
        Ok(self.take(width)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    unsafe fn text(&mut self, length: usize) -> Result<(), Problem> {
        let text = self.take(length)?;
        // SAFETY: as said above; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.state, text.as_ptr().cast(), text.len()) };
        Ok(())
    }

    unsafe fn array(&mut self, count: usize, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above; each level sees to its slots.
        unsafe {
            self.open(count, 0, depth)?;
            for index in 1..=count {
                tick(self.state, 1);
                self.value(depth + 1)?;
                ffi::lua_rawseti_(self.state, -2, index as c_int);
            }
        }
        Ok(())
    }

    unsafe fn map(&mut self, count: usize, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above; each level sees to its slots. What cannot be a key raises.
        unsafe {
            self.open(0, count, depth)?;
            for _ in 0..count {
                tick(self.state, 1);
                self.value(depth + 1)?;
                self.value(depth + 1)?;
                ffi::lua_rawset(self.state, -3);
            }
        }
        Ok(())
    }

    /// Pushes an empty table.
    unsafe fn open(&mut self, list: usize, pairs: usize, depth: usize) -> Result<(), Problem> {
        // SAFETY: as said above.
        unsafe {
            if depth >= DEPTH_MAX || ffi::lua_checkstack(self.state, LEVEL_SLOTS) == 0 {
                return Err(self.scratch.located("stack overflow (nested too deep)"));
            }
            let most = self.rest.len().min(RESERVED_MAX);
            ffi::lua_createtable(self.state, list.min(most) as c_int, pairs.min(most) as c_int);
        }
        Ok(())
    }
}
