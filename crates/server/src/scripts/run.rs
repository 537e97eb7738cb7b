//! A script as a program: it runs on the unit's transaction, from the beginning each time.
//!
//! Invariant: a run that does not end the script has undone all that it did.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use keyspace::{Lsn, Refusal};
use proto::{Args, Output, Reply, Resp};
use script::{DirectExit, DirectState, Fault, Input, Interpreter, Limits, Stop, Version};

use super::books::Books;
use super::brevity::Brevity;
use super::cache::Handle;
use super::caller::Caller;
use super::libraries::Loaded;
use super::running::{Listed, What};
use crate::guard::Limited;
use crate::server::Server;
use crate::session::Session;
use crate::table::Entry;
use crate::unit::{Before, Needs, Place, Program, Unit};
use crate::version;
use crate::worker::Worker;

/// The most that one run may take.
pub(super) const LIMITS: Limits = Limits { memory: 1 << 30 };

thread_local! {
    /// Not there while it runs.
    static INTERPRETER: RefCell<Option<Box<Own>>> = const { RefCell::new(None) };
    /// For scripts that are run without Lua.
    static BENCH: RefCell<DirectState> = RefCell::default();
}

/// A thread's interpreter, and where others read how much memory it takes.
struct Own {
    interpreter: Interpreter,
    memory: Arc<Memory>,
    /// The cache whose scripts it has compiled, and how many libraries had gone when it was last
    /// rid of such.
    forgot: (u64, u64),
    /// What it took when all its garbage was last collected.
    kept: usize,
}

/// An interpreter that takes so much more than twice what it kept is rid of its garbage once its
/// script has ended and given back its locks: garbage is in use, and a limit may have no room.
/// In steady use an interpreter takes one and a half times what it keeps.
const GARBAGE_MAX: usize = 4 << 20;

/// What an interpreter takes in bytes, as of its last run.
#[derive(Default)]
struct Memory {
    all: AtomicUsize,
    /// What libraries took of it when they were loaded.
    libraries: AtomicUsize,
    /// Whether it holds what is there no more.
    is_stale: AtomicBool,
}

/// Lends the thread's interpreter, which first forgets what is there no more.
pub(super) fn with_interpreter<T>(server: &Server, work: impl FnOnce(&mut Interpreter) -> T) -> T {
    let scripts = &server.scripts;
    let present = present(server);
    let there = INTERPRETER.with_borrow_mut(Option::take);
    let mut own = there.unwrap_or_else(|| {
        let text = version::of_redis(&server.config);
        let number = version::number_of_redis(&server.config);
        let interpreter = Interpreter::new(&Version { text, number });
        let kept = interpreter.memory();
        Box::new(Own { interpreter, memory: scripts.interpreters.add(), forgot: present, kept })
    });
    if own.forgot != present {
        own.forget(server, present);
    }
    let result = work(&mut own.interpreter);
    own.memory.note(&own.interpreter);
    INTERPRETER.set(Some(own));
    result
}

/// How often scripts and libraries went.
fn present(server: &Server) -> (u64, u64) {
    (server.scripts.cache.flushes(), server.scripts.libraries.losses())
}

/// Where scripts or libraries went, interpreters that have them and do not run are dropped, on all
/// threads; a worker's turn.
pub(crate) fn tend(server: &Server) {
    if server.scripts.interpreters.note_losses(present(server)) {
        server.heavy.release();
    }
    drop_stale();
    collect_garbage();
}

/// Collects the garbage of the thread's interpreter where that is much. No lock is held.
pub(crate) fn collect_garbage() {
    INTERPRETER.with_borrow_mut(|own| {
        if let Some(own) = own
            && own.interpreter.memory() > 2 * own.kept + GARBAGE_MAX
        {
            own.interpreter.collect();
            own.kept = own.interpreter.memory();
            own.memory.note(&own.interpreter);
        }
    });
}

/// Drops the thread's interpreter if it holds what is there no more.
pub(crate) fn drop_stale() {
    let is_stale = |own: &mut Box<Own>| own.memory.is_stale.load(Ordering::Relaxed);
    let stale = INTERPRETER.with_borrow_mut(|own| own.take_if(is_stale));
    drop(stale);
}

impl Own {
    #[cold]
    fn forget(&mut self, server: &Server, present: (u64, u64)) {
        if self.forgot.0 != present.0 {
            self.interpreter.forget_scripts();
        }
        if self.forgot.1 != present.1 {
            let state = server.scripts.libraries.state();
            self.interpreter.keep_libraries(|name| state.has_library(name));
        }
        self.forgot = present;
        self.memory.is_stale.store(false, Ordering::Relaxed);
    }
}

impl Memory {
    fn note(&self, interpreter: &Interpreter) {
        self.all.store(interpreter.memory(), Ordering::Relaxed);
        self.libraries.store(interpreter.memory_of_libraries(), Ordering::Relaxed);
    }
}

/// What the interpreters of all threads take.
#[derive(Default)]
pub(crate) struct Interpreters(Mutex<Roster>);

#[derive(Default)]
struct Roster {
    all: Vec<Weak<Memory>>,
    /// How often scripts and libraries had gone at the last look.
    seen: (u64, u64),
}

impl Interpreters {
    fn add(&self) -> Arc<Memory> {
        let memory = Arc::default();
        let mut roster = self.lock();
        // Those of threads that are over.
        roster.all.retain(|one| one.strong_count() > 0);
        roster.all.push(Arc::downgrade(&memory));
        memory
    }

    /// Marks all as stale if anything went since the last look; whether it did. One that runs
    /// before it is dropped forgets what is gone, and stays.
    fn note_losses(&self, present: (u64, u64)) -> bool {
        let mut roster = self.lock();
        let is_new = std::mem::replace(&mut roster.seen, present) != present;
        if is_new {
            let all = roster.all.iter().filter_map(Weak::upgrade);
            all.for_each(|one| one.is_stale.store(true, Ordering::Relaxed));
        }
        is_new
    }

    /// Their memory in bytes, and what libraries take of it.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let roster = self.lock();
        let each =
            roster.all.iter().filter_map(Weak::upgrade).map(|one| {
                (one.all.load(Ordering::Relaxed), one.libraries.load(Ordering::Relaxed))
            });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn lock(&self) -> MutexGuard<'_, Roster> {
        self.0.lock().expect("no critical section here panics")
    }
}

/// What is called.
pub(super) enum Code {
    Script(Arc<Handle>),
    /// A function of a library, by its name there.
    Function(Arc<Loaded>, Box<[u8]>),
}

/// How it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Without Lua.
    Direct,
    Lua,
}

impl Code {
    /// Whether it may be run without Lua, as far as one can tell; asked before each run.
    fn may_go_directly(&self) -> bool {
        match self {
            Self::Script(script) => script.is_direct() && script.in_lua.is_over(),
            Self::Function(..) => false,
        }
    }

    fn run_in_lua(
        &self,
        interpreter: &mut Interpreter,
        input: Input<'_>,
        caller: &mut Caller<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Fault> {
        match self {
            Self::Script(script) => interpreter.run(script, input, caller, LIMITS, reply),
            Self::Function(loaded, name) => {
                interpreter.run_function(&loaded.library, name, input, caller, LIMITS, reply)
            }
        }
    }

    /// The function's name, if it is one.
    fn function(&self) -> Option<&[u8]> {
        match self {
            Self::Script(_) => None,
            Self::Function(_, name) => Some(name),
        }
    }
}

/// A call of a script or of a function.
pub(super) struct Call {
    pub(super) server: &'static Server,
    pub(super) code: Code,
    pub(super) entry: &'static Entry,
    /// How many of the arguments behind the third are keys.
    pub(super) keys: usize,
    pub(super) resp: Resp,
    /// Whose rules its commands have to keep, if there are any.
    pub(super) limited: Option<Limited>,
    pub(super) is_read_only: bool,
    /// Whether it may write when no memory is left.
    pub(super) allows_oom: bool,
    /// Where the sequence of random numbers stood when it first ran.
    pub(super) seed: Option<u64>,
    pub(super) has_failed: bool,
    /// Whether the cache may have its script from it alone.
    pub(super) has_claim: bool,
    /// Where it stands for SCRIPT KILL, once it has taken long.
    pub(super) listed: Option<Listed>,
    /// Whether its last run was ended by SCRIPT KILL.
    pub(super) was_killed: bool,
    /// Of the run that was the last.
    pub(super) books: Books,
    /// Where the journal was behind the change that made the function what it is.
    pub(super) saw: Lsn,
    /// When it began, on the clock of the wall in microseconds, and in which database.
    pub(super) began: (i64, usize),
}

impl Program for Call {
    fn needs(&self, args: Args<'_>) -> Needs {
        let (keys, keyspace) = (self.split(args).0, self.server.keyspace);
        let partitions = keys.iter().map(|key| keyspace.locate(key).partition()).collect();
        Needs { partitions, world: false, undoable: true }
    }

    fn run(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &mut Place<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let database = unit.tx.database();
        if self.server.watchers.any() {
            self.began = (self.server.keyspace.clock().now_us(), database);
        }
        // As it begins: what gets short later does not end it half way.
        unit.shortage();
        // What a function tells is told once its library is safe.
        unit.tx.note_lsn(self.saw);
        // Where others changed something before, that cannot be undone for this script alone.
        let before = if unit.hurries() { unit.before() } else { None };
        let mut means = match &before {
            Some(_) if self.code.may_go_directly() => Means::Direct,
            _ => Means::Lua,
        };
        let result = loop {
            let may_restart = before.is_some() || unit.may_begin_elsewhere();
            let result = self.perform(args, unit, place, means, may_restart, out);
            if let Some(result) = result {
                break result;
            }
            if let Some(before) = &before {
                unit.start_over_from(before.clone());
            }
            means = Means::Lua;
        };
        unit.tx.switch_database(database);
        if !matches!(result, Err(Fault::Stop(Stop::Widen | Stop::Heavy))) {
            self.was_killed = self.listed.take().is_some_and(Listed::leave);
        }
        self.conclude(result, before, unit, out)
    }

    fn may_be_put_off(&self) -> bool {
        !self.was_killed && self.listed.is_none()
    }

    fn keep_rules(&mut self, limited: &Limited) {
        self.limited = Some(Arc::clone(limited));
    }

    fn restart(&mut self) {
        self.has_failed = false;
        self.note_all_undone();
    }

    fn forget(&mut self) {
        if let (true, Code::Script(handle)) = (self.has_claim, &self.code) {
            self.server.scripts.cache.withdraw(handle);
        }
    }

    fn abandon(&mut self) {
        self.listed = None;
        self.books = Books::default();
    }

    fn killed(&mut self) -> Vec<usize> {
        self.was_killed |= self.listed.take().is_some_and(Listed::leave);
        if self.was_killed { vec![0] } else { Vec::new() }
    }

    fn kill(&mut self, args: Args<'_>, _: Vec<usize>) {
        let now_us = self.server.keyspace.clock().monotonic_us();
        let what = What { function: None, request: args.into() };
        self.listed = Some(self.server.scripts.underway.enter_killed(now_us, what));
    }

    fn needs_no_locks(&self) -> bool {
        self.listed.as_ref().is_some_and(Listed::is_killed)
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn is_brief(&self) -> bool {
        self.brevity().allows_company()
    }

    fn note_run(&self, was_long: bool) {
        self.brevity().note_run(was_long);
    }

    fn note_undone(&self) {
        self.brevity().note_undone();
    }

    fn book(&self, args: Args<'_>, worker: &Worker, session: &mut Session) {
        if let (true, Code::Script(handle)) = (self.has_claim, &self.code) {
            handle.settle();
        }
        let watchers = &self.server.watchers;
        if watchers.any() {
            watchers.tell_all(worker, session, self.began, self.entry, args);
        }
        self.books.close(worker, session);
    }
}

impl Call {
    /// Runs it once; `None` if only Lua can tell what comes of it, and what it did is to be undone.
    fn perform(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &Place<'_>,
        means: Means,
        may_restart: bool,
        out: &mut Output,
    ) -> Option<Result<(), Fault>> {
        self.note_all_undone();
        let (keys, arguments) = self.split(args);
        let known = keys.get(0).and_then(|key| Some((key, unit.tx.hinted(key)?)));
        let mut caller = Caller {
            server: self.server,
            unit: &mut *unit,
            known,
            limited: self.limited.as_ref(),
            is_read_only: self.is_read_only,
            allows_oom: self.allows_oom,
            may_restart,
            is_tentative: means == Means::Direct,
            moment: place.moment(self.server),
            began_us: None,
            has_written: false,
            is_long: false,
            books: Books::default(),
            returned_errors: Vec::new(),
            listed: &mut self.listed,
            function: self.code.function(),
            request: args,
        };
        let mut input = Input { keys, arguments, seed: self.seed };
        let mut reply = Reply::new(out, self.resp);
        let result = match (means, &self.code) {
            (Means::Direct, Code::Script(script)) => {
                let result = BENCH.with_borrow_mut(|bench| {
                    script.run_directly(input, &mut caller, LIMITS, bench, &mut reply)
                });
                match result {
                    Ok(()) => Ok(()),
                    // How it ends is said in Lua, which comes no further than here.
                    Err(DirectExit::Stop(Stop::Killed)) => return None,
                    Err(DirectExit::Stop(stop)) => Err(Fault::Stop(stop)),
                    Err(DirectExit::GaveUp) => {
                        script.in_lua.begin();
                        return None;
                    }
                }
            }
            (_, code) => with_interpreter(self.server, |interpreter| {
                input.seed = Some(*self.seed.get_or_insert_with(|| interpreter.seed()));
                code.run_in_lua(interpreter, input, &mut caller, &mut reply)
            }),
        };
        let returned_errors = std::mem::take(&mut caller.returned_errors);
        self.books = caller.books;
        if result.is_ok() && !returned_errors.is_empty() {
            self.has_failed = true;
            returned_errors.iter().flatten().for_each(|code| unit.count_error(code));
        }
        Some(result)
    }

    /// What a run has come to: a reply, or that it has to begin again.
    fn conclude(
        &mut self,
        result: Result<(), Fault>,
        before: Option<Before>,
        unit: &mut Unit,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        match result {
            Ok(()) => Ok(()),
            Err(Fault::Stop(Stop::Widen)) => Err(Refusal::Widen),
            Err(Fault::Stop(_)) => match before {
                Some(before) => {
                    unit.start_over_from(before);
                    self.note_all_undone();
                    Err(Refusal::Heavy)
                }
                None => {
                    unit.begin_elsewhere();
                    Err(Refusal::Widen)
                }
            },
            Err(Fault::Error(error)) => {
                self.has_failed = true;
                let mut reply = Reply::new(out, self.resp);
                if error.is_new {
                    unit.refuse(&Refusal::owned(error.text), &mut reply);
                } else {
                    reply.error(&error.text);
                }
                Ok(())
            }
        }
    }

    /// All that the script wrote is undone, so it may be ended again.
    fn note_all_undone(&self) {
        if let Some(listed) = &self.listed {
            listed.note_undone();
        }
    }

    fn brevity(&self) -> &Brevity {
        match &self.code {
            Code::Script(handle) => &handle.brevity,
            Code::Function(loaded, _) => &loaded.brevity,
        }
    }

    /// The keys of a request, and the arguments behind them.
    fn split<'a>(&self, args: Args<'a>) -> (Args<'a>, Args<'a>) {
        (args.slice(3..3 + self.keys), args.skip(3 + self.keys))
    }
}
