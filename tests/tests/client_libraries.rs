//! What the users' programs see: sessions of four client libraries, the suites that redis-py and
//! go-redis carry themselves, and the metrics of redis_exporter.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tests::environment::recorded;
use tests::server::{eventually, free_port};
use tests::{Oracle, Server, clients};

/// A server of each kind with a Unix socket too.
fn servers() -> [Server; 2] {
    let port = free_port().to_string();
    let theirs = Oracle::Redis82.start(&["--unixsocket", clients::SOCKET]);
    [theirs, Server::start(&["--port", &port, "--unixsocket", clients::SOCKET])]
}

/// A server for a suite, which is free to reconfigure it.
fn suite_server(arguments: &[&str]) -> Server {
    let text = "enable-debug-command yes\nenable-module-command yes\nsave \"\"\n";
    Server::start_with_config(text, arguments)
}

/// One for each share of redis-py's suite, which waits most of the time.
fn python_suite_servers() -> [Server; 3] {
    [(); 3].map(|()| suite_server(&[]))
}

#[test]
fn redis_py_sessions() {
    servers().iter().for_each(clients::redis_py);
}

#[test]
fn ioredis_sessions() {
    servers().iter().for_each(clients::ioredis);
}

/// Scripts that reach keys nobody declared, from many connections at once.
#[test]
fn libraries_that_live_on_scripts() {
    servers().iter().for_each(clients::script_users);
}

#[test]
fn go_redis_sessions() {
    servers().iter().for_each(clients::go_redis);
}

#[test]
fn rueidis_sessions() {
    servers().iter().for_each(clients::rueidis);
}

#[test]
fn jedis_sessions() {
    servers().iter().for_each(clients::jedis);
}

#[test]
fn redis_py_suite_in_resp2() {
    clients::redis_py_suite(&python_suite_servers(), 2);
}

#[test]
fn redis_py_suite_in_resp3() {
    clients::redis_py_suite(&python_suite_servers(), 3);
}

#[test]
fn go_redis_suite() {
    let one_worker = suite_server(&["--worker-threads", "1"]);
    clients::go_redis_suite(&suite_server(&[]), &one_worker);
}

/// Every metric that the exporter reads from Redis 8.2 it reads from us.
#[test]
fn exporter_metrics() {
    let theirs = metrics(&Oracle::redis82());
    let ours = metrics(&Server::start(&[]));
    assert!(theirs.len() > 100, "Redis 8.2 gives {theirs:?}");
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{} metrics are missing: {missing:#?}", missing.len());
    clients::report("redis_exporter", &format!("{} passed, 0 failed", theirs.len()));
}

/// The names of the metrics that the exporter makes of a server under some load.
fn metrics(server: &Server) -> BTreeSet<String> {
    let mut client = server.client();
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.call(&["SET", "key", "value", "EX", "1000"]);
    client.call(&["GET", "key"]);
    client.call(&["NOSUCH"]);
    let port = free_port();
    let address = format!("redis://127.0.0.1:{}", server.port());
    let mut command = Command::new(recorded("exporter"));
    command.arg("--redis.addr").arg(address);
    command.arg("--web.listen-address").arg(format!("127.0.0.1:{port}"));
    command.args(["--include-system-metrics", "--include-config-metrics"]);
    command.args(["--export-client-list", "--check-single-keys", "db0=key"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _exporter = Exporter(command.spawn().expect("the exporter is installed"));
    let mut page = String::new();
    eventually("the exporter serves its metrics", || {
        page = fetch(port).unwrap_or_default();
        page.contains("redis_up 1")
    });
    page.lines().filter(|line| line.starts_with("redis_")).map(name_of).collect()
}

/// A metric's name, with its labels where they say which directive, command or error it is about.
fn name_of(line: &str) -> String {
    let named = ["redis_config_key_value{", "redis_commands_total{", "redis_errors_total{"];
    if named.iter().any(|name| line.starts_with(name)) {
        // The value of a directive is a label too, and the last one.
        let labels = line.split_once(",value=").or(line.rsplit_once(' '));
        return labels.map_or(line, |(labels, _)| labels).to_owned();
    }
    line.split([' ', '{']).next().unwrap_or(line).to_owned()
}

fn fetch(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page).map(|_| page)
}

/// Ends with its value.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
