//! What a script may ask of the server that runs it.
//!
//! Invariant: a host is lent to an interpreter for one run, so it may borrow a transaction, and
//! nothing of it is left behind.

use proto::{Args, Output, Resp};

/// The server's side of one run.
pub trait Host {
    /// Executes one command and appends its reply, in the form of `resp`. A command that fails
    /// appends an error.
    fn call(&mut self, args: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop>;

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Where the writes from here on shall go.
    fn set_replication(&mut self, to: Replication);

    /// Tells of an error in what the script returns, its code first. The error is new unless a
    /// command that the script called made it, and so was counted then.
    fn note_returned_error(&mut self, text: &[u8], is_new: bool);

    /// Whether the user may execute the command; `None` if there is no such command.
    fn may_call(&mut self, args: Args<'_>) -> Option<bool>;

    /// Asked about every thousand instructions: whether the run may go on.
    fn check_time(&mut self) -> Result<(), Stop>;
}

/// The end of a run that no script can catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A key is needed that the transaction does not hold: run again with it.
    Widen,
    /// The run takes long: run again where nobody else waits for the thread.
    Heavy,
    /// SCRIPT KILL or FUNCTION KILL ended the run.
    Killed,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// Where writes go, beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// `redis.REPL_AOF`
    pub journal: bool,
    /// `redis.REPL_REPLICA`
    pub replicas: bool,
}
