//! From the command line to a server that serves, and to its end.
//!
//! Invariant: whatever keeps the server from starting is said in one line on the standard error
//! output, and the exit code is 1.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base::io_error_text::strerror;
use config::settings::{
    CLUSTER_DATABASES, CLUSTER_ENABLED, DAEMONIZE, DATABASES, MEMCACHED_UNIXSOCKET, PREFIX_INDEX,
    UNIXSOCKET, WORKER_THREADS,
};
use config::{Config, Profile, Startup, StartupAction};
use crash::SecondStack;
use durability::aof;
use durability::loading::{self, DataFiles};
use engine::runtime::cores::WorkerCount;
use engine::runtime::log::{Log, log_notice, log_warning};
use engine::runtime::process_title;
use engine::runtime::version::{self, APUS_VERSION};
use engine::runtime::{oom_score, system_limits, system_memory};
use engine::table::command_table::{Built, CommandTable};
use engine::transaction::unit::Prepare;
use keyspace::{Keyspace, Options};
use persist::storage::{Disk, Storage};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::cluster::BusSockets;
use crate::control::apply_config;
use crate::control::apply_config::prepared;
use crate::control::context::ControlHandler;
use crate::control::server::info;
use crate::control::users;
use crate::cron;
use crate::families::{self, FAMILIES};
use crate::http::{self, HttpState, NamePermissions};
use crate::memcached::MEMCACHED_VERSION;
use crate::memcached::command_line::{self, Invocation};
use crate::net::listeners::Listeners;
use crate::sentinel::{self, RunningSentinel};
use crate::server::Server;
use crate::startup::pid_file::PidFile;
use crate::startup::supervisor::Supervisor;
use crate::startup::{crash_report, daemon, leftovers, panic_hook, sandbox, signals, user};

/// How long an orderly end may take before the process just ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// The table of commands, and what runs them.
type Commands = Built<ControlHandler, Prepare>;

/// How the process was called.
struct Launch<'a> {
    profile: Profile,
    /// What its title begins with, if it is to have one.
    program: Option<&'a OsStr>,
    /// Our own arguments.
    arguments: &'a [OsString],
    /// What a daemon is started with.
    again: &'a [OsString],
}

/// Runs the server with these command line arguments, under the program's name, until it is told
/// to end.
pub fn run(program: &OsStr, arguments: &[OsString]) -> ExitCode {
    let (profile, program) = (Profile::Server, Some(program));
    exit_code(start(&Launch { profile, program, arguments, again: arguments }))
}

/// Runs a Sentinel with these command line arguments, under the program's name, until it is told to
/// end.
pub fn run_as_sentinel(program: &OsStr, arguments: &[OsString]) -> ExitCode {
    // The flag that asks for it says nothing more.
    let arguments: Vec<_> = arguments.iter().filter(|it| *it != "--sentinel").cloned().collect();
    let again = [&[OsString::from("sentinel")], &*arguments].concat();
    let (profile, program) = (Profile::Sentinel, Some(program));
    exit_code(start(&Launch { profile, program, arguments: &arguments, again: &again }))
}

/// Runs the server as a memcached, with these command line arguments of memcached.
pub fn run_as_memcached(given: &[OsString]) -> ExitCode {
    let password_file = std::env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
    exit_code(match command_line::read(given, password_file.as_deref()) {
        Ok(Invocation::Version) => {
            println!("memcached {MEMCACHED_VERSION} (Apus {APUS_VERSION})");
            Ok(())
        }
        Ok(Invocation::Help) => {
            print!("{}", command_line::help());
            Ok(())
        }
        Ok(Invocation::Connection { mut arguments, user, notices }) => {
            if let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME") {
                arguments.extend(["--memcached-port-filename".into(), path]);
            }
            for notice in notices.iter().filter(|_| !daemon::is_daemon()) {
                print_line(notice);
            }
            // A daemon reads the options anew, so that no password stands among its arguments.
            let again = [&[OsString::from("memcached")], given].concat();
            let profile = Profile::Server;
            let launch = Launch { profile, program: None, arguments: &arguments, again: &again };
            let taken_on = user.map_or(Ok(()), |user| user::switch_to(&user));
            taken_on.and_then(|()| start(&launch))
        }
        Err(line) => Err(line),
    })
}

fn exit_code(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            print_line(&line);
            ExitCode::FAILURE
        }
    }
}

fn print_line(line: &str) {
    // Standard error may be closed; there is nobody else to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Serves, until it is told to end.
fn start(launch: &Launch<'_>) -> Result<(), String> {
    let _second_stack = SecondStack::take();
    let mut input = Recorder { source: io::stdin().lock(), seen: Vec::new() };
    let startup = Startup::read(launch.profile, launch.arguments.iter().cloned(), &mut input);
    let startup = startup.map_err(|error| error.to_string())?;
    if let Some(program) = launch.program {
        process_title::begin(program, launch.arguments, &startup.config);
    }
    match startup.show {
        StartupAction::Version => {
            println!("{}", version::line(&startup.config));
            return Ok(());
        }
        StartupAction::Help => {
            println!("{HELP}");
            return Ok(());
        }
        StartupAction::Run => {}
    }
    let is_sentinel = launch.profile == Profile::Sentinel;
    if is_sentinel {
        sentinel::check(&startup.config)?;
    }
    let supervisor = Supervisor::find(&startup.config);
    let wants_daemon = startup.config.get(DAEMONIZE) && supervisor == Supervisor::Nobody;
    let is_daemon = wants_daemon && daemon::is_daemon();
    if wants_daemon && !is_daemon {
        return daemon::launch(launch.again, &input.seen);
    }
    drop(input);
    if is_daemon {
        daemon::detach();
    }
    let log = prepare_process(&startup.config, is_daemon)?;
    let runtime = make_runtime().map_err(|why| format!("Cannot start the reception: {why}"));
    let runtime = runtime.inspect_err(|line| log.write_last(line))?;
    let (server, listeners, worker_count) = prepare(startup, log, &runtime)?;
    process_title::update(&server.config, listeners.port().unwrap_or(0));
    let bus = open_bus(server).inspect_err(|line| server.log.write_last(line))?;
    let found = if is_sentinel { Ok(None) } else { find_data(server) };
    let found = found.inspect_err(|line| server.log.write_last(line))?;
    let pid_file = PidFile::create(&server.config, &server.log, is_daemon);
    announce(server, &listeners, &worker_count);
    let sentinel = is_sentinel.then(|| begin_sentinel(server)).transpose();
    let sentinel = sentinel.inspect_err(|line| server.log.write_last(line))?;
    http::open(http_state(server)).inspect_err(|line| server.log.write_last(line))?;
    {
        let _inside = runtime.enter();
        listeners.serve(server);
        tokio::spawn(cron::run(server));
    }
    if is_daemon {
        let told = daemon::report_ready();
        told.map_err(|error| format!("Cannot go to the background: {}", strerror(&error)))?;
    }
    load(server, &runtime, found)?;
    begin_bus(server, bus).inspect_err(|line| server.log.write_last(line))?;
    log_notice!(server.log, "Ready to accept connections tcp");
    supervisor.ready(&server.log);
    runtime.block_on(server.gates.shutdown_request.asked());
    if let Some(sentinel) = sentinel {
        sentinel.end(PATIENCE);
    }
    end(server, &runtime, &supervisor, pid_file);
    // What the orderly end did not wait for is not waited for here either.
    runtime.shutdown_background();
    Ok(())
}

/// Takes on the rights of its user, enters its directory, opens its log and confines the process.
fn prepare_process(config: &Config, is_daemon: bool) -> Result<Log, String> {
    user::switch_to_configured(config)?;
    prepared::enter_directory(config).map_err(|why| {
        let path = config.show(b"dir").unwrap_or_default();
        format!("Can't chdir to '{}': {why}", String::from_utf8_lossy(&path))
    })?;
    let log = Log::open(config, is_daemon)?;
    sandbox::enter(config, &log).inspect_err(|line| log.write_last(line))?;
    Ok(log)
}

/// What is to be loaded, when its place is ours alone.
fn find_data(server: &'static Server) -> Result<Option<loading::DataFiles>, String> {
    server.snapshot_claim.take_if_due(server, &server.config)?;
    let found = loading::find(server)?;
    leftovers::remove(server);
    Ok(found)
}

fn begin_sentinel(server: &'static Server) -> Result<RunningSentinel, String> {
    leftovers::remove_replacements(server);
    let runtime = make_runtime().map_err(|why| format!("Cannot start the Sentinel: {why}"))?;
    let set_log_level = move |word: &[u8]| {
        let pair = [b"loglevel".as_slice(), word];
        apply_config::change_config(server, &pair, true)
    };
    RunningSentinel::begin(server, server.sentinel.open(), Box::new(set_log_level), runtime)
}

/// What the port of HTTP is given to read.
pub(crate) fn http_state(server: &'static Server) -> HttpState {
    let info = Box::new(move || info::everything(server));
    HttpState::new(server, &server.links, info)
}

/// Makes the server a node of a cluster, where it is to be one.
fn open_bus(server: &'static Server) -> Result<Option<BusSockets>, String> {
    if !server.config.get(CLUSTER_ENABLED) {
        return Ok(None);
    }
    server.cluster_start().open().map(Some)
}

/// Lets the other nodes in.
fn begin_bus(server: &'static Server, bus: Option<BusSockets>) -> Result<(), String> {
    let Some(bus) = bus else { return Ok(()) };
    let runtime = make_runtime().map_err(|why| format!("Cannot start the bus: {why}"))?;
    server.cluster_start().begin(bus, runtime)
}

/// Loads what was found, and goes on as a replica where the configuration says so.
fn load(
    server: &'static Server,
    runtime: &Runtime,
    found: Option<DataFiles>,
) -> Result<(), String> {
    let resume = |history| {
        let of_cluster = server.cluster_start().primary();
        server.links.resume(server, of_cluster, history);
    };
    match found {
        Some(found) => runtime.block_on(loading::run(server, found, resume)),
        None => {
            resume(None);
            Ok(())
        }
    }
}

/// The runtime of a thread that waits for much. Its library panics where the system refuses it the
/// sockets that it hears signals by.
fn make_runtime() -> Result<Runtime, String> {
    /// Threads that look hosts up, where that is asked for.
    const LOOKERS_MAX: usize = 8;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let build = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().max_blocking_threads(LOOKERS_MAX).build()
    };
    let built = std::panic::catch_unwind(build);
    std::panic::set_hook(hook);
    match built {
        Ok(built) => built.map_err(|error| strerror(&error)),
        Err(panic) => Err(engine::runtime::panics::text_of(&*panic).to_owned()),
    }
}

const HELP: &str = "Usage: apus [/path/to/redis.conf] [--directive value ...] [-]
       apus sentinel /path/to/sentinel.conf [--directive value ...]
       apus memcached [option of memcached ...]
       apus cli [option of redis-cli ...] [command [argument ...]]
       apus ping [option of redis-cli ...]
       apus bench [option of memtier_benchmark ...]
       apus check rdb|aof FILE
       apus help [memcached|cli|ping|bench|check]
       apus --version | --help

Without a subcommand it is the server. A configuration file is one of Redis, Valkey or KeyDB, `-`
reads one from the standard input, and directives on the command line win over those of the file.
A directive and its value are two arguments or one.

       sentinel    watches over servers and fails them over, as redis-sentinel does; the file is
                   rewritten. The same as --sentinel, or as this binary under a name that ends so
       memcached   the server for clients of memcached, with memcached's command line
       cli         a client: runs a command, or reads commands, with redis-cli's options
       ping        tells by its exit code whether a server answers
       bench       loads a server and measures it
       check       tells whether files can be loaded, and mends them where asked to
       help        this text, or that of a subcommand

Examples:
       apus
       apus --port 7000 --worker-threads 4
       apus /etc/redis/redis.conf --dir /var/lib/apus
       apus cli SET greeting hello
       apus \"--maxmemory 2gb\" \"--maxmemory-policy allkeys-lru\"";

/// Makes the server with its listeners and workers. What goes wrong is also said in the log, which
/// may be all that anybody sees.
fn prepare(
    startup: Startup,
    log: Log,
    runtime: &Runtime,
) -> Result<(&'static Server, Listeners, WorkerCount), String> {
    let told = |log: &Log, line: String| {
        log.write_last(&line);
        line
    };
    log_notice!(log, "Apus {} is starting, pid {}", version::full(), std::process::id());
    for notice in &startup.notices {
        log_notice!(log, "{notice}");
    }
    system_limits::choose_pages(&startup.config);
    system_limits::fit_max_clients(&startup.config, &log).map_err(|line| told(&log, line))?;
    let table = command_table(&startup).map_err(|line| told(&log, line))?;
    let declared = startup.users;
    let server = make_server(startup.config, table, log, Box::new(Disk));
    panic_hook::watch(server);
    apply_config::apply_settings(server);
    // The log says what could not be done.
    let _ = oom_score::adjust(&server.config, server.gates.replica_role.is_replica(), &server.log);
    server.links.begin(server);
    let fail = |line| told(&server.log, line);
    users::declare(server, &declared).map_err(fail)?;
    let _inside = runtime.enter();
    server.memcached.users.load(server).map_err(fail)?;
    // Threads without which the server could not go on, or come to its end.
    let begun = server.threads.background.begin().and_then(|()| signals::listen(server));
    let begun = begun.and_then(|()| crash_report::begin(server));
    begun.map_err(|error| {
        fail(format!("Cannot start what the server needs: {}", strerror(&error)))
    })?;
    let contexts = prepared::prepare_tls(server, &server.config)
        .map_err(|why| fail(format!("Failed to configure TLS: {why}")))?;
    server.tls.change(contexts, server.keyspace.clock().monotonic_us());
    let exports = server.telemetry.prepare(server, &server.config);
    server.telemetry.change(server, exports.map_err(fail)?);
    let listeners = Listeners::open(server).map_err(|why| fail(format!("{why}, exiting.")))?;
    let worker_count = server.threads.cores.worker_count(server.config.get(WORKER_THREADS));
    let hired = server.worker_pool.resize(server, worker_count.workers);
    hired.map_err(|error| fail(format!("Cannot start the workers: {}", strerror(&error))))?;
    server.memory.budget.check(server.keyspace.clock().monotonic_us());
    Ok((server, listeners, worker_count))
}

fn command_table(startup: &Startup) -> Result<Commands, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let renames = startup.renames.iter().map(|rename| (text(&rename.from), text(&rename.to)));
    let families = match startup.config.profile() {
        Profile::Server => FAMILIES,
        Profile::Sentinel => families::of_sentinel(),
    };
    CommandTable::build(&families, &renames.collect::<Vec<_>>())
        .map_err(|(index, why)| startup.renames[index].place.refuse(why).to_string())
}

/// A server with defaults and without workers or listeners.
#[cfg(test)]
pub(crate) fn test_server() -> &'static Server {
    test_server_on(Box::new(Disk))
}

/// The same with a disk of its own.
#[cfg(test)]
pub(crate) fn test_server_on(storage: Box<dyn Storage>) -> &'static Server {
    let config = Config::new();
    let log = Log::open(&config, false).expect("the default log is standard output");
    let table = CommandTable::build(&FAMILIES, &[]).expect("nothing is renamed");
    make_server(config, table, log, storage)
}

fn make_server(
    config: Config,
    table: Commands,
    log: Log,
    storage: Box<dyn Storage>,
) -> &'static Server {
    let by_hash_slot = config.get(CLUSTER_ENABLED);
    let databases = match by_hash_slot {
        true => config.get(CLUSTER_DATABASES),
        false => config.get(DATABASES) as usize,
    };
    let clock = system_limits::choose_clock();
    let words = config.get(PREFIX_INDEX);
    let words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let prefixes = words.map(Into::into).collect();
    let options = Options { databases, clock, by_hash_slot, prefixes, ..Options::new() };
    let keyspace = Keyspace::leak(options);
    let server = Server::new(config, table, log, keyspace, storage);
    let server: &'static Server = Box::leak(Box::new(server));
    server.set_hooks();
    server.set_control_plane(server);
    server.unregistrar.begin(|rest| server.worker_pool.unregister(rest));
    server.memory.set_eviction_observer(&server.memcached);
    server.set_links_handover(|moving| server.links.adopt(server, moving));
    let state = http_state(server);
    server
        .telemetry
        .set_source(move |keys| http::metric_values(&state, NamePermissions { keys, users: true }));
    server
}

/// Says what runs here, with what means, and what to try next.
fn announce(server: &Server, listeners: &Listeners, worker_count: &WorkerCount) {
    let WorkerCount { workers, reason } = worker_count;
    let plural = if *workers == 1 { "" } else { "s" };
    log_notice!(
        server.log,
        "Apus {APUS_VERSION}, compatible with Redis {}: {workers} worker{plural} ({reason})",
        version::of_redis(&server.config)
    );
    let limit = match server.memory.budget.configured() {
        0 => "no limit".to_owned(),
        limit => format!("limit {}", system_memory::human(limit)),
    };
    let cgroup = system_memory::cgroup_limit();
    let cgroup = cgroup.map(|limit| format!("the cgroup allows {}, ", system_memory::human(limit)));
    log_notice!(
        server.log,
        "Memory: {limit} (maxmemory), {}the machine has {}",
        cgroup.unwrap_or_default(),
        system_memory::human(system_memory::of_machine())
    );
    if rustix::process::geteuid().is_root() {
        log_warning!(
            server.log,
            "WARNING: the server runs as root. Whoever gets hold of it has the machine: start it \
             as a user of its own, or name one by run-as-user"
        );
    }
    listeners.announce(server);
    match listeners.port() {
        Some(port) => {
            let tls = if listeners.is_encrypted_only() { " --tls" } else { "" };
            log_notice!(server.log, "Try it: redis-cli -p {port}{tls}");
        }
        None => {
            let path = server.config.get(UNIXSOCKET);
            if !path.is_empty() {
                log_notice!(server.log, "Try it: redis-cli -s {}", String::from_utf8_lossy(&path));
            }
        }
    }
}

/// Ends all threads in order and removes what is only there while we serve.
fn end(
    server: &'static Server,
    runtime: &Runtime,
    supervisor: &Supervisor,
    pid_file: Option<PidFile>,
) {
    supervisor.stopping(&server.log);
    let (sender, receiver) = oneshot::channel();
    let dismissal = std::thread::Builder::new().spawn(move || {
        // What has begun comes to its end, for which it may need its session.
        server.threads.background.await_programs(PATIENCE / 2);
        server.worker_pool.shut_down();
        server.threads.background.shut_down(PATIENCE);
        // The thread that waits may have lost patience.
        let _ = sender.send(());
    });
    match dismissal {
        // Signals are still heard meanwhile: a second SIGINT ends at once.
        Ok(_) => {
            let _ = runtime.block_on(async { tokio::time::timeout(PATIENCE, receiver).await });
        }
        // Without a thread nobody could lose patience; the end of the process ends them.
        Err(_) => server.threads.background.shut_down(PATIENCE),
    }
    // What was acknowledged is to reach the disk, however long that takes.
    let (sender, receiver) = oneshot::channel();
    let flush = std::thread::Builder::new().spawn(move || {
        aof::switch_off(server);
        let _ = sender.send(());
    });
    match flush {
        Ok(_) => _ = runtime.block_on(receiver),
        Err(_) => aof::switch_off(server),
    }
    if let Some(pid_file) = pid_file {
        pid_file.remove(&server.log);
    }
    for socket in [UNIXSOCKET, MEMCACHED_UNIXSOCKET].map(|socket| server.config.get(socket)) {
        if !socket.is_empty() {
            log_notice!(server.log, "Removing the unix socket file.");
            // The file may have been removed before.
            let _ = std::fs::remove_file(OsStr::from_bytes(&socket));
        }
    }
    log_warning!(server.log, "Apus is now ready to exit, bye bye...");
}

/// Remembers what was read, for a daemon that has to read it again.
struct Recorder<R> {
    source: R,
    seen: Vec<u8>,
}

impl<R: Read> Read for Recorder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.seen.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}
