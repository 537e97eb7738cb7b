//! Which system calls are made to fail, and how: a row for those that do the same.
//!
//! Invariant: what a row says a call may fail with, the kernel may say of a thing of that kind.

use rustix::io::Errno;

/// Calls that do the same, and what may become of them.
#[derive(Debug)]
pub struct Row {
    /// What they do.
    pub name: &'static str,
    pub(super) numbers: &'static [i64],
    pub(super) target: Target,
    /// What they fail with.
    pub errors: &'static [Errno],
    /// Whether less than what is asked for may be done. On a connection that happens only where
    /// nothing more can be done, which its poll tells of later.
    pub shortens: bool,
    /// Whether a failure that lasts must be told, by a reply or a line of the log.
    pub is_told: bool,
    /// Whether a failure may last: a client that is never accepted is never answered, by no fault
    /// of ours.
    pub may_last: bool,
}

/// On what a call must act to be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Any,
    /// A descriptor of a regular file or directory.
    File,
    /// A descriptor of a directory.
    Directory,
    /// A descriptor of a connection.
    Connection,
    /// Memory that no file is behind.
    Memory,
    /// A word that is waited on.
    Word,
    /// A limit that is changed.
    Limit,
}

const fn row(name: &'static str, numbers: &'static [i64], errors: &'static [Errno]) -> Row {
    let (shortens, is_told, may_last) = (false, false, true);
    Row { name, numbers, target: Target::Any, errors, shortens, is_told, may_last }
}

/// The place of the row of this name.
pub fn row_of(name: &str) -> usize {
    TABLE.iter().position(|row| row.name == name).expect("a row of the table")
}

/// All rows.
pub const TABLE: &[Row] = &[
    row("start a thread", &[libc::SYS_clone3], &[Errno::AGAIN, Errno::NOMEM]),
    Row { target: Target::Memory, ..row("get memory", &[libc::SYS_mmap], &[Errno::NOMEM]) },
    row("protect memory", &[libc::SYS_mprotect], &[Errno::NOMEM]),
    row("give memory back", &[libc::SYS_madvise, libc::SYS_munmap], &[Errno::NOMEM]),
    row(
        "open a file",
        &[libc::SYS_openat],
        &[Errno::MFILE, Errno::NOSPC, Errno::IO, Errno::ACCESS, Errno::INTR],
    ),
    Row {
        target: Target::File,
        shortens: true,
        ..row("read a file", &[libc::SYS_read, libc::SYS_pread64], &[Errno::IO, Errno::INTR])
    },
    Row {
        target: Target::File,
        shortens: true,
        is_told: true,
        ..row(
            "write a file",
            &[libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev],
            &[Errno::NOSPC, Errno::IO, Errno::INTR],
        )
    },
    Row {
        is_told: true,
        ..row(
            "sync a file",
            &[libc::SYS_fsync, libc::SYS_fdatasync],
            &[Errno::IO, Errno::NOSPC, Errno::INTR],
        )
    },
    row("have the disk begin", &[libc::SYS_sync_file_range], &[Errno::IO, Errno::NOSPC]),
    row(
        "size a file",
        &[libc::SYS_ftruncate, libc::SYS_fallocate],
        &[Errno::IO, Errno::NOSPC, Errno::INTR],
    ),
    row("name a file", &[libc::SYS_rename, libc::SYS_link], &[Errno::IO, Errno::NOSPC]),
    row("remove a file", &[libc::SYS_unlink], &[Errno::IO, Errno::ACCESS]),
    row("make a directory", &[libc::SYS_mkdir], &[Errno::NOSPC, Errno::ACCESS]),
    row(
        "look at a file",
        &[libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_getdents64],
        &[Errno::IO, Errno::ACCESS],
    ),
    row("lock a file", &[libc::SYS_flock], &[Errno::NOLCK, Errno::INTR]),
    Row {
        target: Target::Connection,
        ..row("receive", &[libc::SYS_recvfrom], &[Errno::INTR, Errno::CONNRESET])
    },
    Row {
        target: Target::Connection,
        ..row(
            "send",
            &[libc::SYS_sendto, libc::SYS_writev],
            &[Errno::INTR, Errno::PIPE, Errno::NOBUFS],
        )
    },
    Row {
        may_last: false,
        ..row(
            "accept",
            &[libc::SYS_accept4],
            &[Errno::INTR, Errno::MFILE, Errno::CONNABORTED, Errno::NOMEM],
        )
    },
    row("make a socket", &[libc::SYS_socket, libc::SYS_socketpair], &[Errno::MFILE]),
    row("listen", &[libc::SYS_bind, libc::SYS_listen], &[Errno::ADDRINUSE]),
    row("set up a socket", &[libc::SYS_setsockopt], &[Errno::NOBUFS]),
    row("make a poll", &[libc::SYS_epoll_create1, libc::SYS_eventfd2], &[Errno::MFILE]),
    row("poll for a descriptor", &[libc::SYS_epoll_ctl], &[Errno::NOSPC, Errno::NOMEM]),
    row("wait for events", &[libc::SYS_epoll_wait], &[Errno::INTR]),
    Row { target: Target::Word, ..row("wait for a thread", &[libc::SYS_futex], &[Errno::INTR]) },
    row("bind to a core", &[libc::SYS_sched_setaffinity, libc::SYS_prctl], &[Errno::PERM]),
    Row { target: Target::Limit, ..row("raise a limit", &[libc::SYS_prlimit64], &[Errno::PERM]) },
    Row {
        target: Target::Directory,
        ..row("sync a directory", &[libc::SYS_fsync], &[Errno::IO, Errno::NOSPC, Errno::INTR])
    },
];
