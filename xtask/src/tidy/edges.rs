//! The import edges between the rooms, pinned against `cargo metadata`. Invariant: a crate of the
//! workspace that this table does not name fails.

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::shell;

/// Each room, and the rooms it may import.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("crash", &[]),
    ("proto", &["base"]),
    ("structs", &["base"]),
    ("keyspace", &["base", "structs"]),
    ("commands", &["base", "proto", "structs", "keyspace"]),
    ("script", &["base", "proto"]),
    ("acl", &["base", "proto", "commands"]),
    ("config", &["base", "proto"]),
    ("persist", &["base", "proto", "structs", "keyspace"]),
    ("replication", &["base", "proto"]),
    ("sentinel", &["base", "proto"]),
    ("cluster", &["base"]),
    ("quorum", &["base", "cluster"]),
    ("consensus", &["base", "cluster", "persist", "quorum"]),
    ("tls", &["base"]),
    ("otlp", &[]),
    ("engine", ENGINE),
    ("durability", DURABILITY),
    ("server", SERVER),
    ("bench", &["base", "proto", "tls"]),
    ("cli", &["base", "proto", "tls"]),
    ("apus", &["base", "persist", "server", "bench", "cli"]),
    ("tests", &["base", "proto", "commands", "config", "server"]),
    ("xtask", &["base", "bench"]),
];

/// What the engine may import: all that knows no server.
const ENGINE: &[&str] = &[
    "base",
    "crash",
    "proto",
    "structs",
    "keyspace",
    "commands",
    "script",
    "acl",
    "config",
    "persist",
    "replication",
];

/// What keeps the data builds on the engine.
const DURABILITY: &[&str] = &[
    "base",
    "proto",
    "structs",
    "keyspace",
    "commands",
    "script",
    "acl",
    "config",
    "persist",
    "replication",
    "engine",
];

/// The server may import everything.
const SERVER: &[&str] = &[
    "base",
    "crash",
    "proto",
    "structs",
    "keyspace",
    "commands",
    "script",
    "acl",
    "config",
    "persist",
    "engine",
    "durability",
    "replication",
    "sentinel",
    "cluster",
    "tls",
    "otlp",
];

/// The only rooms that import tokio; the event loop is the server's, and the tasks of `consensus`
/// run on one that the server gives them.
const TOKIO_ROOMS: [&str; 4] = ["engine", "durability", "consensus", "server"];

/// Names every edge that is not in the table.
pub(super) fn check() -> Result<Vec<String>, String> {
    let metadata = MetadataCommand::new().current_dir(shell::root()).no_deps().exec();
    let metadata = metadata.map_err(|error| error.to_string())?;
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let normal = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal);
        let imports = normal.map(|dependency| (&*dependency.name, dependency.path.is_some()));
        let own_manifest = package.manifest_path.strip_prefix(shell::root());
        let path = own_manifest.map_or(package.manifest_path.as_str(), |path| path.as_str());
        let found = forbidden(&package.name, imports);
        problems.extend(found.into_iter().map(|message| format!("{path}:1: edge: {message}")));
    }
    Ok(problems)
}

/// What `room` imports (`true` marks a room of ours) but may not.
fn forbidden<'a>(room: &str, imports: impl Iterator<Item = (&'a str, bool)>) -> Vec<String> {
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{room} is not in the table of rooms")];
    };
    let wrong = imports.filter(|(name, is_room)| {
        let is_loop = *name == "tokio" && !TOKIO_ROOMS.contains(&room);
        is_loop || (*is_room && !allowed.contains(name))
    });
    wrong.map(|(name, _)| format!("{room} must not import {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn a_wrong_edge_is_named() {
        let imports = [("base", true), ("keyspace", true), ("tokio", false), ("libc", false)];
        let expected = ["proto must not import keyspace", "proto must not import tokio"];
        assert_eq!(forbidden("proto", imports.into_iter()), expected);
        assert!(forbidden("server", imports.into_iter()).is_empty());
        assert_eq!(forbidden("new", [].into_iter()), ["new is not in the table of rooms"]);
    }
}
