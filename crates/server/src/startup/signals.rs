//! Signals: an end that is asked for, and hang-ups.
//!
//! Invariants: SIGINT or SIGTERM ask for an orderly end; a SIGINT while that is being prepared ends
//! at once; SIGHUP ends nothing, as in Redis, and has the users of memcached's clients read again.

use std::io;
use std::sync::mpsc::{self, Sender};

use config::ShutdownFlags;
use config::settings::{SHUTDOWN_ON_SIGINT, SHUTDOWN_ON_SIGTERM};
use engine::runtime::log::log_warning;
use tokio::signal::unix::{SignalKind, signal};

use crate::server::Server;

/// Hears signals from now on. Called within the main thread's runtime.
pub(crate) fn listen(server: &'static Server) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let ending = begin_ending(server)?;
    let ask = ending.clone();
    tokio::spawn(async move {
        while terminate.recv().await.is_some() {
            log_warning!(server.log, "Received SIGTERM scheduling shutdown...");
            let _ = ask.send(("SIGTERM", server.config.get(SHUTDOWN_ON_SIGTERM)));
        }
    });
    tokio::spawn(async move {
        while interrupt.recv().await.is_some() {
            if server.shutdown.is_begun(server) {
                log_warning!(server.log, "You insist... exiting now.");
                std::process::exit(1);
            }
            log_warning!(server.log, "Received SIGINT scheduling shutdown...");
            let _ = ending.send(("SIGINT", server.config.get(SHUTDOWN_ON_SIGINT)));
        }
    });
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            server.threads.background.spawn(|_| server.memcached.users.reload(server));
        }
    });
    Ok(())
}

/// An end that a signal asked for.
type Ask = (&'static str, ShutdownFlags);

/// Prepares ends on a thread of its own, which is there before the first is asked for: the system
/// may refuse one when it comes.
fn begin_ending(server: &'static Server) -> io::Result<Sender<Ask>> {
    let (sender, asked) = mpsc::channel::<Ask>();
    let work = move || asked.iter().for_each(|(signal, how)| end(server, signal, how));
    std::thread::Builder::new().name("ending".to_owned()).spawn(work)?;
    Ok(sender)
}

/// Ends the process as a signal asked for.
fn end(server: &'static Server, signal: &'static str, how: ShutdownFlags) {
    if server.shutdown.execute(server, how).is_err() {
        log_warning!(
            server.log,
            "{signal} received but errors trying to shut down the server, check the logs for more \
             information"
        );
    }
}
