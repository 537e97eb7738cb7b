//! The keys of a database, page by page, and what is asked about all keys of a page at once.
//!
//! Invariant: the server is asked for no more at a time than SCAN gives, and a walk that was cut
//! off goes on at `cursor`.

use base::quote::escape;
use proto::value::Value;

use crate::client::Client;

/// A walk through the keys.
pub(super) struct Walk {
    cursor: Vec<u8>,
    pages: u64,
}

/// A request, as its words.
pub(super) type Words = Vec<Vec<u8>>;

/// The words of a request.
pub(super) fn words(name: &str, rest: &[&[u8]]) -> Words {
    let mut words = vec![name.as_bytes().to_vec()];
    words.extend(rest.iter().map(|word| word.to_vec()));
    words
}

impl Walk {
    /// A walk that begins where a cursor says.
    pub(super) fn from(cursor: u64) -> Walk {
        Walk { cursor: cursor.to_string().into_bytes(), pages: 0 }
    }

    /// The next keys; none once the walk is over.
    pub(super) fn next(&mut self, client: &mut Client) -> Result<Option<Vec<Vec<u8>>>, String> {
        if self.pages > 0 && self.cursor == b"0" {
            return Ok(None);
        }
        let mut request = words("SCAN", &[&self.cursor]);
        if let Some(pattern) = &client.options.pattern {
            request.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = client.options.scan_count {
            request.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        let Value::Array(parts) = client.ask(&request)? else { return Err(STRANGE.to_owned()) };
        let [next, Value::Array(keys)] = parts.as_slice() else { return Err(STRANGE.to_owned()) };
        self.cursor = next.as_bytes().ok_or(STRANGE)?.to_vec();
        self.pages += 1;
        Ok(Some(keys.iter().filter_map(Value::as_bytes).map(<[u8]>::to_vec).collect()))
    }

    /// Where the walk goes on.
    pub(super) fn cursor(&self) -> String {
        escape(&self.cursor)
    }

    /// Whether there is more.
    pub(super) fn is_over(&self) -> bool {
        self.pages > 0 && self.cursor == b"0"
    }

    /// Leaves the server alone for as long as was asked for, once in a hundred pages.
    pub(super) fn pause(&self, client: &Client) {
        if let Some(interval) = client.options.interval
            && self.pages.is_multiple_of(PAGES_PER_PAUSE)
        {
            std::thread::sleep(interval);
        }
    }
}

/// How many pages are asked for between pauses.
const PAGES_PER_PAUSE: u64 = 100;

const STRANGE: &str = "Non ARRAY response from SCAN!";

/// How many keys the database has.
pub(super) fn key_count(client: &mut Client) -> Result<u64, String> {
    match client.ask(&["DBSIZE"]).map_err(|why| format!("Couldn't determine DBSIZE: {why}"))? {
        Value::Integer(count) => Ok(u64::try_from(count).unwrap_or_default()),
        _ => Err("Non INTEGER response from DBSIZE!".to_owned()),
    }
}

/// The types of keys. A key that is gone has none.
pub(super) fn types(client: &mut Client, keys: &[Vec<u8>]) -> Result<Vec<Option<String>>, String> {
    let requests: Vec<Words> = keys.iter().map(|key| words("TYPE", &[key])).collect();
    let replies = client.ask_all(&requests)?;
    replies.iter().map(type_of).collect()
}

fn type_of(reply: &Value) -> Result<Option<String>, String> {
    match reply {
        Value::Error(line) => {
            Err(format!("TYPE returned an error: {}", String::from_utf8_lossy(line)))
        }
        name => {
            let name = String::from_utf8_lossy(name.as_bytes().unwrap_or_default()).into_owned();
            Ok(Some(name).filter(|name| name != "none"))
        }
    }
}

/// What is measured of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// How many elements or bytes a value has.
    Length,
    /// How much memory a key takes.
    Memory,
}

/// A type of keys: its name, the command that tells how much a value holds, and of what.
pub(super) const TYPES: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("hash", "HLEN", "fields"),
    ("stream", "XLEN", "entries"),
    ("set", "SCARD", "members"),
    ("zset", "ZCARD", "members"),
];

/// What the values of a type are counted in.
pub(super) fn unit_of(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|it| it.0 == name).map(|it| it.2)
}

/// What keys, which are given with their types, measure. A key that cannot be measured counts as
/// nothing, and is told.
pub(super) fn sizes(
    client: &mut Client,
    keys: &[(Vec<u8>, String)],
    measure: Measure,
) -> Result<Vec<u64>, String> {
    let samples = client.options.memory_samples.map(|count| count.to_string());
    let requests: Vec<Option<Words>> = keys
        .iter()
        .map(|(key, name)| match (measure, &samples) {
            (Measure::Memory, None) => Some(words("MEMORY", &[b"USAGE", key])),
            (Measure::Memory, Some(count)) => {
                Some(words("MEMORY", &[b"USAGE", key, b"SAMPLES", count.as_bytes()]))
            }
            (Measure::Length, _) => {
                let command = TYPES.iter().find(|it| it.0 == name)?.1;
                Some(words(command, &[key]))
            }
        })
        .collect();
    let sent: Vec<Words> = requests.iter().flatten().cloned().collect();
    let mut replies = client.ask_all(&sent)?.into_iter();
    let mut sizes = Vec::with_capacity(keys.len());
    for ((key, _), request) in keys.iter().zip(&requests) {
        let reply = request.as_ref().and_then(|_| replies.next());
        if let (Some(request), Some(Value::Error(_))) = (request, &reply) {
            let command = String::from_utf8_lossy(&request[0]);
            eprintln!("Warning:  {command} on '{}' failed (may have changed type)", escape(key));
        }
        sizes.push(match reply {
            Some(Value::Integer(size)) => u64::try_from(size).unwrap_or_default(),
            _ => 0,
        });
    }
    Ok(sizes)
}
