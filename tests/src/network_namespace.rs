//! A network namespace that a test makes for itself: in it the server may listen on all addresses,
//! and be asked by a stranger, while nobody outside can reach it.
//!
//! Invariant: as root, as in CI, nothing of it goes untested.

use std::process::Command;

use crate::environment;

/// What a script prints that runs within a namespace, in a folder of its own: `$1` is the server's
/// program, `$2` redis-cli, and the further arguments follow. `None` where none can be made and the
/// tests do not run as root.
///
/// # Panics
///
/// If root can make none.
pub fn run(script: &str, further: &[&str]) -> Option<String> {
    let made = Command::new("unshare").args(["--map-root-user", "--net", "true"]).output();
    let made = made.is_ok_and(|output| output.status.success());
    assert!(
        made || !rustix::process::geteuid().is_root(),
        "root cannot make a network namespace here (`unshare --net`): this needs CAP_SYS_ADMIN"
    );
    if !made {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", script, "sh"])
        .args([environment::binary(), environment::recorded("redis_cli")])
        .args(further)
        .current_dir(folder.path())
        .output()
        .expect("a namespace can be made");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
