//! The commands that change the libraries, as clients ask for them and as a journal has them.
//!
//! Invariant: a change is told to the journal before the next one is made, and made once more from
//! there it is the same.

use std::sync::atomic::Ordering;

use commands::arguments::is;
use commands::declare::Role;
use keyspace::{FeatureLevel, Lsn, Refusal};
use persist::dump::RestoreError;
use persist::functions;
use proto::{Args, OwnedArgs};

use super::script_host::LibraryHost;
use crate::journal;
use crate::limits::scripts::libraries::{LibrariesState, LoadedLibrary};
use crate::runtime::record_batch::RecordBatch;
use crate::table::command_table::CommandEntry;
use crate::transaction::engine::Engine;

const POLICY: Refusal = Refusal::error(
    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
);
const BROKEN_SEAL: Refusal = Refusal::error("ERR DUMP payload version or checksum are wrong");
const NO_FUNCTIONS: Refusal = Refusal::error("ERR given type is not a function");

/// What FUNCTION RESTORE does with the libraries that are there.
#[derive(Clone, Copy)]
pub struct RestorePolicy {
    flushes: bool,
    replaces: bool,
}

impl RestorePolicy {
    /// What the arguments of FUNCTION RESTORE say.
    pub fn of(args: Args<'_>) -> Result<Self, Refusal> {
        let (flushes, replaces) = match args.get(3) {
            None => (false, false),
            Some(word) if is(word, "APPEND") => (false, false),
            Some(word) if is(word, "REPLACE") => (false, true),
            Some(word) if is(word, "FLUSH") => (true, false),
            Some(_) => return Err(POLICY),
        };
        Ok(Self { flushes, replaces })
    }
}

/// A command that changes the libraries.
pub struct LibraryChange<'a> {
    /// The engine whose libraries change.
    pub server: &'static Engine,
    /// The request, its name first.
    pub args: Args<'a>,
    /// Whether clients are to be told of the change: what comes from the journal is known.
    pub is_new: bool,
}

impl LibraryChange<'_> {
    /// FUNCTION DELETE.
    pub fn delete(&self) -> Result<(), Refusal> {
        self.make(|state| state.remove(&self.args[2]))
    }

    /// FUNCTION FLUSH.
    pub fn flush(&self) -> Result<(), Refusal> {
        self.make(|state| {
            state.clear();
            Ok(())
        })
    }

    /// FUNCTION LOAD; returns the library's name.
    pub fn load(&self, loader: LibraryHost) -> Result<Vec<u8>, Refusal> {
        let (source, replaces) = (&self.args[self.args.len() - 1], self.args.len() > 3);
        let libraries = &self.server.scripts.libraries;
        // That there is such a library is told whatever the code does, which does not run then.
        let loaded = LoadedLibrary::load(loader, self.server, source, |name| {
            if replaces { Ok(()) } else { libraries.hold(|state| state.check_is_new(name)) }
        })?;
        let name = loaded.library.name().to_vec();
        self.make(|state| state.insert(loaded, replaces))?;
        Ok(name)
    }

    /// FUNCTION RESTORE.
    pub fn restore(&self, policy: RestorePolicy) -> Result<(), Refusal> {
        let codes = functions::restore(&self.args[2]).map_err(|error| match error {
            RestoreError::Seal => BROKEN_SEAL,
            RestoreError::Content => NO_FUNCTIONS,
        })?;
        let server = self.server;
        let load = |code: &Vec<u8>| LoadedLibrary::load(self.loader(), server, code, |_| Ok(()));
        let loaded: Vec<_> = codes.iter().map(load).collect::<Result<_, _>>()?;
        let change = |state: &mut LibrariesState| {
            self.check()?;
            if policy.flushes {
                state.clear();
            }
            loaded.into_iter().try_for_each(|loaded| {
                let name = loaded.library.name();
                if !policy.replaces && state.has_library(name) {
                    // Without the quotes of FUNCTION LOAD.
                    let text = [b"ERR Library ", name, b" already exists"].concat();
                    return Err(Refusal::owned(text));
                }
                state.insert(loaded, policy.replaces)
            })
        };
        // The form that every replica reads, whichever server made the payload that came.
        let payload = functions::dump(codes.iter().map(Vec::as_slice));
        let words = self.args.iter().enumerate();
        let words: OwnedArgs =
            words.map(|(index, word)| if index == 2 { &*payload } else { word }).collect();
        let told = LibraryChange { args: words.as_args(), ..*self };
        server.scripts.libraries.change_together(change, || told.append_record())
    }

    /// For a thread that nobody waits for.
    pub fn loader(&self) -> LibraryHost {
        let begin = if self.is_new { LibraryHost::begin } else { LibraryHost::begin_accepted };
        begin(self.server)
    }

    /// Makes one change that fails without any effect.
    fn make(
        &self,
        change: impl FnOnce(&mut LibrariesState) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let checked = |state: &mut LibrariesState| {
            self.check()?;
            change(state)
        };
        self.server.scripts.libraries.change_once(checked, || self.append_record())
    }

    /// Refuses what is new while the libraries are to stand still.
    fn check(&self) -> Result<(), Refusal> {
        if self.is_new { self.server.scripts.libraries.check_changes() } else { Ok(()) }
    }

    /// Counts the change and appends it to the journal, unless it comes from there; where that is
    /// behind it.
    fn append_record(&self) -> Lsn {
        let server = self.server;
        server.scripts.libraries.count_change();
        if !self.is_new {
            // Where a primary's stream is passed on it follows.
            server.journal.note_feature_level(FeatureLevel::Redis7);
            return 0;
        }
        if !server.keyspace.settings().journal_attached.load(Ordering::Relaxed) {
            return 0;
        }
        let record = journal::record_of_command(self.args);
        server.journal.append_in(&RecordBatch::default(), &record, FeatureLevel::Redis7)
    }
}

/// Runs a command of the journal again that is about scripts; others leave nothing behind.
pub fn replay(
    server: &'static Engine,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Result<(), Refusal> {
    let change = LibraryChange { server, args, is_new: false };
    match entry.spec.role {
        Role::DeleteLibrary => change.delete(),
        Role::FlushLibraries => change.flush(),
        Role::LoadLibrary => change.load(change.loader()).map(drop),
        Role::RestoreLibraries => change.restore(RestorePolicy::of(args)?),
        _ => Ok(()),
    }
}
