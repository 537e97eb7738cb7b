//! A command that computes without its locks: on a heavy-work thread, from copies of what its keys
//! held when it had them (`keyspace::tx::read_phase`).
//!
//! Invariant: the command holds no lock, and does not keep the world from stopping, until it is to
//! store what it computed. What a gate holds then gives its thread back and goes to its session.

use std::sync::Arc;

use keyspace::{
    Acquisition, BUSY, HeavyPass, PartitionSet, Patience, ReadPhaseResult, Tx, TxOptions,
    WaitReason,
};
use proto::{Args, Output, OwnedArgs};

use super::{NotReadmitted, OffloadedTransaction, WorkTimer, await_leave, locked_by};
use crate::admission::readmission::{Passage, Readmission};
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::Client;
use crate::commit::handler::{HandlerOutcome, HandlerWork};
use crate::commit::served_request::ServedRequest;
use crate::execute;
use crate::journal::ReplyLsn;
use crate::runtime::background::wait_for_client;
use crate::runtime::failpoint;
use crate::session::{AclSubject, Request};
use crate::session::{AfterOffload, ExecutedCommand, OffloadResult};

/// A command that moves here without its locks.
pub(crate) struct ReadPhase {
    /// Leave for heavy work, which keeps the world waiting for nothing.
    pub(crate) pass: HeavyPass,
    /// The transaction over the copies.
    pub(crate) phase: Tx,
    /// How the one was begun that the copies were taken in.
    pub(crate) options: TxOptions,
    /// Whose locks it had.
    pub(crate) partitions: PartitionSet,
    /// The client that waits for the result.
    pub(crate) client: Arc<Client>,
    pub(crate) subject: Option<Arc<AclSubject>>,
    /// By what it was let pass.
    pub(crate) passage: Passage,
}

impl ReadPhase {
    /// Runs the command.
    pub(super) fn run(self, lane: usize, args: OwnedArgs, work: HandlerWork) -> OffloadResult {
        let Self { pass, mut phase, options, partitions, client, subject, passage } = self;
        let server = work.server;
        let watch = WorkTimer::start(server.keyspace.clock());
        phase.move_to_heavy(lane);
        let (mut output, wakes) = (Output::new(), PendingWakes::default());
        output.set_ceiling(server.output_ceiling(&client));
        let (entry, words) = (work.entry, args.as_args());
        let served = ServedRequest { server, client: Some(client.id), entry, args: words };
        let (failed, seen) = match served.serve(|| work.run(&mut phase, words, &mut output, &wakes))
        {
            HandlerOutcome::Replied(seen) => (false, seen),
            HandlerOutcome::Failed(seen) => (true, seen),
            HandlerOutcome::Heavy => unreachable!("heavy threads carry any load"),
            HandlerOutcome::Widen | HandlerOutcome::Wait(_) => {
                let mut computed = phase.end_read_phase();
                failpoint::between_phases();
                let unlocked = UnlockedCommand { pass, options, client, subject, passage };
                let computing = watch.micros();
                let mut result = unlocked.lock(lane, partitions, &mut computed, args, work);
                // Not before: under the locks it would take long to free what is left.
                drop(computed);
                result.ran.micros += computing;
                return result;
            }
        };
        drop(pass);
        server.mailboxes.wake(&wakes);
        output.pull(super::FIRST_PIECE);
        let ran = ExecutedCommand {
            entry: work.entry,
            args,
            micros: watch.micros(),
            failed,
            program: None,
        };
        OffloadResult { output, seen, ran, then: AfterOffload::Nothing }
    }
}

/// A command that moves here before it has any locks.
pub(crate) struct UnlockedCommand {
    /// As that of [`ReadPhase`].
    pub(crate) pass: HeavyPass,
    /// How the transaction is begun.
    pub(crate) options: TxOptions,
    /// The client that waits for the result.
    pub(crate) client: Arc<Client>,
    pub(crate) subject: Option<Arc<AclSubject>>,
    pub(crate) passage: Passage,
}

impl UnlockedCommand {
    /// Runs the command.
    pub(super) fn run(self, lane: usize, args: OwnedArgs, work: HandlerWork) -> OffloadResult {
        let watch = WorkTimer::start(work.server.keyspace.clock());
        let partitions = execute::partitions_of(work.server, work.entry, args.as_args());
        let planning = watch.micros();
        let mut result = self.lock(lane, partitions, &mut None, args, work);
        result.ran.micros += planning;
        result
    }

    /// Runs the command under these locks, unless it is refused while it waits for them.
    fn lock(
        self,
        lane: usize,
        partitions: PartitionSet,
        computed: &mut Option<ReadPhaseResult>,
        args: OwnedArgs,
        work: HandlerWork,
    ) -> OffloadResult {
        let Self { mut pass, options, client, subject, passage } = self;
        let server = work.server;
        let options = TxOptions { lane, heavy: true, ..options };
        let (entry, database) = (work.entry, options.database);
        let request = Request { entry, args: args.as_args(), database };
        let readmission = Readmission::of_command(server, subject.as_ref(), request, passage);
        match begin_again(&readmission, &mut pass, options, &partitions, computed) {
            Ok(tx) => {
                let since_us = server.keyspace.clock().monotonic_us();
                let running = server.begin_long_running(since_us, partitions);
                let pass = Some(pass);
                let transaction = OffloadedTransaction {
                    pass,
                    running,
                    tx,
                    client,
                    subject,
                    passage,
                    // What has any neither computes apart nor leaves without its locks.
                    open_keys: None,
                    fields: None,
                };
                transaction.execute(args, work)
            }
            Err(NotReadmitted::PutOff) => {
                drop(pass);
                OffloadResult::put_off(work.entry, args)
            }
            Err(NotReadmitted::Refused(busy)) => {
                drop(pass);
                let mut output = Output::new();
                execute::refuse(server, work.entry, &busy, work.resp, &mut output);
                let ran = ExecutedCommand {
                    failed: true,
                    args,
                    ..ExecutedCommand::begun(work.entry, Args::default())
                };
                OffloadResult {
                    output,
                    seen: ReplyLsn::default(),
                    ran,
                    then: AfterOffload::Nothing,
                }
            }
        }
    }
}

/// Begins the command with its locks, and with what it computed if that is still valid, unless a
/// gate objects. If it is not valid, the locks are to be held for long.
fn begin_again(
    readmission: &Readmission<'_>,
    pass: &mut HeavyPass,
    options: TxOptions,
    partitions: &PartitionSet,
    computed: &mut Option<ReadPhaseResult>,
) -> Result<Tx, NotReadmitted> {
    let (keyspace, mut patience) = (readmission.server.keyspace, Patience::default());
    if !pass.resume(|| patience.lasts(keyspace, WaitReason::World)) {
        return Err(BUSY.into());
    }
    let mut acquisition = Acquisition::of_partitions(keyspace, partitions.clone());
    loop {
        wait_for_client(keyspace, &mut acquisition)?;
        if readmission.hold(locked_by(&acquisition))? {
            acquisition = await_leave(readmission, acquisition, Some(pass), &mut || true)?;
            continue;
        }
        let now_us = keyspace.clock().now_us();
        let options = TxOptions { now: now_us / 1000, now_us, ..options };
        let mut tx = Tx::begin(acquisition, options);
        let is_valid = computed.as_mut().is_some_and(|computed| tx.validate(computed));
        if is_valid || tx.prolong() {
            return Ok(tx);
        }
        acquisition = tx.defer();
    }
}
