//! Bytes on the wire, rows H02, H05 to H08 and H10 of the hostile corpus: what is no request gets
//! the very error of Valkey 9.1, which is as strict as we are, and the connection ends where
//! Valkey ends it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proto::value::Value;
use tests::{Client, Oracle, Server};

/// How long both servers may take for a reply before it counts as none.
const QUIET: Duration = Duration::from_millis(300);

/// The row, and what is sent before a PING.
const CASES: &[(&str, &[u8])] = &[
    ("H02", b"*1\r\n$536870913\r\n"),
    ("H02", b"*1\r\n$2147483647\r\n"),
    ("H02", b"*1\r\n$2147483648\r\n"),
    ("H02", b"*1\r\n$4294967295\r\n"),
    ("H02", b"*1\r\n$4294967296\r\n"),
    ("H02", b"*1\r\n$9223372036854775807\r\n"),
    ("H02", b"*1\r\n$9223372036854775808\r\n"),
    ("H02", b"*1\r\n$18446744073709551616\r\n"),
    ("H02", b"*1\r\n$-1\r\n"),
    ("H02", b"*1\r\n$-2147483649\r\n"),
    ("H02", b"*1\r\n$-9223372036854775808\r\n"),
    ("H02", b"*1\r\n$\r\n"),
    ("H02", b"*1\r\n$+4\r\nPING\r\n"),
    ("H02", b"*1\r\n$04\r\nPING\r\n"),
    ("H02", b"*1\r\n$ 4\r\nPING\r\n"),
    ("H02", b"*1\r\n$4x\r\nPING\r\n"),
    ("H02", b"*1\r\n$0x4\r\nPING\r\n"),
    ("H02", b"*2147483647\r\n"),
    ("H02", b"*2147483648\r\n"),
    ("H02", b"*1048577\r\n"),
    ("H02", b"*4294967296\r\n"),
    ("H02", b"*9223372036854775807\r\n"),
    ("H02", b"*9223372036854775808\r\n"),
    ("H02", b"*+1\r\n$4\r\nPING\r\n"),
    ("H02", b"*01\r\n$4\r\nPING\r\n"),
    ("H02", b"*\r\n"),
    ("H02", b"*x\r\n"),
    ("H02", b"* 1\r\n"),
    ("H02", b"*1 \r\n"),
    ("H05", b"*0\r\n"),
    ("H05", b"*-1\r\n"),
    ("H05", b"*-2147483649\r\n"),
    ("H05", b"*-9223372036854775808\r\n"),
    ("H05", b"\r\n"),
    ("H05", b"\n"),
    ("H05", b"\r\n\r\n*0\r\n\r\n*-1\r\n"),
    ("H05", b" \r\n"),
    ("H05", b" \t \r\n"),
    ("H05", b"*0\r\n*1\r\n$-1\r\n"),
    ("H05", b"*1\r\n$0\r\n\r\n"),
    ("H05", b"*2\r\n$0\r\n\r\n$0\r\n\r\n"),
    ("H05", b"''\r\n"),
    ("H05", b"\" \"\r\n"),
    ("H06", b"POST / HTTP/1.1\r\n"),
    ("H06", b"post x\r\n"),
    ("H06", b"Host: localhost\r\n"),
    ("H06", b"host: localhost:6379\r\n"),
    ("H06", b"*1\r\n$4\r\nPOST\r\n"),
    ("H06", b"*2\r\n$5\r\nHost:\r\n$1\r\nx\r\n"),
    ("H07", b"PING\n"),
    ("H07", b"PING\rX\n"),
    ("H07", b"*1\rX$4\r\nPING\r\n"),
    ("H07", b"*1\r\n$4\rXPING\r\n"),
    ("H07", b"*1\r\n$4\nPING\r\n"),
    ("H07", b"*1\n$4\nPING\n"),
    ("H07", b"*1\r\n$4\r\nPINGXX"),
    ("H07", b"*1\r\n$4\r\nPING\rX"),
    ("H07", b"*1\r\n$4\r\nPINGX\n"),
    ("H07", b"*1\r\n$4\r\nPIN\r\n\r\n"),
    ("H07", b"*1\r\n$3\r\nPING\r\n"),
    ("H07", b"*2\r\n$4\r\nPING\r\n"),
    ("H07", b"*1\r\n$4\r\nPING\r\n\r\n"),
    ("H07", b"*1\r\n+PING\r\n"),
    ("H07", b"*1\r\n:4\r\n"),
    ("H07", b"*1\r\n-ERR\r\n"),
    ("H07", b"*1\r\n%1\r\n"),
    ("H07", b"*1\r\n~1\r\n"),
    ("H07", b"*1\r\n>1\r\n"),
    ("H07", b"*1\r\n|1\r\n"),
    ("H07", b"*1\r\n,1.5\r\n"),
    ("H07", b"*1\r\n(12345\r\n"),
    ("H07", b"*1\r\n_\r\n"),
    ("H07", b"*1\r\n#t\r\n"),
    ("H07", b"*1\r\n!4\r\nPING\r\n"),
    ("H07", b"*1\r\n=8\r\ntxt:PING\r\n"),
    ("H07", b"*1\r\n*1\r\n$4\r\nPING\r\n"),
    ("H07", b"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\nx\r\n"),
    ("H07", b"\"PING\r\n"),
    ("H07", b"'PING\r\n"),
    ("H07", b"ECHO \"\\x41\\n\\\"\"\r\n"),
    ("H07", b"ECHO 'it\\'s \\x41'\r\n"),
    ("H07", b"  ECHO   a  \r\n"),
    ("H07", b"ECHO a\tb\r\n"),
    ("H10", b"*1\r\n$6\r\nFO\r\nBA\r\n"),
    ("H10", b"*1\r\n$5\r\nFO\x00BA\r\n"),
    ("H10", b"*3\r\n$3\r\nFOO\r\n$4\r\n\r\n+X\r\n$3\r\n\n-Y\r\n"),
    ("H10", b"*3\r\n$6\r\nCLIENT\r\n$4\r\na\r\nb\r\n$1\r\nx\r\n"),
    ("H10", b"*3\r\n$6\r\nOBJECT\r\n$4\r\na\r\nb\r\n$1\r\nx\r\n"),
    ("H10", b"*4\r\n$6\r\nEXPIRE\r\n$1\r\nk\r\n$1\r\n1\r\n$4\r\na\r\nb\r\n"),
    ("H10", b"*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\na\r\nb\r\n"),
    ("H10", b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$1\r\nx\r\n"),
];

/// What a server sends, and whether it then closes.
#[derive(Debug, PartialEq)]
struct Heard {
    text: String,
    is_closed: bool,
}

/// H02, H05, H06, H07, H10: the cases above, each by itself and with a request behind it.
#[test]
fn what_is_no_request_is_told_as_valkey_tells_it() {
    let (ours, theirs) = (Server::start(&[]), Oracle::valkey91());
    let mut inputs: Vec<(&str, Vec<u8>)> =
        CASES.iter().map(|(row, bytes)| (*row, bytes.to_vec())).collect();
    // Lines that never end.
    inputs.push(("H02", [b"*".to_vec(), vec![b'1'; 70_000]].concat()));
    inputs.push(("H07", vec![b'P'; 70_000]));
    let speak = |server: &Server, input: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        // A server that closes early may be faster than our second write.
        let _ = stream.write_all(input).and_then(|()| stream.write_all(b"*1\r\n$4\r\nPING\r\n"));
        stream
    };
    let streams: Vec<[TcpStream; 2]> =
        inputs.iter().map(|(_, input)| [speak(&ours, input), speak(&theirs, input)]).collect();
    std::thread::sleep(QUIET);
    for ((row, input), streams) in inputs.iter().zip(streams) {
        let [ours, theirs] = streams.map(hear);
        let shown = input[..input.len().min(80)].escape_ascii();
        assert_eq!(ours, theirs, "{row}: {shown}");
    }
    assert_eq!(ours.client().call(&["PING"]), Value::Simple(b"PONG".to_vec()));
}

/// Takes what has arrived.
fn hear(mut stream: TcpStream) -> Heard {
    stream.set_nonblocking(true).expect("a connected socket takes the option");
    let mut bytes = Vec::new();
    let result = stream.read_to_end(&mut bytes);
    let is_closed = !matches!(&result, Err(error) if error.kind() == ErrorKind::WouldBlock);
    Heard { text: bytes.escape_ascii().to_string(), is_closed }
}

/// H06: a browser that is made to send a request here finds its connection closed.
#[test]
fn h06_http_ends_the_connection() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send_raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET hacked 1\r\n");
    client.receive_to_close();
    let mut client = server.client();
    client.send_raw(b"POST / HTTP/1.1\r\nContent-Length: 13\r\n\r\nSET hacked 1\r\n");
    assert_eq!(client.receive_to_close(), b"");
    assert_eq!(server.client().call(&["EXISTS", "hacked"]), Value::Integer(0));
}

/// H08: replies of every size around those of buffers come whole and in order, in both protocols.
#[test]
fn h08_replies_of_every_size_around_buffers() {
    let server = Server::start(&[]);
    let text: Vec<u8> = (0..66_100_u32).map(|index| b'a' + (index % 26) as u8).collect();
    for mut client in [server.client(), server.client3()] {
        for length in (16_000..=16_700).chain(65_000..=66_000) {
            let value = &text[..length];
            let commands: [&[&[u8]]; 5] = [
                &[b"SET", b"k", value],
                &[b"GET", b"k"],
                &[b"MGET", b"k", b"none", b"k"],
                &[b"ECHO", value],
                &[b"PING"],
            ];
            for command in commands {
                client.send(command);
            }
            let bulk = || Value::Bulk(value.to_vec());
            let expected = [
                Value::Simple(b"OK".to_vec()),
                bulk(),
                Value::Array(vec![bulk(), Value::Null, bulk()]),
                bulk(),
                Value::Simple(b"PONG".to_vec()),
            ];
            for expected in expected {
                assert!(client.receive() == expected, "a reply of about {length} bytes");
            }
        }
    }
}

/// Many small replies add up to the same sizes.
#[test]
fn h08_small_replies_fill_buffers_exactly() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for size in 1..=70 {
        let word = vec![b'x'; size];
        let count = 66_000 / (size + 6);
        let commands: Vec<Vec<&[u8]>> = (0..count).map(|_| vec![&b"ECHO"[..], &word]).collect();
        let replies = client.pipeline(&commands);
        assert!(replies.iter().all(|reply| *reply == Value::Bulk(word.clone())), "{size}");
    }
}

/// What is known of a request from the one before it is not its subcommand.
#[test]
fn neighbours_may_be_different_subcommands() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let lines = ["SET k 1", "OBJECT REFCOUNT k", "OBJECT ENCODING k", "COMMAND", "COMMAND COUNT"];
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let replies = client.pipeline(&commands);
    assert_eq!(replies[1..3], [Value::Integer(1), Value::Bulk(b"int".to_vec())]);
    assert!(matches!(replies[3..], [Value::Array(_), Value::Integer(_)]));
}

/// A request may come in any pieces.
#[test]
fn requests_come_byte_by_byte() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let bytes =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nbc\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
    for byte in bytes {
        client.send_raw(&[*byte]);
    }
    assert_eq!(client.receive_raw(5 + 11 + 7), b"+OK\r\n$5\r\na\r\nbc\r\n+PONG\r\n");
}

/// H10: whatever is wrong, one line says so and the next reply is the next command's.
#[test]
fn h10_no_error_breaks_the_stream() {
    let server = Server::start(&[]);
    let hostile: &[&[u8]] =
        &[b"\r\n", b"\r\n+OK\r\n", b"a\r\n$5\r\nfalse", b"\n-X", b"\x00", b"\xff\xfe\r", b"%s%n"];
    let commands: &[&[&[u8]]] = &[
        &[b"?"],
        &[b"FOO", b"?"],
        &[b"CLIENT", b"?"],
        &[b"CLIENT", b"KILL", b"?"],
        &[b"CLIENT", b"KILL", b"USER", b"?"],
        &[b"CLIENT", b"LIST", b"TYPE", b"?"],
        &[b"CLIENT", b"SETNAME", b"?"],
        &[b"CLIENT", b"SETINFO", b"?", b"x"],
        &[b"CONFIG", b"SET", b"?", b"x"],
        &[b"CONFIG", b"SET", b"hz", b"?"],
        &[b"COMMAND", b"GETKEYS", b"?"],
        &[b"EXPIRE", b"k", b"1", b"?"],
        &[b"OBJECT", b"?", b"k"],
        &[b"ACL", b"CAT", b"?"],
        &[b"ACL", b"GETUSER", b"?"],
        &[b"AUTH", b"?", b"?"],
        &[b"HELLO", b"?"],
        &[b"HELLO", b"3", b"?"],
        &[b"SCAN", b"0", b"TYPE", b"?"],
        &[b"SCAN", b"?"],
        &[b"SET", b"k", b"v", b"?"],
        &[b"MODULE", b"LOAD", b"?"],
        &[b"LATENCY", b"?"],
        &[b"REPLICAOF", b"?", b"?"],
    ];
    for mut client in [server.client(), server.client3()] {
        for word in hostile {
            for command in commands {
                let command: Vec<&[u8]> =
                    command.iter().map(|part| if *part == b"?" { *word } else { *part }).collect();
                one_reply(&mut client, &command);
            }
        }
    }
}

/// The command has one reply, and an error is one line.
fn one_reply(client: &mut Client, command: &[&[u8]]) {
    client.send(command);
    client.send(&["ECHO", "next"]);
    let reply = client.receive();
    if let Value::Error(line) = &reply {
        let is_one = !line.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        assert!(is_one, "{command:?}: {reply:?}");
    }
    assert_eq!(client.receive(), Value::Bulk(b"next".to_vec()), "{command:?}: {reply:?}");
}
