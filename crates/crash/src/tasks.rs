//! The threads of the process as the kernel lists them.
//!
//! Invariant: a thread that ends meanwhile is left out.

use std::fs;

/// A thread.
pub(crate) struct Task {
    pub(crate) id: i32,
    pub(crate) name: String,
    /// What the kernel says it is at.
    pub(crate) state: &'static str,
}

/// All threads there are, in the order in which they began.
pub(crate) fn all() -> Vec<Task> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut tasks: Vec<Task> = ids.filter_map(task).collect();
    tasks.sort_by_key(|task| task.id);
    tasks
}

fn task(id: i32) -> Option<Task> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    let (name, state) = parse(&stat)?;
    Some(Task { id, name: name.to_owned(), state })
}

/// The name and the state in a line of the kernel's; a name may hold anything.
fn parse(stat: &str) -> Option<(&str, &'static str)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let state = match tail.trim_start().chars().next()? {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for a disk",
        'T' | 't' => "stopped",
        'Z' | 'X' => "ended",
        _ => "in a state of its own",
    };
    Some((name, state))
}

#[cfg(test)]
mod tests {
    use super::{all, parse};

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(parse("12 (worker-0) S 1 2"), Some(("worker-0", "sleeping")));
        assert_eq!(parse("12 (a) (b)) R 1 2"), Some(("a) (b)", "running")));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_thread_is_one_of_the_tasks() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(all().iter().any(|task| task.id == own && task.state == "running"));
    }
}
