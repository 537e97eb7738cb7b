//! What the system's scheduler does with the calling thread.
//!
//! Invariant: only between the two policies named here is a thread moved.

mod ffi;

use rustix::time::{ClockId, clock_gettime};

/// How long the calling thread has had a core since it began, in microseconds.
pub fn ran_us() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Whether the calling thread, when it is woken, interrupts the thread that runs on its core, as
/// threads do unless they are told otherwise (the policy `SCHED_OTHER`).
pub fn interrupts_others() -> bool {
    ffi::policy() == Some(libc::SCHED_OTHER)
}

/// Has the calling thread do that, or wait until the thread that runs there sleeps or has had its
/// time (`SCHED_BATCH`); whether it does now as it was told
/// (<https://man7.org/linux/man-pages/man7/sched.7.html>).
pub fn interrupt_others(yes: bool) -> bool {
    let (ordinary, batch) = (libc::SCHED_OTHER, libc::SCHED_BATCH);
    let (from, to) = if yes { (batch, ordinary) } else { (ordinary, batch) };
    let now = ffi::policy();
    now == Some(to) || now == Some(from) && ffi::set_policy(to)
}

#[cfg(test)]
mod tests {
    use super::{interrupt_others, interrupts_others, ran_us};

    #[test]
    fn a_thread_that_works_has_run_and_one_that_sleeps_has_not() {
        let begun = ran_us();
        let mut sum = 0_u64;
        while ran_us() < begun + 1000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        let before = ran_us();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(ran_us() - before < 90_000);
    }

    #[test]
    fn a_thread_gives_way_and_does_not() {
        let policy = || {
            let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = line.rsplit_once(") ").unwrap();
            fields.split(' ').nth(41 - 3).unwrap().to_owned()
        };
        assert!(interrupts_others() && policy() == "0");
        assert!(interrupt_others(false) && interrupt_others(false));
        assert!(!interrupts_others() && policy() == "3");
        assert!(interrupt_others(true) && interrupt_others(true));
        assert!(interrupts_others() && policy() == "0");
    }
}
