//! `lru_crawler metadump` and `mgdump`, and `stats cachedump`: all items, named one by one, to warm
//! another cache with.
//!
//! Invariants: a crawl visits one partition at a time, as SCAN does, so an item that stays is named
//! and none is named twice; keys are written so that no byte of theirs looks like the end of a
//! line.

use std::fmt::Write;

use base::number::parse_u64;
use config::settings::MEMCACHED_DUMP;
use engine::runtime::background::visiting;
use engine::session::Step;
use keyspace::{EntryRef, Kind, PARTITIONS, PartitionIndex, Refusal, Tx};
use proto::memcached::{Failure, Response};

use super::items::unix_seconds;
use super::{RequestContext, tuning};

/// How long the dump of a class is at the most, as in memcached.
const CLASS_DUMP_MAX: usize = 2 << 20;

/// Entries looked at before a lock is given back.
const STEP: usize = 256;

/// How items are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With what is known of them (`metadump`).
    Described,
    /// As commands that read them (`mgdump`).
    Named,
}

impl RequestContext<'_> {
    /// Names all items; `which` are the classes of slabs to look at, of which there is one.
    pub(super) fn dump(&mut self, which: &[u8], form: Form) -> Step {
        let server = self.server;
        if !server.config.get(MEMCACHED_DUMP) {
            return self.respond(Response::Line(b"ERROR metadump not allowed"));
        }
        let Some(is_wanted) = tuning::classes(which) else {
            return self.respond(Response::Line(tuning::BAD_CLASS));
        };
        let (keyspace, database) = (server.keyspace, self.session.database);
        self.on_a_lane(move |lane, reply| {
            let dumped = match is_wanted {
                false => Ok(()),
                true => visiting(keyspace, lane, database, |tx| {
                    each_item(tx, |entry, tx| {
                        reply.raw(line(entry, tx, form).as_bytes());
                        true
                    })
                }),
            };
            if dumped.is_err() {
                return reply.raw(BUSY);
            }
            reply.raw(match form {
                Form::Described => b"END\r\n",
                Form::Named => b"EN\r\n",
            });
        })
    }

    /// `stats cachedump CLASS LIMIT`: the items of a class, no more than that if it is not 0.
    pub(super) fn dump_class(&mut self, class: &[u8], limit: &[u8]) -> Step {
        let server = self.server;
        if !server.config.get(MEMCACHED_DUMP) {
            return self.fail(Failure::Client("stats cachedump not allowed"));
        }
        let (Some(class), Some(limit)) = (parse_u64(class), parse_u64(limit)) else {
            return self.fail(Failure::BadFormat);
        };
        if class >= tuning::CLASSES.end {
            return self.fail(Failure::Client("Illegal slab id"));
        }
        let mut left = if limit == 0 { u64::MAX } else { limit };
        let mut room = CLASS_DUMP_MAX;
        let (keyspace, database) = (server.keyspace, self.session.database);
        self.on_a_lane(move |lane, reply| {
            let dumped = match class {
                1 => visiting(keyspace, lane, database, |tx| {
                    each_item(tx, |entry, _| {
                        let Some(line) = short_line(entry) else { return true };
                        let fits = left > 0 && line.len() <= room;
                        if fits {
                            (left, room) = (left - 1, room - line.len());
                            reply.raw(&line);
                        }
                        fits
                    })
                }),
                _ => Ok(()),
            };
            reply.raw(if dumped.is_ok() { b"END\r\n" } else { BUSY });
        })
    }
}

/// What ends a dump that would have to wait too long for a partition.
const BUSY: &[u8] = b"SERVER_ERROR busy running a long command\r\n";

/// Visits all items until `tell` wants no more.
fn each_item(tx: &mut Tx, mut tell: impl FnMut(EntryRef<'_>, &Tx) -> bool) -> Result<(), Refusal> {
    let mut goes_on = true;
    for partition in 0..PARTITIONS as PartitionIndex {
        let mut position = Some(0);
        while let Some(from) = position.filter(|_| goes_on) {
            // Between two steps others may have the partition.
            tx.visit(partition)?;
            let seen = &*tx;
            position = seen.walk(partition, from, STEP, |entry| {
                if entry.kind() == Kind::String {
                    goes_on = goes_on && tell(entry, seen);
                }
            });
        }
    }
    Ok(())
}

fn line(entry: EntryRef<'_>, tx: &Tx, form: Form) -> String {
    let key = percent_encoded(entry.key());
    if form == Form::Named {
        let is_plain = key.len() == entry.key().len();
        return match is_plain {
            true => format!("mg {key}\r\n"),
            false => format!("mg {} b\r\n", base::base64::encode(entry.key())),
        };
    }
    let now = tx.now();
    let exp = entry.deadline().map_or(-1, unix_seconds);
    let idle = tx.idle_seconds(entry).unwrap_or(0);
    let la = unix_seconds(now) - i64::from(idle);
    let (cas, fetch) = (entry.version().unwrap_or(0), if entry.was_read() { "yes" } else { "no" });
    let size = entry.memory();
    // Of all lines this alone has half an end in memcached.
    format!("key={key} exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}\n")
}

/// An item in a dump of a class; `None` if its key is one that no line can hold.
fn short_line(entry: EntryRef<'_>) -> Option<Vec<u8>> {
    let key = entry.key();
    if key.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') {
        return None;
    }
    let exp = entry.deadline().map_or(0, unix_seconds);
    let size = entry.text()?.len();
    Some([b"ITEM ", key, format!(" [{size} b; {exp} s]\r\n").as_bytes()].concat())
}

/// A key as in an address: all but letters, digits and `-._~` by their numbers.
pub(super) fn percent_encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            _ => _ = write!(text, "%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;

    #[test]
    fn no_byte_of_a_key_ends_a_line() {
        assert_eq!(percent_encoded(b"a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(percent_encoded(b"a b\r\n\xff"), "a%20b%0D%0A%FF");
    }
}
