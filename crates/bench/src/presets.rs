//! `--preset NAME`: the loads of published comparisons, each as a series of runs with one report.
//!
//! A preset builds memtier's own command lines, puts the caller's words behind them (so that these
//! win), and has the engine run them; it measures nothing itself. Invariant: a run shorter or
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
use crate::report::summary::{Row, Summary, us_per_request};
use crate::report::{files, warnings};
use noise::Noise;
use words::Words;

/// A published load.
struct Preset {
    name: &'static str,
    /// What it is, in a sentence for the head of the report.
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
    measured: Vec<Measured>,
    notes: Vec<String>,
}

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
struct Measured {
    step: Step,
    /// A row for each kind of request, and one for all where there are several.
    rows: Vec<Row>,
    seconds: f64,
    server: Option<Server>,
    generator_us: f64,
    /// Share of the time for which the generator's busiest thread had work.
    busiest_thread: f64,
    late: u64,
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
        let preset = plans::ALL.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: String =
                plans::ALL.iter().map(|preset| format!(" {}", preset.name)).collect();
            format!("error: there is no preset '{name}'; there are{names}.")
        })?;
        let words = Words::parse(words)?;
        Ok(Series { preset, words, noise: None, measured: Vec::new(), notes: Vec::new() })
    }

    /// Runs all steps, then prints the table and writes the files that were asked for.
    ///
    /// # Errors
    ///
    /// Why a step was not possible, or a file could not be written.
    pub fn run(mut self) -> Result<(), String> {
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
        Ok(())
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
        options.output.progress = std::io::stderr().is_terminal();
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
        engine::run(&filling).map(drop)
    }

    /// Runs a step; returns its requests per second.
    fn measure(&mut self, step: Step, options: &Options) -> Result<f64, String> {
        if options.output.progress {
            eprintln!("{}: {}", self.preset.name, step.name);
        }
        let noise = |series: &Series| series.noise.as_ref().map_or(Duration::ZERO, Noise::used);
        let before = noise(self);
        let outcomes = engine::run(options)?;
        let disturbed = noise(self).saturating_sub(before);
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
        let rate = summary.totals.ops;
        let mut rows: Vec<Row> = summary.rows.into_iter().filter(|row| !row.is_empty()).collect();
        if rows.len() != 1 {
            rows.push(summary.totals);
        }
        self.measured.push(Measured {
            step,
            rows,
            seconds,
            server,
            generator_us: us_per_request(generator.saturating_sub(disturbed), requests),
            busiest_thread: outcomes
                .iter()
                .map(|outcome| outcome.generator.busiest_thread)
                .fold(0.0, f64::max),
            late: outcomes.iter().map(|outcome| outcome.late).sum(),
            warnings: warnings::of_runs(options, &outcomes),
        });
        Ok(rate)
    }
}
