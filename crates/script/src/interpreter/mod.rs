//! One Lua with the world that scripts see, for one thread.
//!
//! Invariants: a host is lent for one run; what the functions of a run share with it is in
//! `Shared`; no table that a run finds there can be written, except the two lists it is given.

mod api;
mod failure;
#[allow(unsafe_code, reason = "the hot road into Lua and back is on its own stack")]
mod ffi;
mod guarded;
mod register_function;
mod shared;

use std::collections::HashMap;
use std::rc::Rc;

use mlua::{
    ChunkMode, Function, HookTriggers, Lua, LuaOptions, RegistryKey, StdLib, Table, Value, VmState,
};
use proto::{Args, Reply};

use crate::error::{Fault, ScriptError};
use crate::host::{Host, Stop};
use crate::library::{Library, Registration};
use crate::modules;
use crate::program::{ByDigest, Program};
use ffi::{Body, Ending, LuaEntry};
use shared::{Failure, Registering, Shared};

/// How many instructions pass between two looks at the time.
const TICK: u32 = 1000;
/// A collection begins when so many percent of what the last one left are in use. To mark the
/// world, some 100 KB, more often is cheaper than to have each short script make its strings in
/// memory that has gone from the caches since it was last used.
const PAUSE: i32 = 150;
/// So many compiled scripts are kept; beyond, all are compiled anew.
const COMPILED_MAX: usize = 1000;

/// What scripts read of the server they run in.
#[derive(Clone, Debug)]
pub struct Version {
    /// `redis.REDIS_VERSION`
    pub text: String,
    /// `redis.REDIS_VERSION_NUM`
    pub number: u32,
}

/// What one run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of Lua's memory, and of each thing that is made out of it.
    pub memory: usize,
}

/// The keys and the arguments of a run.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// `KEYS`
    pub keys: Args<'a>,
    /// `ARGV`
    pub arguments: Args<'a>,
    /// Where the sequence of `math.random` stands, if not where the last run left it: for a run
    /// that is made again.
    pub seed: Option<u64>,
}

/// A Lua that runs scripts for one thread.
pub struct Interpreter {
    lua: Lua,
    shared: Rc<Shared>,
    entry: LuaEntry,
    script_world: Table,
    library_world: Table,
    run_loading: Function,
    /// Kept in Lua's registry, because references from outside are few.
    compiled: ByDigest<RegistryKey>,
    libraries: HashMap<Box<[u8]>, Compiled>,
    /// Of all of them together.
    library_memory: usize,
}

/// A library that has run here.
struct Compiled {
    identity: u64,
    functions: HashMap<Box<[u8]>, RegistryKey>,
    /// What Lua's memory grew by when it was loaded.
    memory: usize,
}

impl Interpreter {
    /// Makes a Lua and its world.
    pub fn new(version: &Version) -> Interpreter {
        Interpreter::build(version).expect("the prelude is ours, and nothing bounds memory yet")
    }

    fn build(version: &Version) -> mlua::Result<Interpreter> {
        guarded::share_hash_key();
        let libraries = StdLib::TABLE | StdLib::OS | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        lua.gc_set_pause(PAUSE);
        let shared = Rc::new(Shared::new(&lua));
        let native = lua.create_table()?;
        native.raw_set("bit", modules::bit(&lua)?)?;
        let json_arrays = lua.create_table()?;
        native
            .raw_set("cjson", modules::cjson(&lua, &shared.scratch, &shared.json, &json_arrays)?)?;
        native.raw_set("json_arrays", json_arrays)?;
        native.raw_set("cmsgpack", modules::cmsgpack(&lua, &shared.scratch)?)?;
        native.raw_set("struct", modules::structs(&lua, &shared.scratch)?)?;
        native.raw_set("math", modules::random(&lua, &shared.seed)?)?;
        native.raw_set("script_api", api::script_api(&lua, version, &shared)?)?;
        native.raw_set("loading_api", api::loading_api(&lua, version, &shared)?)?;
        native.raw_set("library_api", api::library_api(&lua, version, &shared)?)?;
        failure::add(&lua, &native, &shared)?;
        guarded::add(&lua, &native)?;
        let on_error = native.raw_get("on_error")?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (script_world, library_world, run_loading): (Table, _, _) = prelude.call(native)?;
        let own = Rc::clone(&shared);
        let triggers = HookTriggers::new().every_nth_instruction(TICK);
        lua.set_global_hook(triggers, move |lua, _| {
            own.tick(lua)?;
            Ok(VmState::Continue)
        })?;
        Ok(Interpreter {
            entry: LuaEntry::new(&lua, script_world.clone(), on_error)?,
            shared,
            script_world,
            library_world,
            run_loading,
            compiled: ByDigest::default(),
            libraries: HashMap::new(),
            library_memory: 0,
            lua,
        })
    }

    /// The bytes of memory that Lua holds.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// How many of them libraries took when they were loaded.
    pub fn memory_of_libraries(&self) -> usize {
        self.memory().min(self.library_memory)
    }

    /// Where the sequence of `math.random` stands.
    pub fn seed(&self) -> u64 {
        self.shared.seed.position()
    }

    /// Compiles a script, to tell whether it can be.
    pub fn check(&mut self, program: &Program) -> Result<(), ScriptError> {
        if self.compiled.contains_key(&program.sha1()) { Ok(()) } else { self.compile(program) }
    }

    /// Runs a script. What it returns is appended to `reply`, in whose protocol its client speaks;
    /// after a fault nothing is.
    pub fn run(
        &mut self,
        program: &Program,
        input: Input<'_>,
        host: &mut dyn Host,
        limits: Limits,
        reply: &mut Reply<'_>,
    ) -> Result<(), Fault> {
        let key = match self.compiled.get(&program.sha1()) {
            Some(key) => key,
            None => {
                self.compile(program).map_err(Fault::Error)?;
                &self.compiled[&program.sha1()]
            }
        };
        let result =
            self.perform(Body::Script(key, program.visible_lists()), input, host, limits, reply);
        result.map_err(|failure| self.fault(failure, program.sha1().hex().as_bytes()))
    }

    /// Runs a function of a library, which is loaded first if it has not been here yet.
    pub fn run_function(
        &mut self,
        library: &Library,
        name: &[u8],
        input: Input<'_>,
        host: &mut dyn Host,
        limits: Limits,
        reply: &mut Reply<'_>,
    ) -> Result<(), Fault> {
        let is_here = self.libraries.get(library.name());
        if is_here.is_none_or(|compiled| compiled.identity != library.identity()) {
            self.shared.loads_again.set(true);
            let loaded = self.load(library, host, limits);
            self.shared.loads_again.set(false);
            loaded?;
        }
        let compiled = self.libraries.get(library.name());
        let Some(key) = compiled.and_then(|compiled| compiled.functions.get(name)) else {
            return Err(Fault::Error(ScriptError::new("ERR Function not found")));
        };
        let result = self.perform(Body::Function(key), input, host, limits, reply);
        result.map_err(|failure| self.fault(failure, name))
    }

    /// Runs a library's own code and tells what it registers.
    pub fn load(
        &mut self,
        library: &Library,
        host: &mut dyn Host,
        limits: Limits,
    ) -> Result<Vec<Registration>, Fault> {
        self.enter(limits);
        let shared = Rc::clone(&self.shared);
        let before = self.lua.used_memory();
        let result = shared.host.during(host, || self.register(library));
        let _ = self.lua.set_memory_limit(0);
        let memory = self.lua.used_memory().saturating_sub(before);
        if result.is_ok()
            && let Some(compiled) = self.libraries.get_mut(library.name())
        {
            compiled.memory = memory;
            self.library_memory += memory;
        }
        result
    }

    /// Collects all garbage.
    pub fn collect(&mut self) {
        // Nothing of a script can run here: no value of Lua has a finalizer that is not ours.
        self.lua.expire_registry_values();
        // What has a finalizer goes the second time, and behind it what that alone has held.
        loop {
            let before = self.memory();
            let _ = self.lua.gc_collect();
            if before - before / 8 <= self.memory() {
                break;
            }
        }
    }

    /// Forgets all scripts that were compiled, and what they left behind.
    pub fn forget_scripts(&mut self) {
        self.compiled.clear();
        self.collect();
    }

    /// Forgets libraries, and what they left behind.
    pub fn keep_libraries(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.libraries.retain(|name, _| is_kept(name));
        self.library_memory = self.libraries.values().map(|library| library.memory).sum();
        self.collect();
    }

    fn enter(&self, limits: Limits) {
        self.shared.begin(limits.memory);
        let most = self.lua.used_memory().saturating_add(limits.memory);
        // Lua asks our allocator, which knows the limit: setting it cannot fail.
        let _ = self.lua.set_memory_limit(most);
    }

    /// Compiles a script and keeps it.
    fn compile(&mut self, program: &Program) -> Result<(), ScriptError> {
        let compiled = self.translate(program.body(), "@user_script", &self.script_world);
        let function = compiled.map_err(|problem| {
            let text = [b"ERR Error compiling script (new function): ", &problem[..]].concat();
            ScriptError::new(text)
        })?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
            self.lua.expire_registry_values();
        }
        let key = self.lua.create_registry_value(&function);
        let key = key.map_err(|error| ScriptError::new(format!("ERR {error}")))?;
        self.compiled.insert(program.sha1(), key);
        Ok(())
    }

    fn translate(&self, source: &[u8], name: &str, world: &Table) -> Result<Function, Vec<u8>> {
        let chunk = self.lua.load(source).set_name(name).set_mode(ChunkMode::Text);
        let function = chunk.set_environment(world.clone()).into_function();
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message.into_bytes(),
            other => other.to_string().into_bytes(),
        })
    }

    /// Runs something with its input, for a host.
    fn perform(
        &self,
        body: Body<'_>,
        input: Input<'_>,
        host: &mut dyn Host,
        limits: Limits,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        self.enter(limits);
        if let Some(seed) = input.seed {
            self.shared.seed.resume(seed);
        }
        let mark = reply.mark();
        let (lua, shared, lists) = (&self.lua, &*self.shared, (input.keys, input.arguments));
        let work = || self.entry.run(lua, shared, body, lists, reply);
        let ending = match shared.host.during(host, work) {
            Ok(()) => return Ok(()),
            Err(ending) => ending,
        };
        reply.rollback(mark);
        self.shared.forget_reply();
        Err(match ending {
            Ending::ResultTooLarge => failure::without_handler(Some(b"not enough memory")),
            Ending::Raised(text) => {
                let failure = shared.failure.take();
                failure.unwrap_or_else(|| failure::without_handler(text.as_deref()))
            }
        })
    }

    fn fault(&self, failure: Failure, name: &[u8]) -> Fault {
        match self.shared.stop.get() {
            Some(stop @ (Stop::Widen | Stop::Heavy)) => Fault::Stop(stop),
            // Whatever was raised since: perhaps within a command.
            Some(Stop::Killed) => Fault::Error(Failure::killed(failure.place).describe(name)),
            None => Fault::Error(failure.describe(name)),
        }
    }

    /// Runs a library's code and keeps its functions.
    fn register(&mut self, library: &Library) -> Result<Vec<Registration>, Fault> {
        let body = self.translate(library.body(), "@user_function", &self.library_world);
        let body = body.map_err(|problem| {
            let text = [b"ERR Error compiling function: ", &problem[..]].concat();
            Fault::Error(ScriptError::new(text))
        })?;
        self.shared.loading.replace(Some(Registering::default()));
        let result = self.run_loading.call::<(bool, Value)>(body);
        let Registering { registrations, bodies } = self.shared.loading.take().unwrap_or_default();
        let failure = match result {
            Ok((true, _)) => None,
            Ok((false, value)) => {
                let failure = self.shared.failure.take();
                let text = value.as_string().map(|text| text.as_bytes().to_vec());
                Some(failure.unwrap_or_else(|| failure::without_handler(text.as_deref())))
            }
            Err(error) => Some(failure::from_outside(&error)),
        };
        if let Some(failure) = failure {
            drop(bodies);
            self.lua.expire_registry_values();
            return Err(match self.shared.stop.get() {
                Some(stop) => Fault::Stop(stop),
                None => Fault::Error(failure.describe_loading()),
            });
        }
        if registrations.is_empty() {
            return Err(Fault::Error(ScriptError::new("ERR No functions registered")));
        }
        let compiled = Compiled { identity: library.identity(), functions: bodies, memory: 0 };
        if let Some(former) = self.libraries.insert(library.name().into(), compiled) {
            self.library_memory -= former.memory;
            self.lua.expire_registry_values();
        }
        Ok(registrations)
    }
}
