//! What protects the server and its operator without being asked for: a way in that a flood leaves,
//! a deadline for clients that have not logged in, guesses that are answered late.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::{Client, Server, network_namespace};

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// A flood from elsewhere, which an address in a namespace of its own stands for.
#[test]
fn a_flood_from_the_network_leaves_its_operator_a_way_in() {
    const SCRIPT: &str = r#"
        ip link set lo up && ip addr add 10.77.0.1/32 dev lo || exit 1
        "$1" --port 6379 --bind 0.0.0.0 --save '' --protected-mode no \
            --maxclients 12 --maxclients-reserved 4 >/dev/null & server=$!
        for try in $(seq 200); do
            "$2" -h 127.0.0.1 ping 2>/dev/null | grep -q . && break
            sleep 0.05
        done
        # A connection that is being closed has its place for a moment more: who is refused comes
        # again.
        flood=""
        for number in $(seq 8); do
            for try in $(seq 200); do
                "$2" -h 10.77.0.1 subscribe c >flood.$number & client=$!
                for look in $(seq 200); do
                    grep -q subscribe flood.$number && flood="$flood $client" && break 2
                    kill -0 $client 2>/dev/null || break
                    sleep 0.05
                done
            done
        done
        "$2" -h 127.0.0.1 info clients | grep pubsub_clients
        "$2" -h 127.0.0.1 config resetstat
        "$2" -h 10.77.0.1 ping 2>&1; "$2" -h 127.0.0.1 ping
        "$2" -h 127.0.0.1 info stats | grep rejected_connections
        kill $flood $server; wait
    "#;
    let Some(text) = network_namespace::run(SCRIPT, &[]) else { return };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    assert_eq!(lines[..2], ["pubsub_clients:8", "OK"], "{text}");
    assert!(lines[2].contains("max number of clients reached"), "{text}");
    assert_eq!(lines[3..], ["PONG", "rejected_connections:1"], "{text}");
}

#[test]
fn a_client_that_does_not_log_in_in_time_is_closed() {
    let own = ["--requirepass", "secret", "--unauthenticated-timeout", "1"];
    let server = Server::start(&own);
    let mut admin = server.client();
    assert_eq!(admin.call(&["AUTH", "secret"]), ok());
    let (mut silent, mut chatty) = (server.client(), server.client());
    eventually("who says nothing is closed", || silent.is_closed());
    eventually("who is refused is closed, however much it says", || {
        chatty.try_call(&["PING"]).is_err()
    });
    assert!(admin.figure("client_unauthenticated_disconnections") >= 2);
    assert_eq!(admin.call(&["PING"]), Value::Simple("PONG".into()), "who is in stays");
    // Where nobody has to, nobody is late.
    assert_eq!(admin.call(&["CONFIG", "SET", "requirepass", ""]), ok());
    let before = admin.figure("client_unauthenticated_disconnections");
    let mut open = server.client();
    // The clock that closes strangers has come round.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(open.call(&["PING"]), Value::Simple("PONG".into()));
    assert_eq!(admin.figure("client_unauthenticated_disconnections"), before);
}

/// The time to log in counts from when a client began to have to.
#[test]
fn a_client_that_has_to_log_in_again_has_the_same_time_for_it() {
    let server = Server::start(&["--requirepass", "secret", "--unauthenticated-timeout", "5"]);
    let (mut admin, mut pooled) = (server.client(), server.client());
    for client in [&mut admin, &mut pooled] {
        assert_eq!(client.call(&["AUTH", "secret"]), ok());
    }
    let mut early = server.client();
    assert_eq!(admin.call(&["CONFIG", "SET", "requirepass", ""]), ok());
    assert_eq!(early.call(&["PING"]), Value::Simple("PONG".into()));
    // Both are older than the timeout then.
    std::thread::sleep(Duration::from_millis(6500));
    assert_eq!(admin.call(&["CONFIG", "SET", "requirepass", "secret"]), ok());
    assert_eq!(pooled.call(&["RESET"]), Value::Simple("RESET".into()));
    // The clock that closes strangers has come round.
    std::thread::sleep(Duration::from_millis(2500));
    for client in [&mut early, &mut pooled] {
        assert_eq!(client.call(&["AUTH", "secret"]), ok());
    }
    assert_eq!(pooled.call(&["RESET"]), Value::Simple("RESET".into()));
    eventually("who does not use it is closed", || pooled.is_closed());
}

/// H89: attempts from there, right or wrong, are answered late; nobody else is, and nobody is shut
/// out.
#[test]
fn guesses_are_answered_late_and_others_are_served() {
    let server = Server::start(&["--requirepass", "secret", "--failed-auth-delay", "60000"]);
    let log_in = |client: &mut Client| assert_eq!(client.call(&["AUTH", "secret"]), ok());
    let mut admin = server.client();
    log_in(&mut admin);
    let mut guesser = server.client();
    for _ in 0..11 {
        assert!(matches!(guesser.call(&["AUTH", "guess"]), Value::Error(_)));
    }
    assert_eq!(admin.figure("delayed_logins"), 0, "people mistype");
    // Six seconds, or more.
    let (mut wrong, mut right, mut greeter) = (server.client(), server.client(), server.client());
    wrong.send(&["AUTH", "guess"]);
    right.send(&["AUTH", "secret"]);
    right.send(&["PING"]);
    greeter.send(&["HELLO", "3", "AUTH", "default", "secret"]);
    eventually("all three wait", || admin.figure("delayed_logins") == 3);
    assert!(wrong.is_silent() && right.is_silent() && greeter.is_silent());
    assert_eq!(admin.call(&["SET", "k", "v"]), ok(), "others are served");
    // A client that does not log in is not slowed.
    assert!(matches!(guesser.call(&["PING"]), Value::Error(_)));
    assert!(matches!(guesser.call(&["HELLO", "3"]), Value::Error(_)));
    assert!(matches!(wrong.receive(), Value::Error(text) if text.starts_with(b"WRONGPASS")));
    assert_eq!((right.receive(), right.receive()), (ok(), Value::Simple("PONG".into())));
    assert!(matches!(greeter.receive(), Value::Map(_)));
    assert_eq!(admin.call(&["CONFIG", "SET", "failed-auth-delay", "0"]), ok());
    log_in(&mut server.client());
    assert_eq!(admin.figure("delayed_logins"), 3);
}

/// H89: guesses by one way make attempts by each other late, and those there count as well.
#[test]
fn every_way_in_is_slowed() {
    let [memcached, http] = [free_port(), free_port()];
    let ports = [memcached, http].map(|port| port.to_string());
    let server = Server::start(&[
        "--requirepass",
        "secret",
        "--failed-auth-delay",
        "2000",
        "--memcached-port",
        &ports[0],
        "--http-port",
        &ports[1],
    ]);
    let mut admin = server.client();
    assert_eq!(admin.call(&["AUTH", "secret"]), ok());
    let connect = |port: u16, request: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
        stream.write_all(request.as_bytes()).expect("it is taken");
        stream
    };
    let text = |token: &str| format!("set a 0 0 {}\r\n{token}\r\n", token.len());
    let bearer = |password: &str| {
        let head = "GET /api/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: ";
        format!("{head}Bearer {password}\r\n\r\n")
    };
    // Some by each way, at once; then each is answered.
    let mut guesses = Vec::new();
    for _ in 0..10 {
        guesses.push(connect(server.port(), "AUTH guess\r\n"));
        guesses.push(connect(memcached, &text("default guess")));
        guesses.push(connect(http, &bearer("guess")));
    }
    for mut guess in guesses {
        guess.read_exact(&mut [0]).expect("it is answered");
    }
    let before = admin.figure("delayed_logins");
    assert!(before > 0, "so many are no mistakes");
    // Right ones, each by a stream that begins with its answer.
    let ways = [
        (server.port(), "AUTH secret\r\n".to_owned(), "+OK\r\n"),
        (memcached, text("default secret"), "STORED\r\n"),
        (http, bearer("secret"), "HTTP/1.1 200 OK\r\n"),
    ];
    let streams = ways.map(|(port, request, answer)| (connect(port, &request), answer));
    eventually("they are late, too", || admin.figure("delayed_logins") == before + 3);
    for (mut stream, answer) in streams {
        let mut heard = vec![0; answer.len()];
        stream.read_exact(&mut heard).expect("it is answered");
        assert_eq!(String::from_utf8_lossy(&heard), answer);
    }
    // A client that does not log in is not slowed.
    let mut stream = connect(http, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.read_exact(&mut [0; 15]).expect("it is answered");
    assert_eq!(admin.figure("delayed_logins"), before + 3);
}

/// H89: a transaction is not kept waiting, and no way past the delay.
#[test]
fn guesses_within_a_transaction_are_refused_unseen() {
    let server = Server::start(&["--failed-auth-delay", "60000"]);
    let mut admin = server.client();
    admin.call(&["ACL", "SETUSER", "boss", "on", ">7", "+@all", "~*"]);
    let mut guesser = server.client();
    for _ in 0..11 {
        assert!(matches!(guesser.call(&["AUTH", "boss", "guess"]), Value::Error(_)));
    }
    guesser.call(&["MULTI"]);
    for guess in ["5", "6", "7", "8"] {
        guesser.call(&["AUTH", "boss", guess]);
    }
    guesser.call(&["HELLO", "3", "AUTH", "boss", "7"]);
    guesser.call(&["HELLO", "2"]);
    guesser.call(&["ACL", "WHOAMI"]);
    let Value::Array(replies) = guesser.call(&["EXEC"]) else { panic!("it is a list") };
    const DELAYED: &[u8] = b"ERR Logins from this address are delayed";
    let is_delayed =
        |reply: &Value| matches!(reply, Value::Error(text) if text.starts_with(DELAYED));
    assert!(replies[..5].iter().all(is_delayed), "{replies:?}");
    assert!(matches!(replies[5], Value::Array(_)), "{replies:?}");
    assert_eq!(replies[6], Value::Bulk(b"default".to_vec()));
    assert_eq!(admin.figure("delayed_logins"), 5);
}

/// A client's name takes no more of a log than a kilobyte, and counts as the client's.
#[test]
fn names_of_clients_are_cut_in_logs_and_counted() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut admin, mut client) = (server.client(), server.client());
    admin.call(&["ACL", "SETUSER", "u", "on", "nopass", "+@connection", "+client"]);
    let (name, id) = ("n".repeat(3_000_000), client.id());
    client.call(&["AUTH", "u", "x"]);
    client.call(&["CLIENT", "SETNAME", &name]);
    client.call(&["CLIENT", "SETINFO", "LIB-NAME", &name]);
    admin.call(&["SLOWLOG", "RESET"]);
    for _ in 0..20 {
        assert!(matches!(client.call(&["GET", "k"]), Value::Error(_)));
        client.call(&["PING"]);
    }
    let listed = text(&admin.call(&["CLIENT", "LIST", "ID", &id]));
    assert!(field(&listed, "tot-mem").parse::<usize>().expect("a number") > 2 * name.len());
    assert_eq!(field(&listed, "name"), name);
    for log in
        [&["ACL", "LOG"][..], &["SLOWLOG", "GET", "-1"], &["COMMANDLOG", "GET", "-1", "slow"]]
    {
        let told = render(&admin.call(log));
        let longest = told.split('"').map(str::len).max().unwrap_or_default();
        assert!((1000..4000).contains(&longest), "{log:?} keeps {longest} bytes");
    }
}
