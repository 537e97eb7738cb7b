//! System calls of a server that are made to fail, to do less than was asked, to take long, or to
//! be the last: the n-th one of a kind, from any thread.
//!
//! A filter (`seccomp`) that the process takes on before it becomes the server sends the calls of
//! the chosen kinds here, where a thread answers each. So it makes no difference whether a call
//! goes by way of the C library, and the server needs no build of its own.
//!
//! Invariants: what is not to fail is carried out by the kernel, as if nobody had asked; what the
//! system's loader does before the program is there does not fail, since nobody could tell.

mod ffi;
pub mod ledger;
pub mod subject;
pub mod table;
pub mod work;

use std::cell::OnceCell;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair, sockopt,
};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

use ffi::{Answer, Call};
use table::{Row, TABLE, Target};

/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`.
const WAITS: [u64; 2] = [0, 9];

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails so.
    Error(Errno),
    /// The call does less than it was asked to.
    Short,
    /// The call takes so long.
    Late(Duration),
    /// The call takes until the faults are over.
    Held,
    /// The process is killed before it.
    Kill,
}

/// What is to happen next.
#[derive(Default)]
struct Plan {
    /// How often each row was called since it was last asked.
    counts: Vec<u64>,
    armed: Option<Armed>,
    /// How often a fault was met since then.
    met: u64,
    /// Calls that are held.
    held: Vec<Call>,
}

struct Armed {
    row: usize,
    fault: Fault,
    /// Calls that go well before.
    left: u64,
    /// How many fail from then on.
    times: u64,
}

/// The injector answers the calls of a process.
pub struct Injector {
    rows: Vec<usize>,
    plan: Arc<Mutex<Plan>>,
    own_end: Option<OwnedFd>,
    listener: Option<Arc<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
}

impl Injector {
    /// One for calls of these rows of the table.
    pub fn of(rows: Vec<usize>) -> Self {
        let plan = Plan { counts: vec![0; TABLE.len()], ..Plan::default() };
        Self { rows, plan: Arc::new(Mutex::new(plan)), own_end: None, listener: None, thread: None }
    }

    /// Has the fault happen to the call of the row behind the next `left` ones, and to as many as
    /// `times`.
    pub fn arm(&self, row: usize, fault: Fault, left: u64, times: u64) {
        self.plan().armed = Some(Armed { row, fault, left, times });
    }

    /// No more faults; how many there were since this was last asked.
    pub fn disarm(&self) -> u64 {
        let mut plan = self.plan();
        plan.armed = None;
        for call in plan.held.drain(..) {
            let listener = self.listener.as_ref().expect("it was met under supervision");
            // Its thread may be gone.
            let _ = ffi::answer(listener.as_fd(), call, Answer::GoOn);
        }
        std::mem::take(&mut plan.met)
    }

    /// How many faults there were since they were last over.
    pub fn met(&self) -> u64 {
        self.plan().met
    }

    /// How often each row was called since this was last asked.
    pub fn counts(&self) -> Vec<u64> {
        std::mem::replace(&mut self.plan().counts, vec![0; TABLE.len()])
    }

    /// Has the program start under the filter.
    pub(crate) fn attach(&mut self, command: &mut Command) {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (own, other) = pair.expect("a socket can be had");
        let mut numbers: Vec<i64> =
            self.rows.iter().flat_map(|row| TABLE[*row].numbers).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        ffi::filter(command, &numbers, other);
        self.own_end = Some(own);
    }

    /// Answers the calls of the process, which has just started, to its end.
    pub(crate) fn supervise(&mut self, id: u32) {
        let own = self.own_end.take().expect("it was attached");
        let listener = Arc::new(take_descriptor(&own));
        self.listener = Some(Arc::clone(&listener));
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).expect("a child has an id");
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("the child is there");
        let (rows, plan, loader) = (self.rows.clone(), Arc::clone(&self.plan), OnceCell::new());
        let judge = Judge { rows, plan, listener, pid, handle, loader };
        self.thread = Some(std::thread::spawn(move || judge.run()));
    }

    /// Waits until the process is gone.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("who judges does not panic");
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no holder panics")
    }
}

/// The descriptor that comes out of a socket.
fn take_descriptor(socket: &OwnedFd) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags);
    received.expect("the child sent it before it became the program");
    let messages = control.drain();
    let mut descriptors = messages.filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    descriptors.next().expect("the child sent it")
}

/// Judges calls.
struct Judge {
    rows: Vec<usize>,
    plan: Arc<Mutex<Plan>>,
    listener: Arc<OwnedFd>,
    pid: Pid,
    handle: OwnedFd,
    /// Where the code of the system's loader lies.
    loader: OnceCell<Range<u64>>,
}

impl Judge {
    fn run(&self) {
        loop {
            let mut polled = [PollFd::new(&*self.listener, PollFlags::IN)];
            match poll(&mut polled, None) {
                Err(Errno::INTR) => continue,
                result => result.expect("a descriptor can be polled"),
            };
            if !polled[0].revents().contains(PollFlags::IN) {
                return;
            }
            // Its thread may have been killed meanwhile.
            let Ok(call) = ffi::next(self.listener.as_fd()) else { continue };
            let answer = match self.judge(call) {
                None => Answer::GoOn,
                Some(Fault::Error(error)) => Answer::Error(error.raw_os_error()),
                Some(Fault::Short) => self.shorten(call),
                Some(Fault::Late(time)) => {
                    let listener = Arc::clone(&self.listener);
                    std::thread::spawn(move || {
                        std::thread::sleep(time);
                        let _ = ffi::answer(listener.as_fd(), call, Answer::GoOn);
                    });
                    continue;
                }
                Some(Fault::Held) => continue,
                Some(Fault::Kill) => {
                    let _ = kill_process(self.pid, Signal::KILL);
                    continue;
                }
            };
            let _ = ffi::answer(self.listener.as_fd(), call, answer);
        }
    }

    /// What becomes of a call.
    fn judge(&self, call: Call) -> Option<Fault> {
        let is_meant = |row: &&usize| {
            TABLE[**row].numbers.contains(&call.number) && self.acts_on(call, &TABLE[**row])
        };
        let row = *self.rows.iter().find(is_meant)?;
        if self.loader.get_or_init(|| loader_of(self.pid)).contains(&call.place) {
            return None;
        }
        let mut plan = self.plan.lock().expect("no holder panics");
        plan.counts[row] += 1;
        let armed = plan.armed.as_mut().filter(|armed| armed.row == row)?;
        if armed.left > 0 {
            armed.left -= 1;
            return None;
        }
        armed.times = armed.times.checked_sub(1)?;
        let fault = armed.fault;
        plan.met += 1;
        if fault == Fault::Held {
            plan.held.push(call);
        }
        Some(fault)
    }

    /// Whether the call acts on what the row means.
    fn acts_on(&self, call: Call, row: &Row) -> bool {
        match row.target {
            Target::Any => true,
            Target::Memory => call.arguments[4].cast_signed() as i32 == -1,
            Target::Limit => call.arguments[2] != 0,
            Target::Word => WAITS.contains(&(call.arguments[1] & 0x7f)),
            Target::File => self.descriptor(call).is_some_and(|descriptor| {
                let kind = fstat(&descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
                matches!(kind, Ok(FileType::RegularFile | FileType::Directory))
            }),
            Target::Directory => self.descriptor(call).is_some_and(|descriptor| {
                let kind = fstat(&descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
                kind == Ok(FileType::Directory)
            }),
            Target::Connection => self.descriptor(call).is_some_and(|descriptor| {
                let domain = sockopt::socket_domain(&descriptor);
                matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6))
            }),
        }
    }

    /// The descriptor that a call acts on.
    fn descriptor(&self, call: Call) -> Option<OwnedFd> {
        let number = i32::try_from(call.arguments[0]).ok()?;
        pidfd_getfd(&self.handle, number, PidfdGetfdFlags::empty()).ok()
    }

    /// Does half of what a call asks for, in its place.
    fn shorten(&self, call: Call) -> Answer {
        self.do_half(call).map_or(Answer::GoOn, |count| Answer::Value(count as i64))
    }

    fn do_half(&self, call: Call) -> Option<usize> {
        let path = format!("/proc/{}/mem", self.pid.as_raw_nonzero());
        let memory = File::options().read(true).write(true).open(path).ok()?;
        let descriptor = self.descriptor(call)?;
        let (address, length) = match call.number {
            libc::SYS_writev | libc::SYS_pwritev => first_slice(&memory, call)?,
            _ => (call.arguments[1], call.arguments[2]),
        };
        // What goes past the system's memory does so in blocks.
        let half = match usize::try_from(length).ok()? / 2 {
            half @ 4096.. => half / 4096 * 4096,
            half => half,
        };
        if half == 0 || length % 4096 == 0 && half < 4096 {
            return None;
        }
        let mut bytes = vec![0; half];
        match call.number {
            libc::SYS_read => {
                let count = rustix::io::read(&descriptor, &mut bytes).ok()?;
                memory.write_all_at(&bytes[..count], address).ok()?;
                return Some(count);
            }
            libc::SYS_pread64 => {
                let count = rustix::io::pread(&descriptor, &mut bytes, call.arguments[3]).ok()?;
                memory.write_all_at(&bytes[..count], address).ok()?;
                return Some(count);
            }
            _ => memory.read_exact_at(&mut bytes, address).ok()?,
        }
        let bytes = Aligned::new(&bytes);
        match call.number {
            libc::SYS_pwrite64 | libc::SYS_pwritev => {
                rustix::io::pwrite(&descriptor, bytes.bytes(), call.arguments[3]).ok()
            }
            _ => rustix::io::write(&descriptor, bytes.bytes()).ok(),
        }
    }
}

/// Where the code of the loader lies that makes a program of a process; empty if there is none.
fn loader_of(pid: Pid) -> Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero()));
    let maps = maps.unwrap_or_default();
    let code_of = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let name = words.next_back()?.rsplit('/').next()?;
        let (from, to) = range.split_once('-')?;
        let is_code = name.starts_with("ld-") && rights.contains('x');
        let number = |text| u64::from_str_radix(text, 16).ok();
        is_code.then_some(number(from)?..number(to)?)
    };
    maps.lines().find_map(code_of).unwrap_or(0..0)
}

/// The first piece that a call names which is not empty.
fn first_slice(memory: &File, call: Call) -> Option<(u64, u64)> {
    for number in 0..call.arguments[2] {
        let mut pair = [0; 16];
        memory.read_exact_at(&mut pair, call.arguments[1] + 16 * number).ok()?;
        let word = |at: usize| u64::from_ne_bytes(pair[at..at + 8].try_into().expect("eight"));
        if word(8) > 0 {
            return Some((word(0), word(8)));
        }
    }
    None
}

/// Bytes at an address that a block of a disk can be written from.
struct Aligned {
    space: Vec<u8>,
    from: usize,
    length: usize,
}

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut space = vec![0; bytes.len() + 4096];
        let from = space.as_ptr().align_offset(4096);
        space[from..from + bytes.len()].copy_from_slice(bytes);
        Self { space, from, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.space[self.from..self.from + self.length]
    }
}
