//! What attackers of memcached have sent (rows H104 and H120 to H125).

use std::io::Write;
use std::net::Shutdown;

use super::binary::{Packet, ask, hear};
use super::{Talk, start};

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";

/// H122: lengths of values.
#[test]
fn lengths_below_zero_beyond_all_and_cut_off() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    for length in ["-1", "-2147483648"] {
        talk.ask(format!("set k 0 0 {length}\r\n"), BAD_FORMAT);
    }
    for length in ["99999999999999999999", "x", "4294967296", "1x", "2147483648"] {
        talk.ask(format!("set k 0 0 {length}\r\n"), BAD_FORMAT);
    }
    talk.ask("set k 99999999999999999999 0 1\r\n", BAD_FORMAT);
    talk.ask("set k -1 0 1\r\n", BAD_FORMAT);
    // A value that is too large is passed over, and takes the old one with it.
    talk.ask("set k 0 0 1\r\na\r\n", "STORED\r\n");
    let large = format!("set k 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    talk.ask(large, "SERVER_ERROR object too large for cache\r\n");
    talk.ask("get k\r\n", "END\r\n");
    talk.is_in_step();
    // Only a plain set does that, so that a client that cannot know what became of it finds
    // nothing.
    talk.ask("set k 0 0 1\r\na\r\n", "STORED\r\n");
    for name in ["add", "replace", "append", "prepend"] {
        let large = format!("{name} k 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
        talk.ask(large, "SERVER_ERROR object too large for cache\r\n");
        talk.ask("get k\r\n", "VALUE k 0 1\r\na\r\nEND\r\n");
    }
    // One that never comes is not waited for with memory.
    let before = server.resident();
    let mut waiting: Vec<Talk> = (0..50).map(|_| Talk::to(&server)).collect();
    waiting.iter_mut().for_each(|talk| talk.send("set k 0 0 1000000\r\nfew"));
    talk.is_in_step();
    assert!(server.resident() < before + (30 << 20), "memory comes with the bytes");
    // One that does not end where it says.
    talk.send("set k 0 0 3\r\nabcdef\r\n");
    talk.hear("a longer value", BAD_CHUNK.as_bytes());
}

/// H122, H123: lines.
#[test]
fn lines_without_end_of_spaces_or_with_half_an_end() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("\r\n", "ERROR\r\n");
    talk.ask("      \r\n", "ERROR\r\n");
    talk.ask("get      \r\n", "ERROR\r\n");
    talk.ask("set k 0 0 1\na\r\n", "STORED\r\n");
    talk.ask("get k\n", "VALUE k 0 1\r\na\r\nEND\r\n");
    talk.ask(format!("get {}k\r\n", " ".repeat(1500)), "VALUE k 0 1\r\na\r\nEND\r\n");
    for length in [250, 251] {
        let key = "k".repeat(length);
        let answer = if length == 250 { "END\r\n" } else { BAD_FORMAT };
        talk.ask(format!("get {key}\r\n"), answer);
    }
    talk.is_in_step();
    for endless in ["x", "set ", "mg ", "get"] {
        let mut talk = Talk::to(&server);
        // The server may close before it has read all, and then its last words may be lost.
        let _ = talk.0.write_all(endless.repeat(100_000).as_bytes());
        let answer = talk.read(1 << 10);
        let is_refused = answer.is_empty() || answer.starts_with(b"CLIENT_ERROR line too long");
        assert!(is_refused, "{}", answer.escape_ascii());
        assert!(talk.is_closed());
    }
    // Clients that hang up amid a request leave nothing.
    for half in ["se", "set k 0 0 10\r\nabc", "get k", "mg k v", "\u{80}\u{1}"] {
        Talk::to(&server).send(half);
    }
    Talk::to(&server).is_in_step();
}

/// H120: keys, extras and bodies that do not fit each other.
#[test]
fn packets_whose_lengths_lie() {
    let server = start(&[]);
    let lie = |key: u16, extras: u8, body: u32, opcode: u8| {
        let mut bytes = vec![0x80, opcode];
        bytes.extend(key.to_be_bytes());
        bytes.extend([extras, 0, 0, 0]);
        bytes.extend(body.to_be_bytes());
        bytes.extend([0; 12]);
        bytes
    };
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0e, 0x11, 0x19, 0x1c, 0x21, 0x22] {
        for (key, extras, body) in [
            (10, 0, 5),
            (0xffff, 0xff, 0),
            (1, 8, 0x8000_0000),
            (1, 8, 0xffff_ffff),
            (251, 8, 300),
            (0, 0, 0),
            (3, 255, 258),
        ] {
            let mut talk = Talk::to(&server);
            let mut bytes = lie(key, extras, body, opcode);
            if body <= 1024 {
                bytes.resize(bytes.len() + body as usize, b'x');
                bytes.extend(Packet::new(0x0a, "").bytes(1));
            }
            // The server may close before it has read all.
            let _ = talk.0.write_all(&bytes);
            let _ = talk.0.shutdown(Shutdown::Write);
            // Either the request is refused and the stream goes on, or the stream ends; not for
            // ever.
            loop {
                let head = talk.read(24);
                if head.len() < 24 {
                    break;
                }
                assert_eq!(head[0], 0x81, "{}", head.escape_ascii());
                let length = u32::from_be_bytes(head[8..12].try_into().expect("four bytes"));
                talk.read(length as usize);
                if head[1] == 0x0a || body > 1024 {
                    break;
                }
            }
        }
    }
    let talk = &mut Talk::to(&server);
    assert_eq!(ask(talk, &Packet::new(0x0a, "")).status, 0);
    // A name of a mechanism and its data without end.
    let long = Packet { value: vec![b'x'; 5000], ..Packet::new(0x21, &"m".repeat(200)) };
    talk.send(long.bytes(0));
    hear(talk);
    assert_eq!(ask(talk, &Packet::new(0x0a, "")).status, 0);
}

/// H123: meta commands without keys, with odd flags and odd base64.
#[test]
fn meta_commands_that_are_none() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    for request in ["mg\r\n", "mg  \r\n", "ms\r\n", "ms k\r\n", "md\r\n", "ma\r\n", "mx k\r\n"] {
        talk.send(request);
        let answer = talk.read_to("");
        let is_error = answer.starts_with("CLIENT_ERROR") || answer.starts_with("ERROR");
        assert!(is_error, "{request:?}: {answer:?}");
    }
    for request in ["mg k \u{1}\r\n", "mg k @\r\n", "mg k v v\r\n", "ma k Nx\r\n", "mg !!! b v\r\n"]
    {
        talk.send(request);
        let answer = talk.read_to("");
        assert!(answer.starts_with("CLIENT_ERROR"), "{request:?}: {answer:?}");
    }
    talk.is_in_step();
}

/// H104: walks over all keys that nobody reads.
#[test]
fn a_client_that_asks_for_all_and_reads_nothing_keeps_nobody_waiting() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    let value = "x".repeat(1000);
    for number in 0..2000 {
        talk.send(format!("set {number:0>200} 0 0 1000 noreply\r\n{value}\r\n"));
    }
    talk.is_in_step();
    let mut idle: Vec<Talk> = (0..5).map(|_| Talk::to(&server)).collect();
    for idle in &mut idle {
        idle.send("lru_crawler metadump all\r\n".repeat(3));
        idle.send(format!("get {:0>200}\r\n", 1).repeat(500));
    }
    talk.ask("set k 0 0 1\r\na\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\na\r\nEND\r\n");
    drop(idle);
    talk.is_in_step();
}

/// H125: items that are deleted and stored anew beside readers.
#[test]
fn an_item_is_there_while_it_is_sent_whatever_becomes_of_it() {
    let server = start(&[]);
    let (mut reader, mut writer) = (Talk::to(&server), Talk::to(&server));
    let value = "a".repeat(1_000_000);
    let whole = format!("VALUE k 0 1000000\r\n{value}\r\nEND\r\n");
    writer.ask(format!("set k 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    for round in 0..20 {
        reader.send("get k\r\n".repeat(5));
        match round % 3 {
            0 => writer.ask("delete k\r\n", "DELETED\r\n"),
            1 => writer.ask("append k 0 0 0\r\n\r\n", "STORED\r\n"),
            _ => writer.ask("touch k 100\r\n", "TOUCHED\r\n"),
        }
        writer.ask(format!("set k 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
        for _ in 0..5 {
            let mut answer = reader.read(5);
            if answer != b"END\r\n" {
                answer.extend(reader.read(whole.len() - answer.len()));
                assert!(answer == whole.as_bytes(), "{} bytes", answer.len());
            }
        }
    }
}

/// H104: users are read again and again while clients log in, by text and by SASL.
#[test]
fn a_login_while_the_users_are_read_again_is_accepted_or_refused() {
    const ROUNDS: usize = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users");
    // The one is always a user, the other never; which others are, changes.
    let write = |others: usize| {
        let others = (0..others).map(|number| format!("user{number}:{}\n", "x".repeat(number)));
        let lines = std::iter::once("me:secret\n".to_owned()).chain(others.skip(1));
        let fresh = folder.path().join("fresh");
        std::fs::write(&fresh, lines.collect::<String>()).expect("a file");
        std::fs::rename(&fresh, &file).expect("the same folder");
    };
    write(2);
    let mut server = start(&["--memcached-auth-file", file.to_str().expect("a simple path")]);
    let packet = Packet { value: b"\0me\0secret".to_vec(), ..Packet::new(0x21, "PLAIN") };
    let door = &server;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut talk = Talk::to(door);
                    talk.ask(
                        "set a 0 0 8\r\nme wrong\r\n",
                        "CLIENT_ERROR authentication failure\r\n",
                    );
                    talk.ask("set a 0 0 9\r\nme secret\r\n", "STORED\r\n");
                    let mut talk = Talk::to(door);
                    assert_eq!(ask(&mut talk, &packet).status, 0);
                }
            });
        }
        for round in 0..ROUNDS {
            write(1 + round % 50);
            door.signal(rustix::process::Signal::HUP);
        }
    });
    server.wait_for_log("were read again");
}
