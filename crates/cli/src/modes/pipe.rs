//! `--pipe`: sends the protocol as it stands on the standard input, and counts the replies.
//!
//! Invariant: replies are read while requests are sent, so neither side waits for the other; the
//! end is known by an ECHO of random bytes, which no other reply has.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use base::Random;
use proto::value::Value;

use crate::client::{Client, print};
use crate::connection::{Connection, Failure, encode};

/// What is under way.
struct Transfer {
    /// Bytes to send, and how many of them have been.
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether the connection keeps bytes that have been sent.
    holds_bytes: bool,
    /// Whether the input has ended.
    is_read: bool,
    /// What the last reply will be.
    last: Vec<u8>,
    replies: u64,
    errors: u64,
}

/// What the end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The last reply.
    Complete,
    /// The time without a reply.
    TooLong,
}

/// Sends all of the input and tells how it went.
pub(crate) fn pipe(client: &mut Client) -> Result<ExitCode, String> {
    client.connect()?;
    let patience = client.options.pipe_timeout;
    let connection = client.connection()?;
    let mut transfer = Transfer::new();
    let end = transfer.run(connection, patience).map_err(|failure| match failure {
        Failure::Closed => "Error reading from the server: Server closed the connection".to_owned(),
        other => format!("Error: {other}"),
    })?;
    match end {
        End::Complete => print(b"Last reply received from server.\n"),
        End::TooLong => {
            let seconds = patience.unwrap_or_default().as_secs();
            eprintln!("No replies for {seconds} seconds: exiting.");
            transfer.errors += 1;
        }
    }
    let Transfer { errors, replies, .. } = transfer;
    print(format!("errors: {errors}, replies: {replies}\n").as_bytes());
    Ok(if errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How much of the input is taken at a time.
const PIECE: usize = 16 << 10;

impl Transfer {
    fn new() -> Transfer {
        let mut random = Random::from_entropy();
        let mut letters = std::iter::from_fn(|| Some(b'a' + random.below(26) as u8));
        Transfer {
            outgoing: Vec::new(),
            sent: 0,
            holds_bytes: false,
            is_read: false,
            last: letters.by_ref().take(20).collect(),
            replies: 0,
            errors: 0,
        }
    }

    fn run(
        &mut self,
        connection: &mut Connection,
        patience: Option<Duration>,
    ) -> Result<End, Failure> {
        connection.set_waiting(false)?;
        loop {
            if self.count_replies(connection)? {
                return Ok(End::Complete);
            }
            let has_sent = self.sent == self.outgoing.len() && !self.holds_bytes;
            let input = std::io::stdin();
            let wanted = (has_sent && !self.is_read).then(|| input.as_fd());
            let time = patience.filter(|_| has_sent && self.is_read);
            let ready = connection.wait_for_any(!has_sent, wanted, time)?;
            if ready.has_bytes {
                connection.try_take_in()?;
            } else if ready.has_input {
                self.take_input()?;
            } else if !ready.may_send {
                return Ok(End::TooLong);
            }
            if ready.may_send || ready.has_input {
                self.send(connection)?;
            }
        }
    }

    /// Counts what has come; whether the last reply is among it.
    fn count_replies(&mut self, connection: &mut Connection) -> Result<bool, Failure> {
        while let Some(reply) = connection.parsed()? {
            match reply {
                Value::Bulk(bytes) if self.is_read && bytes == self.last => return Ok(true),
                Value::Push(_) => continue,
                Value::Error(line) => {
                    eprintln!("{}", String::from_utf8_lossy(&line));
                    self.errors += 1;
                }
                _ => {}
            }
            self.replies += 1;
        }
        Ok(false)
    }

    /// Takes a piece of the input. At its end stands the request whose reply will be the last one;
    /// an end of line before it completes what was broken off.
    fn take_input(&mut self) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE];
        let read = rustix::io::read(std::io::stdin(), &mut piece);
        let count = read.map_err(|error| Failure::Io(error.into()))?;
        self.sent = 0;
        self.outgoing.clear();
        self.outgoing.extend_from_slice(&piece[..count]);
        if count == 0 {
            self.is_read = true;
            self.outgoing.extend_from_slice(b"\r\n");
            encode(&mut self.outgoing, &[b"ECHO", self.last.as_slice()]);
        }
        Ok(())
    }

    fn send(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let was_sent = self.sent == self.outgoing.len() && !self.holds_bytes;
        let (count, has_left) = connection.try_send(&self.outgoing[self.sent..])?;
        self.sent += count;
        self.holds_bytes = !has_left;
        if self.is_read && !was_sent && self.sent == self.outgoing.len() && has_left {
            print(b"All data transferred. Waiting for the last reply...\n");
        }
        Ok(())
    }
}
