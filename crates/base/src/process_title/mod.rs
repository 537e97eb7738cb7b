//! What `ps` shows of this process: its arguments, until something is put in their place.
//!
//! The kernel reads them from where it laid them down at the start, so they are changed there. What
//! is longer goes on where the environment was, which is copied first.
//!
//! Invariants: nothing is written unless the kernel's own account says that the memory is what it
//! is taken for, and that no other thread can be reading it yet.

mod ffi;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// Where the arguments lie, once they are ours.
static ARGV_MEMORY: Mutex<Option<ffi::ArgvMemory>> = Mutex::new(None);

/// The kernel's account of this process.
pub struct Account {
    /// What `/proc/self/cmdline` holds.
    pub arguments: Vec<u8>,
    /// What `/proc/self/stat` holds.
    pub state: String,
}

/// Takes the arguments' memory over, and returns them, the program's name first. The arguments can
/// be read from nowhere else afterwards. For the start, while there is one thread; without an
/// account that fits, the memory stays what it is.
pub fn take_arguments(account: &Account) -> Vec<OsString> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    *ARGV_MEMORY.lock().unwrap_or_else(PoisonError::into_inner) = find(&arguments, account);
    arguments
}

/// Shows this instead of the arguments, as far as there is room; a NUL byte ends an argument.
pub fn show(bytes: &[u8]) {
    if let Some(memory) = &mut *ARGV_MEMORY.lock().unwrap_or_else(PoisonError::into_inner) {
        memory.write(bytes);
    }
}

fn find(arguments: &[OsString], account: &Account) -> Option<ffi::ArgvMemory> {
    let shown = &account.arguments;
    let joined = arguments.iter().flat_map(|word| word.as_bytes().iter().chain(&[0]));
    let layout = Layout::read(&account.state)?;
    let is_whole = layout.arguments.end.checked_sub(layout.arguments.start) == Some(shown.len());
    if layout.threads != 1 || !is_whole || !joined.eq(shown) {
        return None;
    }
    let mut range = layout.arguments.clone();
    if layout.environment.start == range.end && layout.environment.end > range.end {
        ffi::copy_environment();
        range.end = layout.environment.end;
    }
    Some(ffi::ArgvMemory::new(range))
}

/// What the kernel says of a process in `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    threads: u64,
    arguments: std::ops::Range<usize>,
    environment: std::ops::Range<usize>,
}

impl Layout {
    /// Fields are told apart by blanks, but for the second, a name in parentheses.
    fn read(text: &str) -> Option<Layout> {
        let (_, behind_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
        // By their numbers in proc(5), of which the first here has 3.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse().ok());
        let address = |number| field(number).and_then(|it| usize::try_from(it).ok());
        let arguments = address(48)?..address(49)?;
        let environment = address(50)?..address(51)?;
        let is_told = arguments.start > 0 && arguments.start < arguments.end;
        is_told.then_some(Layout { threads: field(20)?, arguments, environment })
    }
}

/// Words as the kernel shows arguments.
pub fn joined(words: &[Vec<u8>]) -> Vec<u8> {
    words.iter().flat_map(|word| word.iter().chain(&[0])).copied().collect()
}

/// The environment's variables whose names a variable can have.
fn variables() -> Vec<(OsString, OsString)> {
    let is_name = |name: &OsString| !name.is_empty() && !name.as_bytes().contains(&b'=');
    std::env::vars_os().filter(|(name, _)| is_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Layout, joined};

    #[test]
    fn the_kernels_account_is_read_by_place() {
        let numbers = |from: usize| (from..=52).map(|number| format!(" {number}"));
        let text = format!("1 (a) b) S{}", numbers(4).collect::<String>());
        let layout = Layout { threads: 20, arguments: 48..49, environment: 50..51 };
        assert_eq!(Layout::read(&text), Some(layout));
        for broken in ["", "1 (a) S 4 5", "no parenthesis", &text.replace(" 48", " 0")] {
            assert_eq!(Layout::read(broken), None, "{broken}");
        }
    }

    #[test]
    fn words_end_with_a_nul() {
        assert_eq!(joined(&[b"a b".to_vec(), Vec::new(), b"c".to_vec()]), b"a b\0\0c\0");
    }
}
