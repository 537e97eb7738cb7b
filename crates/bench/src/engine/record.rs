//! What one thread measured. Invariants: every reply is in exactly one second of one kind of
//! request; a thread keeps one open histogram per kind and packs those of the seconds behind it,
//! so that a long run stays small.

use crate::outcome::{CommandOutcome, LATENCY_MAX_US, Latencies, Second};

/// As `outcome::new_latencies`, so that classes of latencies are the same in all histograms.
const SIGNIFICANT_DIGITS: u8 = 3;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// One reply to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) command: usize,
    pub(super) latency_us: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) is_error: bool,
}

/// A count that belongs to a kind of request and to no second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A MOVED that was followed.
    Moved,
    /// An ASK that was followed.
    Ask,
}

/// The measurements of a thread, or of one of its connections.
#[derive(Debug)]
pub(super) struct Recorder {
    commands: Vec<Tally>,
    /// The second that is being filled.
    second: usize,
    /// When the second ends, in nanoseconds of the run.
    second_end: u64,
    /// The last latencies, all equal: those of one read mostly are.
    equal: Equal,
    /// Replies, bytes of both directions and latencies since the start, for the progress.
    pub(super) totals: Totals,
}

/// Replies that are counted, but not in their histogram yet.
#[derive(Clone, Copy, Debug, Default)]
struct Equal {
    command: usize,
    latency: u64,
    count: u64,
}

/// Sums over all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) latency_us: u64,
}

#[derive(Debug)]
struct Tally {
    /// Of the second that is being filled; the table grows with the greatest latency.
    latencies: Latencies,
    sums: Sums,
    packed: Vec<Packed>,
    /// Ages of requests that got no reply.
    unanswered: Vec<u64>,
    errors: u64,
    first_error: Option<String>,
    moved: u64,
    ask: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    latency: u64,
    sent: u64,
    received: u64,
    hits: u64,
    misses: u64,
}

/// A second that is over: latencies that occurred and how often.
#[derive(Debug)]
struct Packed {
    latencies: Vec<(u32, u32)>,
    sums: Sums,
}

impl Recorder {
    /// Empty, for so many kinds of request.
    pub(super) fn new(commands: usize) -> Self {
        let tally = || Tally {
            latencies: growing_latencies(),
            sums: Sums::default(),
            packed: Vec::new(),
            unanswered: Vec::new(),
            errors: 0,
            first_error: None,
            moved: 0,
            ask: 0,
        };
        Self {
            commands: (0..commands).map(|_| tally()).collect(),
            second: 0,
            second_end: NANOS_PER_SECOND,
            equal: Equal::default(),
            totals: Totals::default(),
        }
    }

    /// Replies counted from here on came at `now`, in nanoseconds of the run.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        while now >= self.second_end {
            self.flush();
            for tally in &mut self.commands {
                tally.pack();
            }
            self.second += 1;
            self.second_end += NANOS_PER_SECOND;
        }
    }

    /// Counts a reply.
    #[inline]
    pub(super) fn count(&mut self, answer: &Answer) {
        let latency = answer.latency_us.min(LATENCY_MAX_US);
        if self.equal.command != answer.command || self.equal.latency != latency {
            self.flush();
            self.equal = Equal { command: answer.command, latency, count: 0 };
        }
        self.equal.count += 1;
        let tally = &mut self.commands[answer.command];
        tally.sums.latency += latency;
        tally.sums.sent += answer.bytes_sent;
        tally.sums.received += answer.bytes_received;
        tally.sums.hits += answer.hits;
        tally.sums.misses += answer.misses;
        tally.errors += u64::from(answer.is_error);
        self.totals.requests += 1;
        self.totals.bytes += answer.bytes_sent + answer.bytes_received;
        self.totals.latency_us += latency;
    }

    fn flush(&mut self) {
        let Equal { command, latency, count } = std::mem::take(&mut self.equal);
        if count > 0 {
            let latencies = &mut self.commands[command].latencies;
            latencies.record_n(latency, count).expect("the histogram grows with its values");
        }
    }

    /// Keeps the text of an error reply, if it is the first of its kind of request.
    pub(super) fn keep_error(&mut self, command: usize, text: &[u8]) {
        let first = &mut self.commands[command].first_error;
        if first.is_none() {
            *first = Some(String::from_utf8_lossy(text).into_owned());
        }
    }

    /// Counts a request that gets no reply, with its age in microseconds.
    pub(super) fn give_up(&mut self, command: usize, age_us: u64) {
        self.commands[command].unanswered.push(age_us.min(LATENCY_MAX_US));
    }

    /// Counts what belongs to no second.
    pub(super) fn mark(&mut self, command: usize, mark: Mark) {
        let tally = &mut self.commands[command];
        match mark {
            Mark::Moved => tally.moved += 1,
            Mark::Ask => tally.ask += 1,
        }
    }

    /// Adds everything to `outcomes`, which has one entry per kind.
    pub(super) fn add_to(mut self, outcomes: &mut [CommandOutcome]) {
        self.flush();
        let seconds = self.second + 1;
        for (tally, outcome) in self.commands.iter_mut().zip(outcomes) {
            tally.pack();
            while outcome.seconds.len() < seconds {
                outcome.seconds.push(empty_second());
            }
            for (packed, second) in tally.packed.iter().zip(&mut outcome.seconds) {
                packed.add_to(second, &mut outcome.latencies);
                outcome.hits += packed.sums.hits;
                outcome.misses += packed.sums.misses;
                outcome.bytes_sent += packed.sums.sent;
                outcome.bytes_received += packed.sums.received;
            }
            for age in &tally.unanswered {
                outcome.unanswered.record(*age).expect("ages are clipped to its range");
            }
            outcome.errors += tally.errors;
            if outcome.first_error.is_none() {
                outcome.first_error = tally.first_error.take();
            }
            outcome.moved += tally.moved;
            outcome.ask += tally.ask;
        }
    }
}

impl Tally {
    fn pack(&mut self) {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let recorded = self.latencies.iter_recorded();
        let recorded =
            recorded.map(|step| (narrow(step.value_iterated_to()), narrow(step.count_at_value())));
        let latencies = recorded.collect();
        self.packed.push(Packed { latencies, sums: std::mem::take(&mut self.sums) });
        self.latencies.clear();
    }
}

impl Packed {
    fn add_to(&self, second: &mut Second, whole: &mut Latencies) {
        for (latency, count) in &self.latencies {
            // The last class of latencies ends beyond the greatest that is recorded.
            let (latency, count) = (u64::from(*latency).min(LATENCY_MAX_US), u64::from(*count));
            second.latencies.record_n(latency, count).expect("the histogram grows");
            whole.record_n(latency, count).expect("latencies are clipped to its range");
        }
        second.latency_sum += self.sums.latency;
        second.bytes_sent += self.sums.sent;
        second.bytes_received += self.sums.received;
        second.hits += self.sums.hits;
        second.misses += self.sums.misses;
    }
}

/// Makes the series of all kinds equally long.
pub(super) fn align(outcomes: &mut [CommandOutcome]) {
    let longest = outcomes.iter().map(|outcome| outcome.seconds.len()).max().unwrap_or(0);
    for outcome in outcomes {
        outcome.seconds.resize_with(longest, empty_second);
    }
}

/// Empty outcomes of these kinds.
pub(super) fn empty_outcomes(commands: &[String]) -> Vec<CommandOutcome> {
    commands.iter().map(CommandOutcome::new).collect()
}

fn empty_second() -> Second {
    Second {
        latencies: growing_latencies(),
        latency_sum: 0,
        bytes_sent: 0,
        bytes_received: 0,
        hits: 0,
        misses: 0,
    }
}

/// As precise as the whole run's, but only as large as its values need: there is one per second.
fn growing_latencies() -> Latencies {
    Latencies::new(SIGNIFICANT_DIGITS).expect("the precision is valid")
}

#[cfg(test)]
mod tests {
    use super::{Answer, LATENCY_MAX_US, Mark, NANOS_PER_SECOND, Recorder, align, empty_outcomes};

    fn answer(command: usize, latency_us: u64) -> Answer {
        Answer {
            command,
            latency_us,
            bytes_sent: 10,
            bytes_received: 5,
            hits: 1,
            misses: 0,
            is_error: false,
        }
    }

    #[test]
    fn seconds_and_threads_add_up() {
        let mut outcomes = empty_outcomes(&["Sets".to_owned(), "Gets".to_owned()]);
        for thread in 0..3 {
            let mut recorder = Recorder::new(2);
            for second in 0..4 {
                recorder.advance(second * NANOS_PER_SECOND + thread);
                for latency in [0, 77, 2_000_123, 2 * LATENCY_MAX_US] {
                    recorder.count(&answer(1, latency));
                }
            }
            recorder.give_up(0, 5_000);
            recorder.keep_error(0, b"ERR no");
            recorder.mark(1, Mark::Moved);
            assert_eq!(recorder.totals.requests, 16);
            recorder.add_to(&mut outcomes);
        }
        align(&mut outcomes);
        let gets = &outcomes[1];
        assert_eq!((gets.latencies.len(), gets.hits, gets.moved), (48, 48, 3));
        assert_eq!((gets.bytes_sent, gets.bytes_received), (480, 240));
        assert_eq!(gets.seconds.len(), 4);
        assert!(gets.latencies.max() >= LATENCY_MAX_US, "a longer latency is clipped, not lost");
        assert_eq!(gets.latencies.count_at(77), 12);
        assert_eq!(gets.latencies.count_at(2_000_123), 12);
        for second in &gets.seconds {
            assert_eq!((second.latencies.len(), second.hits), (12, 12));
            assert_eq!(second.latency_sum, 3 * (77 + 2_000_123 + LATENCY_MAX_US));
        }
        assert_eq!((outcomes[0].unanswered.len(), outcomes[0].seconds.len()), (3, 4));
        assert_eq!(outcomes[0].first_error.as_deref(), Some("ERR no"));
        assert_eq!(outcomes[0].latencies.len(), 0);
    }
}
