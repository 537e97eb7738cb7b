//! What the reports ask of the process that is reported on.
//!
//! Invariant: what a signal handler calls is said to be so, and neither allocates nor waits.

use std::fmt::Arguments;
use std::time::Duration;

/// How a line of a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// As any line of the log, with its time.
    Dated,
    /// For people and their clipboards: nothing before it.
    Bare,
}

/// The process as its reports know it.
pub trait ReportSource: Send + Sync {
    /// Whether a crash is reported. Called by signal handlers.
    fn is_enabled(&self) -> bool;

    /// Whether the process exits where it would abort. Called by signal handlers.
    fn exits_on_panic(&self) -> bool;

    /// Writes a line where the log goes. Called by signal handlers.
    fn write(&self, manner: LineFormat, line: Arguments<'_>);

    /// The program and its version. Called by signal handlers.
    fn program(&self) -> &str;

    /// What else there is to know, in parts; `client` was being served by the thread that crashed.
    fn parts(&self, client: Option<u64>) -> Vec<Part>;

    /// After how long a loop that stands still is reported, if at all.
    fn watch_period(&self) -> Option<Duration>;

    /// Looks at the loops: the name of one that has stood still for so long and was not told of.
    fn stalled_loop(&self, period: Duration) -> Option<String>;
}

/// A part of a report, which may need what a thread holds that is stopped.
pub struct Part {
    /// What the part is.
    pub title: String,
    /// Tells what the part has.
    pub text: Box<dyn FnOnce() -> String + Send>,
}

impl Part {
    /// A part.
    pub fn new(title: impl Into<String>, text: impl FnOnce() -> String + Send + 'static) -> Self {
        Self { title: title.into(), text: Box::new(text) }
    }
}

/// What a thread is at for somebody.
pub trait Activity {
    /// The id of the client it is for, where that is known. Called by signal handlers.
    fn client(&self) -> Option<u64>;

    /// Tells of it, line by line. Called by signal handlers.
    fn describe(&self, line: &mut dyn FnMut(Arguments<'_>));
}
