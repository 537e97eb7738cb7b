//! `ci`: every check in a fixed order. Invariant: all stages run, and one that failed fails the
//! whole.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::suite::Outcome;
use crate::{book, docs, fuzz, licences, shell, suite, tidy};

const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// Runs the stages and ends with their times and the sum of all tests.
pub(crate) fn run() -> ExitCode {
    let mut report = Report::default();
    report.stage("fmt", || shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])));
    report.stage("clippy", clippy);
    report.stage("release", release);
    report.stage("tidy", tidy::run);
    report.stage("book", book::run);
    report.stage("deny", deny);
    report.stage("aarch64", aarch64);
    let mut tests = Outcome::default();
    report.stage("test", || {
        tests = suite::run(&[])?;
        if tests.count.failed == 0 { Ok(()) } else { Err("tests failed".to_owned()) }
    });
    report.stage("docs", || docs::run(docs::Mode::Check));
    report.stage("fuzz", fuzz::check);
    report.finish(&tests)
}

/// Checks all code, in the profile of the tests: what both need besides is built once.
fn clippy() -> Result<(), String> {
    let arguments = ["clippy", "--profile", suite::PROFILE, "--workspace", "--all-targets"];
    shell::run(shell::cargo(&arguments).args(["--", "-D", "warnings"]))
}

/// What users build: without assertions some of the code is another. The crates of others are
/// those of the stage before, with theirs.
fn release() -> Result<(), String> {
    let (profile, of_all) = (suite::PROFILE, "package.\"*\".debug-assertions=true");
    let mut command = shell::cargo(&["clippy", "--profile", profile, "--workspace"]);
    command.args(["--config", &format!("profile.{profile}.debug-assertions=false")]);
    command.args(["--config", &format!("profile.{profile}.{of_all}")]);
    shell::run(command.args(["--", "-D", "warnings"]))
}

/// cargo-deny where it is installed; always our own check of the part that needs no network.
fn deny() -> Result<(), String> {
    licences::run()?;
    if shell::find("cargo-deny").is_none() {
        return Ok(());
    }
    shell::run(&mut shell::cargo(&["deny", "check"]))
}

/// The binary is left out: its allocator is C and would need a cross compiler.
fn aarch64() -> Result<(), String> {
    if !has_target(AARCH64)? {
        println!("{AARCH64} is not installed: nothing to check with");
        return Ok(());
    }
    let excluded = ["--exclude", "apus", "--exclude", "xtask", "--exclude", "tests"];
    let mut command = shell::cargo(&["check", "--workspace", "--target", AARCH64]);
    shell::run(command.args(excluded))
}

fn has_target(name: &str) -> Result<bool, String> {
    let sysroot = shell::output(&mut shell::command("rustc", &["--print", "sysroot"]))?;
    let libraries = std::path::Path::new(sysroot.trim()).join("lib/rustlib").join(name);
    Ok(libraries.is_dir())
}

#[derive(Default)]
struct Report {
    stages: Vec<(&'static str, Duration, bool)>,
}

impl Report {
    fn stage(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) {
        println!("== {name}");
        let start = Instant::now();
        let outcome = work();
        if let Err(message) = &outcome {
            eprintln!("{name}: {message}");
        }
        self.stages.push((name, start.elapsed(), outcome.is_ok()));
    }

    fn finish(self, tests: &Outcome) -> ExitCode {
        println!("== minutes per stage");
        let mut all_passed = true;
        for (name, time, passed) in self.stages {
            let verdict = if passed { "ok" } else { "FAILED" };
            println!("{name:<10} {:>6.2}  {verdict}", time.as_secs_f64() / 60.0);
            all_passed &= passed;
        }
        // Last, where whoever reads only the end finds it.
        println!("{}\n{}", tests.count, tests.failures.trim_end());
        if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
