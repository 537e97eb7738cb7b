//! CONFIG: reading, changing, writing down, and what a change brings about.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::server::free_port;
use tests::{Client, Duel, Oracle, Server, check};

fn call(client: &mut Client, line: &str) -> Value {
    let words = base::quote::split_arguments(line.as_bytes());
    client.call(&words.expect("quotes are balanced"))
}

fn error(line: &str) -> Value {
    Value::Error(line.as_bytes().to_vec())
}

/// Whatever has the same reply on Redis 8.2, in both protocols.
const COMMON: &str = r#"
    CONFIG
    CONFIG NOSUCH
    CONFIG HELP
    CONFIG HELP x
    CONFIG GET
    CONFIG GET maxmemory
    CONFIG GET MaxMemory
    CONFIG GET maxmemory maxmemory
    CONFIG GET nosuch
    CONFIG GET maxmemory-s*
    CONFIG GET [hH]z
    CONFIG GET slave-read-only
    CONFIG GET replica-read-only
    CONFIG SET
    CONFIG SET maxmemory
    CONFIG SET maxmemory 1 timeout
    CONFIG SET nosuch 1
    CONFIG SET maxmemory 100mb
    CONFIG GET maxmemory
    CONFIG SET MAXMEMORY 1gb timeout 5
    CONFIG GET maxmemory
    CONFIG GET timeout
    CONFIG SET maxmemory 5mb timeout x
    CONFIG GET maxmemory
    CONFIG GET timeout
    CONFIG SET maxmemory 1 maxmemory 2
    CONFIG SET maxmemory abc
    CONFIG SET maxmemory 0
    CONFIG SET timeout -1
    CONFIG SET timeout 0
    CONFIG SET maxmemory-policy allkeys-lfu
    CONFIG SET maxmemory-policy noeviction
    CONFIG SET databases 3
    CONFIG SET daemonize yes
    CONFIG SET dir /
    CONFIG SET appendonly perhaps
    CONFIG SET lfu-log-factor 5 lfu-decay-time 2
    CONFIG GET lfu-l*
    CONFIG GET lfu-decay-time
    CONFIG SET notify-keyspace-events KEA
    CONFIG GET notify-keyspace-events
    CONFIG SET notify-keyspace-events ""
    CONFIG SET save "10 20"
    CONFIG GET save
    CONFIG SET save ""
    CONFIG SET requirepass ""
    CONFIG SET port 99999
    CONFIG SET bind 192.0.2.1
    CONFIG RESETSTAT
    CONFIG RESETSTAT x
    CONFIG REWRITE
    CONFIG REWRITE x
"#;

#[test]
fn replies_are_those_of_redis() {
    for connect in [Server::client, Server::client3] {
        let (ours, theirs) = (Server::start(&[]), Oracle::redis82());
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        duel.run_lines(COMMON);
    }
}

#[test]
fn the_port_and_the_addresses_change_at_run_time() {
    let server = Server::start(&[]);
    let mut first = server.client();
    let port = free_port();
    check(&mut first, &format!("> CONFIG SET port {port}\nOK"));
    assert!(Client::try_connect(server.port()).is_err(), "the old port is closed");
    let mut second = Client::connect(port);
    check(&mut first, "> SET k v\nOK");
    check(&mut second, "> GET k\n\"v\"");
    // The same port on more addresses: the first one stays open throughout.
    check(&mut second, "> CONFIG SET bind \"127.0.0.1 127.0.0.2\"\nOK\n> PING\nPONG");
    check(&mut Client::connect(port), "> PING\nPONG");
    assert!(std::net::TcpStream::connect(("127.0.0.2", port)).is_ok());
    check(&mut second, "> CONFIG SET bind 127.0.0.2\nOK");
    assert!(Client::try_connect(port).is_err());
    check(&mut second, "> CONFIG SET port 0\nOK");
    assert!(std::net::TcpStream::connect(("127.0.0.2", port)).is_err());
    check(&mut second, &format!("> CONFIG SET port {port} bind 127.0.0.1\nOK"));
    check(&mut Client::connect(port), "> GET k\n\"v\"");
    // The harness looks for the server where it was.
    check(&mut second, &format!("> CONFIG SET port {}\nOK", server.port()));
}

#[test]
fn an_effect_that_fails_takes_everything_back() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let reply = call(&mut client, &format!("CONFIG SET maxmemory 5mb loglevel debug port {port}"));
    let text = "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on \
                this port. Check server logs.";
    assert_eq!(reply, error(text));
    check(&mut client, "> CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"0\"");
    check(&mut client, "> CONFIG GET loglevel\n1) \"loglevel\"\n2) \"notice\"");
    check(&mut server.client(), "> PING\nPONG");
}

/// Each of these fails for its last option, whatever it began with.
#[test]
fn a_change_that_fails_is_seen_by_nobody() {
    let open = ["--enable-protected-configs", "yes", "--requirepass", "secret"];
    let server = Server::start(&open);
    let mut client = server.client();
    check(&mut client, "> AUTH secret\nOK");
    for key in 0..2000 {
        client.call(&["SET", &format!("key:{key}"), &"x".repeat(1000)]);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    std::fs::write(server.folder().join("appendonlydir"), "in the way").unwrap();
    let folder = server.folder().display().to_string();
    let sub = server.folder().join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(sub.join("appendonlydir"), "in the way").unwrap();
    let sub = sub.display().to_string();
    let workers = |client: &mut Client| {
        let reply = client.call(&["INFO", "workers"]);
        let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
        text.lines().filter(|line| line.starts_with("worker")).count()
    };
    let before = workers(&mut client);
    let failing = [
        format!("port {port}"),
        "bind 192.0.2.1".to_owned(),
        "bind \"* 192.0.2.1\"".to_owned(),
        "logfile /nonexistent/log".to_owned(),
        "maxclients 4000000000".to_owned(),
        "appendonly yes".to_owned(),
        "hz many".to_owned(),
    ];
    for last in failing {
        for first in [
            "maxmemory 1 maxmemory-policy allkeys-lru".to_owned(),
            "requirepass \"\"".to_owned(),
            "worker-threads 3".to_owned(),
            "notify-keyspace-events KEA slowlog-max-len 0".to_owned(),
            format!("dir {sub}"),
        ] {
            for line in [format!("{first} {last}"), format!("{last} {first}")] {
                let reply = call(&mut client, &format!("CONFIG SET {line}"));
                assert!(matches!(reply, Value::Error(_)), "{line}: {reply:?}");
                let mut other = server.client();
                assert!(matches!(other.call(&["PING"]), Value::Error(_)), "{line}");
                check(&mut other, "> AUTH secret\nOK\n> DBSIZE\n(integer) 2000");
                for (name, value) in [
                    ("maxmemory", "0"),
                    ("maxmemory-policy", "noeviction"),
                    ("requirepass", "secret"),
                    ("notify-keyspace-events", ""),
                    ("slowlog-max-len", "128"),
                    ("appendonly", "no"),
                    ("dir", &folder),
                    ("port", "0"),
                ] {
                    let reply = other.call(&["CONFIG", "GET", name]);
                    let Value::Array(pair) = &reply else { panic!("{reply:?}") };
                    let shown = String::from_utf8_lossy(pair[1].as_bytes().unwrap());
                    let is_so = shown == value || name == "dir" && shown.ends_with(value);
                    assert!(is_so, "{line}: {name} {shown}");
                }
            }
        }
    }
    assert_eq!(workers(&mut client), before);
}

#[test]
fn a_port_changes_within_a_transaction() {
    let server = Server::start_with_config("", &[]);
    let mut client = server.client();
    let (port, taken) = (free_port(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let in_use = taken.local_addr().unwrap().port();
    let failed = "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen \
                  on this port. Check server logs.";
    check(
        &mut client,
        &format!(
            "> MULTI\nOK\n> SET a 1\nQUEUED\n> CONFIG SET port {port}\nQUEUED\n\
             > CONFIG SET port {in_use}\nQUEUED\n> SET b 2\nQUEUED\n\
             > EXEC\n1) OK\n2) OK\n3) (error) {failed}\n4) OK"
        ),
    );
    let mut other = Client::connect(port);
    check(
        &mut other,
        "> MGET a b\n1) \"1\"\n2) \"2\"\n> CONFIG SET hz 20\nOK\n> CONFIG REWRITE\nOK",
    );
    check(&mut other, &format!("> CONFIG SET port {}\nOK", server.port()));
}

/// An address excludes all addresses of its port, and they it.
#[test]
fn what_excludes_what_was_there_takes_its_place_or_leaves_it() {
    let server = Server::start(&[]);
    let port = free_port();
    let mut client = server.client();
    check(&mut client, &format!("> CONFIG SET port {port}\nOK"));
    for (bind, fails) in [("*", false), ("127.0.0.1", false), ("* 192.0.2.1", true), ("*", false)] {
        let reply = call(&mut client, &format!("CONFIG SET bind \"{bind}\""));
        assert_eq!(matches!(reply, Value::Error(_)), fails, "{bind}: {reply:?}");
        check(&mut Client::connect(port), "> PING\nPONG");
        let elsewhere = std::net::TcpStream::connect(("127.0.0.2", port)).is_ok();
        assert_eq!(elsewhere, bind == "*", "{bind}");
    }
    let to = format!("> CONFIG SET bind 127.0.0.1 port {}\nOK", server.port());
    check(&mut client, &to);
}

#[test]
fn more_clients_than_files_are_refused() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let Value::Error(line) = call(&mut client, "CONFIG SET maxclients 4000000000") else {
        panic!("no system has so many files");
    };
    let line = String::from_utf8(line).unwrap();
    let text = "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating \
                system is not able to handle the specified number of clients, try with ";
    assert!(line.starts_with(text), "{line}");
    check(&mut client, "> CONFIG GET maxclients\n1) \"maxclients\"\n2) \"10000\"");
    check(&mut client, "> CONFIG SET maxclients 1\nOK");
    let mut second = server.client();
    assert_eq!(second.receive(), error("ERR max number of clients reached"));
    check(&mut client, "> CONFIG SET maxclients 100\nOK");
}

#[test]
fn a_password_binds_those_who_come_later() {
    let server = Server::start(&[]);
    let mut inside = server.client();
    check(&mut inside, "> CONFIG SET requirepass secret\nOK\n> PING\nPONG");
    let mut outside = server.client();
    check(&mut outside, "> PING\n(error) NOAUTH Authentication required.");
    check(
        &mut outside,
        "> AUTH secret\nOK\n> CONFIG GET requirepass\n1) \"requirepass\"\n2) \"secret\"",
    );
    let mut waiting = server.client();
    check(&mut waiting, "> PING\n(error) NOAUTH Authentication required.");
    check(&mut inside, "> CONFIG SET requirepass \"\"\nOK");
    check(&mut waiting, "> PING\nPONG");
}

#[test]
fn settings_reach_the_keyspace() {
    let server =
        Server::start(&["--maxmemory-policy", "allkeys-lfu", "--proto-max-bulk-len", "2mb"]);
    let mut client = server.client();
    check(&mut client, "> SET k v\nOK\n> OBJECT FREQ k\n~ (integer) *");
    check(&mut client, "> SETRANGE k 3000000 x\n~ (error) ERR string exceeds maximum*");
    check(&mut client, "> CONFIG SET maxmemory-policy allkeys-lru proto-max-bulk-len 4mb\nOK");
    check(
        &mut client,
        "> OBJECT IDLETIME k\n~ (integer) *\n> SETRANGE k 3000000 x\n(integer) 3000001",
    );
}

#[test]
fn the_log_follows() {
    let mut server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    check(&mut client, "> CONFIG SET loglevel nothing\nOK\n> DEBUG LOG unheard\nOK");
    check(&mut client, "> CONFIG SET loglevel debug\nOK\n> DEBUG LOG heard\nOK");
    server.wait_for_log("DEBUG LOG: heard");
    assert!(!server.log().contains("unheard"));
}

#[test]
fn the_file_is_rewritten() {
    let text = "# mine\nmaxmemory 5mb # not a comment to Redis\n";
    assert!(text.contains("mine"));
    let mut server = Server::start_with_config(
        "# mine\nmaxmemory 5mb\nport 0\n",
        &["--enable-debug-command", "yes", "--protected-mode", "no"],
    );
    let file = server.folder().join("apus.conf");
    let mut client = server.client();
    check(&mut client, "> CONFIG SET maxmemory 7mb timeout 9\nOK\n> CONFIG REWRITE\nOK");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\nmaxmemory 7mb\nport 0\n"), "{text}");
    assert!(text.contains("\n# Generated by CONFIG REWRITE\n") && text.contains("\ntimeout 9\n"));
    assert!(!text.contains("slowlog-max-len"));
    check(&mut client, "> DEBUG CONFIG-REWRITE-FORCE-ALL\nOK");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\nslowlog-max-len 128\n"), "{text}");
    let dir = file.parent().unwrap().canonicalize().unwrap();
    // The server has the directory for itself while it runs.
    drop(client);
    server.kill();
    let mut again = Server::start_with_config(&text, &["--dir", &dir.display().to_string()]);
    check(&mut again.client(), "> CONFIG GET timeout\n1) \"timeout\"\n2) \"9\"");
    again.wait_for_log("Ready");
}

#[test]
fn protected_options_are_for_those_who_may() {
    let refused = "> CONFIG SET dir /\n(error) ERR CONFIG SET failed (possibly related to argument \
                   'dir') - can't set protected config";
    check(&mut Server::start(&[]).client(), refused);
    for allowed in ["yes", "local"] {
        let server = Server::start(&["--enable-protected-configs", allowed]);
        let mut client = server.client();
        check(&mut client, "> CONFIG SET dir /\nOK\n> CONFIG GET dir\n1) \"dir\"\n2) \"/\"");
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", server.pid())).unwrap();
        assert_eq!(cwd, std::path::Path::new("/"));
        check(&mut client, "> CONFIG SET dir /nonexistent\n~ (error) *- No such file or directory");
    }
}

#[test]
fn statistics_begin_again() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> SET k v\nOK\n> GET k\n\"v\"\n> GET x\n(nil)\n> NOSUCH\n~ (error) *");
    check(&mut client, "> CONFIG RESETSTAT\nOK");
    check(&mut client, "> LATENCY HISTOGRAM get set\n(empty array)");
}

/// Changes from many clients at once: each is whole, and the file is never half written.
#[test]
fn changes_take_turns() {
    let server = Server::start_with_config("timeout 0\n", &[]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..20 {
                    let line = format!("CONFIG SET timeout {number} maxmemory {number}mb");
                    assert_eq!(call(&mut client, &line), Value::Simple(b"OK".to_vec()));
                    let line = "CONFIG REWRITE";
                    assert_eq!(call(&mut client, line), Value::Simple(b"OK".to_vec()));
                }
            });
        }
    });
    let mut client = server.client();
    let value = |client: &mut Client, name: &str| match call(client, &format!("CONFIG GET {name}"))
    {
        Value::Array(pair) => String::from_utf8(pair[1].as_bytes().unwrap().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let timeout: u64 = value(&mut client, "timeout").parse().unwrap();
    assert_eq!(value(&mut client, "maxmemory"), (timeout << 20).to_string());
    let text = std::fs::read_to_string(server.folder().join("apus.conf")).unwrap();
    assert_eq!(text.matches("maxmemory ").count(), 1, "{text}");
}

/// Redis accepts any number of times per second and takes the nearest that makes sense.
#[test]
fn a_rate_out_of_bounds_is_brought_within() {
    for server in [Server::start(&["--hz", "1000"]), Oracle::Redis82.start(&["--hz", "1000"])] {
        let mut client = server.client();
        check(
            &mut client,
            r#"
            > CONFIG GET hz
            1) "hz"
            2) "500"
            > CONFIG SET hz 0
            OK
            > CONFIG GET hz
            1) "hz"
            2) "1"
            > CONFIG SET hz 501
            OK
            > CONFIG GET hz
            1) "hz"
            2) "500"
            > CONFIG SET hz -1
            ~ (error) ERR CONFIG SET failed (possibly related to argument 'hz') - argument must be*
            > CONFIG SET hz 100 dynamic-hz no
            OK
            > CONFIG GET *hz
            ...
            "#,
        );
    }
}

/// Those whose values reach beyond the process, or end what the test is made by.
const NOT_SWEPT: &[&str] =
    &["bind", "dir", "maxclients", "port", "requirepass", "unixsocket", "worker-threads"];

/// The ends of ranges, and what is beyond them.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "18446744073709552",
    "18446744073709551615",
    "-9223372036854775808",
    "100%",
    "",
];

/// Whatever a directive takes, the server goes on, and takes back what was there before.
#[test]
fn no_value_that_is_taken_harms_the_server() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    // Some bounds on clients' memory are below what this one takes.
    call(&mut client, "CLIENT NO-EVICT ON");
    let Value::Array(all) = call(&mut client, "CONFIG GET *") else { panic!("they are listed") };
    let mut taken = 0;
    for pair in all.chunks(2) {
        let [Value::Bulk(name), Value::Bulk(before)] = pair else { panic!("{pair:?}") };
        if NOT_SWEPT.iter().any(|swept| swept.as_bytes() == &name[..]) {
            continue;
        }
        for value in EXTREMES {
            let reply = client.call(&[&b"CONFIG"[..], b"SET", &name[..], value.as_bytes()]);
            taken += usize::from(reply == Value::Simple(b"OK".to_vec()));
            call(&mut client, "EVAL \"return redis.call('TIME')\" 0");
        }
        call(&mut client, "INFO everything");
        client.call(&[&b"CONFIG"[..], b"SET", &name[..], &before[..]]);
    }
    assert!(taken > 300, "{taken} values were taken");
    assert_eq!(call(&mut client, "SET k v"), Value::Simple(b"OK".to_vec()));
}
