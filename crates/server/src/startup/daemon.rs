//! `daemonize yes`: the server goes on in a process of its own session.
//!
//! The process starts itself once more, with a mark in the environment, and stays until the child
//! is ready or has failed, so that its exit code tells which.
//!
//! Invariant: a daemon that is ready holds none of its parent's streams.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use base::io_error_text::strerror;

/// The variable that tells a process that it is the daemon.
const MARK: &str = "APUS_DAEMON";

/// What a daemon writes to its parent when it serves.
const READY: u8 = b'+';

/// Whether this process is the daemon that another one started.
pub(crate) fn is_daemon() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the daemon and waits until it is ready. `input` is what the configuration read from the
/// standard input.
pub(crate) fn launch(arguments: &[OsString], input: &[u8]) -> Result<(), String> {
    let failed = |error: io::Error| format!("Cannot go to the background: {}", strerror(&error));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that does not read it has failed already and says why.
        let _ = stdin.write_all(input);
    }
    let mut word = [0];
    let stdout = child.stdout.take();
    let said = stdout.map_or(Ok(0), |mut stdout| stdout.read(&mut word)).map_err(failed)?;
    if said == 1 && word[0] == READY {
        return Ok(());
    }
    child.wait().map_err(failed)?;
    Err("The server could not start in the background.".to_owned())
}

/// Leaves the session of the terminal.
pub(crate) fn detach() {
    // The call fails only for the leader of a process group, which a fresh child is not.
    let _ = rustix::process::setsid();
}

/// Tells the parent that we serve, and lets go of its streams.
pub(crate) fn report_ready() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    // A parent that was killed meanwhile needs no answer.
    let _ = stdout.write_all(&[READY]).and_then(|()| stdout.flush());
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}
