//! Signals: an end that is asked for, and hang-ups that are ignored.
//!
//! Invariant: the first SIGINT or SIGTERM asks for an orderly end; a second SIGINT ends at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::log::log_warning;
use crate::server::Server;

/// Hears signals from now on. Called within the reception's runtime.
pub(crate) fn listen(server: &'static Server) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while terminate.recv().await.is_some() {
            log_warning!(server.log, "Received SIGTERM scheduling shutdown...");
            server.shutdown.ask();
        }
    });
    tokio::spawn(async move {
        interrupt.recv().await;
        log_warning!(server.log, "Received SIGINT scheduling shutdown...");
        server.shutdown.ask();
        interrupt.recv().await;
        log_warning!(server.log, "You insist... exiting now.");
        std::process::exit(1);
    });
    // Somebody hears it, so it does not end the process.
    tokio::spawn(async move { while hang_up.recv().await.is_some() {} });
    Ok(())
}
