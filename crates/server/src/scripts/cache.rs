//! The scripts that EVALSHA can call.
//!
//! Invariant: what SCRIPT LOAD brought stays until SCRIPT FLUSH; of what only EVAL brought, 500
//! stay, and the oldest that nobody called again goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use script::{Program, ScriptError, Sha1};

/// So many scripts that only EVAL brought are kept, as in Redis.
const EVALUATED_MAX: usize = 500;

/// All scripts by their digests.
#[derive(Default)]
pub(crate) struct Cache {
    scripts: RwLock<Scripts>,
    evicted: AtomicU64,
}

#[derive(Default)]
struct Scripts {
    by_digest: HashMap<Sha1, Kept>,
    /// Those that only EVAL brought, the oldest first.
    evaluated: VecDeque<Sha1>,
    memory: usize,
}

struct Kept {
    program: Arc<Program>,
    is_loaded: bool,
    /// Whether it was called since it was last looked at as the oldest.
    is_called: AtomicBool,
}

impl Cache {
    /// The script of a digest.
    pub(crate) fn get(&self, digest: Sha1) -> Option<Arc<Program>> {
        let scripts = self.read();
        let kept = scripts.by_digest.get(&digest)?;
        if !kept.is_called.load(Ordering::Relaxed) {
            kept.is_called.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&kept.program))
    }

    /// The script of a source that EVAL was given.
    pub(crate) fn evaluate(&self, source: &[u8]) -> Result<Arc<Program>, ScriptError> {
        if let Some(program) = self.get(Sha1::of(source)) {
            return Ok(program);
        }
        let program = Arc::new(Program::parse(source)?);
        let mut scripts = self.write();
        if scripts.evaluated.len() >= EVALUATED_MAX {
            scripts.evict();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if scripts.insert(&program, false) {
            scripts.evaluated.push_back(program.sha1());
        }
        Ok(program)
    }

    /// Keeps a script that SCRIPT LOAD was given.
    pub(crate) fn load(&self, program: Program) {
        let program = Arc::new(program);
        let mut scripts = self.write();
        scripts.insert(&program, true);
        scripts.evaluated.retain(|digest| *digest != program.sha1());
    }

    /// Takes back a script that EVAL was given and that is none.
    pub(crate) fn forget(&self, digest: Sha1) {
        let mut scripts = self.write();
        if let Some(place) = scripts.evaluated.iter().position(|other| *other == digest) {
            scripts.evaluated.remove(place);
            scripts.remove(digest);
        }
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        let scripts = std::mem::take(&mut *self.write());
        drop(scripts);
    }

    /// How many scripts there are, and the bytes they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let scripts = self.read();
        (scripts.by_digest.len(), scripts.memory)
    }

    /// How many scripts had to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Scripts> {
        self.scripts.read().expect("no critical section here panics")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Scripts> {
        self.scripts.write().expect("no critical section here panics")
    }
}

impl Scripts {
    /// Adds a script; whether it was not there.
    fn insert(&mut self, program: &Arc<Program>, is_loaded: bool) -> bool {
        if let Some(kept) = self.by_digest.get_mut(&program.sha1()) {
            kept.is_loaded |= is_loaded;
            return false;
        }
        self.memory += program.memory();
        let (program, is_called) = (Arc::clone(program), AtomicBool::new(false));
        let kept = Kept { program, is_loaded, is_called };
        self.by_digest.insert(kept.program.sha1(), kept);
        true
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
        let is_loaded = self.by_digest.get(&digest).is_some_and(|kept| kept.is_loaded);
        if is_loaded {
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

    use super::{Cache, EVALUATED_MAX};

    #[test]
    fn the_oldest_that_eval_brought_make_room() {
        let cache = Cache::default();
        cache.load(Program::parse(b"return 'loaded'").unwrap());
        cache.evaluate(b"return 'loaded'").unwrap();
        for number in 0..EVALUATED_MAX + 3 {
            cache.evaluate(format!("return {number}").as_bytes()).unwrap();
            cache.evaluate(b"return 2").unwrap();
        }
        assert!(cache.get(Sha1::of(b"return 'loaded'")).is_some());
        assert!(cache.get(Sha1::of(b"return 0")).is_none());
        assert!(cache.get(Sha1::of(b"return 2")).is_some());
        assert_eq!(cache.size().0, EVALUATED_MAX + 1);
        assert!(cache.evicted() >= 3);
        cache.flush();
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn what_is_loaded_later_stays() {
        let cache = Cache::default();
        let program = cache.evaluate(b"return 1").unwrap();
        cache.load(Program::parse(b"return 1").unwrap());
        cache.forget(program.sha1());
        assert!(cache.get(program.sha1()).is_some());
        let other = cache.evaluate(b"return 2").unwrap();
        cache.forget(other.sha1());
        assert!(cache.get(other.sha1()).is_none());
    }
}
