//! The cores that the process may use, and which of them a thread is bound to.
//!
//! Invariant: the set is the one the process was started with; what a bound thread inherits to the
//! threads that it starts never narrows it.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of the process.
pub(crate) struct Cores {
    allowed: CpuSet,
    numbers: Vec<usize>,
}

/// How many workers there are, and what decided it.
pub(crate) struct Workforce {
    pub(crate) workers: usize,
    pub(crate) reason: &'static str,
}

impl Cores {
    /// The cores that the process may use now; to be asked before any thread is bound.
    pub(crate) fn of_process() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let numbers = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        Self { allowed, numbers }
    }

    /// Binds the calling thread to one core: worker `lane` to the core with that place in the set.
    pub(crate) fn bind(&self, lane: usize) {
        if let Some(&core) = self.numbers.get(lane % self.numbers.len().max(1)) {
            let mut one = CpuSet::new();
            one.set(core);
            // A core that was taken offline since then: the thread runs where it may.
            let _ = sched_setaffinity(None, &one);
        }
    }

    /// Lets the calling thread run on all cores of the process.
    pub(crate) fn release(&self) {
        if !self.numbers.is_empty() {
            // It may run where it ran before; nothing else depends on it.
            let _ = sched_setaffinity(None, &self.allowed);
        }
    }

    /// As many workers as asked for, or one for each core that we may use.
    pub(crate) fn workforce(&self, asked: usize) -> Workforce {
        if asked > 0 {
            let workers = asked.min(crate::crew::MAX_WORKERS);
            return Workforce { workers, reason: "asked for" };
        }
        // It knows the affinity mask and the CPU quota of cgroups, version 1 and 2.
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let reason = if usable < self.numbers.len() {
            "the cgroup's CPU quota"
        } else if online_cores().is_some_and(|online| usable < online) {
            "the affinity mask"
        } else {
            "one per core"
        };
        Workforce { workers: usable.min(crate::crew::MAX_WORKERS), reason }
    }
}

/// The cores of the machine.
fn online_cores() -> Option<usize> {
    count_of_ranges(&fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// How many numbers a list such as `0-3,8,10-11` names.
fn count_of_ranges(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::{Cores, count_of_ranges};

    #[test]
    fn ranges_are_counted() {
        for (list, expected) in [("0\n", Some(1)), ("0-3,8,10-11\n", Some(7)), ("x", None)] {
            assert_eq!(count_of_ranges(list), expected, "{list}");
        }
    }

    #[test]
    fn who_is_asked_decides() {
        let cores = Cores::of_process();
        assert_eq!(cores.workforce(3).workers, 3);
        assert_eq!(cores.workforce(3).reason, "asked for");
        assert_eq!(cores.workforce(5000).workers, crate::crew::MAX_WORKERS);
        assert!((1..=cores.numbers.len()).contains(&cores.workforce(0).workers));
    }

    #[test]
    fn a_bound_thread_can_be_released() {
        std::thread::spawn(|| {
            let cores = Cores::of_process();
            cores.bind(1);
            assert_eq!(Cores::of_process().numbers.len(), 1);
            cores.release();
            assert_eq!(Cores::of_process().numbers, cores.numbers);
        })
        .join()
        .unwrap();
    }
}
