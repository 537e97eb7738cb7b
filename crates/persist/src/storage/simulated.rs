//! A disk in memory that fails and crashes as it is told to; for tests.
//!
//! A crash keeps what was synced. Of what was written to a file since, it keeps some beginning,
//! maybe torn in the middle of a write; of what was written over something else, any blocks, since
//! a disk writes those in no order; of what happened to the names in a directory since, it
//! keeps the first few steps. Which, a seed decides.
//!
//! Invariant: what was synced before a crash is there after it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use base::random::Random;

use super::{Claim, Claimed, File, OpenMode, Storage};

/// A disk; its clones are the same one.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    goes_on: Arc<Condvar>,
}

/// A disk that does nothing: calls wait until this is dropped.
#[must_use]
pub struct HaltGuard(SimulatedDisk);

impl Drop for HaltGuard {
    fn drop(&mut self) {
        self.0.state().is_halted = false;
        self.0.goes_on.notify_all();
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this number of an error and changes nothing.
    Error(i32),
    /// A write takes half of the bytes; what is no write fails for want of space.
    Short,
    /// As `Short`, and the next call fails for want of space too: the disk is full.
    Full,
    /// The call takes its time and succeeds.
    Delay,
    /// The caller panics, if the thread has a name and so is none of the test's own.
    Panic,
}

/// How long a call takes that is delayed.
const DELAY: Duration = Duration::from_millis(5);

/// For want of space, as the system counts errors.
const NO_SPACE: i32 = 28;

/// What a disk writes whole or not at all; smaller than any is, so that small files have many.
const BLOCK: usize = 64;

/// No such file.
const NOT_FOUND: i32 = 2;

/// There is one already.
const EXISTS: i32 = 17;

#[derive(Default)]
struct State {
    /// The names as they are.
    names: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    /// The names as a crash leaves them at least.
    synced_names: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    /// What happened to names since they were synced.
    steps: Vec<Step>,
    directories: Vec<PathBuf>,
    calls: u64,
    fault: Option<Planned>,
    crashes: u64,
    is_halted: bool,
    refuses_direct: bool,
}

/// A fault to come.
#[derive(Clone, Copy)]
struct Planned {
    at: u64,
    fault: Fault,
    lasts: bool,
}

/// What happened to a name.
#[derive(Clone)]
enum Step {
    Made(PathBuf, Arc<Mutex<Content>>),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl Step {
    /// Whether a sync of this directory makes it last.
    fn is_in(&self, directory: &Path) -> bool {
        let (Self::Made(path, _) | Self::Renamed(_, path) | Self::Removed(path)) = self;
        path.parent() == Some(directory)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Arc<Mutex<Content>>>) {
        match self {
            Self::Made(path, content) => _ = names.insert(path.clone(), Arc::clone(content)),
            Self::Renamed(from, to) => {
                if let Some(content) = names.remove(from) {
                    names.insert(to.clone(), content);
                }
            }
            Self::Removed(path) => _ = names.remove(path),
        }
    }
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// What was written since the last sync.
    writes: Vec<Write>,
}

/// A change of a file that a crash may undo or tear.
enum Write {
    At(usize, Vec<u8>),
    Cut(usize),
}

impl Write {
    /// Has some blocks of it happen, if it goes over what is there, and else all of it.
    fn scatter(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let Self::At(offset, new) = self else { return self.apply(bytes) };
        if offset + new.len() > bytes.len() {
            return self.apply(bytes);
        }
        let mut from = 0;
        while from < new.len() {
            let to = ((offset + from + 1).next_multiple_of(BLOCK) - offset).min(new.len());
            if below(random, 2) == 0 {
                bytes[offset + from..offset + to].copy_from_slice(&new[from..to]);
            }
            from = to;
        }
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::At(offset, new) => {
                let end = offset + new.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(new);
            }
            Self::Cut(length) => bytes.resize(*length, 0),
        }
    }
}

impl Content {
    fn change(&mut self, write: Write) {
        write.apply(&mut self.bytes);
        self.writes.push(write);
    }

    /// What a crash leaves.
    fn crash(&mut self, random: &mut Random) {
        let mut kept = std::mem::take(&mut self.synced);
        let writes = std::mem::take(&mut self.writes);
        let whole = below(random, writes.len() + 1);
        let is_ordered = below(random, 2) == 0;
        for write in &writes[..whole] {
            match is_ordered {
                true => write.apply(&mut kept),
                false => write.scatter(&mut kept, random),
            }
        }
        if let Some(Write::At(offset, bytes)) = writes.get(whole) {
            let torn = bytes[..below(random, bytes.len() + 1)].to_vec();
            Write::At(*offset, torn).apply(&mut kept);
        }
        self.bytes.clone_from(&kept);
        self.synced = kept;
    }
}

/// A number below a bound that is not 0.
fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Has the call with this number (0 is the first of all) fail.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.state().fault = Some(Planned { at: call, fault, lasts: false });
    }

    /// Has all calls from this one on fail until [`heal`](Self::heal).
    pub fn fail_from(&self, call: u64, fault: Fault) {
        self.state().fault = Some(Planned { at: call, fault, lasts: true });
    }

    /// Has no call fail any more.
    pub fn heal(&self) {
        self.state().fault = None;
    }

    /// Has the disk write nothing past the memory of the system.
    pub fn refuse_direct(&self) {
        self.state().refuses_direct = true;
    }

    /// Has all calls wait from now on.
    pub fn halt(&self) -> HaltGuard {
        self.state().is_halted = true;
        HaltGuard(self.clone())
    }

    /// Loses what a crash loses. Files that are open fail from now on.
    pub fn crash(&self, seed: u64) {
        let mut random = Random::from_seed(seed);
        let mut state = self.state();
        state.crashes += 1;
        let steps = std::mem::take(&mut state.steps);
        let mut names = std::mem::take(&mut state.synced_names);
        for step in &steps[..below(&mut random, steps.len() + 1)] {
            step.apply(&mut names);
        }
        for content in names.values() {
            lock(content).crash(&mut random);
        }
        state.synced_names.clone_from(&names);
        state.names = names;
    }

    /// Puts a file on the disk, synced.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let content = Content { bytes: bytes.to_vec(), synced: bytes.to_vec(), writes: Vec::new() };
        let content = Arc::new(Mutex::new(content));
        let mut state = self.state();
        state.names.insert(path.to_owned(), Arc::clone(&content));
        state.synced_names.insert(path.to_owned(), content);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no critical section here panics")
    }

    /// Counts a call, and fails it if that is its turn.
    fn call(&self) -> io::Result<MutexGuard<'_, State>> {
        match self.count() {
            (_, Some(Fault::Error(number))) => Err(io::Error::from_raw_os_error(number)),
            (_, Some(Fault::Short | Fault::Full)) => Err(io::Error::from_raw_os_error(NO_SPACE)),
            (state, Some(Fault::Delay)) => {
                drop(state);
                std::thread::sleep(DELAY);
                Ok(self.state())
            }
            (state, Some(Fault::Panic)) => {
                drop(state);
                panic_if_named();
                Ok(self.state())
            }
            (state, None) => Ok(state),
        }
    }

    fn count(&self) -> (MutexGuard<'_, State>, Option<Fault>) {
        let waited = self.goes_on.wait_while(self.state(), |state| state.is_halted);
        let mut state = waited.expect("no critical section here panics");
        let call = state.calls;
        state.calls += 1;
        let is_due = |planned: &Planned| {
            if planned.lasts { call >= planned.at } else { call == planned.at }
        };
        let fault = state.fault.filter(is_due).map(|planned| planned.fault);
        if fault == Some(Fault::Full) {
            let next = Fault::Error(NO_SPACE);
            state.fault = Some(Planned { at: call + 1, fault: next, lasts: false });
        }
        (state, fault)
    }
}

fn panic_if_named() {
    assert!(std::thread::current().name().is_none(), "the disk was asked for that");
}

fn lock(content: &Mutex<Content>) -> MutexGuard<'_, Content> {
    content.lock().expect("no critical section here panics")
}

impl Storage for SimulatedDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn File>> {
        let mut state = self.call()?;
        let found = state.names.get(path).map(Arc::clone);
        let content = match (found, how) {
            (None, OpenMode::Read) => return Err(io::Error::from_raw_os_error(NOT_FOUND)),
            (None, _) => {
                let parent = path.parent().unwrap_or(Path::new(""));
                let is_root = matches!(parent.to_str(), Some("" | "/" | "."));
                if !is_root && !state.directories.iter().any(|known| known == parent) {
                    return Err(io::Error::from_raw_os_error(NOT_FOUND));
                }
                let content = Arc::new(Mutex::default());
                state.names.insert(path.to_owned(), Arc::clone(&content));
                state.steps.push(Step::Made(path.to_owned(), Arc::clone(&content)));
                content
            }
            (Some(content), _) => content,
        };
        if how == OpenMode::Create {
            lock(&content).change(Write::Cut(0));
        }
        let crashes = state.crashes;
        drop(state);
        let place = if how == OpenMode::Append { lock(&content).bytes.len() } else { 0 };
        Ok(Box::new(Handle { disk: self.clone(), content, place, crashes }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if !state.names.contains_key(from) {
            return Err(io::Error::from_raw_os_error(NOT_FOUND));
        }
        let step = Step::Renamed(from.to_owned(), to.to_owned());
        step.apply(&mut state.names);
        state.steps.push(step);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if state.names.contains_key(to) {
            return Err(io::Error::from_raw_os_error(EXISTS));
        }
        let content = state.names.get(from).map(Arc::clone);
        let content = content.ok_or_else(|| io::Error::from_raw_os_error(NOT_FOUND))?;
        let step = Step::Made(to.to_owned(), content);
        step.apply(&mut state.names);
        state.steps.push(step);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if state.names.remove(path).is_none() {
            return Err(io::Error::from_raw_os_error(NOT_FOUND));
        }
        state.steps.push(Step::Removed(path.to_owned()));
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let state = self.call()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if !state.directories.iter().any(|known| known == path) {
            state.directories.push(path.to_owned());
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let steps = std::mem::take(&mut state.steps);
        let (done, open) = steps.into_iter().partition::<Vec<_>, _>(|step| step.is_in(path));
        for step in done {
            step.apply(&mut state.synced_names);
        }
        state.steps = open;
        Ok(())
    }

    fn claim(&self, _: &Path) -> Result<Claim, Claimed> {
        Ok(Claim::none())
    }
}

/// An open file.
struct Handle {
    disk: SimulatedDisk,
    content: Arc<Mutex<Content>>,
    /// Where the file is read or written next.
    place: usize,
    /// How many crashes there had been when it was opened.
    crashes: u64,
}

impl Handle {
    /// The content for a call that may fail whole.
    fn content(&self) -> io::Result<MutexGuard<'_, Content>> {
        let state = self.disk.call()?;
        self.check(&state)?;
        drop(state);
        Ok(lock(&self.content))
    }

    /// What was open in a crash is not open any more.
    fn check(&self, state: &State) -> io::Result<()> {
        let is_open = state.crashes == self.crashes;
        is_open.then_some(()).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// One call, which may write less; how much.
    fn write_some(&self, place: usize, bytes: &[u8]) -> io::Result<usize> {
        let (state, fault) = self.disk.count();
        self.check(&state)?;
        drop(state);
        let count = match fault {
            Some(Fault::Error(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Fault::Short | Fault::Full) if bytes.len() < 2 => {
                return Err(io::Error::from_raw_os_error(NO_SPACE));
            }
            Some(Fault::Short | Fault::Full) => bytes.len() / 2,
            Some(Fault::Delay) => {
                std::thread::sleep(DELAY);
                bytes.len()
            }
            Some(Fault::Panic) => {
                panic_if_named();
                bytes.len()
            }
            None => bytes.len(),
        };
        lock(&self.content).change(Write::At(place, bytes[..count].to_vec()));
        Ok(count)
    }
}

impl File for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.content()?;
        let rest = content.bytes.get(self.place..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        drop(content);
        self.place += count;
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.write_some(self.place, bytes)?;
        self.place += count;
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut place = offset as usize;
        while !bytes.is_empty() {
            let count = self.write_some(place, bytes)?;
            place += count;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn write_direct(&mut self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<bool> {
        let is_whole = |number: usize| number.is_multiple_of(BLOCK);
        let mut addresses = slices.iter().map(|slice| slice.as_ptr().addr());
        assert!(is_whole(offset as usize) && addresses.all(is_whole), "in their places");
        assert!(slices.iter().all(|slice| is_whole(slice.len())), "whole blocks");
        if self.disk.state().refuses_direct {
            return Ok(false);
        }
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>();
        self.write_at(offset, &bytes).map(|()| true)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut content = self.content()?;
        let Content { bytes, synced, writes } = &mut *content;
        synced.clone_from(bytes);
        writes.clear();
        Ok(())
    }

    fn begin_sync(&mut self, _: Range<u64>) {
        // What is not synced is lost in the worst case, whatever the disk has begun with.
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.content()?.change(Write::Cut(length as usize));
        self.place = length as usize;
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.content()?.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::IoSlice;
    use std::path::Path;

    use rustix::fs::{Mode, OFlags};

    use super::{Fault, SimulatedDisk};
    use crate::storage::{BLOCK, OpenMode, Storage, read_whole, write_all};

    #[test]
    fn a_crash_keeps_what_was_synced_and_some_beginning_of_the_rest() {
        let path = Path::new("file");
        let mut lengths = [false; 13];
        for seed in 0..200 {
            let disk = SimulatedDisk::new();
            let mut file = disk.open(path, OpenMode::Create).unwrap();
            write_all(&mut *file, b"safe").unwrap();
            file.sync().unwrap();
            disk.sync_directory(Path::new("")).unwrap();
            write_all(&mut *file, b"torn").unwrap();
            write_all(&mut *file, b"gone").unwrap();
            disk.crash(seed);
            assert!(file.write(b"x").is_err(), "the process is gone");
            let left = read_whole(&disk, path).unwrap();
            assert!(b"safetorngone".starts_with(&left) && left.len() >= 4, "{left:?}");
            lengths[left.len()] = true;
        }
        assert_eq!(lengths.iter().filter(|seen| **seen).count(), 9, "every crash is possible");
    }

    #[test]
    fn names_come_and_go_in_their_order() {
        let (old, new, directory) = (Path::new("d/old"), Path::new("d/new"), Path::new("d"));
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let disk = SimulatedDisk::new();
            disk.make_directory(directory).unwrap();
            disk.put(old, b"1");
            disk.rename(old, new).unwrap();
            disk.remove(new).unwrap();
            disk.crash(seed);
            let mut names = disk.list(directory).unwrap();
            names.sort();
            outcomes.insert(names);
        }
        let expected = [vec![], vec![OsString::from("new")], vec!["old".into()]];
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_follows_a_cut_leaves_no_hole() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("apus-storage-{}", std::process::id()));
        let simulated = SimulatedDisk::new();
        simulated.make_directory(&directory).unwrap();
        let disks: [&dyn Storage; 2] = [&crate::storage::Disk, &simulated];
        for disk in disks {
            for how in [OpenMode::Create, OpenMode::Append] {
                let mut file = disk.open(&path, how).unwrap();
                write_all(&mut *file, b"whole, torn").unwrap();
                file.truncate(5).unwrap();
                write_all(&mut *file, b" again").unwrap();
                assert_eq!(read_whole(disk, &path).unwrap(), b"whole again");
                disk.remove(&path).unwrap();
            }
        }
    }

    #[test]
    fn what_goes_past_the_memory_of_the_system_is_in_the_file_with_what_does_not() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("apus-direct-{}", std::process::id()));
        let simulated = SimulatedDisk::new();
        simulated.make_directory(&directory).unwrap();
        let memory = vec![b'd'; 4 * BLOCK];
        let aligned = &memory[memory.as_ptr().align_offset(BLOCK)..];
        let direct = OFlags::WRONLY | OFlags::DIRECT;
        let disks: [&dyn Storage; 2] = [&crate::storage::Disk, &simulated];
        for disk in disks {
            let mut file = disk.open(&path, OpenMode::Append).unwrap();
            write_all(&mut *file, &[b'x'; BLOCK]).unwrap();
            let mut slices = [&aligned[..2 * BLOCK], &aligned[..BLOCK]].map(IoSlice::new);
            // Some file systems have no such way.
            let is_direct = file.write_direct(BLOCK as u64, &mut slices).unwrap();
            assert!(is_direct || rustix::fs::open(&path, direct, Mode::empty()).is_err());
            if !is_direct {
                file.write_at(BLOCK as u64, &[b'd'; 3 * BLOCK]).unwrap();
            }
            file.write_at(4 * BLOCK as u64, b"short").unwrap();
            file.sync().unwrap();
            let whole = [&[b'x'; BLOCK][..], &[b'd'; 3 * BLOCK], b"short"].concat();
            assert_eq!(read_whole(disk, &path).unwrap(), whole);
            file.truncate(5).unwrap();
            write_all(&mut *file, b", and more").unwrap();
            assert_eq!(read_whole(disk, &path).unwrap(), b"xxxxx, and more");
            disk.remove(&path).unwrap();
        }
        simulated.refuse_direct();
        let mut file = simulated.open(&path, OpenMode::Append).unwrap();
        assert!(!file.write_direct(0, &mut [IoSlice::new(&aligned[..BLOCK])]).unwrap());
        assert_eq!(file.length().unwrap(), 0, "nothing was written");
    }

    #[test]
    fn a_file_of_two_names_is_one_file_until_both_are_gone() {
        let directory = std::env::temp_dir();
        let name = |what| directory.join(format!("apus-link-{}-{what}", std::process::id()));
        let (first, second) = (name("first"), name("second"));
        let simulated = SimulatedDisk::new();
        simulated.make_directory(&directory).unwrap();
        let disks: [&dyn Storage; 2] = [&crate::storage::Disk, &simulated];
        for disk in disks {
            assert!(disk.link(&first, &second).is_err(), "there is nothing yet");
            let mut file = disk.open(&first, OpenMode::Create).unwrap();
            disk.link(&first, &second).unwrap();
            let refused = disk.link(&first, &second).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
            write_all(&mut *file, b"text").unwrap();
            disk.remove(&first).unwrap();
            assert_eq!(read_whole(disk, &second).unwrap(), b"text");
            disk.remove(&second).unwrap();
        }
    }

    #[test]
    fn a_second_name_may_be_lost_in_a_crash_and_the_first_is_not() {
        let (first, second, directory) = (Path::new("d/1"), Path::new("d/2"), Path::new("d"));
        let mut outcomes = [0; 2];
        for seed in 0..50 {
            let disk = SimulatedDisk::new();
            disk.make_directory(directory).unwrap();
            disk.put(first, b"text");
            disk.link(first, second).unwrap();
            disk.crash(seed);
            assert_eq!(read_whole(&disk, first).unwrap(), b"text");
            outcomes[usize::from(disk.list(directory).unwrap().len() == 2)] += 1;
        }
        assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
    }

    #[test]
    fn calls_fail_when_they_are_told_to() {
        let disk = SimulatedDisk::new();
        disk.fail_at(1, Fault::Error(5));
        let mut file = disk.open(Path::new("file"), OpenMode::Append).unwrap();
        assert_eq!(file.write(b"ab").unwrap_err().raw_os_error(), Some(5));
        disk.fail_at(2, Fault::Short);
        assert_eq!(file.write(b"ab").unwrap(), 1);
        disk.fail_from(3, Fault::Error(28));
        assert!(file.sync().is_err() && file.write(b"x").is_err());
        disk.heal();
        file.sync().unwrap();
        assert_eq!(disk.calls(), 6);
        assert_eq!(read_whole(&disk, Path::new("file")).unwrap(), b"a");
    }
}
