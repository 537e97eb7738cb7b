//! A script as EVAL gets it: its digest, its flags and the Lua behind its shebang.
//!
//! Invariant: equal sources have equal programs, whichever interpreter compiles them.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use proto::Reply;
use sha1::Digest;

use crate::direct::{Direct, DirectExit, DirectState};
use crate::error::ScriptError;
use crate::host::Host;
use crate::interpreter::{Input, Limits};
use crate::shebang::{self, Flags};

/// A SHA1 digest, which is a script's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sha1(pub [u8; 20]);

impl Sha1 {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Sha1 {
        Sha1(sha1::Sha1::digest(bytes).into())
    }

    /// Reads forty hexadecimal digits of any case.
    pub fn parse(text: &[u8]) -> Option<Sha1> {
        let digits: &[u8; 40] = text.try_into().ok()?;
        // Without branches, so that many digits are looked at in one step.
        let (mut values, mut is_other) = ([0; 40], false);
        for (value, digit) in values.iter_mut().zip(digits) {
            let decimal = digit.wrapping_sub(b'0');
            let letter = (digit | 0x20).wrapping_sub(b'a');
            *value = if decimal < 10 { decimal } else { letter.wrapping_add(10) };
            is_other |= decimal >= 10 && letter >= 6;
        }
        let mut digest = [0; 20];
        for (byte, [high, low]) in digest.iter_mut().zip(values.as_chunks().0) {
            *byte = high << 4 | low;
        }
        (!is_other).then_some(Sha1(digest))
    }

    /// Forty hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().fold(String::with_capacity(40), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes what is written");
            text
        })
    }
}

/// Something for each of some scripts.
pub type ByDigest<T> = HashMap<Sha1, T, DigestState>;

/// The hash of digests under a secret. Clients choose the scripts and may search for digests that
/// are alike, but nobody sees what the hash makes of them.
#[derive(Clone, Debug)]
pub struct DigestState {
    secret: [u64; 2],
}

impl Default for DigestState {
    fn default() -> DigestState {
        let random = RandomState::new();
        DigestState { secret: [random.hash_one(0), random.hash_one(1)] }
    }
}

impl BuildHasher for DigestState {
    type Hasher = DigestHasher;

    fn build_hasher(&self) -> DigestHasher {
        DigestHasher { secret: self.secret, hash: 0 }
    }
}

/// Folds two words of a digest together.
#[derive(Debug)]
pub struct DigestHasher {
    secret: [u64; 2],
    hash: u64,
}

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        let [first, second, ..] = *words else { unreachable!("only digests are hashed") };
        let [first, second] = [first, second].map(u64::from_le_bytes);
        let product = u128::from(first ^ self.secret[0]) * u128::from(second ^ self.secret[1]);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hash for Sha1 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
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
    sight: VisibleLists,
    /// How the script is run without Lua, if it can be.
    direct: Option<Box<Direct>>,
}

/// Which of the lists that it is given a script can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleLists {
    pub(crate) keys: bool,
    pub(crate) arguments: bool,
}

impl VisibleLists {
    /// A global is seen by a script that writes its name; or by one that makes up names, which
    /// takes the table of all globals, or a function that compiles.
    fn of(body: &[u8]) -> VisibleLists {
        let has = |word: &[u8]| body.windows(word.len()).any(|text| text == word);
        let makes_names = has(b"_G") || has(b"load");
        VisibleLists { keys: makes_names || has(b"KEYS"), arguments: makes_names || has(b"ARGV") }
    }
}

impl Program {
    /// Reads a script's shebang; the Lua is compiled where it is run.
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
        let (sha1, sight) = (Sha1::of(source), VisibleLists::of(&source[body..]));
        let direct = Direct::read(&source[body..]).map(Box::new);
        Ok(Program { sha1, source: source.into(), flags, body, sight, direct })
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
        let direct = self.direct.as_ref().map_or(0, |direct| direct.memory());
        self.source.len() + size_of::<Program>() + direct
    }

    /// Whether the script may be run without Lua.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Runs the script without Lua, if that can be. What it returns is appended to `reply`, in
    /// whose protocol its client speaks; if it leaves, nothing is, but what its commands did is
    /// done.
    pub fn run_directly(
        &self,
        input: Input<'_>,
        host: &mut dyn Host,
        limits: Limits,
        bench: &mut DirectState,
        reply: &mut Reply<'_>,
    ) -> Result<(), DirectExit> {
        let direct = self.direct.as_ref().ok_or(DirectExit::GaveUp)?;
        direct.run(input, host, limits, bench, reply)
    }

    /// What the script can see.
    pub(crate) fn visible_lists(&self) -> VisibleLists {
        self.sight
    }

    /// The Lua.
    pub(crate) fn body(&self) -> &[u8] {
        &self.source[self.body..]
    }
}

fn refuse(reason: &str, word: &[u8]) -> ScriptError {
    ScriptError::new([b"ERR ", reason.as_bytes(), word].concat())
}
