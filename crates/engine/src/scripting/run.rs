//! A script as a program, which runs on the unit's transaction, from the beginning each time.
//!
//! Invariant: a run that does not end the script has undone all that it did.

use std::cell::RefCell;
use std::sync::Arc;

use keyspace::{Location, Lsn, Refusal};
use proto::{Args, Output, Reply, Resp};
use script::{DirectExit, DirectState, Fault, Input, Interpreter, Stop};

use super::accounting::Accounting;
use super::interpreter::{LIMITS, with_interpreter};
use super::script_host::ScriptHost;
use crate::admission::redirection::CalledSlots;
use crate::lane::Lane;
use crate::limits::scripts::cache::ScriptHandle;
use crate::limits::scripts::cost_history::CostHistory;
use crate::limits::scripts::libraries::LoadedLibrary;
use crate::limits::scripts::running::{RunningCall, RunningHandle};
use crate::limits::slot_map::SlotAccess;
use crate::session::AclSubject;
use crate::session::LockSet;
use crate::session::ProgramAccounts;
use crate::session::Session;
use crate::table::command_table::CommandEntry;
use crate::transaction::engine::Engine;
use crate::transaction::unit::{Program, RunsOn, Savepoint, Unit};

thread_local! {
    /// For scripts that are run without Lua.
    static BENCH: RefCell<DirectState> = RefCell::default();
}

/// What is called.
pub(crate) enum CallTarget {
    Script(Arc<ScriptHandle>),
    /// A function of a library, by its name there.
    Function(Arc<LoadedLibrary>, Box<[u8]>),
}

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptEngine {
    /// Without Lua.
    Direct,
    Lua,
}

impl CallTarget {
    /// Whether the script may be run without Lua, as far as one can tell; asked before each run.
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
        host: &mut ScriptHost<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Fault> {
        match self {
            Self::Script(script) => interpreter.run(script, input, host, LIMITS, reply),
            Self::Function(loaded, name) => {
                interpreter.run_function(&loaded.library, name, input, host, LIMITS, reply)
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
pub(crate) struct ScriptCall {
    pub server: &'static Engine,
    pub(crate) code: CallTarget,
    pub entry: &'static CommandEntry,
    /// How many of the arguments behind the third are keys.
    pub(crate) keys: usize,
    pub resp: Resp,
    /// Whose rules its commands have to keep, if there are any.
    pub(crate) subject: Option<Arc<AclSubject>>,
    /// Whether the script is one of several commands of a unit.
    pub(crate) is_part: bool,
    pub(crate) is_read_only: bool,
    /// Whether the script may write when no memory is left.
    pub(crate) allows_oom: bool,
    /// What its client has said that opens slots of a cluster to it.
    pub(crate) access: SlotAccess,
    /// In a cluster, whether the keys of its commands may be of several slots.
    pub(crate) allows_cross_slot: bool,
    /// Where the sequence of random numbers stood when it first ran.
    pub(crate) seed: Option<u64>,
    pub(crate) has_failed: bool,
    /// Whether the cache may have its script from it alone.
    pub(crate) has_claim: bool,
    /// Where the script stands for SCRIPT KILL, once it has taken long.
    pub(crate) running: Option<RunningHandle>,
    /// Whether its last run was ended by SCRIPT KILL.
    pub(crate) was_killed: bool,
    /// Of the run that was the last.
    pub(crate) accounting: Accounting,
    /// Where the journal was behind the change that made the function what it is.
    pub(crate) saw: Lsn,
    /// When the script began, on the clock of the wall in microseconds, and in which database.
    pub(crate) began: (i64, usize),
}

impl ProgramAccounts for ScriptCall {
    fn charge(&self, args: Args<'_>, lane: &Lane, session: &mut Session) {
        if let (true, CallTarget::Script(handle)) = (self.has_claim, &self.code) {
            handle.keep();
        }
        let Self { server, began, entry, .. } = *self;
        if server.pushes.monitors.any() {
            server.feed_monitors_of(&lane.wakes, &session.client, began, entry, args);
        }
        self.accounting.close(lane, session);
    }
}

impl Program for ScriptCall {
    fn needs(&self, args: Args<'_>, known: &[Location]) -> LockSet {
        let (keys, keyspace) = (self.split(args).0, self.server.keyspace);
        let mut known = known.iter();
        let mut locate = |key| keyspace.locate_unless_known(key, known.next());
        let partitions = keys.iter().map(|key| locate(key).partition()).collect();
        LockSet { partitions, undoable: true, ..LockSet::default() }
    }

    fn run(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let database = unit.tx.database();
        if self.server.pushes.monitors.any() {
            self.began = (self.server.keyspace.clock().now_us(), database);
        }
        // Shortage is asked for at the beginning: what gets short later does not end the script
        // half way.
        unit.initial_refusals();
        // What a function tells is told once its library is safe.
        unit.tx.note_lsn(self.saw);
        // Where others changed something before, that cannot be undone for this script alone.
        let savepoint = if unit.refuses_long_work() { unit.savepoint() } else { None };
        let mut engine = match &savepoint {
            Some(_) if self.code.may_go_directly() => ScriptEngine::Direct,
            _ => ScriptEngine::Lua,
        };
        let result = loop {
            let may_restart = savepoint.is_some() || unit.may_begin_offloaded();
            let result = self.perform(args, unit, place, engine, may_restart, out);
            if let Some(result) = result {
                break result;
            }
            if let Some(savepoint) = &savepoint {
                unit.rollback_to(savepoint.clone());
            }
            engine = ScriptEngine::Lua;
        };
        unit.tx.switch_database(database);
        if !matches!(result, Err(Fault::Stop(Stop::Widen | Stop::Heavy))) {
            self.was_killed = self.running.take().is_some_and(RunningHandle::finish);
        }
        self.conclude(result, savepoint, unit, out)
    }

    fn may_be_deferred(&self) -> bool {
        !self.was_killed && !self.needs_no_locks()
    }

    fn keep_rules(&mut self, subject: &Arc<AclSubject>) {
        self.subject = Some(Arc::clone(subject));
    }

    fn restart(&mut self) {
        self.has_failed = false;
        self.note_all_undone();
    }

    fn forget(&mut self) {
        if let (true, CallTarget::Script(handle)) = (self.has_claim, &self.code) {
            self.server.scripts.cache.withdraw(handle);
        }
    }

    fn abandon(&mut self) {
        self.running = None;
        self.accounting = Accounting::default();
    }

    fn killed(&mut self) -> Vec<usize> {
        self.was_killed |= self.running.take().is_some_and(RunningHandle::finish);
        if self.was_killed { vec![0] } else { Vec::new() }
    }

    fn kill(&mut self, args: Args<'_>, _: Vec<usize>) {
        let now_us = self.server.keyspace.clock().monotonic_us();
        let what = RunningCall { function: None, request: args.into(), must_obey: false };
        self.running = Some(self.server.scripts.running.enter_killed(now_us, what));
    }

    fn needs_no_locks(&self) -> bool {
        self.running.as_ref().is_some_and(RunningHandle::is_killed)
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn is_brief(&self) -> bool {
        self.cost_history().may_share_locks()
    }

    fn note_run(&self, was_long: bool) {
        self.cost_history().note_run(was_long);
    }

    fn note_undone(&self) {
        self.cost_history().note_undone();
    }
}

impl ScriptCall {
    /// Runs the script once; `None` if only Lua can tell what comes of it, and what it did is to be
    /// undone.
    fn perform(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &RunsOn<'_>,
        engine: ScriptEngine,
        may_restart: bool,
        out: &mut Output,
    ) -> Option<Result<(), Fault>> {
        self.note_all_undone();
        let (keys, arguments) = self.split(args);
        let known = keys.get(0).and_then(|key| Some((key, unit.tx.hinted(key)?)));
        let slots = CalledSlots::begin(self.server, self.allows_cross_slot, keys, self.access);
        let mut host = ScriptHost {
            server: self.server,
            home: unit.tx.database(),
            unit: &mut *unit,
            is_part: self.is_part,
            known,
            subject: self.subject.as_ref(),
            is_read_only: self.is_read_only,
            allows_oom: self.allows_oom,
            slots,
            may_restart,
            is_tentative: engine == ScriptEngine::Direct,
            moment: place.moment(self.server),
            began_us: None,
            has_written: false,
            is_long: false,
            accounting: Accounting::default(),
            returned_errors: Vec::new(),
            running: &mut self.running,
            function: self.code.function(),
            request: args,
        };
        let mut input = Input { keys, arguments, seed: self.seed };
        let mut reply = Reply::new(out, self.resp);
        let result = match (engine, &self.code) {
            (ScriptEngine::Direct, CallTarget::Script(script)) => {
                let result = BENCH.with_borrow_mut(|bench| {
                    script.run_directly(input, &mut host, LIMITS, bench, &mut reply)
                });
                match result {
                    Ok(()) => Ok(()),
                    // Lua says how a killed script ends, and comes no further than here.
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
                code.run_in_lua(interpreter, input, &mut host, &mut reply)
            }),
        };
        let returned_errors = std::mem::take(&mut host.returned_errors);
        self.accounting = host.accounting;
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
        savepoint: Option<Savepoint>,
        unit: &mut Unit,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        match result {
            Ok(()) => Ok(()),
            Err(Fault::Stop(Stop::Widen)) => Err(Refusal::Widen),
            Err(Fault::Stop(_)) => match savepoint {
                Some(savepoint) => {
                    unit.rollback_to(savepoint);
                    self.note_all_undone();
                    Err(Refusal::Heavy)
                }
                None => {
                    unit.begin_offloaded();
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
        if let Some(running) = &self.running {
            running.note_undone();
        }
    }

    fn cost_history(&self) -> &CostHistory {
        match &self.code {
            CallTarget::Script(handle) => &handle.cost_history,
            CallTarget::Function(loaded, _) => &loaded.cost_history,
        }
    }

    /// The keys of a request, and the arguments behind them.
    fn split<'a>(&self, args: Args<'a>) -> (Args<'a>, Args<'a>) {
        (args.slice(3..3 + self.keys), args.skip(3 + self.keys))
    }
}
