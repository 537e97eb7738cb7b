//! Processor time, as the system counts it.
//!
//! Invariant: where the system does not tell, a time is zero.

mod ffi;

use std::time::Duration;

/// Processor time in the program and, on its behalf, in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// What the process took.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    /// What the children took that the process has waited for.
    #[must_use]
    pub fn of_children() -> Self {
        Self::of(libc::RUSAGE_CHILDREN)
    }

    /// What the calling thread took.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    fn of(whose: libc::c_int) -> Self {
        let Some(usage) = ffi::usage(whose) else { return Self::default() };
        let duration = |time: libc::timeval| {
            let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
            seconds + Duration::from_micros(time.tv_usec.unsigned_abs())
        };
        Self { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::CpuTime;

    #[test]
    fn work_takes_processor_time_and_a_thread_no_more_than_its_process() {
        let before = CpuTime::of_this_thread();
        while CpuTime::of_this_thread().user <= before.user {
            black_box((0..100_000).fold(1_u64, |sum, number| black_box(sum ^ number)));
        }
        let (thread, process) = (CpuTime::of_this_thread(), CpuTime::of_process());
        assert!(process.user + process.system >= thread.user, "{process:?}, {thread:?}");
        assert_eq!(CpuTime::of_children(), CpuTime::default(), "it waited for none");
    }
}
