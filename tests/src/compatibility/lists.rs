//! The lists in `docs/compatibility`, which no server can tell. Invariant: each is sorted, and a
//! line that is not three fields is named.

use std::collections::BTreeMap;
use std::path::Path;

use tests::environment;

/// One line of a list.
pub(crate) type Line = [String; 3];

/// All lists.
pub(crate) struct Lists {
    /// Commands that no oracle has: name, the server that has it, since when.
    pub(crate) rivals: Vec<Line>,
    /// Option words that no oracle has: command, words, the server that has them.
    pub(crate) options: Vec<Line>,
    /// States that no server can tell, by name.
    remarks: BTreeMap<String, Remark>,
    /// Commands of memcached: protocol and name, words, remark.
    pub(crate) memcached: Vec<Line>,
    /// What is otherwise than in Redis, on purpose: command, what, where it is explained.
    pub(crate) differences: Vec<Line>,
    /// Error texts that no oracle confirms: command, text, source.
    pub(crate) errors: Vec<Line>,
}

/// Why a command is not what its declaration promises.
pub(crate) struct Remark {
    pub(crate) is_refused: bool,
    pub(crate) reason: String,
}

impl Lists {
    /// Reads the lists of the repository.
    pub(crate) fn read() -> Self {
        let folder = environment::repository().join("docs/compatibility");
        let remarks = read(&folder.join("remarks.txt")).into_iter().map(|[name, state, reason]| {
            assert!(["refused", "not yet"].contains(&&*state), "remarks.txt: {name}: {state}");
            (name, Remark { is_refused: state == "refused", reason })
        });
        Self {
            rivals: read(&folder.join("rivals.txt")),
            options: read(&folder.join("options.txt")),
            remarks: remarks.collect(),
            memcached: read(&folder.join("memcached.txt")),
            differences: read(&folder.join("differences.txt")),
            errors: read(&folder.join("unverified-errors.txt")),
        }
    }

    /// The remark on a command, or on all subcommands of its container.
    pub(crate) fn remark(&self, command: &str) -> Option<&Remark> {
        let container = || command.split_once(' ').map(|(container, _)| format!("{container} *"));
        self.remarks.get(command).or_else(|| self.remarks.get(&container()?))
    }
}

fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.is_sorted(), "{} is not sorted", path.display());
    let fields = |line: &&str| {
        let fields: Vec<String> = line.split(" | ").map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|_| panic!("{}: {line:?}", path.display()))
    };
    lines.iter().map(fields).collect()
}
