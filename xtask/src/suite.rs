//! `test`: set up, build the server, run every Rust test, and sum what they and the clients'
//! suites report. Invariant: the server under test is built with debug assertions and overflow
//! checks, yet optimised.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::count::Count;
use crate::results::Results;
use crate::{environment, shell};

/// The profile of the server and of its tests; the root manifest says why.
pub(crate) const PROFILE: &str = "proof";

/// What tells the tests' harness how many run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// So many tests run at a time for each core: many wait, for a time to be over or for a client.
const TESTS_PER_CORE: usize = 2;

/// Where the harness notes what it sends, for the compatibility page.
const CALLS: &str = "calls";

/// Runs `cargo test` with the arguments given, or for the whole workspace.
pub(crate) fn run(arguments: &[String]) -> Result<Count, String> {
    let environment = environment::prepare()?;
    build_server()?;

    // The clients' suites run inside Rust tests and leave their counts here.
    let reports = environment.join("reports");
    environment::empty(&reports)?;
    let mut command = shell::cargo(&["test", "--profile", PROFILE, "--no-fail-fast"]);
    // What part of the tests sends and comes to is added to that of all, so one need not run all.
    let mut results = Results::default();
    if arguments.is_empty() {
        command.arg("--workspace");
        environment::empty(&environment.join(CALLS))?;
    } else {
        results = Results::read(&environment);
    }
    set_environment(command.args(arguments), &environment);
    let mut count = test(&mut command, &mut results)?;
    if arguments.is_empty() {
        // Locks, parking and turnstiles once more, under schedules that shuttle chooses.
        let schedules = ["test", "--profile", PROFILE, "-p", "keyspace", "--features", "shuttle"];
        count += test(&mut shell::cargo(&schedules), &mut results)?;
    }
    results.write(&environment)?;
    for report in environment::files(&reports)? {
        let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
        let name = report.file_name().unwrap_or_default().to_string_lossy();
        println!("client suite {name}: {}", text.trim());
        count += Count::of_client(&text).ok_or_else(|| format!("{name} reports no count"))?;
    }
    Ok(count)
}

/// Runs one `cargo test`, shows what it prints, and counts.
fn test(command: &mut Command, results: &mut Results) -> Result<Count, String> {
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores * TESTS_PER_CORE).to_string());
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().expect("its standard output was asked for");
    let mut count = Count::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| error.to_string())?;
        println!("{line}");
        count += Count::of_rust(&line).unwrap_or_default();
        results.hear(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() && count.failed == 0 {
        shell::judge(command, status, "it failed before or between the tests")?;
    }
    Ok(count)
}

/// Builds the server under test.
pub(crate) fn build_server() -> Result<(), String> {
    shell::run(&mut shell::cargo(&["build", "--profile", PROFILE, "--package", "apus"]))
}

/// Builds the tests, and the programs beside them, as a whole run of the tests does: by itself a
/// program would have what it depends on compiled once more, without what only tests ask for.
pub(crate) fn build_tests() -> Result<(), String> {
    let all = ["test", "--profile", PROFILE, "--workspace", "--no-run", "--quiet"];
    shell::run(&mut shell::cargo(&all))
}

/// Tells the harness where the server under test and the test environment are.
pub(crate) fn set_environment(command: &mut Command, environment: &Path) {
    command.env("APUS_BINARY", shell::target().join(PROFILE).join("apus"));
    command.env("APUS_TEST_ENV", environment);
}
