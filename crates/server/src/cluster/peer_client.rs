//! A connection to the port for clients of another node: requests, and their answers.
//!
//! Invariants: no request takes longer than it may; what a peer answers takes memory only as its
//! bytes arrive, and no more than a list of all slots does.

use std::io::{Error, ErrorKind, Read, Result as IoResult, Write};
use std::time::Duration;

use base::io_error_text::strerror;
use base::time::Clock;
use cluster::NodeId;
use config::settings::{MASTERAUTH, MASTERUSER};
use proto::args::encode_command;
use proto::value::{ReplyLimits, ReplyParser, Value};

use super::peer_socket::{PeerSocket, has_not_ended};
use crate::cluster::start::ClusterContext;

/// So long a peer may take for a word.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answer is no greater.
const LIMITS: ReplyLimits = ReplyLimits { bulk: 1 << 20, elements: 1 << 20, depth: 8 };

/// The connection.
pub(crate) struct PeerClient {
    socket: PeerSocket,
    parser: ReplyParser,
    clock: &'static Clock,
    /// Whether nothing but whole answers has come.
    is_usable: bool,
}

impl PeerClient {
    /// Connects, and says who asks where `masterauth` is set.
    pub(crate) fn connect(start: ClusterContext, node: NodeId) -> Result<Self, String> {
        let socket = PeerSocket::connect(start, node, PATIENCE)?;
        let clock = start.server.keyspace.clock();
        let parser = ReplyParser::new(LIMITS);
        let mut peer = Self { socket, parser, clock, is_usable: true };
        let config = &start.server.config;
        let (user, password) = (config.get(MASTERUSER), config.get(MASTERAUTH));
        if !password.is_empty() {
            let words: [&[u8]; 3] = [b"AUTH", &user, &password];
            let words: Vec<&[u8]> = words.into_iter().filter(|word| !word.is_empty()).collect();
            peer.ask(&words)?;
        }
        Ok(peer)
    }

    /// Whether the connection may be used for another request.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_usable
    }

    /// Whether the other node says that it has a command. An error says what became of the
    /// connection, which is of no use then: the answer may come yet.
    pub(super) fn has_command(&mut self, full_name: &str) -> Result<bool, String> {
        match self.ask(&[b"COMMAND", b"INFO", full_name.as_bytes()]) {
            Ok(Value::Array(told)) => Ok(matches!(told[..], [Value::Array(_)])),
            Err(why) if !self.is_usable => Err(why),
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// The connection, once all that was asked is answered.
    pub(super) fn into_socket(self) -> PeerSocket {
        self.socket
    }

    /// Asks, and gives the answer; an error is the peer's own, or says what became of the
    /// connection.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Value, String> {
        self.send(words)?;
        self.receive(PATIENCE)
    }

    /// Asks for what is to be received later.
    pub(crate) fn send(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        encode_command(words.iter().copied(), &mut bytes);
        let limited = self.socket.transport().set_write_timeout(Some(PATIENCE));
        let sent = limited.and_then(|()| self.socket.write_all(&bytes));
        let sent = sent.and_then(|()| self.socket.flush());
        sent.map_err(|error| self.give_up(&error))
    }

    /// The next answer.
    pub(crate) fn receive(&mut self, patience: Duration) -> Result<Value, String> {
        match self.read(patience).map_err(|error| self.give_up(&error))? {
            Value::Error(line) => Err(String::from_utf8_lossy(&line).into_owned()),
            value => Ok(value),
        }
    }

    fn give_up(&mut self, error: &Error) -> String {
        self.is_usable = false;
        strerror(error)
    }

    fn read(&mut self, patience: Duration) -> IoResult<Value> {
        let until_us = self.clock.monotonic_us() + patience.as_micros() as i64;
        let mut chunk = [0; 16 * 1024];
        loop {
            let next = self.parser.next_reply();
            if let Some(value) = next.map_err(|why| Error::new(ErrorKind::InvalidData, why))? {
                return Ok(value);
            }
            let left_us = u64::try_from(until_us - self.clock.monotonic_us()).unwrap_or(0);
            if left_us == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.transport().set_read_timeout(Some(Duration::from_micros(left_us)))?;
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.parser.feed(&chunk[..count]),
                Err(error) if has_not_ended(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
