//! Which commands a selector allows, and the rules that say so.
//!
//! Invariants: applying the rules of the description in order to nothing (or to everything, where
//! it begins with `+@all`) gives the same set; what was not denied after `+@all` stays allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::commands::categories;
use proto::Args;

use crate::catalogue::{Catalogue, category};
use crate::fault::Fault;
use crate::ordered::Ordered;
use crate::selector::is_blank;

const WORD: usize = u64::BITS as usize;

/// The commands that are allowed.
#[derive(Clone)]
pub(crate) struct Commands {
    /// A bit for each id.
    allowed: Box<[u64]>,
    /// Commands that are denied but for these first arguments, in lower case.
    first_arguments: BTreeMap<usize, BTreeSet<Arc<[u8]>>>,
    /// Whether the rules begin where everything is allowed.
    from_all: bool,
    /// What was said since: whether the target is allowed.
    rules: Ordered<Target, bool>,
}

/// What one rule speaks of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Category(usize),
    /// A command, and the first argument that it must have.
    Command(usize, Option<Arc<[u8]>>),
}

impl Commands {
    /// No command but those that nobody is denied.
    pub(crate) fn none(catalogue: &Catalogue) -> Commands {
        let mut allowed = vec![0; catalogue.len().div_ceil(WORD)].into_boxed_slice();
        for id in catalogue.exempt() {
            allowed[id / WORD] |= 1 << (id % WORD);
        }
        Commands {
            allowed,
            first_arguments: BTreeMap::new(),
            from_all: false,
            rules: Ordered::default(),
        }
    }

    /// Every command.
    pub(crate) fn all(catalogue: &Catalogue) -> Commands {
        let allowed = vec![u64::MAX; catalogue.len().div_ceil(WORD)].into_boxed_slice();
        Commands { allowed, from_all: true, ..Commands::none(catalogue) }
    }

    /// Whether every command is allowed.
    pub(crate) fn are_all(&self) -> bool {
        self.allowed.iter().all(|word| *word == u64::MAX)
    }

    /// Whether this request is for a command that is allowed.
    #[inline]
    pub(crate) fn allow(&self, command: usize, args: Args<'_>) -> bool {
        let word = self.allowed.get(command / WORD).copied().unwrap_or_default();
        word >> (command % WORD) & 1 != 0 || self.allow_first_argument(command, args)
    }

    fn allow_first_argument(&self, command: usize, args: Args<'_>) -> bool {
        let Some(allowed) = self.first_arguments.get(&command) else { return false };
        args.get(1).is_some_and(|word| allowed.contains(&*word.to_ascii_lowercase()))
    }

    /// Takes a rule in: the word behind its `+` or `-`.
    pub(crate) fn apply(
        &mut self,
        allows: bool,
        word: &[u8],
        catalogue: &Catalogue,
    ) -> Result<(), Fault> {
        if word.eq_ignore_ascii_case(b"@all") {
            *self = if allows { Commands::all(catalogue) } else { Commands::none(catalogue) };
        } else if word.starts_with(b"@") {
            let category = category(word).ok_or(Fault::Unknown)?;
            catalogue.members(category).for_each(|id| self.set(id, allows, catalogue));
            self.rules.push(Target::Category(category), allows);
        } else if let Some(id) = catalogue.find(word) {
            for member in catalogue.family(id) {
                self.set(member, allows, catalogue);
                self.rules.remove_range(rules_of(member));
            }
            self.rules.push(Target::Command(id, None), allows);
        } else {
            self.allow_with_first_argument(allows, word, catalogue)?;
        }
        Ok(())
    }

    /// `command|argument`, which older versions of Redis knew before subcommands had rules.
    fn allow_with_first_argument(
        &mut self,
        allows: bool,
        word: &[u8],
        catalogue: &Catalogue,
    ) -> Result<(), Fault> {
        let bar = word.iter().position(|byte| *byte == b'|').filter(|_| allows);
        let (command, argument) = word.split_at(bar.ok_or(Fault::Unknown)?);
        let argument = &argument[1..];
        let id = catalogue.find(command).ok_or(Fault::Unknown)?;
        if argument.is_empty() || argument.iter().any(|byte| is_blank(*byte)) {
            return Err(Fault::Syntax);
        }
        if catalogue.is_container(id) {
            let names_one = argument
                .iter()
                .position(|byte| *byte == b'|')
                .is_some_and(|bar| catalogue.find(&word[..command.len() + 1 + bar]).is_some());
            return Err(if names_one { Fault::ArgumentOfSubcommand } else { Fault::Unknown });
        }
        if argument.contains(&b'|') {
            return Err(Fault::Unknown);
        }
        let argument: Arc<[u8]> = argument.to_ascii_lowercase().into();
        self.first_arguments.entry(id).or_default().insert(Arc::clone(&argument));
        self.rules.push(Target::Command(id, Some(argument)), true);
        Ok(())
    }

    fn set(&mut self, id: usize, allows: bool, catalogue: &Catalogue) {
        let bit = 1 << (id % WORD);
        if allows {
            self.allowed[id / WORD] |= bit;
        } else if !catalogue.is_exempt(id) {
            self.allowed[id / WORD] &= !bit;
        }
        self.first_arguments.remove(&id);
    }

    /// The rules as ACL LIST shows them, word by word.
    pub(crate) fn words(&self, catalogue: &Catalogue) -> Vec<Vec<u8>> {
        let first: &[u8] = if self.from_all { b"+@all" } else { b"-@all" };
        let rules = self.rules.iter().map(|(target, allows)| {
            let sign: &[u8] = if *allows { b"+" } else { b"-" };
            match target {
                Target::Category(category) => {
                    [sign, categories::ALL[*category].as_bytes()].concat()
                }
                Target::Command(id, None) => [sign, catalogue.name(*id).as_bytes()].concat(),
                Target::Command(id, Some(argument)) => {
                    [sign, catalogue.name(*id).as_bytes(), b"|", argument].concat()
                }
            }
        });
        std::iter::once(first.to_vec()).chain(rules).collect()
    }
}

/// The rules that speak of this one command, with or without a first argument.
fn rules_of(id: usize) -> std::ops::Range<Target> {
    Target::Command(id, None)..Target::Command(id + 1, None)
}
