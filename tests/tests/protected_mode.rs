//! Protected mode: a client of another machine gets in only with a password, or if told so.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::process::Command;

use tests::environment;

/// Whether namespaces can be made here. CI's machines can, as root: there it must not go untested.
fn can_make_namespaces() -> bool {
    let made = Command::new("unshare").args(["--map-root-user", "--net", "true"]).output();
    let made = made.is_ok_and(|output| output.status.success());
    assert!(
        made || !rustix::process::geteuid().is_root(),
        "root cannot make a network namespace here (`unshare --net`): this needs CAP_SYS_ADMIN"
    );
    made
}

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
    if !can_make_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ask = |arguments: &str| {
        let output = Command::new("unshare")
            .args(["--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"])
            .args([environment::binary(), environment::recorded("redis_cli")])
            .arg(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter(|line| !line.is_empty()).map(str::to_owned);
        lines.collect::<Vec<String>>()
    };
    let denied = "Redis is running in protected mode because protected mode is enabled";
    let protected = ask("");
    assert!(protected[0].contains(denied), "{protected:?}");
    assert_eq!(protected.last().map(String::as_str), Some("PONG"), "{protected:?}");
    assert_eq!(protected.iter().filter(|line| *line == "PONG").count(), 1, "{protected:?}");
    let open = ask("--protected-mode no");
    assert_eq!(open.iter().filter(|line| *line == "PONG").count(), 3, "{open:?}");
    let with_password = ask("--requirepass secret");
    assert!(with_password[0].contains("NOAUTH"), "{with_password:?}");
    assert_eq!(with_password.iter().filter(|line| *line == "PONG").count(), 2);
}
