//! The thread that tells what a signal handler cannot: names and lines, the other threads, and what
//! the process knows of itself.
//!
//! Invariants: the reporter sleeps until it is woken, or until a look at the loops is due; in a
//! crash all threads that answer are stopped before it looks at anything that is not its own.

use std::ffi::c_void;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Thread;
use std::time::Duration;
use std::{fs, io};

use rustix::thread::gettid;

use crate::ffi;
use crate::handler::{CRASH, IS_ALARMED, QUESTION};
use crate::report_source::{LineFormat, Part, ReportSource};
use crate::tasks::{self, Task};

static SOURCE: OnceLock<&'static dyn ReportSource> = OnceLock::new();
static THREAD: OnceLock<Thread> = OnceLock::new();
static ID: AtomicI32 = AtomicI32::new(0);

/// Where the program lies in memory.
static PROGRAM_BEGIN: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_END: AtomicUsize = AtomicUsize::new(0);

/// How long a thread may take to say where it is, and between two looks whether it has.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_micros(200);

/// Reports from now on; called once.
pub fn begin(source: &'static dyn ReportSource) -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let (begin, end) = extent_of(&maps, &program).unwrap_or_default();
    PROGRAM_BEGIN.store(begin, Ordering::Relaxed);
    PROGRAM_END.store(end, Ordering::Relaxed);
    let first = SOURCE.set(source).is_ok();
    assert!(first, "one process has one that tells");
    let (sender, is_known) = sync_channel(1);
    let thread = std::thread::Builder::new().name("reporter".to_owned()).spawn(move || {
        ID.store(gettid().as_raw_nonzero().get(), Ordering::Release);
        // The thread that began this one waits for it.
        let _ = sender.send(());
        run(source);
    })?;
    let _ = THREAD.set(thread.thread().clone());
    // A signal that the thread took as it began would have it wait for itself.
    let _ = is_known.recv();
    ffi::install()
}

/// Has a new period between looks at the loops count.
pub fn reset_watchdog() {
    wake();
}

pub(crate) fn source() -> Option<&'static dyn ReportSource> {
    SOURCE.get().copied()
}

/// Whether the reporter is this thread.
pub(crate) fn is(thread: i32) -> bool {
    ID.load(Ordering::Acquire) == thread
}

/// Wakes the reporter; `false` if there is none. Called by signal handlers.
pub(crate) fn wake() -> bool {
    THREAD.get().map(Thread::unpark).is_some()
}

/// How far into the program an address is, if it is there.
pub(crate) fn place_in_program(address: usize) -> Option<usize> {
    let begin = PROGRAM_BEGIN.load(Ordering::Relaxed);
    (begin..PROGRAM_END.load(Ordering::Relaxed)).contains(&address).then(|| address - begin)
}

/// From where to where a file is mapped, by the kernel's list.
fn extent_of(maps: &str, file: &Path) -> Option<(usize, usize)> {
    let own = maps.lines().filter(|line| line.ends_with(&*file.to_string_lossy()));
    let extents = own.filter_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    });
    extents.reduce(|(begin, end), (other, its_end)| (begin.min(other), end.max(its_end)))
}

fn run(source: &'static dyn ReportSource) {
    loop {
        let period = source.watch_period();
        match period {
            Some(period) => std::thread::park_timeout(period / 2),
            None => std::thread::park(),
        }
        if let Some(owner) = CRASH.owner() {
            report_crash(source, owner);
            CRASH.is_told.store(true, Ordering::Release);
        }
        if IS_ALARMED.swap(false, Ordering::AcqRel) {
            report_threads(source, "Received SIGALRM");
        }
        if let Some(name) = period.and_then(|period| source.stalled_loop(period)) {
            let line = format!("--- WATCHDOG TIMER EXPIRED --- ({name} stands still)");
            report_threads(source, &line);
        }
    }
}

fn report_crash(source: &dyn ReportSource, owner: i32) {
    let (others, own) = stop_others(owner);
    let bare = |line: &str| source.write(LineFormat::Bare, format_args!("{line}"));
    let name = own.as_ref().map_or("?", |task| &task.name);
    bare(&format!("------ NAMES AND LINES: thread {owner} ({name}) ------"));
    let frames: Vec<usize> = CRASH.trace.frames_from(CRASH.instruction()).collect();
    write_frames(&frames, bare);
    bare("------ THREADS ------");
    others.iter().for_each(|(task, answer)| write_thread(task, answer.as_ref(), bare));
    for part in source.parts(CRASH.client()) {
        write_part(part, bare);
    }
}

/// Tells a part on a thread of its own: to tell it may wait for ever for a thread that is stopped,
/// or meet what broke that.
fn write_part(Part { title, text }: Part, line: impl Fn(&str)) {
    let (sender, receiver) = sync_channel(1);
    let spawned = std::thread::Builder::new().spawn(move || {
        // The reporter may have gone on meanwhile.
        let _ = sender.send(text());
    });
    line(&format!("------ {title} ------"));
    match spawned.map(|_| receiver.recv_timeout(PATIENCE)) {
        Ok(Ok(text)) => text.lines().for_each(line),
        Ok(Err(_)) => line("It cannot be told: what it needs is held by a thread, or broken"),
        Err(why) => line(&format!("It cannot be told: there is no thread for it ({why})")),
    }
}

/// What a thread said of itself.
struct Answer {
    frames: Vec<usize>,
    text: String,
}

/// Stops all threads but the one that met the fault and this one; also tells of that. A thread that
/// another one has begun meanwhile is found in the next round.
fn stop_others(owner: i32) -> (Vec<(Task, Option<Answer>)>, Option<Task>) {
    QUESTION.stops.store(true, Ordering::Release);
    let (mut stopped, mut own) = (Vec::<(Task, Option<Answer>)>::new(), None);
    loop {
        let before = stopped.len();
        for task in tasks::all() {
            if task.id == owner {
                own = Some(task);
            } else if !is(task.id) && !stopped.iter().any(|(it, _)| it.id == task.id) {
                let answer = ask(task.id);
                stopped.push((task, answer));
            }
        }
        if stopped.len() == before {
            return (stopped, own);
        }
    }
}

/// Tells what all threads are at, while they go on; a crash has them told of in its own report.
fn report_threads(source: &dyn ReportSource, why: &str) {
    let bare = |line: &str| source.write(LineFormat::Bare, format_args!("{line}"));
    source.write(LineFormat::Dated, format_args!("{why}"));
    bare("------ THREADS ------");
    for task in tasks::all().into_iter().filter(|task| !is(task.id)) {
        if CRASH.owner().is_some() {
            break;
        }
        let answer = ask(task.id);
        write_thread(&task, answer.as_ref(), bare);
    }
    bare("--------");
}

/// Where a thread is, if it says so in time.
fn ask(thread: i32) -> Option<Answer> {
    let question = &QUESTION;
    // One that was too late has begun to answer: what it says is its own.
    if question.asked.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return None;
    }
    let mut left = if ffi::ask(thread) { PATIENCE } else { Duration::ZERO };
    while question.asked.load(Ordering::Acquire) != 0 {
        if left.is_zero() {
            let taken_back =
                question.asked.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
            if taken_back.is_ok() {
                return None;
            }
            // The thread is about to have answered, or never will.
            std::thread::sleep(PATIENCE);
            if question.asked.load(Ordering::Acquire) != 0 {
                return None;
            }
            break;
        }
        std::thread::sleep(LOOK);
        left = left.saturating_sub(LOOK);
    }
    let instruction = question.instruction.load(Ordering::Relaxed);
    let frames = question.trace.frames_from(instruction).collect();
    Some(Answer { frames, text: question.trace.text() })
}

fn write_thread(task: &Task, answer: Option<&Answer>, mut line: impl FnMut(&str)) {
    let Task { id, name, state } = task;
    line(&format!("Thread {id} ({name}), {state}"));
    match answer {
        None => line("    It does not answer"),
        Some(Answer { frames, text }) => {
            text.lines().for_each(|text| line(&format!("    {text}")));
            write_frames(frames, line);
        }
    }
}

/// The functions on a stack, those that were inlined before those they are in. All addresses but
/// the first are where a call returns to, which may be another line.
fn write_frames(frames: &[usize], mut line: impl FnMut(&str)) {
    for (number, address) in frames.iter().enumerate() {
        let within = address - usize::from(number > 0 && *address > 0);
        let mut has_name = false;
        backtrace::resolve(within as *mut c_void, |symbol| {
            let head = if has_name { "    ".to_owned() } else { format!("#{number:<3}") };
            has_name = true;
            let name = symbol.name();
            let name = name.map_or_else(|| "?".to_owned(), |name| format!("{name:#}"));
            let place = symbol.filename().map(|file| {
                format!(" at {}:{}", file.display(), symbol.lineno().unwrap_or_default())
            });
            line(&format!("{head} {name}{}", place.unwrap_or_default()));
        });
        if !has_name {
            line(&format!("#{number:<3} {address:#x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::extent_of;

    #[test]
    fn a_program_lies_where_all_its_pieces_do() {
        let maps = "\
55d0-55d4 r--p 00000000 fe:00 1 /usr/bin/apus
55d4-55f0 r-xp 00004000 fe:00 1 /usr/bin/apus
7f00-7f10 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6
55f0-55f8 rw-p 00020000 fe:00 1 /usr/bin/apus
55f8-5600 rw-p 00000000 00:00 0 
";
        assert_eq!(extent_of(maps, Path::new("/usr/bin/apus")), Some((0x55d0, 0x55f8)));
        assert_eq!(extent_of(maps, Path::new("/usr/bin/other")), None);
    }
}
