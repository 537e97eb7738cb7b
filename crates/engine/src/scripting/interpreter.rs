//! The interpreter of a thread, which scripts and functions borrow.
//!
//! Invariant: an interpreter stays with its thread and is not there while it runs, so after a panic
//! the next script finds a new one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use script::{Interpreter, Limits, Version};

use crate::limits::scripts::cache::drop_stale_handles;
use crate::limits::scripts::interpreters::InterpreterMemory;
use crate::runtime::version;
use crate::shared::Shared;

/// The most that one run may take.
pub(crate) const LIMITS: Limits = Limits { memory: 1 << 30 };

thread_local! {
    /// Not there while it runs.
    static INTERPRETER: RefCell<Option<Box<ThreadInterpreter>>> = const { RefCell::new(None) };
}

/// A thread's interpreter, and where others read how much memory it takes.
struct ThreadInterpreter {
    interpreter: Interpreter,
    memory: Arc<InterpreterMemory>,
    /// The cache whose scripts it has compiled, and how many libraries had gone when it was last
    /// rid of such.
    forgot: (u64, u64),
    /// What the interpreter took when all its garbage was last collected.
    kept: usize,
}

/// An interpreter that takes so much more than twice what it kept is rid of its garbage once its
/// script has ended and given back its locks: garbage is in use, and a limit may have no room.
/// In steady use an interpreter takes one and a half times what it keeps.
const GARBAGE_MAX: usize = 4 << 20;

/// Lends the thread's interpreter, which first forgets what is there no more.
pub fn with_interpreter<T>(server: &Shared, work: impl FnOnce(&mut Interpreter) -> T) -> T {
    let scripts = &server.scripts;
    let present = present(server);
    let idle = INTERPRETER.with_borrow_mut(Option::take);
    let mut slot = idle.unwrap_or_else(|| {
        let text = version::of_redis(&server.config);
        let number = version::number_of_redis(&server.config);
        let interpreter = Interpreter::new(&Version { text, number });
        let kept = interpreter.memory();
        Box::new(ThreadInterpreter {
            interpreter,
            memory: scripts.interpreters.add(),
            forgot: present,
            kept,
        })
    });
    if slot.forgot != present {
        slot.forget(server, present);
    }
    let result = work(&mut slot.interpreter);
    slot.memory.record(&slot.interpreter);
    INTERPRETER.set(Some(slot));
    result
}

/// How often scripts and libraries went.
fn present(server: &Shared) -> (u64, u64) {
    (server.scripts.cache.flushes(), server.scripts.libraries.losses())
}

/// Where scripts or libraries went, interpreters that have them and do not run are dropped, on all
/// threads; a worker's turn.
pub fn tick(server: &Shared) {
    if server.scripts.interpreters.note_losses(present(server)) {
        server.threads.background.purge();
    }
    drop_stale();
    collect_garbage();
}

/// Collects the garbage of the thread's interpreter where that is much. No lock is held.
pub fn collect_garbage() {
    INTERPRETER.with_borrow_mut(|slot| {
        if let Some(slot) = slot
            && slot.interpreter.memory() > 2 * slot.kept + GARBAGE_MAX
        {
            slot.interpreter.collect();
            slot.kept = slot.interpreter.memory();
            slot.memory.record(&slot.interpreter);
        }
    });
}

/// Drops the thread's interpreter if it holds what is there no more, and its handles likewise.
pub fn drop_stale() {
    drop_stale_handles();
    let is_stale = |slot: &mut Box<ThreadInterpreter>| slot.memory.is_stale.load(Ordering::Relaxed);
    let stale = INTERPRETER.with_borrow_mut(|slot| slot.take_if(is_stale));
    drop(stale);
}

impl ThreadInterpreter {
    #[cold]
    fn forget(&mut self, server: &Shared, present: (u64, u64)) {
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

impl InterpreterMemory {
    fn record(&self, interpreter: &Interpreter) {
        self.all.store(interpreter.memory(), Ordering::Relaxed);
        self.libraries.store(interpreter.memory_of_libraries(), Ordering::Relaxed);
    }
}
