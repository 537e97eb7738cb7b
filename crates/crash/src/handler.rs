//! What is done when a signal comes.
//!
//! A report is a row of steps. A step that faults itself is told of and left, and the next one
//! goes on.
//!
//! Invariants: nothing here allocates, waits for a lock or panics; the process ends by the signal
//! that was met first.

use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid};
use rustix::thread::gettid;

use crate::ffi;
use crate::report_source::{LineFormat, ReportSource};
use crate::reporter;
use crate::trace::Trace;

/// What a machine has of registers that are told, at most.
pub(crate) const REGISTERS_MAX: usize = 34;

/// Between two looks whether the reporter is done, and how many of them there are at most.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: usize = 4000;

/// A signal that says that something is wrong, and where the thread was.
pub(crate) struct Fault {
    pub(crate) signal: i32,
    pub(crate) code: i32,
    pub(crate) origin: Origin,
    pub(crate) instruction: usize,
    pub(crate) stack: usize,
    /// With names that are empty where there are fewer.
    pub(crate) registers: [(&'static str, usize); REGISTERS_MAX],
}

/// What a signal comes of.
pub(crate) enum Origin {
    /// The thread's own doing, with the address that it is about.
    Address(usize),
    /// The signal was sent by a process.
    Process { id: i32, user: u32 },
}

impl Fault {
    pub(crate) const NONE: Self = Self {
        signal: 0,
        code: 0,
        origin: Origin::Address(0),
        instruction: 0,
        stack: 0,
        registers: [("", 0); REGISTERS_MAX],
    };

    /// Whether the process itself asked for its end.
    fn is_own(&self) -> bool {
        matches!(self.origin, Origin::Process { id, .. } if id == own_process())
    }
}

/// The crash that is reported; there is one in the life of a process.
pub(crate) struct Crash {
    /// The thread that met the fault, 0 before.
    owner: AtomicI32,
    signal: AtomicI32,
    is_own: AtomicBool,
    instruction: AtomicUsize,
    step: AtomicUsize,
    /// The client that was being served, and one.
    client: AtomicU64,
    pub(crate) trace: Trace,
    /// The reporter has told all.
    pub(crate) is_told: AtomicBool,
}

pub(crate) static CRASH: Crash = Crash {
    owner: AtomicI32::new(0),
    signal: AtomicI32::new(0),
    is_own: AtomicBool::new(false),
    instruction: AtomicUsize::new(0),
    step: AtomicUsize::new(0),
    client: AtomicU64::new(0),
    trace: Trace::new(),
    is_told: AtomicBool::new(false),
};

impl Crash {
    /// The thread that met the fault, if there is one.
    pub(crate) fn owner(&self) -> Option<i32> {
        Some(self.owner.load(Ordering::Acquire)).filter(|owner| *owner != 0)
    }

    /// Where the thread was.
    pub(crate) fn instruction(&self) -> usize {
        self.instruction.load(Ordering::Relaxed)
    }

    /// The client that it served.
    pub(crate) fn client(&self) -> Option<u64> {
        self.client.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// A thread that is asked where it is, and what it answers.
pub(crate) struct Question {
    /// The thread that is asked; below zero while it answers, 0 once it has.
    pub(crate) asked: AtomicI32,
    /// Whether the thread stays where it is behind its answer, as in a crash: a thread that only an
    /// alarm has asked can be asked again.
    pub(crate) stops: AtomicBool,
    pub(crate) trace: Trace,
    pub(crate) instruction: AtomicUsize,
}

pub(crate) static QUESTION: Question = Question {
    asked: AtomicI32::new(0),
    stops: AtomicBool::new(false),
    trace: Trace::new(),
    instruction: AtomicUsize::new(0),
};

/// SIGALRM has come.
pub(crate) static IS_ALARMED: AtomicBool = AtomicBool::new(false);

/// The thread has met a fault.
pub(crate) fn handle_fault(fault: &Fault) -> ! {
    let source = reporter::source().filter(|source| source.is_enabled());
    let Some(source) = source else { end(fault.signal, fault.is_own()) };
    let own = own_thread();
    match CRASH.owner.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            CRASH.signal.store(fault.signal, Ordering::Relaxed);
            CRASH.is_own.store(fault.is_own(), Ordering::Relaxed);
            CRASH.instruction.store(fault.instruction, Ordering::Relaxed);
            CRASH.step.store(1, Ordering::Relaxed);
            write_fault(source, fault);
        }
        Err(owner) if owner == own => {
            write_later_fault(source, fault, "the thread that reports it");
        }
        Err(_) if reporter::is(own) => {
            write_later_fault(source, fault, "the thread that tells the rest, which ends");
            CRASH.is_told.store(true, Ordering::Release);
            rest();
        }
        // A later fault is not told of: the memory is that of the first.
        Err(_) => rest(),
    }
    while let Some(step) = STEPS.get(CRASH.step.fetch_add(1, Ordering::Relaxed) - 1) {
        step(source);
    }
    end(CRASH.signal.load(Ordering::Relaxed), CRASH.is_own.load(Ordering::Relaxed))
}

/// What is done one by one, behind the first lines.
const STEPS: [fn(&dyn ReportSource); 5] =
    [|_| ffi::walk(&CRASH.trace), write_addresses, write_served, await_reporter, write_end];

/// Ends the process as it would have ended without a report.
fn end(signal: i32, is_own: bool) -> ! {
    let exits = || reporter::source().is_some_and(ReportSource::exits_on_panic);
    if is_own && signal == Signal::ABORT.as_raw() && exits() {
        ffi::end_with(1);
    }
    ffi::end_by(signal)
}

/// Stays where it is until the process ends.
fn rest() -> ! {
    loop {
        pause(LOOK);
    }
}

fn pause(time: Duration) {
    // A signal may cut it short.
    let _ = rustix::thread::nanosleep(&rustix::thread::Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
}

fn write_fault(source: &dyn ReportSource, fault: &Fault) {
    let bare = |line: Arguments<'_>| source.write(LineFormat::Bare, line);
    bare(format_args!("=== APUS BUG REPORT START: Cut & paste starting from here ==="));
    let (program, Fault { signal, code, .. }) = (source.program(), fault);
    source.write(
        LineFormat::Dated,
        format_args!("{program} crashed by signal: {signal}, si_code: {code}"),
    );
    match fault.origin {
        Origin::Address(address) => {
            bare(format_args!("Accessing address: {address:#x}"));
            if address.abs_diff(fault.stack) < STACK_MARGIN {
                bare(format_args!("The address is next to the stack, which may be used up"));
            }
        }
        Origin::Process { id, user } if id != own_process() => {
            bare(format_args!("Killed by PID: {id}, UID: {user}"));
        }
        Origin::Process { .. } => bare(format_args!("The process asked for its own end")),
    }
    let (thread, instruction) = (own_thread(), fault.instruction);
    bare(format_args!("Crashed in thread {thread}, at the instruction at: {instruction:#x}"));
    bare(format_args!("------ REGISTERS ------"));
    for some in fault.registers.chunks(4) {
        let mut line = Line { bytes: [0; 24 * 4], length: 0 };
        for (name, value) in some.iter().filter(|(name, _)| !name.is_empty()) {
            // What finds no room is left out.
            let _ = write!(line, " {name:>6}:{value:016x}");
        }
        if !line.text().is_empty() {
            bare(format_args!("{}", line.text()));
        }
    }
}

/// How far from the top of its stack a function may look.
const STACK_MARGIN: usize = 64 << 10;

/// Room for a few registers.
struct Line {
    bytes: [u8; 24 * 4],
    length: usize,
}

impl Line {
    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn write_later_fault(source: &dyn ReportSource, fault: &Fault, of_whom: &str) {
    let Fault { signal, instruction, .. } = fault;
    source.write(
        LineFormat::Bare,
        format_args!("Signal {signal} at {instruction:#x} meanwhile, in {of_whom}"),
    );
}

fn write_addresses(source: &dyn ReportSource) {
    source.write(LineFormat::Bare, format_args!("------ STACK TRACE ------"));
    for (number, address) in CRASH.trace.frames_from(CRASH.instruction()).enumerate() {
        match reporter::place_in_program(address) {
            Some(place) => {
                source
                    .write(LineFormat::Bare, format_args!("#{number} {address:#x} (+{place:#x})"));
            }
            None => source.write(LineFormat::Bare, format_args!("#{number} {address:#x}")),
        }
    }
}

fn write_served(source: &dyn ReportSource) {
    source.write(LineFormat::Bare, format_args!("------ CURRENT CLIENT INFO ------"));
    let told = ffi::served(|served| {
        let client = served.client().map_or(0, |client| client.saturating_add(1));
        CRASH.client.store(client, Ordering::Relaxed);
        served.describe(&mut |line| source.write(LineFormat::Bare, line));
    });
    if told.is_none() {
        source.write(LineFormat::Bare, format_args!("none: the thread served nobody"));
    }
}

fn await_reporter(source: &dyn ReportSource) {
    if reporter::is(own_thread()) || !reporter::wake() {
        return;
    }
    for _ in 0..LOOKS {
        if CRASH.is_told.load(Ordering::Acquire) {
            return;
        }
        pause(LOOK);
    }
    source.write(LineFormat::Bare, format_args!("The rest takes too long and is left out"));
}

fn write_end(source: &dyn ReportSource) {
    for line in END {
        source.write(LineFormat::Bare, format_args!("{line}"));
    }
}

const END: [&str; 5] = [
    "=== APUS BUG REPORT END. Make sure to include from START to END. ===",
    "Please send this to those who maintain Apus, as an issue, with what went on before and the",
    "configuration without its passwords. If the lines before it tell of a disk that failed or of",
    "memory that was refused, see to these first. The memory of the machine is not tested here:",
    "where you suspect it, run memtester, or memtest86 when it boots.",
];

/// Answers where this thread is, if it was asked; in a crash it then stays there.
pub(crate) fn answer(instruction: usize) {
    let own = own_thread();
    let claimed = QUESTION.asked.compare_exchange(own, -own, Ordering::AcqRel, Ordering::Relaxed);
    if claimed.is_err() {
        return;
    }
    let stops = QUESTION.stops.load(Ordering::Acquire);
    QUESTION.trace.clear();
    QUESTION.instruction.store(instruction, Ordering::Relaxed);
    ffi::walk(&QUESTION.trace);
    ffi::served(|served| {
        // What finds no room is left out.
        served.describe(&mut |line| _ = writeln!(QUESTION.trace.writer(), "{line}"));
    });
    QUESTION.asked.store(0, Ordering::Release);
    if stops {
        rest();
    }
}

/// The operator wants to know what all threads are at.
pub(crate) fn alarm() {
    IS_ALARMED.store(true, Ordering::Release);
    reporter::wake();
}

fn own_process() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn own_thread() -> i32 {
    gettid().as_raw_nonzero().get()
}
