//! `fuzz`: each target of `fuzz/` is run by libFuzzer for some seconds, with the stable compiler.
//!
//! What guides libFuzzer are counters that LLVM puts into the code it compiles, and the flags that
//! ask for them are stable; cargo-fuzz and the nightly compiler bring nothing else but
//! AddressSanitizer, under which `asan` runs the tests of all code that is unsafe.
//!
//! Invariant: a target that tries nothing fails like one that finds something. A run of seconds
//! keeps what led further in `target/fuzz/corpus`, so that a later one goes on from there; the
//! check of CI tries the same inputs each time, so that what fails it is in the change.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// How long a target runs if nothing else is asked for.
const SECONDS: &str = "10";

/// How many inputs the check tries of each target: some seconds.
const INPUTS: &str = "-runs=10000";

/// Where the check begins to draw.
const SEED: &str = "-seed=1";

/// Counts each edge between blocks, and tells what is compared with what.
const FLAGS: &str = "--cfg fuzzing \
                     -Cpasses=sancov-module \
                     -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// How long a target is run.
#[derive(Clone, Copy)]
enum Length<'a> {
    /// For so many seconds, from where the last run ended.
    Seconds(&'a str),
    /// For some inputs, the same each time.
    Check,
}

/// Runs the targets that are named, or all of them, for so many seconds each.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let is_number = |word: &&String| word.bytes().all(|byte| byte.is_ascii_digit());
    let (seconds, named) = match arguments.split_first().filter(|(first, _)| is_number(first)) {
        Some((seconds, named)) => (seconds.as_str(), named),
        None => (SECONDS, arguments),
    };
    let targets = if named.is_empty() { all()? } else { named.to_vec() };
    run_each(&targets, Length::Seconds(seconds))
}

/// Runs all targets shortly.
pub(crate) fn check() -> Result<(), String> {
    run_each(&all()?, Length::Check)
}

fn run_each(targets: &[String], length: Length<'_>) -> Result<(), String> {
    if shell::find("c++").is_none() {
        return Err("there is no C++ compiler, which libFuzzer is built with".to_owned());
    }
    let folder = shell::target().join("fuzz");
    let built = build(&folder, targets, length)?;
    let mut failed = Vec::new();
    for target in targets {
        match fuzz(&built.join(target), target, &folder, length) {
            Ok(report) => println!("{target:<12} {report}"),
            Err(message) => {
                eprintln!("{target}: {message}");
                failed.push(target.as_str());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// The names of all targets.
fn all() -> Result<Vec<String>, String> {
    let targets = shell::root().join("fuzz/targets");
    let files = std::fs::read_dir(&targets).map_err(|error| error.to_string())?;
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let names = files.filter_map(|file| stem(&file.ok()?.path()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Builds the targets; where the programs lie. The check takes a profile whose build is short.
fn build(folder: &Path, targets: &[String], length: Length<'_>) -> Result<PathBuf, String> {
    let profile = match length {
        Length::Seconds(_) => "release",
        Length::Check => "brief",
    };
    // With a target named, build scripts and macros are built without the flags.
    let host = shell::host()?;
    let fixed = ["build", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--profile", profile];
    let mut command = shell::cargo(&fixed);
    command.args(["--target", &host]);
    command.args(targets.iter().flat_map(|target| ["--bin", target]));
    command.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", FLAGS);
    shell::run(&mut command)?;
    Ok(folder.join(host).join(profile))
}

/// Runs one target; how much it tried.
fn fuzz(program: &Path, target: &str, folder: &Path, length: Length<'_>) -> Result<String, String> {
    let (kept, limits) = match length {
        Length::Seconds(seconds) => ("corpus", vec![format!("-max_total_time={seconds}")]),
        Length::Check => ("check", [INPUTS, SEED].map(str::to_owned).to_vec()),
    };
    let [kept, findings] = [kept, "findings"].map(|name| folder.join(name).join(target));
    if matches!(length, Length::Check) && kept.is_dir() {
        std::fs::remove_dir_all(&kept).map_err(|error| error.to_string())?;
    }
    for folder in [&kept, &findings] {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(program);
    // What leads further is written to the first folder.
    command.current_dir(shell::root()).arg(&kept).args(limits);
    let samples = shell::root().join("fuzz/corpus").join(target);
    command.args(samples.is_dir().then_some(samples));
    command.arg(format!("-artifact_prefix={}/", findings.display()));
    command.args(["-timeout=60", "-print_final_stats=1"]);
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    shell::judge(&command, output.status, &told)?;
    let figure = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    match figure("stat::number_of_executed_units:") {
        None | Some(0) => Err(format!("nothing was tried\n{told}")),
        Some(tried) => {
            let found = figure("stat::new_units_added:").unwrap_or(0);
            Ok(format!("{tried} inputs, {found} of them led further"))
        }
    }
}
