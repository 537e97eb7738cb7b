//! What is sent: an endless stream of requests for each connection, as bytes, drawn from the
//! options. Invariant: the same options and seeds give the same stream, on whichever thread.
//!
//! The engine's side of it, in this order: `Workload::new` once; `stream(thread, client)` for each
//! connection; `Stream::next` for each request, which appends its bytes and tells what was asked;
//! `Stream::check` for each value read under `--data-verify`.

mod distribution;
mod keys;
mod memcached;
mod plan;
mod template;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use base::Random;

use crate::options::Options;
use keys::Cursor;
pub(crate) use memcached::packet_header;
use plan::{Plan, RequestKind};
use template::Fields;

/// One request that `Stream::next` appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its kind: an index into `Workload::commands`, and so into `Outcome::commands`.
    pub command: usize,
    /// How its reply is read.
    pub reply: ReplyKind,
    /// The number of its (first) key, for `Stream::check`.
    pub key: u64,
    /// Hash slot of its first key where cluster mode asked for it, else 0.
    pub slot: u16,
}

/// How a reply counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Neither hit nor miss.
    Plain,
    /// A null is a miss, anything else a hit.
    Read,
    /// The same for a part of a string (GETRANGE), where an empty string stands for null.
    ReadPart,
    /// An array (MGET): each element a hit or a miss.
    MultiRead,
}

/// All that the connections of one run send.
#[derive(Clone, Debug)]
pub struct Workload {
    commands: Vec<String>,
    load: Arc<Plan>,
    verification: Arc<Plan>,
    clients: u32,
}

impl Workload {
    /// Prepares requests and values. `--randomize` draws its seed here.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let seed =
            if options.load.randomize { Random::from_entropy().next_u64() } else { plan::SEED };
        let (commands, load) = Plan::load(options, seed);
        Self {
            commands,
            verification: Arc::new(Plan::verification(options, &load)),
            load: Arc::new(load),
            clients: options.clients,
        }
    }

    /// The names of the kinds of request, as memtier's JSON calls their sections: always `Sets`,
    /// `Gets`, `Waits`; with `--command` one for each different verb, such as `Hsets`.
    #[must_use]
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// What one connection sends. The stream ends under `-n allkeys` only; `-n NUMBER` and the time
    /// are the engine's to count.
    #[must_use]
    pub fn stream(&self, thread: u32, client: u32) -> Stream {
        Stream::new(&self.load, self.connection(thread, client))
    }

    /// The reads of `--data-verify`'s second phase: all streams together ask for each key of the
    /// range once. All count as `Gets`.
    #[must_use]
    pub fn verify_stream(&self, thread: u32, client: u32) -> Stream {
        Stream::new(&self.verification, self.connection(thread, client))
    }

    fn connection(&self, thread: u32, client: u32) -> u64 {
        u64::from(thread) * u64::from(self.clients) + u64::from(client)
    }
}

/// The requests of one connection, one after the other. `next` allocates nothing but room in the
/// buffer it is given.
#[derive(Clone, Debug)]
pub struct Stream {
    plan: Arc<Plan>,
    random: Random,
    walks: Box<[Walk]>,
    /// The kind whose turn it is, and how many keys of it are left in this turn.
    turn: usize,
    turn_left: u32,
    /// Kinds that have keys left and whose end is the stream's end.
    open: usize,
    /// `WAIT`s to send before anything else, and what has been saved up for the next one.
    waits_due: u32,
    wait_credit: u64,
}

/// Where a connection is in the keys of one kind of request.
#[derive(Clone, Debug)]
struct Walk {
    cursor: Cursor,
    keys_left: u64,
}

impl Stream {
    fn new(plan: &Arc<Plan>, connection: u64) -> Self {
        let walks: Box<[Walk]> = plan
            .kinds
            .iter()
            .map(|kind| Walk {
                cursor: plan.cursor(kind.pattern, connection),
                keys_left: plan.key_budget(kind, connection),
            })
            .collect();
        let open = plan.kinds.iter().zip(&walks);
        let open = open.filter(|(kind, walk)| kind.ends_stream && walk.keys_left > 0).count();
        Self {
            random: Random::from_seed(plan.seed_of(connection)),
            plan: Arc::clone(plan),
            walks,
            turn: 0,
            turn_left: plan.kinds.first().map_or(0, |kind| kind.in_turn),
            open,
            waits_due: 0,
            wait_credit: 0,
        }
    }

    /// Appends the next request to `out`; `None` when the stream is at its end (`-n allkeys`).
    #[inline]
    pub fn next(&mut self, out: &mut Vec<u8>) -> Option<Sent> {
        if self.waits_due > 0 {
            return Some(self.append_wait(out));
        }
        if self.open == 0 {
            return None;
        }
        self.find_turn();
        let Self { plan, random, walks, turn, turn_left, .. } = self;
        let (kind, walk) = (&plan.kinds[*turn], &mut walks[*turn]);
        let batch =
            kind.batch.min(*turn_left).min(u32::try_from(walk.keys_left).unwrap_or(u32::MAX));
        let key = walk.cursor.next(random);
        let mut fields = Fields { key, ..Fields::default() };
        if kind.template.has_number() {
            fields.numbers[0] = plan.draw_expiry(random);
        }
        if kind.template.has_data() {
            fields.value = plan.values.pick(key, random);
        }
        let key_word = if kind.is_multi_get {
            let next_key = || walk.cursor.next(random);
            Some(kind.template.append_multi_get(key, batch, next_key, out))
        } else {
            kind.template.append(&fields, &plan.values, out)
        };
        let slot = match key_word {
            Some(range) if plan.cluster => keys::slot(&out[range]),
            _ => kind.fixed_slot,
        };
        walk.keys_left -= u64::from(batch);
        *turn_left -= batch;
        let sent = Sent { command: kind.command, reply: kind.reply, key, slot };
        self.settle();
        Some(sent)
    }

    /// Whether `value` is what was written to this key; meaningful under `--data-verify` and
    /// `--verify-only`, where values are a function of their keys. Without them, always true.
    #[must_use]
    pub fn check(&self, key: u64, value: &[u8]) -> bool {
        self.plan.values.is_of_key(key, value)
    }

    /// Moves on to a kind that has requests left in its turn. There is one: the stream is open.
    #[inline]
    fn find_turn(&mut self) {
        while self.turn_left == 0 || self.walks[self.turn].keys_left == 0 {
            let next = self.turn + 1;
            self.turn = if next < self.walks.len() { next } else { 0 };
            self.turn_left = self.plan.kinds[self.turn].in_turn;
        }
    }

    /// What a request of the current kind leads to: the end of its keys, a `WAIT`.
    #[inline]
    fn settle(&mut self) {
        let kind: &RequestKind = &self.plan.kinds[self.turn];
        if kind.ends_stream && self.walks[self.turn].keys_left == 0 {
            self.open -= 1;
        }
        if let (true, Some(wait)) = (kind.is_set, &self.plan.wait) {
            self.wait_credit += u64::from(wait.waits);
            let sets = u64::from(wait.sets);
            while self.wait_credit >= sets {
                self.wait_credit -= sets;
                self.waits_due += 1;
            }
        }
    }

    fn append_wait(&mut self, out: &mut Vec<u8>) -> Sent {
        let wait = self.plan.wait.as_ref().expect("only a plan with WAITs makes one due");
        self.waits_due -= 1;
        let fields = Fields { numbers: wait.draw(&mut self.random), ..Fields::default() };
        wait.template.append(&fields, &self.plan.values, out);
        Sent { command: wait.command, reply: ReplyKind::Plain, key: 0, slot: 0 }
    }
}
