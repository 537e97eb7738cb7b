//! The scripts that EVALSHA can call.
//!
//! Threads that run one script at the same time would share the counter of its owners, and a lock
//! to find it. So each thread has handles of its own, all of which it forgets once any script has
//! gone from the cache.
//!
//! Invariant: what SCRIPT LOAD brought stays until SCRIPT FLUSH; of what only EVAL brought, 500
//! stay, and the oldest that nobody called again goes first. A handle is found only while its
//! script is in the cache.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use script::{ByDigest, Program, ScriptError, Sha1};

use crate::limits::scripts::cost_history::{Cooldown, CostHistory};
use crate::runtime::failpoint;

/// So many scripts that only EVAL brought are kept, as in Redis.
const EVALUATED_MAX: usize = 500;

thread_local! {
    /// What this thread has of the scripts that were run on it.
    static HANDLES: RefCell<Handles> = RefCell::default();
}

/// The handles of one thread.
#[derive(Default)]
struct Handles {
    /// The state of a cache that they are of.
    state: u64,
    by_digest: ByDigest<Arc<ScriptHandle>>,
    /// The one that was last asked for by its digest's digits, and those: many calls are of one.
    last: Option<(Box<[u8]>, Arc<ScriptHandle>)>,
}

/// One thread's hold on a script.
pub struct ScriptHandle {
    kept: Arc<Kept>,
    /// What this thread knows of it.
    pub(crate) cost_history: CostHistory,
    /// While this lasts, the script is run by Lua.
    pub(crate) in_lua: Cooldown,
}

impl ScriptHandle {
    fn of(kept: Arc<Kept>) -> Self {
        Self { kept, cost_history: CostHistory::default(), in_lua: Cooldown::default() }
    }

    fn note_called(&self) {
        // Others read it, so it is written only where that changes it.
        if !self.kept.is_called.load(Ordering::Relaxed) {
            self.kept.is_called.store(true, Ordering::Relaxed);
        }
    }
}

impl ScriptHandle {
    /// A call of EVAL is about to use it; whether that has to be settled or taken back.
    pub(crate) fn claim(&self) -> bool {
        let claims = &self.kept.claims;
        let more = |claims: u32| (claims > 0).then(|| claims.saturating_add(1));
        // Others read it, so it is written only where somebody may take the script back.
        claims.load(Ordering::Relaxed) > 0
            && claims.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A call that has a claim is final: the script stays.
    pub(crate) fn keep(&self) {
        self.kept.claims.store(0, Ordering::Relaxed);
    }
}

impl Deref for ScriptHandle {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.kept.program
    }
}

/// All scripts by their digests.
pub struct ScriptCache {
    scripts: RwLock<CachedScripts>,
    /// A number of its own since a script last went; written with `scripts` locked.
    state: AtomicU64,
    evicted: AtomicU64,
    flushes: AtomicU64,
}

#[derive(Default)]
struct CachedScripts {
    by_digest: ByDigest<Arc<Kept>>,
    /// Those that only EVAL brought, the oldest first.
    evaluated: VecDeque<Sha1>,
    memory: usize,
}

struct Kept {
    program: Program,
    is_loaded: AtomicBool,
    /// Whether the script was called since it was last looked at as the oldest.
    is_called: AtomicBool,
    /// How many calls of EVAL have it that may still be undone, if nobody else brought it: the last
    /// of them takes it away. None once one of them is final, or it was loaded.
    claims: AtomicU32,
}

impl Default for ScriptCache {
    fn default() -> Self {
        let (scripts, state) = (RwLock::default(), AtomicU64::new(next_state()));
        Self { scripts, state, evicted: AtomicU64::new(0), flushes: AtomicU64::new(0) }
    }
}

/// A number that no cache has had in this process; none is zero, which stands for no cache.
fn next_state() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl ScriptCache {
    /// The script of a digest.
    pub fn get(&self, digest: Sha1) -> Option<Arc<ScriptHandle>> {
        let handle = HANDLES.with_borrow_mut(|handles| {
            if handles.state != self.state.load(Ordering::Acquire) {
                return self.find(digest, handles);
            }
            match handles.by_digest.get(&digest) {
                Some(handle) => Some(Arc::clone(handle)),
                None => self.find(digest, handles),
            }
        })?;
        handle.note_called();
        Some(handle)
    }

    /// The script of a digest that is written in forty hexadecimal digits of any case.
    pub(crate) fn get_by_digits(&self, digits: &[u8]) -> Option<Arc<ScriptHandle>> {
        let last = HANDLES.with_borrow(|handles| {
            let (others, handle) = handles.last.as_ref()?;
            let is_same =
                handles.state == self.state.load(Ordering::Acquire) && **others == *digits;
            is_same.then(|| Arc::clone(handle))
        });
        if let Some(handle) = last {
            handle.note_called();
            return Some(handle);
        }
        let handle = self.get(Sha1::parse(digits)?)?;
        HANDLES.with_borrow_mut(|it| it.last = Some((digits.into(), Arc::clone(&handle))));
        Some(handle)
    }

    /// Makes a handle for a script that is here.
    #[cold]
    fn find(&self, digest: Sha1, handles: &mut Handles) -> Option<Arc<ScriptHandle>> {
        let scripts = self.read();
        let state = self.state.load(Ordering::Relaxed);
        if handles.state != state {
            *handles = Handles { state, ..Handles::default() };
        }
        let kept = Arc::clone(scripts.by_digest.get(&digest)?);
        let handle = Arc::new(ScriptHandle::of(kept));
        handles.by_digest.insert(digest, Arc::clone(&handle));
        Some(handle)
    }

    /// The script of a source that EVAL was given, which was not here a moment ago. The call has a
    /// claim if `claim` says so.
    pub(crate) fn evaluate(&self, source: &[u8]) -> Result<(Arc<ScriptHandle>, bool), ScriptError> {
        let program = Program::parse(source)?;
        let digest = program.sha1();
        let mut scripts = self.write();
        if scripts.evaluated.len() >= EVALUATED_MAX {
            scripts.evict();
            self.note_loss();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let (kept, is_new) = scripts.insert(program, false);
        if is_new {
            scripts.evaluated.push_back(digest);
            kept.claims.store(1, Ordering::Relaxed);
        }
        let handle = Arc::new(ScriptHandle::of(kept));
        let has_claim = is_new || handle.claim();
        Ok((handle, has_claim))
    }

    /// Keeps a script that SCRIPT LOAD was given.
    pub fn load(&self, program: Program) {
        let digest = program.sha1();
        let mut scripts = self.write();
        failpoint::point();
        scripts.insert(program, true);
        failpoint::point();
        scripts.evaluated.retain(|other| *other != digest);
    }

    /// Takes back the claim of a call of EVAL that was undone, or whose script is none; with the
    /// last claim goes the script.
    pub(crate) fn withdraw(&self, handle: &ScriptHandle) {
        let mut scripts = self.write();
        let digest = handle.sha1();
        let is_same = |kept: &Arc<Kept>| Arc::ptr_eq(kept, &handle.kept);
        let less = |claims: u32| claims.checked_sub(1);
        let before = handle.kept.claims.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if before != Ok(1) || !scripts.by_digest.get(&digest).is_some_and(is_same) {
            return;
        }
        if let Some(place) = scripts.evaluated.iter().position(|other| *other == digest) {
            scripts.evaluated.remove(place);
            scripts.remove(digest);
            self.note_loss();
        }
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let mut present = self.write();
        let scripts = std::mem::take(&mut *present);
        failpoint::point();
        self.note_loss();
        self.flushes.fetch_add(1, Ordering::Relaxed);
        drop(present);
        drop(scripts);
    }

    /// How often all scripts were forgotten: what interpreters have of them is of no use then.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Makes the handles of all threads worthless; with `scripts` locked.
    fn note_loss(&self) {
        self.state.store(next_state(), Ordering::Release);
    }

    /// How many scripts there are, and the bytes they take.
    pub fn size(&self) -> (usize, usize) {
        let scripts = self.read();
        (scripts.by_digest.len(), scripts.memory)
    }

    /// How many scripts had to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, CachedScripts> {
        self.scripts.read().expect("no critical section here panics")
    }

    fn write(&self) -> RwLockWriteGuard<'_, CachedScripts> {
        self.scripts.write().expect("no critical section here panics")
    }
}

impl CachedScripts {
    /// Adds a script, unless it is there; whether it was not.
    fn insert(&mut self, program: Program, is_loaded: bool) -> (Arc<Kept>, bool) {
        if let Some(kept) = self.by_digest.get(&program.sha1()) {
            if is_loaded {
                kept.is_loaded.store(true, Ordering::Relaxed);
                kept.claims.store(0, Ordering::Relaxed);
            }
            return (Arc::clone(kept), false);
        }
        self.memory += program.memory();
        let digest = program.sha1();
        let kept = Arc::new(Kept {
            program,
            is_loaded: AtomicBool::new(is_loaded),
            is_called: AtomicBool::new(false),
            claims: AtomicU32::new(0),
        });
        self.by_digest.insert(digest, Arc::clone(&kept));
        (kept, true)
    }

    /// Removes the oldest that was not called since its last turn.
    fn evict(&mut self) {
        while let Some(oldest) = self.evaluated.pop_front() {
            let kept = self.by_digest.get(&oldest);
            if !kept.is_some_and(|kept| kept.is_called.swap(false, Ordering::Relaxed)) {
                return self.remove(oldest);
            }
            self.evaluated.push_back(oldest);
        }
    }

    fn remove(&mut self, digest: Sha1) {
        let kept = self.by_digest.get(&digest);
        if kept.is_some_and(|kept| kept.is_loaded.load(Ordering::Relaxed)) {
            return;
        }
        if let Some(kept) = self.by_digest.remove(&digest) {
            self.memory -= kept.program.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use script::{Program, Sha1};

    use super::{EVALUATED_MAX, ScriptCache};

    #[test]
    fn the_oldest_that_eval_brought_make_room() {
        let cache = ScriptCache::default();
        cache.load(Program::parse(b"return 'loaded'").unwrap());
        cache.evaluate(b"return 'loaded'").unwrap();
        for number in 0..EVALUATED_MAX + 3 {
            cache.evaluate(format!("return {number}").as_bytes()).unwrap();
            cache.get(Sha1::of(b"return 2"));
        }
        assert!(cache.get(Sha1::of(b"return 'loaded'")).is_some());
        assert!(cache.get(Sha1::of(b"return 0")).is_none());
        assert!(cache.get(Sha1::of(b"return 2")).is_some());
        assert_eq!(cache.size().0, EVALUATED_MAX + 1);
        assert!(cache.evicted() >= 3);
        let handle = cache.get(Sha1::of(b"return 2")).unwrap();
        let digits = handle.sha1().hex();
        for digits in [&digits, &digits, &digits.to_uppercase()] {
            assert_eq!(cache.get_by_digits(digits.as_bytes()).unwrap().sha1(), handle.sha1());
        }
        assert!(cache.get_by_digits(&digits.as_bytes()[1..]).is_none());
        cache.flush();
        assert_eq!(cache.size(), (0, 0));
        assert!(cache.get(handle.sha1()).is_none(), "a thread forgets what the cache does");
        assert!(cache.get_by_digits(handle.sha1().hex().as_bytes()).is_none());
    }

    #[test]
    fn a_thread_tells_caches_apart() {
        let (one, other) = (ScriptCache::default(), ScriptCache::default());
        one.load(Program::parse(b"return 1").unwrap());
        assert!(one.get(Sha1::of(b"return 1")).is_some());
        let digits = Sha1::of(b"return 1").hex();
        assert!(one.get_by_digits(digits.as_bytes()).is_some());
        assert!(other.get_by_digits(digits.as_bytes()).is_none());
        assert!(other.get(Sha1::of(b"return 1")).is_none());
        assert!(one.get(Sha1::of(b"return 1")).is_some());
    }

    #[test]
    fn what_is_loaded_later_stays() {
        let cache = ScriptCache::default();
        let (program, _) = cache.evaluate(b"return 1").unwrap();
        cache.load(Program::parse(b"return 1").unwrap());
        cache.withdraw(&program);
        assert!(cache.get(program.sha1()).is_some());
        let (other, has_claim) = cache.evaluate(b"return 2").unwrap();
        assert!(has_claim);
        cache.withdraw(&other);
        assert!(cache.get(other.sha1()).is_none());
    }

    #[test]
    fn a_script_goes_with_the_last_call_that_was_undone_and_stays_with_one_that_was_not() {
        let cache = ScriptCache::default();
        // How many other calls have a claim by then, and whether the first of them is final.
        for (others, is_final) in [(0, false), (1, false), (3, false), (1, true), (3, true)] {
            cache.flush();
            let (first, has_claim) = cache.evaluate(b"return 1").unwrap();
            assert!(has_claim);
            let others: Vec<_> = (0..others).map(|_| cache.get(first.sha1()).unwrap()).collect();
            assert!(others.iter().all(|other| other.claim()));
            if is_final {
                others[0].keep();
                assert!(!first.claim(), "there is nothing to take back any more");
            }
            cache.withdraw(&first);
            assert_eq!(cache.get(first.sha1()).is_some(), !others.is_empty());
            others.iter().for_each(|other| cache.withdraw(other));
            assert_eq!(cache.get(first.sha1()).is_some(), is_final);
        }
        // One that was forgotten and brought anew by somebody else is another.
        let (first, _) = cache.evaluate(b"return 1").unwrap();
        cache.flush();
        let (second, _) = cache.evaluate(b"return 1").unwrap();
        cache.withdraw(&first);
        assert!(cache.get(second.sha1()).is_some());
    }
}
