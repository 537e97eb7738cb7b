//! The little of RESP that filling and asking a server takes. Invariant: every reply is read and
//! must be the expected one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BATCH: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

/// A new connection that gives up when it is not answered.
pub(super) fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let outcome = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_nodelay(true));
    outcome.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Sets keys 0 to `count`, each as `pair` makes it.
pub(super) fn fill(
    port: u16,
    count: u64,
    pair: impl Fn(u64) -> (String, String),
) -> Result<(), String> {
    let mut stream = connect(port)?;
    for first in (0..count).step_by(BATCH as usize) {
        let batch = first..count.min(first + BATCH);
        let replies = b"+OK\r\n".repeat((batch.end - batch.start) as usize);
        let mut requests = Vec::new();
        for index in batch {
            let (key, value) = pair(index);
            encode(&["SET", &key, &value], &mut requests);
        }
        exchange(&mut stream, &requests, &replies)?;
    }
    Ok(())
}

/// One PING on this connection.
pub(super) fn ping(stream: &mut TcpStream) -> Result<(), String> {
    let mut request = Vec::new();
    encode(&["PING"], &mut request);
    exchange(stream, &request, b"+PONG\r\n")
}

/// A section of INFO.
pub(super) fn info(stream: &TcpStream, section: &str) -> Result<String, String> {
    ask(stream, &["INFO", section]).map_err(|error| format!("INFO {section}: {error}"))
}

fn ask(mut stream: &TcpStream, words: &[&str]) -> std::io::Result<String> {
    let mut request = Vec::new();
    encode(words, &mut request);
    stream.write_all(&request)?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let length = head.strip_prefix('$').and_then(|text| text.trim().parse().ok());
    let length: u64 = length.ok_or_else(|| std::io::Error::other(head.clone()))?;
    let mut text = String::new();
    reader.take(length).read_to_string(&mut text)?;
    Ok(text)
}

/// Sends requests and reads replies of this very text.
fn exchange(stream: &mut TcpStream, requests: &[u8], expected: &[u8]) -> Result<(), String> {
    let mut replies = vec![0; expected.len()];
    let outcome = stream.write_all(requests).and_then(|()| stream.read_exact(&mut replies));
    outcome.map_err(|error| format!("a server does not answer: {error}"))?;
    if replies == expected {
        return Ok(());
    }
    Err(format!("a server answers {}", String::from_utf8_lossy(&replies)))
}

fn encode(words: &[&str], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        into.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut bytes = Vec::new();
        encode(&["SET", "a", ""], &mut bytes);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
    }
}
