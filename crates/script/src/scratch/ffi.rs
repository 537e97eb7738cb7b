//! Functions of Lua's C interface: how they are made, what they work with, and how they fail.
//!
//! Invariants: what such a function holds when something raises need not be dropped, because Lua
//! jumps over it: its bytes lie in the scratch buffer, and a [`Problem`] is plain; a buffer is used
//! by one function at a time, since none of them calls back into a script.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, IntoLuaMulti, Lua};

use crate::result_budget::ResultBudget;

/// A buffer larger than this is not kept for the next call.
const KEPT_MAX: usize = 64 << 10;

unsafe extern "C-unwind" {
    // Of our Lua alone (vendor/lua).
    fn lua_tick(state: *mut lua_State, count: c_int);
}

/// Where bytes for Lua are put together.
pub(crate) struct Scratch {
    budget: ResultBudget,
    bytes: UnsafeCell<Vec<u8>>,
}

/// Why a function of the scratch buffer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text in the scratch buffer, behind the place of the call.
    Located,
    /// The text in the scratch buffer is about an argument, by its number from one.
    Argument(c_int),
    /// What would be made is too long.
    ResultTooLarge,
}

impl Problem {
    /// Refuses a result of more bytes than there is room for.
    pub(crate) fn check_result_budget(bytes: usize, budget: usize) -> Result<(), Self> {
        if bytes > budget { Err(Self::ResultTooLarge) } else { Ok(()) }
    }
}

impl Scratch {
    /// Makes the scratch buffer of an interpreter.
    pub(crate) fn new(budget: ResultBudget) -> Rc<Scratch> {
        Rc::new(Scratch { budget, bytes: UnsafeCell::default() })
    }

    /// The most bytes that the buffer may have.
    pub(crate) fn budget(&self) -> usize {
        self.budget.get()
    }

    /// Puts the text of a problem into the buffer.
    pub(crate) fn problem(&self, problem: Problem, text: &str) -> Problem {
        // SAFETY: the one function that works here calls this when it is done with the bytes.
        let bytes = unsafe { &mut *self.bytes.get() };
        bytes.clear();
        bytes.extend_from_slice(text.as_bytes());
        problem
    }

    /// Puts the text of a problem that names no argument into the buffer.
    pub(crate) fn located(&self, text: &str) -> Problem {
        self.problem(Problem::Located, text)
    }
}

/// Lends the bytes of a scratch buffer, empty.
///
/// # Safety
///
/// The bytes are given up before anything else asks for them: no script runs meanwhile.
#[allow(clippy::mut_from_ref, reason = "the caller promises to be the only one")]
pub(crate) unsafe fn lend(scratch: &Scratch) -> &mut Vec<u8> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { &mut *scratch.bytes.get() };
    bytes.clear();
    if bytes.capacity() > KEPT_MAX {
        *bytes = Vec::new();
    }
    bytes
}

/// Makes a function; its first upvalue is the scratch buffer, `others` come behind.
pub(crate) fn function(
    lua: &Lua,
    scratch: &Rc<Scratch>,
    body: ffi::lua_CFunction,
    others: impl IntoLuaMulti,
) -> mlua::Result<Function> {
    let scratch = Rc::as_ptr(scratch).cast_mut().cast();
    let others = others.into_lua_multi(lua)?;
    let count = others.len() as c_int + 1;
    // SAFETY: the function runs in protected mode and holds nothing. The interpreter has the
    // buffer.
    unsafe {
        lua.exec_raw(others, |state| {
            ffi::lua_pushlightuserdata(state, scratch);
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, body, count);
        })
    }
}

/// Does the work of a function that `function` made, and raises what is wrong.
///
/// # Safety
///
/// Called by Lua's call of that function, first and last.
pub(crate) unsafe fn finish(
    state: *mut lua_State,
    work: unsafe fn(*mut lua_State, &Scratch) -> Result<c_int, Problem>,
) -> c_int {
    // SAFETY: the upvalue is the buffer; what raises jumps over nothing that must be dropped.
    unsafe {
        let scratch = &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Scratch>();
        let problem = match work(state, scratch) {
            Ok(count) => return count,
            Err(problem) => problem,
        };
        let text = &mut *scratch.bytes.get();
        match problem {
            Problem::Located => {
                ffi::luaL_where(state, 1);
                ffi::lua_pushlstring_(state, text.as_ptr().cast(), text.len());
                ffi::lua_concat(state, 2);
            }
            Problem::Argument(number) => {
                text.push(0);
                return ffi::luaL_argerror(state, number, text.as_ptr().cast());
            }
            Problem::ResultTooLarge => {
                let text = "not enough memory";
                ffi::lua_pushlstring_(state, text.as_ptr().cast(), text.len());
            }
        }
        ffi::lua_error(state)
    }
}

/// The bytes of the string at an index.
///
/// # Safety
///
/// There is a string, which stays on the stack for as long as its bytes are used.
pub(crate) unsafe fn bytes_at<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: of a string no other is made, so nothing is raised.
    unsafe {
        let bytes = ffi::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(bytes.cast(), length)
    }
}

/// Counts work that is worth so many instructions; raises if the run is over.
///
/// # Safety
///
/// Called by a function of Lua's that holds nothing to be dropped.
pub(crate) unsafe fn tick(state: *mut lua_State, count: c_int) {
    // SAFETY: as the caller promises.
    unsafe { lua_tick(state, count) };
}
