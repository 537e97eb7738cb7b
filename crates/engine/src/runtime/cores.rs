//! The cores that the process may use, which of them a thread is bound to, and whether it
//! interrupts other threads that have them.
//!
//! Invariants: the set is the one the process was started with, or that of `server-cpulist`; what a
//! bound thread inherits to the threads that it starts never narrows it. A process that was started
//! with a policy of its own keeps it.

mod cpu_quota;

use std::fs;
use std::path::Path;

use base::scheduler;
use config::Config;
use config::settings::{AOF_REWRITE_CPULIST, BGSAVE_CPULIST, BIO_CPULIST, SERVER_CPULIST};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of the process.
pub struct Cores {
    allowed: CpuSet,
    numbers: Vec<usize>,
    /// Those of threads that the configuration gives cores of their own.
    background: Option<CpuSet>,
    saving: Option<CpuSet>,
    rewriting: Option<CpuSet>,
    /// Whether the process was started as one whose threads interrupt others.
    is_ordinary: bool,
}

/// What a thread beside the workers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRole {
    /// Heavy work, and the log.
    Background,
    /// A snapshot.
    Saving,
    /// A base of the log.
    Rewriting,
}

/// How many workers there are, and what decided it.
pub struct WorkerCount {
    /// The number of workers to start.
    pub workers: usize,
    /// What decided the number, for the log.
    pub reason: &'static str,
}

impl Cores {
    /// The cores that the process may use now; to be asked before any thread is bound.
    pub(crate) fn of_process() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let numbers = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        let is_ordinary = scheduler::interrupts_others();
        Self { allowed, numbers, background: None, saving: None, rewriting: None, is_ordinary }
    }

    /// The cores that the configuration gives the process; binds the calling thread, and with it
    /// those that it starts. As in Redis, what is no list of cores that there are says nothing.
    pub(crate) fn configured(config: &Config) -> Self {
        if let Some(own) = set_of_list(&config.get(SERVER_CPULIST)) {
            let _ = sched_setaffinity(None, &own);
        }
        Self {
            background: set_of_list(&config.get(BIO_CPULIST)),
            saving: set_of_list(&config.get(BGSAVE_CPULIST)),
            rewriting: set_of_list(&config.get(AOF_REWRITE_CPULIST)),
            ..Self::of_process()
        }
    }

    /// Has the calling thread, when it is woken, interrupt the thread that has its core, or not;
    /// whether it does now as it was told.
    pub fn interrupt_others(&self, yes: bool) -> bool {
        self.is_ordinary && scheduler::interrupt_others(yes)
    }

    /// Lets the calling thread run on the cores of those with its duty, and forget the manners of
    /// the thread that started it.
    pub fn apply_affinity(&self, duty: ThreadRole) {
        self.interrupt_others(true);
        let cores = match duty {
            ThreadRole::Background => &self.background,
            ThreadRole::Saving => &self.saving,
            ThreadRole::Rewriting => &self.rewriting,
        };
        let is_bound = cores.as_ref().is_some_and(|cores| sched_setaffinity(None, cores).is_ok());
        if !is_bound {
            self.release();
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Binds the calling thread to one core: worker `lane` to the core with that place in the set.
    pub fn bind(&self, lane: usize) {
        if let Some(&core) = self.numbers.get(lane % self.numbers.len().max(1)) {
            let mut one = CpuSet::new();
            one.set(core);
            // A core that was taken offline since then: the thread runs where it may.
            let _ = sched_setaffinity(None, &one);
        }
    }

    /// Lets the calling thread run on all cores of the process.
    pub fn release(&self) {
        if !self.numbers.is_empty() {
            // The thread may run where it ran before; nothing else depends on it.
            let _ = sched_setaffinity(None, &self.allowed);
        }
    }

    /// As many workers as asked for, or one for each core that we may use.
    pub fn worker_count(&self, asked: usize) -> WorkerCount {
        if asked > 0 {
            let workers = asked.min(crate::runtime::lanes::MAX_WORKERS);
            return WorkerCount { workers, reason: "asked for" };
        }
        self.by_default(cpu_quota::cores(Path::new("/")), online_cores())
    }

    /// One for each core of the affinity mask, and no more than the cgroups' CPU quota allows.
    fn by_default(&self, quota: Option<usize>, online: Option<usize>) -> WorkerCount {
        let bound = self.numbers.len().max(1);
        let (usable, reason) = match quota {
            Some(quota) if quota < bound => (quota, "the cgroup's CPU quota"),
            _ if online.is_some_and(|online| bound < online) => (bound, "the affinity mask"),
            _ => (bound, "one per core"),
        };
        WorkerCount { workers: usable.min(crate::runtime::lanes::MAX_WORKERS), reason }
    }
}

/// The cores of a list such as `0-7:2,9`, where the number behind the colon is a stride; `None` if
/// it is none, or names no core.
fn set_of_list(list: &[u8]) -> Option<CpuSet> {
    let numbers = numbers_of_list(std::str::from_utf8(list).ok()?)?;
    let mut set = CpuSet::new();
    numbers.into_iter().for_each(|core| set.set(core));
    (set.count() > 0).then_some(set)
}

fn numbers_of_list(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (range, stride) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let stride: usize = stride.parse().ok()?;
        if stride == 0 || first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        numbers.extend((first..=last).step_by(stride));
    }
    Some(numbers)
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
    use super::{Cores, ThreadRole, count_of_ranges, numbers_of_list, scheduler};

    #[test]
    fn lists_name_cores_one_by_one_and_in_strides() {
        for (list, expected) in [
            ("1", Some(vec![1])),
            ("1,3", Some(vec![1, 3])),
            ("0-7:2,9", Some(vec![0, 2, 4, 6, 9])),
            ("8-11", Some(vec![8, 9, 10, 11])),
            ("", None),
            ("3-1", None),
            ("0-3:0", None),
            ("0-99999999", None),
            ("all", None),
        ] {
            assert_eq!(numbers_of_list(list), expected, "{list}");
        }
    }

    #[test]
    fn ranges_are_counted() {
        for (list, expected) in [("0\n", Some(1)), ("0-3,8,10-11\n", Some(7)), ("x", None)] {
            assert_eq!(count_of_ranges(list), expected, "{list}");
        }
    }

    #[test]
    fn the_worker_count_is_what_is_asked_for_up_to_the_maximum() {
        let cores = Cores::of_process();
        assert_eq!(cores.worker_count(3).workers, 3);
        assert_eq!(cores.worker_count(3).reason, "asked for");
        assert_eq!(cores.worker_count(5000).workers, crate::runtime::lanes::MAX_WORKERS);
        assert!((1..=cores.numbers.len()).contains(&cores.worker_count(0).workers));
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
            let worker_count = cores.by_default(quota, online);
            assert_eq!((worker_count.workers, worker_count.reason), (workers, reason));
        }
    }

    #[test]
    fn manners_are_not_inherited_but_those_of_the_whole_process_are() {
        std::thread::spawn(|| {
            let cores = Cores::of_process();
            assert!(cores.interrupt_others(false) && !scheduler::interrupts_others());
            let courteous = Cores::of_process();
            courteous.apply_affinity(ThreadRole::Saving);
            assert!(!courteous.interrupt_others(true) && !scheduler::interrupts_others());
            cores.apply_affinity(ThreadRole::Saving);
            assert!(scheduler::interrupts_others());
        })
        .join()
        .unwrap();
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
