//! What users may do, on every way a command can come: alone, in a transaction, in a script, from a
//! client that waits or listens, and when the rules change meanwhile. Beside Redis 8.2.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use proto::value::Value;
use tests::render::{render, text};
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Oracle, Server, check, play};

/// A client that has logged in.
fn logged_in(server: &Server, user: &str) -> Client {
    let mut client = server.client();
    check(&mut client, &format!("> AUTH {user} secret\nOK"));
    client
}

/// Both servers with a user of these rules.
fn servers(rules: &str) -> [Server; 2] {
    let servers = Oracle::Redis82.beside(&[]);
    for server in &servers {
        check(&mut server.client(), &format!("> ACL SETUSER bob on >secret {rules}\nOK"));
    }
    servers
}

#[test]
fn commands_keys_and_channels_are_denied_by_name() {
    for server in servers("~app:* &ch:* +@all -config|set -flushall") {
        play(
            &server,
            "
            bob> AUTH bob secret
            OK
            bob> ACL WHOAMI
            \"bob\"
            bob> SET app:1 x
            OK
            bob> SET foo x
            (error) NOPERM No permissions to access a key
            bob> MGET app:1 foo
            (error) NOPERM No permissions to access a key
            bob> EXISTS foo
            (error) NOPERM No permissions to access a key
            bob> COPY app:1 foo
            (error) NOPERM No permissions to access a key
            bob> CONFIG SET maxmemory 0
            (error) NOPERM User bob has no permissions to run the 'config|set' command
            bob> FLUSHALL
            (error) NOPERM User bob has no permissions to run the 'flushall' command
            bob> SET app:1
            (error) ERR wrong number of arguments for 'set' command
            bob> PUBLISH foo x
            (error) NOPERM No permissions to access a channel
            bob> PUBLISH ch:1 x
            (integer) 0
            bob> SPUBLISH foo x
            (error) NOPERM No permissions to access a channel
            bob> PSUBSCRIBE ch:1
            (error) NOPERM No permissions to access a channel
            bob> SUBSCRIBE ch:1 foo
            (error) NOPERM No permissions to access a channel
            bob> SSUBSCRIBE foo
            (error) NOPERM No permissions to access a channel
            bob> XREAD STREAMS foo 0
            (error) NOPERM No permissions to access a key
            bob> OBJECT ENCODING foo
            (error) NOPERM No permissions to access a key
            bob> EVAL 'return 1' 1 foo
            (error) NOPERM No permissions to access a key
            bob> WATCH foo
            (error) NOPERM No permissions to access a key
            bob> DBSIZE
            (integer) 1
            ",
        );
    }
}

/// H80: the keys that are looked at are those that the command uses, however its options stand.
#[test]
fn options_that_name_keys_are_looked_at() {
    for server in servers("~app:* +@all") {
        play(
            &server,
            "
            bob> AUTH bob secret
            OK
            bob> RPUSH app:l 3 1 2
            (integer) 3
            bob> SORT app:l STORE foo
            (error) NOPERM No permissions to access a key
            bob> SORT app:l STORE app:2 STORE foo
            (error) NOPERM No permissions to access a key
            bob> SORT app:l STORE foo STORE app:2
            (integer) 3
            bob> SORT app:l BY nosort LIMIT 0 1
            1) \"3\"
            bob> SORT app:l BY app:w_*
            (error) ERR BY option of SORT denied due to insufficient ACL permissions.
            bob> SORT_RO app:l GET #
            (error) ERR GET option of SORT denied due to insufficient ACL permissions.
            bob> GEOADD app:g 13 38 a
            (integer) 1
            bob> GEORADIUS app:g 13 38 1 km STORE foo
            (error) NOPERM No permissions to access a key
            bob> PFMERGE app:h foo
            (error) NOPERM No permissions to access a key
            bob> ZUNIONSTORE app:z 1 foo
            (error) NOPERM No permissions to access a key
            ",
        );
    }
}

#[test]
fn reading_and_writing_are_told_apart() {
    for server in servers("%R~r:* %W~w:* +@all") {
        play(
            &server,
            "
            root> MSET r:1 a w:1 b
            OK
            bob> AUTH bob secret
            OK
            bob> GET r:1
            \"a\"
            bob> GET w:1
            (error) NOPERM No permissions to access a key
            bob> SET w:1 c
            OK
            bob> SET w:1 c GET
            (error) NOPERM No permissions to access a key
            bob> SET r:1 c
            (error) NOPERM No permissions to access a key
            bob> EXISTS r:1 w:1
            (integer) 2
            bob> INCR w:1
            (error) NOPERM No permissions to access a key
            bob> COPY r:1 w:2
            (integer) 1
            bob> COPY w:1 w:2
            (error) NOPERM No permissions to access a key
            bob> BITFIELD r:1 GET u4 0
            1) (integer) 6
            bob> BITFIELD r:1 SET u4 0 1
            (error) NOPERM No permissions to access a key
            ",
        );
    }
}

/// H83: rights are taken back between the command that queues and EXEC.
#[test]
fn what_was_queued_is_looked_at_again() {
    for server in servers("~* &* +@all") {
        play(
            &server,
            "
            bob> AUTH bob secret
            OK
            bob> MULTI
            OK
            bob> SET a 1
            QUEUED
            bob> PING
            QUEUED
            bob> PUBLISH c m
            QUEUED
            bob> SORT l GET #
            QUEUED
            root> ACL SETUSER bob -ping resetkeys ~b* resetchannels
            OK
            bob> EXEC
            ~ 1) (error) NOPERM ACLs rules changed *: no permission to touch the specified keys
            ~ 2) (error) NOPERM ACLs rules changed *: no permission to execute the command*
            ~ 3) (error) NOPERM ACLs rules changed *: no permission to access one of the channels*
            ~ 4) (error) NOPERM ACLs rules changed *: no permission to touch the specified keys
            bob> MULTI
            OK
            bob> SET b 1
            QUEUED
            bob> SET c 1
            (error) NOPERM No permissions to access a key
            bob> EXEC
            (error) EXECABORT Transaction discarded because of previous errors.
            root> EXISTS a b c
            (integer) 0
            bob> MULTI
            OK
            bob> SORT b GET #
            QUEUED
            bob> SET b 1
            QUEUED
            bob> EXEC
            1) (error) ERR GET option of SORT denied due to insufficient ACL permissions.
            2) OK
            ",
        );
    }
}

/// A client that becomes another user within a transaction goes by the rules of that user from
/// there on.
#[test]
fn a_transaction_may_change_its_user() {
    for server in servers("~app:* +@all") {
        play(
            &server,
            "
            root> MULTI
            OK
            root> SET foo 1
            QUEUED
            root> AUTH bob secret
            QUEUED
            root> SET foo 2
            QUEUED
            root> EVAL \"return redis.pcall('set','foo','3').err\" 0
            QUEUED
            root> SET app:1 1
            QUEUED
            root> EXEC
            1) OK
            2) OK
            ~ 3) (error) NOPERM ACLs rules changed *: no permission to touch the specified keys
            4) \"ERR ACL failure in script: No permissions to access a key\"
            5) OK
            root> ACL WHOAMI
            \"bob\"
            # What runs again, for the sake of keys that no one named, begins as who came.
            other> MULTI
            OK
            other> SET foo 4
            QUEUED
            other> AUTH bob secret
            QUEUED
            other> EVAL \"return redis.call('set','app:' .. ARGV[1],'3')\" 0 2
            QUEUED
            other> EXEC
            1) OK
            2) OK
            3) OK
            last> MGET foo app:1 app:2
            1) \"4\"
            2) \"1\"
            3) \"3\"
            ",
        );
    }
}

#[test]
fn scripts_keep_the_rules_of_who_calls_them() {
    for server in servers("~app:* &ch:* +@all -get") {
        play(
            &server,
            "
            bob> AUTH bob secret
            OK
            bob> EVAL \"return redis.call('set','foo','x')\" 0
            ~ (error) ERR ACL failure in script: No permissions to access a key script: *
            bob> EVAL \"return redis.pcall('set','foo','x').err\" 0
            \"ERR ACL failure in script: No permissions to access a key\"
            bob> EVAL \"return redis.pcall('get','app:1').err\" 0
            \"ERR ACL failure in script: User bob has no permissions to run the 'get' command\"
            bob> EVAL \"return redis.pcall('publish','foo','x').err\" 0
            \"ERR ACL failure in script: No permissions to access a channel\"
            bob> EVAL \"return redis.call('set',KEYS[1],'x')\" 1 app:1
            OK
            bob> EVAL \"return redis.acl_check_cmd('set','foo','x')\" 0
            (nil)
            bob> EVAL \"return redis.acl_check_cmd('set','app:1','x')\" 0
            (integer) 1
            bob> EVAL \"return redis.acl_check_cmd('get','app:1')\" 0
            (nil)
            bob> MULTI
            OK
            bob> EVAL \"return redis.pcall('set','foo','x').err\" 0
            QUEUED
            bob> EXEC
            1) \"ERR ACL failure in script: No permissions to access a key\"
            root> EVAL \"return redis.acl_check_cmd('get','foo')\" 0
            (integer) 1
            root> EXISTS foo
            (integer) 0
            ",
        );
    }
}

/// Scripts and commands that come together are looked at one by one.
#[test]
fn requests_that_come_together_are_each_looked_at() {
    let server = Server::start(&[]);
    check(&mut server.client(), "> ACL SETUSER bob on >secret ~app:* +@all -get\nOK");
    let mut bob = logged_in(&server, "bob");
    let commands: Vec<Vec<String>> = (0..64)
        .map(|number| {
            let key =
                if number % 3 == 0 { format!("foo:{number}") } else { format!("app:{number}") };
            vec!["SET".to_owned(), key, "x".to_owned()]
        })
        .collect();
    for (number, reply) in bob.pipeline(&commands).iter().enumerate() {
        let expected = if number % 3 == 0 { "(error) NOPERM No permissions" } else { "OK" };
        assert!(render(reply).starts_with(expected), "{number}: {reply:?}");
    }
    let scripts: Vec<Vec<String>> = (0..32)
        .map(|number| {
            let key = if number % 3 == 0 { "foo" } else { "app:1" };
            let script = "return redis.call('strlen', KEYS[1])";
            ["EVAL", script, "1", key].map(str::to_owned).to_vec()
        })
        .collect();
    for (number, reply) in bob.pipeline(&scripts).iter().enumerate() {
        let expected =
            if number % 3 == 0 { "(error) NOPERM No permissions" } else { "(integer) 1" };
        assert!(render(reply).starts_with(expected), "{number}: {reply:?}");
    }
}

fn blocked(root: &mut Client) -> bool {
    text(&root.call(&["INFO", "clients"])).contains("blocked_clients:1")
}

/// H83: Redis says so only when the key is ready; here a client that waits is told at once.
#[test]
fn a_client_whose_rights_to_its_wait_are_withdrawn_waits_no_longer() {
    let server = Server::start(&[]);
    let mut root = server.client();
    check(&mut root, "> ACL SETUSER bob on >secret ~* +@all\nOK");
    let mut bob = logged_in(&server, "bob");
    for (rule, error) in [
        ("-blpop", "(error) NOPERM User bob has no permissions to run the 'blpop' command"),
        ("resetkeys", "(error) NOPERM No permissions to access a key"),
    ] {
        bob.send(&["BLPOP", "l", "m", "0"]);
        eventually("it waits", || blocked(&mut root));
        check(&mut root, &format!("> ACL SETUSER bob {rule}\nOK"));
        assert_eq!(render(&bob.receive()), error);
        check(&mut root, "> RPUSH l x\n(integer) 1\n> LPOP l\n\"x\"");
        check(&mut root, "> ACL SETUSER bob +@all ~*\nOK");
    }
    check(&mut bob, "> PING\nPONG");
}

#[test]
fn what_is_taken_away_before_a_wait_begins_is_not_waited_for() {
    let server = Server::start(&["--enable-debug-command", "local"]);
    let mut root = server.client();
    check(&mut root, "> ACL SETUSER bob on >secret ~* +@all\nOK");
    check(&mut root, "> DEBUG FAILPOINT GATED 20\n(integer) 0");
    let keys: Vec<String> = (0..2_000).map(|number| format!("key{number}")).collect();
    let refused = "(error) NOPERM User bob has no permissions to run the 'blpop' command";
    for round in 0..24 {
        let mut bob = logged_in(&server, "bob");
        let words = ["BLPOP"].into_iter().chain(keys.iter().map(String::as_str)).chain(["0"]);
        bob.send(&words.collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(round * 2));
        check(&mut root, "> ACL SETUSER bob -blpop\nOK\n> RPUSH key7 x\n(integer) 1");
        assert_eq!(render(&bob.receive()), refused, "{round}");
        check(&mut root, "> LPOP key7\n\"x\"\n> ACL SETUSER bob +@all\nOK");
    }
}

/// H83: rights are taken back of a client that listens.
#[test]
fn a_subscriber_of_a_channel_that_is_withdrawn_is_closed() {
    for server in servers("~* &* +@all") {
        let mut root = server.client();
        check(&mut root, "> ACL SETUSER bob resetchannels &ch:* &pattern*\nOK");
        let of = |command: &str, name: &str| {
            let mut bob = logged_in(&server, "bob");
            bob.send(&[command, name]);
            bob.receive();
            bob
        };
        let mut stays = of("SUBSCRIBE", "ch:1");
        let goes = [of("SUBSCRIBE", "pattern"), of("PSUBSCRIBE", "pattern*")];
        check(&mut root, "> ACL SETUSER bob resetchannels &ch:*\nOK");
        for mut client in goes {
            eventually("it is closed", || client.is_closed());
        }
        check(&mut root, "> PUBLISH ch:1 hello\n(integer) 1");
        let arrival = stays.arrival(Duration::from_secs(10)).unwrap();
        assert!(matches!(arrival, Arrival::Reply(Value::Array(_))), "{arrival:?}");
    }
}

/// H103: a user goes while its clients are idle, wait and queue.
#[test]
fn clients_of_a_user_who_is_gone_are_closed() {
    for server in servers("~* &* +@all") {
        let mut root = server.client();
        let [mut idle, mut blocked_one, mut queueing] = [(); 3].map(|()| logged_in(&server, "bob"));
        blocked_one.send(&["BLPOP", "l", "0"]);
        eventually("it waits", || blocked(&mut root));
        check(&mut queueing, "> MULTI\nOK\n> SET x 1\nQUEUED");
        check(&mut root, "> ACL DELUSER bob nobody\n(integer) 1");
        for client in [&mut idle, &mut blocked_one, &mut queueing] {
            eventually("it is closed", || client.is_closed());
        }
        check(&mut root, "> EXISTS x\n(integer) 0");
        play(
            &server,
            "
            bob> AUTH bob secret
            (error) WRONGPASS invalid username-password pair or user is disabled.
            ",
        );
    }
}

/// H88: RESET gives nobody more than a new connection has.
#[test]
fn sessions_begin_and_end_as_the_default_user() {
    for server in servers("+@all") {
        play(
            &server,
            "
            bob> AUTH bob wrong
            (error) WRONGPASS invalid username-password pair or user is disabled.
            bob> HELLO 2 AUTH bob wrong
            (error) WRONGPASS invalid username-password pair or user is disabled.
            bob> AUTH wrong
            ~ (error) ERR AUTH <password> called without any password configured for the default*
            bob> ACL WHOAMI
            \"default\"
            bob> AUTH bob secret
            OK
            bob> CLIENT NO-EVICT on
            OK
            bob> RESET
            RESET
            bob> ACL WHOAMI
            \"default\"
            bob> AUTH bob secret
            OK
            root> ACL SETUSER bob off
            OK
            bob> PING
            PONG
            other> AUTH bob secret
            (error) WRONGPASS invalid username-password pair or user is disabled.
            root> ACL SETUSER default >new
            OK
            root> ACL SETUSER default resetpass >new
            OK
            root> PING
            PONG
            other> PING
            PONG
            bob> RESET
            RESET
            bob> PING
            (error) NOAUTH Authentication required.
            stranger> HELLO 3
            ~ (error) NOAUTH HELLO must be called with the client already authenticated, *
            stranger> AUTH new
            OK
            stranger> PING
            PONG
            root> ACL SETUSER default off
            OK
            late> PING
            (error) NOAUTH Authentication required.
            late> AUTH new
            (error) WRONGPASS invalid username-password pair or user is disabled.
            root> ACL SETUSER default on nopass
            OK
            late> PING
            PONG
            ",
        );
    }
}

/// A client that came while a password was wanted, and was let do what the default user may when it
/// was not, is a stranger again when one is.
#[test]
fn a_stranger_stays_one() {
    for server in servers("~* &* +@all") {
        play(
            &server,
            "
            root> AUTH bob secret
            OK
            root> ACL SETUSER default resetpass >password
            OK
            stranger> GET app:1
            (error) NOAUTH Authentication required.
            root> ACL SETUSER default nopass resetkeys ~app:* -@all +get
            OK
            stranger> GET app:1
            (nil)
            stranger> GET foo
            (error) NOPERM No permissions to access a key
            root> ACL SETUSER default resetpass >password
            OK
            stranger> GET app:1
            (error) NOAUTH Authentication required.
            root> ACL SETUSER default nopass resetkeys ~foo
            OK
            stranger> GET app:1
            (error) NOPERM No permissions to access a key
            stranger> GET foo
            (nil)
            stranger> SET foo x
            (error) NOPERM User default has no permissions to run the 'set' command
            root> ACL SETUSER default ~* &* +@all
            OK
            stranger> SET foo x
            OK
            ",
        );
    }
}

/// The rules of Valkey for databases.
#[test]
fn databases_are_denied_too() {
    for server in Oracle::Valkey91.beside(&[]) {
        play(
            &server,
            "
            root> ACL SETUSER bob on >secret ~* &* +@all db=0,2
            OK
            bob> AUTH bob secret
            OK
            bob> SET k v
            OK
            bob> SELECT 1
            (error) NOPERM No permissions to access database
            bob> SELECT 999
            (error) ERR DB index is out of range
            bob> SELECT 2
            OK
            bob> SWAPDB 0 1
            (error) NOPERM No permissions to access database
            bob> MOVE k 1
            (error) NOPERM No permissions to access database
            bob> COPY k l DB 1
            (error) NOPERM No permissions to access database
            bob> FLUSHALL
            (error) NOPERM No permissions to access database
            bob> FLUSHDB
            OK
            root> ACL SETUSER bob resetdbs db=2
            OK
            bob> GET k
            (nil)
            bob> SELECT 0
            (error) NOPERM No permissions to access database
            again> AUTH bob secret
            OK
            again> PING
            PONG
            again> GET k
            (error) NOPERM No permissions to access database
            again> DBSIZE
            (error) NOPERM No permissions to access database
            again> EVAL 'return 1' 0
            (error) NOPERM No permissions to access database
            again> PUBLISH a b
            (integer) 0
            ",
        );
    }
}

/// H85: what the log of a server replays was allowed when it was written.
#[test]
fn a_log_is_replayed_whoever_may_do_what() {
    let folder = &["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let config = "user default off nopass -@all\nuser root on >secret ~* &* +@all\n";
    let mut server = Server::start_with_config(config, folder);
    let mut root = server.client();
    check(
        &mut root,
        "> AUTH root secret\nOK\n> SET a 1\nOK\n> EVAL \"redis.call('set','b','2')\" 0\n(nil)\n",
    );
    server.kill();
    server.restart();
    let mut root = server.client();
    check(&mut root, "> AUTH root secret\nOK\n> MGET a b\n1) \"1\"\n2) \"2\"");
}

/// H86: every way in asks the same question.
#[test]
fn no_socket_is_a_way_around_users() {
    let folder = tempfile::tempdir().unwrap();
    let (path, port) = (folder.path().join("socket"), free_port().to_string());
    let arguments = ["--port", &port, "--unixsocket", path.to_str().unwrap()];
    let server = Server::start_with_config("user default off\n", &arguments);
    let mut client = Client::connect_unix(&path);
    check(&mut client, "> PING\n(error) NOAUTH Authentication required.");
    check(&mut server.client(), "> GET x\n(error) NOAUTH Authentication required.");
}
