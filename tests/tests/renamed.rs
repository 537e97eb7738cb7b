//! Commands that go by other names: what the server does with a command does not hang on what it is
//! called.

use std::time::Duration;

use tests::watching::say;
use tests::{Oracle, Server, play};

/// Each command that the server itself has to know gets another name.
const RENAMED: &[&str] = &[
    "--rename-command",
    "CLIENT",
    "KLIENT",
    "--rename-command",
    "MULTI",
    "BEGIN",
    "--rename-command",
    "EXEC",
    "COMMIT",
    "--rename-command",
    "SELECT",
    "CHOOSE",
    "--rename-command",
    "DEBUG",
    "BUGS",
    "--rename-command",
    "SET",
    "PUT",
    "--rename-command",
    "PING",
    "KNOCK",
];

const BY_OTHER_NAMES: &str = r#"
    # CLIENT CACHING holds for the command behind it.
    alice> HELLO 3
    ...
    alice> KLIENT TRACKING ON OPTIN
    OK
    alice> KLIENT CACHING YES
    OK
    alice> GET foo
    (nil)
    alice> GET bar
    (nil)
    > PUT bar 1
    OK
    > PUT foo 1
    OK
    alice<
    1> "invalidate"
    2> 1) "foo"
    # And through a subcommand in between.
    alice> KLIENT CACHING YES
    OK
    alice> KLIENT GETNAME
    (nil)
    alice> GET foo
    "1"
    > PUT foo 2
    OK
    alice<
    1> "invalidate"
    2> 1) "foo"
    # A transaction.
    > BEGIN
    OK
    > CHOOSE 1
    QUEUED
    > PUT k 1
    QUEUED
    > KNOCK
    QUEUED
    > COMMIT
    1) OK
    2) OK
    3) PONG
    > GET k
    "1"
    > COMMIT
    (error) ERR EXEC without MULTI
    > BEGIN
    OK
    > NOSUCH
    ...
    > COMMIT
    (error) EXECABORT Transaction discarded because of previous errors.
    # Scripts turn to other databases for themselves alone.
    > EVAL "redis.call('CHOOSE', 2) return redis.call('PUT', 'k', 2)" 0
    OK
    > GET k
    "1"
    # Some are for those whom the configuration names.
    > BUGS JMAP
    ~ (error) ERR DEBUG command not allowed. *
"#;

#[test]
fn what_a_command_does_hangs_on_no_name() {
    for server in [Server::start(RENAMED), Oracle::Redis82.start(RENAMED)] {
        play(&server, BY_OTHER_NAMES);
    }
}

/// The server's own words in its log are those that commands have everywhere.
#[test]
fn a_log_is_read_whatever_commands_are_called_now() {
    let config = |renames: &str| format!("appendonly yes\naof-use-rdb-preamble no\n{renames}");
    let before = config("rename-command DEL remove\nrename-command SELECT choose\n");
    let mut server = Server::start_with_config(&before, &[]);
    let mut client = server.client();
    say(&mut client, "SET a 1; SET b 1 PX 1; FLUSHALL; SET c 1; SET d 1 PX 1; CHOOSE 3; SET e 1");
    say(&mut client, "SET f 1; REMOVE f");
    std::thread::sleep(Duration::from_millis(5));
    // The log gets a DEL.
    say(&mut client, "CHOOSE 0; GET d; CONFIG SET appendfsync always; SET g 1");
    let after = "rename-command DEL remove\nrename-command FLUSHALL \"\"\n";
    for renames in [before, config(after)] {
        server.kill();
        let file = server.folder().join("apus.conf");
        std::fs::write(file, renames).expect("the folder can be written to");
        server.restart();
        play(&server, "> EXISTS a b c d g\n(integer) 2\n> DBSIZE\n(integer) 2");
    }
}
