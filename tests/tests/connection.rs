//! The connection family, and what clients send to a server that is no cluster, replica or host of
//! modules: exact replies, equal to those of Redis 8.2 wherever it knows the command.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::text;
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Duel, Oracle, Server, check, play};

/// Sends request lines to both servers and compares the replies.
fn duel(lines: &str, arguments: &[&str], connect: fn(&Server) -> Client) {
    let [ours, theirs] = Oracle::Redis82.beside(arguments);
    let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
    duel.run_lines(lines);
}

/// Whatever has the same reply on Redis 8.2, errors above all.
const COMMON: &str = r#"
    AUTH foo
    AUTH default foo
    AUTH default
    AUTH nouser foo
    AUTH a b c
    AUTH
    HELLO 4
    HELLO 1
    HELLO a
    HELLO 3 AUTH default
    HELLO 3 AUTH nouser x
    HELLO 3 SETNAME
    HELLO 3 SETNAME "a b"
    HELLO 3 FOO
    PING
    PING hello
    PING a b
    ECHO a b
    ECHO "a\x00b\r\n"
    SELECT 15
    SELECT 16
    SELECT -1
    SELECT a
    SELECT 99999999999
    SELECT 99999999999999999999
    SELECT
    CLIENT
    CLIENT FOO
    CLIENT HELP x
    CLIENT ID 1
    CLIENT GETNAME
    CLIENT SETNAME foo
    CLIENT GETNAME
    CLIENT SETNAME "foo bar"
    CLIENT SETNAME "foo\nbar"
    CLIENT SETNAME "\xc3\xa9"
    CLIENT SETNAME ""
    CLIENT GETNAME
    CLIENT SETINFO LIB-NAME redis-py
    CLIENT SETINFO lib-name "foo bar"
    CLIENT SETINFO LIB-VER 8.0.0
    CLIENT SETINFO LIB-VER "1 2"
    CLIENT SETINFO FOO x
    CLIENT SETINFO FOO
    CLIENT LIST TYPE foo
    CLIENT LIST TYPE pubsub
    CLIENT LIST TYPE master
    CLIENT LIST TYPE replica
    CLIENT LIST TYPE
    CLIENT LIST ID
    CLIENT LIST ID a
    CLIENT LIST ID 0
    CLIENT LIST ID -1
    CLIENT LIST ID 77 78
    CLIENT LIST ID 77 a
    CLIENT LIST FOO
    CLIENT LIST FOO BAR
    CLIENT KILL
    CLIENT KILL foo
    CLIENT KILL 1.2.3.4:5
    CLIENT KILL ID
    CLIENT KILL ID a
    CLIENT KILL ID 0
    CLIENT KILL ID -5
    CLIENT KILL ID 99999
    CLIENT KILL ID 99999 ID 88888
    CLIENT KILL TYPE foo
    CLIENT KILL TYPE normal
    CLIENT KILL TYPE master
    CLIENT KILL TYPE slave
    CLIENT KILL TYPE replica
    CLIENT KILL TYPE pubsub
    CLIENT KILL USER foo
    CLIENT KILL USER default
    CLIENT KILL ADDR a LADDR b
    CLIENT KILL SKIPME foo
    CLIENT KILL SKIPME yes
    CLIENT KILL MAXAGE a
    CLIENT KILL MAXAGE 0
    CLIENT KILL MAXAGE -1
    CLIENT KILL MAXAGE 100000
    CLIENT KILL FOO bar
    CLIENT KILL ID 1 FOO
    CLIENT NO-EVICT on
    CLIENT NO-EVICT off
    CLIENT NO-EVICT foo
    CLIENT NO-EVICT
    CLIENT NO-TOUCH on
    CLIENT NO-TOUCH OFF
    CLIENT NO-TOUCH foo
    CLIENT REPLY foo
    CLIENT REPLY on
    CLIENT REPLY
    CLIENT PAUSE
    CLIENT PAUSE a
    CLIENT PAUSE -1
    CLIENT PAUSE 0
    CLIENT PAUSE 1 foo
    CLIENT PAUSE 1 WRITE
    CLIENT PAUSE 1 ALL
    CLIENT PAUSE 1 ALL x
    CLIENT PAUSE 9223372036854775807
    CLIENT PAUSE 99999999999999999999
    CLIENT UNPAUSE
    CLIENT UNPAUSE x
    CLIENT UNBLOCK a
    CLIENT UNBLOCK 9999
    CLIENT UNBLOCK -1
    CLIENT UNBLOCK 9999 TIMEOUT
    CLIENT UNBLOCK 9999 ERROR
    CLIENT UNBLOCK 9999 FOO
    CLIENT UNBLOCK
    CLIENT GETREDIR
    CLIENT TRACKINGINFO
    CLIENT TRACKING OFF
    CLIENT TRACKING OFF BCAST OPTIN NOLOOP
    CLIENT TRACKING OFF OPTOUT PREFIX a
    CLIENT TRACKING OFF REDIRECT 99999
    CLIENT TRACKING OFF REDIRECT
    CLIENT TRACKING OFF FOO
    CLIENT TRACKING foo
    CLIENT TRACKING
    CLIENT CACHING YES
    CLIENT CACHING NO
    READONLY
    READWRITE
    ASKING
    READONLY x
    CLUSTER
    CLUSTER INFO
    CLUSTER HELP
    CLUSTER FOO
    CLUSTER KEYSLOT a
    CLUSTER NODES
    CLUSTER MYID
    CLUSTER MYSHARDID
    CLUSTER SHARDS
    CLUSTER SLOTS
    CLUSTER SLOTS x
    CLUSTER SLOT-STATS SLOTSRANGE 0 1
    CLUSTER ADDSLOTS 1
    CLUSTER ADDSLOTSRANGE 1 2
    CLUSTER BUMPEPOCH
    CLUSTER COUNT-FAILURE-REPORTS x
    CLUSTER COUNTKEYSINSLOT 1
    CLUSTER DELSLOTS 1
    CLUSTER DELSLOTSRANGE 1 2
    CLUSTER FAILOVER FORCE
    CLUSTER FLUSHSLOTS
    CLUSTER FORGET x
    CLUSTER GETKEYSINSLOT 1 1
    CLUSTER LINKS
    CLUSTER MEET 127.0.0.1 1
    CLUSTER REPLICAS x
    CLUSTER REPLICATE x
    CLUSTER RESET SOFT
    CLUSTER SAVECONFIG
    CLUSTER SET-CONFIG-EPOCH 1
    CLUSTER SETSLOT 1 STABLE
    CLUSTER SLAVES x
    MODULE
    MODULE HELP
    MODULE FOO
    MODULE LOAD x
    MODULE LOADEX x CONFIG a b ARGS c
    MODULE UNLOAD x
    ACL
    ACL FOO
    ACL HELP
    ACL WHOAMI
    ACL USERS
    ACL LIST
    ACL CAT
    ACL CAT foo
    ACL CAT connection x
    ACL GETUSER default
    ACL GETUSER foo
    ACL GENPASS 0
    ACL GENPASS -1
    ACL GENPASS 4097
    ACL GENPASS a
    ACL GENPASS 5 6
    ACL SETUSER
    ACL SAVE
    ACL LOAD
    ACL LOG RESET
    ACL DRYRUN default get a
    ACL DRYRUN default get
    ACL DRYRUN default foo
    ACL DRYRUN foo get a
    ACL DELUSER foo
    ACL DELUSER foo default
    REPLICAOF NO ONE
    SLAVEOF no one
    REPLICAOF a b
    REPLICAOF localhost 99999
    REPLICAOF NO
    DEBUG SLEEP 0
    CONFIG SET dir /etc
    CONFIG SET dbfilename authorized_keys
    RESET
    QUIT foo
"#;

#[test]
fn replies_are_those_of_redis() {
    duel(COMMON, &[], Server::client);
    duel(COMMON, &[], Server::client3);
}

/// A client that did not say who it is: unknown names first, then arity, then protection, then
/// NOAUTH.
const UNKNOWN_CLIENT: &str = r#"
    FOO
    GET
    GET a
    PING
    CLIENT
    CLIENT FOO
    CLIENT ID
    CLIENT ID x
    HELLO
    HELLO 3
    HELLO 4
    HELLO 2 SETNAME foo
    HELLO 3 AUTH default bar
    HELLO 3 AUTH default secret SETNAME "a b"
    PING
    COMMAND COUNT
    DEBUG
    DEBUG SLEEP 0
    MODULE LOAD x
    CLUSTER INFO
    RESET
    AUTH bar
    AUTH secre
    AUTH secret1
    AUTH ""
    AUTH nobody secret
    AUTH Default secret
    PING
    AUTH secret
    PING
    ACL LIST
    ACL GETUSER default
    RESET
    PING
    AUTH default secret
    PING
"#;

#[test]
fn a_password_keeps_strangers_out() {
    duel(UNKNOWN_CLIENT, &["--requirepass", "secret"], Server::client);
}

#[test]
fn hello_tells_who_serves() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut client = server.client();
    check(
        &mut client,
        r#"
        > HELLO 2 AUTH default secret SETNAME me
         1) "server"
         2) "redis"
         3) "version"
        ~  4) "8.2.*"
         5) "proto"
         6) (integer) 2
         7) "id"
        ~  8) (integer) *
         9) "mode"
        10) "standalone"
        11) "role"
        12) "master"
        13) "modules"
        14) (empty array)
        > CLIENT GETNAME
        "me"
        > HELLO 3
        1# "server" => "redis"
        ~ 2# "version" => "8.2.*"
        3# "proto" => (integer) 3
        ~ 4# "id" => (integer) *
        5# "mode" => "standalone"
        6# "role" => "master"
        7# "modules" => (empty array)
        > HELLO
        1# "server" => "redis"
        ...
        > CLIENT GETNAME
        "me"
        "#,
    );
}

/// RESET gives back everything a client had, and the right to be here above all.
#[test]
fn reset_makes_a_connection_new() {
    for server in both(&["--requirepass", "secret"]) {
        let mut client = server.client();
        client.call(&["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me"]);
        check(
            &mut client,
            r#"
            > SELECT 3
            OK
            > CLIENT NO-EVICT ON
            OK
            > CLIENT NO-TOUCH ON
            OK
            > CLIENT SETINFO LIB-NAME lib
            OK
            > RESET
            RESET
            > CLIENT ID
            (error) NOAUTH Authentication required.
            > AUTH secret
            OK
            > CLIENT GETNAME
            (nil)
            > CLIENT INFO
            ~ *name= * flags=N db=0 * resp=2 lib-name=lib *
            "#,
        );
    }
}

#[test]
fn replies_can_be_left_out() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["CLIENT REPLY SKIP", "PING", "ECHO a"], &["a"]),
        (&["CLIENT REPLY OFF", "PING", "CLIENT REPLY ON", "ECHO a"], &["OK", "a"]),
        (&["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "ECHO a"], &["OK", "a"]),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "ECHO a"], &["a"]),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY ON", "ECHO a"], &["OK", "a"]),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "PING", "CLIENT REPLY ON"], &["OK"]),
        (&["CLIENT REPLY SKIP", "FOO", "ECHO a"], &["a"]),
        (&["CLIENT REPLY SKIP", "GET", "ECHO a"], &["a"]),
        (&["CLIENT REPLY OFF", "CLIENT REPLY foo", "CLIENT REPLY ON", "ECHO a"], &["OK", "a"]),
        (&["CLIENT REPLY OFF", "RESET", "PING"], &["RESET", "PONG"]),
        (&["CLIENT REPLY SKIP", "RESET", "PING"], &["PONG"]),
    ];
    for server in Oracle::Redis82.beside(&[]) {
        for (requests, replies) in cases {
            let mut client = server.client();
            for request in *requests {
                client.send(&request.split(' ').collect::<Vec<_>>());
            }
            for reply in *replies {
                assert_eq!(text(&client.receive()), *reply, "{requests:?}");
            }
            let silence = client.arrival(Duration::from_millis(20)).unwrap();
            assert_eq!(silence, Arrival::Silence, "{requests:?}");
        }
    }
}

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
    let same = "name age idle flags db sub psub ssub multi watch argv-mem multi-mem obl oll omem \
                events cmd user redir resp lib-name lib-ver tot-net-in tot-cmds";
    for name in same.split_whitespace() {
        assert_eq!(field(ours, name), field(theirs, name), "{name}\n{ours}\n{theirs}");
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
        let reply = text(&client.call(&["CLIENT", "IMPORT-SOURCE", "ON"]));
        assert_eq!(reply, "ERR Server is not in import mode");
        assert_eq!(text(&client.call(&["CLIENT", "IMPORT-SOURCE", "OFF"])), "OK");
    }
}

#[test]
fn reads_without_touch_are_no_accesses() {
    for server in Oracle::Redis82.beside(&[]) {
        let mut client = server.client();
        client.call(&["SET", "key", "value"]);
        std::thread::sleep(Duration::from_millis(2100));
        client.call(&["CLIENT", "NO-TOUCH", "ON"]);
        client.call(&["GET", "key"]);
        let idle = client.call(&["OBJECT", "IDLETIME", "key"]);
        assert!(matches!(idle, Value::Integer(1..=3)), "{idle:?}");
        client.call(&["CLIENT", "NO-TOUCH", "OFF"]);
        client.call(&["GET", "key"]);
        assert_eq!(client.call(&["OBJECT", "IDLETIME", "key"]), Value::Integer(0));
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

#[test]
fn helpers_of_clients_are_answered() {
    let server = Server::start(&[]);
    check(
        &mut server.client(),
        r#"
        > CLIENT MAINT_NOTIFICATIONS OFF
        OK
        > CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none
        (error) ERR Maintenance notifications are not supported
        > CLIENT TRACKING ON
        (error) ERR Client tracking is not supported yet
        > CLIENT HELP
          1) CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
        ...
        > MODULE LIST
        (empty array)
        > ACL GENPASS 5
        ~ "??"
        > ACL CAT connection
         1) "asking"
        ...
        > ACL SETUSER x
        (error) ERR ACL SETUSER is not supported yet: 'default' is the only user
        > ACL LOG
        (error) ERR ACL LOG is not supported yet
        > REPLICAOF localhost 6379
        (error) ERR Replication is not supported yet: this server can only be a master
        "#,
    );
    let password = text(&server.client().call(&["ACL", "GENPASS"]));
    assert!(password.len() == 64 && password.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_ne!(password, text(&server.client().call(&["ACL", "GENPASS"])));
}

#[test]
fn categories_hold_the_commands_they_hold_in_redis() {
    let names = Oracle::Redis82.beside(&[]).map(|server| {
        let reply = server.client().call(&["ACL", "CAT", "connection"]);
        let Value::Array(items) = reply else { panic!("{reply:?}") };
        items.iter().map(text).collect::<Vec<_>>()
    });
    let [ours, theirs] = &names;
    for name in theirs.iter().filter(|name| name.starts_with("client|") || !name.contains("wait")) {
        assert!(ours.contains(name) || name.starts_with("command"), "{name}");
    }
    let protected = Server::start(&["--enable-module-command", "yes"]);
    let reply = text(&protected.client().call(&["MODULE", "LOAD", "x"]));
    assert_eq!(reply, "ERR Modules are not supported");
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
    for server in Oracle::Redis82.beside(&[]) {
        let (mut first, mut second) = (server.client(), server.client());
        first.call(&["CLIENT", "PAUSE", "1000000"]);
        assert_eq!(text(&second.call(&["FOO"])).split('\'').nth(1), Some("FOO"));
    }
}

/// `c`: it will be closed once it has read what it asked for.
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

#[test]
fn quit_replies_and_closes() {
    for server in Oracle::Redis82.beside(&[]) {
        play(&server, "> PING\n> QUIT\n<\nPONG\n<\nOK\n<\n(closed)\n");
    }
}

/// H88: no watcher learns a password, whatever command carries it and whatever it is called.
#[test]
fn watchers_see_no_passwords() {
    let server = Server::start(&[
        "--requirepass",
        "secret",
        "--slowlog-log-slower-than",
        "0",
        "--rename-command",
        "AUTH",
        "LOGIN",
    ]);
    let (mut watcher, mut client) = (server.client(), server.client());
    watcher.call(&["LOGIN", "secret"]);
    assert_eq!(text(&watcher.call(&["MONITOR"])), "OK");
    let requests: &[&[&str]] = &[
        &["LOGIN", "default", "secret"],
        &["LOGIN", "secre7"],
        &["HELLO", "2", "auth", "default", "secret", "SETNAME", "me"],
        &["CONFIG", "SET", "requirepass", "secret", "masterauth", "secret"],
        &["ACL", "SETUSER", "default", ">secret"],
        &["ECHO", "the end"],
    ];
    for request in requests {
        client.call(request);
    }
    let seen: Vec<String> = std::iter::from_fn(|| {
        let line = text(&watcher.receive());
        (!line.contains("the end")).then_some(line)
    })
    .collect();
    let tails: Vec<&str> = seen.iter().filter_map(|line| line.split("] ").nth(1)).collect();
    assert_eq!(
        tails,
        [
            r#""LOGIN" "(redacted)" "(redacted)""#,
            r#""LOGIN" "(redacted)""#,
            r#""HELLO" "2" "auth" "(redacted)" "(redacted)" "SETNAME" "me""#,
        ]
    );
    let slow = format!("{:?}", client.call(&["SLOWLOG", "GET", "100"]));
    let secret = format!("{:?}", Value::Bulk(b"secret".to_vec()));
    assert!(slow.contains("Bulk") && !slow.contains(&secret), "{slow}");
}

/// H86: a Unix socket asks for the password like any other, and its file has the rights asked for.
#[test]
fn a_unix_socket_is_no_back_door() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let shown = path.display().to_string();
    let port = free_port().to_string();
    let server = Server::start(&[
        "--port",
        &port,
        "--requirepass",
        "secret",
        "--unixsocket",
        &shown,
        "--unixsocketperm",
        "700",
    ]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut client = Client::connect_unix(&path);
    check(
        &mut client,
        r#"
        > GET a
        (error) NOAUTH Authentication required.
        > CLIENT LIST
        (error) NOAUTH Authentication required.
        > MODULE LOAD x
        ~ (error) ERR MODULE command not allowed. If the enable-module-command option is *
        > AUTH wrong
        (error) WRONGPASS invalid username-password pair or user is disabled.
        > AUTH secret
        OK
        > GET a
        (nil)
        "#,
    );
    let line = text(&client.call(&["CLIENT", "INFO"]));
    assert_eq!(field(&line, "addr"), format!("{shown}:0"));
    assert_eq!(field(&line, "laddr"), format!("{shown}:0"));
    assert_eq!(field(&line, "flags"), "U");
    let killed = server.client().call(&["AUTH", "secret"]);
    assert_eq!(text(&killed), "OK");
    assert_eq!(text(&client.call(&["CLIENT", "KILL", &format!("{shown}:0")])), "OK");
    assert!(client.is_closed());
}

/// H01: lengths that strangers declare cost nothing.
#[test]
fn strangers_declare_lengths_in_vain() {
    let server = Server::start(&["--requirepass", "secret"]);
    let before = server.resident();
    let headers: &[(&str, &str)] = &[
        ("*1000000\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*1\r\n$536870912\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        ("*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ];
    for (header, error) in headers {
        for _ in 0..50 {
            let mut client = server.client();
            client.send_raw(header.as_bytes());
            let reply = client.receive_to_close();
            assert_eq!(String::from_utf8_lossy(&reply), *error, "{header:?}");
        }
    }
    // What is allowed, announced and never sent.
    let waiting: Vec<Client> = (0..500)
        .map(|_| {
            let mut client = server.client();
            client.send_raw(b"*10\r\n$16384\r\n");
            client
        })
        .collect();
    let mut client = server.client();
    assert_eq!(text(&client.call(&["AUTH", "secret"])), "OK");
    drop(waiting);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for headers alone");
}

/// H03: who floods without reading is not read from any more, and costs a bounded sum.
#[test]
fn a_stranger_who_never_reads_is_bounded() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut client = server.client();
    assert_eq!(text(&client.call(&["AUTH", "secret"])), "OK");
    let before = server.resident();
    let mut flood = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    flood.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let requests = b"PING\r\n".repeat(10_000);
    let mut sent = 0;
    while sent < 256 << 20 {
        match flood.write(&requests) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(_) => break,
        }
    }
    assert!(sent < 256 << 20, "the server reads on for ever");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for one stranger");
    assert_eq!(text(&client.call(&["PING"])), "PONG");
}
