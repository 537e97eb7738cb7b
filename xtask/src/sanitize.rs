//! `asan` and `miri`: the tests of the crates with `unsafe`, run where a wrong access is caught.
//! Both want the nightly compiler (`rustup toolchain install nightly`, and for Miri
//! `rustup component add miri rust-src --toolchain nightly`).
//!
//! `asan server` has the server itself built so and runs black-box tests on it: what fails there is
//! a finding of the sanitizer, as tests may fail for other reasons (a server that is slower and
//! takes more memory).
//!
//! Invariant: both build into folders of their own, so nothing else has to be built again.

use std::process::Command;

use crate::{environment, shell, suite};

/// The tests that AddressSanitizer sees if nothing else is asked for: all of both crates.
const ALL: &[&str] = &["-p", "structs", "-p", "keyspace", "--lib"];

/// Those that Miri sees: of modules with `unsafe` all but tests of very many entries. The arena
/// gives pages back by `madvise`, which Miri does not know; AddressSanitizer looks at it.
const FEW: &[&str] = &[
    "-p",
    "structs",
    "--lib",
    "--",
    "table::",
    "bits::",
    "--skip=no_step_moves_more_than_one_segment",
    "--skip=samples_reach_every_entry_about_equally",
    "--skip=equal_hashes_beyond_a_segment_do_not_blow_up_the_directory",
    "--skip=an_entry_costs_about_twelve_bytes",
    "--skip=a_walk_without_changes_sees_every_entry_once",
    "--skip=a_walk_over_few_entries_stops_at_its_budget",
    "--skip=large_tables_match_the_model",
];

/// Cases of a property under Miri, which is hundreds of times slower.
const CASES: &str = "2";

/// `cargo test` with AddressSanitizer: every access to the heap and the stack is checked.
pub(crate) fn asan(arguments: &[String]) -> Result<(), String> {
    // With a target named, build scripts and macros are built without the flags.
    let target = shell::host()?;
    let mut command = nightly(&["test", "--target", &target], arguments, ALL, "asan");
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    // The search for leaks does not know the addresses in a table's words, which carry hash bits.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    shell::run(&mut command)
}

/// Black-box tests with a server under AddressSanitizer. Its allocator is the system's, which the
/// sanitizer stands in for; Lua's code is C and is not looked into.
pub(crate) fn asan_server(filters: &[String]) -> Result<(), String> {
    let environment = environment::prepare()?;
    let target = shell::host()?;
    let mut command = nightly(&["build", "--target", &target], &[], &["--package", "apus"], "asan");
    command.env("RUSTFLAGS", "-Zsanitizer=address --cfg system_allocator");
    shell::run(&mut command)?;
    let findings = shell::target().join("asan/findings");
    environment::empty(&findings)?;
    let black_box = ["test", "--profile", suite::PROFILE, "--workspace", "--test", "black_box"];
    let mut command = shell::cargo(&black_box);
    command.arg("--no-fail-fast").arg("--").args(filters);
    suite::set_environment(&mut command, &environment);
    command.env("APUS_BINARY", shell::target().join("asan").join(target).join("debug/apus"));
    let log = findings.join("of").display().to_string();
    command.env("ASAN_OPTIONS", format!("detect_leaks=0:log_path={log}"));
    // How the tests end is for the reader; what is judged is what the sanitizer found.
    let tests = shell::run(&mut command);
    match &environment::files(&findings)?[..] {
        [] => {
            println!("AddressSanitizer found nothing; the tests: {tests:?}");
            Ok(())
        }
        found => Err(format!("AddressSanitizer wrote {found:?}")),
    }
}

/// `cargo miri test`: each step of the program is interpreted and judged.
pub(crate) fn miri(arguments: &[String]) -> Result<(), String> {
    let mut command = nightly(&["miri", "test"], arguments, FEW, "miri");
    // Seeds come from the system; a table's words are addresses that were made numbers.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance");
    command.env("PROPTEST_CASES", CASES);
    shell::run(&mut command)
}

fn nightly(verb: &[&str], arguments: &[String], usual: &[&str], folder: &str) -> Command {
    let mut command = shell::command("rustup", &["run", "nightly", "cargo"]);
    command.args(verb).env("CARGO_TARGET_DIR", shell::target().join(folder));
    if arguments.is_empty() {
        command.args(usual)
    } else {
        command.args(arguments)
    };
    command
}
