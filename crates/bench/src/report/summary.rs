//! The figures of a run as every report shows them: a row per kind of request and one of totals.
//! Invariant: tables, JSON and page are drawn from these rows, so they can never disagree.

use std::borrow::Cow;
use std::time::Duration;

use crate::options::{Mix, Options};
use crate::outcome::{CommandOutcome, Latencies, Outcome, Second, ServerUsage, new_latencies};

/// The rows of one run, or of the average of several.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// One per kind of request.
    pub(crate) rows: Vec<Row>,
    /// All kinds together.
    pub(crate) totals: Row,
}

/// One kind of request. Rates are per second, latencies in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Replies; a fraction only in an average of runs.
    pub(crate) count: f64,
    pub(crate) ops: f64,
    pub(crate) hits: f64,
    pub(crate) misses: f64,
    pub(crate) moved: f64,
    pub(crate) ask: f64,
    /// Kilobytes (1,024 bytes) of replies.
    pub(crate) kb_received: f64,
    /// Kilobytes of requests.
    pub(crate) kb_sent: f64,
    /// Sum of all latencies.
    pub(crate) accumulated: f64,
    /// Of the replies, and the ages of requests that got none.
    pub(crate) latencies: Latencies,
    /// How many latencies there are; as `count`, a fraction only in an average of runs.
    timed: f64,
}

impl Row {
    fn new(command: &CommandOutcome, seconds: f64) -> Row {
        let rate = |count: u64| per_second(count as f64, seconds);
        let mut latencies = command.latencies.clone();
        merge(&mut latencies, &command.unanswered);
        Row {
            name: command.name.clone(),
            count: command.latencies.len() as f64,
            ops: rate(command.latencies.len()),
            hits: rate(command.hits),
            misses: rate(command.misses),
            moved: rate(command.moved),
            ask: rate(command.ask),
            kb_received: rate(command.bytes_received) / 1024.0,
            kb_sent: rate(command.bytes_sent) / 1024.0,
            accumulated: accumulated_us(command) / 1000.0,
            timed: latencies.len() as f64,
            latencies,
        }
    }

    fn empty(name: &str) -> Row {
        Row::new(&CommandOutcome::new(name), 1.0)
    }

    /// Adds another row's figures, each times `weight`; the latencies are merged whole.
    fn add(&mut self, other: &Row, weight: f64) {
        self.count += other.count * weight;
        self.ops += other.ops * weight;
        self.hits += other.hits * weight;
        self.misses += other.misses * weight;
        self.moved += other.moved * weight;
        self.ask += other.ask * weight;
        self.kb_received += other.kb_received * weight;
        self.kb_sent += other.kb_sent * weight;
        self.accumulated += other.accumulated * weight;
        self.timed += other.timed * weight;
        merge(&mut self.latencies, &other.latencies);
    }

    pub(crate) fn kb(&self) -> f64 {
        self.kb_received + self.kb_sent
    }

    /// Mean latency in milliseconds, zero without requests.
    pub(crate) fn average(&self) -> f64 {
        if self.timed > 0.0 { self.accumulated / self.timed } else { 0.0 }
    }

    /// Latency in milliseconds that `percentile` (0 to 100) of the requests did not exceed.
    pub(crate) fn percentile(&self, percentile: f64) -> f64 {
        milliseconds(&self.latencies, percentile)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.latencies.is_empty()
    }
}

impl Summary {
    pub(crate) fn new(options: &Options, outcome: &Outcome) -> Summary {
        let seconds = outcome.elapsed.as_secs_f64();
        let rows: Vec<Row> = commands(options, &outcome.commands)
            .iter()
            .map(|command| Row::new(command, seconds))
            .collect();
        let mut totals = Row::empty("Totals");
        for row in &rows {
            totals.add(row, 1.0);
        }
        Summary { rows, totals }
    }

    /// The mean of several runs, of the same kinds of requests; percentiles are those of all their
    /// requests together.
    pub(crate) fn average(runs: &[Summary]) -> Option<Summary> {
        let (first, _) = runs.split_first()?;
        let weight = 1.0 / runs.len() as f64;
        let mut average = Summary {
            rows: first.rows.iter().map(|row| Row::empty(&row.name)).collect(),
            totals: Row::empty("Totals"),
        };
        for run in runs {
            for (mean, row) in average.rows.iter_mut().zip(&run.rows) {
                mean.add(row, weight);
            }
            average.totals.add(&run.totals, weight);
        }
        Some(average)
    }
}

/// The kinds of request that a report shows: those of one name together, and with `--ratio` always
/// sets, gets and waits, as readers of memtier's output expect.
pub(crate) fn commands<'a>(
    options: &Options,
    commands: &'a [CommandOutcome],
) -> Vec<Cow<'a, CommandOutcome>> {
    let mut shown: Vec<Cow<'a, CommandOutcome>> = Vec::new();
    if matches!(options.load.mix, Mix::Ratio { .. }) {
        shown.extend(["Sets", "Gets", "Waits"].map(|name| Cow::Owned(CommandOutcome::new(name))));
    }
    for command in commands {
        match shown.iter_mut().find(|other| other.name == command.name) {
            Some(same) if is_unused(same) => *same = Cow::Borrowed(command),
            Some(same) => join(same.to_mut(), command),
            None => shown.push(Cow::Borrowed(command)),
        }
    }
    shown
}

fn is_unused(command: &CommandOutcome) -> bool {
    command.latencies.is_empty() && command.unanswered.is_empty()
}

fn join(sum: &mut CommandOutcome, other: &CommandOutcome) {
    merge(&mut sum.latencies, &other.latencies);
    merge(&mut sum.unanswered, &other.unanswered);
    sum.hits += other.hits;
    sum.misses += other.misses;
    sum.errors += other.errors;
    sum.first_error = sum.first_error.take().or_else(|| other.first_error.clone());
    sum.moved += other.moved;
    sum.ask += other.ask;
    sum.bytes_sent += other.bytes_sent;
    sum.bytes_received += other.bytes_received;
    for (index, second) in other.seconds.iter().enumerate() {
        match sum.seconds.get_mut(index) {
            Some(same) => join_second(same, second),
            None => sum.seconds.push(second.clone()),
        }
    }
}

fn join_second(sum: &mut Second, other: &Second) {
    merge(&mut sum.latencies, &other.latencies);
    sum.latency_sum += other.latency_sum;
    sum.bytes_sent += other.bytes_sent;
    sum.bytes_received += other.bytes_received;
    sum.hits += other.hits;
    sum.misses += other.misses;
}

/// One second of the run, all kinds of request together.
pub(crate) fn total_second(commands: &[Cow<'_, CommandOutcome>], index: usize) -> Second {
    let mut total = Second {
        latencies: new_latencies(),
        latency_sum: 0,
        bytes_sent: 0,
        bytes_received: 0,
        hits: 0,
        misses: 0,
    };
    for second in commands.iter().filter_map(|command| command.seconds.get(index)) {
        join_second(&mut total, second);
    }
    total
}

/// How many seconds of the run were recorded.
pub(crate) fn second_count(commands: &[Cow<'_, CommandOutcome>]) -> usize {
    commands.iter().map(|command| command.seconds.len()).max().unwrap_or(0)
}

/// Latency in milliseconds that `percentile` (0 to 100) of the requests did not exceed, their
/// number rounded as HdrHistogram_c, and so memtier, rounds it.
pub(crate) fn milliseconds(latencies: &Latencies, percentile: f64) -> f64 {
    if latencies.is_empty() {
        return 0.0;
    }
    let all = latencies.len() as f64;
    let count = (percentile / 100.0 * all).round().clamp(1.0, all);
    // Half a request below, lest the division's last digit make it one more.
    latencies.value_at_quantile((count - 0.5) / all) as f64 / 1000.0
}

fn accumulated_us(command: &CommandOutcome) -> f64 {
    let sum = |latencies: &Latencies| latencies.mean() * latencies.len() as f64;
    let exact: u64 = command.seconds.iter().map(|second| second.latency_sum).sum();
    let of_replies = if exact > 0 { exact as f64 } else { sum(&command.latencies) };
    of_replies + sum(&command.unanswered)
}

fn merge(sum: &mut Latencies, other: &Latencies) {
    sum.add(other).expect("all histograms have the range of new_latencies");
}

/// `count / seconds`, zero for a run of no length.
pub(crate) fn per_second(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// Microseconds of `time` for each request.
pub(crate) fn us_per_request(time: Duration, requests: f64) -> f64 {
    per_second(time.as_secs_f64() * 1e6, requests)
}

/// Microseconds of the server's CPU per request, in user mode and in the kernel; `None` where it
/// used too little for the clock ticks by which the kernel divides it.
pub(crate) fn divided(server: &ServerUsage, requests: f64) -> Option<(f64, f64)> {
    const TWENTY_TICKS: Duration = Duration::from_millis(200);
    (server.user + server.system >= TWENTY_TICKS)
        .then(|| (us_per_request(server.user, requests), us_per_request(server.system, requests)))
}
