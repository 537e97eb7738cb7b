//! Users as ACL makes, shows and removes them, their log, and the files that they come from. What
//! they may do is in `users.rs`, and random users are in `acl_duel.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::fs;

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check, play};

/// What has the same reply on Redis 8.2, in both protocols.
const COMMON: &str = r#"
    ACL SETUSER
    ACL SETUSER u
    ACL LIST
    ACL SETUSER u on nopass +get ~a &b (+set ~b)
    ACL GETUSER u
    ACL SETUSER u >one >two <one
    ACL GETUSER u
    ACL SETUSER u >x <nosuch
    ACL GETUSER u
    ACL SETUSER u +@all foo
    ACL SETUSER u "(+get" "~a"
    ACL SETUSER u "(+get" "~a" ")" "(" ")" ""
    ACL SETUSER u foo (bar
    ACL SETUSER u "foo\r\nbar\x00baz"
    ACL SETUSER u "~a b"
    ACL SETUSER "a b" on
    ACL SETUSER "a\x00b" on
    ACL SETUSER "" on
    ACL SETUSER "a\"b\xff" on "~\xff"
    ACL GETUSER "a\"b\xff"
    ACL LIST
    ACL USERS
    ACL DELUSER
    ACL DELUSER u default
    ACL DELUSER nosuch u u ""
    ACL USERS
    ACL GETUSER u
    ACL SETUSER default -debug
    ACL GETUSER default
    ACL SETUSER default +debug
    ACL LIST
    ACL LOG x
    ACL LOG -1
    ACL LOG 1 2
    ACL LOG
    ACL LOG RESET
    ACL WHOAMI
    CONFIG SET acl-pubsub-default allchannels
    ACL SETUSER v (+get)
    ACL SETUSER v &a
    ACL SETUSER v reset
    ACL LIST
    CONFIG SET acl-pubsub-default nosuch
    CONFIG SET acl-pubsub-default resetchannels
    CONFIG GET acllog-max-len
    CONFIG GET aclfile
"#;

#[test]
fn replies_are_those_of_redis() {
    for connect in [Server::client, Server::client3] {
        let [ours, theirs] = Oracle::Redis82.beside(&[]);
        Duel::new(connect(&ours), connect(&theirs), 0).run_lines(COMMON);
    }
}

#[test]
fn databases_are_shown_where_a_rule_speaks_of_them() {
    let server = Server::start(&[]);
    check(
        &mut server.client3(),
        r#"
        > ACL SETUSER u db=3,1 (alldbs) (resetdbs ~a)
        OK
        > ACL GETUSER u
        1# "flags" =>
           1~ "off"
           2~ "sanitize-payload"
        2# "passwords" => (empty array)
        3# "commands" => "-@all"
        4# "keys" => ""
        5# "channels" => ""
        6# "databases" => "db=1,3"
        7# "selectors" =>
           1) 1# "commands" => "-@all"
              2# "keys" => ""
              3# "channels" => ""
           2) 1# "commands" => "-@all"
              2# "keys" => "~a"
              3# "channels" => ""
              4# "databases" => "resetdbs"
        "#,
    );
}

fn call(client: &mut Client, line: &str) -> Value {
    client.call(&base::quote::split_arguments(line.as_bytes()).unwrap())
}

fn ok(client: &mut Client, line: &str) {
    assert_eq!(call(client, line), Value::Simple(b"OK".to_vec()), "{line}");
}

/// A reply of text, or the lines of an array of such.
fn text(client: &mut Client, line: &str) -> Vec<String> {
    let lossy = |value: &Value| match value.as_bytes() {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => panic!("{line}: {}", render(value)),
    };
    match call(client, line) {
        Value::Array(lines) => lines.iter().map(lossy).collect(),
        other => vec![lossy(&other)],
    }
}

/// A selector that must be quoted wherever it is written.
const SELECTOR: &str = r#"("~a\"b" "~c)" db=1)"#;

/// Changes the user `w`.
fn set_user(client: &mut Client, rules: &[&str]) {
    let words = [&["ACL", "SETUSER", "w"], rules].concat();
    assert_eq!(client.call(&words), Value::Simple(b"OK".to_vec()), "{rules:?}");
}

/// The entries of ACL LOG without what two servers cannot have in common.
fn log(client: &mut Client) -> Vec<String> {
    let Value::Array(entries) = call(client, "ACL LOG 100") else { panic!("it is an array") };
    let plain = |entry: &Value| {
        let Value::Map(fields) = entry else { panic!("{entry:?}") };
        let name = |field: &Value| String::from_utf8(field.as_bytes().unwrap().to_vec()).unwrap();
        let of_both = fields.iter().filter(|(field, _)| {
            !["age-seconds", "client-info", "timestamp-created", "timestamp-last-updated"]
                .contains(&&*name(field))
        });
        of_both.map(|(field, value)| format!("{}={}", name(field), render(value))).collect()
    };
    let entries: Vec<Vec<String>> = entries.iter().map(plain).collect();
    entries.iter().map(|entry| entry.join(" ")).collect()
}

/// H88 and the log: which user is denied what, how often, and never with a password.
#[test]
fn the_log_says_what_redis_says() {
    let logs = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut root, mut user) = (server.client3(), server.client());
        ok(&mut root, "ACL SETUSER u on >hidden +@all -get ~a* &a*");
        for line in ["AUTH u wrong", "AUTH nosuch wrong", "AUTH u worse", "HELLO 3 AUTH u wrong"] {
            assert!(matches!(call(&mut user, line), Value::Error(_)), "{line}");
        }
        ok(&mut user, "AUTH u hidden");
        for line in ["GET x", "SET x 1", "PUBLISH x y", "EVAL \"return redis.call('get', 'a')\" 0"]
        {
            assert!(matches!(call(&mut user, line), Value::Error(_)), "{line}");
        }
        for line in ["MULTI", "GET a", "EXEC", "MULTI", "SET a 1"] {
            call(&mut user, line);
        }
        ok(&mut root, "ACL SETUSER u -set");
        call(&mut user, "EXEC");
        ok(&mut root, "ACL SETUSER u +set");
        (0..14).for_each(|at| drop(call(&mut user, &format!("SET x{at} 1"))));
        ["x0", "x13", "x5"].iter().for_each(|key| drop(call(&mut user, &format!("SET {key} 1"))));
        let all = log(&mut root);
        let Value::Array(shown) = call(&mut root, "ACL LOG") else { panic!("it is an array") };
        assert_eq!(shown.len(), 10, "so many where nobody asks for a number");
        ok(&mut root, "CONFIG SET acllog-max-len 3");
        call(&mut user, "SET y 1");
        let few = log(&mut root);
        ok(&mut root, "ACL LOG RESET");
        assert!(log(&mut root).is_empty());
        call(&mut user, "SET z 1");
        (all, few, log(&mut root))
    });
    let [ours, theirs] = logs;
    assert_eq!(ours, theirs);
    assert_eq!((ours.1.len(), ours.2.len()), (3, 1));
}

/// Requests that come together are looked at together, before each is run.
#[test]
fn what_is_denied_in_a_pipeline_is_noted_once_and_in_its_place() {
    let seen = Oracle::Redis82.beside(&[]).map(|server| {
        let (mut root, mut user) = (server.client3(), server.client());
        ok(&mut root, "ACL SETUSER u on nopass +@all -get ~a*");
        ok(&mut user, "AUTH u x");
        let lines = "SET a 1;GET a;GET a;SET x 1;SET x 1;SET a 2;SET a 3;SORT a BY b*;MULTI;\
                     SET a 1;SET a 2;GET a;SET x 1;SET a 1;EXEC;GET a;MULTI;SET a 1;\
                     SORT a BY c*;EXEC";
        let words = |line: &str| base::quote::split_arguments(line.as_bytes()).unwrap();
        let commands: Vec<_> = lines.split(';').map(words).collect();
        let replies: Vec<_> = user.pipeline(&commands).iter().map(render).collect();
        let info = text(&mut root, "INFO stats").remove(0);
        let denied = ["acl_access_denied_cmd", "acl_access_denied_key"]
            .map(|name| info.lines().find(|line| line.starts_with(name)).map(str::to_owned));
        (replies, log(&mut root), denied)
    });
    let [ours, theirs] = seen;
    assert_eq!(ours, theirs);
}

#[test]
fn an_entry_knows_its_client_and_its_times() {
    let server = Server::start(&[]);
    let (mut root, mut user) = (server.client3(), server.client());
    ok(&mut root, "ACL SETUSER u on nopass");
    ok(&mut user, "AUTH u x");
    call(&mut user, "SET k 1");
    let shown = render(&call(&mut root, "ACL LOG"));
    assert!(shown.contains("cmd=set user=u"), "{shown}");
    for field in ["\"age-seconds\" => (double)", "\"timestamp-created\" => (integer) 1"] {
        assert!(shown.contains(field), "{field} in {shown}");
    }
    let info = text(&mut root, "INFO stats").remove(0);
    for field in ["auth:0", "cmd:1", "key:0", "channel:0"] {
        assert!(info.contains(&format!("acl_access_denied_{field}\r\n")), "{field}");
    }
}

/// A server with an ACL file of this text.
fn with_file(content: &str, arguments: &[&str]) -> Server {
    let prepare = |folder: &std::path::Path| fs::write(folder.join("u.acl"), content).unwrap();
    Server::start_prepared(prepare, &[&["--aclfile", "u.acl"], arguments].concat())
}

#[test]
fn a_file_is_loaded_as_a_whole_or_not_at_all() {
    let server = with_file("user a on nopass +@all ~*\nuser b on nopass +ping\n", &[]);
    let file = server.folder().join("u.acl");
    let mut root = server.client();
    let before = text(&mut root, "ACL LIST");
    assert_eq!(before.len(), 3, "{before:?}");
    fs::write(&file, "user a foo >hidden\nuser b on (+get\nxx\nuser a on\nuser c on\n").unwrap();
    let Value::Error(error) = call(&mut root, "ACL LOAD") else { panic!("it has faults") };
    assert_eq!(
        String::from_utf8(error).unwrap(),
        "ERR u.acl:1: Syntax error. u.acl:2: Unmatched parenthesis in selector definition. \
         u.acl:3 should start with user keyword followed by the username. WARNING: ACL errors \
         detected, no change to the previously active ACL rules was performed"
    );
    assert_eq!(text(&mut root, "ACL LIST"), before);
    fs::remove_file(&file).unwrap();
    let Value::Error(error) = call(&mut root, "ACL LOAD") else { panic!("there is no file") };
    assert_eq!(
        String::from_utf8(error).unwrap(),
        "ERR Error loading ACLs, opening file 'u.acl': No such file or directory"
    );
    assert_eq!(text(&mut root, "ACL LIST"), before);
    ok(&mut root, "ACL SAVE");
    ok(&mut root, "ACL LOAD");
    assert_eq!(text(&mut root, "ACL LIST"), before);
    assert_eq!(fs::read_to_string(&file).unwrap(), before.join("\n") + "\n");
}

/// H103: users go while their clients are there.
#[test]
fn loading_ends_the_clients_of_users_who_are_gone_and_gives_others_their_new_rules() {
    let text = |users: &str| format!("user default on nopass ~* &* +@all\n{users}");
    let before = text("user other on nopass ~* &* +@all\nuser gone on nopass ~* +@all\n");
    let prepare = |folder: &std::path::Path| fs::write(folder.join("u.acl"), &before).unwrap();
    let arguments = ["--aclfile", "u.acl"];
    for server in [
        Server::start_prepared(prepare, &arguments),
        Oracle::Redis82.start_prepared(prepare, &arguments),
        Oracle::Valkey91.start_prepared(prepare, &arguments),
    ] {
        let mut root = server.client();
        let [mut other, mut listener, mut gone] = ["other", "other", "gone"].map(|name| {
            let mut client = server.client();
            ok(&mut client, &format!("AUTH {name} x"));
            client
        });
        listener.send(&["SUBSCRIBE", "news"]);
        listener.receive();
        let after = text("user other on >new ~a* &other +@all -set\n");
        fs::write(server.folder().join("u.acl"), after).unwrap();
        ok(&mut root, "ACL LOAD");
        for client in [&mut listener, &mut gone] {
            eventually("it is closed", || client.is_closed());
        }
        check(
            &mut other,
            r#"
            > ACL WHOAMI
            "other"
            > GET a
            (nil)
            > GET b
            (error) NOPERM No permissions to access a key
            > SET a 1
            (error) NOPERM User other has no permissions to run the 'set' command
            "#,
        );
        check(&mut root, "> ACL WHOAMI\n\"default\"");
    }
}

#[test]
fn what_is_saved_is_there_after_a_restart() {
    let mut server = with_file("", &[]);
    let mut root = server.client();
    set_user(&mut root, &["on", ">hidden", "~\"x", "&'y", "+select|0", "-config|set", SELECTOR]);
    ok(&mut root, "ACL SETUSER default >pass -flushall");
    let before = text(&mut root, "ACL LIST");
    ok(&mut root, "ACL SAVE");
    server.kill();
    server.restart();
    let mut root = server.client();
    ok(&mut root, "AUTH pass");
    assert_eq!(text(&mut root, "ACL LIST"), before);
    let written = fs::read_to_string(server.folder().join("u.acl")).unwrap();
    assert!(!written.contains("hidden"), "{written}");
    let left = fs::read_dir(server.folder()).unwrap().map(|it| it.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("acl")).collect();
    assert_eq!(left, ["u.acl"], "no temporary file is left");
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let prepare = |folder: &std::path::Path| {
        fs::create_dir(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/u.acl"), "").unwrap();
    };
    let mut server = Server::start_prepared(prepare, &["--aclfile", "inner/u.acl"]);
    fs::remove_dir_all(server.folder().join("inner")).unwrap();
    let Value::Error(error) = call(&mut server.client(), "ACL SAVE") else { panic!("it cannot") };
    assert_eq!(
        String::from_utf8(error).unwrap(),
        "ERR There was an error trying to save the ACLs. Please check the server logs for more \
         information"
    );
    server.wait_for_log("Saving the users to 'inner/u.acl' failed");
}

#[test]
fn a_configuration_with_faults_is_refused_and_shows_no_password() {
    let missing = ["--aclfile", "/nosuch/u.acl"];
    let both = ["--aclfile", "/nosuch/u.acl", "--user", "u", "on"];
    for (arguments, expected) in [
        (&["--user", "u", "foo", ">hidden"][..], "user declaration 'u': Syntax error (foo)"),
        (&["--user", "u", "#hidden"], "exactly 64 characters"),
        (&["--user", "u", "<hidden"], "does not exist ((redacted))"),
        (&["--user", "u", "(+get", ">hidden"], "Unmatched parenthesis"),
        (&["--user", "u", "(>hidden)"], "Syntax error ((...))"),
        (&["--user", "u", "on", ">hidden", "--user", "u", "on"], "Duplicate user found"),
        (&["--user", "a b", "on", ">hidden"], "Spaces not allowed in ACL usernames"),
        (&missing, "opening file '/nosuch/u.acl': No such file or directory"),
        (&both, "define either an ACL file or declare users directly"),
    ] {
        let (status, log) = Server::refuses(arguments);
        assert!(!status.success() && log.contains(expected), "{arguments:?}: {log}");
        assert!(!log.contains("hidden"), "{arguments:?}: {log}");
    }
}

#[test]
fn the_configuration_file_gets_the_users() {
    let config = "requirepass pass\nuser u on >hidden +get ~a\nuser \"v\" off\n# The end.\n";
    let mut server = Server::start_with_config(config, &[]);
    let mut root = server.client();
    ok(&mut root, "AUTH pass");
    set_user(&mut root, &["on", "~\"x", "&'y", SELECTOR, "+config|get"]);
    assert_eq!(call(&mut root, "ACL DELUSER v"), Value::Integer(1));
    let before = text(&mut root, "ACL LIST");
    ok(&mut root, "CONFIG REWRITE");
    server.kill();
    server.restart();
    let mut root = server.client();
    ok(&mut root, "AUTH pass");
    assert_eq!(text(&mut root, "ACL LIST"), before);
    let written = fs::read_to_string(server.folder().join("apus.conf")).unwrap();
    assert!(!written.contains("hidden") && written.contains("requirepass pass\n"), "{written}");
    assert_eq!(written.matches("\nuser ").count(), 3, "{written}");
}

#[test]
fn with_a_file_of_users_the_configuration_file_gets_none() {
    let prepare = |folder: &std::path::Path| {
        fs::write(folder.join("u.acl"), "user u on\n").unwrap();
        fs::write(folder.join("x.conf"), "aclfile u.acl\n").unwrap();
    };
    let server = Server::start_prepared(prepare, &["--include", "x.conf", "--aclfile", "u.acl"]);
    let mut root = server.client();
    assert_eq!(text(&mut root, "ACL USERS"), ["default", "u"]);
    check(&mut root, "> CONFIG REWRITE\n(error) ERR The server is running without a config file");
}

#[test]
fn the_default_users_password_is_requirepass_until_it_is_set_otherwise() {
    let server = Server::start(&[]);
    play(
        &server,
        r#"
        root> CONFIG SET requirepass one
        OK
        new> PING
        (error) NOAUTH Authentication required.
        new> AUTH one
        OK
        root> ACL SETUSER default >two
        OK
        root> CONFIG GET requirepass
        1) "requirepass"
        2) "one"
        second> AUTH two
        OK
        third> AUTH default one
        OK
        root> CONFIG SET requirepass three
        OK
        fourth> AUTH two
        (error) WRONGPASS invalid username-password pair or user is disabled.
        fourth> AUTH three
        OK
        root> ACL SETUSER default nopass
        OK
        # Redis takes the same password again for no change, and lets everybody in.
        root> CONFIG SET requirepass three
        OK
        fifth> PING
        (error) NOAUTH Authentication required.
        root> CONFIG SET requirepass ""
        OK
        sixth> PING
        PONG
        "#,
    );
}

/// In Redis a file that says nothing of the default user lets everybody in, whatever `requirepass`
/// says.
#[test]
fn a_file_without_the_default_user_leaves_it_its_password() {
    let server = with_file("user u on nopass +ping\n", &["--requirepass", "pass"]);
    let mut stranger = Client::connect(server.port());
    check(
        &mut stranger,
        r#"
        > PING
        (error) NOAUTH Authentication required.
        > AUTH pass
        OK
        > ACL LOAD
        OK
        > PING
        PONG
        "#,
    );
    let mut stranger = Client::connect(server.port());
    check(&mut stranger, "> PING\n(error) NOAUTH Authentication required.");
}

/// H88: passwords are seen by nobody, wherever requests are shown.
#[test]
fn passwords_are_shown_nowhere() {
    let server = Server::start(&["--slowlog-log-slower-than", "0", "--loglevel", "debug"]);
    let (mut root, mut watcher) = (server.client(), server.client());
    ok(&mut watcher, "MONITOR");
    ok(&mut root, "ACL SETUSER u on >hidden-1 +@all");
    assert!(matches!(call(&mut root, "ACL SETUSER u >hidden-2 foo"), Value::Error(_)));
    assert!(matches!(call(&mut root, "AUTH u hidden-3"), Value::Error(_)));
    assert!(matches!(call(&mut root, "HELLO 2 AUTH u hidden-4"), Value::Error(_)));
    ok(&mut root, "CONFIG SET requirepass hidden-5");
    ok(&mut root, "AUTH u hidden-1");
    call(&mut root, "ECHO end");
    let mut seen = String::new();
    eventually("MONITOR shows the last request", || {
        seen += &render(&watcher.receive());
        seen.contains("end")
    });
    for line in ["SLOWLOG GET -1", "ACL LOG", "ACL LIST", "ACL GETUSER u", "CLIENT LIST"] {
        seen += &render(&call(&mut root, line));
    }
    seen += &server.log();
    assert!(seen.contains("(redacted)") && !seen.contains("hidden"), "{seen}");
}

/// Many change users and ask for them at once: every change is whole.
#[test]
fn changes_from_many_clients_are_each_whole() {
    let server = Server::start(&["--worker-threads", "4"]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..200 {
                    let name = format!("u{}", (number + round) % 2);
                    let key = format!("{number}-{round}");
                    ok(&mut client, &format!("ACL SETUSER {name} reset ~{key} &{key} >{key}"));
                    if round % 7 == 0 {
                        call(&mut client, &format!("ACL DELUSER {name}"));
                    }
                }
            });
        }
        let mut client = server.client();
        for _ in 0..400 {
            for line in text(&mut client, "ACL LIST") {
                let words: Vec<&str> = line.split(' ').collect();
                let Some(key) = words.iter().find_map(|word| word.strip_prefix('~')) else {
                    continue;
                };
                let channel = format!("&{key}");
                assert!(words.contains(&&*channel) || key == "*", "{line}");
            }
        }
    });
}
