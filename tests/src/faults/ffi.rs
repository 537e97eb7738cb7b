//! The kernel's side of faults: a filter that a process takes on before it becomes the program, and
//! the calls that the filter sends here to be judged.
//!
//! Invariants: what runs between fork and exec allocates nothing and takes no lock; a call is
//! answered once.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// What the kernel calls this machine's architecture.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Where the number of the call and the architecture stand in what a filter sees.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

/// The flag of an answer that has the kernel carry out the call.
const GO_ON: u32 = 1;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
    /// Where the code is that made it.
    pub(super) place: u64,
}

/// What a call that waits gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// The kernel carries it out.
    GoOn,
    /// The call fails with this number.
    Error(i32),
    /// The call returns this.
    Value(i64),
}

/// Has a program start under a filter that sends the calls of these numbers to a listener, which
/// comes out of the other end of `channel`.
pub(super) fn filter(command: &mut Command, numbers: &[i64], channel: OwnedFd) {
    let mut program = program(numbers);
    let own = move || {
        let listener = take_on(&mut program)?;
        let descriptors = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&channel, &[IoSlice::new(b"x")], &mut control, SendFlags::empty())?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes three system calls and touches its own memory only.
    unsafe {
        command.pre_exec(own);
    }
}

/// The filter: calls of other architectures and numbers go on.
fn program(numbers: &[i64]) -> Vec<libc::sock_filter> {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("codes are small"),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let count = u8::try_from(numbers.len()).expect("a jump is short");
    let mut program = vec![step(load, ARCHITECTURE_AT, 0, 0)];
    program.push(step(equals, ARCHITECTURE, 0, count + 1));
    program.push(step(load, NUMBER_AT, 0, 0));
    for (number, left) in numbers.iter().zip((0..count).rev()) {
        let number = u32::try_from(*number).expect("numbers of calls are small");
        program.push(step(equals, number, left + 1, 0));
    }
    program.push(step(answer, libc::SECCOMP_RET_ALLOW, 0, 0));
    program.push(step(answer, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    program
}

/// Takes on a filter for good; what it sends comes out of the listener.
fn take_on(program: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a filter is short"),
        filter: program.as_mut_ptr(),
    };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the filter lives until the call returns, and the kernel copies it.
    let listener = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    let listener = i32::try_from(listener).expect("descriptors are small");
    // SAFETY: the call above made it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// The next call that waits.
pub(super) fn next(listener: BorrowedFd<'_>) -> io::Result<Call> {
    // SAFETY: the kernel wants zeros, which are valid for numbers.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request is the listener's, and what it fills is of the size it expects.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let libc::seccomp_data { nr, args, instruction_pointer, .. } = notice.data;
    Ok(Call { id: notice.id, number: nr.into(), arguments: args, place: instruction_pointer })
}

/// Answers a call; an error says that its thread is gone.
pub(super) fn answer(listener: BorrowedFd<'_>, call: Call, answer: Answer) -> io::Result<()> {
    let (value, error, flags) = match answer {
        Answer::GoOn => (0, 0, GO_ON),
        Answer::Error(error) => (0, -error, 0),
        Answer::Value(value) => (value, 0, 0),
    };
    let mut response = libc::seccomp_notif_resp { id: call.id, val: value, error, flags };
    // SAFETY: the request is the listener's, and what it reads is of the size it expects.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
