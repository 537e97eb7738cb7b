//! What WAIT and WAITAOF tell of copies: in the log here, and on replicas.
//!
//! Invariant: a copy counts only while there is a base that it stands behind.

use engine::session::AckRequirement;
use keyspace::{Lsn, Refusal};
use proto::Reply;

use crate::durability::Durability;

/// What is said where there is no log to wait for.
pub const NO_FILE: Refusal =
    Refusal::error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// Says how many copies there are of what was written up to `lsn`. WAITAOF tells of the file here,
/// whether or not it was asked for, and of replicas, WAIT of replicas.
pub fn reply_copies(server: &Durability, lsn: Lsn, awaited: AckRequirement, reply: &mut Reply<'_>) {
    let acks = &server.journal.replica_acks;
    match awaited {
        AckRequirement::Applied { .. } => reply.integer(acks.applied(lsn) as i64),
        AckRequirement::Synced { .. } => {
            reply.array(2);
            reply.integer(i64::from(is_in_file(server, lsn)));
            reply.integer(acks.synced(lsn) as i64);
        }
    }
}

/// Whether as many replicas have it as are wanted.
pub fn is_on_replicas(server: &Durability, lsn: Lsn, awaited: AckRequirement) -> bool {
    let acks = &server.journal.replica_acks;
    match awaited {
        AckRequirement::Applied { replicas } => acks.applied(lsn) >= replicas,
        AckRequirement::Synced { replicas, .. } => replicas == 0 || acks.synced(lsn) >= replicas,
    }
}

/// Whether there is a file with a base, and all up to `lsn` is safe in it.
pub fn is_in_file(server: &Durability, lsn: Lsn) -> bool {
    server.aof.is_relied_on() && lsn <= server.journal.safe()
}
