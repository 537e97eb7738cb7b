//! A MIGRATE on its way: copied, sent, acknowledged, taken away; and once more what changed
//! meanwhile, if it may take the place of what was sent.
//!
//! Invariants: what the target has not acknowledged stays; of several things that go wrong the
//! client is told what the target said, then what became of the connection, then why keys stayed.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use engine::journal::ReplyLsn;
use engine::session::{AfterOffload, ExecutedCommand, OffloadResult};
use engine::shared::Shared;
use keyspace::Refusal;
use proto::{Output, Reply};
use tokio::sync::oneshot;

use super::copied_keys::{self, CopiedKey, Deletion};
use super::fault::{Fault, target_error};
use super::handle::MigrationThread;
use super::request::MigrateRequest;
use super::target_link::{TargetAnswer, TargetLink};

/// So many keys are locked at once.
const KEYS_PER_LOCK: usize = 100;

/// About so much is sent before answers are read, and keys taken away.
const BATCH_BYTES: usize = 1 << 20;

/// So often keys that change are sent, before they stay.
const ATTEMPTS_MAX: usize = 16;

/// Until the first look whether a gate is open again; the next come after twice as long each.
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// The longest time between two looks.
const LAST_RETRY: Duration = Duration::from_millis(200);

/// Carries out an order and replies.
pub(super) async fn run(
    thread: Rc<MigrationThread>,
    order: Box<MigrateRequest>,
    sender: oneshot::Sender<OffloadResult>,
) {
    let server = thread.server;
    let clock = server.keyspace.clock();
    let began_us = clock.monotonic_us();
    let mut exchange = Exchange::new(&thread);
    // Where a thread was lost, so is the order; its session ends for want of a reply.
    let Some(order) = exchange.transfer_keys(order).await else { return };
    if let Some(link) = exchange.link.take() {
        thread.keep_link(&order.target, link);
    }
    let result = exchange.tally.result();
    let mut output = Output::new();
    let reply = &mut Reply::new(&mut output, order.resp);
    match &result {
        Ok(text) => reply.simple(text),
        Err(refusal) => server.refuse(refusal, reply),
    }
    let micros = u64::try_from(clock.monotonic_us() - began_us).unwrap_or(0);
    let MigrateRequest { entry, args, .. } = *order;
    let ran = ExecutedCommand { entry, args, micros, failed: result.is_err(), program: None };
    // The exchange made its changes by transactions of its own: all of them are seen.
    let seen = ReplyLsn::own(server.journal.end());
    // The client may be gone.
    let _ = sender.send(OffloadResult { output, seen, ran, then: AfterOffload::Nothing });
}

/// What is under way.
struct Exchange<'a> {
    thread: &'a MigrationThread,
    link: Option<TargetLink>,
    /// Whether a connection that is closed may be tried again: once, while no key was answered.
    may_retry: bool,
    tally: PrefixCounts,
}

/// What came of it so far.
#[derive(Default)]
struct PrefixCounts {
    /// Whether a key was there.
    found: bool,
    /// Whether no more is to be sent.
    is_over: bool,
    /// The first error that the target said.
    target_error: Option<Vec<u8>>,
    fault: Option<Fault>,
    /// Why nothing may be copied or taken away here.
    refusal: Option<Refusal>,
    /// Keys that the target has as they were, and that are others here.
    changed: Vec<usize>,
    /// How many of those are not here any more.
    removed: usize,
}

/// What goes to other threads, and comes back.
struct Load {
    order: Box<MigrateRequest>,
    /// What is copied and not packed.
    copied: VecDeque<CopiedKey>,
    /// The commands that are to be sent, and the keys that they are for.
    bytes: Vec<u8>,
    packed: Vec<CopiedKey>,
    /// Which of the first of them the target has, as far as it has answered.
    answers: Vec<bool>,
}

impl<'a> Exchange<'a> {
    fn new(thread: &'a MigrationThread) -> Self {
        Self { thread, link: None, may_retry: true, tally: PrefixCounts::default() }
    }

    /// Sends the keys, and again those that changed meanwhile.
    async fn transfer_keys(&mut self, order: Box<MigrateRequest>) -> Option<Box<MigrateRequest>> {
        let (mut due, attempts) = (due(&order), if order.replaces { ATTEMPTS_MAX } else { 1 });
        let mut load = Load::new(order);
        for attempt in 0..attempts {
            for keys in due.chunks(KEYS_PER_LOCK) {
                let copied;
                (load, copied) = self.send(load, keys.to_vec()).await?;
                if attempt > 0 {
                    self.tally.removed += keys.len() - copied;
                }
                if self.tally.is_over {
                    return Some(load.order);
                }
            }
            if self.tally.changed.is_empty() || attempt + 1 == attempts {
                break;
            }
            due = std::mem::take(&mut self.tally.changed);
        }
        Some(load.order)
    }

    /// Sends some of the keys, as they are at one moment; how many of them are there.
    async fn send(&mut self, load: Load, keys: Vec<usize>) -> Option<(Load, usize)> {
        let server = self.thread.server;
        let copy = move |load: &mut Load, lane| load.copy(server, &keys, lane);
        let (mut load, copied) = visit(server, load, copy).await?;
        let copied = copied.unwrap_or_else(|refusal| {
            (self.tally.refusal, self.tally.is_over) = (Some(refusal), true);
            0
        });
        self.tally.found |= copied > 0;
        while !load.packed.is_empty() && !self.tally.is_over {
            self.deliver(&mut load).await;
            load.keep_acknowledged();
            load = self.delete_sent(load).await?;
        }
        Some((load, copied))
    }

    /// Sends what is packed, and hears what the target says to it.
    async fn deliver(&mut self, load: &mut Load) {
        while let Err(fault) = self.attempt(load).await {
            self.link = None;
            if !fault.is_closed() || !std::mem::take(&mut self.may_retry) {
                (self.tally.fault, self.tally.is_over) = (Some(fault), true);
                return;
            }
        }
    }

    async fn attempt(&mut self, load: &mut Load) -> Result<(), Fault> {
        let Load { order, bytes, packed, answers, .. } = load;
        let (target, patience) = (&order.target, order.patience);
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                // What failed once is tried with a new one.
                let kept = if self.may_retry { self.thread.take_link(target) } else { None };
                none.insert(match kept {
                    Some(link) => link,
                    None => TargetLink::connect(self.thread.server, target, patience).await?,
                })
            }
        };
        if let Some(line) = link.greet(order).await? {
            (self.tally.target_error, self.tally.is_over) = (Some(line), true);
            return Ok(());
        }
        link.write(bytes, patience).await?;
        for _ in packed {
            let answer = link.answer(patience).await?;
            self.may_retry = false;
            answers.push(answer == TargetAnswer::Done);
            if let TargetAnswer::Error(line) = answer {
                self.tally.target_error.get_or_insert(line);
            }
        }
        if !link.is_quiet() {
            // Whatever that is, it is no answer to what comes next.
            self.link = None;
        }
        Ok(())
    }

    /// Takes away what the target has, and packs what comes next.
    async fn delete_sent(&mut self, mut load: Load) -> Option<Load> {
        let server = self.thread.server;
        let mut pause = FIRST_RETRY;
        loop {
            let settled;
            (load, settled) =
                visit(server, load, move |load, lane| load.delete_sent(server, lane)).await?;
            match settled {
                Ok(Deletion::Held) => {
                    tokio::time::sleep(pause).await;
                    pause = LAST_RETRY.min(pause * 2);
                }
                Ok(Deletion::Done { changed }) => {
                    self.tally.changed.extend(changed);
                    return Some(load);
                }
                Err(refusal) => {
                    (self.tally.refusal, self.tally.is_over) = (Some(refusal), true);
                    return Some(load);
                }
            }
        }
    }
}

impl Load {
    fn new(order: Box<MigrateRequest>) -> Self {
        let (copied, bytes, packed, answers) = Default::default();
        Self { order, copied, bytes, packed, answers }
    }

    /// Copies keys and packs the first of them; how many are there.
    fn copy(
        &mut self,
        server: &'static Shared,
        keys: &[usize],
        lane: usize,
    ) -> Result<usize, Refusal> {
        let copied = copied_keys::copy(server, &self.order, keys, lane)?;
        let count = copied.len();
        self.copied = copied.into();
        self.pack();
        Ok(count)
    }

    fn pack(&mut self) {
        (self.bytes, self.packed, self.answers) = Default::default();
        while self.bytes.len() < BATCH_BYTES
            && let Some(mut parcel) = self.copied.pop_front()
        {
            if parcel.pack(&self.order, &mut self.bytes) {
                self.packed.push(parcel);
            }
        }
    }

    fn keep_acknowledged(&mut self) {
        let mut answers = self.answers.iter();
        self.packed.retain(|_| answers.next().is_some_and(|&has_it| has_it));
    }

    fn delete_sent(&mut self, server: &'static Shared, lane: usize) -> Result<Deletion, Refusal> {
        let deletion = if self.order.copies || self.packed.is_empty() {
            Deletion::Done { changed: Vec::new() }
        } else {
            copied_keys::delete(server, &self.order, &mut self.packed, lane)?
        };
        if matches!(deletion, Deletion::Done { .. }) {
            self.pack();
        }
        Ok(deletion)
    }
}

impl PrefixCounts {
    fn result(self) -> Result<&'static str, Refusal> {
        if let Some(line) = &self.target_error {
            return Err(target_error(line));
        }
        if let Some(fault) = &self.fault {
            return Err(fault.refusal());
        }
        match (self.refusal, self.changed.len() + self.removed) {
            (Some(refusal), _) => Err(refusal),
            (None, 0) => Ok(if self.found { "OK" } else { "NOKEY" }),
            (None, changed) => Err(Refusal::owned(format!(
                "ERR Keys that changed here while they were sent: {changed}. What is here stays, \
                 and the target has them as they were. REPLACE sends them again."
            ))),
        }
    }
}

/// The keys that are to be sent: one that takes its own place would be told to have changed.
fn due(order: &MigrateRequest) -> Vec<usize> {
    let mut named = HashSet::new();
    order.keys.clone().filter(|&index| !order.replaces || named.insert(order.key(index))).collect()
}

/// Does something on a thread that may wait for locks; `None` if that was lost.
async fn visit<T: Send + 'static>(
    server: &'static Shared,
    mut load: Load,
    work: impl FnOnce(&mut Load, usize) -> T + Send + 'static,
) -> Option<(Load, T)> {
    let (sender, receiver) = oneshot::channel();
    server.threads.background.spawn_visit(move |lane| {
        let result = work(&mut load, lane);
        // The client waits for it as long as the process lasts.
        let _ = sender.send((load, result));
    });
    receiver.await.ok()
}
