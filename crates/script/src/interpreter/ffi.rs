//! The hot road into Lua and back: how a run begins and ends, and how a script calls a command, on
//! Lua's own stack. All else goes through the safe binding, a step of which costs several times as
//! much.
//!
//! Invariants:
//! - what Lua raises leaves by a jump over frames of ours; so a caller of what may raise holds
//!   nothing that would have to be dropped;
//! - no panic of a host crosses a frame of Lua's: the panic is kept, and goes on when the run is
//!   over;
//! - a host is lent for one run: nobody reaches it before, after, or twice at once.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, RegistryKey, Table};
use proto::{Args, Reply};

use super::guarded::set_readonly;
use super::shared::Shared;
use crate::call::push_number;
use crate::host::{Host, Stop};
use crate::program::VisibleLists;
use crate::replies::{Fields, ResultTooLarge, push_reply, write_value};

/// The host of the run that is under way, while nobody talks to it.
#[derive(Default)]
pub(super) struct HostSlot(Cell<Option<NonNull<dyn Host>>>);

impl HostSlot {
    /// Lends a host for as long as `work` takes.
    pub(super) fn during<T>(&self, host: &mut dyn Host, work: impl FnOnce() -> T) -> T {
        struct Return<'a>(&'a HostSlot);
        impl Drop for Return<'_> {
            fn drop(&mut self) {
                self.0.0.set(None);
            }
        }
        let host: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: only a lifetime is forgotten. The pointer is gone again when this call ends, by a
        // panic too, and until then what it points to is borrowed by this call alone.
        let host: NonNull<dyn Host> = unsafe { std::mem::transmute(host) };
        self.0.set(Some(host));
        let _return = Return(self);
        work()
    }

    /// Asks the host; `None` if there is none, or somebody talks to it already.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
        let mut host = self.0.take()?;
        // SAFETY: `during` has not ended, because it takes the pointer out when it does; and nobody
        // else can find it until it is put back.
        let answer = question(unsafe { host.as_mut() });
        self.0.set(Some(host));
        Some(answer)
    }
}

/// What a panic was thrown with.
pub(super) type Panic = Box<dyn Any + Send>;

/// What a function that takes a command does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `redis.call`
    Call,
    /// `redis.pcall`
    ProtectedCall,
    /// `redis.acl_check_cmd`
    Check,
}

/// What became of a command that a script named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its reply is a value.
    Value,
    /// Its reply is an error.
    Error,
    /// Its reply is none.
    Malformed,
    /// Whether the user may execute it.
    Allowed(bool),
    /// There is no such command.
    Unknown,
    /// The call has no name.
    NoArguments,
    /// One of its arguments is neither a string nor a number.
    NoText,
    /// Its arguments exceed 4 GiB.
    TooLong,
    /// Its arguments exceed what the run may take.
    ResultTooLarge,
    /// The run is over.
    Over,
    /// No run is under way.
    Outside,
}

/// Makes a function that scripts call with a command. Whatever is not simply a value is for
/// `explain`, which finds it in `shared` and raises it or answers with it.
pub(super) fn command_function(
    lua: &Lua,
    shared: &Rc<Shared>,
    purpose: Purpose,
    explain: Function,
) -> mlua::Result<Function> {
    let upvalue = Rc::as_ptr(shared).cast_mut().cast();
    // SAFETY: the closure runs in protected mode and holds nothing, and makes a C function of three
    // upvalues from what it pushes itself and from `explain`. The function is called within a run
    // only, and while there is one there is the interpreter, which owns `shared`.
    unsafe {
        lua.exec_raw(explain, |state| {
            ffi::lua_pushlightuserdata(state, upvalue);
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, of_purpose(purpose), 2);
        })
    }
}

fn of_purpose(purpose: Purpose) -> ffi::lua_CFunction {
    unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
        // SAFETY: Lua calls it as `command_function` made it.
        unsafe { run_command(state, Purpose::Call) }
    }
    unsafe extern "C-unwind" fn protected_call(state: *mut lua_State) -> c_int {
        // SAFETY: Lua calls it as `command_function` made it.
        unsafe { run_command(state, Purpose::ProtectedCall) }
    }
    unsafe extern "C-unwind" fn check(state: *mut lua_State) -> c_int {
        // SAFETY: Lua calls it as `command_function` made it.
        unsafe { run_command(state, Purpose::Check) }
    }
    match purpose {
        Purpose::Call => call,
        Purpose::ProtectedCall => protected_call,
        Purpose::Check => check,
    }
}

/// # Safety
///
/// Called by Lua as one of the functions that `command_function` made.
unsafe fn run_command(state: *mut lua_State, purpose: Purpose) -> c_int {
    // SAFETY: the first upvalue is `shared`, which outlives the run; the second is `explain`. A C
    // function has `LUA_MINSTACK` slots beside its arguments. What raises here jumps over this
    // frame, which holds nothing to be dropped.
    unsafe {
        let shared = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Shared>();
        let shared = &*shared;
        let outcome = match attempt(state, shared, purpose) {
            Outcome::Value if push_reply(state, &*shared.reply()) => {
                shared.forget_reply();
                return 1;
            }
            Outcome::Value => Outcome::Malformed,
            // Most scripts that protect a call look at what comes, so this is a road of its own.
            Outcome::Error
                if purpose == Purpose::ProtectedCall && push_reply(state, &*shared.reply()) =>
            {
                let counted = "ignore_error_stats_update";
                ffi::lua_pushlstring_(state, counted.as_ptr().cast(), counted.len());
                ffi::lua_pushboolean(state, 1);
                ffi::lua_rawset(state, -3);
                shared.forget_reply();
                return 1;
            }
            Outcome::Allowed(is_allowed) => {
                ffi::lua_pushboolean(state, c_int::from(is_allowed));
                return 1;
            }
            other => other,
        };
        shared.outcome.set(outcome);
        ffi::lua_settop(state, 0);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_call(state, 0, 1);
    }
    1
}

/// Reads a command from the stack and gives it to the host. Raises nothing and never panics.
///
/// # Safety
///
/// The stack of `state` begins with the command's arguments and ends with them.
unsafe fn attempt(state: *mut lua_State, shared: &Shared, purpose: Purpose) -> Outcome {
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller promises.
        if let Err(problem) = unsafe { gather(state, shared) } {
            return problem;
        }
        if shared.stop.get().is_some() {
            return Outcome::Over;
        }
        match purpose {
            Purpose::Check => shared.check_command(),
            Purpose::Call | Purpose::ProtectedCall => shared.call_command(),
        }
    }));
    result.unwrap_or_else(|panic| {
        shared.panic.replace(Some(panic));
        shared.stop.set(Some(Stop::Killed));
        Outcome::Over
    })
}

/// Puts the arguments of a command together. Raises nothing.
///
/// # Safety
///
/// As for `attempt`.
unsafe fn gather(state: *mut lua_State, shared: &Shared) -> Result<(), Outcome> {
    // SAFETY: the call only asks how many values there are.
    let count = unsafe { ffi::lua_gettop(state) };
    if count == 0 {
        return Err(Outcome::NoArguments);
    }
    let mut args = shared.args.borrow_mut();
    args.clear();
    let (mut total, budget) = (0, shared.budget.get());
    for index in 1..=count {
        // SAFETY: the index is of a value. Of a string no other is made, so nothing is raised and
        // its bytes stay while it is on the stack.
        let fits = unsafe {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(state, index, &mut length);
                    total += length;
                    if total > budget {
                        return Err(Outcome::ResultTooLarge);
                    }
                    args.push(std::slice::from_raw_parts(bytes.cast(), length))
                }
                ffi::LUA_TNUMBER => push_number(&mut args, ffi::lua_tonumber(state, index)),
                _ => return Err(Outcome::NoText),
            }
        };
        if !fits {
            return Err(Outcome::TooLong);
        }
    }
    Ok(())
}

/// The entrance to Lua.
pub(super) struct LuaEntry {
    /// The main thread of the Lua that the entry belongs to.
    state: *mut lua_State,
    /// `pass`, with what it needs beside its argument.
    enter: RegistryKey,
    on_error: RegistryKey,
    fields: Fields,
    kept: [Kept; 2],
}

/// One call through the entry.
struct LuaCall<'a> {
    body: Body<'a>,
    keys: Args<'a>,
    arguments: Args<'a>,
    kept: &'a [Kept; 2],
}

/// What is known of the table that scripts were last given a list in.
#[derive(Default)]
struct Kept {
    /// Whether to look if it is as it was made might take long.
    is_doubtful: Cell<bool>,
    /// The bytes of its list.
    bytes: Cell<usize>,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// A script, which finds what it is given in its globals, as far as it can see them.
    Script(&'a RegistryKey, VisibleLists),
    /// A function, which is given it.
    Function(&'a RegistryKey),
}

/// How a run ended that has not written a reply.
pub(super) enum Ending {
    /// Something was raised; the text that Lua has for it, if it is one.
    Raised(Option<Vec<u8>>),
    /// There is no room for its reply.
    ResultTooLarge,
}

impl LuaEntry {
    /// Makes the entry of a Lua; `world` has the globals of scripts, `on_error` is told what they
    /// raise.
    pub(super) fn new(lua: &Lua, world: Table, on_error: Function) -> mlua::Result<LuaEntry> {
        let main = Cell::new(std::ptr::null_mut());
        // SAFETY: the closure runs in protected mode and holds nothing; of its three arguments it
        // makes a C function, which is called by `run` only.
        let enter: Function = unsafe {
            lua.exec_raw((world, "KEYS", "ARGV"), |state| {
                main.set(state);
                ffi::lua_createtable(state, 0, 0);
                ffi::lua_createtable(state, 0, 0);
                ffi::lua_pushcclosure(state, pass, 5);
            })?
        };
        Ok(LuaEntry {
            state: main.get(),
            enter: lua.create_registry_value(enter)?,
            on_error: lua.create_registry_value(on_error)?,
            fields: Fields::new(lua)?,
            kept: Default::default(),
        })
    }

    /// Runs a script or a function and appends what it returns to `reply`. Lua's memory has no
    /// limit any more then.
    pub(super) fn run(
        &self,
        lua: &Lua,
        shared: &Shared,
        body: Body<'_>,
        (keys, arguments): (Args<'_>, Args<'_>),
        reply: &mut Reply<'_>,
    ) -> Result<(), Ending> {
        if shared.has_ticked.replace(false) {
            self.kept.iter().for_each(|kept| kept.is_doubtful.set(true));
        }
        let passage = LuaCall { body, keys, arguments, kept: &self.kept };
        let state = self.state;
        // SAFETY: between two runs the main thread's stack is empty, so it has the slots that are
        // needed here; `passage` outlives the call that reads it. What is raised ends there.
        let (bottom, status) = unsafe {
            let bottom = ffi::lua_gettop(state);
            push_value_of(state, &self.on_error);
            push_value_of(state, &self.enter);
            ffi::lua_pushlightuserdata(state, (&raw const passage).cast_mut().cast());
            (bottom, ffi::lua_pcall(state, 1, 1, bottom + 1))
        };
        // What Lua holds from here on it gives back soon; nothing fails for the want of memory.
        let _ = lua.set_memory_limit(0);
        let result = if status == ffi::LUA_OK {
            let resp = shared.resp.get();
            let room = (shared.budget.get(), lua.used_memory());
            let on_error = |text: &[u8], is_new| {
                shared.host.ask(|host| host.note_returned_error(text, is_new));
            };
            // SAFETY: the value is on top, memory has no limit, and the fields are of this Lua.
            let written = unsafe { write_value(state, &self.fields, room, resp, &on_error, reply) };
            written.map_err(|ResultTooLarge| Ending::ResultTooLarge)
        } else {
            // The error may have been raised while the lists were made.
            shared.has_ticked.set(true);
            // SAFETY: what was raised is on top.
            Err(Ending::Raised(unsafe { text_on_top(state) }))
        };
        // SAFETY: whatever is above the bottom came in this call.
        unsafe { ffi::lua_settop(state, bottom) };
        if let Some(panic) = shared.panic.take() {
            resume_unwind(panic);
        }
        result
    }
}

/// Calls what a `LuaCall` says with its keys and arguments.
///
/// # Safety
///
/// Called by `LuaEntry::run`, in protected mode, with the address of a passage as its only
/// argument; its upvalues are the table of the globals of scripts, the names of two of them, and
/// those two.
unsafe extern "C-unwind" fn pass(state: *mut lua_State) -> c_int {
    // SAFETY: the passage is there until the call of this function is over; a C function has
    // `LUA_MINSTACK` slots. What is raised jumps over this frame, which has nothing to be dropped.
    unsafe {
        let passage = &*ffi::lua_touserdata(state, 1).cast::<LuaCall<'_>>();
        match passage.body {
            Body::Script(key, sight) => {
                let [keys, arguments] = passage.kept;
                set_global_list(state, 0, passage.keys, sight.keys, keys);
                set_global_list(state, 1, passage.arguments, sight.arguments, arguments);
                push_value_of(state, key);
                ffi::lua_call(state, 0, 1);
            }
            Body::Function(key) => {
                push_value_of(state, key);
                push_list(state, passage.keys);
                push_list(state, passage.arguments);
                ffi::lua_call(state, 2, 1);
            }
        }
    }
    1
}

/// Pushes what a key of the registry stands for; raises nothing.
///
/// # Safety
///
/// The key is of this Lua, and there is a free slot.
unsafe fn push_value_of(state: *mut lua_State, key: &RegistryKey) {
    // SAFETY: as the caller promises.
    unsafe { ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, key.id()) };
}

/// Gives a script a list as its first or second global. A short list takes the table of the last
/// run, if that is as it was made: while scripts only read their arguments, no table is made. A
/// script that cannot see the list is not given it, unless much is to be forgotten.
///
/// # Safety
///
/// Called by `pass`, whose upvalues it uses, with four free slots; what is raised jumps over the
/// caller.
unsafe fn set_global_list(
    state: *mut lua_State,
    which: c_int,
    list: Args<'_>,
    is_seen: bool,
    kept: &Kept,
) {
    const SHORT: usize = 4;
    const MUCH: usize = 1024;
    if !is_seen && kept.bytes.get() < MUCH {
        return;
    }
    kept.bytes.set(list.extent());
    let may_reuse = !kept.is_doubtful.replace(false);
    let [world, name, table] = [1, 2 + which, 4 + which].map(ffi::lua_upvalueindex);
    // SAFETY: as the caller promises.
    unsafe {
        if may_reuse && list.len() <= SHORT && is_plain_list(state, table, list.len()) {
            for (index, value) in (1..).zip(list.iter()) {
                ffi::lua_pushlstring_(state, value.as_ptr().cast(), value.len());
                ffi::lua_rawseti_(state, table, index);
            }
            return;
        }
        push_list(state, list);
        ffi::lua_pushvalue(state, -1);
        ffi::lua_replace(state, table);
        ffi::lua_pushvalue(state, name);
        ffi::lua_insert(state, -2);
        // The name is there already, so nothing is raised while the world is open.
        set_readonly(state, world, false);
        ffi::lua_rawset(state, world);
        set_readonly(state, world, true);
    }
}

/// Whether a table has the elements from 1 to `count` and nothing else, and no metatable.
///
/// # Safety
///
/// There is a table at the index, and there are two free slots. Nothing is raised.
unsafe fn is_plain_list(state: *mut lua_State, table: c_int, count: usize) -> bool {
    // SAFETY: as the caller promises; each key that `lua_next` is given comes from the table.
    unsafe {
        let bottom = ffi::lua_gettop(state);
        let mut is_plain = ffi::lua_getmetatable(state, table) == 0;
        if is_plain {
            ffi::lua_pushnil(state);
        }
        let mut seen = 0;
        while is_plain && ffi::lua_next(state, table) != 0 {
            seen += 1;
            let is_next = ffi::lua_type(state, -2) == ffi::LUA_TNUMBER
                && ffi::lua_tonumber(state, -2) == seen as f64;
            is_plain = is_next && seen <= count;
            ffi::lua_settop(state, bottom + 1);
        }
        ffi::lua_settop(state, bottom);
        is_plain && seen == count
    }
}

/// # Safety
///
/// In protected mode, with two free slots; what is raised jumps over the caller.
unsafe fn push_list(state: *mut lua_State, list: Args<'_>) {
    // SAFETY: as the caller promises; a request has fewer arguments than a `c_int` can count.
    unsafe {
        ffi::lua_createtable(state, list.len() as c_int, 0);
        for (index, argument) in (1..).zip(list.iter()) {
            ffi::lua_pushlstring_(state, argument.as_ptr().cast(), argument.len());
            ffi::lua_rawseti_(state, -2, index);
        }
    }
}

/// The text on top of the stack, if there is one.
///
/// # Safety
///
/// There is a value on the stack.
unsafe fn text_on_top(state: *mut lua_State) -> Option<Vec<u8>> {
    let mut length = 0;
    // SAFETY: of a string no other is made; its bytes are copied while it is on the stack.
    unsafe {
        if ffi::lua_type(state, -1) != ffi::LUA_TSTRING {
            return None;
        }
        let bytes = ffi::lua_tolstring(state, -1, &mut length);
        Some(std::slice::from_raw_parts(bytes.cast(), length).to_vec())
    }
}
