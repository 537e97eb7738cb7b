//! Rules over `unsafe`: in which rooms it may stand, and that all others forbid it.

use super::source::Source;

/// The rooms whose very work is memory; clippy sees that each block there says why it is sound.
const UNSAFE_ROOMS: [&str; 3] =
    ["crates/structs/", "crates/keyspace/src/entry", "crates/keyspace/src/lock"];

/// Unsafe code stays where it is looked for.
pub(super) fn unsafe_code(source: &Source) -> Vec<(usize, String)> {
    if source.is_in(&UNSAFE_ROOMS) || is_foreign(source) {
        return Vec::new();
    }
    let found = source.words.iter().filter(|(_, word)| word == "unsafe");
    let reason = "only in structs, keyspace's entry and lock files, and `ffi.rs`";
    found.map(|(line, _)| (*line, reason.to_owned())).collect()
}

/// Every other crate's root says `forbid`, or `deny` where an `ffi.rs` must be let through.
pub(super) fn crate_roots(sources: &[Source]) -> Vec<String> {
    let roots = sources.iter().filter(|source| {
        let folder = crate_folder(source);
        let own = source.path.strip_prefix(folder);
        matches!(own, Some("src/lib.rs" | "src/main.rs")) && !source.is_in(&UNSAFE_ROOMS)
    });
    let lax = roots.filter(|root| {
        let folder = crate_folder(root);
        let foreign = sources.iter().any(|file| is_foreign(file) && file.path.starts_with(folder));
        let relaxed = foreign || folder == "crates/keyspace/";
        let word = if relaxed { "deny(unsafe_code)" } else { "forbid(unsafe_code)" };
        !root.attributes.iter().any(|(_, text)| text == word || text == "forbid(unsafe_code)")
    });
    lax.map(|root| format!("{}:1: unsafe: begin with `#![forbid(unsafe_code)]`", root.path))
        .collect()
}

/// Whether the file is the edge to another language.
fn is_foreign(source: &Source) -> bool {
    source.path.ends_with("/ffi.rs")
}

/// The folder of the crate that holds the file: everything before `src/`.
fn crate_folder(source: &Source) -> &str {
    source.path.find("src/").map_or("", |at| &source.path[..at])
}

#[cfg(test)]
mod tests {
    use super::crate_roots;
    use crate::tidy::source::Source;

    #[test]
    fn a_root_forbids_unsafe_unless_it_has_a_foreign_edge() {
        let source = |path: &str, text: &str| Source::parse(path, text.to_owned()).unwrap();
        let forbidding = source("crates/base/src/lib.rs", "#![forbid(unsafe_code)]");
        let denying = source("crates/server/src/lib.rs", "#![deny(unsafe_code)]");
        let edge = source("crates/server/src/ffi.rs", "");
        let structs = source("crates/structs/src/lib.rs", "");
        assert_eq!(crate_roots(&[forbidding, structs]), Vec::<String>::new());
        assert_eq!(crate_roots(&[denying, edge]), Vec::<String>::new());
        let silent = source("crates/server/src/lib.rs", "#![deny(unsafe_code)]");
        let expected = "crates/server/src/lib.rs:1: unsafe: begin with `#![forbid(unsafe_code)]`";
        assert_eq!(crate_roots(&[silent]), [expected]);
    }
}
