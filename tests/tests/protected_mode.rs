//! Protected mode: a client of another machine gets in only with a password, or if told so.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::network_namespace;

/// A client that comes from elsewhere: from an address of a network namespace of its own, in which
/// the server listens on all addresses, so nobody outside can reach it.
#[test]
fn protected_mode_turns_strangers_away() {
    /// Starts a server with the arguments `$3`; asks it as a stranger and as a neighbour.
    const SCRIPT: &str = r#"
        ip link set lo up && ip addr add 10.77.0.1/32 dev lo || exit 1
        "$1" --port 6379 --bind 0.0.0.0 --save '' $3 >/dev/null & server=$!
        for try in $(seq 200); do
            "$2" -h 127.0.0.1 ping 2>/dev/null | grep -q . && break
            sleep 0.05
        done
        "$2" -h 10.77.0.1 ping; "$2" -h 10.77.0.1 -a secret --no-auth-warning ping
        "$2" -h 127.0.0.1 -a secret --no-auth-warning ping
        kill $server; wait $server
    "#;
    let ask = |arguments: &str| {
        let text = network_namespace::run(SCRIPT, &[arguments])?;
        let lines = text.lines().filter(|line| !line.is_empty()).map(str::to_owned);
        Some(lines.collect::<Vec<String>>())
    };
    let denied = "Redis is running in protected mode because protected mode is enabled";
    let Some(protected) = ask("") else { return };
    assert!(protected[0].contains(denied), "{protected:?}");
    assert_eq!(protected.last().map(String::as_str), Some("PONG"), "{protected:?}");
    assert_eq!(protected.iter().filter(|line| *line == "PONG").count(), 1, "{protected:?}");
    let open = ask("--protected-mode no").unwrap();
    assert_eq!(open.iter().filter(|line| *line == "PONG").count(), 3, "{open:?}");
    let with_password = ask("--requirepass secret").unwrap();
    assert!(with_password[0].contains("NOAUTH"), "{with_password:?}");
    assert_eq!(with_password.iter().filter(|line| *line == "PONG").count(), 2);
}
