//! The project's automation: `cargo xtask VERB`. This file is the list of verbs; each verb is one
//! module. Invariant: everything a check needs is in the repository or set up by `setup`, so CI
//! is one command.
#![forbid(unsafe_code)]

mod bench;
mod book;
mod ci;
mod count;
mod docs;
mod environment;
mod fuzz;
mod hostile;
mod licences;
mod package;
mod release;
mod results;
mod sanitize;
mod shell;
mod suite;
mod tidy;

use std::process::ExitCode;

use sanitize::Sanitizer;

const USAGE: &str = "\
Usage: cargo xtask VERB

  setup           install what the tests need into target/test-env; quick when it is there
  test [ARGS..]   setup, build the server, then `cargo test ARGS` (default: --workspace)
  release         build the binary that is packaged, laid out by what ran often in a training
  package [--tuned]
                  the Debian package, the bill of materials and the licences, into target/package;
                  --tuned takes the binary of `release`
  bench [SECTION..] [--rounds N] [--scale F] [--name NAME] [--tuned]
                  measure Apus beside its peers; write the record (25 minutes);
                  --tuned takes the build of `release` instead of `cargo build --release`
  tidy            check style numbers, banned words and calls, the import edges, and that each
                  row of hostile input has a test
  docs [--check]  write the generated pages: COMPATIBILITY.md and docs/proof/hostile.md from the
                  last full test run, limits, the book's reference, what packages bring; or fail
                  if one differs
  book            check links, headings and the summary of the book and of all other Markdown
  licences        check the dependencies' licences and the banned crates of deny.toml
  asan [ARGS..]   `cargo test ARGS` under AddressSanitizer (default: the crates with `unsafe`)
  asan server [FILTER..]
                  the black-box tests of these names, or all, with a server under AddressSanitizer
  tsan ..         the same under ThreadSanitizer
  miri [ARGS..]   `cargo miri test ARGS` (default: what it can take of them in minutes)
  fuzz [SECONDS] [TARGET..]
                  run the targets of `fuzz/`, each for so many seconds (default: all, for 10)
  fuzz --check    try the same few inputs of each target, as CI does
  ci              all checks: fmt, clippy, tidy, book, licences, aarch64, test, docs --check, fuzz;
                  minutes per stage at the end
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, rest)) = arguments.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match run(verb, rest) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask {verb}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: &str, rest: &[String]) -> Result<ExitCode, String> {
    match (verb, rest) {
        ("setup", []) => environment::prepare().map(drop)?,
        ("test", _) => suite::run(rest)?.verdict()?,
        ("release", []) => release::run()?,
        ("package", []) => package::run(package::Packaged::Plain)?,
        ("package", [tuned]) if tuned == "--tuned" => package::run(package::Packaged::Tuned)?,
        ("bench", _) => bench::run(rest)?,
        ("tidy", []) => tidy::run()?,
        ("docs", []) => docs::run(docs::Mode::Write)?,
        ("docs", [check]) if check == "--check" => docs::run(docs::Mode::Check)?,
        ("book", []) => book::run()?,
        ("licences", []) => licences::run()?,
        ("asan", _) => sanitize::run(Sanitizer::Address, rest)?,
        ("tsan", _) => sanitize::run(Sanitizer::Thread, rest)?,
        ("miri", _) => sanitize::miri(rest)?,
        ("fuzz", [check]) if check == "--check" => fuzz::check()?,
        ("fuzz", _) => fuzz::run(rest)?,
        ("ci", []) => return Ok(ci::run()),
        _ => return Err(format!("no such verb or arguments\n{USAGE}")),
    }
    Ok(ExitCode::SUCCESS)
}
