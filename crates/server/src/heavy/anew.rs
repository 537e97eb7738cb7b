//! What keeps commands from beginning, for one that begins a second time: its locks were given back
//! in its middle, and others ran since.
//!
//! Invariant: what a pause promises, and what ails, holds for whatever takes its locks behind it.

use commands::{Flags, Role};
use keyspace::{Acquisition, BUSY, HeavyPass, Keyspace, Obstacle, Refusal};

use super::BETWEEN_LOOKS;
use crate::server::Server;

/// The gates that such a command passes again.
pub(super) struct Gates {
    server: &'static Server,
    /// What it does, for what ails.
    effective: Flags,
    /// What it says that it does, for a pause.
    declared: Flags,
}

impl Gates {
    pub(super) fn of_command(server: &'static Server, flags: Flags) -> Self {
        Self { server, effective: flags, declared: flags }
    }

    pub(super) fn of_program(server: &'static Server, effective: Flags, declared: Flags) -> Self {
        Self { server, effective, declared }
    }

    pub(super) fn keyspace(&self) -> &'static Keyspace {
        self.server.keyspace
    }

    /// Whether it is not to begin now. An error says that it is not to begin at all. Asked while it
    /// has its locks: who pauses afterwards sees all that it does.
    pub(super) fn hold(&self) -> Result<bool, Refusal> {
        let server = self.server;
        if let Some(refusal) = server.ailments.refuse(server, self.effective, Role::Any) {
            return Err(refusal);
        }
        let now = self.keyspace().clock().now_ms();
        Ok(server.pause.may_hold() && server.pause.left(self.declared, now).is_some())
    }

    /// Gives the locks back and waits until it may begin; what it then waits for is the same. The
    /// world may pass meanwhile.
    #[cold]
    pub(super) fn await_leave(
        &self,
        acquisition: Acquisition,
        pass: Option<&mut HeavyPass>,
    ) -> Result<Acquisition, Refusal> {
        let keyspace = self.keyspace();
        let again = match acquisition.obstacle() {
            Obstacle::World => Acquisition::of_world(keyspace),
            Obstacle::Partitions(partitions) => {
                Acquisition::of_partitions(keyspace, partitions.iter().copied().collect())
            }
        };
        drop(acquisition);
        let mut aside = pass.filter(|pass| pass.is_admitted());
        if let Some(pass) = &mut aside {
            pass.step_aside();
        }
        let waited = self.wait();
        if let Some(pass) = aside {
            pass.come_back(|| true);
        }
        waited.map(|()| again)
    }

    /// Waits until nothing holds it.
    fn wait(&self) -> Result<(), Refusal> {
        while self.hold()? {
            if self.server.shutdown.is_asked() {
                return Err(BUSY);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }
}
