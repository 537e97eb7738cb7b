//! One set of permissions: commands, and on which keys, channels and databases.
//!
//! Invariant: a request is allowed only where all of it is: the command, every database, every key
//! and every channel.

use std::collections::BTreeSet;

use proto::Args;

use crate::catalogue::Catalogue;
use crate::check::{AccessRequest, Database, Denial, KeyAccess};
use crate::commands::Commands;
use crate::fault::Fault;
use crate::patterns::Patterns;

/// The permissions of a root, or of a selector beside it.
#[derive(Clone)]
pub(crate) struct Selector {
    commands: Commands,
    /// Patterns with what may be done with the keys that match.
    keys: Scope<KeyAccess>,
    channels: Scope<()>,
    /// All of them where there is no list.
    databases: Option<BTreeSet<usize>>,
}

/// Everything, or what matches one of some patterns.
#[derive(Clone)]
enum Scope<V> {
    All,
    Matching(Patterns<V>),
}

impl Selector {
    /// No command, no key; channels as the configuration will have it.
    pub(crate) fn none(catalogue: &Catalogue, all_channels: bool) -> Selector {
        Selector {
            commands: Commands::none(catalogue),
            keys: Scope::none(),
            channels: if all_channels { Scope::All } else { Scope::none() },
            databases: None,
        }
    }

    /// Everything.
    pub(crate) fn all(catalogue: &Catalogue) -> Selector {
        Selector {
            commands: Commands::all(catalogue),
            keys: Scope::All,
            channels: Scope::All,
            databases: None,
        }
    }

    /// Whether this is everything.
    pub(crate) fn is_all(&self) -> bool {
        let reaches_all = matches!((&self.keys, &self.channels), (Scope::All, Scope::All));
        reaches_all && self.databases.is_none() && self.commands.are_all()
    }

    /// Whether the request is allowed, and where not.
    pub(crate) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), Denial> {
        if let Some((index, _)) = asked.databases.iter().find(|it| !self.may_enter(it.1)) {
            return Err(Denial::Database(*index));
        }
        if !self.may_run(asked.command, asked.args) {
            return Err(Denial::Command);
        }
        let at = |index: usize| asked.args.get(index).unwrap_or_default();
        if let Some((index, _)) = asked.keys.iter().find(|it| !self.may_use_key(at(it.0), it.1)) {
            return Err(Denial::Key(*index));
        }
        let is_denied =
            |index: &&usize| !self.may_use_channel(at(**index), asked.channels_are_patterns);
        match asked.channels.iter().find(is_denied) {
            Some(index) => Err(Denial::Channel(*index)),
            None => Ok(()),
        }
    }

    pub(crate) fn may_run(&self, command: usize, args: Args<'_>) -> bool {
        self.commands.allow(command, args)
    }

    fn may_enter(&self, database: Database) -> bool {
        self.databases.as_ref().is_none_or(|allowed| match database {
            Database::Number(number) => allowed.contains(&number),
            Database::All => false,
        })
    }

    /// Whether one pattern alone allows all that is needed.
    fn may_use_key(&self, key: &[u8], needs: KeyAccess) -> bool {
        if let Some(needs) = needs.all_of() {
            let is_of_all = |pattern: &[u8]| matches_all_of(pattern, key);
            return self.keys.any(|it, granted| granted.covers(needs) && is_of_all(it));
        }
        self.keys.match_any(key, |granted| granted.covers(needs))
    }

    pub(crate) fn may_read_all_keys(&self) -> bool {
        self.keys.any(|pattern, granted| granted.covers(KeyAccess::READ) && pattern == b"*")
    }

    /// A pattern is allowed letter by letter only: what it matches nobody can tell.
    pub(crate) fn may_use_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        match is_pattern {
            true => self.channels.any(|pattern, ()| pattern == name),
            false => self.channels.match_any(name, |()| true),
        }
    }

    /// Takes a rule in.
    pub(crate) fn apply(&mut self, word: &[u8], catalogue: &Catalogue) -> Result<(), Fault> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            _ if is("allkeys") || word == b"~*" => self.keys = Scope::All,
            _ if is("resetkeys") => self.keys = Scope::none(),
            _ if is("allchannels") || word == b"&*" => self.channels = Scope::All,
            _ if is("resetchannels") => self.channels = Scope::none(),
            _ if is("alldbs") => self.databases = None,
            _ if is("resetdbs") => self.databases = Some(BTreeSet::new()),
            _ if is("allcommands") => self.commands = Commands::all(catalogue),
            _ if is("nocommands") => self.commands = Commands::none(catalogue),
            [b'd' | b'D', b'b' | b'B', b'=', list @ ..] => self.databases = Some(databases(list)?),
            [b'~' | b'%', ..] if matches!(self.keys, Scope::All) => {
                return Err(Fault::PatternBehindAll);
            }
            [b'~', pattern @ ..] => self.add_key(pattern, KeyAccess::READ.and(KeyAccess::WRITE))?,
            [b'%', rest @ ..] => {
                let (pattern, granted) = permissions(rest)?;
                self.add_key(pattern, granted)?;
            }
            [b'&', pattern @ ..] => {
                let Scope::Matching(patterns) = &mut self.channels else {
                    return Err(Fault::ChannelBehindAll);
                };
                check_pattern(pattern)?;
                if patterns.get_mut(pattern).is_none() {
                    patterns.push(pattern, ());
                }
            }
            [sign @ (b'+' | b'-'), command @ ..] => {
                self.commands.apply(*sign == b'+', command, catalogue)?;
            }
            _ => return Err(Fault::Syntax),
        }
        Ok(())
    }

    /// Both permissions on `*` are all keys, whichever words give them: Redis has a pattern then
    /// that its own description, read again, does not give back.
    fn add_key(&mut self, pattern: &[u8], granted: KeyAccess) -> Result<(), Fault> {
        check_pattern(pattern)?;
        let Scope::Matching(patterns) = &mut self.keys else { return Ok(()) };
        let all = patterns.get_mut(pattern).map_or(granted, |before| {
            *before = before.and(granted);
            *before
        });
        if pattern == b"*" && all == KeyAccess::READ.and(KeyAccess::WRITE) {
            self.keys = Scope::All;
        } else if patterns.get_mut(pattern).is_none() {
            patterns.push(pattern, granted);
        }
        Ok(())
    }

    /// The rules as ACL LIST shows them, word by word.
    pub(crate) fn words(&self, catalogue: &Catalogue) -> Vec<Vec<u8>> {
        let mut words = self.key_words();
        if let Scope::Matching(_) = &self.channels {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(self.channel_words());
        if self.databases.is_some() {
            words.push(self.database_word());
        }
        words.extend(self.command_words(catalogue));
        words
    }

    pub(crate) fn command_words(&self, catalogue: &Catalogue) -> Vec<Vec<u8>> {
        self.commands.words(catalogue)
    }

    pub(crate) fn key_words(&self) -> Vec<Vec<u8>> {
        self.keys.words(b"~*", |granted| match *granted {
            KeyAccess::READ => b"%R~",
            KeyAccess::WRITE => b"%W~",
            _ => b"~",
        })
    }

    pub(crate) fn channel_words(&self) -> Vec<Vec<u8>> {
        self.channels.words(b"&*", |()| b"&")
    }

    pub(crate) fn database_word(&self) -> Vec<u8> {
        let Some(databases) = &self.databases else { return b"alldbs".to_vec() };
        if databases.is_empty() {
            return b"resetdbs".to_vec();
        }
        let numbers: Vec<String> = databases.iter().map(usize::to_string).collect();
        format!("db={}", numbers.join(",")).into_bytes()
    }

    /// Whether some databases are closed.
    pub(crate) fn closes_databases(&self) -> bool {
        self.databases.is_some()
    }
}

/// Whether a pattern matches whatever begins so, as far as that is plain: the pattern is the same
/// or a shorter beginning, with a star behind it.
fn matches_all_of(pattern: &[u8], prefix: &[u8]) -> bool {
    let literal = base::glob::literal_prefix(pattern);
    prefix.starts_with(literal) && pattern[literal.len()..] == *b"*"
}

impl<V> Scope<V> {
    fn none() -> Scope<V> {
        Scope::Matching(Patterns::default())
    }

    /// Whether the scope is everything, or one of the patterns fits.
    fn any(&self, mut fits: impl FnMut(&[u8], &V) -> bool) -> bool {
        match self {
            Scope::All => true,
            Scope::Matching(patterns) => patterns.iter().any(|(it, value)| fits(it, value)),
        }
    }

    /// Whether the scope is everything, or the name matches a pattern whose value is fit.
    fn match_any(&self, name: &[u8], is_fit: impl Fn(&V) -> bool) -> bool {
        match self {
            Scope::All => true,
            Scope::Matching(patterns) => patterns.match_any(name, is_fit),
        }
    }

    /// The word for all, or one for each pattern, with its sign in front.
    fn words(&self, all: &[u8], sign: impl Fn(&V) -> &'static [u8]) -> Vec<Vec<u8>> {
        match self {
            Scope::All => vec![all.to_vec()],
            Scope::Matching(patterns) => {
                patterns.iter().map(|(it, value)| [sign(value), it].concat()).collect()
            }
        }
    }
}

/// What stands between `%` and `~`, and the pattern behind.
fn permissions(rest: &[u8]) -> Result<(&[u8], KeyAccess), Fault> {
    let end = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
    let granted = match &*rest[..end].to_ascii_uppercase() {
        b"R" => KeyAccess::READ,
        b"W" => KeyAccess::WRITE,
        b"RW" | b"WR" => KeyAccess::READ.and(KeyAccess::WRITE),
        _ => return Err(Fault::Syntax),
    };
    Ok((rest.get(end + 1..).unwrap_or_default(), granted))
}

/// What a file could not hold is no pattern.
fn check_pattern(pattern: &[u8]) -> Result<(), Fault> {
    if pattern.iter().any(|byte| is_blank(*byte)) { Err(Fault::Syntax) } else { Ok(()) }
}

/// Whether no name and no pattern may contain the byte: blanks, and what ends a text in C.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0)
}

fn databases(list: &[u8]) -> Result<BTreeSet<usize>, Fault> {
    list.split(|byte| *byte == b',').map(database).collect()
}

fn database(text: &[u8]) -> Result<usize, Fault> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Syntax);
    }
    let value = digits.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    let number = i32::try_from(value).ok().filter(|_| !is_negative);
    number.map(|number| number as usize).ok_or(Fault::DatabaseRange)
}
