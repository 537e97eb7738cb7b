//! What a session keeps between MULTI and EXEC, and from WATCH on.
//!
//! Invariant: a watch's registrations are taken off its keys when it ends, however it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use commands::Flags;
use keyspace::{Keyspace, Location, Tx, TxOptions, Watch};
use proto::{Args, OwnedArgs};

use crate::clients::LiveFigures;
use crate::heavy::Admission;
use crate::server::Server;
use crate::table::Entry;

/// A session's transaction to be.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    /// The commands since MULTI.
    pub(super) queue: Option<Arc<Queue>>,
    pub(super) watching: Option<Watching>,
}

/// Commands that wait for EXEC.
#[derive(Clone, Default)]
pub(crate) struct Queue {
    pub(super) commands: Vec<Queued>,
    /// The flags of all of them together.
    flags: Flags,
    /// Bytes of memory in their arguments.
    memory: usize,
    /// Whether one was refused, so that EXEC will be.
    pub(super) is_spoilt: bool,
}

/// A command that waits for EXEC.
#[derive(Clone)]
pub(crate) struct Queued {
    pub(super) entry: &'static Entry,
    pub(super) args: OwnedArgs,
    /// Where its one key belongs, if it has just one, at index 1.
    pub(super) location: Option<Location>,
}

/// A client's watch and its keys, by logical database.
#[derive(Clone)]
pub(crate) struct Watching {
    pub(super) watch: Arc<Watch>,
    pub(super) keys: Vec<(usize, Box<[u8]>)>,
}

impl Pending {
    /// Whether commands are queued instead of run.
    #[inline]
    pub(crate) fn is_queueing(&self) -> bool {
        self.queue.is_some()
    }

    /// What EXEC would do, as far as flags tell.
    pub(crate) fn flags(&self) -> Flags {
        self.queue.as_ref().map_or(Flags::NONE, |queue| queue.flags)
    }

    /// Ends it without EXEC.
    pub(crate) fn end(self, server: &'static Server) {
        if let Some(watching) = self.watching {
            watching.end_elsewhere(server);
        }
    }

    pub(super) fn begin(&mut self) {
        self.queue = Some(Arc::default());
    }

    /// Queues a command.
    pub(crate) fn push(
        &mut self,
        entry: &'static Entry,
        args: Args<'_>,
        location: Option<Location>,
    ) {
        let Some(queue) = &mut self.queue else { return };
        let queue = Arc::make_mut(queue);
        let args = OwnedArgs::from(args);
        queue.flags = queue.flags.and(entry.spec.flags);
        queue.memory += args.memory() + size_of::<Queued>();
        queue.commands.push(Queued { entry, args, location });
    }

    /// A command was refused while others are queued: EXEC will be, too.
    #[cold]
    pub(crate) fn spoil(&mut self) {
        if let Some(queue) = &mut self.queue {
            Arc::make_mut(queue).is_spoilt = true;
        }
    }

    /// Shows it in CLIENT LIST.
    pub(crate) fn show(pending: Option<&Self>, live: &LiveFigures) {
        let queue = pending.and_then(|it| it.queue.as_ref());
        let queued = queue.map_or(-1, |queue| queue.commands.len() as i32);
        let watching = pending.and_then(|it| it.watching.as_ref());
        live.queued.store(queued, Ordering::Relaxed);
        live.queued_bytes.store(queue.map_or(0, |queue| queue.memory as u64), Ordering::Relaxed);
        live.watched.store(watching.map_or(0, |it| it.keys.len() as u32), Ordering::Relaxed);
    }
}

impl Watching {
    pub(super) fn begin(keyspace: &'static Keyspace) -> Self {
        Self { watch: Watch::new(keyspace), keys: Vec::new() }
    }

    /// Takes the watch off its keys, which the transaction holds.
    pub(super) fn end(&self, tx: &mut Tx) {
        self.keys.iter().for_each(|(database, key)| tx.unwatch(*database, key, &self.watch));
    }

    /// As `end`, at some time soon: for a session that is over.
    fn end_elsewhere(self, server: &'static Server) {
        if self.keys.is_empty() {
            return;
        }
        let keyspace = server.keyspace;
        server.heavy.spawn(move |lane| {
            let mut admission = Admission::wait(keyspace);
            for (database, key) in &self.keys {
                let acquisition = admission.acquire(keyspace.locate(key).partition);
                let options = TxOptions::internal(lane, keyspace.clock().now_ms());
                Tx::begin(acquisition, options).unwatch(*database, key, &self.watch);
            }
        });
    }
}
