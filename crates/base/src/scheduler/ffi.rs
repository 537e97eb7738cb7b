//! The system calls of the scheduler's policies.
//!
//! Invariant: they concern the calling thread only, which not every C library's functions do.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// The policy of the calling thread, with its flags.
pub(super) fn policy() -> Option<c_int> {
    // SAFETY: the call takes a number and changes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    c_int::try_from(answer).ok().filter(|&policy| policy >= 0)
}

/// Gives the calling thread another one that has no priorities; whether it was allowed to.
pub(super) fn set_policy(policy: c_int) -> bool {
    let priority: c_int = 0;
    // SAFETY: what the kernel reads behind the pointer is one int, which lives until it returns.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}
