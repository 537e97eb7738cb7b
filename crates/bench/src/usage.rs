//! What a run costs: the CPU time of the server's processes and of this one, and the server's
//! memory. Invariant: a figure is given only for a process that is known to be the server and that
//! lived through the whole run.

mod identify;
mod process;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use identify::server_name;

use crate::options::Options;
use crate::outcome::ServerUsage;
use process::Process;

/// A look at the clocks of all processes that take part, when a run begins.
#[derive(Debug)]
pub struct Watch {
    /// Empty where the server is not known to run on this machine.
    servers: Vec<Process>,
    generator: Duration,
}

impl Watch {
    /// Begins to watch the server: `server_process` where the caller started it, else the processes
    /// that the server names itself, each believed only if it is on this machine (`identify`).
    /// Asking takes a connection of its own, gone before this returns.
    #[must_use]
    pub fn begin(options: &Options, server_process: Option<u32>) -> Watch {
        match server_process {
            Some(process) => Watch::of(&[process]),
            None => Watch::of(&identify::server_processes(options)),
        }
    }

    /// Begins to watch these processes as one server, such as the nodes of a cluster.
    #[must_use]
    pub fn of(processes: &[u32]) -> Watch {
        let servers: Option<Vec<Process>> =
            processes.iter().map(|process| Process::find(*process)).collect();
        Watch { servers: servers.unwrap_or_default(), generator: own_cpu() }
    }

    /// What the server (all its processes together, under the first one's id) and this process
    /// have used since.
    #[must_use]
    pub fn end(&self) -> (Option<ServerUsage>, Duration) {
        let generator = own_cpu().saturating_sub(self.generator);
        let used: Option<Vec<ServerUsage>> = self.servers.iter().map(Process::used).collect();
        let server = used.unwrap_or_default().into_iter().reduce(|sum, node| ServerUsage {
            pid: sum.pid,
            user: sum.user + node.user,
            system: sum.system + node.system,
            rss: sum.rss + node.rss,
        });
        (server, generator)
    }
}

/// This machine in a few words: its system, its processor and how many cores this process may use.
pub(crate) fn machine() -> String {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let release = line("/proc/sys/kernel/osrelease");
    let processors = line("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = format!("{cores} core{}", if cores == 1 { "" } else { "s" });
    let system = format!("Linux {}", release.trim());
    [Some(system), model, Some(cores)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// CPU time of all threads of this process, ended ones too.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
