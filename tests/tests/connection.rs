//! The connection family, and what clients send to a server that is no cluster, replica or host of
//! modules: exact replies, equal to those of Redis 8.2 wherever it knows the command.

use std::time::Duration;

use proto::value::Value;
use tests::render::text;
use tests::{Arrival, Client, Duel, Oracle, Server, check, play};

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
    let [ours, theirs] = Oracle::Redis82.beside(&[]);
    Duel::new(ours.client(), theirs.client(), 0).run_lines(COMMON);
    let [ours, theirs] = Oracle::Redis82.beside(&[]);
    Duel::new(ours.client3(), theirs.client3(), 0).run_lines(COMMON);
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
    for server in Oracle::Redis82.beside(&["--requirepass", "secret"]) {
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

#[test]
fn nor_are_writes_without_touch() {
    for server in Oracle::Redis82.beside(&[
        "--maxmemory-policy",
        "allkeys-lfu",
        "--lfu-log-factor",
        "0",
        "--lfu-decay-time",
        "0",
    ]) {
        let mut client = server.client();
        let writes = [
            "APPEND s x",
            "SET t x",
            "INCR n",
            "RPUSH l x",
            "HSET h f x",
            "SADD u x",
            "ZADD z 1 x",
            "XADD x * f v",
            "SETRANGE s 0 x",
            "HINCRBY h n 1",
        ];
        let write = |client: &mut Client| {
            for words in writes {
                client.call(&words.split(' ').collect::<Vec<_>>());
            }
        };
        let frequencies = |client: &mut Client| {
            ["s", "t", "n", "l", "h", "u", "z", "x"]
                .map(|key| client.call(&["OBJECT", "FREQ", key]))
        };
        write(&mut client);
        client.call(&["CLIENT", "NO-TOUCH", "ON"]);
        let before = frequencies(&mut client);
        (0..5).for_each(|_| write(&mut client));
        client.call(&["MULTI"]);
        write(&mut client);
        client.call(&["EXEC"]);
        client.call(&["EVAL", "redis.call('APPEND', KEYS[1], 'x')", "1", "s"]);
        assert_eq!(frequencies(&mut client), before);
        client.call(&["CLIENT", "NO-TOUCH", "OFF"]);
        write(&mut client);
        let behind = frequencies(&mut client);
        assert!(before.iter().zip(&behind).all(|(before, behind)| before != behind));
    }
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
        > CLIENT HELP
          1) CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
        ...
        > MODULE LIST
        (empty array)
        > ACL GENPASS 5
        ~ "??"
        > ACL CAT
         1) "keyspace"
        ...
        21) "scripting"
        22) "array"
        > ACL CAT connection
         1) "asking"
        ...
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
fn quit_replies_and_closes() {
    for server in Oracle::Redis82.beside(&[]) {
        play(&server, "> PING\n> QUIT\n<\nPONG\n<\nOK\n<\n(closed)\n");
    }
}
