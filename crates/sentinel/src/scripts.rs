//! Scripts: a queue, so many at a time, killed when they run too long, tried again when they fail.
//!
//! Invariants: at most [`QUEUE_MAX`] wait or run, beyond that the oldest that waits is dropped; at
//! most [`RUNNING_MAX`] run; none is run more than [`RUNS_MAX`] times.

use std::collections::VecDeque;

use crate::Millis;
use crate::context::Context;
use crate::event::{Action, ScriptEnd, ScriptId};
use crate::notice::Level;
use crate::periods::Periods;

const QUEUE_MAX: usize = 256;
const RUNNING_MAX: usize = 16;
const RUNS_MAX: u32 = 10;
/// The status by which a script asks to be run again.
const AGAIN: i32 = 1;

/// A script that waits or runs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) path: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) state: JobState,
    /// How often it has been run.
    pub(crate) runs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// The job waits because it is new, or until a time.
    Waiting(Option<Millis>),
    Running {
        script: ScriptId,
        /// The number of its process; 0 while that is not known.
        pid: u32,
        since: Millis,
        is_killed: bool,
    },
}

/// All scripts.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    pub(crate) jobs: VecDeque<Job>,
    next_id: u64,
}

impl Scripts {
    /// Has a script run.
    pub(crate) fn add(&mut self, path: &str, arguments: Vec<String>) {
        let state = JobState::Waiting(None);
        self.jobs.push_back(Job { path: path.to_owned(), arguments, state, runs: 0 });
        if self.jobs.len() > QUEUE_MAX {
            let oldest = self.jobs.iter().position(|job| !job.is_running());
            self.jobs.remove(oldest.expect("only few of them run"));
        }
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.jobs.iter().filter(|job| job.is_running()).count()
    }
}

impl Job {
    fn is_running(&self) -> bool {
        matches!(self.state, JobState::Running { .. })
    }

    fn is_due(&self, now: Millis) -> bool {
        match self.state {
            JobState::Waiting(until) => until.is_none_or(|until| until <= now),
            JobState::Running { .. } => false,
        }
    }
}

/// How long a script waits that has failed so many times.
fn retry_delay(periods: &Periods, runs: u32) -> Millis {
    periods.script_retry.saturating_mul(1 << runs.saturating_sub(1).min(RUNS_MAX))
}

impl Context {
    /// Starts what is due and kills what runs too long.
    pub(crate) fn tick_scripts(&mut self) {
        self.kill_slow_scripts();
        let mut running = self.scripts.running();
        let mut started = Vec::new();
        for job in &mut self.scripts.jobs {
            if running >= RUNNING_MAX {
                break;
            }
            if !job.is_due(self.now) {
                continue;
            }
            self.scripts.next_id += 1;
            let script = ScriptId(self.scripts.next_id);
            job.state = JobState::Running { script, pid: 0, since: self.now, is_killed: false };
            job.runs += 1;
            running += 1;
            let (path, arguments) = (job.path.clone(), job.arguments.clone());
            started.push(Action::RunScript { script, path, arguments });
        }
        for action in started {
            self.push_action(action);
        }
    }

    fn kill_slow_scripts(&mut self) {
        let (now, most) = (self.now, self.periods.script_runtime);
        let mut slow = Vec::new();
        for job in &mut self.scripts.jobs {
            if let JobState::Running { script, pid, since, is_killed } = &mut job.state
                && now - *since > most
                && !std::mem::replace(is_killed, true)
            {
                slow.push((*script, format!("{} {pid}", job.path)));
            }
        }
        for (script, text) in slow {
            self.notify(Level::Warning, "-script-timeout", text);
            self.push_action(Action::KillScript { script });
        }
    }

    /// Takes the number of a script's process.
    pub(crate) fn begin_script(&mut self, begun: ScriptId, number: u32) {
        for job in &mut self.scripts.jobs {
            if let JobState::Running { script, pid, .. } = &mut job.state
                && *script == begun
            {
                *pid = number;
            }
        }
    }

    /// Takes a script's end: the script is done, or waits for its next run.
    pub(crate) fn end_script(&mut self, ended: ScriptId, end: ScriptEnd) {
        let is_it =
            |job: &Job| matches!(job.state, JobState::Running { script, .. } if script == ended);
        let Some(at) = self.scripts.jobs.iter().position(is_it) else { return };
        let job = &mut self.scripts.jobs[at];
        let (signal, status) = match end {
            ScriptEnd::Exit(status) => (0, status),
            ScriptEnd::Signal(signal) => (signal, 0),
            // A file that cannot be run is reported as a shell does, and not tried again.
            ScriptEnd::NotStarted => (0, 2),
        };
        let fails = signal != 0 || status == AGAIN;
        if fails && job.runs < RUNS_MAX {
            job.state = JobState::Waiting(Some(self.now + retry_delay(&self.periods, job.runs)));
            return;
        }
        let path = self.scripts.jobs.remove(at).expect("it was found").path;
        if signal != 0 || status != 0 {
            self.notify(Level::Warning, "-script-error", format!("{path} {signal} {status}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::{JobState, QUEUE_MAX, RUNNING_MAX, RUNS_MAX};
    use crate::context::{Context, Options};
    use crate::event::{Action, ScriptEnd, ScriptId};
    use crate::notice::Level;

    fn context() -> Context {
        let is_executable = Box::new(|_: &str| true);
        let log_level = Level::Notice;
        let options = Options { port: 26379, requirepass: None, log_level, is_executable };
        Context::new(options, 0, Random::from_seed(1))
    }

    fn started(context: &mut Context) -> Vec<ScriptId> {
        context.tick_scripts();
        let scripts = context.take_actions().into_iter().filter_map(|action| match action {
            Action::RunScript { script, .. } => Some(script),
            _ => None,
        });
        scripts.collect()
    }

    #[test]
    fn some_scripts_run_and_the_others_wait() {
        let mut context = context();
        for number in 0..QUEUE_MAX + 10 {
            context.scripts.add("/bin/true", vec![number.to_string()]);
        }
        assert_eq!(context.scripts.jobs.len(), QUEUE_MAX);
        assert_eq!(context.scripts.jobs[0].arguments, ["10"], "the oldest were dropped");
        let first = started(&mut context);
        assert_eq!(first.len(), RUNNING_MAX);
        context.scripts.add("/bin/true", vec!["last".to_owned()]);
        assert_eq!(context.scripts.running(), RUNNING_MAX, "what runs is not dropped");
        context.end_script(first[0], ScriptEnd::Exit(0));
        assert_eq!(started(&mut context).len(), 1);
    }

    #[test]
    fn what_fails_is_tried_again_with_growing_delay() {
        let mut context = context();
        context.scripts.add("/bin/false", vec![]);
        let mut delay = 30_000;
        for run in 1..=RUNS_MAX {
            let [script] = started(&mut context)[..] else { panic!("run {run} is due") };
            let end = if run % 2 == 0 { ScriptEnd::Signal(9) } else { ScriptEnd::Exit(1) };
            context.end_script(script, end);
            if run < RUNS_MAX {
                context.now += delay - 1;
                assert!(started(&mut context).is_empty());
                context.now += 1;
                delay *= 2;
            }
        }
        assert!(context.scripts.jobs.is_empty());
        let actions = format!("{:?}", context.take_actions());
        assert!(actions.contains("\"-script-error\", text: \"/bin/false 9 0\""), "{actions}");
    }

    #[test]
    fn what_runs_too_long_is_killed_once() {
        let mut context = context();
        context.scripts.add("/bin/sleep", vec![]);
        let script = started(&mut context)[0];
        context.begin_script(script, 4711);
        context.now += 60_001;
        context.tick_scripts();
        context.tick_scripts();
        let actions = context.take_actions();
        assert_eq!(actions.len(), 2, "an event and a kill: {actions:?}");
        assert!(format!("{actions:?}").contains("/bin/sleep 4711"), "{actions:?}");
        context.end_script(script, ScriptEnd::Exit(2));
        assert!(context.scripts.jobs.is_empty(), "this status is not one to try again");
        assert!(!matches!(context.take_actions()[..], []));
        context.end_script(script, ScriptEnd::Exit(1));
        context.scripts.add("/bin/true", vec![]);
        let waits = context.scripts.jobs[0].state;
        assert_eq!(waits, JobState::Waiting(None));
    }
}
