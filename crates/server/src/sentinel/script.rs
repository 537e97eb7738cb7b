//! A script that runs.
//!
//! Invariant: a process is killed only while it is known to be ours: before it was waited for.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use sentinel::{Event, ScriptEnd, ScriptId};
use tokio::sync::{mpsc, oneshot};

/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// A script that runs; to drop it kills the process.
pub(super) type RunningScript = oneshot::Sender<()>;

/// Starts a script, whose end is told; with the number of its process.
pub(super) fn start(
    script: ScriptId,
    path: &str,
    arguments: &[String],
    news: mpsc::Sender<Event>,
) -> Option<(RunningScript, u32)> {
    let child = Command::new(file_of(path)).args(arguments).spawn().ok()?;
    let pid = child.id();
    let (kill, killed) = oneshot::channel();
    tokio::spawn(async move {
        let end = wait_for_end(child, killed).await;
        // The driver listens no more when the process is about to end.
        let _ = news.send(Event::ScriptEnded { script, end }).await;
    });
    Some((kill, pid))
}

/// A name without a slash is a file here, and not a program of the system.
fn file_of(path: &str) -> PathBuf {
    Path::new(".").join(path)
}

async fn wait_for_end(mut child: Child, mut killed: oneshot::Receiver<()>) -> ScriptEnd {
    let mut is_killed = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return end_of(status),
            Ok(None) => {}
            // The child is waited for by nobody else, so this is never so.
            Err(_) => return ScriptEnd::NotStarted,
        }
        if is_killed {
            tokio::time::sleep(PAUSE).await;
        } else if tokio::time::timeout(PAUSE, &mut killed).await.is_ok() {
            is_killed = true;
            // The child may have ended in this moment.
            let _ = child.kill();
        }
    }
}

fn end_of(status: ExitStatus) -> ScriptEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ScriptEnd::Exit(code),
        (None, Some(signal)) => ScriptEnd::Signal(signal),
        (None, None) => ScriptEnd::Exit(-1),
    }
}

#[cfg(test)]
mod tests {
    use super::file_of;

    #[test]
    fn a_script_is_a_file_and_never_sought_elsewhere() {
        for (path, file) in [("a.sh", "./a.sh"), ("b/a.sh", "./b/a.sh"), ("/c/a.sh", "/c/a.sh")] {
            assert_eq!(file_of(path).to_str(), Some(file));
        }
    }
}
