//! Random rules: they allow what the model allows, a description read again gives the same rules,
//! and a wrong rule changes nothing.

use base::quote::quote;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use proto::OwnedArgs;

use super::model::{Model, Question};
use super::{COMMANDS, users};
use crate::{AccessRequest, Database, KeyAccess, Users};

/// Words that are rules of a selector, most of the time.
fn word() -> impl Strategy<Value = String> {
    let pattern = || "[ab*?\\[\\]()\"'\\\\%~&|-]{0,3}";
    prop_oneof![
        3 => prop::sample::select(&[
            "+@all", "-@all", "allcommands", "nocommands", "+@read", "-@read", "+@write",
            "-@string", "+@fast", "-@fast", "+@slow", "-@dangerous", "+@connection",
            "-@connection", "+@admin",
        ][..]).prop_map(str::to_owned),
        4 => (any::<bool>(), prop::sample::select(COMMANDS))
            .prop_map(|(allows, (name, _))| format!("{}{name}", if allows { '+' } else { '-' })),
        1 => prop::sample::select(&["+select|0", "+select|1", "+get|a", "+select|B"][..])
            .prop_map(str::to_owned),
        4 => (prop::sample::select(&["~", "%R~", "%W~"][..]), pattern())
            .prop_map(|(sign, pattern)| format!("{sign}{pattern}")),
        2 => pattern().prop_map(|pattern| format!("&{pattern}")),
        1 => prop::sample::select(&[
            "allkeys", "~*", "resetkeys", "allchannels", "&*", "resetchannels",
        ][..]).prop_map(str::to_owned),
        1 => prop::sample::select(&["db=0", "db=0,2", "db=1", "alldbs", "resetdbs"][..])
            .prop_map(str::to_owned),
    ]
}

/// The words of a user that were accepted, one after the other, and the model of them.
fn accepted(users: &Users, root: &[String], selectors: &[Vec<String>]) -> Model {
    let keep = |words: &[String], into: &dyn Fn(&[String]) -> Vec<String>| {
        let mut kept: Vec<String> = Vec::new();
        for word in words {
            let mut tried = kept.clone();
            tried.push(word.clone());
            if users.set(b"probe", &into(&tried)).is_ok() {
                kept = tried;
            }
            users.remove(b"probe");
        }
        kept
    };
    let root = keep(root, &|words| words.to_vec());
    let selectors: Vec<Vec<String>> =
        selectors.iter().map(|words| keep(words, &|words| vec![selector(words)])).collect();
    let mut all = root.clone();
    all.extend(selectors.iter().map(|words| selector(words)));
    users.set(b"u", &all).expect("each word was accepted");
    Model::of(root, selectors)
}

/// A selector of these words, as a client may write it.
fn selector(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word.as_bytes())).collect();
    format!("({})", quoted.join(" "))
}

fn check(users: &Users, asked: &Question<'_>) -> bool {
    let words = [asked.command, asked.argument, asked.channel.unwrap_or_default()];
    let args: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
    let keyed: OwnedArgs =
        [asked.command, asked.key.map_or("", |it| it.0)].iter().map(|it| it.as_bytes()).collect();
    // The key stands where an argument of SELECT would.
    let args = if asked.key.is_some() { keyed.as_args() } else { args.as_args() };
    let keys: Vec<(usize, KeyAccess)> = asked.key.iter().map(|(_, needs)| (1, *needs)).collect();
    let channels: &[usize] = if asked.channel.is_some() { &[2] } else { &[] };
    let asked = AccessRequest {
        command: users.catalogue().find(asked.command.as_bytes()).expect("it is listed"),
        args,
        keys: &keys,
        channels,
        channels_are_patterns: false,
        databases: &[(0, Database::Number(asked.database))],
    };
    users.named(b"u").expect("it was made").rules().check(&asked).is_ok()
}

/// Every command with some keys, channels and databases: where the two disagree.
fn disagreement(users: &Users, model: &Model) -> Option<String> {
    let needs = [
        KeyAccess::NOTHING,
        KeyAccess::READ,
        KeyAccess::WRITE,
        KeyAccess::READ.and(KeyAccess::WRITE),
    ];
    let keys = ["a", "b", "ab", "()", ""].into_iter().flat_map(|key| needs.map(|it| (key, it)));
    let mut questions: Vec<Question<'_>> = Vec::new();
    for (command, _) in COMMANDS {
        let plain = Question { command, argument: "0", key: None, channel: None, database: 0 };
        questions.extend([0, 1].map(|database| Question { database, ..plain }));
        questions.extend(["1", "b", "x"].map(|argument| Question { argument, ..plain }));
        questions.extend(["a", "ba"].map(|channel| Question { channel: Some(channel), ..plain }));
        questions.extend(keys.clone().map(|key| Question {
            key: Some(key),
            argument: key.0,
            ..plain
        }));
    }
    let wrong = questions.into_iter().find(|it| check(users, it) != model.allows(it))?;
    let Question { command, argument, key, channel, database } = wrong;
    Some(format!("{command} {argument} {key:?} {channel:?} in {database}"))
}

proptest! {
    #[test]
    fn a_check_says_what_the_model_says(
        root in prop::collection::vec(word(), 0..12),
        selectors in prop::collection::vec(prop::collection::vec(word(), 0..6), 0..3),
    ) {
        let users = users();
        let model = accepted(&users, &root, &selectors);
        prop_assert_eq!(disagreement(&users, &model), None);
    }

    #[test]
    fn a_description_read_again_gives_the_same_rules(
        root in prop::collection::vec(word(), 0..12),
        selectors in prop::collection::vec(prop::collection::vec(word(), 0..6), 0..3),
        flags in prop::sample::subsequence(&["on", ">x", ">y", "skip-sanitize-payload"][..], 0..4),
    ) {
        let users = users();
        let model = accepted(&users, &root, &selectors);
        users.set(b"u", &flags).expect("they are rules");
        let file = users.write_file();
        let again = super::users();
        let declared = again.read_file(&file, "file");
        prop_assert!(declared.is_ok(), "{:?} in {:?}", declared.err(), file);
        again.replace_all(declared.expect("it was looked at"), None);
        prop_assert_eq!(again.write_file(), file);
        prop_assert_eq!(disagreement(&again, &model), None);
    }

    #[test]
    fn a_wrong_rule_changes_nothing(
        before in prop::collection::vec(word(), 0..8),
        after in prop::collection::vec(
            prop_oneof![word(), "[ -~]{0,6}", Just("(".to_owned())], 1..8),
    ) {
        let users = users();
        let _ = users.set(b"u", &before);
        let text = users.write_file();
        if users.set(b"u", &after).is_err() {
            prop_assert_eq!(users.write_file(), text);
        }
    }
}
