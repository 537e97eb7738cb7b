//! How much memory the machine has, and how much of it its cgroup gives us.
//!
//! Invariant: a limit that cannot be read is no limit.

use std::fs::{self, File};
use std::io::Read;
use std::sync::LazyLock;

/// Version 1 says "no limit" with a number that no machine has.
const UNLIMITED: u64 = 1 << 62;

/// The memory that the machine had when that was first asked.
pub fn of_machine() -> u64 {
    static MEMORY: LazyLock<u64> = LazyLock::new(|| {
        let system = rustix::system::sysinfo();
        (system.totalram as u64).saturating_mul(u64::from(system.mem_unit))
    });
    *MEMORY
}

/// The limit of our cgroup, version 1 or 2.
pub fn cgroup_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&groups, |path| fs::read_to_string(path).ok())
}

/// The strictest limit on the way from our group up to the root. Inside a container the path may
/// not exist as it is told; its root does.
fn limit_of(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut strictest = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            let limit = read(&format!("{root}{path}/{file}"));
            let limit = limit.and_then(|text| text.trim().parse().ok());
            let limit = limit.filter(|&limit: &u64| limit < UNLIMITED);
            strictest = [strictest, limit].into_iter().flatten().min();
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    strictest
}

/// Bytes as people say them, as INFO's `_human` fields do.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    format!("{:.2}{}", bytes as f64 / 1024_f64.powi(power as i32), UNITS[power - 1])
}

/// The resident set in bytes.
#[derive(Clone, Copy, Default)]
pub struct ResidentSet {
    /// The whole resident set.
    pub all: usize,
    /// What of it is shared with files.
    pub of_files: usize,
}

/// The resident set; nothing where the system does not tell.
pub fn resident() -> ResidentSet {
    // Not as a whole file, whose size would be asked for first.
    let mut buffer = [0; 128];
    let read = File::open("/proc/self/statm").and_then(|mut file| file.read(&mut buffer));
    let text = str::from_utf8(&buffer[..read.unwrap_or(0)]).unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|field| field.parse().unwrap_or(0));
    let mut next = || pages.next().unwrap_or(0) * rustix::param::page_size();
    ResidentSet { all: next(), of_files: next() }
}

#[cfg(test)]
mod tests {
    use super::{human, limit_of};

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        limit_of(groups, read)
    }

    #[test]
    fn the_strictest_group_decides() {
        let v2 = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/memory.max", "2000\n"),
        ];
        assert_eq!(limit("0::/a/b\n", &v2), Some(1000));
        assert_eq!(limit("0::/elsewhere\n", &v2), Some(2000));
        let v1 = [("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n")];
        assert_eq!(limit("4:cpu:/x\n5:memory:/x\n", &v1), Some(4096));
        let none = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(limit("5:memory:/\n", &none), None);
        assert_eq!(limit("", &[]), None);
    }

    #[test]
    fn bytes_are_said_as_redis_says_them() {
        for (bytes, expected) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1 << 20, "1.00M"), (3 << 29, "1.50G")]
        {
            assert_eq!(human(bytes), expected);
        }
    }
}
