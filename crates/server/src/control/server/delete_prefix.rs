//! DELPREFIX: deletes all keys whose names begin so, some at a time.
//!
//! Where `prefix-index` has the prefix, or one that it begins with, only the keys of that are
//! looked at, and else all keys of the database.
//!
//! Invariants: a step holds one partition for some hundred keys at most, and asks the gates before
//! it deletes any; what it deletes is told to the log, to replicas and to clients as DEL tells it.
//! All steps together are no one moment: a key that comes meanwhile may stay. Others always find a
//! thread, as no more than two deletions run at a time, and none waits for a key for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use commands::declare::{Command, Flags, Group, Spec, exactly};

use engine::admission::readmission::Readmission;
use engine::clients::mailbox::PendingWakes;
use engine::clients::registry::Client;
use engine::commit::publish::commit;
use engine::runtime::background::{BETWEEN_LOOKS, BackgroundAccess, wait_for_client_while};
use engine::session::{Request, tx_options};
use keyspace::{
    Acquisition, BUSY, EntryRef, EventClass, PartitionIndex, PartitionSet, PrefixNumber, Refusal,
    Tx, TxOptions,
};
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::server::Server;

const EMPTY: Refusal =
    Refusal::error("ERR an empty prefix is that of all keys, which FLUSHDB deletes");

/// So many deletions run at a time: a pause may hold each on its thread.
const UNDER_WAY_MAX: usize = 2;

const TOO_MANY: Refusal =
    Refusal::error("BUSY DELPREFIX is running for others. Try again when it has ended.");

/// So many keys are looked at under one hold of their lock.
const STEP: usize = 128;

pub(super) const DELPREFIX: ControlCommand = Command {
    spec: Spec {
        name: "DELPREFIX",
        since: "0.1.0",
        group: Group::Generic,
        syntax: "prefix",
        summary: "Deletes all keys whose names begin with a prefix, some at a time.",
        complexity: "O(M) where M is the number of keys that begin so, if `prefix-index` has the \
            prefix. Otherwise O(N) where N is the number of keys in the database. Both on a \
            background thread.",
        arity: exactly(2),
        flags: Flags::WRITE.and(Flags::NOT_IN_UNIT),
        prefix: Some(1),
        categories: &["@dangerous"],
        origin: "apus",
        ..Spec::BASE
    },
    subcommands: &[],
    run: delete_prefix,
};

fn delete_prefix(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if args[1].is_empty() {
        return Err(EMPTY);
    }
    let (server, entry, lane) = (context.server, context.entry, context.lane()?);
    let turn = DeletionTurn::take().ok_or(TOO_MANY)?;
    let session = context.session()?;
    let client = Arc::clone(&session.client);
    let (options, subject) = (tx_options(lane, session), session.acl_subject_from_now(server));
    Ok(ControlOutcome::offload_with_locks(move |lane, args, reply| {
        let _turn = &turn;
        let request = Request { entry, args, database: options.database };
        let deletion = PrefixDeletion {
            server,
            client: &client,
            readmission: Readmission::beside_slots(server, subject.as_ref(), request),
            options: TxOptions { lane, heavy: true, ..options },
            prefix: &args[1],
            index: server.keyspace.declared_prefix(&args[1]),
        };
        reply.integer(deletion.run()?);
        Ok(())
    }))
}

/// The right to run, given back when it is dropped.
struct DeletionTurn;

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

impl DeletionTurn {
    fn take() -> Option<Self> {
        let more = |count: usize| (count < UNDER_WAY_MAX).then_some(count + 1);
        UNDER_WAY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for DeletionTurn {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A deletion that is under way.
struct PrefixDeletion<'a> {
    server: &'static Server,
    client: &'a Client,
    readmission: Readmission<'a>,
    options: TxOptions,
    prefix: &'a [u8],
    /// The declared prefix that leads to its keys.
    index: Option<PrefixNumber>,
}

/// What became of a step.
enum DeletionStep {
    /// A gate is shut for a while: nothing.
    Held,
    /// So many keys went. The position in the partition is where to go on, if more are there.
    Deleted(i64, Option<u64>),
}

impl PrefixDeletion<'_> {
    /// Deletes all of them; how many. `Widen` if a gate was shut before any was deleted.
    fn run(&self) -> Result<i64, Refusal> {
        let (mut deleted, mut from) = (0, 0);
        while let Some(partition) = self.server.keyspace.next_populated(from, self.index) {
            let mut next = Some(0);
            while let Some(position) = next {
                match self.step(partition, position)? {
                    DeletionStep::Held if deleted == 0 => return Err(Refusal::Widen),
                    DeletionStep::Held if self.client.was_killed() => return Err(BUSY),
                    DeletionStep::Held => std::thread::sleep(BETWEEN_LOOKS),
                    DeletionStep::Deleted(count, behind) => {
                        deleted += count;
                        next = behind;
                    }
                }
            }
            from = usize::from(partition) + 1;
        }
        Ok(deleted)
    }

    fn step(&self, partition: PartitionIndex, position: u64) -> Result<DeletionStep, Refusal> {
        let (server, keyspace) = (self.server, self.server.keyspace);
        let wakes = PendingWakes::default();
        let only = PartitionSet::from_iter([partition]);
        let mut acquisition = Acquisition::of_partitions(keyspace, only);
        for widenings in 0.. {
            // The thread has no leave that a stop of the world waits for.
            let access = (!acquisition.wants_world()).then(|| BackgroundAccess::wait(keyspace));
            let is_wanted =
                || !self.client.was_killed() && !server.gates.shutdown_request.is_asked();
            if !wait_for_client_while(keyspace, &mut acquisition, is_wanted)? {
                return Err(BUSY);
            }
            acquisition.time_hold();
            if self.readmission.hold(None)? {
                return Ok(DeletionStep::Held);
            }
            let now_us = keyspace.clock().now_us();
            let options = TxOptions { now: now_us / 1000, now_us, ..self.options };
            let mut tx = Tx::begin(acquisition, options);
            let (count, next) = self.delete_some(&mut tx, partition, position)?;
            if commit(server, &wakes, &mut tx, Args::default()).is_ok() {
                drop(tx);
                drop(access);
                server.mailboxes.wake(&wakes);
                return Ok(DeletionStep::Deleted(count, next));
            }
            acquisition = tx.widen(widenings);
            drop(access);
        }
        unreachable!("the world is wide enough")
    }

    /// Deletes what begins so among some keys from a position on; how many, and where to go on.
    fn delete_some(
        &self,
        tx: &mut Tx,
        partition: PartitionIndex,
        position: u64,
    ) -> Result<(i64, Option<u64>), Refusal> {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let visit = |entry: EntryRef<'_>| {
            if entry.key().starts_with(self.prefix) {
                keys.push(entry.key().into());
            }
        };
        let next = match self.index {
            Some(prefix) => tx.walk_prefix(prefix, (partition, position), STEP, visit),
            None => tx.walk(partition, position, STEP, visit),
        };
        let mut journalled: Vec<&[u8]> = vec![b"DEL"];
        for key in &keys {
            // Where another server brings keys, that says when they go.
            if !tx.is_importing(key) && tx.delete(key)? {
                tx.event(EventClass::Generic, "del", key);
                journalled.push(key);
            }
        }
        if journalled.len() > 1 {
            tx.effects_mut().instead(&journalled);
        }
        Ok((journalled.len() as i64 - 1, next))
    }
}
