//! The control plane: a request for a command beside the data finds its handler by its id.
//!
//! Invariant: no room below knows a control command.

use config::SetError;
use engine::transaction::control_plane::{ControlPlane, ControlRequest};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlOutcome};
use crate::control::{apply_config, tls_reload};
use crate::server::Server;

impl ControlPlane for Server {
    fn run(
        &'static self,
        request: ControlRequest<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<ControlOutcome, Refusal> {
        let ControlRequest { entry, asker, unit } = request;
        let handler = self.control_handlers.of(entry);
        handler(&mut Context { server: self, asker, entry, unit }, args, reply)
    }

    fn configure(&'static self, pairs: &[&[u8]], is_local: bool) -> Result<(), SetError> {
        apply_config::change_config(self, pairs, is_local)
    }

    fn refresh_certificates(&'static self) -> Result<(), String> {
        tls_reload::reload(self)
    }
}
