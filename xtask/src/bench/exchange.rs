//! Load of requests that are bytes, by a thread of this process on cores of its own. Invariant: all
//! replies are read, and are as long as they must be; what comes too late is an error.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::pipe;
use crate::shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps this thread, and those that it starts, on these cores.
pub(super) fn stay_on(cores: &str) -> Result<(), String> {
    let own = std::process::id().to_string();
    shell::output(&mut shell::command("taskset", &["-cp", cores, &own])).map(drop)
}

/// Connections that send what they are given again and again, each its next request when it has
/// its reply, whatever the others do: as clients do that have nothing to do with each other.
pub(super) struct Exchange {
    connections: Vec<Connection>,
    poll: Poll,
    events: Events,
    requests: Vec<Vec<u8>>,
    /// How many were sent.
    sent: usize,
}

struct Connection {
    stream: mio::net::TcpStream,
    /// The last reply, as far as it has come.
    reply: Vec<u8>,
    received: usize,
    /// How many replies are still to come, the present one with them.
    missing: u64,
}

impl Exchange {
    /// Requests that are answered by so many bytes each. One is sent after the other.
    pub(super) fn new(
        port: u16,
        connections: usize,
        requests: Vec<Vec<u8>>,
        reply: usize,
    ) -> Result<Self, String> {
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let connect = |number| Connection::new(port, reply, &poll, Token(number));
        let connections: Result<_, _> = (0..connections).map(connect).collect();
        let events = Events::with_capacity(1024);
        Ok(Self { connections: connections?, poll, events, requests, sent: 0 })
    }

    /// Sends so many on each connection.
    pub(super) fn run(&mut self, times: u64) -> Result<(), String> {
        if times == 0 {
            return Ok(());
        }
        for connection in &mut self.connections {
            connection.missing = times;
            connection.send(next(&self.requests, &mut self.sent))?;
        }
        let mut busy = self.connections.len();
        while busy > 0 {
            let waited = self.poll.poll(&mut self.events, Some(PATIENCE));
            match waited {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
                Ok(()) if self.events.is_empty() => return Err("replies do not come".to_owned()),
                Ok(()) => {}
            }
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                // Ready is told once, so all is read that is there.
                while connection.receive()? {
                    connection.missing = connection.missing.saturating_sub(1);
                    if connection.missing == 0 {
                        busy -= 1;
                        break;
                    }
                    connection.send(next(&self.requests, &mut self.sent))?;
                }
            }
        }
        Ok(())
    }

    /// The last reply.
    pub(super) fn reply(&self) -> &[u8] {
        self.connections.first().map_or(&[], |connection| &connection.reply)
    }
}

/// The request that comes next.
fn next<'a>(requests: &'a [Vec<u8>], sent: &mut usize) -> &'a [u8] {
    *sent += 1;
    &requests[(*sent - 1) % requests.len()]
}

impl Connection {
    fn new(port: u16, reply: usize, poll: &Poll, token: Token) -> Result<Self, String> {
        let stream = pipe::connect(port)?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        let registered = poll.registry().register(&mut stream, token, Interest::READABLE);
        registered.map_err(|error| error.to_string())?;
        Ok(Self { stream, reply: vec![0; reply], received: 0, missing: 0 })
    }

    /// Sends a request; nothing is on its way, so there is nearly always room for it at once.
    fn send(&mut self, request: &[u8]) -> Result<(), String> {
        let mut rest = request;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Reads what is there; whether the reply is whole.
    fn receive(&mut self) -> Result<bool, String> {
        while self.missing > 0 {
            match self.stream.read(&mut self.reply[self.received..]) {
                Ok(0) => return Err("a connection was cut".to_owned()),
                Ok(length) => self.received += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
            if self.received == self.reply.len() {
                self.received = 0;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A publisher of messages of 64 bytes, and its subscribers.
pub(super) struct Broadcast {
    audience: Audience,
    publisher: Exchange,
    /// What each of the audience gets when the publisher has sent once.
    delivered: usize,
}

impl Broadcast {
    /// So many subscribers of a channel, and so many messages that are sent together.
    pub(super) fn new(port: u16, subscribers: usize, together: usize) -> Result<Self, String> {
        let text = "x".repeat(64);
        let delivered = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$64\r\n{text}\r\n").len();
        let requests = pipe::encode(&["PUBLISH", "news", &text]).repeat(together);
        let reply = format!(":{subscribers}\r\n").len();
        Ok(Self {
            audience: Audience::of(port, "news", subscribers)?,
            publisher: Exchange::new(port, 1, vec![requests], reply * together)?,
            delivered: delivered * together,
        })
    }

    /// Sends so many times, until all have heard all of it.
    pub(super) fn run(&mut self, times: u64) -> Result<(), String> {
        let bytes = times as usize * self.delivered;
        std::thread::scope(|scope| {
            let hearing = scope.spawn(|| self.audience.hear(bytes));
            self.publisher.run(times)?;
            hearing.join().expect("it returns its errors")
        })
    }
}

/// Connections that are told what others send.
struct Audience {
    streams: Vec<TcpStream>,
}

impl Audience {
    /// So many subscribers of a channel.
    fn of(port: u16, channel: &str, count: usize) -> Result<Self, String> {
        let request = pipe::encode(&["SUBSCRIBE", channel]);
        let reply = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len());
        let exchange = Exchange::new(port, count, vec![request], reply.len());
        let mut exchange = exchange?;
        exchange.run(1)?;
        let streams = exchange.connections.into_iter().map(|connection| connection.stream.into());
        Ok(Self { streams: streams.collect() })
    }

    /// Reads until each has got so many bytes.
    fn hear(&mut self, bytes: usize) -> Result<(), String> {
        /// A look that found nothing is followed by a rest: the next one finds more at once.
        const REST: Duration = Duration::from_micros(200);
        let mut missing = vec![bytes; self.streams.len()];
        let mut buffer = vec![0; 64 << 10];
        let deadline = Instant::now() + PATIENCE;
        while missing.iter().any(|count| *count > 0) {
            let mut heard = 0;
            for (stream, count) in self.streams.iter_mut().zip(&mut missing) {
                match stream.read(&mut buffer) {
                    Ok(0) => return Err("a subscriber was cut".to_owned()),
                    Ok(length) => {
                        heard += length;
                        *count = count.checked_sub(length).ok_or("more came than was sent")?;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            if heard == 0 {
                if Instant::now() > deadline {
                    return Err(format!("messages do not come: {missing:?}"));
                }
                sleep(REST);
            }
        }
        Ok(())
    }
}
