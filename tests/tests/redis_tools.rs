//! redis-cli and redis-benchmark, unchanged, against the server. Invariant: exit codes and outputs
//! are judged, never how long something took.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tests::environment::recorded;
use tests::server::{eventually, free_port};
use tests::{Server, clients};

/// redis-cli at this server; `RESP` errors reach its exit code through `-e`.
fn cli(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(recorded("redis_cli"));
    command.args(["-p", &server.port().to_string()]).args(arguments);
    command.env_remove("REDISCLI_AUTH").env("HOME", server.folder());
    command
}

/// What a command printed, which must end well and complain of nothing.
fn printed(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the tools are installed");
    judge(&command, &output)
}

/// What the program printed, fed with this input.
fn fed(mut command: Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the tools are installed");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("a child can be waited for");
    writer.join().expect("a writer does not panic").expect("the tool reads on");
    judge(&command, &output)
}

fn judge(command: &Command, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    let is_error = |line: &str| line.contains("ERR ") || line.starts_with("Error");
    let all = format!("{text}{errors}");
    assert!(!all.lines().any(is_error), "{command:?} complains:\n{all}");
    text
}

/// What an endless mode printed within some time.
fn glimpse(mut command: Command, enough: impl Fn(&str) -> bool) -> String {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("installed");
    let mut stdout = child.stdout.take().expect("it is piped");
    let (sender, pieces) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            let _ = sender.send(buffer[..length].to_vec());
        }
    });
    let mut text = String::new();
    eventually("the tool prints what is wanted", || {
        let piece = pieces.recv_timeout(Duration::from_millis(50)).unwrap_or_default();
        text.push_str(&String::from_utf8_lossy(&piece));
        enough(&text)
    });
    child.kill().expect("it still runs");
    child.wait().expect("a child can be waited for");
    reader.join().expect("a reader does not panic");
    text
}

fn populated(keys: usize) -> Server {
    let server = Server::start(&[]);
    let commands: Vec<_> = (0..keys)
        .map(|i| vec!["SET".to_owned(), format!("key:{i}"), "x".repeat(i % 100 + 1)])
        .collect();
    server.client().pipeline(&commands);
    server
}

#[test]
fn cli_runs_commands() {
    let server = Server::start(&[]);
    assert_eq!(printed(cli(&server, &["ping"])), "PONG\n");
    assert_eq!(printed(cli(&server, &["-n", "3", "set", "in three", "3"])), "OK\n");
    assert_eq!(printed(cli(&server, &["-n", "3", "--no-raw", "get", "in three"])), "\"3\"\n");
    assert_eq!(printed(cli(&server, &["exists", "in three"])), "0\n");
    assert_eq!(fed(cli(&server, &["-x", "set", "fed"]), b"from \x00 input"), "OK\n");
    assert_eq!(printed(cli(&server, &["--no-raw", "get", "fed"])), "\"from \\x00 input\"\n");
    assert_eq!(printed(cli(&server, &["-r", "3", "-i", "0", "incr", "n"])), "1\n2\n3\n");
    let shown = printed(cli(&server, &["-3", "--no-raw", "config", "get", "port"]));
    assert!(shown.starts_with("1# \"port\" => "), "{shown}");
    assert_eq!(printed(cli(&server, &["-2", "--no-raw", "get", "none"])), "(nil)\n");
    assert_eq!(printed(cli(&server, &["--csv", "mget", "n", "none"])), "\"3\",NULL\n");
    let json = printed(cli(&server, &["--json", "mget", "n", "none"]));
    assert_eq!(json, "[\"3\",null]\n");
    let lines = fed(cli(&server, &[]), b"set a 1\nincr a\nget a\n");
    assert_eq!(lines, "OK\n2\n2\n");
    let failed = cli(&server, &["-e", "incr", "fed"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let info = printed(cli(&server, &["info", "server"]));
    assert!(info.contains("redis_version:") && info.contains("server_name:apus"), "{info}");
}

#[test]
fn cli_logs_in() {
    let server = Server::start(&["--requirepass", "secret"]);
    let refused = cli(&server, &["ping"]).output().unwrap();
    assert_eq!(refused.stdout, b"NOAUTH Authentication required.\n\n");
    let quiet = "--no-auth-warning";
    assert_eq!(printed(cli(&server, &[quiet, "-a", "secret", "ping"])), "PONG\n");
    let named = [quiet, "--user", "default", "--pass", "secret", "acl", "whoami"];
    assert_eq!(printed(cli(&server, &named)), "default\n");
    let resp3 = [quiet, "-3", "-a", "secret", "ping"];
    assert_eq!(printed(cli(&server, &resp3)), "PONG\n");
    let mut variable = cli(&server, &["ping"]);
    variable.env("REDISCLI_AUTH", "secret");
    assert_eq!(printed(variable), "PONG\n");
    let wrong = cli(&server, &["-a", "wrong", "ping"]).output().unwrap();
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("AUTH failed: WRONGPASS invalid username-password pair"), "{text}");
}

#[test]
fn cli_connects_to_a_unix_socket() {
    let port = free_port().to_string();
    let server = Server::start(&["--port", &port, "--unixsocket", clients::SOCKET]);
    let mut command = Command::new(recorded("redis_cli"));
    command.arg("-s").arg(server.folder().join(clients::SOCKET)).arg("ping");
    assert_eq!(printed(command), "PONG\n");
}

/// In a terminal redis-cli asks COMMAND DOCS and shows the arguments while one types.
#[test]
fn cli_hints_come_from_command_docs() {
    const TERMINAL: &str = r#"
import fcntl, os, pty, select, struct, sys, termios, time
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    # Before it looks: a terminal without a size is asked for one, and this one does not answer.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:-2])
seen, typed, deadline = b"", False, time.monotonic() + 20
while time.monotonic() < deadline and sys.argv[-1].encode() not in seen:
    if not typed and b"> " in seen:
        os.write(terminal, sys.argv[-2].encode())
        typed = True
    if select.select([terminal], [], [], 0.1)[0]:
        seen += os.read(terminal, 4096)
os.close(terminal)
os.waitpid(child, 0)
sys.stdout.buffer.write(seen)
"#;
    let server = Server::start(&[]);
    let cases = [
        ("getrange ", "key start end"),
        ("config set ", "parameter value [parameter value ...]"),
        ("expire key 10 ", "[NX|XX|GT|LT]"),
        ("copy a b ", "[DB destination-db] [REPLACE]"),
        ("help getdel\r", "Returns the string value of a key after deleting the key"),
    ];
    for (typed, hint) in cases {
        let mut command = Command::new(recorded("python"));
        command.args(["-c", TERMINAL]).arg(recorded("redis_cli"));
        command.args(["-p", &server.port().to_string(), typed, hint]);
        let seen = printed(command);
        assert!(seen.contains(hint), "{typed:?} shows no {hint:?}:\n{seen}");
    }
}

#[test]
fn cli_looks_at_all_keys() {
    let server = populated(1000);
    let scanned = printed(cli(&server, &["--scan", "--pattern", "key:1*"]));
    assert_eq!(scanned.lines().count(), 111);
    let big = printed(cli(&server, &["--bigkeys"]));
    assert!(big.contains("Sampled 1000 keys in the keyspace!"), "{big}");
    assert!(big.contains("Biggest string found") && big.contains("has 100 bytes"), "{big}");
    let memory = printed(cli(&server, &["--memkeys"]));
    assert!(memory.contains("Sampled 1000 keys in the keyspace!"), "{memory}");
    server.client().call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let hot = printed(cli(&server, &["--hotkeys"]));
    assert!(hot.contains("Sampled 1000 keys in the keyspace!"), "{hot}");
}

#[test]
fn cli_measures() {
    let server = populated(10);
    let stat = glimpse(cli(&server, &["--stat", "-i", "0.1"]), |text| text.lines().count() > 4);
    assert!(stat.starts_with("------- data ------"), "{stat}");
    assert!(stat.lines().nth(2).is_some_and(|line| line.starts_with("10 ")), "{stat}");
    // Into a pipe it prints minimum, maximum, average and samples as bare numbers.
    let is_row =
        |line: &str| line.split(' ').filter(|word| word.parse::<f64>().is_ok()).count() == 4;
    let history = ["--latency-history", "-i", "1"];
    let history = glimpse(cli(&server, &history), |text| text.lines().count() > 3);
    assert!(history.lines().take(3).all(is_row), "{history}");
    let latency = printed(cli(&server, &["--latency", "-i", "1"]));
    assert!(latency.lines().count() == 1 && latency.lines().all(is_row), "{latency}");
}

#[test]
fn cli_inserts_a_mass() {
    let server = Server::start(&[]);
    let command =
        |i: u32| tests::client::encode(&["SET".to_owned(), format!("mass:{i}"), i.to_string()]);
    let input: Vec<u8> = (0..100_000).flat_map(command).collect();
    let said = fed(cli(&server, &["--pipe"]), &input);
    assert!(said.contains("errors: 0, replies: 100000"), "{said}");
    assert_eq!(printed(cli(&server, &["dbsize"])), "100000\n");
    let wrong = b"SET a x\r\nINCR a\r\nGET a\r\n";
    let mut faulty = cli(&server, &["--pipe"]);
    faulty.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = faulty.spawn().expect("installed");
    child.stdin.take().expect("it is piped").write_all(wrong).expect("the tool reads on");
    let output = child.wait_with_output().expect("a child can be waited for");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("errors: 1, replies: 3"), "{said}");
}

#[test]
fn cli_watches_the_monitor() {
    let server = Server::start(&[]);
    let seen = glimpse(cli(&server, &["monitor"]), |text| {
        server.client().call(&["SET", "watched", "value"]);
        text.contains("\"SET\" \"watched\" \"value\"")
    });
    assert!(seen.starts_with("OK\n"), "{seen}");
}

/// redis-benchmark's default list, in its usual shapes.
#[test]
fn benchmark_runs() {
    const TESTS: [&str; 20] = [
        "PING_INLINE",
        "PING_MBULK",
        "SET",
        "GET",
        "INCR",
        "LPUSH",
        "RPUSH",
        "LPOP",
        "RPOP",
        "SADD",
        "HSET",
        "SPOP",
        "ZADD",
        "ZPOPMIN",
        "LPUSH (needed to benchmark LRANGE)",
        "LRANGE_100 (first 100 elements)",
        "LRANGE_300 (first 300 elements)",
        "LRANGE_500 (first 500 elements)",
        "LRANGE_600 (first 600 elements)",
        "MSET (10 keys)",
    ];
    let server = Server::start(&[]);
    let shapes: [&[&str]; 6] = [
        &["-c", "50"],
        &["-c", "50", "-P", "16", "-r", "10000"],
        &["-c", "200", "-d", "1000"],
        &["-c", "50", "--threads", "2", "-r", "1000"],
        &["-c", "20", "-k", "0"],
        &["-c", "20", "-3"],
    ];
    for shape in shapes {
        let mut command = Command::new(recorded("redis_benchmark"));
        command.args(["-p", &server.port().to_string(), "-n", "2000", "--csv"]);
        let text = printed({
            command.args(shape);
            command
        });
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('"')).collect();
        let names: Vec<&str> = rows[1..].iter().filter_map(|row| row.split('"').nth(1)).collect();
        assert_eq!(names, TESTS, "{shape:?}: {text}");
        let is_rated = |row: &&str| !row.contains("\"0.00\",\"0.000\",\"0.000\"");
        assert!(rows[1..].iter().all(is_rated), "{shape:?}: {text}");
        assert!(!text.contains("WARNING"), "{shape:?}: {text}");
    }
    let keys = ["exists", "counter:__rand_int__", "mylist"];
    assert_eq!(printed(cli(&server, &keys)), "2\n");
}
