//! From the command line to a server that serves, and to its end.
//!
//! Invariant: whatever keeps the server from starting is said in one line, and the exit code is 1.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use keyspace::{Garbage, Keyspace, Options};

use crate::config::settings::{DATABASES, WORKER_THREADS};
use crate::config::{Config, Show, Startup};
use crate::log::{Log, log_notice, log_warning};
use crate::reception::Listeners;
use crate::server::{APUS_VERSION, REDIS_VERSION, Server};
use crate::table::CommandTable;

/// Runs the server with these command line arguments (the program's name not among them) until it
/// is told to end.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            // Standard error may be closed; there is nobody else to tell.
            let _ = writeln!(std::io::stderr(), "{line}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    let startup = Startup::read(arguments, &mut std::io::stdin().lock())
        .map_err(|error| error.to_string())?;
    match startup.show {
        Show::Version => {
            println!("Apus server v={APUS_VERSION} redis_version={REDIS_VERSION}");
            return Ok(());
        }
        Show::Help => {
            println!("{HELP}");
            return Ok(());
        }
        Show::Run => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("Cannot start the reception: {error}"))?;
    let _inside = runtime.enter();
    let server = make_server(startup)?;
    let listeners = Listeners::open(server)?;
    let workers = worker_count(&server.config);
    server.crew.resize(server, workers);
    log_notice!(server.log, "Apus {APUS_VERSION} (Redis {REDIS_VERSION} compatible), {workers} workers");
    listeners.announce(server);
    listeners.serve(server).map_err(|error| format!("Cannot accept connections: {error}"))?;
    log_notice!(server.log, "Ready to accept connections tcp");
    runtime.block_on(server.shutdown.asked());
    log_warning!(server.log, "Apus is now ready to exit, bye bye...");
    Ok(())
}

const HELP: &str = "Usage: apus [/path/to/redis.conf | -] [--directive value ...]
       apus --version | --help";

fn make_server(startup: Startup) -> Result<&'static Server, String> {
    let config = startup.config;
    let log = Log::open(&config)?;
    for notice in &startup.notices {
        log_notice!(log, "{notice}");
    }
    let renames = startup.renames.iter().map(|rename| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&rename.from), text(&rename.to))
    });
    let table = CommandTable::new(&renames.collect::<Vec<_>>())?;
    let databases = config.get(DATABASES) as usize;
    let keyspace = Keyspace::leak(Options { databases, ..Options::new() });
    let server: &'static Server = Box::leak(Box::new(Server::new(config, table, log, keyspace)));
    let heavy = server.heavy.clone();
    keyspace.set_reclaimer(move |garbage: Garbage| heavy.spawn(move |_| drop(garbage)));
    Ok(server)
}

/// As many workers as asked for, or one for each core that we may use.
fn worker_count(config: &Config) -> usize {
    match config.get(WORKER_THREADS) {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        asked => asked,
    }
    .min(crate::crew::MAX_WORKERS)
}
