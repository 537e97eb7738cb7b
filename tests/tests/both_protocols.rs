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
