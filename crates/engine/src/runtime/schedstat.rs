//! How a thread has waited for a core, as the scheduler tells.
//!
//! Invariant: where the system keeps no such books nothing is told, not zero.

use std::fs;

/// How a thread has waited for a core since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunDelay {
    /// How long, in nanoseconds.
    pub waited_ns: u64,
    /// How often it was given one.
    pub turns: u64,
}

/// How the calling thread has waited; `None` where the system keeps no such books.
pub fn waits() -> Option<RunDelay> {
    read("/proc/thread-self/schedstat")
}

/// How a thread of this process has waited, by its number in the system; likewise.
pub(crate) fn waits_of(thread: i32) -> Option<RunDelay> {
    read(&format!("/proc/self/task/{thread}/schedstat"))
}

fn read(path: &str) -> Option<RunDelay> {
    let line = fs::read_to_string(path).ok()?;
    // A thread that lives has been given a core.
    parse(&line).filter(|waits| waits.turns > 0)
}

/// How long it ran, how long it waited, how often it was given a core
/// (<https://docs.kernel.org/scheduler/sched-stats.html>).
fn parse(line: &str) -> Option<RunDelay> {
    let mut numbers = line.split_ascii_whitespace().map(str::parse);
    let (_, waited_ns, turns) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some(RunDelay { waited_ns: waited_ns.ok()?, turns: turns.ok()? })
}

#[cfg(test)]
mod tests {
    use super::{RunDelay, parse, waits, waits_of};

    #[test]
    fn lines_of_the_system_are_read() {
        assert_eq!(parse("1500 20 3\n"), Some(RunDelay { waited_ns: 20, turns: 3 }));
        for line in ["", "1", "1 2", "a b c", "1 2 -3"] {
            assert_eq!(parse(line), None, "{line}");
        }
        // A system without such books has no such file.
        assert_eq!(waits().is_some(), std::path::Path::new("/proc/self/schedstat").exists());
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(waits_of(own).is_some(), waits().is_some());
        assert_eq!(waits_of(0), None);
    }
}
