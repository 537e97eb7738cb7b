//! Rules and files of users, of any bytes: an error that changes nothing, or users whose text read
//! again gives the same ones, with the same rights.
#![no_main]

use std::sync::{Arc, LazyLock};

use acl::{AccessRequest, Catalogue, CatalogueEntry, Database, KeyAccess, Rules, Users};
use libfuzzer_sys::fuzz_target;
use proto::OwnedArgs;

/// Names, and the command that each is a subcommand of.
const COMMANDS: [(&str, Option<usize>); 6] = [
    ("get", None),
    ("set", None),
    ("config", None),
    ("config|get", Some(2)),
    ("select", None),
    ("auth", None),
];

static CATALOGUE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
    Arc::new(Catalogue::new(COMMANDS.iter().enumerate().map(|(id, (name, container))| {
        CatalogueEntry {
            id,
            name: (*name).to_owned(),
            categories: vec![if id % 2 == 0 { "@read" } else { "@write" }, "@fast"],
            container: *container,
            is_exempt: *name == "auth",
        }
    })))
});

fuzz_target!(|data: &[u8]| {
    let users = Users::new(Arc::clone(&CATALOGUE));
    let words: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let before = users.write_file();
    match users.set(b"user", &words) {
        Ok(_) => comes_back(&users, data),
        Err(_) => assert_eq!(users.write_file(), before, "a wrong rule changes nothing"),
    }
    match users.read_file(data, "file") {
        Ok(declared) => {
            users.replace_all(declared, None);
            comes_back(&users, data);
        }
        Err(why) => assert!(why.len() <= 200 + 200 * words.len() + 10 * data.len()),
    }
});

/// Whether the text of the users, read again, gives the same.
fn comes_back(users: &Users, data: &[u8]) {
    let text = users.write_file();
    let again = Users::new(Arc::clone(&CATALOGUE));
    let declared = again.read_file(&text, "file").expect("it was written by us");
    again.replace_all(declared, None);
    assert_eq!(again.write_file(), text);
    for user in users.all() {
        let other = again.named(user.name()).expect("it was written");
        assert_eq!(allowed(&user.rules(), data), allowed(&other.rules(), data));
        assert_eq!(user.is_unlimited(), other.is_unlimited());
    }
}

/// Which commands may be run on parts of the data.
fn allowed(rules: &Rules, data: &[u8]) -> Vec<bool> {
    let part = &data[..data.len().min(8)];
    let args: OwnedArgs = [b"x", part].into_iter().collect();
    let needs = [KeyAccess::NOTHING, KeyAccess::READ, KeyAccess::WRITE];
    let asked = (0..COMMANDS.len()).flat_map(|command| needs.map(|needs| (command, needs)));
    let may = |(command, needs)| {
        let keys = [(1, needs)];
        let asked = AccessRequest {
            command,
            args: args.as_args(),
            keys: &keys,
            channels: &[1],
            channels_are_patterns: command % 2 == 0,
            databases: &[(0, Database::Number(command))],
        };
        rules.check(&asked).is_ok()
    };
    asked.map(may).collect()
}
