//! One Lua with the world that scripts see, for one thread.
//!
//! Invariants: the host is inside while a run is and comes back from it; what the functions of a
//! run share with it is in `Shared`; the collector rests while text is compiled, so that nothing
//! the compiler holds can go away.

mod api;
mod failure;
mod registering;
mod shared;

use std::collections::HashMap;
use std::rc::Rc;

use mlua::{ChunkMode, HookTriggers, Lua, LuaOptions, RegistryKey, StdLib, Table, Value, VmState};
use proto::{Args, Reply};

use crate::error::{Fault, ScriptError};
use crate::host::{Host, Stop};
use crate::library::{Library, Registration};
use crate::modules;
use crate::program::{Program, Sha1};
use crate::replies::{Fields, write_value};
use crate::room::set_room;
use shared::{Failure, Shared};

/// How many instructions pass between two looks at the time.
const TICK: u32 = 1000;
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
pub struct Interpreter<H: Host> {
    lua: Lua,
    shared: Rc<Shared<H>>,
    fields: Fields,
    script_world: Table,
    library_world: Table,
    run_script: mlua::Function,
    run_function: mlua::Function,
    run_loading: mlua::Function,
    /// Kept in Lua's registry, because references from outside are few.
    compiled: HashMap<Sha1, RegistryKey>,
    libraries: HashMap<Box<[u8]>, Compiled>,
}

/// A library that has run here.
struct Compiled {
    identity: u64,
    functions: HashMap<Box<[u8]>, RegistryKey>,
}

impl<H: Host> Interpreter<H> {
    /// Makes a Lua and its world.
    pub fn new(version: &Version) -> Interpreter<H> {
        Interpreter::build(version).expect("the prelude is ours, and nothing bounds memory yet")
    }

    fn build(version: &Version) -> mlua::Result<Interpreter<H>> {
        let libraries = StdLib::TABLE | StdLib::OS | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let shared = Rc::new(Shared::new());
        let native = lua.create_table()?;
        native.raw_set("bit", modules::bit(&lua)?)?;
        native.raw_set("cjson", modules::cjson(&lua, &shared.json)?)?;
        native.raw_set("cmsgpack", modules::cmsgpack(&lua)?)?;
        native.raw_set("struct", modules::structs(&lua)?)?;
        native.raw_set("math", modules::random(&lua, &shared.seed)?)?;
        native.raw_set("script_api", api::script_api(&lua, version, &shared)?)?;
        native.raw_set("loading_api", api::loading_api(&lua, version, &shared)?)?;
        native.raw_set("library_api", api::library_api(&lua, version, &shared)?)?;
        failure::add(&lua, &native, &shared)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (script_world, library_world, run_script, run_function, run_loading) =
            prelude.call(native)?;
        let own = Rc::clone(&shared);
        let triggers = HookTriggers::new().every_nth_instruction(TICK);
        lua.set_global_hook(triggers, move |lua, _| {
            own.tick(lua)?;
            Ok(VmState::Continue)
        })?;
        Ok(Interpreter {
            fields: Fields::new(&lua)?,
            shared,
            script_world,
            library_world,
            run_script,
            run_function,
            run_loading,
            compiled: HashMap::new(),
            libraries: HashMap::new(),
            lua,
        })
    }

    /// The bytes of memory that Lua holds.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Where the sequence of `math.random` stands.
    pub fn seed(&self) -> u64 {
        self.shared.seed.position()
    }

    /// Compiles a script, to tell whether it can be.
    pub fn check(&mut self, program: &Program) -> Result<(), ScriptError> {
        self.script(program).map(drop)
    }

    /// Runs a script. What it returns is appended to `reply`, in whose protocol its client speaks;
    /// after a fault nothing is.
    pub fn run(
        &mut self,
        program: &Program,
        input: Input<'_>,
        host: H,
        limits: Limits,
        reply: &mut Reply<'_>,
    ) -> (H, Result<(), Fault>) {
        self.enter(host, limits);
        let result = match self.script(program) {
            Ok(body) => {
                let result = self.perform(&self.run_script, &body, input, reply);
                result.map_err(|failure| self.fault(failure, program.sha1().hex().as_bytes()))
            }
            Err(error) => Err(Fault::Error(error)),
        };
        (self.leave(), result)
    }

    /// Runs a function of a library, which is loaded first if it has not been here yet.
    pub fn run_function(
        &mut self,
        library: &Library,
        name: &[u8],
        input: Input<'_>,
        host: H,
        limits: Limits,
        reply: &mut Reply<'_>,
    ) -> (H, Result<(), Fault>) {
        self.enter(host, limits);
        let result = match self.function(library, name) {
            Ok(body) => {
                let result = self.perform(&self.run_function, &body, input, reply);
                result.map_err(|failure| self.fault(failure, name))
            }
            Err(fault) => Err(fault),
        };
        (self.leave(), result)
    }

    /// Runs a library's own code and tells what it registers.
    pub fn load(
        &mut self,
        library: &Library,
        host: H,
        limits: Limits,
    ) -> (H, Result<Vec<Registration>, Fault>) {
        self.enter(host, limits);
        let result = self.register(library);
        (self.leave(), result)
    }

    /// Forgets all that was compiled.
    pub fn forget(&mut self) {
        self.compiled.clear();
        self.libraries.clear();
        // Nothing of a script can run here: no value of Lua has a finalizer that is not ours.
        self.lua.expire_registry_values();
        let _ = self.lua.gc_collect();
    }

    fn enter(&self, host: H, limits: Limits) {
        self.shared.enter(host);
        set_room(&self.lua, limits.memory);
        let most = self.lua.used_memory().saturating_add(limits.memory);
        // Lua asks our allocator, which knows the limit: setting it cannot fail.
        let _ = self.lua.set_memory_limit(most);
    }

    fn leave(&self) -> H {
        let _ = self.lua.set_memory_limit(0);
        self.shared.leave()
    }

    /// The function that a script is, compiled here once.
    fn script(&mut self, program: &Program) -> Result<mlua::Function, ScriptError> {
        if let Some(key) = self.compiled.get(&program.sha1()) {
            let function = self.lua.registry_value(key);
            return function.map_err(|error| ScriptError::new(format!("ERR {error}")));
        }
        let compiled = self.compile(program.body(), "@user_script", &self.script_world);
        let function = compiled.map_err(|problem| {
            let text = [b"ERR Error compiling script (new function): ", &problem[..]].concat();
            ScriptError::new(text)
        })?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
            self.lua.expire_registry_values();
        }
        if let Ok(key) = self.lua.create_registry_value(&function) {
            self.compiled.insert(program.sha1(), key);
        }
        Ok(function)
    }

    fn compile(&self, source: &[u8], name: &str, world: &Table) -> Result<mlua::Function, Vec<u8>> {
        self.lua.gc_stop();
        let chunk = self.lua.load(source).set_name(name).set_mode(ChunkMode::Text);
        let function = chunk.set_environment(world.clone()).into_function();
        self.lua.gc_restart();
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message.into_bytes(),
            other => other.to_string().into_bytes(),
        })
    }

    /// Calls a function of the prelude with a script's function and its input.
    fn perform(
        &self,
        entrance: &mlua::Function,
        body: &mlua::Function,
        input: Input<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let mark = reply.mark();
        let result = self.call(entrance, body, input).and_then(|outcome| match outcome {
            Ok(value) => {
                let resp = self.shared.resp.get();
                write_value(&self.lua, &self.fields, &value, resp, reply).map(|()| None)
            }
            Err(failure) => Ok(Some(failure)),
        });
        let failure = match result {
            Ok(None) => return Ok(()),
            Ok(Some(failure)) => failure,
            Err(error) => failure::from_outside(&error),
        };
        reply.rollback(mark);
        Err(failure)
    }

    /// The first value that a script returns, or what it failed with.
    fn call(
        &self,
        entrance: &mlua::Function,
        body: &mlua::Function,
        input: Input<'_>,
    ) -> mlua::Result<Result<Value, Failure>> {
        if let Some(seed) = input.seed {
            self.shared.seed.resume(seed);
        }
        let (keys, arguments) = (self.list(input.keys)?, self.list(input.arguments)?);
        let (is_done, value): (bool, Value) = entrance.call((body, keys, arguments))?;
        if is_done {
            return Ok(Ok(value));
        }
        let failure = self.shared.failure.take();
        let failure = failure.unwrap_or_else(|| failure::without_handler(&value));
        Ok(Err(failure))
    }

    fn fault(&self, failure: Failure, name: &[u8]) -> Fault {
        match self.shared.stop.get() {
            Some(stop @ (Stop::Widen | Stop::Heavy)) => Fault::Stop(stop),
            _ => Fault::Error(failure.describe(name)),
        }
    }

    fn list(&self, args: Args<'_>) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(args.len(), 0)?;
        for (index, argument) in args.iter().enumerate() {
            table.raw_set(index + 1, self.lua.create_string(argument)?)?;
        }
        Ok(table)
    }

    fn function(&mut self, library: &Library, name: &[u8]) -> Result<mlua::Function, Fault> {
        let is_here = self.libraries.get(library.name());
        if is_here.is_none_or(|compiled| compiled.identity != library.identity()) {
            self.register(library)?;
        }
        let compiled = self.libraries.get(library.name());
        let function = compiled.and_then(|compiled| compiled.functions.get(name));
        let function = function.and_then(|key| self.lua.registry_value(key).ok());
        function.ok_or_else(|| Fault::Error(ScriptError::new("ERR Function not found")))
    }

    /// Runs a library's code and keeps its functions.
    fn register(&mut self, library: &Library) -> Result<Vec<Registration>, Fault> {
        let body = self.compile(library.body(), "@user_function", &self.library_world);
        let body = body.map_err(|problem| {
            let text = [b"ERR Error compiling function: ", &problem[..]].concat();
            Fault::Error(ScriptError::new(text))
        })?;
        self.shared.loading.replace(Some(Vec::new()));
        let result = self.run_loading.call::<(bool, Value)>(body);
        let registered = self.shared.loading.take().unwrap_or_default();
        let failure = match result {
            Ok((true, _)) => None,
            Ok((false, value)) => {
                let failure = self.shared.failure.take();
                Some(failure.unwrap_or_else(|| failure::without_handler(&value)))
            }
            Err(error) => Some(failure::from_outside(&error)),
        };
        if let Some(failure) = failure {
            return Err(match self.shared.stop.get() {
                Some(stop) => Fault::Stop(stop),
                None => Fault::Error(failure.describe_loading()),
            });
        }
        if registered.is_empty() {
            return Err(Fault::Error(ScriptError::new("ERR No functions registered")));
        }
        let mut functions = HashMap::new();
        let mut registrations = Vec::new();
        for one in registered {
            let key = self.lua.create_registry_value(one.body);
            let key = key
                .map_err(|error| Fault::Error(failure::from_outside(&error).describe_loading()))?;
            functions.insert(one.registration.name.clone(), key);
            registrations.push(one.registration);
        }
        let compiled = Compiled { identity: library.identity(), functions };
        if self.libraries.insert(library.name().into(), compiled).is_some() {
            self.lua.expire_registry_values();
        }
        Ok(registrations)
    }
}
