//! `struct` on Lua's own stack: arguments are packed where they lie, and values unpacked to where
//! they go.
//!
//! Invariants: what is read lies in the data; what is held when Lua raises need not be dropped.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Lua, Table};

use super::format::{Format, FormatError, INTEGER_MAX, Item};
use crate::call::{to_i64, to_u64};
use crate::scratch::{Problem, Scratch, bytes_at, finish, function, lend, tick};

/// Makes the library.
pub(crate) fn structs(lua: &Lua, scratch: &Rc<Scratch>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, body) in [("pack", pack as ffi::lua_CFunction), ("unpack", unpack), ("size", size)] {
        table.raw_set(name, function(lua, scratch, body, ())?)?;
    }
    Ok(table)
}

/// Puts what is wrong with a format into the scratch buffer.
#[cold]
fn report_fault(scratch: &Scratch, fault: FormatError) -> Problem {
    let problem = match fault {
        FormatError::Unknown(_) => Problem::Argument(1),
        _ => Problem::Located,
    };
    scratch.problem(problem, &fault.to_string())
}

/// The bytes of an argument that is to be a string or a number.
///
/// # Safety
///
/// Called by a function of the scratch buffer, which leaves the argument where it is.
unsafe fn text_at<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    // SAFETY: what is neither raises; nothing is held.
    unsafe {
        ffi::luaL_checklstring(state, index, std::ptr::null_mut());
        bytes_at(state, index)
    }
}

/// `struct.pack`
///
/// # Safety
///
/// Called by Lua as a function of the scratch buffer, as the functions below that Lua calls.
unsafe extern "C-unwind" fn pack(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: the bytes are given up at the end of this function, or before a problem is told.
        unsafe {
            let mut format = Format::new(text_at(state, 1));
            // What is missing is nil, as in the messages of Redis.
            ffi::lua_pushnil(state);
            let (out, mut index) = (lend(scratch), 1);
            while let Some((item, width)) =
                format.next().map_err(|fault| report_fault(scratch, fault))?
            {
                tick(state, 1);
                let gap = format.gap(item, width, out.len());
                out.resize(out.len() + gap, 0);
                match item {
                    Item::Padding => {
                        out.push(0);
                        continue;
                    }
                    Item::Unknown(letter) => {
                        return Err(report_fault(scratch, FormatError::Unknown(letter)));
                    }
                    _ => index += 1,
                }
                match item {
                    Item::Integer { .. } => {
                        let number = ffi::luaL_checknumber(state, index);
                        push_integer(out, number, width, format.big_endian);
                    }
                    Item::Float => {
                        let number = ffi::luaL_checknumber(state, index) as f32;
                        push_ordered(out, &number.to_le_bytes(), format.big_endian);
                    }
                    Item::Double => {
                        let number = ffi::luaL_checknumber(state, index);
                        push_ordered(out, &number.to_le_bytes(), format.big_endian);
                    }
                    Item::Bytes => {
                        let bytes = text_at(state, index);
                        let width = if width == 0 { bytes.len() } else { width };
                        let Some(taken) = bytes.get(..width) else {
                            let problem = Problem::Argument(index + 1);
                            return Err(scratch.problem(problem, "string too short"));
                        };
                        Problem::check_result_budget(taken.len(), scratch.budget())?;
                        out.extend_from_slice(taken);
                    }
                    Item::Text => {
                        let text = text_at(state, index);
                        Problem::check_result_budget(text.len(), scratch.budget())?;
                        out.extend_from_slice(text);
                        out.push(0);
                    }
                    Item::Padding | Item::Unknown(_) => {}
                }
                Problem::check_result_budget(out.len(), scratch.budget())?;
            }
            ffi::lua_pushlstring_(state, out.as_ptr().cast(), out.len());
        }
        Ok(1)
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

/// The low bytes of an integer; beyond its 64 bits there are zeros.
fn push_integer(out: &mut Vec<u8>, number: f64, width: usize, big_endian: bool) {
    let value = if number < 0.0 { to_i64(number) as u64 } else { to_u64(number) };
    let mut bytes = [0; INTEGER_MAX];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    push_ordered(out, &bytes[..width], big_endian);
}

fn push_ordered(out: &mut Vec<u8>, little: &[u8], big_endian: bool) {
    let start = out.len();
    out.extend_from_slice(little);
    if big_endian {
        out[start..].reverse();
    }
}

/// `struct.unpack`
///
/// # Safety
///
/// As for `pack`.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: format and data stay where they are until the function returns.
        unsafe {
            let (text, data) = (text_at(state, 1), text_at(state, 2));
            let first = match ffi::lua_type(state, 3) {
                ffi::LUA_TNONE | ffi::LUA_TNIL => 1,
                _ => to_i64(ffi::luaL_checknumber(state, 3)),
            };
            if first == 0 {
                return Err(scratch.problem(Problem::Argument(3), "offset must be 1 or greater"));
            }
            ffi::lua_settop(state, 2);
            // One that is negative lies behind everything, and is told as it was.
            let position = (first as usize).wrapping_sub(1);
            let mut unpacker = StructUnpacker { state, scratch, data, position, count: 0 };
            let mut format = Format::new(text);
            loop {
                if format.is_at_setting() && unpacker.position > data.len() {
                    return Err(unpacker.too_short());
                }
                let next = format.next().map_err(|fault| report_fault(scratch, fault))?;
                let Some((item, width)) = next else { break };
                tick(state, 1);
                unpacker.item(&format, item, width)?;
            }
            let next = unpacker.position.wrapping_add(1) as i64 as f64;
            ffi::lua_pushnumber(state, next);
            Ok(unpacker.count + 1)
        }
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}

struct StructUnpacker<'a> {
    state: *mut lua_State,
    scratch: &'a Scratch,
    data: &'a [u8],
    position: usize,
    /// How many values it has pushed.
    count: c_int,
}

impl StructUnpacker<'_> {
    /// Pushes the value of an item, if it has one, and goes on behind it.
    unsafe fn item(
        &mut self,
        format: &Format<'_>,
        item: Item,
        mut width: usize,
    ) -> Result<(), Problem> {
        let (state, big_endian) = (self.state, format.big_endian);
        self.position = self.position.wrapping_add(format.gap(item, width, self.position));
        let data = self.data;
        let rest = data.get(self.position..).filter(|rest| rest.len() >= width);
        let rest = rest.ok_or_else(|| self.too_short())?;
        // SAFETY: there is place for two more; nothing is held that must be dropped.
        unsafe {
            if ffi::lua_checkstack(state, 2) == 0 {
                return Err(self.scratch.located("stack overflow (too many results)"));
            }
            match item {
                Item::Unknown(letter) => {
                    return Err(report_fault(self.scratch, FormatError::Unknown(letter)));
                }
                Item::Padding => self.count -= 1,
                Item::Integer { signed } => {
                    ffi::lua_pushnumber(state, read_integer(&rest[..width], signed, big_endian));
                }
                Item::Float => {
                    let number = f32::from_bits(read_unsigned(&rest[..4], big_endian) as u32);
                    ffi::lua_pushnumber(state, f64::from(number));
                }
                Item::Double => {
                    let number = f64::from_bits(read_unsigned(&rest[..8], big_endian));
                    ffi::lua_pushnumber(state, number);
                }
                Item::Bytes => {
                    if width == 0 {
                        width = self.take_width()?;
                    }
                    let taken = rest.get(..width).ok_or_else(|| self.too_short())?;
                    ffi::lua_pushlstring_(state, taken.as_ptr().cast(), taken.len());
                }
                Item::Text => {
                    let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                        return Err(self.scratch.located("unfinished string in data"));
                    };
                    width = end + 1;
                    ffi::lua_pushlstring_(state, rest.as_ptr().cast(), end);
                }
            }
        }
        self.count += 1;
        self.position += width;
        Ok(())
    }

    /// Takes the value before, which says how long a string is.
    unsafe fn take_width(&mut self) -> Result<usize, Problem> {
        // SAFETY: as for `item`.
        unsafe {
            if self.count == 0 || ffi::lua_isnumber(self.state, -1) == 0 {
                return Err(self.scratch.located("format 'c0' needs a previous size"));
            }
            let width = to_u64(ffi::lua_tonumber(self.state, -1));
            ffi::lua_pop(self.state, 1);
            self.count -= 1;
            Ok(width.try_into().unwrap_or(usize::MAX))
        }
    }

    #[cold]
    fn too_short(&self) -> Problem {
        self.scratch.problem(Problem::Argument(2), "data string too short")
    }
}

/// An integer of any width; what lies beyond 64 bits does not count.
fn read_integer(bytes: &[u8], signed: bool, big_endian: bool) -> f64 {
    let value = read_unsigned(bytes, big_endian);
    if !signed {
        return value as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8);
    (((value << unused) as i64) >> unused) as f64
}

fn read_unsigned(bytes: &[u8], big_endian: bool) -> u64 {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

/// `struct.size`
///
/// # Safety
///
/// As for `pack`.
unsafe extern "C-unwind" fn size(state: *mut lua_State) -> c_int {
    unsafe fn work(state: *mut lua_State, scratch: &Scratch) -> Result<c_int, Problem> {
        // SAFETY: the format stays where it is until the function returns.
        let mut format = Format::new(unsafe { text_at(state, 1) });
        let without_size = |text| Err(scratch.problem(Problem::Argument(1), text));
        let mut total = 0_usize;
        while let Some((item, width)) =
            format.next().map_err(|fault| report_fault(scratch, fault))?
        {
            match item {
                Item::Unknown(_) => continue,
                Item::Text => return without_size("option 's' has no fixed size"),
                Item::Bytes if width == 0 => return without_size("option 'c0' has no fixed size"),
                _ => {}
            }
            total += format.gap(item, width, total) + width;
        }
        // SAFETY: there is place for what a function returns.
        unsafe { ffi::lua_pushnumber(state, total as f64) };
        Ok(1)
    }
    // SAFETY: Lua calls it.
    unsafe { finish(state, work) }
}
