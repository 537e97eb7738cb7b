//! ACL categories: what a command's declaration implies, and what it adds.
//!
//! Invariant: every command is in exactly one of `@fast` and `@slow`.

use crate::declare::{Flags, Spec};

/// All categories, in the order in which ACL CAT and COMMAND INFO name them.
pub const ALL: [&str; 22] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
    "@array",
];

/// The categories of a command. A container's family is that of its subcommands, not its own.
pub fn of(spec: &Spec, is_container: bool) -> impl Iterator<Item = &'static str> {
    let flags = spec.flags;
    // Generic by their groups, WAIT concerns the connection and SORT the types it knows.
    let names_a_family =
        ["@connection", "@list"].iter().any(|family| spec.categories.contains(family));
    let family = spec.group.category().filter(|_| !is_container && !names_a_family);
    let is_script = family == Some("@scripting");
    let implied = move |category| match category {
        "@write" => flags.has(Flags::WRITE),
        "@read" => flags.has(Flags::READONLY) && !is_script,
        "@admin" => flags.has(Flags::ADMIN),
        "@dangerous" => flags.has(Flags::ADMIN),
        "@pubsub" => flags.has(Flags::PUBSUB),
        "@fast" => flags.has(Flags::FAST),
        "@slow" => !flags.has(Flags::FAST),
        "@blocking" => flags.has(Flags::BLOCKING),
        _ => false,
    };
    let (fixed, added) = (implied, spec.categories);
    ALL.into_iter().filter(move |category| {
        fixed(category) || family == Some(category) || added.contains(category)
    })
}

#[test]
fn declarations_imply_categories() {
    let get = Spec { group: crate::Group::String, flags: Flags::READONLY, ..Spec::BASE };
    assert_eq!(of(&get, false).collect::<Vec<_>>(), ["@read", "@string", "@slow"]);
    let admin = Spec { flags: Flags::ADMIN.and(Flags::FAST), ..get };
    let expected = ["@admin", "@fast", "@dangerous"];
    assert_eq!(of(&admin, true).collect::<Vec<_>>(), expected);
}
