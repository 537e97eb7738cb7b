//! The section CPU: what the process and its main thread took of the processors.
//!
//! Invariant: where the system does not tell, the figure is zero.

use std::fs;

use super::Report;
use crate::server::Server;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    user: f64,
    system: f64,
    children_user: f64,
    children_system: f64,
}

pub(super) fn write_cpu(_: &Server, report: &mut Report) {
    let process = times("/proc/self/stat");
    let main_thread = times(&format!("/proc/self/task/{}/stat", std::process::id()));
    let mut seconds = |name: &str, value: f64| report.field(name, format_args!("{value:.6}"));
    seconds("used_cpu_sys", process.system);
    seconds("used_cpu_user", process.user);
    seconds("used_cpu_sys_children", process.children_system);
    seconds("used_cpu_user_children", process.children_user);
    seconds("used_cpu_sys_main_thread", main_thread.system);
    seconds("used_cpu_user_main_thread", main_thread.user);
}

/// The processor time that the process took in user and in system mode, in seconds.
pub(crate) fn processor_seconds() -> (f64, f64) {
    let process = times("/proc/self/stat");
    (process.user, process.system)
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
