//! Base functions as Lua calls them, on its own stack.
//!
//! Invariants: whatever catches an error shows it to `visible` before a script sees it, which lets
//! no stop be caught; what is compiled has the globals of a script's or a library's world; nothing
//! here holds anything that would have to be dropped when Lua's errors jump over it.

use std::ffi::{CStr, c_char, c_int};
use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Once;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, MultiValue, Table, Value};

unsafe extern "C-unwind" {
    // Of our Lua alone (vendor/lua).
    fn lua_setreadonly(state: *mut lua_State, index: c_int, is_readonly: c_int);
    fn lua_sethashkey(key: *const u8);
    // Of any Lua 5.1, but not in the binding.
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// Gives Lua the key by which it hashes, once in a process, so that all its interpreters traverse
/// equal tables in the same order.
pub(in crate::interpreter) fn share_hash_key() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let random = RandomState::new();
        let key = [random.hash_one(0_u8), random.hash_one(1_u8)];
        // SAFETY: sixteen bytes are read, before the first Lua of the process is made.
        unsafe { lua_sethashkey(key.as_ptr().cast()) };
    });
}

/// Locks a table, or lets it be written.
///
/// # Safety
///
/// There is a table at the index.
pub(in crate::interpreter) unsafe fn set_readonly(
    state: *mut lua_State,
    index: c_int,
    is_readonly: bool,
) {
    // SAFETY: as the caller promises; nothing is raised.
    unsafe { lua_setreadonly(state, index, c_int::from(is_readonly)) };
}

/// Adds the functions; `visible` is in the table already.
pub(in crate::interpreter) fn add(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let visible: Function = native.raw_get("visible")?;
    for (name, function) in [
        ("pcall", pcall as ffi::lua_CFunction),
        ("xpcall", xpcall),
        ("resume", resume),
        ("wrap", wrap),
        ("collectgarbage", collect_garbage),
        ("seal", seal),
    ] {
        let upvalues = MultiValue::from_iter([Value::Function(visible.clone())]);
        native.raw_set(name, closure(lua, function, upvalues)?)?;
    }
    for (name, function) in [("load", load as ffi::lua_CFunction), ("loadstring", load_string)] {
        let in_lua: Function = lua.globals().raw_get(name)?;
        let visible = visible.clone();
        // Makes the loader of a world.
        let maker = lua.create_function(move |lua, world: Table| {
            let upvalues = MultiValue::from_iter([
                Value::Function(visible.clone()),
                Value::Function(in_lua.clone()),
                Value::Table(world),
            ]);
            closure(lua, function, upvalues)
        })?;
        native.raw_set(name, maker)?;
    }
    Ok(())
}

/// Makes a C function of what it needs beside its arguments.
fn closure(
    lua: &Lua,
    function: ffi::lua_CFunction,
    upvalues: MultiValue,
) -> mlua::Result<Function> {
    let count = upvalues.len() as c_int;
    // SAFETY: the closure runs in protected mode and holds nothing; the arguments become upvalues.
    unsafe { lua.exec_raw(upvalues, |state| ffi::lua_pushcclosure(state, function, count)) }
}

/// Replaces the error on top by what a script may see of it; raises if the run is over.
///
/// # Safety
///
/// Called by a function whose first upvalue is `visible`, with an error on top and two free slots.
unsafe fn show(state: *mut lua_State) {
    // SAFETY: as the caller promises.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_insert(state, -2);
        ffi::lua_call(state, 1, 1);
    }
}

/// `pcall`. Redis' own gives the text of an error table.
///
/// # Safety
///
/// Called by Lua, as all functions below that have no other condition; the upvalues are as `add`
/// says.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: a C function has `LUA_MINSTACK` slots beside its arguments.
    unsafe {
        if ffi::lua_gettop(state) == 0 {
            // As Redis' own does, which calls what it has put there.
            ffi::lua_pushboolean(state, 1);
        }
        let count = ffi::lua_gettop(state) - 1;
        if ffi::lua_pcall(state, count, ffi::LUA_MULTRET, 0) == ffi::LUA_OK {
            ffi::lua_pushboolean(state, 1);
            ffi::lua_insert(state, 1);
            return ffi::lua_gettop(state);
        }
        show(state);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            ffi::lua_pushlstring_(state, c"err".as_ptr(), 3);
            ffi::lua_rawget_(state, -2);
            if ffi::lua_isstring(state, -1) != 0 {
                ffi::lua_replace(state, -2);
            } else {
                ffi::lua_settop(state, -2);
            }
        }
        ffi::lua_pushboolean(state, 0);
        ffi::lua_insert(state, -2);
        2
    }
}

/// `xpcall`
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    /// The handler of a script, behind `visible`: the upvalues are both.
    unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
        // SAFETY: Lua calls it with an error.
        unsafe {
            ffi::lua_settop(state, 1);
            show(state);
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, 1, 1);
        }
        1
    }
    // SAFETY: as for `pcall`.
    unsafe {
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_insert(state, 2);
        ffi::lua_pushcclosure(state, handle, 2);
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        if status != ffi::LUA_OK {
            show(state);
        }
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}

/// `coroutine.resume`
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    // SAFETY: as for `pcall`.
    unsafe {
        let thread = ffi::lua_tothread(state, 1);
        if thread.is_null() {
            return ffi::luaL_argerror(state, 1, c"coroutine expected".as_ptr());
        }
        let count = resume_values(state, thread, ffi::lua_gettop(state) - 1);
        if count.is_none() {
            show(state);
        }
        ffi::lua_pushboolean(state, c_int::from(count.is_some()));
        let count = count.unwrap_or(1);
        ffi::lua_insert(state, -count - 1);
        count + 1
    }
}

/// `coroutine.wrap`
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    /// What was made: its upvalues are `visible` and the coroutine. What goes wrong within comes
    /// out of its call, with the place of that before it if it is a text.
    unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
        // SAFETY: Lua calls it.
        unsafe {
            let thread = ffi::lua_tothread(state, ffi::lua_upvalueindex(2));
            if let Some(count) = resume_values(state, thread, ffi::lua_gettop(state)) {
                return count;
            }
            show(state);
            if ffi::lua_isstring(state, -1) != 0 {
                ffi::luaL_where(state, 1);
                ffi::lua_insert(state, -2);
                ffi::lua_concat(state, 2);
            }
            ffi::lua_error(state)
        }
    }
    // SAFETY: as for `pcall`.
    unsafe {
        let is_lua =
            ffi::lua_type(state, 1) == ffi::LUA_TFUNCTION && ffi::lua_iscfunction(state, 1) == 0;
        if !is_lua {
            return ffi::luaL_argerror(state, 1, c"Lua function expected".as_ptr());
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        let thread = ffi::lua_newthread(state);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_xmove(state, thread, 1);
        ffi::lua_pushcclosure(state, call, 2);
    }
    1
}

/// Resumes a coroutine with the `count` values on top; how many values came back in their place,
/// `None` if it is one that tells what went wrong. Both share the C stack, so the calls of C that
/// are under way count for both.
///
/// # Safety
///
/// Called by a function of Lua's; `thread` is a coroutine that stays.
unsafe fn resume_values(
    state: *mut lua_State,
    thread: *mut lua_State,
    count: c_int,
) -> Option<c_int> {
    // SAFETY: as the caller promises; what is raised jumps over nothing to be dropped.
    unsafe {
        if ffi::lua_checkstack(thread, count) == 0 {
            ffi::luaL_error(state, c"too many arguments to resume".as_ptr());
        }
        if let Some(why) = unfit(state, thread) {
            ffi::lua_pushstring_(state, why.as_ptr());
            return None;
        }
        ffi::lua_xmove(state, thread, count);
        lua_setlevel(state, thread);
        let status = ffi::lua_resume_(thread, count);
        if status != ffi::LUA_OK && status != ffi::LUA_YIELD {
            ffi::lua_xmove(thread, state, 1);
            return None;
        }
        let count = ffi::lua_gettop(thread);
        if ffi::lua_checkstack(state, count + 1) == 0 {
            ffi::luaL_error(state, c"too many results to resume".as_ptr());
        }
        ffi::lua_xmove(thread, state, count);
        Some(count)
    }
}

/// Why a coroutine cannot be resumed from another.
///
/// # Safety
///
/// As for `resume_values`.
unsafe fn unfit(state: *mut lua_State, thread: *mut lua_State) -> Option<&'static CStr> {
    let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
    // SAFETY: as for `resume_values`; the frame is written, not read.
    unsafe {
        let is_within = ffi::lua_getstack(thread, 0, frame.as_mut_ptr()) > 0;
        match ffi::lua_status(thread) {
            _ if state == thread => Some(c"cannot resume running coroutine"),
            ffi::LUA_YIELD => None,
            ffi::LUA_OK if is_within => Some(c"cannot resume normal coroutine"),
            ffi::LUA_OK if ffi::lua_gettop(thread) > 0 => None,
            _ => Some(c"cannot resume dead coroutine"),
        }
    }
}

/// `load`; the second upvalue is Lua's own, the third the globals of what is loaded.
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    // SAFETY: as for `pcall`.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        compile(state)
    }
}

/// `loadstring`; the upvalues are those of `load`.
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn load_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `pcall`.
    unsafe {
        ffi::luaL_checklstring(state, 1, null_mut());
        compile(state)
    }
}

/// Has Lua's own function compile what the first argument is or gives.
///
/// # Safety
///
/// Called by `load` or `load_string`.
unsafe fn compile(state: *mut lua_State) -> c_int {
    // SAFETY: as for `pcall`.
    unsafe {
        ffi::luaL_optlstring(state, 2, null(), null_mut());
        ffi::lua_settop(state, 2);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 2, 2);
        if ffi::lua_type(state, 1) == ffi::LUA_TFUNCTION {
            ffi::lua_settop(state, 1);
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(3));
            ffi::lua_setfenv(state, 1);
            return 1;
        }
        show(state);
    }
    2
}

/// `collectgarbage`. The collector serves all scripts of its thread: none may stop or tune it.
///
/// # Safety
///
/// As for `pcall`.
unsafe extern "C-unwind" fn collect_garbage(state: *mut lua_State) -> c_int {
    const OPTIONS: [Option<&CStr>; 8] = [
        Some(c"collect"),
        Some(c"count"),
        Some(c"step"),
        Some(c"stop"),
        Some(c"restart"),
        Some(c"setpause"),
        Some(c"setstepmul"),
        None,
    ];
    const TUNED: f64 = 200.0;
    let options = OPTIONS.map(|option| option.map_or(null::<c_char>(), CStr::as_ptr));
    // SAFETY: as for `pcall`; the list of options ends with a null.
    unsafe {
        let option = ffi::luaL_checkoption(state, 1, c"collect".as_ptr(), options.as_ptr());
        let argument = ffi::luaL_optinteger(state, 2, 0) as c_int;
        let number = match option {
            0 => f64::from(ffi::lua_gc(state, ffi::LUA_GCCOLLECT, 0)),
            1 => {
                let bytes = ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0);
                f64::from(ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0)) + f64::from(bytes) / 1024.0
            }
            2 => {
                let is_done = ffi::lua_gc(state, ffi::LUA_GCSTEP, argument);
                ffi::lua_pushboolean(state, is_done);
                return 1;
            }
            3 | 4 => 0.0,
            _ => TUNED,
        };
        ffi::lua_pushnumber(state, number);
    }
    1
}

/// For the prelude: seals a table and gives it back, or opens it if a `false` comes with it.
///
/// # Safety
///
/// As for `pcall`; no script has it.
unsafe extern "C-unwind" fn seal(state: *mut lua_State) -> c_int {
    // SAFETY: as for `pcall`.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let is_opened = ffi::lua_gettop(state) > 1 && ffi::lua_toboolean(state, 2) == 0;
        ffi::lua_settop(state, 1);
        set_readonly(state, 1, !is_opened);
    }
    1
}
