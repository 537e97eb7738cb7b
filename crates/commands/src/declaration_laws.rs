//! What holds for every declaration; forgetting a part of one fails here.

use std::collections::HashSet;

use crate::declare::{Flags, LockPlan, Spec};
use crate::keys::{Access, BeginSearch, FindKeys};
use crate::{DataCommand, FAMILIES};

/// Every command and subcommand with its full name.
fn all() -> Vec<(String, &'static DataCommand)> {
    let mut all = Vec::new();
    for &command in FAMILIES.iter().flat_map(|family| family.iter()) {
        all.push((command.spec.name.to_owned(), command));
        for subcommand in command.subcommands {
            all.push((format!("{}|{}", command.spec.name, subcommand.spec.name), subcommand));
        }
    }
    all
}

fn least_arguments(spec: &Spec) -> usize {
    usize::try_from(spec.arity.as_integer().unsigned_abs()).unwrap()
}

#[test]
fn names_are_unique_and_upper_case() {
    let mut seen = HashSet::new();
    for (name, _) in all() {
        assert!(!name.is_empty() && name == name.to_ascii_uppercase(), "{name}");
        assert!(seen.insert(name.clone()), "{name} stands twice");
    }
}

#[test]
fn the_arity_covers_the_keys() {
    for (name, command) in all() {
        let least = least_arguments(&command.spec);
        assert!(least >= 1, "{name}");
        for keys in command.spec.keys {
            let BeginSearch::Index(begin) = keys.begin else { continue };
            let last = match keys.find {
                FindKeys::Range { last, .. } => begin + usize::try_from(last).unwrap_or(0),
                FindKeys::Count { count, first, .. } => begin + count.max(first),
            };
            // Of all the rest, the rest may be nothing.
            let needed = if matches!(keys.find, FindKeys::Range { last: ..0, .. }) {
                begin - 1
            } else {
                last
            };
            assert!(begin >= 1 && needed < least, "{name}: key {last} of {least} arguments");
        }
    }
}

#[test]
fn commands_with_keys_read_or_write_them() {
    for (name, Spec { flags, keys, plan, .. }) in all().iter().map(|(name, it)| (name, &it.spec)) {
        let (writes, reads) = (flags.has(Flags::WRITE), flags.has(Flags::READONLY));
        assert!(!(writes && reads), "{name}");
        assert!(keys.is_empty() || writes != reads, "{name}");
        assert!(!flags.has(Flags::DENYOOM) || writes, "{name}: only writes need memory");
        // A word that only says where a request belongs is no key.
        let keys = || keys.iter().filter(|key| !key.access.has(Access::NOT_KEY));
        let is_locked = keys().next().is_none() || *plan == LockPlan::Keys;
        assert!(is_locked, "{name}: keys are what it locks");
        for key in keys() {
            let changes = [Access::RW, Access::OW, Access::RM];
            let changed = changes.iter().any(|&access| key.access.has(access));
            assert!(changed != key.access.has(Access::RO), "{name}: one of RO, RW, OW, RM");
            // PFCOUNT keeps the count that it read, and Redis calls it a reader all the same.
            assert!(!changed || writes || name == "PFCOUNT", "{name}");
        }
    }
}

#[test]
fn each_declaration_documents_its_command() {
    for (name, Spec { since, summary, complexity, syntax, tips, history, deprecated, .. }) in
        all().iter().map(|(name, it)| (name, &it.spec))
    {
        assert_eq!(since.split('.').count(), 3, "{name}: since {since:?}");
        assert!(summary.ends_with('.') && !summary.contains("  "), "{name}: {summary:?}");
        assert!(!complexity.is_empty() && !complexity.contains("  "), "{name}: {complexity:?}");
        assert!(!syntax.contains("  "), "{name}: {syntax:?}");
        assert!(tips.iter().all(|tip| !tip.is_empty()), "{name}");
        assert!(history.iter().all(|(version, text)| version.contains('.') && !text.is_empty()));
        assert!(
            deprecated
                .is_none_or(|(version, instead)| version.contains('.') && !instead.is_empty())
        );
    }
}

#[test]
fn syntax_lines_are_grammar() {
    for (name, command) in all() {
        let syntax = command.spec.syntax;
        let mut open = Vec::new();
        for sign in syntax.chars() {
            match sign {
                '[' => open.push(']'),
                '<' => open.push('>'),
                ']' | '>' => assert_eq!(open.pop(), Some(sign), "{name}: {syntax}"),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{name}: {syntax}");
        // What stands outside all brackets must be sent, so the arity asks for at least that.
        let mut depth = 0;
        let mut needed = 1 + name.matches('|').count();
        for word in syntax.split(' ').filter(|word| !word.is_empty()) {
            depth += word.matches(['[', '<']).count();
            needed += usize::from(depth == 0);
            depth -= word.matches([']', '>']).count();
        }
        let least = least_arguments(&command.spec);
        let container = !command.subcommands.is_empty();
        assert!(container || needed <= least, "{name}: {needed} words, {least} arguments");
    }
}
