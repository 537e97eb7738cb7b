//! What a record must say of the machine and of the code. Invariant: nothing here is assumed, all
//! of it is read.

use super::build::Build;
use super::process::{field, read};
use crate::shell;

/// Where and when, and which code.
pub(super) struct Machine {
    pub(super) date: String,
    pub(super) commit: String,
    /// Which build of that code.
    pub(super) build: &'static str,
    pub(super) compiler: String,
    pub(super) kernel: String,
    pub(super) processor: String,
    pub(super) cores: String,
    pub(super) memory: String,
    pub(super) huge_pages: String,
    /// What the compiler is told beside the release profile.
    pub(super) flags: String,
}

impl Machine {
    pub(super) fn read(build: Build) -> Result<Self, String> {
        let processors = read("/proc/cpuinfo")?;
        let model = processors.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown");
        let memory = read("/proc/meminfo")?;
        let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        Ok(Self {
            date: line(&["date", "-u", "+%Y-%m-%d"])?,
            commit: commit()?,
            build: build.name(),
            compiler: line(&["rustc", "--version"])?,
            kernel: line(&["uname", "-srm"])?,
            processor: model.to_owned(),
            cores: line(&["nproc"])?,
            memory: format!("{} kB", field(&memory, "MemTotal:").unwrap_or("unknown")),
            huge_pages: huge_pages.map_or("unknown".to_owned(), |text| text.trim().to_owned()),
            flags: std::env::var("RUSTFLAGS").unwrap_or_else(|_| "none".to_owned()),
        })
    }

    /// All of it with its names.
    pub(super) fn facts(&self) -> [(&'static str, &str); 10] {
        [
            ("date (UTC)", &self.date),
            ("commit of Apus", &self.commit),
            ("build of Apus", self.build),
            ("compiler", &self.compiler),
            ("kernel", &self.kernel),
            ("processor", &self.processor),
            ("cores", &self.cores),
            ("memory", &self.memory),
            ("transparent huge pages", &self.huge_pages),
            ("RUSTFLAGS", &self.flags),
        ]
    }
}

/// The load averages of the last 1, 5 and 15 minutes.
pub(super) fn load_averages() -> Result<String, String> {
    let text = read("/proc/loadavg")?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// The commit, and whether the product's code differs from it.
fn commit() -> Result<String, String> {
    let commit = line(&["git", "rev-parse", "--short=12", "HEAD"])?;
    let product = ["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock", ".cargo"];
    let changes = shell::output(&mut shell::command("git", &product))?;
    Ok(if changes.is_empty() { commit } else { format!("{commit} with uncommitted changes") })
}

fn line(words: &[&str]) -> Result<String, String> {
    let text = shell::output(&mut shell::command(words[0], &words[1..]))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
