//! The user whose name stands in a client's certificate: `tls-auth-clients-user`.
//!
//! Invariants: names are compared byte by byte to their ends, so one with a NUL in it is nobody's;
//! a user that is off comes in by no certificate.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use acl::User;
use config::TlsAuthClientsUser;
use config::settings::TLS_AUTH_CLIENTS_USER;
use engine::runtime::log::log_warning;
use engine::session::Session as EngineSession;
use tls::Session;

use crate::net::network::Network;

/// Shows how a client's connection is encrypted, and lets it in as the user that its certificate
/// names.
pub(super) fn introduce(server: &Network, session: &mut EngineSession, encrypted: &Session) {
    session.client.live.tls_minor.store(encrypted.minor_version(), Ordering::Relaxed);
    if let Some(user) = user_of(server, encrypted) {
        session.authenticate(Some(user));
    }
}

/// The user that the client's certificate names, if clients are to come in so.
fn user_of(server: &Network, session: &Session) -> Option<Arc<User>> {
    let field = server.config.get(TLS_AUTH_CLIENTS_USER);
    if field == TlsAuthClientsUser::Off {
        return None;
    }
    let certificate = session.peer_certificate()?;
    let names = match field {
        TlsAuthClientsUser::Uri => certificate.uris,
        _ => certificate.common_name.into_iter().collect(),
    };
    for name in &names {
        if name.contains(&0) {
            let shown = name.escape_ascii();
            log_warning!(
                server.log,
                "A client's certificate has a name with a NUL in it: '{shown}'"
            );
            return None;
        }
    }
    let users = names.iter().filter_map(|name| server.access.users.named(name));
    users.into_iter().find(|user| user.rules().is_on())
}
