//! The edge to the kernel's signals and to the unwinder.
//!
//! Invariants: a handler here calls `handler` and touches nothing else; a pointer that is kept
//! is read by its own thread only, and while what it points at is borrowed.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::{io, ptr};

use libc::{siginfo_t, ucontext_t};

use crate::handler::{self, Fault, Origin};
use crate::report_source::Activity;
use crate::trace::Trace;

/// The signals by which the kernel, or the process itself, says that it cannot go on.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// By this a thread is asked where it is.
const ASK: c_int = libc::SIGUSR2;

/// Hears faults, questions and SIGALRM from now on.
pub(crate) fn install() -> io::Result<()> {
    for signal in FAULTS {
        // A second fault of the same thread is heard, too.
        set_handler(signal, on_fault, libc::SA_NODEFER)?;
    }
    set_handler(ASK, on_question, libc::SA_RESTART)?;
    set_handler(libc::SIGALRM, on_alarm, libc::SA_RESTART)
}

type HandlerFn = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn set_handler(signal: c_int, handler: HandlerFn, flags: c_int) -> io::Result<()> {
    // SAFETY: an action of zeroes is one with an empty mask, whose fields are then set.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    // SAFETY: the mask is that of the action, and the signals exist.
    unsafe {
        libc::sigaddset(&raw mut action.sa_mask, ASK);
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGALRM);
    }
    // SAFETY: the handler has the form that SA_SIGINFO asks for.
    let outcome = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler of this form.
    let (info, context) = unsafe { (&*info, &*context.cast::<ucontext_t>()) };
    let mut fault = Fault { signal, code: info.si_code, ..Fault::NONE };
    // SAFETY: which of them the kernel filled in is told by the code, and all are plain numbers.
    fault.origin = unsafe {
        if info.si_code <= 0 {
            Origin::Process { id: info.si_pid(), user: info.si_uid() }
        } else {
            Origin::Address(info.si_addr() as usize)
        }
    };
    machine::read(context, &mut fault);
    handler::handle_fault(&fault);
}

extern "C" fn on_question(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    keeping_errno(|| {
        // SAFETY: the kernel passes it to a handler of this form.
        let context = unsafe { &*context.cast::<ucontext_t>() };
        let mut fault = Fault::NONE;
        machine::read(context, &mut fault);
        handler::answer(fault.instruction);
    });
}

extern "C" fn on_alarm(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    keeping_errno(handler::alarm);
}

/// The interrupted code finds the error number as it was.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the place is this thread's own.
    let (place, before) = unsafe {
        let place = libc::__errno_location();
        (place, *place)
    };
    work();
    // SAFETY: as above.
    unsafe { *place = before };
}

/// Notes the addresses on this thread's stack.
pub(crate) fn walk(trace: &Trace) {
    // SAFETY: the unwinder needs no lock where the loader is of glibc 2.35 or newer, and an older
    // one only keeps threads apart that load libraries, which this process does not do while it
    // serves. One thread calls it at a time.
    unsafe { backtrace::trace_unsynchronized(|frame| trace.push(frame.ip() as usize)) };
}

/// Ends the process by a signal, as if nobody had heard it.
pub(crate) fn end_by(signal: c_int) -> ! {
    // SAFETY: the default action runs no code of ours; the mask is this thread's own.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut mask = MaybeUninit::zeroed().assume_init();
        libc::sigaddset(&raw mut mask, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const mask, ptr::null_mut());
        libc::raise(signal);
    }
    end_with(1)
}

/// Ends the process at once, with a status.
pub(crate) fn end_with(status: c_int) -> ! {
    // SAFETY: nothing comes behind it.
    unsafe { libc::_exit(status) }
}

/// Asks a thread of this process where it is; `false` if it is gone.
pub(crate) fn ask(thread: i32) -> bool {
    // SAFETY: a number that is no thread's of this process is refused.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, ASK) == 0 }
}

/// Reads a page that may not be read: for DEBUG SEGFAULT and tests.
pub fn fault() -> ! {
    // SAFETY: the page is new and nobody else's. To read it ends the process.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 1, libc::PROT_NONE, flags, -1, 0);
        page.cast::<u8>().read_volatile();
    }
    end_by(libc::SIGSEGV)
}

thread_local! {
    /// What this thread works for, if for anybody.
    static SERVED: Cell<Option<*const (dyn Activity + 'static)>> = const { Cell::new(None) };
}

/// Works for somebody; a report that is made meanwhile says so.
#[inline]
pub fn serving<T>(served: &dyn Activity, work: impl FnOnce() -> T) -> T {
    struct Before(Option<*const (dyn Activity + 'static)>);
    impl Drop for Before {
        #[inline]
        fn drop(&mut self) {
            SERVED.set(self.0);
        }
    }
    let served: *const (dyn Activity + '_) = served;
    // SAFETY: only the lifetime changes, and `served` below reads the pointer while this call, and
    // so the borrow, lasts.
    let served = unsafe {
        std::mem::transmute::<*const (dyn Activity + '_), *const (dyn Activity + 'static)>(served)
    };
    let _before = Before(SERVED.replace(Some(served)));
    compiler_fence(Ordering::SeqCst);
    let done = work();
    compiler_fence(Ordering::SeqCst);
    done
}

/// What this thread is at for somebody.
pub(crate) fn served<T>(look: impl FnOnce(&dyn Activity) -> T) -> Option<T> {
    let served = SERVED.get()?;
    // SAFETY: the pointer was set by this thread in a call of `serving` that has not returned, so
    // it is borrowed by that.
    Some(look(unsafe { &*served }))
}

const SECOND_STACK_BYTES: usize = 64 << 10;
const SECOND_STACKS: usize = 128;

/// Memory for the handlers of threads that have used up their stacks. The pool takes no room until
/// then.
struct Pool {
    memory: UnsafeCell<[[MaybeUninit<u8>; SECOND_STACK_BYTES]; SECOND_STACKS]>,
    taken: [AtomicBool; SECOND_STACKS],
}

// SAFETY: a piece of the memory is written by the thread that has taken it, and by no other.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    memory: UnsafeCell::new([[MaybeUninit::uninit(); SECOND_STACK_BYTES]; SECOND_STACKS]),
    taken: [const { AtomicBool::new(false) }; SECOND_STACKS],
};

/// A stack on which this thread hears signals, until it is dropped.
#[must_use]
pub struct SecondStack {
    number: usize,
    /// A second stack stays on its thread.
    _own: std::marker::PhantomData<*const ()>,
}

impl SecondStack {
    /// One for this thread, if there is one left.
    pub fn take() -> Option<Self> {
        let number = POOL.taken.iter().position(|taken| !taken.swap(true, Ordering::Acquire))?;
        let memory = POOL.memory.get().cast::<[MaybeUninit<u8>; SECOND_STACK_BYTES]>();
        // SAFETY: the number is one of the pool's.
        let place = unsafe { memory.add(number) }.cast::<c_void>();
        set_second_stack(libc::stack_t { ss_sp: place, ss_flags: 0, ss_size: SECOND_STACK_BYTES });
        Some(Self { number, _own: std::marker::PhantomData })
    }
}

impl Drop for SecondStack {
    fn drop(&mut self) {
        let (place, size) = (ptr::null_mut(), 0);
        set_second_stack(libc::stack_t { ss_sp: place, ss_flags: libc::SS_DISABLE, ss_size: size });
        POOL.taken[self.number].store(false, Ordering::Release);
    }
}

fn set_second_stack(stack: libc::stack_t) {
    // SAFETY: its memory is this thread's until it says that it has none. Refused, the thread has
    // none either.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use super::{Fault, ucontext_t};

    const NAMES: [(&str, i32); 22] = [
        ("RAX", libc::REG_RAX),
        ("RBX", libc::REG_RBX),
        ("RCX", libc::REG_RCX),
        ("RDX", libc::REG_RDX),
        ("RDI", libc::REG_RDI),
        ("RSI", libc::REG_RSI),
        ("RBP", libc::REG_RBP),
        ("RSP", libc::REG_RSP),
        ("R8", libc::REG_R8),
        ("R9", libc::REG_R9),
        ("R10", libc::REG_R10),
        ("R11", libc::REG_R11),
        ("R12", libc::REG_R12),
        ("R13", libc::REG_R13),
        ("R14", libc::REG_R14),
        ("R15", libc::REG_R15),
        ("RIP", libc::REG_RIP),
        ("EFL", libc::REG_EFL),
        ("CSGSFS", libc::REG_CSGSFS),
        ("ERR", libc::REG_ERR),
        ("TRAPNO", libc::REG_TRAPNO),
        ("CR2", libc::REG_CR2),
    ];

    pub(super) fn read(context: &ucontext_t, fault: &mut Fault) {
        let values = &context.uc_mcontext.gregs;
        for (register, (name, place)) in fault.registers.iter_mut().zip(NAMES) {
            *register = (name, values[place as usize] as usize);
        }
        fault.instruction = values[libc::REG_RIP as usize] as usize;
        fault.stack = values[libc::REG_RSP as usize] as usize;
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use super::{Fault, ucontext_t};

    const NAMES: [&str; 31] = [
        "X0", "X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9", "X10", "X11", "X12", "X13",
        "X14", "X15", "X16", "X17", "X18", "X19", "X20", "X21", "X22", "X23", "X24", "X25", "X26",
        "X27", "X28", "X29", "LR",
    ];

    pub(super) fn read(context: &ucontext_t, fault: &mut Fault) {
        let machine = &context.uc_mcontext;
        let values = NAMES.iter().zip(machine.regs).map(|(name, value)| (*name, value as usize));
        let special = [("SP", machine.sp), ("PC", machine.pc), ("PSTATE", machine.pstate)];
        let special = special.into_iter().map(|(name, value)| (name, value as usize));
        for (register, value) in fault.registers.iter_mut().zip(values.chain(special)) {
            *register = value;
        }
        fault.instruction = machine.pc as usize;
        fault.stack = machine.sp as usize;
    }
}

/// What other machines have is not told.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use super::{Fault, ucontext_t};

    pub(super) fn read(_: &ucontext_t, _: &mut Fault) {}
}
