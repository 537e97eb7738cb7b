//! The libraries of functions.
//!
//! Invariants: no two functions have one name, whatever the case of its letters; a reader has one
//! state of all libraries, and a change leaves a new state or none. While a [`LibraryFreeze`] is
//! there no client changes them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use keyspace::{Lsn, Refusal};
use script::{Library, Registration};

use crate::limits::scripts::cost_history::CostHistory;
use crate::runtime::failpoint;

const NOT_FOUND: Refusal = Refusal::error("ERR Library not found");
const STILL: Refusal =
    Refusal::error("LOADING Libraries do not change while data are put on disk or loaded");

/// All libraries.
#[derive(Default)]
pub struct Libraries {
    state: RwLock<Arc<LibrariesState>>,
    /// How often libraries went.
    losses: AtomicU64,
    /// How often clients changed them: changes since the last save, too.
    changes: AtomicU64,
    /// How many holders there are that need clients not to change them. Goes up while the state is
    /// held.
    stills: AtomicUsize,
}

/// While this is there, clients' changes are refused: what a file has of the libraries stays true.
pub struct LibraryFreeze(&'static Libraries);

impl Drop for LibraryFreeze {
    fn drop(&mut self) {
        self.0.stills.fetch_sub(1, Ordering::Release);
    }
}

/// One state of all libraries.
#[derive(Clone, Default)]
pub struct LibrariesState {
    libraries: BTreeMap<Box<[u8]>, Arc<LoadedLibrary>>,
    /// By their names in lower case.
    functions: BTreeMap<Vec<u8>, (Arc<LoadedLibrary>, usize)>,
    /// Where the journal was behind the change that made this state: a reply that tells of it waits
    /// until the journal is safe up to there.
    changed_at: Lsn,
}

/// A library with what it registered.
pub struct LoadedLibrary {
    /// The code of the library.
    pub library: Library,
    /// The functions that the code registered.
    pub functions: Vec<Registration>,
    /// Of all its functions together.
    pub(crate) cost_history: CostHistory,
}

impl LibrariesState {
    /// A function by its name in any case.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Arc<LoadedLibrary>, &Registration)> {
        let (loaded, index) = self.functions.get(&name.to_ascii_lowercase())?;
        Some((loaded, &loaded.functions[*index]))
    }

    /// The libraries by their names.
    pub fn libraries(&self) -> impl Iterator<Item = &Arc<LoadedLibrary>> {
        self.libraries.values()
    }

    /// Whether there is a library of this name.
    pub(crate) fn has_library(&self, name: &[u8]) -> bool {
        self.libraries.contains_key(name)
    }

    /// Refuses the name of a library that there is.
    pub(crate) fn check_is_new(&self, name: &[u8]) -> Result<(), Refusal> {
        if self.has_library(name) {
            let text = [b"ERR Library '", name, b"' already exists"].concat();
            return Err(Refusal::owned(text));
        }
        Ok(())
    }

    /// Where the journal was behind the change that made this state.
    pub fn changed_at(&self) -> Lsn {
        self.changed_at
    }

    /// How many functions there are.
    pub fn functions_count(&self) -> usize {
        self.functions.len()
    }

    /// How many libraries there are, and the bytes they take.
    pub fn size(&self) -> (usize, usize) {
        let bytes = self.libraries().map(|loaded| loaded.library.memory()).sum();
        (self.libraries.len(), bytes)
    }

    /// Adds a library, in the place of one of its name if that is wanted; or changes nothing.
    pub(crate) fn insert(&mut self, loaded: LoadedLibrary, replaces: bool) -> Result<(), Refusal> {
        let name = loaded.library.name();
        if !replaces {
            self.check_is_new(name)?;
        }
        for function in &loaded.functions {
            let found = self.functions.get(&function.name.to_ascii_lowercase());
            if found.is_some_and(|(other, _)| other.library.name() != name) {
                let text = [b"ERR Function ", &*function.name, b" already exists"].concat();
                return Err(Refusal::owned(text));
            }
        }
        self.take_out(name);
        let loaded = Arc::new(loaded);
        for (index, function) in loaded.functions.iter().enumerate() {
            let place = (Arc::clone(&loaded), index);
            self.functions.insert(function.name.to_ascii_lowercase(), place);
        }
        self.libraries.insert(loaded.library.name().into(), loaded);
        Ok(())
    }

    /// Removes all libraries.
    pub(crate) fn clear(&mut self) {
        self.libraries.clear();
        self.functions.clear();
    }

    /// Removes a library, if there is one of the name.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<(), Refusal> {
        if self.take_out(name) { Ok(()) } else { Err(NOT_FOUND) }
    }

    fn take_out(&mut self, name: &[u8]) -> bool {
        let Some(loaded) = self.libraries.remove(name) else { return false };
        for function in &loaded.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }
}

impl Libraries {
    /// The present state.
    pub fn state(&self) -> Arc<LibrariesState> {
        Arc::clone(&self.state.read().expect("no critical section here panics"))
    }

    /// Looks at the state while it cannot change.
    pub fn hold<R>(&self, look: impl FnOnce(&Arc<LibrariesState>) -> R) -> R {
        look(&self.state.read().expect("no critical section here panics"))
    }

    /// How often they were changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Counts a change; to be called where it is told.
    pub(crate) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Has clients' changes refused from now on; to be called from within [`Libraries::hold`].
    pub fn freeze_libraries(&'static self) -> LibraryFreeze {
        self.stills.fetch_add(1, Ordering::Relaxed);
        LibraryFreeze(self)
    }

    /// Refuses a client's change; to be asked where the change is made. A change takes long to be
    /// prepared, and the gates were asked before that.
    pub(crate) fn check_changes(&self) -> Result<(), Refusal> {
        if self.stills.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(STILL) }
    }

    /// How often libraries went: what interpreters have of them is of no use then.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Arc<LibrariesState>) -> Result<(), Refusal>,
        append: impl FnOnce() -> Lsn,
    ) -> Result<(), Refusal> {
        let mut state = self.state.write().expect("no critical section here panics");
        let before = state.libraries.len();
        change(&mut state)?;
        failpoint::point();
        if state.libraries.len() <= before {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
        let lsn = append();
        failpoint::point();
        let state = Arc::make_mut(&mut state);
        state.changed_at = state.changed_at.max(lsn);
        Ok(())
    }

    /// Makes one change that fails without any effect. The change is told before the next one is
    /// made.
    pub fn change_once(
        &self,
        change: impl FnOnce(&mut LibrariesState) -> Result<(), Refusal>,
        append: impl FnOnce() -> Lsn,
    ) -> Result<(), Refusal> {
        // A copy is made only where somebody still reads the state.
        self.change(|state| change(Arc::make_mut(state)), append)
    }

    /// Makes several changes, all or none.
    pub(crate) fn change_together(
        &self,
        change: impl FnOnce(&mut LibrariesState) -> Result<(), Refusal>,
        append: impl FnOnce() -> Lsn,
    ) -> Result<(), Refusal> {
        let all = |state: &mut Arc<LibrariesState>| {
            let mut next = LibrariesState::clone(state);
            change(&mut next)?;
            *state = Arc::new(next);
            Ok(())
        };
        self.change(all, append)
    }
}
