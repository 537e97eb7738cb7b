//! What one user may do, and the words that say so.
//!
//! Invariant: the description, read again, gives the same rules.

use base::quote::{quote, split_arguments};
use proto::Args;

use crate::catalogue::Catalogue;
use crate::check::{AccessRequest, Denial};
use crate::fault::{Fault, RuleError};
use crate::ordered::Ordered;
use crate::password::Digest;
use crate::selector::Selector;

/// The rules of a user at one moment.
#[derive(Clone)]
pub struct Rules {
    is_on: bool,
    needs_no_password: bool,
    /// Redis' word for RESTORE that trusts its payload; ours never does.
    skips_sanitizing: bool,
    passwords: Ordered<Digest>,
    root: Selector,
    selectors: Vec<Selector>,
}

/// What new users and selectors begin with.
#[derive(Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) catalogue: &'a Catalogue,
    /// Whether they may use all channels.
    pub(crate) all_channels: bool,
}

impl Rules {
    /// Of a user that may do everything and needs no password.
    pub(crate) fn unlimited(catalogue: &Catalogue) -> Rules {
        Rules {
            is_on: true,
            needs_no_password: true,
            skips_sanitizing: false,
            passwords: Ordered::default(),
            root: Selector::all(catalogue),
            selectors: Vec::new(),
        }
    }

    /// Of a user that was just created, is off and may do nothing.
    pub(crate) fn new(defaults: Defaults<'_>) -> Rules {
        Rules {
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Ordered::default(),
            root: Selector::none(defaults.catalogue, defaults.all_channels),
            selectors: Vec::new(),
        }
    }

    /// Whether the user may log in at all.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether any password will do, and none.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether this is one of the passwords. How long it takes tells nothing about them.
    pub(crate) fn has_password(&self, given: &Digest) -> bool {
        self.passwords.iter().fold(false, |fits, (password, ())| fits | password.is(given))
    }

    /// Whether everything is allowed: all commands, keys, channels and databases.
    pub(crate) fn allow_everything(&self) -> bool {
        self.root.is_all()
    }

    /// Whether the request is allowed, by the root or by one selector alone. The denial is that of
    /// whichever got furthest.
    pub fn check(&self, asked: &AccessRequest<'_>) -> Result<(), Denial> {
        let Err(mut denial) = self.root.check(asked) else { return Ok(()) };
        for selector in &self.selectors {
            match selector.check(asked) {
                Ok(()) => return Ok(()),
                Err(other) => denial = denial.max(other),
            }
        }
        Err(denial)
    }

    /// Whether the command may be run on some keys, channels and databases.
    pub fn may_run(&self, command: usize, args: Args<'_>) -> bool {
        self.all_selectors().any(|selector| selector.may_run(command, args))
    }

    /// Whether the command may be run by a user that may read whatever key it meets, as SORT does
    /// with BY and GET.
    pub fn may_read_all_keys(&self, command: usize, args: Args<'_>) -> bool {
        self.all_selectors().any(|it| it.may_run(command, args) && it.may_read_all_keys())
    }

    /// Whether messages of this channel, or of this pattern, may be received.
    pub fn may_use_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| selector.may_use_channel(name, is_pattern))
    }

    fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Takes in the rules that these words are. An error leaves some of them taken in: the caller
    /// works on a copy.
    pub(crate) fn apply(
        &mut self,
        words: &[impl AsRef<[u8]>],
        defaults: Defaults<'_>,
    ) -> Result<(), RuleError> {
        // Redis takes an empty word for no rule.
        for word in merge_selectors(words)?.into_iter().filter(|word| !word.is_empty()) {
            let applied = match word.strip_prefix(b"(") {
                Some(inside) => self.add_selector(inside, defaults),
                None => self.apply_one(&word, defaults),
            };
            if let Err(why) = applied {
                return Err(RuleError::Wrong { word, why });
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, word: &[u8], defaults: Defaults<'_>) -> Result<(), Fault> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("nopass") => self.set_password(None),
            _ if is("resetpass") => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            _ if is("sanitize-payload") => self.skips_sanitizing = false,
            _ if is("skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => *self = Rules::new(defaults),
            [b'>', password @ ..] => self.add_password(Digest::of(password)),
            [b'#', digest @ ..] => self.add_password(Digest::parse(digest).ok_or(Fault::Digest)?),
            [b'<', password @ ..] => self.remove_password(Digest::of(password))?,
            [b'!', digest @ ..] => {
                self.remove_password(Digest::parse(digest).ok_or(Fault::Digest)?)?;
            }
            _ => self.root.apply(word, defaults.catalogue)?,
        }
        Ok(())
    }

    /// Leaves this password and no other, or lets everybody in without one.
    pub(crate) fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords.clear();
        self.needs_no_password = password.is_none();
        password.into_iter().for_each(|it| self.add_password(Digest::of(it)));
    }

    fn add_password(&mut self, digest: Digest) {
        self.needs_no_password = false;
        if self.passwords.get_mut(&digest).is_none() {
            self.passwords.push(digest, ());
        }
    }

    fn remove_password(&mut self, digest: Digest) -> Result<(), Fault> {
        if self.passwords.remove(&digest) { Ok(()) } else { Err(Fault::NoSuchPassword) }
    }

    /// A selector, from what stands between its parentheses.
    fn add_selector(&mut self, inside: &[u8], defaults: Defaults<'_>) -> Result<(), Fault> {
        let inside = inside.strip_suffix(b")").ok_or(Fault::Syntax)?;
        let mut selector = Selector::none(defaults.catalogue, defaults.all_channels);
        // Redis takes quotes that are not closed for no words at all. That cannot be meant.
        for word in split_arguments(inside).ok_or(Fault::Syntax)? {
            selector.apply(&word, defaults.catalogue)?;
        }
        self.selectors.push(selector);
        Ok(())
    }

    /// The rules as a file and ACL LIST show them, word by word. A selector is as many words as
    /// stand in it.
    pub fn words(&self, catalogue: &Catalogue) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> =
            self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords().map(|digest| format!("#{digest}").into_bytes()));
        words.extend(self.root.words(catalogue));
        for selector in &self.selectors {
            let first = words.len();
            words.extend(selector.words(catalogue).into_iter().map(nested));
            words[first].insert(0, b'(');
            words.last_mut().expect("a selector says what it is about commands").push(b')');
        }
        words
    }

    /// The flags as ACL GETUSER shows them.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags.push(if self.skips_sanitizing {
            "skip-sanitize-payload"
        } else {
            "sanitize-payload"
        });
        flags
    }

    /// The digests of the passwords, in hexadecimal digits.
    pub fn passwords(&self) -> impl Iterator<Item = String> {
        self.passwords.iter().map(|(password, ())| password.text())
    }

    /// What the root allows, in parts.
    pub fn root(&self, catalogue: &Catalogue) -> Permissions {
        Permissions::of(&self.root, catalogue)
    }

    /// What each selector allows, in parts.
    pub fn selectors(&self, catalogue: &Catalogue) -> impl ExactSizeIterator<Item = Permissions> {
        self.selectors.iter().map(|selector| Permissions::of(selector, catalogue))
    }
}

/// What a selector allows, as ACL GETUSER shows it.
pub struct Permissions {
    /// The rules on commands.
    pub commands: Vec<u8>,
    /// The patterns of keys.
    pub keys: Vec<u8>,
    /// The patterns of channels.
    pub channels: Vec<u8>,
    /// The databases, if not all are open.
    pub databases: Option<Vec<u8>>,
}

impl Permissions {
    fn of(selector: &Selector, catalogue: &Catalogue) -> Permissions {
        Permissions {
            commands: selector.command_words(catalogue).join(&b' '),
            keys: selector.key_words().join(&b' '),
            channels: selector.channel_words().join(&b' '),
            databases: selector.closes_databases().then(|| selector.database_word()),
        }
    }
}

/// A word as it may stand in a selector, which is cut at blanks outside quotes and ends where a
/// word does that ends with a parenthesis.
fn nested(word: Vec<u8>) -> Vec<u8> {
    let is_plain = !word.iter().any(|byte| matches!(byte, b'"' | b'\'')) && !word.ends_with(b")");
    if is_plain { word } else { quote(&word).into_bytes() }
}

/// The words, with those that are one selector together put into one, blanks between them.
fn merge_selectors(words: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, RuleError> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words.iter().map(AsRef::as_ref) {
        let (first, mut text) = match open.take() {
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend(word);
                (first, text)
            }
            None if word.starts_with(b"(") => (word, word.to_vec()),
            None => {
                merged.push(word.to_vec());
                continue;
            }
        };
        if text.ends_with(b")") {
            merged.push(text);
        } else {
            text.reserve(word.len());
            open = Some((first, text));
        }
    }
    match open {
        Some((first, _)) => Err(RuleError::Unmatched { word: first.to_vec() }),
        None => Ok(merged),
    }
}
