//! Rights that are withdrawn while a session waits, or while its replies do: what was asked before
//! and comes to its turn afterwards is asked for its rights again.

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

use super::{
    MEGABYTE, ask, deaf_subscriber, eventually_runs, fill, is_gone, is_silent, line_of, send,
    start, stop_world, unsent,
};

fn logged_in(server: &Server, user: &str) -> Client {
    let mut client = server.client();
    assert_eq!(ask(&mut client, &format!("AUTH {user} secret")), "OK");
    client
}

#[test]
fn a_waiter_without_rights_takes_nothing_though_replies_wait() {
    let server = start(&[]);
    let mut admin = server.client();
    for change in ["ACL DELUSER u", "ACL SETUSER u -blpop", "ACL SETUSER u resetkeys"] {
        assert_eq!(ask(&mut admin, "ACL SETUSER u on >secret ~* &* +@all"), "OK");
        let (mut waiter, id) = deaf_subscriber(&server);
        send(&mut waiter, "AUTH u secret");
        waiter.receive();
        send(&mut waiter, "BLPOP q 0");
        eventually("it waits", || field(&line_of(&mut admin, &id), "flags").contains('b'));
        fill(&mut admin, &id);
        // A client that is told that the rights are gone may rely on it.
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let replies = admin.pipeline(&[words(change), words("RPUSH q e"), words("LLEN q")]);
        assert_eq!(render(&replies[2]), "(integer) 1", "{change}");
        assert_eq!(ask(&mut admin, "DEL q"), "(integer) 1");
    }
}

/// Until a session has looked whether its client may wait on, nobody serves it; then it is served.
#[test]
fn a_waiter_that_may_wait_on_is_served() {
    let server = start(&["--worker-threads", "2"]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER u on >secret ~* +@all"), "OK");
    for (request, served) in [
        ("BLPOP q 0", "1) \"q\"\n2) \"e\""),
        ("BLMOVE q dst LEFT RIGHT 0", "\"e\""),
        ("BLMPOP 0 2 p q LEFT", "1) \"q\"\n2) 1) \"e\""),
    ] {
        for _ in 0..50 {
            let mut waiter = logged_in(&server, "u");
            let id = waiter.id();
            send(&mut waiter, request);
            eventually("it waits", || field(&line_of(&mut admin, &id), "flags").contains('b'));
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let replies = admin.pipeline(&[words("ACL SETUSER u +get"), words("RPUSH q e")]);
            assert_eq!(render(&replies[1]), "(integer) 1");
            assert_eq!(render(&waiter.receive()), served, "{request}");
            assert_eq!(ask(&mut admin, "LLEN q"), "(integer) 0");
        }
    }
}

#[test]
fn a_listener_without_rights_gets_nothing_that_waits() {
    for (listen, change) in [
        ("SUBSCRIBE ch", "ACL SETUSER u resetchannels"),
        ("SUBSCRIBE ch", "ACL DELUSER u"),
        ("MONITOR", "ACL DELUSER u"),
        ("CLIENT TRACKING ON BCAST", "ACL DELUSER u"),
    ] {
        let server = start(&[]);
        let mut admin = server.client();
        assert_eq!(ask(&mut admin, "ACL SETUSER u on >secret ~* &* +@all"), "OK");
        let mut deaf = server.client3();
        assert_eq!(ask(&mut deaf, "AUTH u secret"), "OK");
        let id = deaf.id();
        send(&mut deaf, listen);
        deaf.receive();
        let long = "m".repeat(MEGABYTE);
        eventually("much waits", || {
            admin.call(&["PUBLISH", "ch", &long]);
            admin.call(&["SET", &long, "v"]);
            unsent(&mut admin, &id) > 2 * MEGABYTE
        });
        assert_eq!(
            ask(&mut admin, change).split(' ').next_back(),
            Some(match change {
                "ACL DELUSER u" => "1",
                _ => "OK",
            })
        );
        eventually("it is gone", || is_gone(&mut admin, &id));
    }
}

/// Of so many names a request is done in steps: that is one moment to others all the same.
#[test]
fn rights_that_go_in_the_middle_of_a_long_request_are_gone() {
    const NAMES: usize = 100_000;
    let is_none = |count: &str| count.ends_with("(integer) 0");
    for server in [start(&[]), Oracle::redis82()] {
        let mut admin = server.client();
        for (command, begun, publish) in [
            ("SUBSCRIBE", "PUBSUB NUMSUB a:*", "PUBLISH"),
            ("SSUBSCRIBE", "PUBSUB SHARDNUMSUB a:*", "SPUBLISH"),
            ("PSUBSCRIBE", "PUBSUB NUMPAT", "PUBLISH"),
        ] {
            for (change, stays) in [
                ("ACL SETUSER u resetchannels &a:*", false),
                ("ACL DELUSER u", false),
                ("ACL SETUSER u nocommands resetchannels &secret &a:*", true),
            ] {
                let rules = "ACL SETUSER u reset on >secret ~* &* +@all";
                assert_eq!(ask(&mut admin, rules), "OK");
                let mut client = logged_in(&server, "u");
                let names = [vec!["a:*"; NAMES], vec!["secret"]].concat();
                client.send(&[vec![command], names].concat());
                eventually("it has begun", || !is_none(&ask(&mut admin, begun)));
                ask(&mut admin, change);
                if stays {
                    (0..=NAMES).for_each(|_| _ = client.receive());
                } else {
                    client.receive_to_close();
                }
                let heard = ask(&mut admin, &format!("{publish} secret m"));
                assert_eq!(heard, format!("(integer) {}", u8::from(stays)), "{command}, {change}");
                drop(client);
                eventually("it is gone", || is_none(&ask(&mut admin, begun)));
            }
        }
    }
}

/// A client that takes its own rights away is told so, and is gone then.
#[test]
fn a_client_that_deletes_its_own_user_is_answered() {
    for server in [start(&[]), Oracle::redis82()] {
        let mut admin = server.client();
        assert_eq!(ask(&mut admin, "ACL SETUSER u on >secret ~* &* +@all"), "OK");
        let mut own = logged_in(&server, "u");
        own.send_raw(&[encode(&["ACL", "DELUSER", "u"]), encode(&["SET", "k", "v"])].concat());
        assert_eq!(own.receive_to_close(), b":1\r\n");
        assert_eq!(ask(&mut admin, "EXISTS k"), "(integer) 0");
    }
}

#[test]
fn a_client_that_has_waited_is_asked_again_for_its_rights() {
    let server = start(&[]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER u on >secret ~* +@all"), "OK");
    let id_of = |client: &mut Client| client.id();
    for request in ["SET k v", "EVAL return(redis.call('set','k','v')) 0", "FLUSHALL"] {
        let command = request.split(' ').next().unwrap().to_lowercase();
        let mut waits = logged_in(&server, "u");
        let id = id_of(&mut waits);
        let mut stopper = stop_world(&server, "1");
        send(&mut waits, request);
        eventually_runs(&mut admin, &id, &command);
        assert!(is_silent(&mut waits));
        assert_eq!(ask(&mut admin, &format!("ACL SETUSER u -{command}")), "OK");
        assert_eq!(render(&stopper.receive()), "OK");
        let reply = render(&waits.receive());
        assert!(reply.starts_with("(error) NOPERM"), "{request}: {reply}");
        assert_eq!(ask(&mut admin, "EXISTS k"), "(integer) 0");
        assert_eq!(ask(&mut admin, "ACL SETUSER u +@all"), "OK");
    }
    for requests in [&["SET k v"][..], &["MULTI", "SET k v", "EXEC"]] {
        let mut waits = server.client();
        let id = id_of(&mut waits);
        let mut stopper = stop_world(&server, "1");
        requests.iter().for_each(|request| send(&mut waits, request));
        let last = requests.last().unwrap().split(' ').next().unwrap().to_lowercase();
        eventually_runs(&mut admin, &id, &last);
        assert_eq!(ask(&mut admin, "CLIENT PAUSE 100000 WRITE"), "OK");
        assert_eq!(render(&stopper.receive()), "OK");
        assert_eq!(ask(&mut admin, "EXISTS k"), "(integer) 0");
        for expected in &["OK", "QUEUED"][..requests.len() - 1] {
            assert_eq!(render(&waits.receive()), *expected);
        }
        assert!(is_silent(&mut waits));
        assert_eq!(ask(&mut admin, "CLIENT UNPAUSE"), "OK");
        assert!(!matches!(waits.receive(), Value::Error(_)));
        assert_eq!(ask(&mut admin, "DEL k"), "(integer) 1");
    }
}
