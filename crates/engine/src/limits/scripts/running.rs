//! The scripts and functions under way that SCRIPT KILL and FUNCTION KILL may end.
//!
//! Invariants: a script stands here from its second look at the time until it is over, also while
//! it moves to another thread; a script that takes a moment only is never here. A run that is
//! killed never writes, and one that has written is never killed. As many are counted as shutting
//! the server (`busy-scope server`) as stand here and say so.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use keyspace::Refusal;
use proto::{OwnedArgs, Reply};

const NOT_BUSY: Refusal = Refusal::error("NOTBUSY No scripts in execution right now.");
const UNKILLABLE: Refusal = Refusal::error(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
     either wait the script termination or kill the server in a hard way using the SHUTDOWN \
     NOSAVE command.",
);

const BUSY_WITH_SCRIPT: Refusal = Refusal::error(
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
);
const BUSY_WITH_FUNCTION: Refusal = Refusal::error(
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
);

const UNKILLABLE_OF_PRIMARY: Refusal = Refusal::error(
    "UNKILLABLE The busy script was sent by a master instance in the context of replication and \
     cannot be killed.",
);

/// All that are long enough to be here.
#[derive(Default)]
pub struct RunningScripts {
    scripts: Mutex<Vec<Arc<Running>>>,
    /// How many of them shut the server to all commands but those that may end them.
    shutting: AtomicUsize,
}

/// One of them.
struct Running {
    /// On the monotonic clock, in microseconds.
    since_us: i64,
    /// One of the states below.
    state: AtomicU8,
    what: RunningCall,
}

/// The run has written nothing, and nobody has ended it.
const RUNNING: u8 = 0;
/// The run has written and goes on to its end.
const WRITTEN: u8 = 1;
/// The run is to end and writes nothing any more.
const KILLED: u8 = 2;

impl Running {
    /// Leaves `RUNNING` for another state; whether it is that state now.
    fn advance_to(&self, state: u8) -> bool {
        let order = Ordering::Relaxed;
        let changed = self.state.compare_exchange(RUNNING, state, order, order);
        changed.is_ok() || changed == Err(state)
    }

    fn has_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WRITTEN
    }
}

/// The place of one of them among all.
pub(crate) struct RunningHandle {
    running: Arc<Running>,
    scripts: &'static RunningScripts,
    is_shutting: bool,
}

/// What runs, for clients that ask.
pub(crate) struct RunningCall {
    /// The name of the function, if it is one.
    pub(crate) function: Option<Box<[u8]>>,
    /// The request.
    pub(crate) request: OwnedArgs,
    /// Whether a primary asks: then nobody may end it here.
    pub(crate) must_obey: bool,
}

impl RunningScripts {
    /// A script that has been running for a while stands here until what is returned is dropped.
    pub(crate) fn enter(
        &'static self,
        since_us: i64,
        has_written: bool,
        what: RunningCall,
    ) -> RunningHandle {
        let running = Arc::new(Running {
            since_us,
            state: AtomicU8::new(if has_written { WRITTEN } else { RUNNING }),
            what,
        });
        self.lock().push(Arc::clone(&running));
        RunningHandle { running, scripts: self, is_shutting: false }
    }

    /// A script whose earlier run was killed, and undone, stands here, as killed already.
    pub(crate) fn enter_killed(&'static self, since_us: i64, what: RunningCall) -> RunningHandle {
        let handle = self.enter(since_us, false, what);
        let is_killed = handle.running.advance_to(KILLED);
        debug_assert!(is_killed, "it has not begun");
        handle
    }

    /// The error of the script that has been busy longest, if one shuts the server.
    #[inline]
    pub(crate) fn refuse(&self) -> Option<Refusal> {
        if self.shutting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.check_is_idle(i64::MAX).err()
    }

    /// Says so if a script, and no function, shuts the server: Redis tells nothing of functions
    /// meanwhile.
    pub fn check_tells_of_functions(&self) -> Result<(), Refusal> {
        match self.refuse() {
            Some(refusal) if refusal == BUSY_WITH_SCRIPT => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Ends those scripts, or functions, that began before a moment and have written nothing; where
    /// none is so old, all that stand here: Redis would hear of it only when they are. Where there
    /// are only the others, the error says what could end those.
    pub fn kill(&self, before_us: i64, functions: bool) -> Result<(), Refusal> {
        let scripts = self.lock();
        let none_is_old = scripts.iter().all(|one| one.since_us > before_us);
        let is_long = |one: &&Arc<Running>| none_is_old || one.since_us <= before_us;
        let is_meant = |one: &&Arc<Running>| one.what.function.is_some() == functions;
        let (long, others): (Vec<_>, Vec<_>) = scripts.iter().filter(is_long).partition(is_meant);
        if long.is_empty() {
            let may_end = others.iter().any(|one| !one.has_written());
            return Err(match others.is_empty() {
                true => NOT_BUSY,
                false if !may_end => UNKILLABLE,
                false if functions => BUSY_WITH_SCRIPT,
                false => BUSY_WITH_FUNCTION,
            });
        }
        let (obeyed, own): (Vec<_>, Vec<&Arc<Running>>) =
            long.into_iter().partition(|one| one.what.must_obey);
        match own.iter().filter(|one| one.advance_to(KILLED)).count() {
            0 if !obeyed.is_empty() => Err(UNKILLABLE_OF_PRIMARY),
            0 => Err(UNKILLABLE),
            _ => Ok(()),
        }
    }

    /// Whether one of them began before a moment.
    pub fn any_since(&self, before_us: i64) -> bool {
        self.lock().iter().any(|one| one.since_us <= before_us)
    }

    /// The error of the script that has been busy longest, if one of them began before a moment.
    pub fn check_is_idle(&self, before_us: i64) -> Result<(), Refusal> {
        let scripts = self.lock();
        let long = scripts.iter().filter(|one| one.since_us <= before_us);
        match long.min_by_key(|one| one.since_us) {
            None => Ok(()),
            Some(one) if one.what.function.is_some() => Err(BUSY_WITH_FUNCTION),
            Some(_) => Err(BUSY_WITH_SCRIPT),
        }
    }

    /// Tells of the function that has been running longest.
    pub fn write_oldest_function(&self, now_us: i64, reply: &mut Reply<'_>) {
        let scripts = self.lock();
        let functions = scripts.iter().filter(|one| one.what.function.is_some());
        let Some(oldest) = functions.min_by_key(|one| one.since_us) else {
            return reply.null();
        };
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(oldest.what.function.as_deref().unwrap_or_default());
        reply.bulk(b"command");
        let request = oldest.what.request.as_args();
        reply.array(request.len());
        request.iter().for_each(|word| reply.bulk(word));
        reply.bulk(b"duration_ms");
        reply.integer((now_us - oldest.since_us) / 1000);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        self.scripts.lock().expect("no critical section here panics")
    }
}

impl RunningHandle {
    /// Whether the script is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.running.state.load(Ordering::Relaxed) == KILLED
    }

    /// Leaves, so that nobody can end it any more; whether somebody had it end before.
    pub(crate) fn finish(self) -> bool {
        let running = Arc::clone(&self.running);
        drop(self);
        running.state.load(Ordering::Relaxed) == KILLED
    }

    /// Shuts the server to others, or opens it.
    pub(crate) fn shut_server(&mut self, shuts: bool) {
        match (std::mem::replace(&mut self.is_shutting, shuts), shuts) {
            (false, true) => self.scripts.shutting.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.scripts.shutting.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }

    /// When the script began, on the monotonic clock in microseconds.
    pub(crate) fn since_us(&self) -> i64 {
        self.running.since_us
    }

    /// To be called before the run writes; whether it may. From here on it goes on to its end.
    #[must_use]
    pub(crate) fn begin_write(&self) -> bool {
        self.running.advance_to(WRITTEN)
    }

    /// All that the run wrote was undone.
    pub(crate) fn note_undone(&self) {
        let order = Ordering::Relaxed;
        // One that is killed stays so, and otherwise there was nothing to undo.
        let _ = self.running.state.compare_exchange(WRITTEN, RUNNING, order, order);
    }
}

impl Drop for RunningHandle {
    fn drop(&mut self) {
        self.shut_server(false);
        self.scripts.lock().retain(|other| !Arc::ptr_eq(other, &self.running));
    }
}

#[cfg(test)]
mod tests {
    use proto::OwnedArgs;

    use super::{NOT_BUSY, RunningCall, RunningScripts, UNKILLABLE};

    /// What may happen to a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        Kill,
        Write,
        Undo,
    }

    fn what() -> RunningCall {
        RunningCall { function: None, request: OwnedArgs::default(), must_obey: false }
    }

    /// All orders of five events: whatever the order, a run that is killed writes nothing behind
    /// that, and has written nothing that was not undone.
    #[test]
    fn a_run_is_killed_or_writes() {
        let events = [Event::Kill, Event::Write, Event::Undo];
        for order in 0..events.len().pow(5) {
            let scripts: &'static RunningScripts = Box::leak(Box::default());
            let handle = scripts.enter(0, false, what());
            let (mut has_written, mut is_killed) = (false, false);
            let order = (0..5).map(|place| events[order / events.len().pow(place) % events.len()]);
            let order: Vec<_> = order.collect();
            for event in &order {
                match event {
                    Event::Kill => {
                        let expected = if has_written { Err(UNKILLABLE) } else { Ok(()) };
                        assert_eq!(scripts.kill(0, false), expected, "{order:?}");
                        is_killed |= !has_written;
                    }
                    Event::Write => {
                        assert_eq!(handle.begin_write(), !is_killed, "{order:?}");
                        has_written |= !is_killed;
                    }
                    Event::Undo => {
                        handle.note_undone();
                        has_written = false;
                    }
                }
                assert_eq!(handle.is_killed(), is_killed, "{order:?}");
            }
            drop(handle);
            assert_eq!(scripts.kill(0, false), Err(NOT_BUSY));
        }
    }
}
