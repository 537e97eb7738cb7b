//! Tells the binary which commit it is built from. Invariant: the answer depends on sources alone,
//! so the same sources give the same binary; where there is no repository, nothing is known.

use std::process::Command;

fn main() {
    let hash = git(&["rev-parse", "--short=8", "HEAD"]);
    let date = git(&["show", "--no-patch", "--format=%cs", "HEAD"]);
    let altered = git(&["status", "--porcelain", "--untracked-files=no"]);
    println!("cargo::rustc-env=APUS_COMMIT={}", hash.as_deref().unwrap_or("00000000"));
    println!("cargo::rustc-env=APUS_DATE={}", date.as_deref().unwrap_or("unknown"));
    let is_altered = altered.is_some_and(|files| !files.is_empty());
    println!("cargo::rustc-env=APUS_ALTERED={}", if is_altered { "yes" } else { "" });
    println!("cargo::rerun-if-changed=build.rs");
    // Whatever moves the head writes a line there.
    if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// What git answers, if it does.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
