//! Clients that look on while writers write: what they were shown must outlive a crash.
//!
//! Invariant: a witness looks on until its connection ends, and then tells the highest number that
//! it saw of each writer.

use std::io;
use std::time::Duration;

use proto::value::Value;

use crate::client::{Arrival, Client};
use crate::ledger::Writer;
use crate::process::PATIENCE;
use crate::render::text;

/// Keys that a writer leaves numbers of steps under; the second and third are one unit's.
const NUMBERED: [&str; 5] = ["s", "a", "b", "c", "e"];

/// The channel on which an increase of a writer's count of units is told.
fn count_channel(writer: &Writer) -> String {
    format!("__keyspace@0__:{}", writer.key("t"))
}

/// What was seen of a writer.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// The highest number of a step.
    pub step: u64,
    /// How many units were told to have happened.
    pub units: u64,
}

impl Seen {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { step: self.step.max(other.step), units: self.units.max(other.units) }
    }
}

/// A way of looking on.
pub type Witness = fn(Client, &[Writer], &mut [Seen]) -> io::Result<()>;

/// All ways of looking on; keyspace notifications must be on.
pub const WITNESSES: [Witness; 3] = [read, listen, keep_copies];

/// Looks on until the connection ends.
pub fn look_on(port: u16, writers: &[Writer], witness: Witness) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); writers.len()];
    if let Ok(client) = Client::try_connect(port) {
        // However the watching ended: what was seen counts.
        let _ = witness(client, writers, &mut seen);
    }
    seen
}

/// Reads what writers write.
fn read(mut client: Client, writers: &[Writer], seen: &mut [Seen]) -> io::Result<()> {
    loop {
        for (writer, seen) in writers.iter().zip(&mut *seen) {
            let mut words = vec!["MGET".to_owned()];
            words.extend(NUMBERED.map(|suffix| writer.key(suffix)));
            let reply = client.try_call(&words)?;
            let Value::Array(values) = reply else { panic!("MGET: {reply:?}") };
            assert_eq!(values[1], values[2], "half a unit was seen");
            values.iter().for_each(|value| seen.note(value));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Hears of units by their own messages and by keyspace notifications.
fn listen(mut client: Client, writers: &[Writer], seen: &mut [Seen]) -> io::Result<()> {
    let news: Vec<String> = writers.iter().map(|writer| writer.key("news")).collect();
    let counts: Vec<String> = writers.iter().map(count_channel).collect();
    let mut words = vec!["SUBSCRIBE"];
    words.extend(news.iter().chain(&counts).map(String::as_str));
    let mut reply = client.try_call(&words)?;
    loop {
        let Value::Array(parts) = &reply else { panic!("a message: {reply:?}") };
        if text(&parts[0]) == "message" {
            let channel = text(&parts[1]);
            if let Some(at) = news.iter().position(|name| *name == channel) {
                seen[at].note(&parts[2]);
            } else if let Some(at) = counts.iter().position(|name| *name == channel) {
                seen[at].units += u64::from(text(&parts[2]) == "incrby");
            }
        }
        reply = next(&mut client)?;
    }
}

/// Keeps copies, and reads anew what is told to have changed.
fn keep_copies(mut client: Client, writers: &[Writer], seen: &mut [Seen]) -> io::Result<()> {
    client.try_call(&["HELLO", "3"])?;
    let prefixes = writers.iter().flat_map(|writer| ["PREFIX".to_owned(), writer.key("")]);
    let words = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned);
    client.try_call(&words.into_iter().chain(prefixes).collect::<Vec<_>>())?;
    let keys: Vec<(usize, String)> = writers
        .iter()
        .enumerate()
        .flat_map(|(at, writer)| NUMBERED.map(|suffix| (at, writer.key(suffix))))
        .collect();
    let mut asked = std::collections::VecDeque::new();
    loop {
        match next(&mut client)? {
            Value::Push(parts) => {
                let Some(Value::Array(changed)) = parts.get(1) else { continue };
                let changed: Vec<String> = changed.iter().map(text).collect();
                for (at, key) in keys.iter().filter(|(_, key)| changed.contains(key)) {
                    client.try_send_raw(&crate::client::encode(&["GET", key]))?;
                    asked.push_back(*at);
                }
            }
            reply => {
                let at = asked.pop_front().expect("replies are to what was asked");
                seen[at].note(&reply);
            }
        }
    }
}

impl Seen {
    /// Takes in a value that may be the number of a step.
    fn note(&mut self, value: &Value) {
        let number = value.as_bytes().and_then(|bytes| str::from_utf8(bytes).ok()?.parse().ok());
        self.step = self.step.max(number.unwrap_or(0));
    }
}

/// The next reply or message.
fn next(client: &mut Client) -> io::Result<Value> {
    match client.arrival(PATIENCE)? {
        Arrival::Reply(value) => Ok(value),
        Arrival::Silence => Err(io::ErrorKind::TimedOut.into()),
        Arrival::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
