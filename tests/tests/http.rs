//! HTTP: metrics, health and INFO as JSON, and which users may ask for them.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tests::http::{Answer, send};
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Oracle, Server, check};

/// A server with a port of HTTP.
fn start(more: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    (Server::start(&[&["--http-port", &text], more].concat()), port)
}

fn ask(port: u16, method: &str, path: &str, headers: &str) -> Answer {
    send(port, method, path, headers, "")
}

/// Sends a request, and reads the answer up to the end of the connection.
fn exchange(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    headers: &str,
) -> io::Result<Answer> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    Ok(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

/// The answer by the encrypted port, and the certificate that the server has shown.
fn get_encrypted(
    port: u16,
    config: &Arc<ClientConfig>,
    path: &str,
) -> io::Result<(Answer, CertificateDer<'static>)> {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
    let mut stream = StreamOwned::new(session, TcpStream::connect(("127.0.0.1", port))?);
    let answer = exchange(&mut stream, "GET", path, "")?;
    let shown = stream.conn.peer_certificates().expect("it has shown some");
    Ok((answer, shown[0].clone().into_owned()))
}

fn get(port: u16, path: &str) -> Answer {
    ask(port, "GET", path, "")
}

/// The value of a sample.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
}

#[test]
fn metrics_say_what_info_says() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> SET a 1\nOK\n> SET b 2 EX 1000\nOK\n> GET a\n\"1\"");
    client.call(&["GET"]);
    let answer = get(port, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let expected: [(&str, f64); 11] = [
        ("apus_connected_clients", 1.0),
        ("apus_db_keys{db=\"0\"}", 2.0),
        ("apus_db_keys_expiring{db=\"0\"}", 1.0),
        ("apus_commands_total{command=\"set\"}", 2.0),
        ("apus_commands_rejected_total{command=\"get\"}", 1.0),
        ("apus_errors_total{error=\"ERR\"}", 1.0),
        ("apus_keyspace_hits_total", 1.0),
        ("apus_rdb_last_save_ok", 1.0),
        ("apus_is_primary", 1.0),
        ("apus_command_duration_seconds_count{command=\"set\"}", 2.0),
        ("apus_command_duration_seconds_bucket{command=\"set\",le=\"+Inf\"}", 2.0),
    ];
    for (name, value) in expected {
        assert_eq!(sample(&answer.body, name).to_bits(), value.to_bits(), "{name}");
    }
    let limit = client.call(&["CONFIG", "SET", "maxmemory", "100mb"]);
    assert_eq!(limit.as_bytes(), Some(&b"OK"[..]));
    let text =
        ask(port, "GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(text.head.contains("application/openmetrics-text"), "{}", text.head);
    assert_eq!(
        sample(&text.body, "apus_memory_limit_bytes").to_bits(),
        f64::to_bits(104_857_600.0)
    );
    assert!(text.body.ends_with("# EOF\n"));
}

#[test]
fn info_is_told_as_json() {
    let (server, port) = start(&[]);
    check(&mut server.client(), "> SET a 1\nOK");
    let answer = get(port, "/api/info");
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let info = answer.json();
    assert_eq!(info["Keyspace"]["db0"], "keys=1,expires=0,avg_ttl=0,subexpiry=0");
    assert_eq!(info["Server"]["process_id"], server.pid().to_string());
}

#[test]
fn other_paths_and_methods_are_refused() {
    let (_server, port) = start(&[]);
    assert_eq!(get(port, "/nowhere").status, 404);
    let refused = ask(port, "POST", "/metrics", "");
    assert_eq!(refused.status, 405);
    assert!(refused.head.contains("allow: get, head"), "{}", refused.head);
    let head = ask(port, "HEAD", "/metrics", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(get(port, "/healthz").head.contains("cache-control: no-store"));
}

#[test]
fn figures_are_for_those_who_may_run_info() {
    let (server, port) = start(&["--requirepass", "secret"]);
    let mut client = server.client();
    check(&mut client, "> AUTH secret\nOK\n> ACL SETUSER eve on >word +ping\nOK");
    check(&mut client, "> ACL SETUSER ada on >word +info\nOK");
    let with = |text: &str| {
        let header = format!("Authorization: {text}\r\n");
        ask(port, "GET", "/metrics", &header).status
    };
    let refused = get(port, "/metrics");
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: basic"), "{}", refused.head);
    // default:secret, :secret, ada:word, eve:word, ada:wrong
    assert_eq!(with("Basic ZGVmYXVsdDpzZWNyZXQ="), 200);
    assert_eq!(with("Basic OnNlY3JldA=="), 200);
    assert_eq!(with("basic YWRhOndvcmQ="), 200);
    assert_eq!(with("Basic ZXZlOndvcmQ="), 403);
    assert_eq!(with("Basic YWRhOndyb25n"), 401);
    assert_eq!(with("Bearer secret"), 200);
    for strange in ["Basic", "Basic !!!", "Basic YWRh", "Digest x", "Bearer ", ""] {
        assert_eq!(with(strange), 401, "{strange}");
    }
    // A load balancer has no password.
    assert_eq!(get(port, "/healthz").status, 200);
    assert_eq!(get(port, "/readyz").status, 200);
    assert_eq!(ask(port, "GET", "/api/info", "").status, 401);
}

/// The rights are those of the command, whatever clients call it.
#[test]
fn figures_are_there_where_info_is_renamed_or_taken_away() {
    for name in ["", "FIGURES"] {
        let (server, port) = start(&["--rename-command", "INFO", name]);
        let mut client = server.client();
        check(&mut client, "> ACL SETUSER eve on >word +ping\nOK");
        for path in ["/metrics", "/api/info"] {
            assert_eq!(get(port, path).status, 200, "{path} with INFO as '{name}'");
            let eve = ask(port, "GET", path, "Authorization: Basic ZXZlOndvcmQ=\r\n");
            assert_eq!(eve.status, 403, "{path} with INFO as '{name}'");
        }
    }
}

#[test]
fn a_replica_without_its_primary_is_not_ready() {
    let top = Oracle::Redis82.start(&["--repl-diskless-sync-delay", "0"]);
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> REPLICAOF 127.0.0.1 1\nOK");
    let answer = get(port, "/readyz");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "replica: the link to the primary is down, the data may be old\n");
    assert_eq!(get(port, "/healthz").status, 200);
    let text = top.port().to_string();
    client.call(&["REPLICAOF", "127.0.0.1", &text]);
    eventually("it is ready", || get(port, "/readyz").status == 200);
    assert_eq!(
        sample(&get(port, "/metrics").body, "apus_primary_link_up").to_bits(),
        1f64.to_bits()
    );
}

#[test]
fn clients_that_do_not_ask_hold_up_nobody() {
    let (server, port) = start(&[]);
    let silent: Vec<TcpStream> =
        (0..63).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
    assert_eq!(get(port, "/healthz").status, 200);
    let mut nonsense = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    nonsense.write_all(&[0xff; 4096]).expect("it is taken");
    let mut answer = Vec::new();
    let _ = nonsense.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    drop(silent);
    check(&mut server.client(), "> PING\nPONG");
}

#[test]
fn a_port_that_is_taken_keeps_the_server_from_starting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port().to_string();
    let other = free_port().to_string();
    let (status, log) = Server::refuses(&["--port", &other, "--http-port", &port]);
    assert!(!status.success());
    assert!(log.contains("Could not create server TCP listening socket"), "{log}");
}

#[test]
fn http_is_encrypted_with_the_certificates_of_the_server() {
    let authority = Authority::new();
    let own = authority.arguments(&authority.issue("localhost", None));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let encrypted = free_port();
    let text = encrypted.to_string();
    let more = ["--http-tls-port", &text, "--tls-auth-clients", "no"];
    let (server, port) = start(&[&own[..], &more].concat());
    let mut client = server.client();
    let config = authority.client_config(None);
    let get_by = |config: &Arc<ClientConfig>| get_encrypted(encrypted, config, "/metrics");
    let (answer, before) = get_by(&config).expect("it is answered");
    assert_eq!(answer.status, 200);
    assert_eq!(sample(&answer.body, "apus_connected_clients").to_bits(), 1f64.to_bits());
    assert_eq!(get(port, "/healthz").status, 200);
    assert_eq!(client.figure("tls_handshakes_full"), 1);
    // Certificates are replaced as those of other ports.
    let other = authority.issue("localhost", None);
    let [certificate, key] = [&other.certificate, &other.key].map(|it| it.display().to_string());
    let reloaded =
        client.call(&["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key]);
    assert_eq!(reloaded.as_bytes(), Some(&b"OK"[..]));
    let config = authority.client_config(None);
    let (answer, after) = get_by(&config).expect("it is answered");
    assert_eq!(answer.status, 200);
    assert_ne!(before, after);
    // Clients are asked for certificates as the directive says.
    client.call(&["CONFIG", "SET", "tls-auth-clients", "yes"]);
    assert!(get_by(&authority.client_config(None)).is_err());
    let known = authority.client_config(Some(&authority.issue("prometheus", None)));
    assert_eq!(get_by(&known).expect("it is answered").0.status, 200);
    assert!(client.figure("tls_handshakes_failed") >= 1);
    // A client that speaks plainly is told by an alert, and is no burden.
    let mut strange = TcpStream::connect(("127.0.0.1", encrypted)).expect("it listens");
    strange.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is taken");
    let mut heard = Vec::new();
    let _ = strange.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"HTTP/"), "{heard:?}");
    assert_eq!(get_by(&known).expect("it is answered").0.status, 200);
}

#[test]
fn encrypted_http_wants_a_certificate() {
    let [other, port] = [free_port(), free_port()].map(|port| port.to_string());
    let (status, log) = Server::refuses(&["--port", &other, "--http-tls-port", &port]);
    assert!(!status.success());
    assert!(log.contains("tls-cert-file"), "{log}");
}

/// A server that answers `GET /metrics` on its own port.
fn start_with_metrics_on_port(more: &[&str]) -> Server {
    Server::start(&[&["--http-metrics-on-port", "yes"], more].concat())
}

/// Says something as a client of Redis' port, and reads up to the end of the connection.
fn say_to_port(server: &Server, text: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    stream.write_all(text.as_bytes()).expect("it is taken");
    let mut heard = Vec::new();
    // A connection that is closed with bytes unread may be reset.
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8(heard).expect("a text")
}

const ASKED: &str = "GET /metrics HTTP/1.1\r\nUser-Agent: test\r\nHost: localhost\r\n";

#[test]
fn metrics_are_told_on_the_port_of_redis_where_that_is_allowed() {
    let server = start_with_metrics_on_port(&[]);
    let mut client = server.client();
    check(&mut client, "> SET a 1\nOK");
    let answer = send(server.port(), "GET", "/metrics", "", "");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    assert_eq!(sample(&answer.body, "apus_db_keys{db=\"0\"}").to_bits(), 1f64.to_bits());
    // The connection is no client any more when it is answered.
    assert_eq!(sample(&answer.body, "apus_connected_clients").to_bits(), 1f64.to_bits());
    let open =
        send(server.port(), "GET", "/metrics?a=b", "Accept: application/openmetrics-text\r\n", "");
    assert!(open.body.ends_with("# EOF\n"));
    // However the request is cut into pieces.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    for piece in ["GET /met", "rics HTTP/1.1\r\n", "Host: local", "host\r\n\r\n"] {
        stream.write_all(piece.as_bytes()).expect("it is taken");
        check(&mut client, "> PING\nPONG");
    }
    let mut heard = String::new();
    stream.read_to_string(&mut heard).expect("a text");
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
    // A key of that name is a key.
    check(&mut client, "> SET /metrics x\nOK\n> GET /metrics\n\"x\"");
    check(
        &mut client,
        "> GET /metrics HTTP/1.1\n(error) ERR wrong number of arguments for 'get' command",
    );
}

#[test]
fn nothing_else_of_http_is_answered_on_the_port_of_redis() {
    let server = start_with_metrics_on_port(&[]);
    let arity = "-ERR wrong number of arguments for 'get' command\r\n";
    let heard = say_to_port(&server, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(heard, "");
    assert_eq!(say_to_port(&server, "Host: localhost\r\nGET /metrics HTTP/1.1\r\n\r\n"), "");
    for path in ["/", "/api/info", "/healthz", "/metricsx"] {
        let text = ASKED.replace("/metrics", path).replace("User-Agent: test\r\n", "");
        assert_eq!(say_to_port(&server, &text), arity, "{path}");
    }
    // Behind a command a request is none of HTTP, nor is what follows one of HTTP.
    let heard = say_to_port(&server, &format!("PING\r\n{ASKED}\r\n"));
    assert!(heard.starts_with(&format!("+PONG\r\n{arity}")), "{heard}");
    let heard = say_to_port(&server, &format!("{ASKED}\r\nPOST /metrics HTTP/1.1\r\n\r\n"));
    assert_eq!(heard.matches("HTTP/1.1 ").count(), 1, "{heard}");
    eventually("the attempts are in the log", || {
        server.log().matches("Possible SECURITY ATTACK detected").count() >= 6
    });
}

#[test]
fn metrics_on_the_port_of_redis_are_off_unless_asked_for() {
    let server = Server::start(&[]);
    let heard = say_to_port(&server, &ASKED.replace("User-Agent: test\r\n", ""));
    assert_eq!(heard, "-ERR wrong number of arguments for 'get' command\r\n");
    check(
        &mut server.client(),
        "> CONFIG SET http-metrics-on-port yes\n\
         (error) ERR CONFIG SET failed (possibly related to argument 'http-metrics-on-port') - \
         can't set immutable config",
    );
}

#[test]
fn metrics_on_the_port_of_redis_are_for_those_who_may_run_info() {
    let server = start_with_metrics_on_port(&["--requirepass", "secret"]);
    let status = |headers: &str| send(server.port(), "GET", "/metrics", headers, "").status;
    assert_eq!(status(""), 401);
    assert_eq!(status("Authorization: Bearer wrong\r\n"), 401);
    assert_eq!(status("Authorization: Bearer secret\r\n"), 200);
}

#[test]
fn metrics_are_told_on_the_encrypted_port_of_redis() {
    let authority = Authority::new();
    let own = authority.arguments(&authority.issue("localhost", None));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let encrypted = free_port();
    let text = encrypted.to_string();
    let more = ["--tls-port", &text, "--tls-auth-clients", "no"];
    let _server = start_with_metrics_on_port(&[&own[..], &more].concat());
    let config = authority.client_config(None);
    let (answer, _) = get_encrypted(encrypted, &config, "/metrics").expect("it is answered");
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("apus_connected_clients"), "{}", answer.body);
}

/// More connections than there may be that ask for nothing, or do not read what they asked for.
#[test]
fn idle_connections_keep_nobody_out() {
    let (_server, port) = start(&[]);
    let held = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        // As much as there is room for.
        while stream.write(bytes).is_ok_and(|count| count == bytes.len() && bytes.len() > 100) {}
        stream
    };
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    for bytes in [&b""[..], b"GET / HT", &request] {
        let idle: Vec<TcpStream> = (0..80).map(|_| held(bytes)).collect();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(get(port, path).status, 200, "{path}");
        }
        drop(idle);
    }
}

#[test]
fn metrics_tell_no_names_to_other_sites() {
    let (server, port) = start(&["--usage-accounting", "yes"]);
    let mut client = server.client();
    tests::watching::say(&mut client, "ACL SETUSER someone on nopass +@all; AUTH someone x; PING");
    let tells = |headers: &str| ask(port, "GET", "/metrics", headers).body.contains("someone");
    assert!(tells("") && !tells("Host: db.example\r\n"));
    for (headers, status) in [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        ("Host: evil.example\r\n", 200),
        ("Sec-Fetch-Site: same-origin\r\n", 200),
    ] {
        assert_eq!(ask(port, "GET", "/metrics", headers).status, status, "{headers}");
    }
}
