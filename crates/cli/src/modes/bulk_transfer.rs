//! The snapshot that a primary sends in answer to SYNC, and how it is asked for.
//!
//! Invariant: the bytes given out are those of the snapshot, without the mark behind it.

use proto::value::Value;

use crate::connection::{Connection, Failure};

/// How the end of a snapshot is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BulkEnd {
    /// After so many bytes.
    After(u64),
    /// By a mark.
    Mark(Vec<u8>),
    /// There is no snapshot: the stream goes on.
    Nothing,
}

/// How long a mark is.
const MARK_LEN: usize = 40;

/// Says something about this replica; whether the primary knows it.
pub(super) fn announce(connection: &mut Connection, words: [&str; 2]) -> Result<bool, String> {
    eprintln!("sending REPLCONF {} {}", words[0], words[1]);
    match connection.call(&["REPLCONF", words[0], words[1]]) {
        Ok(Value::Error(line)) => {
            eprintln!("REPLCONF {} error: {}", words[0], String::from_utf8_lossy(&line));
            Ok(false)
        }
        Ok(_) => Ok(true),
        Err(failure) => Err(format!("Error: {failure}")),
    }
}

/// What the primary says to SYNC or PSYNC.
pub(super) fn head(connection: &mut Connection) -> Result<BulkEnd, String> {
    let line =
        line(connection).map_err(|it| format!("Error reading bulk length while SYNCing: {it}"))?;
    if let Some(mark) = line.strip_prefix(b"$EOF:") {
        return Ok(BulkEnd::Mark(mark.to_vec()));
    }
    if line.starts_with(b"+FULLRESYNC") {
        return head(connection);
    }
    if line.starts_with(b"+CONTINUE") {
        return Ok(BulkEnd::Nothing);
    }
    let length = line.strip_prefix(b"$").and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
    let refused = || format!("SYNC with master failed: {}", String::from_utf8_lossy(&line));
    length.map(BulkEnd::After).ok_or_else(refused)
}

/// A line that is not empty: empty ones say that the primary is still there.
fn line(connection: &mut Connection) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_MAX {
        connection.wait(None, None)?;
        connection.read(&mut byte)?;
        match byte[0] {
            b'\n' if line.is_empty() => {}
            b'\n' => break,
            b'\r' => {}
            other => line.push(other),
        }
    }
    Ok(line)
}

/// No line is longer.
const LINE_MAX: usize = 4096;

/// Gives out the snapshot; how many bytes it has.
pub(super) fn receive(
    connection: &mut Connection,
    end: &BulkEnd,
    mut sink: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<u64, String> {
    let mut tail = BulkTail { end, held: Vec::new(), count: 0 };
    let mut buffer = vec![0; 64 << 10];
    while !tail.is_complete() {
        let most = tail.wanted(buffer.len());
        let read = connection.wait(None, None).and_then(|_| connection.read(&mut buffer[..most]));
        let count = read.map_err(|it| format!("Error reading RDB payload while SYNCing: {it}"))?;
        sink(&tail.take(&buffer[..count]))?;
    }
    Ok(tail.count)
}

/// Where a transfer is.
struct BulkTail<'a> {
    end: &'a BulkEnd,
    /// The last bytes, which may be the mark.
    held: Vec<u8>,
    count: u64,
}

impl BulkTail<'_> {
    fn is_complete(&self) -> bool {
        match self.end {
            BulkEnd::After(length) => self.count == *length,
            BulkEnd::Mark(mark) => self.held == *mark,
            BulkEnd::Nothing => true,
        }
    }

    /// How many bytes may be read.
    fn wanted(&self, most: usize) -> usize {
        match self.end {
            BulkEnd::After(length) => {
                usize::try_from(length - self.count).map_or(most, |left| left.min(most))
            }
            BulkEnd::Mark(_) | BulkEnd::Nothing => most,
        }
    }

    /// What of the bytes so far is certainly no mark.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let kept = match self.end {
            BulkEnd::Mark(mark) => mark.len().min(MARK_LEN),
            BulkEnd::After(_) | BulkEnd::Nothing => 0,
        };
        let certain = self.held.len().saturating_sub(kept);
        self.count += certain as u64;
        self.held.drain(..certain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{BulkEnd, BulkTail};

    #[test]
    fn a_mark_is_found_however_it_is_cut() {
        let mark = b"0123456789012345678901234567890123456789".to_vec();
        let content = [b"REDIS0011 012345678901234567890".to_vec(), mark.clone()].concat();
        let end = BulkEnd::Mark(mark.clone());
        for piece in [1, 3, 39, 40, 41, content.len()] {
            let mut tail = BulkTail { end: &end, held: Vec::new(), count: 0 };
            let mut given = Vec::new();
            for bytes in content.chunks(piece) {
                assert!(!tail.is_complete(), "{piece}");
                given.extend(tail.take(bytes));
            }
            assert!(tail.is_complete());
            assert_eq!(given, content[..content.len() - mark.len()], "{piece}");
            assert_eq!(tail.count, given.len() as u64);
        }
    }

    #[test]
    fn no_more_is_read_than_there_is() {
        let end = BulkEnd::After(5);
        let mut tail = BulkTail { end: &end, held: Vec::new(), count: 0 };
        assert_eq!((tail.wanted(3), tail.take(b"abc")), (3, b"abc".to_vec()));
        assert_eq!((tail.wanted(3), tail.take(b"de")), (2, b"de".to_vec()));
        assert!(tail.is_complete());
    }
}
