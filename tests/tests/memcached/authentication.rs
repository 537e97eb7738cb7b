//! A client that has not logged in gets nothing, on any port and in any protocol.

use super::binary::{Packet, ask};
use super::{Talk, start};

const PASSWORD: &[&str] = &["--requirepass", "secret"];

#[test]
fn text_begins_with_a_name_and_a_password() {
    let server = start(PASSWORD);
    let mut talk = Talk::to(&server);
    for refused in ["get k\r\n", "stats\r\n", "flush_all\r\n", "mg k v\r\n", "version\r\n", "\r\n"]
    {
        talk.ask(refused, "CLIENT_ERROR unauthenticated\r\n");
    }
    talk.ask("delete k noreply\r\n", "");
    for wrong in ["default wrong", "nobody secret", "default secretx", "default secret\n"] {
        let set = format!("set a 0 0 {}\r\n{wrong}\r\n", wrong.len());
        talk.ask(&set, "CLIENT_ERROR authentication failure\r\n");
        talk.ask("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    }
    for odd in ["default", "", "secret"] {
        let set = format!("set a 0 0 {}\r\n{odd}\r\n", odd.len());
        talk.ask(&set, "CLIENT_ERROR bad authentication token format\r\n");
    }
    talk.ask("set a 0 0 14\r\ndefault secret\r\n", "STORED\r\n");
    // The password was no item.
    talk.ask("get a\r\n", "END\r\n");
    talk.ask("set a 0 0 1\r\nb\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nb\r\nEND\r\n");
    assert_eq!(talk.figure("auth_cmds"), "5");
    assert_eq!(talk.figure("auth_errors"), "4");
    // A stranger's value may not be large.
    let mut stranger = Talk::to(&server);
    for length in [1025, 100_000, 2_147_483_646] {
        // What is behind the line is the next request.
        let large = format!("set a 0 0 {length}\r\n");
        stranger.ask(large, "CLIENT_ERROR auth token too long\r\n");
        stranger.ask("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    }
    stranger.ask("set a 0 0 14\r\ndefault secret\r\n", "STORED\r\n");
}

/// Each with a connection of its own; what is asked behind it shows whether it is let in.
#[test]
fn a_login_is_answered_as_by_memcached() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users");
    std::fs::write(&file, "me:secret\nyou:with:colon\n").expect("a file");
    let arguments = ["-Y", file.to_str().expect("a simple path")];
    let ours = tests::memcached::Memcached::start_ours(&arguments);
    let theirs = tests::memcached::Memcached::start(&arguments);
    for request in [
        "set a 0 0 9\r\nme secret\r\n",
        "set a 5 100 9\r\nme secret\r\n",
        "set a 0 0 9 noreply\r\nme secret\r\n",
        "set a 0 0 8 noreply\r\nme wrong\r\n",
        "set a 0 0 14\r\nyou with:colon\r\n",
        "set a 0 0 10\r\nme secret \r\n",
        "set a 0 0 10\r\nme secret\n\r\n",
        "set a 0 0 10\r\nme  secret\r\n",
        "set a 0 0 10\r\n me secret\r\n",
        "set a 0 0 2\r\nme\r\n",
        "set a 0 0 3\r\nme \r\n",
        "set a 0 0 0\r\n\r\n",
    ] {
        let ask = |server: &tests::memcached::Memcached| {
            let mut connection = server.connect();
            // Memcached loses what it says of a failure if more lies behind it.
            [request, "get k\r\n"].map(|request| {
                connection.send(request.as_bytes());
                connection.next_line()
            })
        };
        assert_eq!(ask(&ours), ask(&theirs), "{request:?}");
    }
}

/// H124: NULs and tails.
#[test]
fn in_sasl_a_password_is_what_it_is_to_its_last_byte() {
    let server = start(&["--requirepass", "secret "]);
    let talk = &mut Talk::to(&server);
    let auth = |data: &[u8]| Packet { value: data.to_vec(), ..Packet::new(0x21, "PLAIN") };
    assert_eq!(ask(talk, &auth(b"\0default\0secret")).status, 0x20);
    assert_eq!(ask(talk, &auth(b"\0default\0secret  ")).status, 0x20);
    assert_eq!(ask(talk, &auth(b"\0default\0secret ")).status, 0);
}

/// A `set` with a condition is none of those by which one comes in.
#[test]
fn only_a_plain_set_is_a_login() {
    let server = start(PASSWORD);
    let mut talk = Talk::to(&server);
    for name in ["add", "replace", "append", "prepend"] {
        let request = format!("{name} a 0 0 14\r\ndefault secret\r\n");
        talk.ask(request, "CLIENT_ERROR unauthenticated\r\n");
    }
    talk.ask("cas a 0 0 14 1\r\ndefault secret\r\n", "CLIENT_ERROR unauthenticated\r\n");
    talk.ask("ms a 14\r\ndefault secret\r\n", "CLIENT_ERROR unauthenticated\r\n");
    talk.ask("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
}

#[test]
fn a_name_of_its_own() {
    let server = start(&["--requirepass", "a b c", "--memcached-user", "cache"]);
    let mut talk = Talk::to(&server);
    talk.ask("set a 0 0 11\r\ncache a b c\r\n", "STORED\r\n");
    talk.is_in_step();
}

/// H124: a second attempt is worth no more than the first.
#[test]
fn sasl_lets_in_who_knows_the_password_and_nobody_after_an_attempt() {
    let server = start(PASSWORD);
    let talk = &mut Talk::to(&server);
    let auth = |data: &[u8]| Packet { value: data.to_vec(), ..Packet::new(0x21, "PLAIN") };
    let get = Packet::new(0x00, "k");
    const AUTH_ERROR: u16 = 0x20;
    assert_eq!(ask(talk, &get).status, AUTH_ERROR);
    assert_eq!(ask(talk, &Packet::new(0x0b, "")).value, b"1.6.18");
    let mechanisms = ask(talk, &Packet::new(0x20, ""));
    assert_eq!((mechanisms.status, &mechanisms.value[..]), (0, &b"PLAIN"[..]));
    for wrong in [&b"\0default\0wrong"[..], b"", b"\0", b"\0\0", b"\0default", b"default\0secret"] {
        assert_eq!(ask(talk, &auth(wrong)).status, AUTH_ERROR, "{}", wrong.escape_ascii());
        // An attempt that failed is no step on the way.
        let step = Packet { opcode: 0x22, ..auth(b"\0default\0secret") };
        assert_eq!(ask(talk, &step).status, AUTH_ERROR);
        assert_eq!(ask(talk, &get).status, AUTH_ERROR);
    }
    let other = Packet { key: b"CRAM-MD5".to_vec(), ..auth(b"\0default\0secret") };
    assert_eq!(ask(talk, &other).status, AUTH_ERROR);
    let welcome = ask(talk, &auth(b"\0default\0secret"));
    assert_eq!((welcome.status, &welcome.value[..]), (0, &b"Authenticated"[..]));
    assert_eq!(ask(talk, &get).status, 1);
}

#[test]
fn a_password_that_is_set_later_counts_for_who_comes_later() {
    let server = start(&[]);
    let mut early = Talk::to(&server);
    early.is_in_step();
    server.client().call(&["CONFIG", "SET", "requirepass", "secret"]);
    early.is_in_step();
    Talk::to(&server).ask("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
}

#[test]
fn users_of_a_file_come_in_and_it_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users");
    let write = |lines: &str| std::fs::write(&file, lines).expect("a file");
    write("me:secret\nyou:with:colon\n");
    let mut server = start(&["--memcached-auth-file", file.to_str().expect("a simple path")]);
    let lets_in = |server: &tests::Server, credentials: &str| {
        let mut talk = Talk::to(server);
        talk.send(format!("set auth 0 0 {}\r\n{credentials}\r\n", credentials.len()));
        match talk.read_to("").trim_end() {
            "STORED" => true,
            "CLIENT_ERROR authentication failure" => false,
            other => panic!("{credentials}: {other}"),
        }
    };
    Talk::to(&server).ask("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    assert!(lets_in(&server, "me secret") && lets_in(&server, "you with:colon"));
    // Without a password of its own the default user is nobody.
    for wrong in ["me with:colon", "default secret"] {
        assert!(!lets_in(&server, wrong), "{wrong}");
    }
    let mut early = Talk::to(&server);
    early.ask("set auth 0 0 9\r\nme secret\r\n", "STORED\r\n");
    // A file that is not right changes nothing.
    write("me:secret\nnonsense\n");
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_log("the users stay as they are");
    assert!(lets_in(&server, "you with:colon"));
    write("me:other\nthey:new\n");
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_log("were read again");
    assert!(lets_in(&server, "me other") && lets_in(&server, "they new"));
    assert!(!lets_in(&server, "me secret") && !lets_in(&server, "you with:colon"));
    early.is_in_step();
    let (status, said) = tests::Server::refuses(&["--memcached-auth-file", "/nowhere/at/all"]);
    assert!(!status.success() && said.contains("cannot read '/nowhere/at/all'"), "{said}");
}

#[test]
fn a_password_and_a_file_both_let_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users");
    std::fs::write(&file, "me:mine\n").expect("a file");
    let file = file.to_str().expect("a simple path");
    let server = start(&["--requirepass", "secret", "--memcached-auth-file", file]);
    Talk::to(&server).ask("set a 0 0 14\r\ndefault secret\r\n", "STORED\r\n");
    Talk::to(&server).ask("set a 0 0 7\r\nme mine\r\n", "STORED\r\n");
    let refused = "CLIENT_ERROR authentication failure\r\n";
    Talk::to(&server).ask("set a 0 0 12\r\ndefault mine\r\n", refused);
    Talk::to(&server).ask("set a 0 0 9\r\nme secret\r\n", refused);
}

/// The users of ACL are memcached's, too: each key and each command is looked at.
#[test]
fn users_may_do_here_what_they_may_do_there() {
    let server = start(&[]);
    let mut root = server.client();
    tests::check(
        &mut root,
        "
        > ACL SETUSER bob on >secret ~app:* %R~read:* +@all -flushdb -@admin -@dangerous
        OK
        > ACL SETUSER default >root
        OK
        > ACL SETUSER default resetpass >root
        OK
        > SET read:1 x
        OK
        ",
    );
    let mut bob = Talk::to(&server);
    bob.ask("get app:1\r\n", "CLIENT_ERROR unauthenticated\r\n");
    bob.ask("set a 0 0 9\r\nbob wrong\r\n", "CLIENT_ERROR authentication failure\r\n");
    bob.ask("set a 0 0 10\r\nbob secret\r\n", "STORED\r\n");
    bob.ask("set app:1 0 0 1\r\na\r\n", "STORED\r\n");
    bob.ask("get app:1 read:1\r\n", "VALUE app:1 0 1\r\na\r\nVALUE read:1 0 1\r\nx\r\nEND\r\n");
    const KEY: &str = "CLIENT_ERROR No permissions to access a key\r\n";
    for denied in [
        "get foo\r\n",
        "get app:1 foo\r\n",
        "set foo 0 0 1\r\na\r\n",
        "set read:1 0 0 1\r\na\r\n",
        "append read:1 0 0 1\r\na\r\n",
        "delete read:1\r\n",
        "incr read:1 1\r\n",
        "touch read:1 0\r\n",
        "gat 0 read:1\r\n",
        "mg read:1 v T0\r\n",
        "mg foo v N0\r\n",
        "ms read:1 1\r\na\r\n",
        "md read:1\r\n",
        "ma read:1\r\n",
        "me foo\r\n",
    ] {
        bob.ask(denied, KEY);
    }
    let command = |name: &str| {
        format!("CLIENT_ERROR User bob has no permissions to run the '{name}' command\r\n")
    };
    bob.ask("flush_all\r\n", command("flushdb"));
    bob.ask("stats\r\n", command("info"));
    bob.ask("stats reset\r\n", command("config|resetstat"));
    bob.ask("cache_memlimit 100\r\n", command("config|set"));
    bob.ask("watch\r\n", command("monitor"));
    bob.ask("shutdown\r\n", command("shutdown"));
    bob.ask("get read:1\r\n", "VALUE read:1 0 1\r\nx\r\nEND\r\n");
    let told = tests::render::render(&root.call(&["ACL", "LOG", "1"]));
    assert!(told.contains("shutdown") && told.contains("bob"), "{told}");
    // What was allowed a moment ago is not any more.
    tests::check(&mut root, "> ACL SETUSER bob resetkeys\nOK");
    bob.ask("get read:1\r\n", KEY);
    tests::check(&mut root, "> ACL DELUSER bob\n(integer) 1");
    tests::server::eventually("it is closed", || bob.is_closed());
}

/// Where nobody has to log in one may, in SASL, where requests of that are told from others.
#[test]
fn a_client_that_need_not_log_in_may() {
    let server = start(&[]);
    let mut root = server.client();
    let talk = &mut Talk::to(&server);
    let auth = |data: &[u8]| Packet { value: data.to_vec(), ..Packet::new(0x21, "PLAIN") };
    let (unknown, denied) = (0x81, 0x20);
    assert_eq!(ask(talk, &auth(b"\0bob\0secret")).status, unknown);
    tests::check(&mut root, "> ACL SETUSER bob on >secret ~app:* +@all\nOK\n> SET foo x\nOK");
    assert_eq!(ask(talk, &Packet::new(0x00, "foo")).value, b"x");
    assert_eq!(ask(talk, &auth(b"\0bob\0wrong")).status, denied);
    assert_eq!(ask(talk, &auth(b"\0bob\0secret")).status, 0);
    assert_ne!(ask(talk, &Packet::new(0x00, "foo")).status, 0);
    tests::check(&mut root, "> CLIENT LIST USER bob\n~ *user=bob*");
}
