//! `release`: the binary that is meant to be packaged, made by a compiler that knows what runs
//! often (`docs/decisions/profile-guided-build.md`).
//!
//! Invariant: a profile is of one training alone, and only the program itself is counted: with a
//! target named, build scripts and macros are built without the flags.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{bench, shell};

/// Builds twice: a binary that counts, for the training, and the one that was asked for.
pub(crate) fn run() -> Result<(), String> {
    // What would be missed only after the first build is asked for before it.
    let merger = merger()?;
    let (folder, counts) = (folder(), folder().join("profiles"));
    match fs::remove_dir_all(&counts) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("{}: {error}", counts.display()));
        }
        _ => {}
    }
    let counting = build(&folder.join("instrumented"), &flag("profile-generate", &counts))?;
    bench::train(counting)?;
    let mut command = shell::command(merger, &["merge", "-o"]);
    shell::run(command.arg(profile()).arg(&counts))?;
    println!("{}", tuned()?.display());
    Ok(())
}

/// The binary by the profile of the last training. The binary is built again where sources have
/// changed, so it is never older than they are; what the profile does not know of them is laid out
/// as usual.
pub(crate) fn tuned() -> Result<PathBuf, String> {
    let profile = profile();
    if !profile.is_file() {
        return Err("there is no profile yet: run `cargo xtask release` first".to_owned());
    }
    build(&folder(), &flag("profile-use", &profile))
}

fn folder() -> PathBuf {
    shell::target().join("tuned")
}

fn profile() -> PathBuf {
    folder().join("apus.profdata")
}

fn flag(name: &str, path: &Path) -> String {
    format!("-C{name}={}", path.display())
}

/// Builds into this folder with one more flag; the binary.
fn build(folder: &Path, flag: &str) -> Result<PathBuf, String> {
    let target = shell::host()?;
    let mut command = shell::cargo(&["build", "--release", "--package", "apus"]);
    command.args(["--target", &target, "--target-dir"]).arg(folder);
    let said = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("CARGO_ENCODED_RUSTFLAGS", encoded(&said, flag));
    shell::run(&mut command)?;
    Ok(folder.join(target).join("release/apus"))
}

/// The flags of `RUSTFLAGS` and one more, in the form in which a flag may contain blanks.
fn encoded(said: &str, flag: &str) -> String {
    said.split_whitespace().chain([flag]).collect::<Vec<_>>().join("\x1f")
}

/// The compiler's own `llvm-profdata`: another version may not read what its programs write.
fn merger() -> Result<PathBuf, String> {
    let root = shell::output(&mut shell::command("rustc", &["--print", "sysroot"]))?;
    let parts = Path::new(root.trim()).join("lib/rustlib").join(shell::host()?);
    let program = parts.join("bin/llvm-profdata");
    if program.is_file() {
        return Ok(program);
    }
    let path = program.display();
    Err(format!("there is no {path}: run `rustup component add llvm-tools` first"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{encoded, flag};

    #[test]
    fn a_flag_stands_behind_what_was_said_and_may_have_blanks() {
        let flag = flag("profile-use", Path::new("/a b/c"));
        assert_eq!(encoded("", &flag), "-Cprofile-use=/a b/c");
        let said = " -Ctarget-cpu=native  -Cdebuginfo=0 ";
        let expected = "-Ctarget-cpu=native\x1f-Cdebuginfo=0\x1f-Cprofile-use=/a b/c";
        assert_eq!(encoded(said, &flag), expected);
    }
}
