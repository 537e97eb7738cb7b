//! Every family of commands that the server has, and what a Sentinel serves of them.
//!
//! Invariant: a command that no family here holds does not exist; the order is the order of ids,
//! and that of COMMAND.

use commands::Spec;
use durability::data;
use engine::scripting;
use engine::table::command_table::{CommandEntry, CommandTable, Families};
use engine::transaction::unit;
use engine::transaction::unit::Prepare;

use ::sentinel::SERVED;

use crate::control;
use crate::control::context::ControlHandler;
use crate::sentinel;

/// What the table of commands is made of.
pub(crate) const FAMILIES: Families<ControlHandler, Prepare> = Families {
    data: &[commands::FAMILIES, &[data::COMMANDS]],
    control: &[
        control::acl::COMMANDS,
        control::cluster::COMMANDS,
        control::connection::COMMANDS,
        control::fieldsets::COMMANDS,
        control::module::COMMANDS,
        control::pubsub::COMMANDS,
        control::replication::COMMANDS,
        control::server::COMMANDS,
        control::scripting::COMMANDS[0],
        control::scripting::COMMANDS[1],
        control::transactions::COMMANDS,
    ],
    programs: &[unit::COMMANDS, scripting::COMMANDS[0], scripting::COMMANDS[1]],
    subcommands: &[commands::SUBCOMMANDS, data::SUBCOMMANDS],
};

/// All commands of the server and of a Sentinel with their declarations, by their full names in
/// lower case (`client|kill`), for pages that are made of them. A container is among them.
pub fn declarations() -> Vec<(String, &'static Spec)> {
    let tables = [&FAMILIES, &of_sentinel()]
        .map(|families| CommandTable::build(families, &[]).expect("nothing is renamed").table);
    let mut all: Vec<(String, &'static Spec)> = Vec::new();
    for entry in tables.iter().flat_map(CommandTable::entries).flat_map(CommandEntry::family) {
        if all.iter().all(|(name, _)| *name != entry.full_name) {
            all.push((entry.full_name.clone(), entry.spec));
        }
    }
    all
}

/// The commands of a Sentinel: of the server's those that it serves, some in a way of its own, and
/// what only a Sentinel is asked.
pub(crate) fn of_sentinel() -> Families<ControlHandler, Prepare> {
    // The crate of Sentinels knows no declarations: the names are compared once, at the start.
    let is_own = |name: &str| sentinel::COMMANDS.iter().any(|own| own.spec.name == name);
    let is_served = |name: &str| SERVED.iter().any(|served| served.eq_ignore_ascii_case(name));
    let of_server = FAMILIES.control.iter().copied().flatten().copied();
    let shared = of_server.filter(|it| is_served(it.spec.name) && !is_own(it.spec.name));
    let commands: Vec<_> = shared.chain(sentinel::COMMANDS.iter().copied()).collect();
    // The table lives as long as the process.
    let control = Box::leak(Box::new([&*commands.leak()]));
    Families { data: &[], control, programs: &[], subcommands: &[] }
}

#[cfg(test)]
mod tests {
    use commands::Role;
    use engine::observe::redact::redacted;
    use engine::table::command_table::{CommandEntry, CommandTable};
    use proto::OwnedArgs;

    use super::{FAMILIES, of_sentinel};

    #[test]
    fn a_name_is_found_in_any_case_and_no_other_is() {
        let renames = [("get", "ab_-[`@{9"), ("set", "q@[^_z")].map(|(old, new)| {
            let [old, new] = [old, new].map(str::to_owned);
            (old, new)
        });
        let table = CommandTable::build(&FAMILIES, &renames).unwrap().table;
        for entry in table.entries() {
            let name = entry.full_name.as_bytes();
            for found in [name.to_vec(), name.to_ascii_uppercase(), name.to_ascii_lowercase()] {
                assert_eq!(table.find(&found).unwrap().id, entry.id);
            }
            for index in 0..name.len() {
                for flip in [1, 0x20, 0x40, 0x80] {
                    let mut other = name.to_vec();
                    other[index] ^= flip;
                    let found = table.find(&other).map(|found| found.id);
                    let is_same = other.eq_ignore_ascii_case(name);
                    assert_eq!(found == Some(entry.id), is_same, "{other:?}");
                }
            }
            let longer = [b"\0", name].concat();
            assert!(
                table.find(&longer).is_none()
                    && table
                        .find(&name[1..])
                        .is_none_or(|it| { it.full_name.as_bytes() == &name[1..] })
            );
        }
        assert!(table.find(b"get").is_none() && table.find(b"").is_none());
    }

    #[test]
    fn a_sentinel_has_what_it_serves_and_no_more() {
        let table = CommandTable::build(&of_sentinel(), &[]).unwrap().table;
        let mut names: Vec<_> = table.entries().iter().map(|it| it.full_name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ::sentinel::SERVED);
    }

    #[test]
    fn a_role_is_that_of_one_command() {
        let table = CommandTable::build(&FAMILIES, &[]).unwrap().table;
        for (line, role) in [
            ("MULTI", Role::Multi),
            ("EXEC", Role::Exec),
            ("DISCARD", Role::Discard),
            ("SELECT", Role::Select),
            ("PING", Role::Ping),
            ("PUBLISH", Role::Publish),
            ("SPUBLISH", Role::ShardPublish),
            ("REPLCONF", Role::Replconf),
            ("PSYNC", Role::Psync),
            ("SYNC", Role::Sync),
            ("DEBUG", Role::Debug),
            ("MIGRATE", Role::Migrate),
        ] {
            let all = table.entries().iter().flat_map(CommandEntry::family);
            let named: Vec<_> = all.filter(|it| it.spec.role == role).collect();
            assert!(matches!(named[..], [one] if one.spec.name == line), "{line}");
        }
        let script = table.find(b"script").unwrap();
        assert!(script.family().all(|entry| entry.spec.role == Role::Script));
    }

    /// What others see of a request line, on a server that renamed AUTH to LOGIN.
    fn seen(line: &str) -> String {
        let renames = [("auth".to_owned(), "login".to_owned())];
        let table = CommandTable::build(&FAMILIES, &renames).unwrap().table;
        let owned: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
        let args = owned.as_args();
        let entry = table.resolve(args).ok().unwrap();
        let words =
            (0..args.len()).map(|index| String::from_utf8_lossy(redacted(entry, args, index)));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(seen("LOGIN secret"), "LOGIN (redacted)");
        assert_eq!(seen("login default secret"), "login (redacted) (redacted)");
        assert_eq!(
            seen("HELLO 3 auth default secret SETNAME me"),
            "HELLO 3 auth (redacted) (redacted) SETNAME me"
        );
        assert_eq!(
            seen("MIGRATE h 1 k 0 9 AUTH KEYS AUTH2 AUTH AUTH KEYS AUTH x"),
            "MIGRATE h 1 k 0 9 AUTH (redacted) AUTH2 (redacted) (redacted) KEYS AUTH x"
        );
        assert_eq!(seen("ACL SETUSER me >secret"), "ACL SETUSER (redacted) (redacted)");
        assert_eq!(seen("ACL DRYRUN me AUTH secret"), "ACL DRYRUN me AUTH (redacted)");
        assert_eq!(seen("ACL GETUSER me"), "ACL GETUSER (redacted)");
        assert_eq!(seen("ACL DELUSER me you"), "ACL DELUSER (redacted) (redacted)");
        assert_eq!(
            seen("CONFIG SET port 1 requirepass secret masterauth"),
            "CONFIG SET port 1 requirepass (redacted) masterauth"
        );
        assert_eq!(seen("CONFIG GET requirepass secret"), "CONFIG GET requirepass secret");
        assert_eq!(seen("SET requirepass secret"), "SET requirepass secret");
        assert_eq!(seen("CLIENT SETNAME auth"), "CLIENT SETNAME auth");
    }
}
