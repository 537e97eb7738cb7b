//! Where replies end in a stream that is passed on byte for byte.
//!
//! The server at the other end may be hostile: nothing is allocated, and a byte is looked at once
//! however the stream is cut. So a line may be as long as any string: a script's status is.
//!
//! Invariant: between two replies the scanner has no memory of the first.

use base::number::parse_i64;

use crate::value::ReplyError;

/// A header is no longer than this, with its CR LF.
const HEADER_MAX: usize = 32;

/// One reply has no more elements, at all levels together.
const ELEMENTS_MAX: u64 = 1 << 32;

/// Finds the ends of replies, in either protocol.
#[derive(Debug, Default)]
pub struct ReplyScanner {
    /// The first bytes of the line that has begun, and how many have come of it.
    head: [u8; HEADER_MAX],
    line: usize,
    /// Bytes of a string that are still to come, with their CR LF.
    string: u64,
    /// Values that are still to come.
    missing: u64,
}

/// What came of a look at a piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// So many bytes are of the present reply.
    pub bytes: usize,
    /// Whether the reply ends with them.
    pub is_whole: bool,
}

impl ReplyScanner {
    /// Looks at what comes next of the stream, up to the end of the present reply. After an error
    /// the stream is lost.
    ///
    /// # Errors
    /// If no server writes that.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Scanned, ReplyError> {
        let mut at = 0;
        while at < bytes.len() {
            if self.string > 0 {
                let step = usize::try_from(self.string).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += step;
                self.string -= step as u64;
                if self.string > 0 {
                    break;
                }
                self.missing -= 1;
            } else {
                let (taken, is_whole) = self.take_line(&bytes[at..])?;
                at += taken;
                if !is_whole {
                    break;
                }
            }
            if self.missing == 0 {
                return Ok(Scanned { bytes: at, is_whole: true });
            }
        }
        Ok(Scanned { bytes: at, is_whole: false })
    }

    /// Whether a reply has begun and not ended.
    pub fn is_midway(&self) -> bool {
        self.missing > 0 || self.line > 0
    }

    /// Takes a line, or the part of it that is there; how many bytes, and whether it is whole.
    fn take_line(&mut self, bytes: &[u8]) -> Result<(usize, bool), ReplyError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        let room = HEADER_MAX.saturating_sub(self.line).min(taken);
        if room > 0 {
            self.head[self.line..self.line + room].copy_from_slice(&bytes[..room]);
        }
        self.line += taken;
        if end.is_some() {
            self.end_line()?;
        }
        Ok((taken, end.is_some()))
    }

    fn end_line(&mut self) -> Result<(), ReplyError> {
        let length = std::mem::take(&mut self.line);
        // A value that is no element of another begins a reply.
        self.missing = self.missing.max(1);
        let kind = self.head[0];
        if length < 3 {
            return Err(ReplyError::LineEnd);
        }
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => self.missing -= 1,
            b'$' | b'!' | b'=' => match self.count(length)? {
                None => self.missing -= 1,
                Some(length) => self.string = length + 2,
            },
            b'*' | b'~' | b'>' => {
                let count = self.count(length)?.unwrap_or(0);
                self.expect(count)?;
                self.missing -= 1;
            }
            b'%' => {
                let count = self.count(length)?.unwrap_or(0);
                self.expect(count.saturating_mul(2))?;
                self.missing -= 1;
            }
            // What is said of a value is no value.
            b'|' => {
                let count = self.count(length)?.unwrap_or(0);
                self.expect(count.saturating_mul(2))?;
            }
            other => return Err(ReplyError::UnknownType(other)),
        }
        Ok(())
    }

    /// The number in the header that has come; none for -1.
    fn count(&self, length: usize) -> Result<Option<u64>, ReplyError> {
        let text = self.head.get(1..length - 2).ok_or(ReplyError::Malformed)?;
        match parse_i64(text).ok_or(ReplyError::Malformed)? {
            -1 => Ok(None),
            count => u64::try_from(count).map(Some).map_err(|_| ReplyError::Malformed),
        }
    }

    fn expect(&mut self, count: u64) -> Result<(), ReplyError> {
        self.missing = self.missing.saturating_add(count);
        if self.missing > ELEMENTS_MAX { Err(ReplyError::TooMany) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReplyScanner, Scanned};
    use crate::value::ReplyError;

    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$5\r\na\r\nbc\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        "%1\r\n+a\r\n~2\r\n_\r\n#t\r\n",
        "%0\r\n",
        "=7\r\ntxt:abc\r\n",
        "!5\r\nERR x\r\n",
        ",1.5\r\n",
        "(12345678901234567890123456789012345678901234567890\r\n",
        ">2\r\n+a\r\n+b\r\n",
        "|1\r\n+ttl\r\n:1\r\n*1\r\n|0\r\n:2\r\n",
        "+a line that is longer than any header, as texts of errors are, and goes on and on\r\n",
    ];

    /// The ends of the replies of a stream that comes in pieces of this length.
    fn ends(stream: &[u8], piece: usize) -> Vec<usize> {
        let (mut scanner, mut found, mut from) = (ReplyScanner::default(), Vec::new(), 0);
        for chunk in stream.chunks(piece) {
            let mut at = 0;
            while at < chunk.len() {
                let Scanned { bytes, is_whole } = scanner.advance(&chunk[at..]).unwrap();
                at += bytes;
                if is_whole {
                    assert!(!scanner.is_midway());
                    found.push(from + at);
                } else {
                    assert_eq!(at, chunk.len());
                    assert!(scanner.is_midway());
                }
            }
            from += chunk.len();
        }
        found
    }

    #[test]
    fn replies_end_where_the_next_begin_however_they_come() {
        let stream = REPLIES.concat();
        let expected: Vec<usize> = REPLIES
            .iter()
            .scan(0, |end, reply| {
                *end += reply.len();
                Some(*end)
            })
            .collect();
        for piece in (1..40).chain([stream.len()]) {
            assert_eq!(ends(stream.as_bytes(), piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn what_no_server_writes_is_an_error() {
        for (text, error) in [
            ("?x\r\n", ReplyError::UnknownType(b'?')),
            ("$x\r\n", ReplyError::Malformed),
            ("$-2\r\n", ReplyError::Malformed),
            ("*99999999999999\r\n", ReplyError::TooMany),
            ("$1111111111111111111111111111111111111\r\n", ReplyError::Malformed),
            ("\r\n", ReplyError::LineEnd),
        ] {
            assert_eq!(ReplyScanner::default().advance(text.as_bytes()), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_line_is_as_long_as_its_server_makes_it() {
        let line = [b"+".as_slice(), &vec![b'x'; 5 << 20], b"\r\n"].concat();
        let stream = [&line[..], b":1\r\n", &line].concat();
        let expected = [line.len(), line.len() + 4, stream.len()];
        for piece in [stream.len(), 1 << 20, 4099] {
            assert_eq!(ends(&stream, piece), expected, "pieces of {piece}");
        }
    }
}
