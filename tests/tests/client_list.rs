//! CLIENT LIST, INFO and KILL: the fields of a line, and which clients each filter finds, as Redis
//! 8.2 and Valkey 9.1 have it.

use std::time::Duration;

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::text;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// The words before `=` on a line of CLIENT LIST.
fn fields(line: &str) -> Vec<&str> {
    let names = line.split_whitespace().map(|pair| pair.split('=').next().unwrap_or_default());
    names.collect()
}

#[test]
fn lines_about_clients_have_the_fields_of_redis() {
    let lines = Oracle::Redis82.beside(&[]).map(|server| {
        let mut client = server.client();
        client.call(&["SELECT", "7"]);
        client.call(&["CLIENT", "SETNAME", "me"]);
        client.call(&["CLIENT", "NO-EVICT", "ON"]);
        client.call(&["CLIENT", "NO-TOUCH", "ON"]);
        client.call(&["FOO"]);
        let line = text(&client.call(&["CLIENT", "INFO"]));
        assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
        assert_eq!(field(&line, "laddr"), format!("127.0.0.1:{}", server.port()));
        line
    });
    let [ours, theirs] = &lines;
    assert_eq!(fields(ours), fields(theirs));
    let same = "name flags db sub psub ssub multi watch argv-mem multi-mem obl oll omem \
                events cmd user redir resp lib-name lib-ver tot-net-in tot-cmds";
    for name in same.split_whitespace() {
        assert_eq!(field(ours, name), field(theirs, name), "{name}\n{ours}\n{theirs}");
    }
    // Seconds, of which one more may have passed in one of them.
    for (line, name) in lines.iter().flat_map(|line| [(line, "age"), (line, "idle")]) {
        assert!(field(line, name).parse::<u32>().is_ok_and(|seconds| seconds < 60), "{line}");
    }
}

/// The name of a user is the one word on a line that may be of any bytes.
#[test]
fn a_user_is_named_as_it_is() {
    for server in Oracle::Redis82.beside(&[]) {
        let (mut admin, mut other) = (server.client(), server.client());
        let name: &[u8] = b"\xff\xfeu";
        let setting: [&[u8]; 6] = [b"ACL", b"SETUSER", name, b"on", b"nopass", b"+@all"];
        assert_eq!(admin.call(&setting), Value::Simple(b"OK".to_vec()));
        assert_eq!(other.call(&[b"AUTH".as_slice(), name, b"x"]), Value::Simple(b"OK".to_vec()));
        let Value::Bulk(line) = other.call(&["CLIENT", "INFO"]) else { panic!("it is a line") };
        let told = b" user=\xff\xfeu redir=-1 ";
        assert!(line.windows(told.len()).any(|it| it == told), "{}", line.escape_ascii());
    }
}

#[test]
fn info_and_list_are_verbatim_text_in_resp3() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut client = server.client3();
        for subcommand in ["INFO", "LIST"] {
            let reply = client.call(&["CLIENT", subcommand]);
            assert!(matches!(&reply, Value::Verbatim(format, _) if format == b"txt"), "{reply:?}");
        }
    }
}

#[test]
fn clients_list_and_kill_each_other() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut killer = server.client();
        for filter in ["ID", "ADDR", "TYPE"] {
            let mut victim = server.client();
            let victim_id = victim.id();
            let line = text(&killer.call(&["CLIENT", "LIST", "ID", &victim_id]));
            assert_eq!(field(&line, "cmd"), "client|id");
            let address = field(&line, "addr").to_owned();
            let value = match filter {
                "ID" => &victim_id,
                "ADDR" => &address,
                _ => "normal",
            };
            let killed = killer.call(&["CLIENT", "KILL", filter, value]);
            assert_eq!(killed, Value::Integer(1), "{filter}");
            assert!(victim.is_closed(), "{filter}");
        }
        let mut victim = server.client();
        let line = text(&victim.call(&["CLIENT", "INFO"]));
        let address = field(&line, "addr");
        assert_eq!(text(&killer.call(&["CLIENT", "KILL", address])), "OK");
        assert!(victim.is_closed());
        // Oneself: the reply first.
        let laddr = format!("127.0.0.1:{}", server.port());
        let own =
            killer.call(&["CLIENT", "KILL", "LADDR", &laddr, "SKIPME", "no", "USER", "default"]);
        assert_eq!(own, Value::Integer(1));
        assert!(killer.is_closed());
    }
}

/// Filters that leave out refuse in words of their own.
#[test]
fn excluding_filters_refuse_as_in_valkey() {
    for server in [Server::start(&[]), Oracle::valkey91()] {
        let mut client = server.client();
        for (filter, expected) in [
            ("NOT-ID x", "ERR syntax error"),
            ("NOT-ID 0", "ERR client-id should be greater than 0"),
            ("NOT-ID 7 x", "ERR syntax error"),
            ("NOT-DB x", "ERR NOT-DB is not an integer or out of range"),
            ("NOT-DB 16", "ERR NOT-DB number should be between 0 and 15"),
            ("NOT-FLAGS !", "ERR Unknown flags found in the NOT-FLAGS filter: !"),
            ("not-capa x", "ERR Unknown capa found in the NOT-CAPA filter: x"),
        ] {
            for subcommand in ["LIST", "KILL"] {
                let words: Vec<&str> =
                    ["CLIENT", subcommand].into_iter().chain(filter.split(' ')).collect();
                assert_eq!(text(&client.call(&words)), expected, "{subcommand} {filter}");
            }
        }
    }
}

/// The filters that Valkey has on both LIST and KILL.
#[test]
fn clients_are_found_as_in_valkey() {
    for server in [Server::start(&[]), Oracle::valkey91()] {
        let (mut client, mut other) = (server.client(), server.client());
        let (own, theirs) = (client.id(), other.id());
        other.call(&["SELECT", "3"]);
        other.call(&["CLIENT", "SETNAME", "other"]);
        other.call(&["CLIENT", "SETINFO", "LIB-NAME", "lib"]);
        other.call(&["CLIENT", "SETINFO", "LIB-VER", "1.2"]);
        other.call(&["CLIENT", "NO-EVICT", "on"]);
        assert_eq!(text(&other.call(&["CLIENT", "CAPA", "redirect", "unknown"])), "OK");
        let mut found = |filter: &str| {
            let words: Vec<&str> =
                ["CLIENT", "LIST"].into_iter().chain(filter.split(' ')).collect();
            let reply = client.call(&words);
            let lines = text(&reply);
            if matches!(reply, Value::Error(_)) {
                return lines;
            }
            lines.lines().map(|line| field(line, "id").to_owned()).collect::<Vec<_>>().join(" ")
        };
        let both = format!("{own} {theirs}");
        for (filter, expected) in [
            ("DB 3", &theirs),
            ("NOT-DB 3", &own),
            ("NAME other", &theirs),
            ("NOT-NAME other", &own),
            ("LIB-NAME lib LIB-VER 1.2", &theirs),
            ("NOT-LIB-NAME lib", &own),
            ("NOT-LIB-VER 1.2", &own),
            ("FLAGS e", &theirs),
            ("FLAGS N", &own),
            ("NOT-FLAGS e", &own),
            ("CAPA r", &theirs),
            ("NOT-CAPA r", &own),
            ("IP 127.0.0.1", &both),
            ("NOT-IP 127.0.0.1", &String::new()),
            ("NOT-ADDR x", &both),
            ("NOT-LADDR x NOT-TYPE pubsub", &both),
            ("NOT-USER default", &String::new()),
            ("USER default", &both),
            ("SKIPME yes", &theirs),
            ("SKIPME no", &both),
            ("MAXAGE 1000", &String::new()),
            ("IDLE 1000", &String::new()),
            (&format!("ID {both}"), &both),
            (&format!("ID {both} DB 3"), &theirs),
            (&format!("NOT-ID {own}"), &theirs),
            ("TYPE primary", &String::new()),
            ("DB a", &"ERR DB is not an integer or out of range".to_owned()),
            ("DB 16", &"ERR DB number should be between 0 and 15".to_owned()),
            ("IDLE 0", &"ERR idle should be greater than 0".to_owned()),
            ("IDLE x", &"ERR idle is not an integer or out of range".to_owned()),
            ("FLAGS !", &"ERR Unknown flags found in the provided filter: !".to_owned()),
            ("CAPA x", &"ERR Unknown capa found in the provided filter: x".to_owned()),
            ("NOT-USER x", &"ERR No such user 'x'".to_owned()),
            ("NOT-MAXAGE 1", &"ERR syntax error".to_owned()),
            (&format!("NOT-ID 777 NOT-ID {own}"), &theirs),
        ] {
            assert_eq!(found(filter), *expected, "{filter}");
        }
        let killed = client.call(&["CLIENT", "KILL", "DB", "3", "FLAGS", "e", "NAME", "other"]);
        assert_eq!(killed, Value::Integer(1));
        assert!(other.is_closed());
    }
}

/// So many that another thread writes the list.
#[test]
fn a_crowd_is_listed() {
    let server = Server::start(&[]);
    let crowd: Vec<Client> = (0..300).map(|_| server.client()).collect();
    let mut client = server.client();
    client.send(&["CLIENT", "LIST"]);
    client.send(&["CLIENT", "LIST", "TYPE", "foo"]);
    client.send(&["PING"]);
    let lines = text(&client.receive());
    assert_eq!(lines.lines().count(), crowd.len() + 1);
    assert_eq!(field(lines.lines().last().unwrap_or_default(), "cmd"), "client|list");
    assert_eq!(text(&client.receive()), "ERR Unknown client type 'foo'");
    assert_eq!(text(&client.receive()), "PONG");
    let killed = client.call(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(killed, Value::Integer(crowd.len() as i64));
    for mut other in crowd {
        assert!(other.is_closed());
    }
    assert_eq!(text(&client.call(&["CLIENT", "LIST"])).lines().count(), 1);
}

/// `d`: EXEC will be refused, and nothing is watched any more.
#[test]
fn a_client_whose_watch_is_broken_is_marked() {
    for server in Oracle::Redis82.beside(&[]) {
        let (mut watcher, mut other) = (server.client(), server.client());
        let id = watcher.id();
        let seen = |other: &mut Client| {
            let line = text(&other.call(&["CLIENT", "LIST", "ID", &id]));
            ["flags", "watch"].map(|name| field(&line, name).to_owned())
        };
        watcher.call(&["WATCH", "a", "b"]);
        assert_eq!(seen(&mut other), ["N", "2"]);
        other.call(&["SET", "a", "1"]);
        assert_eq!(seen(&mut other), ["d", "0"]);
        watcher.call(&["WATCH", "c"]);
        assert_eq!(seen(&mut other), ["d", "0"]);
        watcher.call(&["MULTI"]);
        assert_eq!(seen(&mut other), ["xd", "0"]);
        watcher.call(&["EXEC"]);
        assert_eq!(seen(&mut other), ["N", "0"]);
        watcher.call(&["WATCH", "a"]);
        watcher.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
        other.call(&["SET", "a", "2"]);
        assert_eq!(seen(&mut other), ["tBd", "0"]);
        watcher.call(&["UNWATCH"]);
        assert_eq!(seen(&mut other), ["tB", "0"]);
    }
}

/// `c`: the client will be closed once it has read what it asked for.
#[test]
fn a_client_that_is_about_to_be_closed_is_marked() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut witness = server.client();
        witness.call(&["SET", "much", &"x".repeat(50_000_000)]);
        let both = [encode(&["GET", "much"]), encode(&["QUIT"])].concat();
        let mut leaving = Vec::new();
        eventually("a client is marked", || {
            // Ours reads no further once it owes much, so QUIT must come in one turn with GET.
            let mut client = server.client();
            let id = client.id();
            client.send_raw(&both);
            leaving.push(client);
            (0..20).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                let line = text(&witness.call(&["CLIENT", "LIST", "ID", &id]));
                field(&line, "flags") == "c"
            })
        });
    }
}
