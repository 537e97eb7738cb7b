//! What a client's MIGRATE asks for.
//!
//! Invariant: nothing of it changes while it is carried out.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use engine::session::{AclSubject, Request};
use engine::shared::Shared;
use engine::table::command_table::CommandEntry;
use keyspace::{PartitionSet, TxOptions};
use proto::{OwnedArgs, Resp};

/// One MIGRATE.
pub(crate) struct MigrateRequest {
    /// The command.
    pub(crate) entry: &'static CommandEntry,
    /// The request, its name first.
    pub(crate) args: OwnedArgs,
    /// Which arguments are keys.
    pub(crate) keys: Range<usize>,
    /// Where they go.
    pub(crate) target: MigrateTarget,
    /// The target's database.
    pub(crate) database: i64,
    /// How long each step of the exchange may take.
    pub(crate) patience: Duration,
    /// Whether the keys stay here.
    pub(crate) copies: bool,
    /// Whether they take the place of what the target has.
    pub(crate) replaces: bool,
    /// How the client's transactions begin.
    pub(crate) options: TxOptions,
    /// Whose rights count.
    pub(crate) subject: Option<Arc<AclSubject>>,
    /// The protocol of the reply.
    pub(crate) resp: Resp,
}

/// Another server, how it is reached, and our user there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MigrateTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the link to the target is encrypted by TLS.
    pub(crate) is_encrypted: bool,
    pub(crate) credentials: Option<Credentials>,
}

/// A login at another server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<Box<[u8]>>,
    pub(crate) password: Box<[u8]>,
}

impl MigrateRequest {
    /// A key, by its place among the arguments.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        self.args.as_args().get(index).unwrap_or_default()
    }

    /// Whose locks these keys need.
    pub(super) fn partitions(
        &self,
        server: &Shared,
        keys: impl Iterator<Item = usize>,
    ) -> PartitionSet {
        keys.map(|index| server.keyspace.locate(self.key(index)).partition()).collect()
    }

    /// How a transaction begins now, on a thread that may wait.
    pub(super) fn options(&self, server: &Shared, lane: usize) -> TxOptions {
        let now_us = server.keyspace.clock().now_us();
        TxOptions { lane, now: now_us / 1000, now_us, heavy: true, ..self.options }
    }

    /// The request, as the gates are asked for it.
    pub(super) fn request(&self) -> Request<'_> {
        let database = self.options.database;
        Request { entry: self.entry, args: self.args.as_args(), database }
    }
}
