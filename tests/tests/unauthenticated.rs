//! A client that has not said the password: what it may ask, on which transport whatever, what it
//! may cost, and that nobody learns the password by watching.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::client::field;
use tests::render::text;
use tests::server::free_port;
use tests::{Client, Duel, Oracle, Server, check};

/// A client that did not log in: unknown names first, then arity, then protection, then NOAUTH.
const UNKNOWN_CLIENT: &str = r#"
    FOO
    GET
    GET a
    PING
    CLIENT
    CLIENT FOO
    CLIENT ID
    CLIENT ID x
    HELLO
    HELLO 3
    HELLO 4
    HELLO 2 SETNAME foo
    HELLO 3 AUTH default bar
    HELLO 3 AUTH default secret SETNAME "a b"
    PING
    COMMAND COUNT
    DEBUG
    DEBUG SLEEP 0
    MODULE LOAD x
    CLUSTER INFO
    RESET
    AUTH bar
    AUTH secre
    AUTH secret1
    AUTH ""
    AUTH nobody secret
    AUTH Default secret
    PING
    AUTH secret
    PING
    ACL LIST
    ACL GETUSER default
    RESET
    PING
    AUTH default secret
    PING
"#;

#[test]
fn a_password_keeps_strangers_out() {
    let [ours, theirs] = Oracle::Redis82.beside(&["--requirepass", "secret"]);
    Duel::new(ours.client(), theirs.client(), 0).run_lines(UNKNOWN_CLIENT);
}

/// H88: no watcher learns a password, whatever command carries it and whatever it is called.
#[test]
fn watchers_see_no_passwords() {
    let server = Server::start(&[
        "--requirepass",
        "secret",
        "--slowlog-log-slower-than",
        "0",
        "--rename-command",
        "AUTH",
        "LOGIN",
    ]);
    let (mut watcher, mut client) = (server.client(), server.client());
    watcher.call(&["LOGIN", "secret"]);
    assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
    let requests: &[&[&str]] = &[
        &["LOGIN", "default", "secret"],
        &["LOGIN", "secre7"],
        &["HELLO", "2", "auth", "default", "secret", "SETNAME", "me"],
        &["CONFIG", "SET", "requirepass", "secret", "masterauth", "secret"],
        &["ACL", "SETUSER", "default", ">secret"],
        &["ECHO", "the end"],
    ];
    for request in requests {
        client.call(request);
    }
    let seen: Vec<String> = std::iter::from_fn(|| {
        let line = text(&watcher.receive());
        (!line.contains("the end")).then_some(line)
    })
    .collect();
    let tails: Vec<&str> = seen.iter().filter_map(|line| line.split("] ").nth(1)).collect();
    assert_eq!(
        tails,
        [
            r#""LOGIN" "(redacted)" "(redacted)""#,
            r#""LOGIN" "(redacted)""#,
            r#""HELLO" "2" "auth" "(redacted)" "(redacted)" "SETNAME" "me""#,
        ]
    );
    let slow = format!("{:?}", client.call(&["SLOWLOG", "GET", "100"]));
    let secret = format!("{:?}", Value::Bulk(b"secret".to_vec()));
    assert!(slow.contains("Bulk") && !slow.contains(&secret), "{slow}");
}

/// H86: a Unix socket asks for the password like any other, and its file has the rights asked for.
#[test]
fn a_unix_socket_is_no_back_door() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let shown = path.display().to_string();
    let port = free_port().to_string();
    let server = Server::start(&[
        "--port",
        &port,
        "--requirepass",
        "secret",
        "--unixsocket",
        &shown,
        "--unixsocketperm",
        "700",
    ]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut client = Client::connect_unix(&path);
    check(
        &mut client,
        r#"
        > GET a
        (error) NOAUTH Authentication required.
        > CLIENT LIST
        (error) NOAUTH Authentication required.
        > MODULE LOAD x
        ~ (error) ERR MODULE command not allowed. If the enable-module-command option is *
        > AUTH wrong
        (error) WRONGPASS invalid username-password pair or user is disabled.
        > AUTH secret
        OK
        > GET a
        (nil)
        "#,
    );
    let line = text(&client.call(&["CLIENT", "INFO"]));
    assert_eq!(field(&line, "addr"), format!("{shown}:0"));
    assert_eq!(field(&line, "laddr"), format!("{shown}:0"));
    assert_eq!(field(&line, "flags"), "U");
    let killed = server.client().call(&["AUTH", "secret"]);
    assert_eq!(text(&killed), "OK");
    assert_eq!(text(&client.call(&["CLIENT", "KILL", &format!("{shown}:0")])), "OK");
    assert!(client.is_closed());
}

/// H01: lengths that strangers declare cost nothing.
#[test]
fn strangers_declare_lengths_in_vain() {
    let server = Server::start(&["--requirepass", "secret"]);
    let before = server.resident();
    let headers: &[(&str, &str)] = &[
        ("*1000000\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*1\r\n$536870912\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        ("*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ];
    for (header, error) in headers {
        for _ in 0..50 {
            let mut client = server.client();
            client.send_raw(header.as_bytes());
            let reply = client.receive_to_close();
            assert_eq!(String::from_utf8_lossy(&reply), *error, "{header:?}");
        }
    }
    // What is allowed, announced and never sent.
    let waiting: Vec<Client> = (0..500)
        .map(|_| {
            let mut client = server.client();
            client.send_raw(b"*10\r\n$16384\r\n");
            client
        })
        .collect();
    let mut client = server.client();
    assert_eq!(text(&client.call(&["AUTH", "secret"])), "OK");
    drop(waiting);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for headers alone");
}

/// H03: a client that floods without reading is not read from any more, and costs a bounded sum.
#[test]
fn a_stranger_who_never_reads_is_bounded() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut client = server.client();
    assert_eq!(text(&client.call(&["AUTH", "secret"])), "OK");
    let before = server.resident();
    let mut flood = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    flood.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let requests = b"PING\r\n".repeat(10_000);
    let mut sent = 0;
    while sent < 256 << 20 {
        match flood.write(&requests) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(_) => break,
        }
    }
    assert!(sent < 256 << 20, "the server reads on for ever");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for one stranger");
    assert_eq!(text(&client.call(&["PING"])), "PONG");
}
