//! UDP: a datagram asks, a datagram answers, and is never much.

use std::net::UdpSocket;
use std::time::Duration;

use tests::Server;
use tests::server::free_port;

/// A server that listens for datagrams, and a client of it.
fn start(arguments: &[&str]) -> (Server, UdpSocket) {
    let (port, udp) = (free_port().to_string(), free_port());
    let udp_port = udp.to_string();
    let own = ["--port", &port, "--memcached-udp-port", &udp_port];
    let server = Server::start(&[&own, arguments].concat());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("the loopback has a free port");
    socket.connect(("127.0.0.1", udp)).expect("an address of the loopback");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("not zero");
    (server, socket)
}

/// Asks until there is an answer, as clients of UDP do; its payload.
#[track_caller]
fn ask(socket: &UdpSocket, id: u16, frame: [u16; 3], request: &str) -> Vec<u8> {
    let numbers = [id, frame[0], frame[1], frame[2]];
    let head: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let datagram = [&head[..], request.as_bytes()].concat();
    let mut buffer = [0; 65_536];
    for _ in 0..60 {
        socket.send(&datagram).expect("the server listens");
        while let Ok(length) = socket.recv(&mut buffer) {
            // A late answer to what was asked twice.
            if buffer[..2] != id.to_be_bytes() {
                continue;
            }
            assert!(length <= 1400, "{length} bytes are an amplification");
            assert_eq!(buffer[..8], [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat());
            return buffer[8..length].to_vec();
        }
    }
    panic!("no answer to {request:?}");
}

const WHOLE: [u16; 3] = [0, 1, 0];

#[test]
fn requests_are_answered() {
    let (_server, socket) = start(&[]);
    assert_eq!(ask(&socket, 1, WHOLE, "set a 5 0 3\r\nabc\r\n"), b"STORED\r\n");
    assert_eq!(ask(&socket, 2, WHOLE, "get a\r\n"), b"VALUE a 5 3\r\nabc\r\nEND\r\n");
    assert_eq!(ask(&socket, 65_535, WHOLE, "mg a v\r\n"), b"VA 3\r\nabc\r\n");
}

/// H121: an answer of many packets is refused.
#[test]
fn an_answer_of_more_than_a_packet_is_refused() {
    let (_server, socket) = start(&[]);
    let value = "x".repeat(1300);
    assert_eq!(ask(&socket, 1, WHOLE, &format!("set a 0 0 1300\r\n{value}\r\n")), b"STORED\r\n");
    assert!(ask(&socket, 2, WHOLE, "get a\r\n").ends_with(b"x\r\nEND\r\n"));
    let too_large = b"SERVER_ERROR the answer is too large for UDP\r\n";
    assert_eq!(ask(&socket, 3, WHOLE, "get a a\r\n"), too_large);
    assert_eq!(ask(&socket, 4, WHOLE, "stats\r\n"), too_large);
    let pieces = b"SERVER_ERROR multi-packet request not supported\r\n";
    assert_eq!(ask(&socket, 5, [0, 2, 0], "get a\r\n"), pieces);
    assert_eq!(ask(&socket, 6, [1, 2, 0], "get a\r\n"), pieces);
    assert_eq!(ask(&socket, 7, [1, 1, 0], "get a\r\n"), pieces);
}

/// H86: datagrams, too.
#[test]
fn a_password_counts_here_too() {
    let (_server, socket) = start(&["--requirepass", "secret"]);
    let refusal = b"CLIENT_ERROR unauthenticated\r\n";
    assert_eq!(ask(&socket, 1, WHOLE, "get a\r\n"), refusal);
    let log_in = "set a 0 0 14\r\ndefault secret\r\n";
    assert_eq!(ask(&socket, 2, WHOLE, log_in), b"STORED\r\n");
    assert_eq!(ask(&socket, 3, WHOLE, "get a\r\n"), refusal, "a datagram is a client of its own");
}
