//! The little of RESP that asking and ordering a server takes. Invariant: every reply is read and
//! must be of the expected form.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A new connection that gives up when it is not answered.
pub(super) fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let outcome = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_nodelay(true));
    outcome.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// A command on this connection; the first line of its reply.
pub(super) fn line(mut stream: &TcpStream, words: &[&str]) -> Result<String, String> {
    let sent = stream.write_all(&encode(words));
    sent.map_err(|error| format!("{}: {error}", words.join(" ")))?;
    read_line(&mut BufReader::new(stream), words)
}

/// A command that is answered by OK.
pub(super) fn order(port: u16, words: &[&str]) -> Result<(), String> {
    match line(&connect(port)?, words)?.as_str() {
        "+OK" => Ok(()),
        other => Err(format!("{}: {other}", words.join(" "))),
    }
}

/// Sends requests without waiting for each reply; all of them must be answered by integers or OK.
pub(super) fn feed(port: u16, requests: impl Iterator<Item = Vec<String>>) -> Result<(), String> {
    /// Few enough that neither side's buffers fill while the other still writes.
    const AT_ONCE: usize = 64;
    let mut stream = connect(port)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
    let mut requests = requests.peekable();
    while requests.peek().is_some() {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for request in requests.by_ref().take(AT_ONCE) {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            bytes.extend(encode(&words));
            count += 1;
        }
        stream.write_all(&bytes).map_err(|error| error.to_string())?;
        for _ in 0..count {
            let line = read_line(&mut reader, &["a request"])?;
            if !line.starts_with(':') && line != "+OK" {
                return Err(format!("a request is answered by {line}"));
            }
        }
    }
    Ok(())
}

/// A command that is answered by a text.
pub(super) fn text(port: u16, words: &[&str]) -> Result<String, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", words.join(" "));
    let mut stream = connect(port)?;
    stream.write_all(&encode(words)).map_err(|error| failed(&error))?;
    let mut reader = BufReader::new(stream);
    let head = read_line(&mut reader, words)?;
    let length = head.strip_prefix('$').and_then(|length| length.parse().ok());
    let length: u64 = length.ok_or_else(|| failed(&head))?;
    let mut text = String::new();
    reader.take(length).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Ok(text)
}

fn read_line(reader: &mut impl BufRead, words: &[&str]) -> Result<String, String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line);
    read.map_err(|error| format!("{}: {error}", words.join(" ")))?;
    Ok(line.trim_end().to_owned())
}

/// A command as clients send it.
pub(super) fn encode(words: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    request.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        assert_eq!(encode(&["SET", "a", ""]), b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
    }
}
