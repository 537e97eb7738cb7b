//! MIGRATE to targets that fail, hang or lie: a key is there, here or at the target, whatever
//! happens, and goes from here only when the target has said that it has it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tests::proxy::{Direction, Fault, Proxy};
use tests::render::render;
use tests::target::{FakeTarget, Said};
use tests::{Client, Oracle, Server, check};

const READING: &str = "(error) IOERR error or timeout reading to target instance";

/// The whole of what three keys take is no longer.
const LENGTH: u64 = 200;

fn is_thorough() -> bool {
    std::env::var("APUS_REPLICATION_CUTS").is_ok_and(|value| value == "all")
}

/// Sends three keys over a connection with this fault.
fn with_fault(source: &mut Client, target: &Server, fault: Fault, more: &[&str]) {
    check(source, "> FLUSHALL\nOK\n> MSET a 1 b 2 c 3\nOK");
    check(&mut target.client(), "> FLUSHALL\nOK");
    let proxy = Proxy::start(target.port());
    proxy.spoil_next(fault);
    let timeout = if matches!(fault, Fault::Silence(..)) { "150" } else { "60000" };
    let port = proxy.port().to_string();
    let order = ["MIGRATE", "127.0.0.1", &port, "", "0", timeout];
    let order = [&order[..], more, &["KEYS", "a", "b", "c"]].concat();
    let reply = render(&source.call(&order));
    let mut other = target.client();
    for (key, value) in [("a", "\"1\""), ("b", "\"2\""), ("c", "\"3\"")] {
        let places = [&mut *source, &mut other].map(|it| render(&it.call(&["GET", key])));
        let [here, there] = places.each_ref().map(|found| found == value);
        assert!(here || there, "{fault:?}: {key} is lost: {reply}, {places:?}");
        let is_moved = reply == "OK" && !more.contains(&"COPY");
        assert!(!is_moved || (there && !here), "{fault:?}: {key}: {reply}, {places:?}");
    }
}

#[test]
fn a_connection_that_is_cut_at_any_byte_loses_no_key() {
    let step = if is_thorough() { 1 } else { 7 };
    for more in [&[][..], &["REPLACE"]] {
        let (source, target) = (Server::start(&[]), Server::start(&[]));
        let mut client = source.client();
        for at in (0..LENGTH).step_by(step) {
            with_fault(&mut client, &target, Fault::Cut(Direction::Up, at), more);
        }
        // Four answers.
        for at in 0..=20 {
            with_fault(&mut client, &target, Fault::Cut(Direction::Down, at), more);
        }
    }
}

#[test]
fn a_connection_to_a_real_server_that_is_cut_loses_no_key() {
    for oracle in Oracle::ALL {
        let (source, target) = (Server::start(&[]), oracle.start(&[]));
        let mut client = source.client();
        for at in [0, 3, 5, 9, 14, 19, 20] {
            with_fault(&mut client, &target, Fault::Cut(Direction::Down, at), &[]);
        }
        with_fault(&mut client, &target, Fault::Cut(Direction::Up, 77), &[]);
    }
}

#[test]
fn r10_36_a_target_that_hangs_is_given_up_and_no_key_is_lost() {
    let (source, target) = (Server::start(&[]), Server::start(&[]));
    let mut client = source.client();
    for at in [0, 4, 7, 12] {
        with_fault(&mut client, &target, Fault::Silence(Direction::Down, at), &[]);
    }
    for at in [0, 10, 40, 100] {
        with_fault(&mut client, &target, Fault::Silence(Direction::Up, at), &["REPLACE"]);
    }
}

/// H13: whatever a target says, only `+` is a yes, and nothing that it announces is waited for or
/// made room for.
#[test]
fn h13_a_hostile_target_is_believed_nothing() {
    let source = Server::start(&[]);
    let mut client = source.client();
    for said in [
        "$1000000000\r\n",
        "*1000000000\r\n",
        "$-1\r\n",
        ":1\r\n",
        "_\r\n",
        "HTTP/1.1 200 OK\r\n",
        "\r\n",
        "+OK\n",
        "OK\r\n",
        "\0\r\n",
    ] {
        for hostile in [&b"SELECT"[..], b"RESTORE"] {
            let target = FakeTarget::start(move |_, request| match *request[0] == *hostile {
                true => Said::Bytes(said.into()),
                false => Said::ok(),
            });
            check(&mut client, "> SET k v\nOK");
            let port = target.port().to_string();
            let order = ["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"];
            assert_eq!(render(&client.call(&order)), READING, "{said:?}");
            check(&mut client, "> GET k\n\"v\"");
            assert_eq!(client.figure("migrate_cached_sockets"), 0, "{said:?}");
        }
    }
}

#[test]
fn h13_an_answer_without_end_is_not_kept() {
    let source = Server::start(&[]);
    let mut client = source.client();
    let before = source.resident();
    for mark in ["+", "-"] {
        let target = FakeTarget::start(move |_, request| match &*request[0] {
            b"RESTORE" => Said::Bytes([mark.as_bytes(), &vec![b'x'; 200 << 20]].concat()),
            _ => Said::ok(),
        });
        check(&mut client, "> SET k v\nOK");
        let port = target.port().to_string();
        let order = ["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"];
        assert_eq!(render(&client.call(&order)), READING);
        check(&mut client, "> GET k\n\"v\"");
    }
    let grown = source.resident().saturating_sub(before);
    assert!(grown < 50 << 20, "{grown} bytes");
}

#[test]
fn an_error_of_the_target_is_one_line_of_the_reply() {
    let source = Server::start(&[]);
    let mut client = source.client();
    for (line, shown) in [
        ("-OOM command not allowed", "OOM command not allowed"),
        ("-", ""),
        ("-ERR a\rb\tc\0d", "ERR a b c d"),
    ] {
        let target = FakeTarget::of_lines(&[line]);
        check(&mut client, "> SET k v\nOK");
        let port = target.port().to_string();
        client.send(&["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"]);
        let expected = format!("-ERR Target instance replied with error: {shown}\r\n");
        let said = client.receive_raw(expected.len());
        assert_eq!(String::from_utf8_lossy(&said), expected);
        check(&mut client, "> GET k\n\"v\"");
    }
}

/// An answer that nobody asked for would be taken for that to the next key.
#[test]
fn answers_too_many_are_for_no_later_key() {
    let source = Server::start(&[]);
    let mut client = source.client();
    let count = AtomicUsize::new(0);
    let target = FakeTarget::start(move |_, request| match &*request[0] {
        b"RESTORE" if count.fetch_add(1, Ordering::Relaxed) == 0 => {
            Said::Bytes(b"+OK\r\n+OK\r\n+OK\r\n".to_vec())
        }
        b"RESTORE" => Said::line("-ERR no"),
        _ => Said::ok(),
    });
    check(&mut client, "> MSET a 1 b 2\nOK");
    let port = target.port().to_string();
    let mut order =
        |key: &str| render(&client.call(&["MIGRATE", "127.0.0.1", &port, key, "0", "60000"]));
    assert_eq!(order("a"), "OK");
    assert_eq!(order("b"), "(error) ERR Target instance replied with error: ERR no");
    check(&mut client, "> KEYS *\n1) \"b\"");
    assert_eq!(target.accepted(), 2);
}

/// Where AUTH or SELECT fails, a key would come to where it does not belong.
#[test]
fn no_key_is_sent_before_the_target_has_let_us_in() {
    let source = Server::start(&[]);
    let mut client = source.client();
    for refused in [&b"AUTH"[..], b"SELECT"] {
        let target = FakeTarget::start(move |_, request| match *request[0] == *refused {
            true => Said::line("-ERR not for you"),
            false => Said::ok(),
        });
        check(&mut client, "> SET k v\nOK");
        let port = target.port().to_string();
        let order = ["MIGRATE", "127.0.0.1", &port, "k", "2", "60000", "AUTH2", "me", "secret"];
        let said = "(error) ERR Target instance replied with error: ERR not for you";
        assert_eq!(render(&client.call(&order)), said);
        assert_eq!(target.heard(), ["AUTH me secret", "SELECT 2"]);
        check(&mut client, "> GET k\n\"v\"");
    }
}
