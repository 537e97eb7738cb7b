//! CLIENT PAUSE: whom it holds, for how long, and how one gets out of it.

use std::time::{Duration, Instant};

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Oracle, Server, check, play};

/// The key is over, and counted until the pause is.
#[test]
fn nothing_expires_while_writes_are_held() {
    for server in Oracle::Redis82.beside(&[]) {
        play(
            &server,
            r#"
            > SET key value PX 20
            OK
            > CLIENT PAUSE 60000 WRITE
            OK
            counter> PFCOUNT absent
            counter<
            (silence)
            counter<
            (silence)
            counter<
            (silence)
            counter<
            (silence)
            > DBSIZE
            (integer) 1
            > CLIENT UNPAUSE
            OK
            counter<
            (integer) 0
            "#,
        );
        let mut client = server.client();
        eventually("it is removed", || render(&client.call(&["DBSIZE"])) == "(integer) 0");
    }
}

#[test]
fn a_pause_of_writes_holds_writes() {
    for server in Oracle::Redis82.beside(&[]) {
        play(
            &server,
            r#"
            > CLIENT PAUSE 60000 WRITE
            OK
            writer> SET a b
            writer<
            (silence)
            reader> GET a
            (nil)
            reader> PING
            PONG
            reader> SET
            (error) ERR wrong number of arguments for 'set' command
            > CLIENT LIST FOO
            (error) ERR syntax error
            > CLIENT UNBLOCK 1
            (integer) 0
            > CLIENT UNPAUSE
            OK
            writer<
            OK
            reader> GET a
            "b"
            "#,
        );
    }
}

/// Nor does who reads a key remove it.
#[test]
fn a_key_whose_time_is_over_is_absent_and_stays_while_writes_are_held() {
    for server in Oracle::Redis82.beside(&["--enable-debug-command", "yes"]) {
        let mut client = server.client();
        check(&mut client, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK\n> SET a b PX 20\nOK");
        check(&mut client, "> CLIENT PAUSE 60000 WRITE\nOK");
        eventually("its time is over", || render(&client.call(&["GET", "a"])) == "(nil)");
        check(
            &mut client,
            "
            > EXISTS a
            (integer) 0
            > DBSIZE
            (integer) 1
            > CLIENT UNPAUSE
            OK
            > GET a
            (nil)
            > DBSIZE
            (integer) 0
            > DEBUG SET-ACTIVE-EXPIRE 1
            OK
            ",
        );
    }
}

#[test]
fn a_pause_of_everything_ends_by_its_time() {
    for server in Oracle::Redis82.beside(&[]) {
        let (mut first, mut second) = (server.client(), server.client());
        let begun = Instant::now();
        first.call(&["CLIENT", "PAUSE", "300"]);
        second.send(&["CLIENT", "UNPAUSE"]);
        assert_eq!(text(&first.call(&["PING"])), "PONG");
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
        assert_eq!(text(&second.receive()), "OK");
    }
}

/// If it waited, its client would lose patience first.
#[test]
fn an_error_does_not_wait_for_the_end_of_a_pause() {
    for mut server in Oracle::Redis82.beside(&[]) {
        let (mut first, mut second) = (server.client(), server.client());
        first.call(&["CLIENT", "PAUSE", "1000000"]);
        assert_eq!(text(&second.call(&["FOO"])).split('\'').nth(1), Some("FOO"));
        // Who asked it how it was would wait for the end.
        server.kill();
    }
}

#[test]
fn paused_clients_can_be_killed_and_leave() {
    let server = Server::start(&[]);
    let (mut killer, mut victim) = (server.client(), server.client());
    let victim_id = victim.id();
    killer.call(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    victim.send(&["SET", "a", "b"]);
    eventually("the victim is held", || {
        field(&text(&killer.call(&["CLIENT", "LIST", "ID", &victim_id])), "flags") == "b"
    });
    assert_eq!(killer.call(&["CLIENT", "KILL", "ID", &victim_id]), Value::Integer(1));
    assert!(victim.is_closed());
    assert_eq!(text(&killer.call(&["CLIENT", "UNPAUSE"])), "OK");
    assert_eq!(killer.call(&["EXISTS", "a"]), Value::Integer(0));
}
