//! A script as a program: it runs on the unit's transaction, from the beginning each time.
//!
//! Invariant: a run that does not end the script has undone all that it did.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use keyspace::Refusal;
use proto::{Args, Output, Reply, Resp};
use script::{Fault, Input, Interpreter, Limits, Stop, Version};

use super::books::Books;
use super::brevity::Brevity;
use super::cache::Handle;
use super::caller::Caller;
use super::libraries::Loaded;
use super::running::Listed;
use crate::guard::Limited;
use crate::server::{REDIS_VERSION, REDIS_VERSION_NUMBER, Server};
use crate::session::Session;
use crate::table::Entry;
use crate::unit::{Needs, Place, Program, Unit};
use crate::worker::Worker;

/// The most that one run may take, in bytes.
pub(super) const MEMORY_MAX: usize = 1 << 30;

thread_local! {
    /// Not there while it runs.
    static INTERPRETER: RefCell<Option<Box<Own>>> = const { RefCell::new(None) };
}

/// A thread's interpreter, and where others read how much memory it takes.
struct Own {
    interpreter: Interpreter,
    memory: Arc<AtomicUsize>,
}

/// Lends the thread's interpreter.
pub(super) fn with_interpreter<T>(server: &Server, work: impl FnOnce(&mut Interpreter) -> T) -> T {
    let there = INTERPRETER.with_borrow_mut(Option::take);
    let mut own = there.unwrap_or_else(|| {
        let text = REDIS_VERSION.to_owned();
        let interpreter = Interpreter::new(&Version { text, number: REDIS_VERSION_NUMBER });
        Box::new(Own { interpreter, memory: server.scripts.interpreters.add() })
    });
    let result = work(&mut own.interpreter);
    own.memory.store(own.interpreter.memory(), Ordering::Relaxed);
    INTERPRETER.set(Some(own));
    result
}

/// What the interpreters of all threads take.
#[derive(Default)]
pub(crate) struct Interpreters(Mutex<Vec<Weak<AtomicUsize>>>);

impl Interpreters {
    fn add(&self) -> Arc<AtomicUsize> {
        let memory = Arc::default();
        let mut all = self.lock();
        // Those of threads that are over.
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&memory));
        memory
    }

    /// Their memory in bytes, as of the last run of each.
    pub(crate) fn memory(&self) -> usize {
        let all = self.lock();
        all.iter().filter_map(Weak::upgrade).map(|one| one.load(Ordering::Relaxed)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<AtomicUsize>>> {
        self.0.lock().expect("no critical section here panics")
    }
}

/// What is called.
pub(super) enum Code {
    Script(Arc<Handle>),
    /// A function of a library, by its name there.
    Function(Arc<Loaded>, Box<[u8]>),
}

impl Code {
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
    /// Where it stands for SCRIPT KILL, once it has taken long.
    pub(super) listed: Option<Listed>,
    /// Of the run that was the last.
    pub(super) books: Books,
    /// When it began, on the clock of the wall in microseconds, and in which database.
    pub(super) began: (i64, usize),
}

impl Program for Call {
    fn needs(&self, args: Args<'_>) -> Needs {
        let (keys, keyspace) = (self.split(args).0, self.server.keyspace);
        let partitions = keys.iter().map(|key| keyspace.locate(key).partition).collect();
        Needs { partitions, world: false, undoable: true }
    }

    fn run(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &mut Place<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        // Where others did something before, that cannot be undone for this script alone.
        let may_restart = unit.hurries() && unit.is_fresh();
        let database = unit.tx.database();
        if self.server.watchers.any() {
            self.began = (self.server.keyspace.clock().now_us(), database);
        }
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
            moment: place.moment(self.server),
            began_us: None,
            has_written: false,
            books: Books::default(),
            listed: &mut self.listed,
            function: self.code.function(),
            request: args,
        };
        let mut reply = Reply::new(out, self.resp);
        let result = with_interpreter(self.server, |interpreter| {
            let seed = Some(*self.seed.get_or_insert_with(|| interpreter.seed()));
            let input = Input { keys, arguments, seed };
            let limits = Limits { memory: MEMORY_MAX };
            match &self.code {
                Code::Script(program) => {
                    interpreter.run(program, input, &mut caller, limits, &mut reply)
                }
                Code::Function(loaded, name) => {
                    let library = &loaded.library;
                    interpreter.run_function(library, name, input, &mut caller, limits, &mut reply)
                }
            }
        });
        self.books = caller.books;
        unit.tx.switch_database(database);
        if !matches!(result, Err(Fault::Stop(Stop::Widen | Stop::Heavy))) {
            self.listed = None;
        }
        self.conclude(result, unit, out)
    }

    fn restart(&mut self, _: &mut Place<'_>) {
        self.has_failed = false;
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
        let watchers = &self.server.watchers;
        if watchers.any() {
            watchers.tell_all(worker, session, self.began, self.entry, args);
        }
        self.books.close(worker);
    }
}

impl Call {
    /// What a run has come to: a reply, or that it has to begin again.
    fn conclude(
        &mut self,
        result: Result<(), Fault>,
        unit: &mut Unit,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        match result {
            Ok(()) => Ok(()),
            Err(Fault::Stop(Stop::Widen)) => Err(Refusal::Widen),
            Err(Fault::Stop(_)) => {
                unit.start_over();
                Err(Refusal::Heavy)
            }
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
