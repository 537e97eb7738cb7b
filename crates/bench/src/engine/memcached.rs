//! Replies of memcached as the generator needs them: where each ends and what it says.
//!
//! Invariants: a byte is looked at once, however the stream is cut; a value is skipped by its
//! length; nothing is allocated for a length that is only declared.

use base::number::parse_u64;
use proto::value::ReplyError;

use super::reply::{Nature, Reply};

/// Lines end within this many bytes.
const LINE_LIMIT: usize = 2048;

/// The length of a packet's header.
const HEADER_LENGTH: usize = 24;

/// The status of a packet that says that there is no such key.
const NOT_FOUND: u16 = 1;

/// Reads replies of the text protocol from pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct TextScanner {
    /// The beginning of a line that the last piece cut off.
    line: Vec<u8>,
    /// The bytes of a value that are missing, its line end included.
    missing: u64,
    keeps_values: bool,
    text: Vec<u8>,
    reply: Reply,
}

impl TextScanner {
    /// A scanner before the first reply. With `keeps_values` the values are copied.
    pub(super) fn new(keeps_values: bool) -> Self {
        Self { keeps_values, ..Self::default() }
    }

    /// Forgets what was begun: the stream is another one.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.keeps_values);
    }

    /// The value or error that the last reply was.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes one reply off the front of `input`; takes all of it and gives `None` while the reply
    /// is incomplete.
    #[inline]
    pub(super) fn scan(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        let length = input.len();
        let complete = self.scan_reply(input);
        self.reply.bytes += (length - input.len()) as u64;
        Ok(complete?.map(|nature| Reply { nature, ..std::mem::take(&mut self.reply) }))
    }

    fn scan_reply(&mut self, input: &mut &[u8]) -> Result<Option<Nature>, ReplyError> {
        while !input.is_empty() {
            if self.missing > 0 {
                self.take_value(input)?;
            } else if let Some(nature) = self.take_line(input)? {
                return Ok(Some(nature));
            }
        }
        Ok(None)
    }

    /// Takes what there is of a value and its line end.
    fn take_value(&mut self, input: &mut &[u8]) -> Result<(), ReplyError> {
        let taken = usize::try_from(self.missing).unwrap_or(usize::MAX).min(input.len());
        let (piece, rest) = input.split_at(taken);
        *input = rest;
        // What is left of the value itself, without its line end.
        let left = usize::try_from(self.missing.saturating_sub(2)).unwrap_or(usize::MAX);
        let value = left.min(taken);
        let (value, end) = piece.split_at(value);
        let wanted: &[u8] = if self.missing == 1 { b"\n" } else { b"\r\n" };
        if !wanted.starts_with(end) {
            return Err(ReplyError::LineEnd);
        }
        if self.keeps_values {
            self.text.extend_from_slice(value);
        }
        self.missing -= taken as u64;
        Ok(())
    }

    fn take_line(&mut self, input: &mut &[u8]) -> Result<Option<Nature>, ReplyError> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let (piece, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        if self.line.len() + piece.len() > LINE_LIMIT {
            return Err(ReplyError::LineTooLong);
        }
        if end.is_none() || !self.line.is_empty() {
            self.line.extend_from_slice(piece);
        }
        if end.is_none() {
            return Ok(None);
        }
        if self.line.is_empty() {
            return self.read_line(piece);
        }
        let mut whole = std::mem::take(&mut self.line);
        let nature = self.read_line(&whole);
        whole.clear();
        self.line = whole;
        nature
    }

    fn read_line(&mut self, line: &[u8]) -> Result<Option<Nature>, ReplyError> {
        let line = line.strip_suffix(b"\r\n").ok_or(ReplyError::LineEnd)?;
        if self.reply.hits == 0 {
            self.text.clear();
        }
        if let Some(words) = line.strip_prefix(b"VALUE ") {
            let length = words.split(|byte| *byte == b' ').nth(2).and_then(parse_u64);
            let length = length.and_then(|length| length.checked_add(2));
            self.missing = length.ok_or(ReplyError::Malformed)?;
            self.reply.hits += 1;
            return Ok(None);
        }
        Ok(Some(match line {
            b"END" if self.reply.hits == 0 => Nature::Null,
            b"END" | b"STORED" => Nature::Value,
            _ => {
                self.text.extend_from_slice(line);
                Nature::Error
            }
        }))
    }
}

/// Reads replies of the binary protocol from pieces of a stream.
#[derive(Debug)]
pub(super) struct PacketScanner {
    header: [u8; HEADER_LENGTH],
    /// The bytes of the packet that are here.
    taken: u64,
    keeps_values: bool,
    text: Vec<u8>,
}

impl PacketScanner {
    /// A scanner before the first reply. With `keeps_values` the values are copied.
    pub(super) fn new(keeps_values: bool) -> Self {
        Self { header: [0; HEADER_LENGTH], taken: 0, keeps_values, text: Vec::new() }
    }

    /// Forgets what was begun: the stream is another one.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.keeps_values);
    }

    /// The value or error that the last reply was.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes one reply off the front of `input`; takes all of it and gives `None` while the reply
    /// is incomplete.
    #[inline]
    pub(super) fn scan(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        if self.taken < HEADER_LENGTH as u64 {
            self.take_header(input)?;
            if self.taken < HEADER_LENGTH as u64 {
                return Ok(None);
            }
        }
        let header = &self.header;
        let status = u16::from_be_bytes([header[6], header[7]]);
        let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let whole = HEADER_LENGTH as u64 + u64::from(body);
        let left = usize::try_from(whole - self.taken).unwrap_or(usize::MAX);
        let (piece, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        self.keep(piece, status);
        self.taken += piece.len() as u64;
        if self.taken < whole {
            return Ok(None);
        }
        self.taken = 0;
        let nature = match status {
            0 => Nature::Value,
            NOT_FOUND => Nature::Null,
            _ => Nature::Error,
        };
        Ok(Some(Reply { nature, bytes: whole, ..Reply::default() }))
    }

    fn take_header(&mut self, input: &mut &[u8]) -> Result<(), ReplyError> {
        let from = self.taken as usize;
        let (piece, rest) = input.split_at((HEADER_LENGTH - from).min(input.len()));
        *input = rest;
        self.header[from..from + piece.len()].copy_from_slice(piece);
        self.taken += piece.len() as u64;
        self.text.clear();
        match self.header[0] {
            _ if self.taken == 0 => Ok(()),
            0x81 => Ok(()),
            other => Err(ReplyError::UnknownType(other)),
        }
    }

    /// Copies what is behind extras and key, where anyone will look at it.
    fn keep(&mut self, piece: &[u8], status: u16) {
        if !self.keeps_values && status == 0 {
            return;
        }
        let key = u64::from(u16::from_be_bytes([self.header[2], self.header[3]]));
        let value = HEADER_LENGTH as u64 + u64::from(self.header[4]) + key;
        let skipped = usize::try_from(value.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        self.text.extend_from_slice(piece.get(skipped..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{PacketScanner, TextScanner};
    use crate::engine::reply::{Nature, Reply};
    use proto::value::ReplyError;

    type Scan<'s> = &'s mut dyn FnMut(&mut &[u8]) -> Result<Option<(Reply, Vec<u8>)>, ReplyError>;

    /// What a stream says that comes in pieces of this size.
    fn scan_pieces(
        stream: &[u8],
        size: usize,
        scan: Scan<'_>,
    ) -> Result<Vec<(Reply, Vec<u8>)>, ReplyError> {
        let mut replies = Vec::new();
        for mut piece in stream.chunks(size) {
            while let Some(reply) = scan(&mut piece)? {
                replies.push(reply);
            }
            assert!(piece.is_empty());
        }
        Ok(replies)
    }

    fn texts(stream: &[u8], size: usize) -> Result<Vec<(Reply, Vec<u8>)>, ReplyError> {
        let mut scanner = TextScanner::new(true);
        scan_pieces(stream, size, &mut |input| {
            Ok(scanner.scan(input)?.map(|reply| (reply, scanner.text().to_vec())))
        })
    }

    fn packets(stream: &[u8], size: usize) -> Result<Vec<(Reply, Vec<u8>)>, ReplyError> {
        let mut scanner = PacketScanner::new(true);
        scan_pieces(stream, size, &mut |input| {
            Ok(scanner.scan(input)?.map(|reply| (reply, scanner.text().to_vec())))
        })
    }

    fn reply(nature: Nature, hits: u32, bytes: u64) -> Reply {
        Reply { nature, hits, misses: 0, bytes }
    }

    #[test]
    fn lines_are_replies_however_they_are_cut() {
        let stream = b"STORED\r\nEND\r\nVALUE a 0 5\r\na\r\nbc\r\nEND\r\nVALUE a 0 0\r\n\r\n\
            END\r\nSERVER_ERROR out of memory\r\nNOT_STORED\r\n";
        let expected = vec![
            (reply(Nature::Value, 0, 8), b"".to_vec()),
            (reply(Nature::Null, 0, 5), b"".to_vec()),
            (reply(Nature::Value, 1, 25), b"a\r\nbc".to_vec()),
            (reply(Nature::Value, 1, 20), b"".to_vec()),
            (reply(Nature::Error, 0, 28), b"SERVER_ERROR out of memory".to_vec()),
            (reply(Nature::Error, 0, 12), b"NOT_STORED".to_vec()),
        ];
        for size in 1..=stream.len() {
            assert_eq!(texts(stream, size), Ok(expected.clone()), "pieces of {size}");
        }
    }

    #[test]
    fn lines_that_cannot_be_understood() {
        for size in [1, 3, 100] {
            assert_eq!(texts(b"STORED\n", size), Err(ReplyError::LineEnd));
            assert_eq!(texts(b"VALUE a 0 x\r\n", size), Err(ReplyError::Malformed));
            assert_eq!(texts(b"VALUE a 0 1\r\nabc\r\n", size), Err(ReplyError::LineEnd));
            assert_eq!(texts(b"VALUE a 0 1\r\na\rb", size), Err(ReplyError::LineEnd));
            assert_eq!(texts(&[b'x'; 3000], size), Err(ReplyError::LineTooLong));
        }
    }

    fn packet(status: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 24];
        let body = (extras.len() + key.len() + value.len()) as u8;
        (packet[0], packet[3], packet[4]) = (0x81, key.len() as u8, extras.len() as u8);
        (packet[7], packet[11]) = (status, body);
        [&packet, extras, key, value].concat()
    }

    #[test]
    fn packets_are_replies_however_they_are_cut() {
        let stream = [
            packet(0, b"", b"", b""),
            packet(0, &[0; 4], b"key", b"value"),
            packet(1, b"", b"", b"Not found"),
            packet(2, b"", b"", b"Data exists for key."),
        ]
        .concat();
        let expected = vec![
            (reply(Nature::Value, 0, 24), b"".to_vec()),
            (reply(Nature::Value, 0, 36), b"value".to_vec()),
            (reply(Nature::Null, 0, 33), b"Not found".to_vec()),
            (reply(Nature::Error, 0, 44), b"Data exists for key.".to_vec()),
        ];
        for size in 1..=stream.len() {
            assert_eq!(packets(&stream, size), Ok(expected.clone()), "pieces of {size}");
        }
        assert_eq!(packets(b"ERROR\r\n", 1), Err(ReplyError::UnknownType(b'E')));
    }
}
