//! Peers that mean harm, as rows H12, H13, H54 and H55 of the project's list of attacks have them:
//! the link ends with a line that says why, and never the server.

use rustix::process::Signal;
use tests::peer::{EMPTY, Impostor, Peer, request};
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, promote};
use tests::server::eventually;
use tests::{Client, Server, check};

/// No answer of a peer makes a server larger than this.
const RESIDENT_MAX: u64 = 160 << 20;

fn ask(client: &mut Client, line: &str) -> String {
    let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&client.call(&words))
}

fn assert_sound(server: &Server, what: &str) {
    eventually("it has no load", || ask(&mut server.client(), "PING") == "PONG");
    check(&mut server.client(), "> GET mine\n\"v\"");
    assert!(server.resident() < RESIDENT_MAX, "{what}: {}", server.resident());
}

fn online(primary: &Server) -> (Peer, i64) {
    let mut peer = Peer::connect(primary.port());
    let offset = peer.sync("capa eof capa psync2").offset;
    peer.acknowledge(offset);
    (peer, offset)
}

#[test]
fn h12_a_link_that_sends_commands_changes_nothing_and_ends() {
    let mut primary = NodeKind::Apus.start(&[]);
    check(&mut primary.client(), "> SET mine v\nOK");
    for (at, line) in [
        "SET mine harm",
        "GET mine",
        "MULTI",
        "EVAL return 1 0",
        "FLUSHALL",
        "CONFIG SET maxmemory 1",
        "DEBUG SEGFAULT",
        "SUBSCRIBE c",
        "REPLICAOF NO ONE",
        "SHUTDOWN NOSAVE",
        "NOSUCH",
    ]
    .into_iter()
    .enumerate()
    {
        let (mut peer, offset) = online(&primary);
        let last = format!("REPLCONF ACK {}", offset + 1_000_000);
        peer.say([request(line), request(line), request(&last)].concat());
        assert!(peer.is_closed(), "{line}");
        let name = line.split(' ').next().expect("a command").to_lowercase();
        primary.wait_for_log(&format!("Replica generated a reply to command '{name}'"));
        assert_sound(&primary, line);
        let mut client = primary.client();
        eventually("it is gone", || client.info("connected_slaves") == "0");
        assert_eq!(client.info("sync_full"), (at + 1).to_string());
    }
}

#[test]
fn h12_bytes_that_are_no_request_end_the_link() {
    let primary = NodeKind::Apus.start(&[]);
    let mut client = primary.client();
    check(&mut client, "> SET mine v\nOK");
    let mut random = base::random::Random::from_seed(3);
    for garbage in [
        b"*1000000000\r\n".to_vec(),
        b"*1\r\n$-5\r\n".to_vec(),
        b"*2\r\n$8\r\nREPLCONF\r\n$2000000000\r\n".to_vec(),
        vec![b'x'; 200_000],
        (0..5000).map(|_| random.next_u64() as u8).collect(),
    ] {
        let (mut peer, _) = online(&primary);
        // The server may be gone before all was sent.
        let _ = peer.try_say(&garbage);
        let _ = peer.try_say(vec![b'\n'; 100_000]);
        let _ = peer.try_say("GET k\r\n");
        assert!(peer.is_closed());
        eventually("its link ends", || client.info("connected_slaves") == "0");
        assert_sound(&primary, &garbage.escape_ascii().to_string());
    }
}

/// Where a primary that means harm says something.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Ping,
    Psync,
    Header,
    Stream,
}

#[test]
fn h13_a_primary_with_huge_counts_is_left() {
    let replica = NodeKind::Apus.start(&[]);
    check(&mut replica.client(), "> SET mine v\nOK");
    let impostor = Impostor::start();
    follow(&replica, impostor.port());
    let endless = vec![b'x'; 4 << 20];
    let cases: [(Stage, &[u8]); 16] = [
        (Stage::Ping, b"*1000000000\r\n"),
        (Stage::Ping, b"$2147483647\r\n"),
        (Stage::Ping, &endless),
        (Stage::Psync, b"*2147483647\r\n"),
        (Stage::Psync, b":9223372036854775807\r\n"),
        (Stage::Psync, &endless),
        (Stage::Header, b"$9223372036854775808\r\n"),
        (Stage::Header, b"$-1\r\n"),
        (Stage::Header, b"*1000000000\r\n"),
        (Stage::Header, &endless),
        (Stage::Stream, b"*2147483648\r\n"),
        (Stage::Stream, b"*1\r\n$-5\r\n"),
        (Stage::Stream, b"*1\r\n$9223372036854775807\r\n"),
        (Stage::Stream, b"*-2147483648\r\n$1\r\n"),
        (Stage::Stream, b"+OK\r\n:1\r\n"),
        (Stage::Stream, b"\0\0\0\0\0\0\r\n"),
    ];
    for (at, (stage, bytes)) in cases.into_iter().enumerate() {
        let what = format!("{stage:?}, case {at}");
        let mut link = match stage {
            Stage::Ping => {
                let mut link = impostor.accept();
                link.until("PING");
                link
            }
            Stage::Psync | Stage::Header => impostor.greet().0,
            Stage::Stream => impostor.feed(&"a".repeat(40), 1000 * at as i64),
        };
        if matches!(stage, Stage::Header) {
            link.say(format!("+FULLRESYNC {} 1\r\n", "a".repeat(40)));
        }
        if matches!(stage, Stage::Stream) {
            let set = request("SET mine v");
            link.say(&set);
            let (mut client, end) = (replica.client(), (1000 * at + set.len()).to_string());
            eventually("it is applied", || client.info("slave_repl_offset") == end);
        }
        let _ = link.try_say(bytes);
        // An answer that is none makes it ask for all data by SYNC, and that is no answer to it.
        let _ = link.try_say("\r\nnothing\r\n");
        assert!(link.is_closed(), "{what}");
        assert_sound(&replica, &what);
    }
}

/// CVE-2026-23631: what runs is not freed by the data that come.
#[test]
fn h54_a_full_sync_waits_for_scripts_of_a_writable_replica() {
    let library = |name: &str| {
        format!(
            "#!lua name={name}\nredis.register_function{{function_name='{name}_spin', \
             callback=function(keys) while true do redis.call('GET', keys[1]) end end, \
             flags={{'no-writes'}}}}"
        )
    };
    let primary = NodeKind::Apus.start(&["--repl-diskless-sync-delay", "1"]);
    let mut top = primary.client();
    assert_eq!(render(&top.call(&["FUNCTION", "LOAD", &library("theirs")])), "\"theirs\"");
    check(&mut top, "> SET mine v\nOK");
    for mode in ["disabled", "swapdb", "flush-before-load"] {
        for (line, kill) in [
            ("EVAL \"while true do redis.call('GET', KEYS[1]) end\" 1 k", "SCRIPT KILL"),
            ("FCALL ours_spin 1 k", "FUNCTION KILL"),
        ] {
            let settings = ["--replica-read-only", "no", "--repl-diskless-load", mode];
            let replica =
                NodeKind::Apus.start(&[&settings[..], &["--busy-reply-threshold", "5"]].concat());
            let mut below = replica.client();
            below.call(&["FUNCTION", "LOAD", &library("ours")]);
            check(&mut below, "> SET local v\nOK");
            // The data come when the delay is over.
            follow(&replica, primary.port());
            let mut script = replica.client();
            script.send(&base::quote::split_arguments(line.as_bytes()).expect("it is quoted well"));
            eventually("it runs for long", || ask(&mut below, "GET k").contains("BUSY"));
            eventually("the data are there", || {
                let told = ask(&mut top, "INFO replication");
                told.contains("state=online") || told.contains("state=send_bulk")
            });
            let told = ask(&mut below, "INFO replication");
            assert!(told.contains("master_link_status:down"), "{mode}, {line}: {told}");
            assert!(script.is_silent(), "{mode}, {line}");
            check(&mut below, &format!("> {kill}\nOK"));
            let told = render(&script.receive());
            assert!(told.contains("killed by user"), "{mode}, {line}: {told}");
            await_replica(&primary, &replica);
            check(&mut below, "> GET mine\n\"v\"\n> GET local\n(nil)");
            let functions = ask(&mut below, "FUNCTION LIST");
            assert!(functions.contains("theirs") && !functions.contains("ours"), "{functions}");
        }
    }
}

/// A primary of which nothing is true.
#[test]
fn h55_a_rogue_primary_breaks_nothing() {
    let replica = NodeKind::Apus.start(&["--repl-timeout", "3"]);
    check(&mut replica.client(), "> SET mine v\nOK");
    let impostor = Impostor::start();
    follow(&replica, impostor.port());
    let id = "a".repeat(40);
    let mark = "m".repeat(40);
    let module = b"REDIS0009\xf7\x81\0\0\0\0\0\0\0\0\x02\0\0\0\0".to_vec();
    let module_type = b"REDIS0009\xfe\0\x07\x03key\x81\0\0\0\0\0\0\0\0".to_vec();
    let deep = b"REDIS0009\xfe\0\x01\x03key\x80\xff\xff\xff\xff".to_vec();
    let evil = {
        let code = b"#!lua name=evil\nos.execute('touch harm') redis.call('SET', 'mine', 'harm')";
        [b"REDIS0010\xf5\x40", &[code.len() as u8][..], code, b"\xff\0\0\0\0\0\0\0\0"].concat()
    };
    let framed = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes].concat();
    let marked =
        |bytes: &[u8]| [format!("$EOF:{mark}\r\n").as_bytes(), bytes, mark.as_bytes()].concat();
    let answer = |line: &str, rest: &[u8]| [line.as_bytes(), b"\r\n", rest].concat();
    let full = format!("+FULLRESYNC {id} 1");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("data of a module", answer(&full, &framed(&module))),
        ("a key of a module", answer(&full, &marked(&module_type))),
        ("a list of 4 billions", answer(&full, &framed(&deep))),
        ("a function that means harm", answer(&full, &marked(&evil))),
        ("nothing but zeros", answer(&full, &framed(&[0; 5000]))),
        ("a mark that is too short", answer(&full, b"$EOF:short\r\nREDIS0009\xffshort")),
        (
            "a mark in the midst",
            answer(&full, &[marked(b"REDIS0009\xfe\0"), vec![7; 5000]].concat()),
        ),
        ("an end before the end", answer(&full, &framed(&EMPTY[..10]))),
        ("an id that is a path", answer("+FULLRESYNC ../../../../etc/passwd 1", &framed(&[1; 90]))),
        (
            "an id with lines",
            answer(&format!("+CONTINUE {}\n\nreplicaof", "b".repeat(30)), b"\r\n*1\r\n$-9\r\n"),
        ),
        ("no id", answer("+FULLRESYNC", &framed(&[1; 90]))),
        ("a place that is none", answer(&format!("+FULLRESYNC {id} x"), &framed(&[1; 90]))),
        ("an end of 512 MB", answer(&full, &vec![b'9'; 1 << 20])),
    ];
    for (what, bytes) in cases {
        let (mut link, _) = impostor.greet();
        let _ = link.try_say(&bytes);
        // One that still waits is left without a word.
        let mut client = replica.client();
        assert!(link.is_closed(), "{what}");
        eventually("it answers", || ask(&mut client, "PING") == "PONG");
        assert!(replica.resident() < RESIDENT_MAX, "{what}: {}", replica.resident());
        assert!(!replica.folder().join("harm").exists(), "{what}");
        assert_ne!(ask(&mut client, "GET mine"), "\"harm\"", "{what}");
    }
    promote(&replica);
    check(&mut replica.client(), "> SET mine v\nOK\n> GET mine\n\"v\"");
}

/// Offsets at the ends of what a number holds.
#[test]
fn h55_places_at_the_ends_of_numbers_do_no_harm() {
    let replica = NodeKind::Apus.start(&[]);
    let impostor = Impostor::start();
    follow(&replica, impostor.port());
    for offset in [i64::MAX, i64::MAX - 20, -1, i64::MIN] {
        let mut link = impostor.feed(&"a".repeat(40), offset);
        for number in 0..20 {
            let _ = link.try_say(request(&format!("SET k{number} {}", "v".repeat(100))));
        }
        let mut client = replica.client();
        // PING is refused for the moment in which the data of a sync are put in place.
        eventually("it answers", || ask(&mut client, "PING") == "PONG");
        ask(&mut client, "INFO replication");
        drop(link);
    }
    promote(&replica);
    check(&mut replica.client(), "> FLUSHALL\nOK\n> SET k v\nOK\n> GET k\n\"v\"");
    replica.signal(Signal::CONT);
}

/// Data without an end are bounded by nothing but the disk; the replica serves meanwhile, and lets
/// go of them when it is told to.
#[test]
fn h55_endless_data_are_let_go_of_by_a_word() {
    for header in ["$9223372036854775807".to_owned(), format!("$EOF:{}", "m".repeat(40))] {
        for mode in ["disabled", "swapdb", "flush-before-load"] {
            let replica = NodeKind::Apus.start(&["--repl-diskless-load", mode]);
            check(&mut replica.client(), "> SET mine v\nOK");
            let impostor = Impostor::start();
            follow(&replica, impostor.port());
            let (mut link, _) = impostor.greet();
            link.say(format!("+FULLRESYNC {} 1\r\n{header}\r\n", "a".repeat(40)));
            link.say(b"REDIS0009\xfe\0");
            // Keys that are all right, for ever.
            let entry = [&b"\0\x01k\x41\0"[..], &[b'v'; 256]].concat();
            let piece = entry.repeat(2000);
            for _ in 0..40 {
                if link.try_say(&piece).is_err() {
                    break;
                }
            }
            let mut client = replica.client();
            assert!(replica.resident() < RESIDENT_MAX, "{mode}: {}", replica.resident());
            eventually("it is told to", || ask(&mut client, "REPLICAOF NO ONE") == "OK");
            assert!(link.is_closed(), "{mode}");
            eventually("nothing is left of them", || {
                let names = std::fs::read_dir(replica.folder()).expect("it has a folder");
                let names = names.map(|entry| entry.expect("it can be read").file_name());
                !names.into_iter().any(|it| it.to_string_lossy().starts_with("temp"))
            });
            check(&mut client, "> SET mine w\nOK\n> GET mine\n\"w\"");
        }
    }
}
