//! Primaries that are none: they say what a test wants said.
//! Invariant: one serves one connection, and ends with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// A server that answers each line of a handshake by `reply`, until that says nothing.
pub fn impostor(
    reply: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static,
) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let serve = move || {
        let (mut stream, _) = listener.accept().expect("the server connects");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket has a second handle"));
        let mut said = Vec::new();
        while let Some(words) = next_request(&mut lines) {
            said.push(words.clone());
            let Some(bytes) = reply(&words) else { break };
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
        said
    };
    (port, std::thread::spawn(serve))
}

/// The words of the next request, or its line if it is none; `None` at the end of the connection.
pub fn next_request(lines: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let mut read = |lines: &mut BufReader<TcpStream>| {
        line.clear();
        let count = lines.read_line(&mut line).ok()?;
        (count > 0).then(|| line.trim().to_owned())
    };
    let head = read(lines)?;
    let Some(count) = head.strip_prefix('*') else { return Some(head) };
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().ok()? {
        let length: usize = read(lines)?.strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        lines.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Some(words.join(" "))
}

/// What stands in front of PSYNC, answered as a primary does.
pub fn greeting(words: &str) -> Option<Vec<u8>> {
    match words.split(' ').next().expect("a line has a word") {
        "PING" => Some(b"+PONG\r\n".to_vec()),
        "REPLCONF" => Some(b"+OK\r\n".to_vec()),
        _ => None,
    }
}

/// A primary without data that says this stream behind its full sync, and no more; its port.
pub fn primary_that_says(stream: &[u8]) -> u16 {
    // No keys, and no sum to be checked.
    const EMPTY: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";
    let head = format!("+FULLRESYNC {} 0\r\n${}\r\n", "a".repeat(40), EMPTY.len());
    answers_psync([head.as_bytes(), EMPTY, stream].concat())
}

/// A primary that goes on with this stream wherever a replica stands; its port.
pub fn primary_that_goes_on(stream: &[u8]) -> u16 {
    answers_psync([b"+CONTINUE\r\n", stream].concat())
}

fn answers_psync(data: Vec<u8>) -> u16 {
    let reply = move |words: &str| match words {
        words if words.starts_with("PSYNC") => Some(data.clone()),
        words if words.starts_with("REPLCONF ACK") => Some(Vec::new()),
        words => greeting(words),
    };
    impostor(reply).0
}

/// These commands, as a primary says them.
pub fn stream(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        proto::args::encode_command(words.into_iter(), &mut bytes);
    }
    bytes
}
