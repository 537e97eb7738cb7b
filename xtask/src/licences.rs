//! `licences`: the part of `deny.toml` that needs no network and no further program, read from
//! `cargo metadata`. Invariant: every crate outside the workspace offers a licence of the allow-
//! list; no banned crate is linked.

use std::collections::BTreeMap;

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::shell;

/// Checks licences and bans; names duplicate versions, which are a warning only.
pub(crate) fn run() -> Result<(), String> {
    let metadata = MetadataCommand::new().current_dir(shell::root()).other_options(locked()).exec();
    let metadata = metadata.map_err(|error| error.to_string())?;
    let file = shell::root().join("deny.toml");
    let policy = std::fs::read_to_string(&file).map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = strings(&policy, "licenses", "allow");
    let banned = strings(&policy, "bans", "deny");
    warn_of_duplicates(&metadata);
    let mut problems = 0;
    for package in outside(&metadata) {
        let licence = package.license.as_deref().unwrap_or("none");
        if !satisfies(licence, &allowed) {
            eprintln!("{} {}: licence {licence} is not allowed", package.name, package.version);
            problems += 1;
        }
        if banned.iter().any(|name| name == package.name.as_str()) {
            eprintln!("{} {}: is banned", package.name, package.version);
            problems += 1;
        }
    }
    if problems == 0 { Ok(()) } else { Err(format!("{problems} problems")) }
}

fn locked() -> Vec<String> {
    vec!["--filter-platform=x86_64-unknown-linux-gnu".to_owned()]
}

/// The crates which are linked but not ours.
fn outside(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    let resolve = metadata.resolve.as_ref();
    let linked = resolve.into_iter().flat_map(|resolve| &resolve.nodes);
    linked.map(|node| &metadata[&node.id]).filter(|package| package.source.is_some())
}

fn warn_of_duplicates(metadata: &Metadata) {
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in outside(metadata) {
        versions.entry(package.name.as_str()).or_default().push(package.version.to_string());
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        println!("note: {name} is linked in versions {}", versions.join(" and "));
    }
}

/// Whether an SPDX expression leaves an allowed choice: an `OR` needs one side, an `AND` both.
fn satisfies(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at, allowed) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut fine = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        fine |= both(words, at, allowed);
    }
    fine
}

fn both(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut fine = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        fine &= one(words, at, allowed);
    }
    fine
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let fine = either(words, at, allowed);
        *at += 1;
        return fine;
    }
    let mut name = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&name)
}

/// The strings of an array `key = [..]` in a table of a TOML file written one entry to a line.
fn strings(toml: &str, table: &str, key: &str) -> Vec<String> {
    let head = format!("[{table}]");
    let start = format!("{key} = [");
    let lines = toml.lines().skip_while(|line| *line != head).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    let array = own.skip_while(|line| !line.starts_with(&start)).take_while(|line| *line != "]");
    array.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{satisfies, strings};

    #[test]
    fn an_expression_needs_an_allowed_choice() {
        let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for fine in [
            "MIT",
            "GPL-2.0 OR MIT",
            "Apache-2.0/MIT",
            "(MIT OR GPL-2.0) AND Zlib",
            allowed[2].as_str(),
        ] {
            assert!(satisfies(fine, &allowed), "{fine}");
        }
        for bad in ["GPL-2.0", "MIT AND GPL-2.0", "none", "", "MIT )", "Apache-2.0"] {
            assert!(!satisfies(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn an_array_is_read_from_its_own_table() {
        let bans = "[bans]\ndeny = [\n    \"a\", # why\n]\n";
        let licences = "[licenses]\nallow = [\n    \"b\",\n    \"c\",\n]\n";
        let toml = &format!("{bans}{licences}");
        assert_eq!(strings(toml, "licenses", "allow"), ["b", "c"]);
        assert_eq!(strings(toml, "bans", "deny"), ["a"]);
        assert!(strings(toml, "bans", "allow").is_empty());
    }
}
