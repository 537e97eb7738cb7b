//! Processor time of the process and of its threads, as the system tells.
//!
//! Invariant: where the system does not tell, the figure is zero.

use std::fs;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) children_user: f64,
    pub(crate) children_system: f64,
}

/// What the process took, with the children that it waited for.
pub(crate) fn of_process() -> Times {
    times("/proc/self/stat")
}

/// What the main thread took.
pub(crate) fn of_main_thread() -> Times {
    times(&format!("/proc/self/task/{}/stat", std::process::id()))
}

fn times(path: &str) -> Times {
    let text = fs::read_to_string(path).unwrap_or_default();
    parse(&text, rustix::param::clock_ticks_per_second())
}

/// Reads a line of /proc/PID/stat, in which times are the fields 14 to 17.
fn parse(line: &str, ticks_per_second: u64) -> Times {
    // The program's name may hold spaces and brackets; its last bracket ends it.
    let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let seconds = |number: usize| {
        let ticks = fields.split(' ').nth(number - 3).and_then(|field| field.parse::<u64>().ok());
        ticks.unwrap_or(0) as f64 / ticks_per_second as f64
    };
    Times {
        user: seconds(14),
        system: seconds(15),
        children_user: seconds(16),
        children_system: seconds(17),
    }
}

#[cfg(test)]
mod tests {
    use super::{Times, parse};

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let line = "12 (a b) (c) S 1 12 12 0 -1 4194560 1 2 3 4 150 250 50 0 20 0 4 0 100";
        let expected = Times { user: 1.5, system: 2.5, children_user: 0.5, children_system: 0.0 };
        assert_eq!(parse(line, 100), expected);
        assert_eq!(parse("", 100), Times::default());
    }
}
