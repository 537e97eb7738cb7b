//! A client of HTTP that sends what it is told, and shows all that comes back.
//!
//! Invariant: one connection for each request.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// The status, the head in lower case, and the body of an answer.
pub struct Answer {
    /// The number of the status.
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    /// What follows them.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.body))
    }
}

/// Sends a request with these further headers, each with its line end, and this body.
pub fn send(port: u16, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = match method {
        "POST" => format!("Content-Length: {}\r\n", body.len()),
        _ => String::new(),
    };
    let host = match headers.contains("Host:") {
        true => "",
        false => "Host: localhost\r\n",
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{length}{headers}\r\n{body}"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let answer = receive(&mut stream, method == "HEAD");
    let text = String::from_utf8(answer).expect("an answer is a text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let head = head.to_ascii_lowercase();
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    Answer { status, head, body }
}

/// A body that came in pieces, each behind its length.
fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, pieces)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        let (piece, more) = pieces.split_at(length);
        body.push_str(piece);
        rest = more.strip_prefix("\r\n").unwrap_or(more);
    }
    body
}

/// An answer from its first byte to its last; some servers keep the connection open behind it.
fn receive(stream: &mut TcpStream, has_no_body: bool) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).expect("it is answered");
        answer.extend_from_slice(&buffer[..count]);
        if count == 0 || length(&answer, has_no_body).is_some_and(|length| answer.len() >= length) {
            return answer;
        }
    }
}

/// The length of an answer, once its head is there and says so.
fn length(answer: &[u8], has_no_body: bool) -> Option<usize> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let body = text.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    Some(if has_no_body { head } else { head + body.trim().parse::<usize>().expect("a number") })
}
