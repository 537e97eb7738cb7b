//! New certificates are loaded when their files change: `tls-auto-reload-interval`.
//!
//! Invariants: what cannot be loaded is said once, and what there was goes on; a file that is tried
//! is tried again when any of them changes once more.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use config::settings::TLS_AUTO_RELOAD_INTERVAL;
use engine::runtime::log::{log_notice, log_warning};

use crate::control::apply_config::prepared::prepare_tls;
use crate::net::tls::settings_of;
use crate::server::Server;

/// Tells clients of memcached how it stands, and looks at the files, if it is time to.
pub(crate) fn tick(server: &'static Server) {
    let figures = &server.memcached.encryption;
    figures.handshake_errors.store(server.tls.counters.errors(), Ordering::Relaxed);
    figures.changed_us.store(server.tls.changed_us(), Ordering::Relaxed);
    let interval_us = i64::from(server.config.get(TLS_AUTO_RELOAD_INTERVAL)) * 1_000_000;
    let Some(contexts) = server.tls.contexts().filter(|_| interval_us > 0) else { return };
    let now_us = server.keyspace.clock().monotonic_us();
    let mut watch = server.tls.watch.lock().unwrap_or_else(PoisonError::into_inner);
    if now_us - watch.looked_us < interval_us {
        return;
    }
    watch.looked_us = now_us;
    let state = settings_of(&server.config).state_of_files();
    if state == contexts.state_of_files || watch.seen.as_ref() == Some(&state) {
        return;
    }
    watch.seen = Some(state);
    // A key may be long in coming: its password is hashed often.
    server.threads.background.spawn(move |_| _ = reload(server));
}

/// Loads what the directives name, as it is now.
pub(crate) fn reload(server: &'static Server) -> Result<(), String> {
    let _turn = server.take_config_turn();
    match prepare_tls(server, &server.config) {
        Ok(contexts) => {
            server.tls.change(contexts, server.keyspace.clock().monotonic_us());
            log_notice!(server.log, "TLS certificates were loaded anew");
            Ok(())
        }
        Err(why) => {
            log_warning!(server.log, "TLS certificates were not loaded anew: {why}");
            Err(why)
        }
    }
}
