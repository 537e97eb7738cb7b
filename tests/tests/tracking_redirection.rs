//! CLIENT TRACKING with REDIRECT: another client is told instead, and a client that was redirected
//! to none is told so, as by the real servers.

use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// A client of a protocol that has another one told instead.
fn redirected(server: &Server, protocol: &str, target: &mut Client, options: &[&str]) -> Client {
    let mut client = if protocol == "3" { server.client3() } else { server.client() };
    let id = target.id();
    let words = [&["CLIENT", "TRACKING", "ON", "REDIRECT", &id], options].concat();
    assert_eq!(render(&client.call(&words)), "OK");
    assert_eq!(render(&client.call(&["CLIENT", "GETREDIR"])), format!("(integer) {id}"));
    client
}

/// What CLIENT LIST says of a client.
fn listed(server: &Server, client: &mut Client, name: &str) -> String {
    let id = client.id();
    let list = server.client().call(&["CLIENT", "LIST", "ID", &id]);
    field(&text(&list), name).to_owned()
}

#[test]
fn another_client_may_be_told_instead() {
    for server in [Server::start(&[]), Oracle::redis70(), Oracle::redis82(), Oracle::valkey91()] {
        let (mut writer, mut target) = (server.client(), server.client());
        let mut reader = redirected(&server, "2", &mut target, &[]);
        let mut listener = server.client3();
        let mut broadcast = redirected(&server, "2", &mut listener, &["BCAST"]);
        assert_eq!(listed(&server, &mut reader, "flags"), "t");
        assert_eq!(listed(&server, &mut broadcast, "flags"), "tB");
        assert_eq!(listed(&server, &mut reader, "redir"), target.id());
        // In RESP2 it has to listen.
        reader.call(&["GET", "a"]);
        writer.call(&["SET", "a", "1"]);
        check(&mut listener, "<\n1> \"invalidate\"\n2> 1) \"a\"");
        reader.call(&["MGET", "a", "b"]);
        check(&mut target, "> SUBSCRIBE __redis__:invalidate\n...");
        writer.call(&["SET", "a", "2"]);
        check(&mut target, "<\n1) \"message\"\n2) \"__redis__:invalidate\"\n3) 1) \"a\"");
        check(&mut listener, "<\n1> \"invalidate\"\n2> 1) \"a\"");
        writer.call(&["FLUSHALL"]);
        check(&mut target, "<\n1) \"message\"\n2) \"__redis__:invalidate\"\n3) (nil)");
        check(&mut listener, "<\n1> \"invalidate\"\n2> (nil)");
        reader.call(&["GET", "a"]);
        check(&mut target, "> UNSUBSCRIBE\n...");
        writer.call(&["SET", "a", "3"]);
        check(&mut target, "> PING\nPONG");
    }
}

#[test]
fn a_client_redirected_to_one_that_is_gone_is_told_so() {
    for server in [Server::start(&[]), Oracle::redis70(), Oracle::redis82(), Oracle::valkey91()] {
        for protocol in ["2", "3"] {
            let (mut writer, mut target) = (server.client(), server.client());
            let mut reader = redirected(&server, protocol, &mut target, &[]);
            let id = target.id();
            reader.call(&["MGET", "a", "b"]);
            drop(target);
            eventually("the other one is gone", || {
                !text(&writer.call(&["CLIENT", "LIST"])).contains(&format!("id={id} "))
            });
            assert_eq!(listed(&server, &mut reader, "flags"), "t");
            writer.call(&["SET", "a", "1"]);
            if protocol == "3" {
                let expected = format!("<\n1> \"tracking-redir-broken\"\n2> (integer) {id}");
                check(&mut reader, &expected);
            }
            assert_eq!(listed(&server, &mut reader, "flags"), "tR");
            let info = render(&reader.call(&["CLIENT", "TRACKINGINFO"]));
            assert!(info.contains("broken_redirect") && info.contains(&id), "{info}");
            check(&mut reader, "> CLIENT TRACKING ON\nOK");
            assert_eq!(listed(&server, &mut reader, "flags"), "t");
            assert_eq!(listed(&server, &mut reader, "redir"), "0");
        }
    }
}
