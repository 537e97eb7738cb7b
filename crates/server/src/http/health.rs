//! Whether the server lives, and whether it is ready for clients.
//!
//! Invariant: a server that is not ready says why, in one line for each reason.

use commands::{Flags, Role};
use config::settings::REPLICA_SERVE_STALE_DATA;
use keyspace::Refusal;
use replication::replica::LinkState;

use super::state::HttpState;

/// Why clients had better go elsewhere now; empty if they need not.
pub(super) fn reasons(server: &HttpState) -> Vec<String> {
    let mut reasons = Vec::new();
    if server.gates.loading.is_on() {
        reasons.push("loading: the data set is being loaded".to_owned());
    }
    if server.gates.replica_role.is_replica() {
        let link = server.links.report(server.network).link;
        if link.is_none_or(|link| link.state != LinkState::Connected) {
            let serves = server.config.get(REPLICA_SERVE_STALE_DATA);
            let data = if serves { "may be old" } else { "are not served" };
            reasons.push(format!("replica: the link to the primary is down, the data {data}"));
        }
    }
    if server.gates.shutdown_request.is_asked() {
        reasons.push("ending: the server is about to end".to_owned());
    }
    // What PING tells is what is wrong with the disk.
    let refusals = &server.gates.write_refusals;
    let disk = refusals.refuse(&server.config, &server.journal, Flags::NONE, Role::Ping);
    if let Some(line) = disk.as_ref().and_then(Refusal::line) {
        reasons.push(format!("disk: {}", String::from_utf8_lossy(line)));
    }
    reasons
}
