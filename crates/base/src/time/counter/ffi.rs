//! The counter of an x86 processor.
//!
//! Invariant: what it counts is ticks of one length only where the kernel says so, which the caller
//! has made sure of.
#![allow(unsafe_code)]

/// How far it has come.
#[inline]
pub(in crate::time) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it changes nothing.
    unsafe { std::arch::x86_64::_rdtsc() }
}
