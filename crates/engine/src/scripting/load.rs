//! Libraries of functions are loaded: their code runs once, and registers what it has.
//!
//! Invariant: what takes too long for the loader's thread, or fails, leaves nothing.

use keyspace::Refusal;
use script::{Fault, Library, Stop};

use super::eval::refusal;
use super::interpreter::{LIMITS, with_interpreter};
use super::script_host::LibraryHost;
use crate::limits::scripts::cost_history::CostHistory;
use crate::limits::scripts::libraries::{Libraries, LoadedLibrary};
use crate::transaction::engine::Engine;

const TIMEOUT: Refusal =
    Refusal::error("ERR Error registering functions: ERR FUNCTION LOAD timeout");
impl LoadedLibrary {
    /// Runs a library's code on this thread, if its name is admitted. What takes too long for the
    /// loader's thread is refused as heavy, and nothing of it is left.
    pub(crate) fn load(
        mut loader: LibraryHost,
        server: &'static Engine,
        source: &[u8],
        admit: impl FnOnce(&[u8]) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let library = Library::parse(source).map_err(refusal)?;
        admit(library.name())?;
        let result =
            with_interpreter(server, |interpreter| interpreter.load(&library, &mut loader, LIMITS));
        if matches!(result, Err(Fault::Stop(Stop::Heavy))) {
            return Err(Refusal::Heavy);
        }
        loader.write_lines()?;
        let functions = result.map_err(|fault| match fault {
            Fault::Error(error) => refusal(error),
            Fault::Stop(_) => TIMEOUT,
        })?;
        Ok(Self { library, functions, cost_history: CostHistory::default() })
    }
}

impl Libraries {
    /// Adds a library that comes from a file.
    pub fn load(
        &self,
        server: &'static Engine,
        source: &[u8],
        replaces: bool,
    ) -> Result<(), Refusal> {
        let loaded =
            LoadedLibrary::load(LibraryHost::begin_accepted(server), server, source, |_| Ok(()))?;
        self.change_once(|state| state.insert(loaded, replaces), || 0)
    }
}
