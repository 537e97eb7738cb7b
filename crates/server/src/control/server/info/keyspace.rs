//! The sections Keyspace and Keysizes: the databases that hold keys, and how large these are.
//!
//! Invariant: an empty database is not listed, nor a type or a size without keys.

use std::fmt::{self, Display, Formatter};

use keyspace::Kind;

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let keyspace = server.keyspace;
    for database in 0..keyspace.database_count() {
        let keys = keyspace.len(database);
        if keys > 0 {
            let expires = keyspace.volatile_len(database);
            let with_members = keyspace.members_volatile_len(database);
            let mean = report.mean_ttls.get(database).copied().unwrap_or_default();
            report.field(
                &format!("db{database}"),
                format_args!(
                    "keys={keys},expires={expires},avg_ttl={mean},subexpiry={with_members}"
                ),
            );
        }
    }
}

pub(super) fn write_sizes(server: &Server, report: &mut InfoText) {
    let keyspace = server.keyspace;
    for database in (0..keyspace.database_count()).filter(|&it| keyspace.len(it) > 0) {
        for (kind, counts) in keyspace.sizes(database).by_kind() {
            let listed: Vec<String> =
                counts.map(|(size, count)| format!("{}={count}", Shortened(size))).collect();
            if !listed.is_empty() {
                let name = distribution_of(kind);
                report.field(&format!("db{database}_distrib_{name}"), listed.join(","));
            }
        }
    }
}

fn distribution_of(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "strings_sizes",
        Kind::List => "lists_items",
        Kind::Set => "sets_items",
        Kind::SortedSet => "zsets_items",
        Kind::Hash => "hashes_items",
        Kind::Stream | Kind::Array => unreachable!("their sizes are not counted"),
    }
}

/// A power of two, by the largest unit that divides it.
struct Shortened(u64);

impl Display for Shortened {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let unit = self.0.checked_ilog2().unwrap_or(0) / 10;
        let letter = ["", "K", "M", "G", "T", "P", "E"][unit as usize];
        write!(formatter, "{}{letter}", self.0 >> (10 * unit))
    }
}
