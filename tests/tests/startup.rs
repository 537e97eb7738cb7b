//! The process: how it starts, what keeps it from starting, how it is told to end, and what it
//! leaves behind.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::value::Value;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::environment::{binary, repository};
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Client, Oracle, Server, check};

fn apus(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().unwrap()
}

fn error_lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

/// The server must not start, say one line that holds `text`, and exit with 1.
#[track_caller]
fn refuses(arguments: &[&str], text: &str) {
    let output = apus(arguments);
    let lines = error_lines(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {lines:?}");
    assert!(lines.len() == 1 && lines[0].contains(text), "{arguments:?}: {lines:?}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("bad.conf"), "port 0\nmaxmemory lots\n").unwrap();
    refuses(
        &["--nonsense", "1"],
        "the command line >>> 'nonsense \"1\"': Bad directive or wrong number of arguments",
    );
    let bad = path("bad.conf");
    let why = "'maxmemory lots': argument must be a memory value";
    refuses(&[&bad], &format!("at line 2 of '{bad}' >>> {why}"));
    refuses(&["/nonexistent/apus.conf"], "can't open config file '/nonexistent/apus.conf'");
    refuses(&["--dir", "/nonexistent"], "No such file or directory");
    refuses(&["--logfile", "/nonexistent/log"], "Can't open the log file");
    refuses(
        &["--rename-command", "NOSUCH", "X"],
        "'rename-command \"NOSUCH\" \"X\"': No such command",
    );
    refuses(&["--port", "0"], "Configured to not listen anywhere, exiting.");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let text = format!("listening socket 127.0.0.1:{port}: bind: Address already in use, exiting.");
    refuses(&["--port", &port, "--bind", "127.0.0.1"], &text);
    refuses(&["--bind", "192.0.2.1"], "Cannot assign requested address");
    refuses(&["--bind", "nowhere"], "invalid address");
}

#[test]
fn every_subcommand_shows_examples() {
    for words in [&["help"][..], &["help", "bench"], &["help", "check"], &["help", "memcached"]] {
        let output = apus(words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, examples) = text.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{text}"));
        assert!(output.status.success() && examples.lines().count() > 1, "{text}");
        assert!(examples.lines().all(|line| line.starts_with("       apus")), "{examples}");
    }
}

#[test]
fn a_mistyped_word_is_answered_with_the_right_one() {
    refuses(&["--maxmemroy", "1gb"], "wrong number of arguments; did you mean maxmemory?");
    refuses(&["bnech"], "did you mean: apus bench");
    refuses(&["sentinal"], "did you mean: apus sentinel");
    let output = apus(&["bench", "--hide-histogramm"]);
    let lines = error_lines(&output);
    assert!(!output.status.success() && lines[0].contains("did you mean '--hide-histogram'?"));
}

#[test]
fn a_failure_is_also_in_the_log_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log").display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let bind = ["--port", &port, "--bind", "127.0.0.1"];
    let arguments = [&bind[..], &["--logfile", &log]].concat();
    assert_eq!(apus(&arguments).status.code(), Some(1));
    assert!(std::fs::read_to_string(log).unwrap().contains("# Warning: Could not create server"));
}

/// What an operator that asks for it counts on: encryption, another's data, modules' rules.
#[test]
fn what_is_not_there_and_is_counted_on_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf").display().to_string();
    for line in [
        "loadmodule /usr/lib/redis/modules/redisbloom.so",
        "active-replica yes",
        "storage-provider flash /tmp",
        "db-s3-object s3://bucket/object",
    ] {
        let why = if line.starts_with("loadmodule") { "modules are not" } else { "this is not" };
        std::fs::write(&file, format!("{line}\n")).unwrap();
        refuses(&[&file], &format!(">>> '{line}': {why} supported"));
        refuses(&[&format!("--{line}")], &format!(">>> '{line}': {why} supported"));
    }
    let server = Server::start(&["--active-replica", "no"]);
    let mut client = server.client();
    check(
        &mut client,
        "> CONFIG SET min-replicas-to-write 0\nOK\n\
         > CONFIG SET hz 20 active-replica yes\n\
         (error) ERR CONFIG SET failed (possibly related to argument 'active-replica') - \
         this is not supported yet\n\
         > CONFIG GET hz\n1) \"hz\"\n2) \"10\"",
    );
}

#[test]
fn version_and_help_are_said() {
    for arguments in [["--version"], ["-v"]] {
        let output = apus(&arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with("Apus server v=8.2.3 sha="), "{text}");
        assert!(text.trim_end().ends_with(" apus=0.1.0") && text.lines().count() == 1, "{text}");
    }
    for arguments in [&["--help"][..], &["-h"], &["help"]] {
        let output = apus(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with("Usage: apus "), "{text}");
        for subcommand in ["memcached", "bench", "check", "help", "--version"] {
            assert!(text.contains(&format!(" {subcommand}")), "{subcommand}: {text}");
        }
    }
    for (subcommand, text) in
        [("memcached", "--memory-limit"), ("bench", "--requests"), ("check", "apus check rdb")]
    {
        for arguments in [["help", subcommand], [subcommand, "--help"]] {
            let output = apus(&arguments);
            assert!(output.status.success(), "{arguments:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains(text), "{arguments:?}");
        }
    }
    let unknown = apus(&["help", "nosuch"]);
    assert!(unknown.status.code() == Some(1) && unknown.stdout.is_empty(), "{unknown:?}");
    assert!(apus(&["help", "help"]).status.success());
}

/// The reported version is one, wherever it is told, and may be another one.
#[test]
fn one_version_of_redis_is_reported() {
    for (arguments, version, number) in [
        (&[][..], "8.2.3", 0x0008_0203),
        (&["--reported-redis-version", "7.2.4"], "7.2.4", 0x0007_0204),
    ] {
        let server = Server::start(arguments);
        let mut client = server.client();
        let text = |client: &mut Client, words: &[&str]| {
            let reply = client.call(words);
            String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned()
        };
        let info = text(&mut client, &["INFO", "server"]);
        assert!(info.contains(&format!("redis_version:{version}\r\n")), "{info}");
        assert!(info.contains("apus_version:0.1.0\r\n"), "{info}");
        assert!(text(&mut client, &["LOLWUT"]).contains(&format!("Redis ver. {version},")));
        let hello = client.call(&["HELLO"]);
        let Value::Array(hello) = hello else { panic!("{hello:?}") };
        assert_eq!(hello[3].as_bytes(), Some(version.as_bytes()));
        let script = "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}";
        check(
            &mut client,
            &format!("> EVAL \"{script}\" 0\n1) \"{version}\"\n2) (integer) {number}"),
        );
        server.expect_log(&format!("compatible with Redis {version}: "));
    }
    refuses(&["--reported-redis-version", "8.2"], "argument must be a version such as 8.2.3");
}

/// The process' arguments as everybody can see them.
fn shown(server: &Server) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_title_stands_in_the_place_of_the_arguments() {
    let server = Server::start(&["--requirepass", "topsecret", "--hz", "10"]);
    let program = binary().display().to_string();
    let title = |rest: &str| {
        let title = format!("{program} {rest}");
        eventually("the title is there", || shown(&server).trim_end_matches('\0') == title);
    };
    title(&format!("127.0.0.1:{}", server.port()));
    let mut client = server.client();
    check(&mut client, "> AUTH topsecret\nOK");
    let port = free_port();
    check(&mut client, &format!("> CONFIG SET port {port}\nOK"));
    title(&format!("127.0.0.1:{port}"));
    let long = "x".repeat(300);
    check(
        &mut client,
        &format!("> CONFIG SET proc-title-template \" {{title}} {{port}}{{tls-port}} {long}\"\nOK"),
    );
    title(&format!("{port}0 {long}"));
    check(&mut client, "> CONFIG SET proc-title-template \"{title} y\"\nOK");
    title("y");
}

#[test]
fn without_a_title_the_arguments_are_shown_but_for_passwords() {
    let quiet = ["--set-proc-title", "no", "--hz", "10"];
    for (secret, shown_so) in [
        (&["--requirepass", "topsecret"][..], "--requirepass\0*********\0"),
        (&["--masterauth topsecret"], "--masterauth**********\0"),
        (&["--user", "bob", "on", ">topsecret"], "--user\0***\0**\0**********\0"),
    ] {
        let server = Server::start(&[&quiet, secret].concat());
        let shown = shown(&server);
        assert!(shown.starts_with(&format!("{}\0--port\0", binary().display())), "{shown}");
        assert!(shown.contains("--hz\0") && shown.ends_with(shown_so), "{shown:?}");
    }
}

/// Both forms of an argument, with and without a file: what real servers make of them.
#[test]
fn a_directive_is_one_argument_or_several_as_in_the_real_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.conf").display().to_string();
    std::fs::write(&file, "maxmemory 100mb\nmaxmemory-policy allkeys-lru\n").unwrap();
    let rows: &[&[&str]] = &[
        &["--maxmemory 128mb", "--maxmemory-policy volatile-lru"],
        &["--maxmemory", "128mb", "--maxmemory-policy volatile-lru"],
        &["--maxmemory 128mb", "--maxmemory-policy", "volatile-lru"],
        &["--save 900 1", "--save 300 10"],
        &["--save", "--maxmemory 5mb"],
        &["--save \"\""],
        &["--proc-title-template", "--a b"],
        &["--proc-title-template \"{title} a\""],
        &["--client-output-buffer-limit pubsub 1mb 1mb 10"],
        &["--client-output-buffer-limit", "pubsub 1mb 1mb 10"],
        &["--maxmemory 5mb\nmaxmemory-policy volatile-lru"],
        &["--maxmemory 5mb foo"],
        &["--maxmemory=5mb"],
        &["--maxmemory"],
    ];
    let names = "maxmemory maxmemory-policy save proc-title-template client-output-buffer-limit";
    let outcome = |oracle: Option<Oracle>, first: &[&str], arguments: &[&str]| {
        let program = oracle.map_or_else(binary, Oracle::program);
        let (dir, socket) = (folder.path().display().to_string(), folder.path().join("socket"));
        let _ = std::fs::remove_file(&socket);
        let socket_path = socket.display().to_string();
        let common = ["--port", "0", "--unixsocket", &socket_path, "--dir", &dir];
        let mut command = Command::new(program);
        command.args(first).args(common).args(arguments).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut values = None;
        eventually("it serves or ends", || {
            values = UnixStream::connect(&socket).ok().map(|_| {
                let mut client = Client::connect_unix(&socket);
                let values = names.split(' ').map(|name| client.call(&["CONFIG", "GET", name]));
                values.collect::<Vec<_>>()
            });
            values.is_some() || child.try_wait().unwrap().is_some()
        });
        let _ = child.kill();
        child.wait().unwrap();
        values
    };
    for arguments in rows {
        for first in [&[][..], &[&*file], &[&*file, "hz", "20"]] {
            let real = outcome(Some(Oracle::Redis82), first, arguments);
            assert_eq!(outcome(None, first, arguments), real, "{first:?} {arguments:?}");
        }
    }
}

#[test]
fn the_log_tells_what_runs_and_what_to_try() {
    let server = Server::start(&["--worker-threads", "3", "--maxmemory", "100mb"]);
    for text in [
        &format!("is starting, pid {}", server.pid()),
        "* Apus 0.1.0 (",
        "compatible with Redis 8.2.3: 3 workers (asked for)",
        "Memory: limit 100.00M (maxmemory), ",
        &format!("Listening on 127.0.0.1:{}", server.port()),
        &format!("Try it: redis-cli -p {}", server.port()),
        "* Ready to accept connections tcp",
    ] {
        server.expect_log(text);
    }
    let mask = std::thread::available_parallelism().unwrap();
    let server = Server::start(&[]);
    server.expect_log(&format!(": {mask} worker"));
}

#[test]
fn an_affinity_mask_decides_the_number_of_workers() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(binary())
        .args(["--listen-on-any-port", "yes", "--port", "0", "--bind", "127.0.0.1"])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Started { process: child.unwrap(), _folder: tempfile::tempdir().unwrap() };
    let log = child.read_log_to("Ready to accept connections");
    assert!(log.contains("1 worker (the affinity mask)"), "{log}");
}

#[test]
fn every_line_of_a_json_log_is_json() {
    let mut server = Server::start(&["--log-format", "json", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.call(&["DEBUG", "LOG", "say \"hi\"\n"]);
    client.call(&["CONFIG", "SET", "maxmemory", "1"]);
    server.wait_for_log("smaller than the current memory usage");
    for line in server.log().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["pid"].is_u64() && value["message"].is_string(), "{line}");
    }
}

#[test]
fn directories_and_files_are_where_they_are_asked_for() {
    let port = free_port().to_string();
    let own = ["--pidfile", "server.pid", "--unixsocket", "server.sock", "--port", &port];
    let server = Server::start(&own);
    let folder = server.folder().to_owned();
    let pid = std::fs::read_to_string(folder.join("server.pid")).unwrap();
    assert_eq!(pid.trim(), server.pid().to_string());
    let shown = folder.canonicalize().unwrap().display().to_string();
    let mut client = Client::connect_unix(&folder.join("server.sock"));
    check(&mut client, &format!("> CONFIG GET dir\n1) \"dir\"\n2) \"{shown}\""));
    // The folder goes with the server's value, so the end is watched before it is waited for.
    server.signal(Signal::TERM);
    eventually("the files are removed", || {
        !folder.join("server.pid").exists() && !folder.join("server.sock").exists()
    });
    assert!(server.wait().success());
}

#[test]
fn a_port_of_tls_alone_is_named_as_such() {
    let authority = Authority::new();
    let own = authority.arguments(&authority.issue("localhost", None));
    let port = free_port().to_string();
    let ports = ["--port", "0", "--tls-port", &port];
    let arguments: Vec<&str> = own.iter().map(String::as_str).chain(ports).collect();
    let log = Started::new(&arguments, &[]).read_log_to("Ready to accept connections");
    assert!(log.contains(&format!("Try it: redis-cli -p {port} --tls\n")), "{log}");
}

#[test]
fn a_unix_socket_alone_needs_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s").display().to_string();
    let arguments = ["--port", "0", "--unixsocket", &socket, "--unixsocketperm", "700"];
    let mut server = Started::new(&arguments, &[]);
    let log = server.read_log_to("Ready to accept connections");
    assert!(!log.contains("Listening on") && log.contains("Try it: redis-cli -s "), "{log}");
    check(&mut Client::connect_unix(Path::new(&socket)), "> PING\nPONG");
    let mode = std::fs::metadata(&socket).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
}

#[test]
fn signals_end_it_in_order() {
    for (signal, text) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut server = Server::start(&[]);
        let mut client = server.client();
        // No client has to be idle for the end to come.
        client.send(&["DEBUG", "SLEEP", "100"]);
        server.signal(Signal::HUP);
        server.signal(signal);
        server.wait_for_log(&format!("Received {text} scheduling shutdown..."));
        server.wait_for_log("Apus is now ready to exit, bye bye...");
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// What another life of the process was to put in the place of a file goes; what somebody may be
/// writing now stays, and so does what looks like it only.
#[test]
fn what_was_to_replace_a_file_and_never_did_is_removed() {
    let mut over = std::process::Command::new("true").spawn().unwrap();
    over.wait().unwrap();
    let (over, alive) = (over.id(), std::process::id());
    let gone = [format!("users.acl-{over}.tmp"), format!("apus.conf-{over}.tmp")];
    let kept = [
        format!("users.acl-{alive}.tmp"),
        format!("apus.conf-{alive}.tmp"),
        format!("mine-{over}.tmp"),
        format!("users.acl-{over}"),
        "users.acl-mine.tmp".to_owned(),
        "users.acl-20261127.tmp".to_owned(),
        "users.acl--5.tmp".to_owned(),
        "users.acl-.tmp".to_owned(),
    ];
    let prepare = |folder: &Path| {
        std::fs::create_dir(folder.join("elsewhere")).unwrap();
        std::fs::write(folder.join("elsewhere/users.acl"), "").unwrap();
        std::os::unix::fs::symlink("elsewhere/users.acl", folder.join("users.acl")).unwrap();
        for name in gone.iter().chain(&kept) {
            std::fs::write(folder.join(name), "").unwrap();
            std::fs::write(folder.join("elsewhere").join(name), "").unwrap();
        }
    };
    let server = Server::start_configured(prepare, "aclfile users.acl\n", &[]);
    let (own, elsewhere) = (server.folder().to_owned(), server.folder().join("elsewhere"));
    // A link is replaced where it leads to.
    assert!(!own.join(&gone[1]).exists() && !elsewhere.join(&gone[0]).exists());
    assert!(kept.iter().all(|name| own.join(name).exists() && elsewhere.join(name).exists()));
}

#[test]
fn a_hang_up_is_ignored() {
    let server = Server::start(&[]);
    server.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(50));
    check(&mut server.client(), "> PING\nPONG");
}

#[test]
fn stock_configurations_start_unmodified() {
    let mut files = vec![];
    for name in ["redis-7.0.conf", "redis-8.2.conf", "valkey-9.1.conf", "stock.conf"] {
        files.push(repository().join("tests/conf").join(name));
    }
    files.push("/etc/redis/redis.conf".into());
    for file in files.iter().filter(|file| file.exists()) {
        let text = std::fs::read_to_string(file).unwrap();
        let own =
            ["--daemonize", "no", "--logfile", "", "--pidfile", "pid", "--protected-mode", "no"];
        let server = Server::start_with_config(&text, &own);
        let mut client = server.client();
        check(&mut client, "> SET k v\nOK\n> GET k\n\"v\"\n> CONFIG REWRITE\nOK");
        // The user that runs the tests may be root.
        let log = server.log();
        let mut lines = log.lines().filter(|line| !line.contains("the server runs as root"));
        assert!(lines.all(|line| !line.contains('#')), "{}: {log}", file.display());
    }
}

#[test]
fn workers_are_bound_to_cores_and_freed() {
    let server = Server::start(&["--server-thread-affinity", "true", "--worker-threads", "2"]);
    let mut client = server.client();
    check(&mut client, "> PING\nPONG");
    let all = cores_of(std::process::id(), |_| true).concat();
    let workers = || cores_of(server.pid(), |name| name.starts_with("worker-"));
    let is_bound = |cores: &String| cores.parse::<u32>().is_ok();
    eventually("workers are bound", || workers().len() == 2 && workers().iter().all(is_bound));
    check(&mut client, "> CONFIG SET server-thread-affinity no\nOK");
    eventually("workers are free", || workers().iter().all(|cores| all.starts_with(cores)));
}

#[test]
fn a_busy_worker_does_not_interrupt_clients_of_this_machine() {
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, stops) = (server.client(), AtomicBool::new(false));
    let policy = || policy_of(server.pid(), "worker-0");
    let loops = vec![vec!["EVAL", "for i = 1, 10000 do end", "0"]; 50];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut busy = server.client();
            while !stops.load(Ordering::Relaxed) {
                busy.pipeline(&loops);
            }
        });
        // What ends the load, should one of these fail.
        let _stop = OnDrop(|| stops.store(true, Ordering::Relaxed));
        eventually("it is courteous", || policy() == SCHED_BATCH);
        check(&mut client, "> CONFIG SET server-batch-scheduling no\nOK");
        eventually("it may not be", || policy() == SCHED_OTHER);
        check(&mut client, "> CONFIG SET server-batch-scheduling yes\nOK");
        eventually("it may be again", || policy() == SCHED_BATCH);
    });
    eventually("it is not busy", || policy() == SCHED_OTHER);
}

/// Policies of the scheduler, as `/proc` has them.
const SCHED_OTHER: u32 = 0;
const SCHED_BATCH: u32 = 3;

/// That of the thread with such a name.
fn policy_of(pid: u32, name: &str) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lines =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let own = lines.filter(|line| line.contains(&format!("({name})"))).collect::<String>();
    let (_, fields) = own.rsplit_once(") ").unwrap();
    fields.split(' ').nth(41 - 3).unwrap().parse().unwrap()
}

/// Does something when it goes out of scope, also where a test fails.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The lists of cores that the threads with such names may use.
fn cores_of(pid: u32, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    statuses
        .filter(|status| wanted(&field(status, "Name:")))
        .map(|status| field(&status, "Cpus_allowed_list:"))
        .collect()
}

/// A process of our own, with its output; the process is ended with its value.
struct Started {
    process: Child,
    _folder: TempDir,
}

impl Started {
    fn new(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        // The process may save what it has there.
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.args(arguments).envs(environment.iter().copied()).current_dir(folder.path());
        let process = command.stdout(Stdio::piped()).spawn().unwrap();
        Self { process, _folder: folder }
    }

    /// Its log up to and with this text.
    fn read_log_to(&mut self, text: &str) -> String {
        let stdout = self.process.stdout.as_mut().unwrap();
        let (mut log, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&log).contains(text) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&log));
            log.push(byte[0]);
        }
        String::from_utf8(log).unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn systemd_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let path = path.display().to_string();
    for supervised in ["systemd", "auto"] {
        // A server that is supervised stays in the foreground.
        let port = free_port().to_string();
        let arguments = ["--port", &port, "--bind", "127.0.0.1", "--daemonize", "yes"];
        let arguments = [&arguments[..], &["--supervised", supervised]].concat();
        let server = Started::new(&arguments, &[("NOTIFY_SOCKET", &path)]);
        let mut state = [0; 256];
        let mut told = |expected: &str| {
            let length = socket.recv(&mut state).unwrap();
            assert_eq!(String::from_utf8_lossy(&state[..length]), expected);
        };
        told("STATUS=Ready to accept connections\nREADY=1\n");
        let pid = Pid::from_child(&server.process);
        kill_process(pid, Signal::TERM).unwrap();
        told("STATUS=Shutting down\nSTOPPING=1\n");
    }
}
