//! The share of the CPU that control groups allow the process, version 1 and 2.
//!
//! Invariant: what cannot be read limits nothing; of several limits on the way up the smallest
//! counts.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where the two files of a group's limit are said to lie, by version.
enum Files {
    /// `cpu.max` holds the quota and the period.
    Second,
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us` hold one each.
    First,
}

/// How many whole cores the groups of this process may keep busy, at least one; `None` without a
/// limit. `root` is `/` but for tests.
pub(super) fn cores(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| limit_of_line(root, line));
    limits.min_by(f64::total_cmp).map(|cores| (cores as usize).max(1))
}

/// The limit that one line of `/proc/self/cgroup` leads to: `hierarchy:controllers:group`.
fn limit_of_line(root: &Path, line: &str) -> Option<f64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let mounts = root.join("sys/fs/cgroup");
    let (mount, files) = if controllers.is_empty() {
        // Beside version 1 the second one is mounted within.
        let hybrid = mounts.join("unified");
        (if hybrid.is_dir() { hybrid } else { mounts }, Files::Second)
    } else if controllers.split(',').any(|name| name == "cpu") {
        let together = mounts.join(controllers);
        (if together.is_dir() { together } else { mounts.join("cpu") }, Files::First)
    } else {
        return None;
    };
    let limits =
        with_ancestors(&mount, group).into_iter().filter_map(|folder| files.limit(&folder));
    limits.min_by(f64::total_cmp)
}

/// The folder of a group and those above it. In a container the mount may be the group itself while
/// its name is still that of outside: then only the mount is there, which is the last.
fn with_ancestors(mount: &Path, group: &str) -> Vec<PathBuf> {
    let names: PathBuf = Path::new(group)
        .components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .collect();
    names.ancestors().map(|part| mount.join(part)).collect()
}

impl Files {
    /// How many cores a group may keep busy.
    fn limit(&self, folder: &Path) -> Option<f64> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let (quota, period) = match self {
            Self::Second => {
                let text = read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
            Self::First => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        };
        // `max` and -1 say that there is no limit.
        let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::cores;

    /// What `cores` says of a tree with these files.
    fn of(files: &[(&str, &str)]) -> Option<usize> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        cores(root.path())
    }

    const SELF: &str = "proc/self/cgroup";

    #[test]
    fn version_two() {
        let group = (SELF, "0::/a/b\n");
        let own = "sys/fs/cgroup/a/b/cpu.max";
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[group]), None);
        assert_eq!(of(&[group, (own, "max 100000\n")]), None);
        assert_eq!(of(&[group, (own, "300000 100000\n")]), Some(3));
        assert_eq!(of(&[group, (own, "350000 100000\n")]), Some(3), "what is whole");
        assert_eq!(of(&[group, (own, "5000 100000\n")]), Some(1), "never none");
        assert_eq!(of(&[group, (own, "x\n")]), None);
        let above = ("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
        assert_eq!(of(&[group, (own, "max 100000\n"), above]), Some(2));
        assert_eq!(of(&[group, (own, "400000 100000\n"), above]), Some(2));
        let mount = ("sys/fs/cgroup/cpu.max", "200000 100000\n");
        assert_eq!(of(&[(SELF, "0::/../outside\n"), mount]), Some(2), "in a container");
        assert_eq!(of(&[(SELF, "0::/\n"), mount]), Some(2));
    }

    #[test]
    fn version_one() {
        let group = (SELF, "4:memory:/m\n3:cpu,cpuacct:/a\n1:name=systemd:/s\n");
        let quota = "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us";
        let period = ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000\n");
        assert_eq!(of(&[group, (quota, "-1\n"), period]), None);
        assert_eq!(of(&[group, (quota, "200000\n"), period]), Some(4));
        assert_eq!(of(&[group, (quota, "200000\n")]), None, "no period");
        let alone = [
            (SELF, "3:cpu:/a\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(of(&alone), Some(2));
        let container = [
            (SELF, "3:cpu,cpuacct:/docker/0123\n0::/docker/0123\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(of(&container), Some(1));
    }

    #[test]
    fn the_least_quota_of_both_versions_counts() {
        let both = [
            (SELF, "3:cpu:/a\n0::/b\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/unified/b/cpu.max", "200000 100000\n"),
        ];
        assert_eq!(of(&both), Some(2));
    }
}
