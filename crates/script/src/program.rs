//! A script as EVAL gets it: its digest, its flags and the Lua behind its shebang.
//!
//! Invariant: equal sources have equal programs, whichever interpreter compiles them.

use std::fmt::Write;

use sha1::Digest;

use crate::error::ScriptError;
use crate::shebang::{self, Flags};

/// A SHA1 digest, which is a script's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha1(pub [u8; 20]);

impl Sha1 {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Sha1 {
        Sha1(sha1::Sha1::digest(bytes).into())
    }

    /// Reads forty hexadecimal digits of any case.
    pub fn parse(text: &[u8]) -> Option<Sha1> {
        let digits: &[u8; 40] = text.try_into().ok()?;
        let mut digest = [0; 20];
        for (byte, [high, low]) in digest.iter_mut().zip(digits.as_chunks().0) {
            let (high, low) = (char::from(*high).to_digit(16)?, char::from(*low).to_digit(16)?);
            *byte = (high << 4 | low) as u8;
        }
        Some(Sha1(digest))
    }

    /// Forty hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().fold(String::with_capacity(40), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes what is written");
            text
        })
    }
}

/// One script.
#[derive(Debug)]
pub struct Program {
    source: Box<[u8]>,
    sha1: Sha1,
    flags: Flags,
    /// Where the Lua begins.
    body: usize,
}

impl Program {
    /// Reads a script's shebang; the Lua is compiled by who runs it.
    pub fn parse(source: &[u8]) -> Result<Program, ScriptError> {
        let mut flags = Flags { is_compatible: true, ..Flags::default() };
        let mut body = 0;
        if source.starts_with(b"#!") {
            let Some(shebang) = shebang::split(source) else {
                return Err(ScriptError::new("ERR Invalid script shebang"));
            };
            if shebang.engine != b"#!lua" {
                return Err(refuse("Unexpected engine in script shebang: ", shebang.engine));
            }
            flags.is_compatible = false;
            for setting in shebang.settings {
                let Some(names) = setting.strip_prefix(b"flags=") else {
                    return Err(refuse("Unknown lua shebang option: ", setting));
                };
                let names = names.split(|byte| *byte == b',');
                for name in names.skip(usize::from(setting == b"flags=")) {
                    if !flags.set(name) {
                        return Err(refuse("Unexpected flag in script shebang: ", name));
                    }
                }
            }
            body = source.len() - shebang.body.len();
        }
        Ok(Program { sha1: Sha1::of(source), source: source.into(), flags, body })
    }

    /// The whole source, its shebang included.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// The digest of the source.
    pub fn sha1(&self) -> Sha1 {
        self.sha1
    }

    /// What the shebang says.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The bytes of memory held.
    pub fn memory(&self) -> usize {
        self.source.len() + size_of::<Program>()
    }

    /// The Lua.
    pub(crate) fn body(&self) -> &[u8] {
        &self.source[self.body..]
    }
}

fn refuse(reason: &str, word: &[u8]) -> ScriptError {
    ScriptError::new([b"ERR ", reason.as_bytes(), word].concat())
}
