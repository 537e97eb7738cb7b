//! The binary: `apus` is the server, `apus cli` a client, `apus ping` a health check, `apus bench`
//! the load generator, `apus check` looks whether files can be loaded. `apus memcached`, or the
//! binary under the name `memcached`, is the server with the command line of memcached; `apus
//! sentinel`, `apus --sentinel`, or the binary under a
//! name that ends in `sentinel`, is a Sentinel. `apus help` tells of all of them.
#![deny(unsafe_code)]

mod ffi;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use base::process_title;
use base::suggestion::nearest;
use persist::check;
use persist::storage::Disk;

#[cfg(system_allocator)]
use mimalloc as _;

#[cfg(not(system_allocator))]
#[global_allocator]
static ALLOCATOR: server::Counted<mimalloc::MiMalloc> = server::Counted(mimalloc::MiMalloc);

/// The allocator that sanitizers look into. What asks the other one to purge is linked, and idle.
#[cfg(system_allocator)]
#[global_allocator]
static ALLOCATOR: server::Counted<std::alloc::System> = server::Counted(std::alloc::System);

/// The words that begin another program than the server.
const SUBCOMMANDS: [&str; 6] = ["memcached", "sentinel", "cli", "ping", "bench", "check"];

fn main() -> ExitCode {
    ffi::restore_fault_signals();
    server::allocate_by(server::Allocator { purge: ffi::purge, purge_at_once: ffi::purge_at_once });
    server::built_from(server::BuildCommit {
        hash: env!("APUS_COMMIT"),
        date: env!("APUS_DATE"),
        is_altered: !env!("APUS_ALTERED").is_empty(),
    });
    // Passwords among them are hidden by the code that reads them.
    let called = process_title::take_arguments(&process_title::Account {
        arguments: std::fs::read("/proc/self/cmdline").unwrap_or_default(),
        state: std::fs::read_to_string("/proc/self/stat").unwrap_or_default(),
    });
    let (program, mut arguments) = called.split_first().expect("a program has a name");
    let name = Path::new(program).file_name().unwrap_or_default();
    let is_memcached = name == OsStr::new("memcached");
    let is_sentinel = name.as_bytes().ends_with(b"sentinel");
    let help = [OsString::from("--help")];
    let mut subcommand =
        arguments.first().filter(|_| !is_memcached && !is_sentinel).and_then(|word| word.to_str());
    if subcommand == Some("help") {
        let asked = arguments.get(1);
        subcommand = asked.and_then(|word| word.to_str());
        let has_help = |word| word == "help" || SUBCOMMANDS.contains(&word);
        if asked.is_some() && !subcommand.is_some_and(has_help) {
            eprintln!("apus help: no such subcommand. Try: apus help");
            return ExitCode::FAILURE;
        }
        arguments = &help;
    } else if subcommand.is_some_and(|word| SUBCOMMANDS.contains(&word)) {
        arguments = &arguments[1..];
    }
    if let Some(meant) = subcommand.and_then(misspelt) {
        eprintln!("apus: there is no file of that name; did you mean: apus {meant}");
        return ExitCode::FAILURE;
    }
    match subcommand {
        Some("memcached") => server::run_as_memcached(arguments),
        Some("bench") => {
            hide_credentials(&called, &SECRETS_OF_BENCH);
            bench::run(arguments.iter().cloned())
        }
        Some("cli") => {
            hide_credentials(&called, &SECRETS_OF_CLI);
            cli::run(arguments)
        }
        Some("ping") => {
            hide_credentials(&called, &SECRETS_OF_CLI);
            cli::ping(arguments)
        }
        Some("check") => run_check(arguments),
        Some("sentinel") => server::run_as_sentinel(program, arguments),
        _ if is_memcached => server::run_as_memcached(arguments),
        _ if is_sentinel || arguments.iter().any(|word| word == "--sentinel") => {
            server::run_as_sentinel(program, arguments)
        }
        _ => server::run(program, arguments),
    }
}

/// The subcommand that a word is nearly, where it cannot be the name of a configuration.
fn misspelt(word: &str) -> Option<&'static str> {
    let is_name = word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_known = word == "help" || SUBCOMMANDS.contains(&word);
    if !is_name || is_known || Path::new(word).exists() {
        return None;
    }
    nearest(word, SUBCOMMANDS.into_iter().chain(["help"]))
}

fn run_check(arguments: &[OsString]) -> ExitCode {
    let (mut answers, mut out) = (std::io::stdin().lock(), std::io::stdout());
    let library = &server::check_library;
    let operator = check::Operator { answers: &mut answers, out: &mut out, library };
    let is_well = check::run(arguments.iter().cloned(), &Disk, operator);
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shows the arguments of a client with stars in the place of what it logs in with.
fn hide_credentials(called: &[OsString], flags: &[&[u8]]) {
    let mut is_secret = false;
    let shown = called.iter().map(|word| {
        let mut word = word.as_bytes().to_vec();
        let option = flags.iter().find(|option| word.starts_with(option));
        let from = match option {
            _ if is_secret => Some(0),
            // The value is the next word, or stands right behind.
            Some(option) => (word.len() > option.len()).then_some(option.len()),
            None => None,
        };
        is_secret = !is_secret && option.is_some_and(|option| word.len() == option.len());
        if let Some(from) = from {
            word[from..].fill(b'*');
        }
        word
    });
    process_title::show(&process_title::joined(&shown.collect::<Vec<_>>()));
}

/// What is followed by a password, or by a URI with one.
const SECRETS_OF_BENCH: [&[u8]; 4] = [b"-a", b"--authenticate", b"-u", b"--uri"];
const SECRETS_OF_CLI: [&[u8]; 3] = [b"-a", b"--pass", b"-u"];
