//! What the other files show in RESP2 holds in RESP3 too, and the other way round.

use tests::render::render;
use tests::script::afresh;
use tests::{Client, Server, check};

fn both(server: &Server) -> [Client; 2] {
    [server.client(), server.client3()]
}

#[test]
fn replies_can_be_left_out() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        client.send(&["CLIENT", "REPLY", "SKIP"]);
        client.send(&["ECHO", "skipped"]);
        client.send(&["ECHO", "seen"]);
        assert_eq!(render(&client.receive()), "\"seen\"");
        client.send(&["CLIENT", "REPLY", "OFF"]);
        client.send(&["ECHO", "unheard"]);
        client.send(&["CLIENT", "REPLY", "ON"]);
        assert_eq!(render(&client.receive()), "OK");
    }
}

#[test]
fn each_filter_chooses_clients() {
    let server = Server::start(&["--maxclients", "100"]);
    for mut client in both(&server) {
        client.call(&["CLIENT", "SETNAME", "me"]);
        client.call(&["CLIENT", "SETINFO", "LIB-NAME", "mylib"]);
        client.call(&["CLIENT", "SETINFO", "LIB-VER", "1.2"]);
        let id = render(&client.call(&["CLIENT", "ID"])).replace("(integer) ", "");
        let lists_me = |client: &mut Client, filter: &[&str]| {
            let words = [&["CLIENT", "LIST", "ID", &id], filter].concat();
            render(&client.call(&words)).contains("name=me")
        };
        let chosen: [&[&str]; 9] = [
            &["TYPE", "NORMAL"],
            &["USER", "default"],
            &["NAME", "me"],
            &["LIB-NAME", "mylib"],
            &["LIB-VER", "1.2"],
            &["DB", "0"],
            &["IP", "127.0.0.1"],
            &["FLAGS", "N"],
            &["SKIPME", "NO"],
        ];
        for filter in chosen {
            assert!(lists_me(&mut client, filter), "{filter:?}");
        }
        let refused: [&[&str]; 7] = [
            &["ADDR", "127.0.0.1:1"],
            &["LADDR", "127.0.0.1:1"],
            &["NAME", "you"],
            &["MAXAGE", "1000"],
            &["IDLE", "1000"],
            &["SKIPME", "YES"],
            &["TYPE", "PUBSUB"],
        ];
        for filter in refused {
            assert!(!lists_me(&mut client, filter), "{filter:?}");
        }
    }
}

/// Valkey's negations, on LIST and on KILL: the clients that are left are told in one protocol as
/// in the other.
#[test]
fn each_filter_can_be_turned_round() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        let own = client.id().clone();
        client.call(&["CLIENT", "SETNAME", "me"]);
        let mut other = server.client();
        let theirs = other.id().clone();
        other.call(&["SELECT", "3"]);
        other.call(&["CLIENT", "SETNAME", "other"]);
        other.call(&["CLIENT", "SETINFO", "LIB-NAME", "lib"]);
        other.call(&["CLIENT", "SETINFO", "LIB-VER", "1.2"]);
        other.call(&["CLIENT", "NO-EVICT", "on"]);
        other.call(&["CLIENT", "CAPA", "redirect"]);
        let admits_all: [&[&str]; 7] = [
            &["NOT-ADDR", "x", "NOT-LADDR", "x"],
            &["NOT-IP", "::1"],
            &["NOT-TYPE", "PUBSUB"],
            &["NOT-TYPE", "MASTER"],
            &["NOT-TYPE", "REPLICA"],
            &["NOT-TYPE", "SLAVE"],
            &["IP", "127.0.0.1"],
        ];
        let leaves_them_out: [&[&str]; 6] = [
            &["NOT-NAME", "other"],
            &["NOT-FLAGS", "e"],
            &["NOT-LIB-NAME", "lib"],
            &["NOT-LIB-VER", "1.2"],
            &["NOT-DB", "3"],
            &["NOT-CAPA", "r"],
        ];
        let takes_them: [&[&str]; 4] =
            [&["FLAGS", "e"], &["LIB-NAME", "lib", "LIB-VER", "1.2"], &["DB", "3"], &["CAPA", "r"]];
        let takes_none: [&[&str]; 4] = [
            &["NOT-USER", "default"],
            &["NOT-TYPE", "NORMAL"],
            &["TYPE", "PRIMARY"],
            &["IDLE", "100000"],
        ];
        let mut listed = |filter: &[&str]| {
            let words = [&["CLIENT", "LIST", "ID", &own, &theirs], filter].concat();
            let lines = render(&client.call(&words));
            [lines.contains("name=me"), lines.contains("name=other")]
        };
        for filter in admits_all {
            assert_eq!(listed(filter), [true, true], "{filter:?}");
        }
        for filter in leaves_them_out {
            assert_eq!(listed(filter), [true, false], "{filter:?}");
        }
        for filter in takes_them {
            assert_eq!(listed(filter), [false, true], "{filter:?}");
        }
        for filter in takes_none {
            assert_eq!(listed(filter), [false, false], "{filter:?}");
        }
        assert_eq!(listed(&["NOT-ID", &theirs]), [true, false]);
        let mut killed = |filter: &[&str]| {
            let words = [&["CLIENT", "KILL", "ID", &theirs, "SKIPME", "NO"], filter].concat();
            render(&client.call(&words))
        };
        for filter in leaves_them_out.into_iter().chain(takes_none) {
            assert_eq!(killed(filter), "(integer) 0", "{filter:?}");
        }
        assert_eq!(killed(&["NOT-ID", &theirs]), "(integer) 0");
        let name = ["NAME", "other"];
        let all = admits_all.into_iter().chain(takes_them).chain([name.as_slice()]);
        assert_eq!(killed(&all.flatten().copied().collect::<Vec<_>>()), "(integer) 1");
        assert!(other.is_closed());
    }
}

#[test]
fn what_is_sticky_is_told() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        check(
            &mut client,
            r#"
            > SET k v
            OK
            > STICK k nosuch
            (integer) 1
            > STICK k
            (integer) 0
            > UNSTICK k nosuch
            (integer) 1
            > UNSTICK k
            (integer) 0
            "#,
        );
    }
}

#[test]
fn scripts_are_forgotten_at_once_and_never_debugged() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        check(
            &mut client,
            r#"
            > SCRIPT LOAD "return 1"
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
            > SCRIPT FLUSH SYNC
            OK
            > SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
            1) (integer) 0
            > SCRIPT DEBUG SYNC
            (error) ERR There is no debugger of scripts here: SCRIPT DEBUG takes NO only
            "#,
        );
    }
}

#[test]
fn the_server_tells_about_itself() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        check(
            &mut client,
            r#"
            > MODULE LIST
            (empty array)
            > CLIENT MAINT_NOTIFICATIONS OFF
            OK
            > CLIENT MAINT_NOTIFICATIONS ON MOVING-ENDPOINT-TYPE internal-ip
            (error) ERR Maintenance notifications are not supported
            "#,
        );
        assert!(render(&client.call(&["INFO", "server"])).contains("server_name:apus"));
    }
}

#[test]
fn a_watcher_sees_what_others_do() {
    let server = Server::start(&[]);
    for mut watcher in both(&server) {
        let mut other = server.client();
        assert_eq!(render(&watcher.call(&["MONITOR"])), "OK");
        other.call(&["ECHO", "watched"]);
        assert!(render(&watcher.receive()).ends_with("\"ECHO\" \"watched\""));
    }
}

#[test]
fn a_client_can_leave() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        assert_eq!(render(&client.call(&["QUIT"])), "OK");
        assert_eq!(client.receive_to_close(), b"");
    }
}

#[test]
fn a_client_can_end_the_server() {
    for words in [
        ["SHUTDOWN", "NOSAVE", "NOW", "FORCE"].as_slice(),
        ["SHUTDOWN", "SAVE", "FORCE"].as_slice(),
    ] {
        for protocol in [2, 3] {
            let server = Server::start(&[]);
            let mut client = if protocol == 2 { server.client() } else { server.client3() };
            let abort = render(&client.call(&["SHUTDOWN", "ABORT"]));
            assert_eq!(abort, "(error) ERR No shutdown in progress.");
            client.send(words);
            assert_eq!(client.receive_to_close(), b"");
            assert!(server.wait().success());
        }
    }
}

#[test]
fn a_hyperloglog_tests_itself() {
    let server = Server::start(&[]);
    for mut client in both(&server) {
        check(&mut client, "> PFSELFTEST\nOK");
    }
}

#[test]
fn conditions_and_orders_are_told_alike() {
    let server = Server::start(&[]);
    let script = r#"
        > ZADD z 1 a
        (integer) 1
        > ZEXPIRE z 100 XX MEMBERS 1 a
        1) (integer) 0
        > ZEXPIRE z 100 NX MEMBERS 1 a
        1) (integer) 1
        > ZEXPIRE z 50 GT MEMBERS 1 a
        1) (integer) 0
        > ZEXPIRE z 50 LT MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIRE z 900000 XX MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIRE z 900001 GT MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIRE z 900002 LT MEMBERS 1 a
        1) (integer) 0
        > ZEXPIREAT z 4000000000 XX MEMBERS 1 a
        1) (integer) 1
        > ZEXPIREAT z 4000000001 NX MEMBERS 1 a
        1) (integer) 0
        > ZEXPIREAT z 3900000000 LT MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIREAT z 4000000000000 GT MEMBERS 1 a
        1) (integer) 1
        > ZPEXPIREAT z 4000000000000 NX MEMBERS 1 a
        1) (integer) 0
        > RPUSH l 3 1 2
        (integer) 3
        > SORT_RO l GET # ASC ALPHA
        1) "1"
        2) "2"
        3) "3"
        > SORT_RO l BY nosort LIMIT 0 1
        1) "3"
    "#;
    for protocol in ["2", "3"] {
        afresh(&server, protocol, script);
    }
}
