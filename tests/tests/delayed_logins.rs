//! Logins from an address where many have failed: the verdict is late, not only its words, so no
//! figure and no effect tells a right password from a wrong one before.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::render::text;
use tests::server::{eventually, free_port};
use tests::{Client, Server};

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// A connection that has sent this.
fn sent(port: u16, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    stream.write_all(request.as_bytes()).expect("it is taken");
    stream
}

/// Whether its answer begins so.
fn is_answered(mut stream: TcpStream, beginning: &str) -> bool {
    let mut heard = vec![0; beginning.len()];
    stream.read_exact(&mut heard).expect("it is answered");
    heard == beginning.as_bytes()
}

/// Eleven failures: the next attempt waits for a tenth of the longest delay.
fn fail(server: &Server) {
    let mut guesser = server.client();
    for _ in 0..11 {
        assert!(matches!(guesser.call(&["AUTH", "boss", "guess"]), Value::Error(_)));
    }
}

/// What somebody who sees the figures, and all effects, knows of others.
fn seen(admin: &mut Client) -> [String; 4] {
    let list = text(&admin.call(&["CLIENT", "LIST"]));
    [
        list.contains("user=boss").to_string(),
        admin.info("acl_access_denied_auth"),
        format!("{:?}", admin.call(&["DBSIZE"])),
        admin.info("total_error_replies"),
    ]
}

/// H89: by each way in.
#[test]
fn a_password_is_not_looked_at_before_its_time() {
    let [memcached, http] = [free_port(), free_port()];
    let ports = [memcached, http].map(|port| port.to_string());
    let server = Server::start(&[
        "--requirepass",
        "secret",
        "--failed-auth-delay",
        "40000",
        "--slowlog-log-slower-than",
        "2000000",
        "--http-commands",
        "all",
        "--memcached-port",
        &ports[0],
        "--http-port",
        &ports[1],
    ]);
    let mut admin = server.client();
    assert_eq!(admin.call(&["AUTH", "secret"]), ok());
    admin.call(&["ACL", "SETUSER", "boss", "on", ">7", "+@all", "~*"]);
    fail(&server);
    let before = seen(&mut admin);
    let text = |token: &str| format!("set a 0 0 {}\r\n{token}\r\n", token.len());
    let post = |password: &str, line: &str| {
        let length = line.len();
        format!(
            "POST /api/command?db=0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
             Content-Length: {length}\r\nAuthorization: Basic {password}\r\n\r\n{line}"
        )
    };
    // boss:7 and boss:8
    let right = [
        (server.port(), "AUTH boss 7\r\nSET resp 1\r\n".to_owned(), "+OK\r\n+OK\r\n"),
        (server.port(), "HELLO 2 AUTH boss 7\r\nSET hello 1\r\n".to_owned(), "*"),
        (memcached, text("boss 7") + "set text 0 0 1\r\n1\r\n", "STORED\r\nSTORED\r\n"),
        (http, post("Ym9zczo3", "SET http 1"), "HTTP/1.1 200 OK\r\n"),
    ];
    let wrong = [
        (server.port(), "AUTH boss 8\r\nSET other 1\r\n".to_owned(), "-WRONGPASS"),
        (memcached, text("boss 8"), "CLIENT_ERROR"),
        (http, post("Ym9zczo4", "SET other 1"), "HTTP/1.1 401 Unauthorized\r\n"),
    ];
    let attempts: Vec<_> = right.into_iter().chain(wrong).collect();
    let count = attempts.len();
    let streams: Vec<_> = attempts
        .into_iter()
        .map(|(port, request, answer)| (sent(port, &request), answer))
        .collect();
    eventually("all of them wait", || admin.figure("delayed_logins") == count as i64);
    assert_eq!(seen(&mut admin), before, "nobody has looked at a password");
    assert_eq!(admin.call(&["EXISTS", "resp", "hello", "text", "http"]), Value::Integer(0));
    for (stream, answer) in streams {
        assert!(is_answered(stream, answer), "{answer}");
    }
    let all = admin.call(&["EXISTS", "resp", "hello", "text", "http"]);
    assert_eq!(all, Value::Integer(4), "what stood behind the right ones is done");
    assert_eq!(admin.call(&["EXISTS", "other"]), Value::Integer(0));
    // The failures before, and the three.
    assert_eq!(admin.figure("acl_access_denied_auth"), 14);
    assert_eq!(admin.call(&["SLOWLOG", "LEN"]), Value::Integer(0), "a wait is no work");
}

/// A wait is nobody's work: a user's quota of time is left as it was.
#[test]
fn a_late_login_costs_its_user_no_time() {
    let quota = "u cpu-microseconds 500000/60";
    let server = Server::start(&["--failed-auth-delay", "20000", "--user-quota", quota]);
    let mut admin = server.client();
    for name in ["u", "boss"] {
        admin.call(&["ACL", "SETUSER", name, "on", ">7", "+@all", "~*"]);
    }
    fail(&server);
    let mut late = server.client();
    // Two seconds.
    assert_eq!(late.call(&["AUTH", "u", "7"]), ok());
    assert_eq!(admin.figure("delayed_logins"), 1);
    assert_eq!(late.call(&["SET", "k", "v"]), ok(), "the quota is not used up");
}
