//! `--preset NAME`: the loads of published comparisons, each as a series of runs with one report.
//!
//! A preset builds memtier's own command lines, puts the caller's words behind them (so that these
//! win), and has the engine run them; a preset measures nothing itself. With `--against`, every
//! step runs on each server, in rounds that take turns, so that a machine that becomes slower does
//! so for all; a run without a preset is then a series of one step. Invariant: a run shorter or
//! smaller than the published one is one that the caller's words asked for.

mod noise;
mod plans;
mod report;
#[cfg(test)]
mod tests;
mod words;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::engine;
use crate::options::{KeyPattern, Mix, Options, Request, Until, Verify};
use crate::outcome::Outcome;
use crate::report::summary::{Row, Summary, us_per_request};
use crate::report::{files, warnings};
use noise::Noise;
use words::Words;

/// A published load.
struct Preset {
    name: &'static str,
    /// What the preset is, in a sentence for the head of the report.
    about: &'static str,
    /// What the places of its steps are, where they lie along an axis.
    axis: Option<&'static str>,
    plan: fn(&mut Series) -> Result<(), String>,
}

/// A preset with the words that came with it, and what it has measured so far.
pub struct Series {
    preset: &'static Preset,
    words: Words,
    /// Neighbours that disturb the step under way.
    noise: Option<Noise>,
    measured: Vec<StepResult>,
    notes: Vec<String>,
}

/// How often each server has its turn at the least, where several are compared.
const ROUNDS: u32 = 3;

/// Which part of a preset a run is.
#[derive(Clone, Debug, Default)]
struct Step {
    name: String,
    /// Steps of one group share their charts.
    group: String,
    /// Steps of one series make a line of them.
    series: String,
    /// The place on the preset's axis.
    place: f64,
}

/// The figures of one step; the mean where it took several runs.
struct StepResult {
    step: Step,
    /// Which server: 0 is the one that `-s` and `-p` name.
    target: usize,
    /// What the server calls itself.
    server_name: Option<String>,
    /// A row for each kind of request, and one for all where there are several.
    rows: Vec<Row>,
    seconds: f64,
    server: Option<Server>,
    generator_us: f64,
    /// Share of the time for which the generator's busiest thread had work.
    busiest_thread: f64,
    late: u64,
    /// Whether every request was answered, and without an error.
    is_clean: bool,
    warnings: Vec<String>,
}

/// What the server used in a step.
struct Server {
    us_per_request: f64,
    /// Of one core.
    percent: f64,
    rss: u64,
}

impl Series {
    /// The preset of this name with the words of its command line.
    ///
    /// # Errors
    ///
    /// One line for the operator if there is no such preset or the words make no sense.
    pub fn parse(name: &str, words: &[String]) -> Result<Series, String> {
        let preset = find(name)?;
        let words = Words::parse(words)?;
        Ok(Series { preset, words, noise: None, measured: Vec::new(), notes: Vec::new() })
    }

    /// A run without a preset, on the servers of `--against` too. `words` are those of its command
    /// line.
    #[must_use]
    pub fn compare(options: Options, words: &[String]) -> Series {
        let words = Words { rest: words.to_vec(), common: options, ..Words::default() };
        let preset = &plans::COMPARISON;
        Series { preset, words, noise: None, measured: Vec::new(), notes: Vec::new() }
    }

    /// Runs all steps, then prints the table and writes the files that were asked for. Whether
    /// every request of every step was answered, and without an error.
    ///
    /// # Errors
    ///
    /// Why a step was not possible, or a file could not be written.
    pub fn run(mut self) -> Result<bool, String> {
        (self.preset.plan)(&mut self)?;
        let output = &self.words.common.output;
        let text = report::text(&self);
        match &output.file {
            Some(path) => files::write(path, &text)?,
            None => std::io::stdout()
                .write_all(text.as_bytes())
                .map_err(|error| format!("cannot write the report: {error}"))?,
        }
        if let Some(path) = &output.json {
            files::write(path, &report::json(&self))?;
        }
        if let Some(path) = &output.html {
            files::write(path, &report::page(&self))?;
        }
        Ok(self.measured.iter().all(|one| one.is_clean))
    }

    /// The options of one step: the preset's line and commands, then the caller's words.
    fn options(&self, line: &str, commands: &[&str], until: Until) -> Result<Options, String> {
        let line = line.split_whitespace().map(str::to_owned);
        let commands = commands.iter().map(|command| format!("--command={command}"));
        let all: Vec<String> =
            line.chain(commands).chain(self.words.rest.iter().cloned()).collect();
        let Request::Run(mut options) = Options::parse(&all)? else {
            return Err("error: a preset takes no --help, --version or --preset.".into());
        };
        options.until = self.words.until.unwrap_or_else(|| self.scaled(until));
        Ok(*options)
    }

    /// So many keys, scaled.
    fn count(&self, keys: u64) -> u64 {
        ((keys as f64 * self.words.scale).round() as u64).max(1)
    }

    fn scaled(&self, until: Until) -> Until {
        match until {
            Until::Requests(count) => Until::Requests(self.count(count)),
            Until::AllKeys => Until::AllKeys,
            Until::Time(time) => Until::Time(time.mul_f64(self.words.scale)),
        }
    }

    /// Writes every key that the step of these options may read.
    fn fill(&self, options: &Options) -> Result<(), String> {
        let mut filling = options.clone();
        let keys = options.load.keys.maximum - options.load.keys.minimum + 1;
        (filling.threads, filling.clients) = (1, u32::try_from(keys).unwrap_or(u32::MAX).min(20));
        (filling.pipeline, filling.run_count, filling.until) = (50, 1, Until::AllKeys);
        (filling.rate_limit, filling.open_loop, filling.ramp) = (None, None, None);
        (filling.reconnect_interval, filling.output.client_stats) = (None, None);
        filling.load.mix = Mix::Ratio { set: 1, get: 0 };
        filling.load.keys.patterns = (KeyPattern::Parallel, KeyPattern::Parallel);
        (filling.load.wait, filling.load.verify) = (None, Verify::No);
        for (target, name) in self.targets(&filling) {
            let outcomes = engine::run(&target)?;
            let failed = |outcome: &&Outcome| outcome.errors() + outcome.unanswered() > 0;
            if let Some(outcome) = outcomes.iter().find(failed) {
                let reasons = warnings::of_run(&target, outcome).join("; ");
                return Err(format!("{name} could not be filled: {reasons}"));
            }
        }
        Ok(())
    }

    /// These options for each server, with its address.
    fn targets(&self, options: &Options) -> Vec<(Options, String)> {
        let own = match &options.unix_socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", options.server, options.port),
        };
        let rivals = self.words.common.against.iter().map(|rival| {
            let (server, port) = (rival.server.clone(), rival.port);
            let name = format!("{server}:{port}");
            (Options { server, port, unix_socket: None, ..options.clone() }, name)
        });
        std::iter::once((options.clone(), own)).chain(rivals).collect()
    }

    /// Runs a step, on all servers in turn; returns the first one's requests per second.
    fn measure(&mut self, step: &Step, options: &Options) -> Result<f64, String> {
        if options.output.progress && std::io::stderr().is_terminal() {
            eprintln!("{}: {}", self.preset.name, step.name);
        }
        let noise = |series: &Series| series.noise.as_ref().map_or(Duration::ZERO, Noise::used);
        let targets = self.targets(options);
        let rounds = if targets.len() == 1 { 1 } else { options.run_count.max(ROUNDS) };
        let run_count = if targets.len() == 1 { options.run_count } else { 1 };
        let mut runs: Vec<Vec<Outcome>> = targets.iter().map(|_| Vec::new()).collect();
        let mut disturbed = vec![Duration::ZERO; targets.len()];
        for _ in 0..rounds {
            for (index, (target, _)) in targets.iter().enumerate() {
                let before = noise(self);
                runs[index].extend(engine::run(&Options { run_count, ..target.clone() })?);
                disturbed[index] += noise(self).saturating_sub(before);
            }
        }
        let first = self.measured.len();
        for (index, (outcomes, (target, address))) in runs.iter().zip(&targets).enumerate() {
            let step = if targets.len() == 1 { step.clone() } else { step.at(outcomes, address) };
            let measured = StepResult::of(step, target, index, outcomes, disturbed[index])?;
            self.measured.push(measured);
        }
        self.note_ratios(first);
        Ok(self.measured[first].rate())
    }

    /// Says how the first server compares with each other one, from this step on.
    fn note_ratios(&mut self, first: usize) {
        let [own, rivals @ ..] = &self.measured[first..] else { return };
        let ratio = |ours: f64, theirs: f64| format!("{:.2}", ours / theirs);
        let notes = rivals.iter().map(|rival| {
            let (ours, theirs) = (own.total(), rival.total());
            let mut note = format!(
                "{} / {}: requests per second {}, p50 {}, p99 {}, p99.9 {}",
                own.step.name,
                rival.step.name,
                ratio(ours.ops, theirs.ops),
                ratio(ours.percentile(50.0), theirs.percentile(50.0)),
                ratio(ours.percentile(99.0), theirs.percentile(99.0)),
                ratio(ours.percentile(99.9), theirs.percentile(99.9)),
            );
            if let (Some(ours), Some(theirs)) = (&own.server, &rival.server) {
                note.push_str(&format!(
                    ", server CPU per request {}",
                    ratio(ours.us_per_request, theirs.us_per_request)
                ));
            }
            note
        });
        let notes: Vec<String> = notes.collect();
        self.notes.extend(notes);
    }
}

impl Step {
    /// The same on one of several servers.
    fn at(&self, outcomes: &[Outcome], address: &str) -> Step {
        let name = outcomes.first().and_then(|outcome| outcome.server_name.as_deref());
        let server = name.map_or_else(|| address.to_owned(), |name| format!("{name} at {address}"));
        let join = |text: &str| match text {
            "" => server.clone(),
            text => format!("{text}, {server}"),
        };
        Step { name: join(&self.name), series: join(&self.series), ..self.clone() }
    }
}

impl StepResult {
    /// The mean of a step's runs on one server.
    fn of(
        step: Step,
        options: &Options,
        target: usize,
        outcomes: &[Outcome],
        disturbed: Duration,
    ) -> Result<StepResult, String> {
        let summaries: Vec<Summary> =
            outcomes.iter().map(|outcome| Summary::new(options, outcome)).collect();
        let summary = Summary::average(&summaries).ok_or("there was no run")?;
        let requests = summary.totals.count * outcomes.len() as f64;
        let seconds: f64 = outcomes.iter().map(|outcome| outcome.elapsed.as_secs_f64()).sum();
        let server: Option<Vec<_>> =
            outcomes.iter().map(|outcome| outcome.server.as_ref()).collect();
        let server = server.map(|runs| {
            let cpu: Duration = runs.iter().map(|run| run.user + run.system).sum();
            Server {
                us_per_request: us_per_request(cpu, requests),
                percent: cpu.as_secs_f64() / seconds.max(f64::MIN_POSITIVE) * 100.0,
                rss: runs.last().map_or(0, |run| run.rss),
            }
        });
        let generator: Duration = outcomes.iter().map(|outcome| outcome.generator.cpu).sum();
        let mut rows: Vec<Row> = summary.rows.into_iter().filter(|row| !row.is_empty()).collect();
        if rows.len() != 1 {
            rows.push(summary.totals);
        }
        let busiest = outcomes.iter().map(|outcome| outcome.generator.busiest_thread);
        Ok(StepResult {
            step,
            target,
            server_name: outcomes.first().and_then(|outcome| outcome.server_name.clone()),
            rows,
            seconds,
            server,
            generator_us: us_per_request(generator.saturating_sub(disturbed), requests),
            busiest_thread: busiest.fold(0.0, f64::max),
            late: outcomes.iter().map(|outcome| outcome.late).sum(),
            is_clean: outcomes.iter().all(Outcome::is_clean),
            warnings: warnings::of_runs(options, outcomes),
        })
    }

    /// All kinds of request together.
    fn total(&self) -> &Row {
        self.rows.last().expect("there is a row of totals, or a single kind")
    }

    fn rate(&self) -> f64 {
        self.total().ops
    }
}

/// What there is, for `--help`.
#[must_use]
pub fn help() -> String {
    let mut text = String::from("\nPresets (--preset=NAME, or --preset=NAME --help):\n");
    for preset in plans::ALL {
        text.push_str(&format!("  {:<16}{}\n", preset.name, preset.about));
    }
    text
}

/// The text of `--preset NAME --help`.
///
/// # Errors
///
/// One line for the operator if there is no such preset.
pub fn help_of(name: &str) -> Result<String, String> {
    let preset = find(name)?;
    Ok(format!("apus bench --preset {name}: {}\n\n{}", preset.about, words::HELP))
}

fn find(name: &str) -> Result<&'static Preset, String> {
    plans::ALL.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names: String = plans::ALL.iter().map(|preset| format!(" {}", preset.name)).collect();
        format!("error: there is no preset '{name}'; there are{names}.")
    })
}
