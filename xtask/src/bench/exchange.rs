//! Load of requests that are bytes, by a thread of this process on cores of its own. Invariant: all
//! replies are read, and are as long as they must be; what comes too late is an error.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::pipe;
use crate::shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps this thread, and those that it starts, on these cores.
pub(super) fn stay_on(cores: &str) -> Result<(), String> {
    let own = std::process::id().to_string();
    shell::output(&mut shell::command("taskset", &["-cp", cores, &own])).map(drop)
}

/// Connections that send what they are given again and again.
pub(super) struct Exchange {
    streams: Vec<TcpStream>,
    requests: Vec<Vec<u8>>,
    /// How many were sent.
    sent: usize,
    reply: Vec<u8>,
}

impl Exchange {
    /// Requests that are answered by so many bytes each. They are sent in turn.
    pub(super) fn new(
        port: u16,
        connections: usize,
        requests: Vec<Vec<u8>>,
        reply: usize,
    ) -> Result<Self, String> {
        let streams: Result<_, _> = (0..connections).map(|_| pipe::connect(port)).collect();
        Ok(Self { streams: streams?, requests, sent: 0, reply: vec![0; reply] })
    }

    /// Sends so many on each connection.
    pub(super) fn run(&mut self, times: u64) -> Result<(), String> {
        for _ in 0..times {
            for stream in &mut self.streams {
                let request = &self.requests[self.sent % self.requests.len()];
                self.sent += 1;
                stream.write_all(request).map_err(|error| error.to_string())?;
            }
            for stream in &mut self.streams {
                stream.read_exact(&mut self.reply).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The last reply.
    pub(super) fn reply(&self) -> &[u8] {
        &self.reply
    }
}

/// One who publishes messages of 64 bytes, and who hears them.
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
        let streams = exchange.streams;
        for stream in &streams {
            stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        }
        Ok(Self { streams })
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
