//! A primary's stream, split into units with their commands.
//!
//! Invariant: what is let pass is what a log may hold, as it is appended as it came: each unit is a
//! command, or what stands between MULTI and EXEC.

use persist::aof::Unit;
use proto::{Limits, OwnedArgs, Progress, RequestParser};

/// A primary may allow longer arguments than we do.
const LIMITS: Limits = Limits {
    bulk: u32::MAX as usize,
    arguments: i32::MAX as usize,
    inline: 64 << 10,
    authenticated: true,
};

/// Splits bytes that are whole units.
pub(super) struct StreamUnits<'b> {
    bytes: &'b [u8],
    at: usize,
    /// The offset of the first byte.
    begin: u64,
    parser: RequestParser,
}

impl<'b> StreamUnits<'b> {
    /// From this offset of the stream on.
    pub(super) fn new(bytes: &'b [u8], begin: u64) -> Self {
        Self { bytes, at: 0, begin, parser: RequestParser::new() }
    }

    /// The next unit, or why there is none.
    pub(super) fn next_unit(&mut self) -> Result<Option<Unit>, String> {
        let mut unit = Unit { offset: self.offset(), ..Unit::default() };
        let mut is_transaction = false;
        while self.at < self.bytes.len() {
            let command = self.next_command()?;
            let args = command.as_args();
            let word = args.get(0).filter(|_| args.len() == 1).unwrap_or_default();
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match is_transaction {
                false if is("MULTI") => is_transaction = true,
                true if is("MULTI") => return Err(self.fault("MULTI within MULTI")),
                false if is("EXEC") || is("DISCARD") => {
                    return Err(self.fault("the end of a transaction that did not begin"));
                }
                true if is("DISCARD") => return Err(self.fault("DISCARD")),
                true if is("EXEC") => is_transaction = false,
                _ => unit.commands.push(command),
            }
            if !is_transaction {
                unit.end = self.offset();
                return Ok(Some(unit));
            }
        }
        if is_transaction { Err(self.fault("a transaction that does not end")) } else { Ok(None) }
    }

    fn next_command(&mut self) -> Result<OwnedArgs, String> {
        let rest = &self.bytes[self.at..];
        if rest[0] != b'*' {
            return Err(self.fault("a command that is not an array"));
        }
        let progress = self.parser.advance(rest, &LIMITS);
        let consumed = match progress {
            Ok(Progress::Complete { consumed }) => consumed,
            Ok(Progress::Empty { .. }) => return Err(self.fault("a command without a name")),
            Ok(Progress::Incomplete { .. }) => {
                return Err(self.fault("a command that does not end"));
            }
            Err(error) => return Err(self.fault(&error.to_string())),
        };
        let command = OwnedArgs::from(self.parser.args(rest));
        self.parser.reset();
        self.at += consumed;
        Ok(command)
    }

    fn offset(&self) -> u64 {
        self.begin + self.at as u64
    }

    fn fault(&self, what: &str) -> String {
        format!("at offset {}: {what}", self.offset())
    }
}
