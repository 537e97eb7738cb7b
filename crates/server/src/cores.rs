//! The cores that the process may use, and which of them a thread is bound to.
//!
//! Invariant: the set is the one the process was started with; what a bound thread inherits to the
//! threads that it starts never narrows it.

mod cpu_quota;

use std::fs;
use std::path::Path;

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

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
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
        self.by_default(cpu_quota::cores(Path::new("/")), online_cores())
    }

    /// One for each core of the affinity mask, and no more than the cgroups' CPU quota allows.
    fn by_default(&self, quota: Option<usize>, online: Option<usize>) -> Workforce {
        let bound = self.numbers.len().max(1);
        let (usable, reason) = match quota {
            Some(quota) if quota < bound => (quota, "the cgroup's CPU quota"),
            _ if online.is_some_and(|online| bound < online) => (bound, "the affinity mask"),
            _ => (bound, "one per core"),
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
    fn the_smallest_limit_decides() {
        let mut cores = Cores::of_process();
        cores.numbers = vec![0, 2, 4, 6];
        for (quota, online, workers, reason) in [
            (None, Some(4), 4, "one per core"),
            (None, None, 4, "one per core"),
            (None, Some(8), 4, "the affinity mask"),
            (Some(4), Some(8), 4, "the affinity mask"),
            (Some(9), Some(4), 4, "one per core"),
            (Some(3), Some(8), 3, "the cgroup's CPU quota"),
        ] {
            let workforce = cores.by_default(quota, online);
            assert_eq!((workforce.workers, workforce.reason), (workers, reason));
        }
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
