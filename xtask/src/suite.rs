//! `test`: set up, build the server, run every Rust test, and sum what they and the clients'
//! suites report. Invariants: the server under test is built with debug assertions and overflow
//! checks, yet optimised; a test that fails is told of, also where it passes by itself afterwards;
//! a test that never ends ends the run.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::count::Count;
use crate::results::Results;
use crate::{environment, shell};

/// The profile of the server and of its tests; the root manifest says why.
pub(crate) const PROFILE: &str = "proof";

/// What tells the tests' harness how many run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// So many tests run at a time for each core: many wait, for a time to be over or for a client.
const TESTS_PER_CORE: usize = 2;

/// So many tests that failed in a run of all are run again by themselves; more at once are no
/// matter of the machine's load.
const AGAIN_MOST: u64 = 4;

/// A test that is run again has to pass so many times in a row.
const AGAIN: u32 = 3;

/// While tests run one of them ends now and then. If none does for so long, one waits for ever, and
/// what could still be said of the others is lost with the time of CI.
const SILENCE_MOST: Duration = Duration::from_secs(600);

/// Where the harness notes what it sends, for the compatibility page.
const CALLS: &str = "calls";

/// What a run came to.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) count: Count,
    /// What the tests that failed printed first.
    pub(crate) failures: String,
}

impl Outcome {
    /// An error when anything failed, or when nothing was there to pass.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        print!("{}", self.failures);
        self.count.verdict()
    }
}

/// Runs `cargo test` with the arguments given, or for the whole workspace.
pub(crate) fn run(arguments: &[String]) -> Result<Outcome, String> {
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
        if (1..=AGAIN_MOST).contains(&count.failed) {
            run_again(&environment, &mut count, &mut results)?;
        }
    }
    results.write(&environment)?;
    let failures = results.failures();
    for report in environment::files(&reports)? {
        let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
        let name = report.file_name().unwrap_or_default().to_string_lossy();
        println!("client suite {name}: {}", text.trim());
        count += Count::of_client(&text).ok_or_else(|| format!("{name} reports no count"))?;
    }
    Ok(Outcome { count, failures })
}

/// Runs what failed by itself. A test that passes now counts as passed, and is named: the test or
/// the server depends on an order that a machine under load changes.
fn run_again(environment: &Path, count: &mut Count, results: &mut Results) -> Result<(), String> {
    let failed: Vec<_> = results.failed().map(str::to_owned).collect();
    for name in failed {
        let mut passes = 0;
        while passes < AGAIN {
            let targets = ["--workspace", "--lib", "--bins", "--tests", "--", "--exact", &name];
            let mut command = shell::cargo(&["test", "--profile", PROFILE]);
            set_environment(command.args(targets), environment);
            let again = test(&mut command, results)?;
            if again.passed == 0 || again.failed > 0 {
                break;
            }
            passes += 1;
        }
        if passes == AGAIN {
            *count = Count { passed: count.passed + 1, failed: count.failed - 1 };
            println!("UNSTABLE: {name} failed among all tests and passed by itself: mend it");
        }
    }
    Ok(())
}

/// Runs one `cargo test`, shows what it prints, and counts.
fn test(command: &mut Command, results: &mut Results) -> Result<Count, String> {
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores * TESTS_PER_CORE).to_string());
    }
    // A group of its own can be ended with all that its tests have started.
    let command = command.stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().expect("its standard output was asked for");
    let lines = lines_of(stdout);
    let (mut count, mut is_running) = (Count::default(), false);
    loop {
        let line = match lines.recv_timeout(SILENCE_MOST) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if !is_running => continue,
            Err(RecvTimeoutError::Timeout) => {
                shell::run(
                    shell::command("kill", &["-KILL", "--"]).arg(format!("-{}", child.id())),
                )?;
                return Err(format!("no test has ended in {SILENCE_MOST:?}: one waits for ever"));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        println!("{line}");
        is_running = (is_running || line.starts_with("running ")) && !is_summary(&line);
        count += Count::of_rust(&line).unwrap_or_default();
        results.hear(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() && count.failed == 0 {
        shell::judge(command, status, "it failed before or between the tests")?;
    }
    Ok(count)
}

/// The lines of a program's output, as they come.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Whether a line ends what a program of tests prints.
fn is_summary(line: &str) -> bool {
    line.starts_with("test result: ")
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
