//! `asan`, `tsan` and `miri`: the tests of the crates with `unsafe`, run where a wrong access is
//! caught. All three want the nightly compiler (`rustup toolchain install nightly`, and but for
//! `asan` `rustup component add miri rust-src --toolchain nightly`).
//!
//! `asan server` and `tsan server` have the server itself built so and run black-box tests on it:
//! what fails there is a finding of the sanitizer, as tests may fail for other reasons (a server
//! that is slower and takes more memory).
//!
//! Invariant: each builds into a folder of its own, so nothing else has to be built again.

use std::process::Command;

use crate::{environment, shell, suite};

/// An error is a message to the caller of the verb.
type Result<T> = std::result::Result<T, String>;

/// The tests that a sanitizer sees if nothing else is asked for: all of both crates.
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

/// What watches the accesses of a program.
#[derive(Clone, Copy)]
pub(crate) enum Sanitizer {
    /// Every access to the heap and the stack is checked.
    Address,
    /// Two accesses of two threads, one of which writes, have an order.
    Thread,
}

impl Sanitizer {
    /// The verb, and the folder below `target`.
    fn verb(self) -> &'static str {
        match self {
            Self::Address => "asan",
            Self::Thread => "tsan",
        }
    }

    /// A command of the nightly compiler whose code for the host is watched.
    fn cargo(self, verb: &str, arguments: &[String], usual: &[&str], cfg: &str) -> Result<Command> {
        // With a target named, build scripts and macros are built without the flags.
        let host = shell::host()?;
        let mut words = vec![verb, "--target", &host];
        let (name, extra) = match self {
            Self::Address => ("address", None),
            // The order that the standard library's locks give is seen in its own code only.
            Self::Thread => ("thread", Some("-Zbuild-std")),
        };
        words.extend(extra);
        let mut command = nightly(&words, arguments, usual, self.verb());
        command.env("RUSTFLAGS", format!("-Zsanitizer={name} {cfg}"));
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        self.options(&mut command, "");
        Ok(command)
    }

    /// How the program reports. The search for leaks does not know the addresses in a table's
    /// words, which carry hash bits.
    fn options(self, command: &mut Command, more: &str) {
        match self {
            Self::Address => command.env("ASAN_OPTIONS", format!("detect_leaks=0{more}")),
            Self::Thread => command.env("TSAN_OPTIONS", format!("second_deadlock_stack=1{more}")),
        };
    }
}

/// `cargo test` with a sanitizer, or black-box tests with a server that is watched.
pub(crate) fn run(sanitizer: Sanitizer, arguments: &[String]) -> Result<()> {
    match arguments {
        [server, filters @ ..] if server == "server" => run_server(sanitizer, filters),
        _ => shell::run(&mut sanitizer.cargo("test", arguments, ALL, "")?),
    }
}

/// Black-box tests with a server that is watched. Its allocator is the system's, which the
/// sanitizer stands in for; Lua's code is C and is not looked into.
fn run_server(sanitizer: Sanitizer, filters: &[String]) -> Result<()> {
    let environment = environment::prepare()?;
    let own = ["--package", "apus"];
    shell::run(&mut sanitizer.cargo("build", &[], &own, "--cfg system_allocator")?)?;
    let built = shell::target().join(sanitizer.verb());
    let findings = built.join("findings");
    environment::empty(&findings)?;
    let black_box = ["test", "--profile", suite::PROFILE, "--workspace", "--test", "black_box"];
    let mut command = shell::cargo(&black_box);
    command.arg("--no-fail-fast").arg("--").args(filters);
    suite::set_environment(&mut command, &environment);
    command.env("APUS_BINARY", built.join(shell::host()?).join("debug/apus"));
    sanitizer.options(&mut command, &format!(":log_path={}", findings.join("of").display()));
    // How the tests end is for the reader; what is judged is what the sanitizer found.
    let tests = shell::run(&mut command);
    match &environment::files(&findings)?[..] {
        [] => {
            println!("the sanitizer found nothing; the tests: {tests:?}");
            Ok(())
        }
        found => Err(format!("the sanitizer wrote {found:?}")),
    }
}

/// `cargo miri test`: each step of the program is interpreted and judged.
pub(crate) fn miri(arguments: &[String]) -> Result<()> {
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
