//! The section Keyspace: the databases that hold keys.
//!
//! Invariant: an empty database is not listed.

use super::Report;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut Report) {
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
