//! What protects the server and its operator without being asked for: a way in that a flood leaves,
//! a deadline for those who have not said who they are, guesses that are answered late.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::process::Command;

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Server, environment};

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
        flood=""
        for number in $(seq 8); do
            "$2" -h 10.77.0.1 subscribe c >/dev/null & flood="$flood $!"
        done
        for try in $(seq 200); do
            "$2" -h 127.0.0.1 info clients | grep -q pubsub_clients:8 && break
            sleep 0.05
        done
        "$2" -h 10.77.0.1 ping 2>&1; "$2" -h 127.0.0.1 ping
        "$2" -h 127.0.0.1 info stats | grep rejected_connections
        kill $flood $server; wait
    "#;
    let made = Command::new("unshare").args(["--map-root-user", "--net", "true"]).output();
    let made = made.is_ok_and(|output| output.status.success());
    assert!(made || !rustix::process::geteuid().is_root(), "root cannot `unshare --net` here");
    if !made {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"])
        .args([environment::binary(), environment::recorded("redis_cli")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!(lines[0].contains("max number of clients reached"), "{text}");
    assert_eq!(lines[1], "PONG", "{text}");
    assert!(lines[2].trim_end() == "rejected_connections:1", "{text}");
}

#[test]
fn who_does_not_say_in_time_who_it_is_is_closed() {
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

/// Attempts from there, right or wrong, are answered late; nobody else is, and nobody is shut out.
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
    // Who does not log in is not slowed.
    assert!(matches!(guesser.call(&["PING"]), Value::Error(_)));
    assert!(matches!(guesser.call(&["HELLO", "3"]), Value::Error(_)));
    assert!(matches!(wrong.receive(), Value::Error(text) if text.starts_with(b"WRONGPASS")));
    assert_eq!((right.receive(), right.receive()), (ok(), Value::Simple("PONG".into())));
    assert!(matches!(greeter.receive(), Value::Map(_)));
    assert_eq!(admin.call(&["CONFIG", "SET", "failed-auth-delay", "0"]), ok());
    log_in(&mut server.client());
    assert_eq!(admin.figure("delayed_logins"), 3);
}
