//! HOTKEYS: which keys took most of the processors' time and of the network, while a session of
//! tracking lasts.
//!
//! Invariants: without a session a command costs one look at a word; each worker notes in a row of
//! its own, so none waits for another but for a reader; a session's memory is bounded by its
//! `count` and the number of workers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::{CpuTime, Random};
use proto::Args;
use structs::heavy_hitters::HeavyHitters;

use crate::observe::execution::Execution;
use crate::runtime::lanes::MAX_WORKERS;
use crate::table::request_keys;

/// A summary holds so many keys for each that is to be told: the more, the surer.
const HELD_PER_TOLD: usize = 10;

/// Longer names are not noted: they would make a session's memory any size.
const KEY_MAX: usize = 64 << 10;

/// What is asked of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotKeySettings {
    /// Whether the processors' time is noted.
    pub cpu: bool,
    /// Whether the bytes of requests and replies are noted.
    pub net: bool,
    /// How many keys are told of each.
    pub count: usize,
    /// How long it lasts, in milliseconds; 0 for until it is stopped.
    pub duration_ms: i64,
    /// One of so many commands is looked at, by chance.
    pub sample: u64,
}

/// What a session found.
pub struct HotKeyReport {
    /// What the session was asked.
    pub settings: HotKeySettings,
    /// Whether the session goes on.
    pub is_active: bool,
    /// When the session began, in Unix milliseconds.
    pub started_ms: i64,
    /// How long it lasted until now.
    pub duration_ms: i64,
    /// What the process took meanwhile.
    pub cpu: CpuTime,
    /// What went over the network meanwhile, in bytes.
    pub net_bytes: u64,
    /// How long all commands took, in microseconds.
    pub commands_us: u64,
    /// The bytes of all requests and their replies.
    pub command_bytes: u64,
    /// The keys by microseconds, most first.
    pub by_cpu: Vec<(Vec<u8>, u64)>,
    /// The keys by bytes, most first.
    pub by_net: Vec<(Vec<u8>, u64)>,
}

/// The session, if there is one, and what each worker noted for it.
pub struct HotKeys {
    /// The number of the session that runs; 0 for none.
    running: AtomicU64,
    /// How many sessions have begun, so that no row is taken for that of a later one.
    begun: AtomicU64,
    session: Mutex<Option<HotKeySession>>,
    rows: Box<[Mutex<Row>]>,
}

struct HotKeySession {
    number: u64,
    settings: HotKeySettings,
    at_start: UsageSample,
    /// When the session ended, on the monotonic clock, and what had been used then.
    ended: Option<(i64, UsageSample)>,
}

/// What the process has used up to one time.
#[derive(Clone, Copy)]
pub struct UsageSample {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// The same time on the monotonic clock.
    pub now_us: i64,
    /// The processors' time.
    pub cpu: CpuTime,
    /// Bytes that came from clients and went to them.
    pub net_bytes: u64,
}

/// What one worker noted.
struct Row {
    /// For which session, and what that asks.
    number: u64,
    settings: HotKeySettings,
    commands_us: u64,
    command_bytes: u64,
    random: Random,
    cpu: HeavyHitters,
    net: HeavyHitters,
}

impl Default for HotKeys {
    fn default() -> Self {
        let row = |lane| Mutex::new(Row::new(0, HotKeySettings::default(), lane));
        Self {
            running: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            session: Mutex::default(),
            rows: (0..MAX_WORKERS as u64).map(row).collect(),
        }
    }
}

impl HotKeys {
    /// Whether commands are to be noted.
    #[inline]
    pub fn is_tracking(&self) -> bool {
        self.running.load(Ordering::Relaxed) != 0
    }

    /// Notes a command that a worker books.
    #[cold]
    pub(crate) fn note(
        &self,
        lane: usize,
        Execution { entry, args, micros, reply_bytes }: Execution<'_>,
    ) {
        let Some(own) = self.rows.get(lane) else { return };
        let mut row = lock(own);
        if row.number != self.running.load(Ordering::Relaxed) {
            // A report locks the session first and the rows then.
            drop(row);
            let Some((number, settings)) = self.running_session() else { return };
            row = lock(own);
            *row = Row::new(number, settings, lane as u64);
        }
        let settings = row.settings;
        let bytes = request_bytes(args) + reply_bytes;
        row.commands_us += micros;
        row.command_bytes += bytes;
        if settings.sample > 1 && row.random.below(settings.sample) != 0 {
            return;
        }
        let Ok(keys) = request_keys::find(entry, args) else { return };
        let count = keys.len() as u64;
        for key in keys.iter().map(|&(index, _)| &args[index]).filter(|it| it.len() <= KEY_MAX) {
            if settings.cpu {
                row.cpu.add(key, micros / count);
            }
            if settings.net {
                row.net.add(key, bytes / count);
            }
        }
    }

    fn running_session(&self) -> Option<(u64, HotKeySettings)> {
        let session = lock(&self.session);
        let running = session.as_ref().filter(|it| it.ended.is_none());
        running.map(|it| (it.number, it.settings))
    }

    /// Begins a session; whether none ran. What the one before it found is forgotten.
    pub fn start(&self, now: UsageSample, settings: HotKeySettings) -> bool {
        self.end_in_time(now);
        let mut session = lock(&self.session);
        if session.as_ref().is_some_and(|it| it.ended.is_none()) {
            return false;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        *session = Some(HotKeySession { number, settings, at_start: now, ended: None });
        self.running.store(number, Ordering::Relaxed);
        true
    }

    /// Ends the session; whether one ran.
    pub fn stop(&self, now: UsageSample) -> bool {
        self.end_in_time(now);
        self.end(now, |_| Some(now.now_us))
    }

    /// Ends the session if its time is over.
    pub fn end_in_time(&self, now: UsageSample) {
        self.end(now, |session| {
            let lasts_us = session.settings.duration_ms.saturating_mul(1000);
            let due_us = session.at_start.now_us.saturating_add(lasts_us);
            (lasts_us > 0 && now.now_us >= due_us).then_some(due_us)
        });
    }

    fn end(&self, now: UsageSample, when: impl Fn(&HotKeySession) -> Option<i64>) -> bool {
        let mut session = lock(&self.session);
        let Some(session) = session.as_mut().filter(|it| it.ended.is_none()) else { return false };
        let Some(ended_us) = when(session) else { return false };
        session.ended = Some((ended_us, now));
        self.running.store(0, Ordering::Relaxed);
        true
    }

    /// Forgets what the last session found; refused while one runs.
    pub fn reset(&self, now: UsageSample) -> bool {
        self.end_in_time(now);
        let mut session = lock(&self.session);
        if session.as_ref().is_some_and(|it| it.ended.is_none()) {
            return false;
        }
        *session = None;
        self.rows.iter().for_each(|row| *lock(row) = Row::new(0, HotKeySettings::default(), 0));
        true
    }

    /// What the session found, or the last one; nothing if there was none since the last reset.
    pub fn report(&self, now: UsageSample) -> Option<HotKeyReport> {
        self.end_in_time(now);
        let session = lock(&self.session);
        let session = session.as_ref()?;
        let (until_us, usage) = session.ended.unwrap_or((now.now_us, now));
        let rows: Vec<_> = self.rows.iter().map(lock).collect();
        let rows: Vec<_> = rows.iter().filter(|row| row.number == session.number).collect();
        let count = session.settings.count;
        Some(HotKeyReport {
            settings: session.settings,
            is_active: session.ended.is_none(),
            started_ms: session.at_start.now_ms,
            duration_ms: (until_us - session.at_start.now_us) / 1000,
            cpu: CpuTime {
                user: usage.cpu.user.saturating_sub(session.at_start.cpu.user),
                system: usage.cpu.system.saturating_sub(session.at_start.cpu.system),
            },
            net_bytes: usage.net_bytes.saturating_sub(session.at_start.net_bytes),
            commands_us: rows.iter().map(|row| row.commands_us).sum(),
            command_bytes: rows.iter().map(|row| row.command_bytes).sum(),
            by_cpu: heaviest(rows.iter().map(|row| &row.cpu), count),
            by_net: heaviest(rows.iter().map(|row| &row.net), count),
        })
    }
}

impl Row {
    fn new(number: u64, settings: HotKeySettings, seed: u64) -> Self {
        let capacity = settings.count.saturating_mul(HELD_PER_TOLD);
        Self {
            number,
            settings,
            commands_us: 0,
            command_bytes: 0,
            random: Random::from_seed(seed),
            cpu: HeavyHitters::new(capacity),
            net: HeavyHitters::new(capacity),
        }
    }
}

/// The heaviest keys of several summaries, heaviest first; of the same weight by name.
fn heaviest<'a>(rows: impl Iterator<Item = &'a HeavyHitters>, count: usize) -> Vec<(Vec<u8>, u64)> {
    let mut sums: HashMap<&[u8], u64> = HashMap::new();
    for (key, weight) in rows.flat_map(HeavyHitters::iter) {
        *sums.entry(key).or_default() += weight;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    sums.truncate(count);
    sums.into_iter().map(|(key, weight)| (key.to_vec(), weight)).collect()
}

/// How many bytes a request takes as an array of bulk strings.
pub(super) fn request_bytes(args: Args<'_>) -> u64 {
    bytes_of(args.len(), args.iter())
}

/// The same of words that are not a request.
pub(super) fn framed_bytes(words: &[&[u8]]) -> u64 {
    bytes_of(words.len(), words.iter().copied())
}

fn bytes_of<'a>(count: usize, words: impl Iterator<Item = &'a [u8]>) -> u64 {
    let framed = |length: usize| 5 + digits(length) + length as u64;
    3 + digits(count) + words.map(|word| framed(word.len())).sum::<u64>()
}

fn digits(number: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no critical section here panics")
}

#[cfg(test)]
mod tests {
    use proto::{Args, OwnedArgs};

    use super::request_bytes;

    #[test]
    fn a_request_takes_what_its_encoding_takes() {
        let long = "v".repeat(1000);
        for words in [&["GET", "k"][..], &["SET", "a key", &long], &["MGET"; 12]] {
            let mut encoded = Vec::new();
            proto::args::encode_command(words.iter().map(|word| word.as_bytes()), &mut encoded);
            let owned: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(request_bytes(owned.as_args()), encoded.len() as u64, "{}", words.len());
        }
        assert_eq!(request_bytes(Args::default()), 4);
    }
}
