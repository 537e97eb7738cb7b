//! What the kernel says of processes and of the machine. Invariant: a number is the kernel's own;
//! nothing is asked of the server that is measured.

use std::fs;

/// How often the threads of a process went to sleep, and so were woken: voluntary switches.
pub(super) fn wakeups(pid: u32) -> Result<f64, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut sum = 0;
    for task in tasks.flatten() {
        // A thread may end while they are looked at.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let count = field(&status, "voluntary_ctxt_switches:").and_then(|word| word.parse().ok());
        sum += count.unwrap_or(0_u64);
    }
    Ok(sum as f64)
}

/// Seconds that all cores together were idle while a request to a disk was under way.
pub(super) fn iowait_seconds() -> Result<f64, String> {
    /// The unit in which the kernel tells it, the same on all of today's Linux systems.
    const TICK_SECONDS: f64 = 0.01;
    let text = read("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().nth(5).and_then(|word| word.parse::<f64>().ok());
    ticks.map(|ticks| ticks * TICK_SECONDS).ok_or_else(|| "/proc/stat has no iowait".to_owned())
}

/// The first word after a label at the beginning of a line.
pub(super) fn field<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()
}

/// A file of the kernel's.
pub(super) fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{field, iowait_seconds, wakeups};

    #[test]
    fn a_sleep_is_a_wakeup() {
        let pid = std::process::id();
        let before = wakeups(pid).expect("this process is alive");
        std::thread::sleep(Duration::from_millis(2));
        assert!(wakeups(pid).expect("this process is alive") >= before + 1.0);
        assert!(iowait_seconds().expect("the kernel tells it") >= 0.0);
    }

    #[test]
    fn a_field_begins_its_line() {
        let text = "xRss: 1 kB\nRss:     24 kB\n";
        assert_eq!(field(text, "Rss:"), Some("24"));
        assert_eq!(field(text, "Pss:"), None);
    }
}
