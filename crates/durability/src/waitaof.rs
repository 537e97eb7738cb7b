//! What WAITAOF tells of the log here.
//!
//! Invariant: a copy counts only while there is a base that it stands behind.

use keyspace::{Lsn, Refusal};
use proto::Reply;

use crate::durability::Durability;

/// What is said where there is no log to wait for.
pub const NO_FILE: Refusal =
    Refusal::error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// Says how many copies there are of what was written up to `lsn`: in the file here, whether or not
/// it was asked for, and none on replicas.
pub fn reply_copies(server: &Durability, lsn: Lsn, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(i64::from(is_in_file(server, lsn)));
    reply.integer(0);
}

/// Whether there is a file with a base, and all up to `lsn` is safe in it.
pub fn is_in_file(server: &Durability, lsn: Lsn) -> bool {
    server.aof.is_relied_on() && lsn <= server.journal.safe()
}
