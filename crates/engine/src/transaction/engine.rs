//! What runs commands: what all threads share, the programs, and the control plane.
//!
//! Invariant: an engine is made once, and knows no front, no file and no event loop.

use std::ops::Deref;
use std::sync::OnceLock;

use config::SetError;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::reclaim::evict;
use crate::runtime::log::log_warning;
use crate::session::{ClusterProxy, patience};
use crate::shared::Shared;
use crate::table::command_table::{CommandEntry, Handlers};
use crate::transaction::control_plane::{ControlOutcome, ControlPlane, ControlRequest};
use crate::transaction::unit::{Prepare, Program, ProgramRequest};

/// What all threads share, with what runs commands: an engine is its [`Shared`] and more.
pub struct Engine {
    shared: Shared,
    programs: Handlers<Prepare>,
    /// Set before the first command comes.
    control: OnceLock<&'static dyn ControlPlane>,
    /// Set before the first command comes, in a cluster.
    cluster_proxy: OnceLock<&'static dyn ClusterProxy>,
}

impl Deref for Engine {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Engine {
    /// Adds what makes the programs; the control plane is attached later.
    pub fn new(shared: Shared, programs: Handlers<Prepare>) -> Self {
        Self { shared, programs, control: OnceLock::new(), cluster_proxy: OnceLock::new() }
    }

    /// Has the keyspace ask and tell this engine; once.
    pub fn set_hooks(&'static self) {
        let (keyspace, background) = (self.keyspace, self.threads.background.clone());
        keyspace
            .lazy_free_queue()
            .call_by(move || background.spawn(move |_| evict::free_garbage(self)));
        keyspace
            .set_patience(move |obstacle, began_us| patience::waits_on(self, obstacle, began_us));
        keyspace.set_journal_end(move || self.journal.end_if_read());
        keyspace.set_abort_hook(move |why| log_warning!(self.log, "The process ends: {why}."));
    }

    /// Has this run the commands beside the data; once.
    pub fn set_control_plane(&self, control: &'static dyn ControlPlane) {
        let _ = self.control.set(control);
    }

    /// Has this send requests on to other nodes; once.
    pub fn set_cluster_proxy(&self, proxy: &'static dyn ClusterProxy) {
        let _ = self.cluster_proxy.set(proxy);
    }

    /// What sends requests on to other nodes.
    pub(crate) fn cluster_proxy(&self) -> &'static dyn ClusterProxy {
        *self.cluster_proxy.get().expect("a table of slots comes behind it")
    }

    /// Runs a command beside the data.
    pub(crate) fn control(
        &self,
        request: ControlRequest<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<ControlOutcome, Refusal> {
        let control = self.control.get().expect("it is set before the first command comes");
        control.run(request, args, reply)
    }

    /// CONFIG SET of these pairs. The command may wait, so it is not for workers.
    pub fn configure(&self, pairs: &[&[u8]], is_local: bool) -> Result<(), SetError> {
        let control = self.control.get().expect("it is set before the first command comes");
        control.configure(pairs, is_local)
    }

    /// Loads certificates and keys anew; the error is one line. Likewise.
    pub fn refresh_certificates(&self) -> Result<(), String> {
        let control = self.control.get().expect("it is set before the first command comes");
        control.refresh_certificates()
    }

    /// Makes the program of a request, whose entry says that it is one.
    pub fn prepare(
        &self,
        entry: &CommandEntry,
        asked: ProgramRequest<'_>,
        args: Args<'_>,
    ) -> Result<Box<dyn Program>, Refusal> {
        self.programs.of(entry)(asked, args)
    }
}
