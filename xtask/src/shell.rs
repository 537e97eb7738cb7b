//! Running other programs, and where things are. Invariant: a failure always names the whole
//! command.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The repository's root: the folder above this crate's.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("this crate lies in a folder of the repository").to_owned()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in the repository's root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Cargo, the very one that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    command(program, arguments)
}

/// Runs a command whose output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| describe(command, &error))?;
    judge(command, status, "")
}

/// Runs a command and returns what it printed; shows its error output only when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| describe(command, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    judge(command, output.status, &(text.clone() + &String::from_utf8_lossy(&output.stderr)))?;
    Ok(text)
}

/// As `output`, with what it wrote to its error output behind that.
pub(crate) fn output_and_errors(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| describe(command, &error))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    judge(command, output.status, &text)?;
    Ok(text)
}

/// The path of a program that `PATH` knows.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The triple of this machine.
pub(crate) fn host() -> Result<String, String> {
    let version = output(&mut command("rustc", &["-vV"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".to_owned())
}

/// The error text of a command that ended badly or could not start.
pub(crate) fn judge(command: &Command, status: ExitStatus, output: &str) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("{}\n{output}", describe(command, &status))) }
}

fn describe(command: &Command, problem: &dyn std::fmt::Display) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`: {problem}", line.join(" "))
}
