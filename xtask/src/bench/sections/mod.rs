//! What can be measured, a file for each kind, and what they have in common. Invariant: servers are
//! loaded one at a time, and from round to round another one goes first.

mod budget;
mod defaults;
mod elements;
mod encrypted;
mod files;
mod hits;
mod hotkey;
mod idle;
mod latency;
mod loads;
mod logs;
mod memcached;
mod memory;
mod prefetch;
mod processes;
mod programs;
mod replication;
mod snapshots;
mod sorted_set;
mod stalls;
mod sweep;
mod threads;

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::cores::Cores;
use super::figure::Table;
use super::generator::{Generator, Report};
use super::goal::Goal;
use super::peer::{Peer, Running, Workers};
use super::plan::Plan;

/// A part of the record that can be measured by itself.
pub(super) struct Section {
    /// As the command line calls it.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether its table is the four peers' and belongs into README.
    pub(super) is_summed_up: bool,
    pub(super) measure: fn(&Bench<'_>, &mut Finding) -> Result<(), String>,
}

impl Section {
    /// Whether README shows a table of it.
    pub(super) fn is_quoted(&self) -> bool {
        self.is_summed_up || self.name == SEVERAL
    }
}

/// A folder of a file system in memory.
const IN_MEMORY: &str = "/dev/shm/apus-bench";

/// The section whose table README shows by itself.
pub(super) const SEVERAL: &str = "processes";

/// All sections in the order of the record.
pub(super) static ALL: &[Section] = &[
    Section {
        name: "loads",
        title: "GET and SET of 256 bytes, one server core",
        is_summed_up: true,
        measure: loads::measure,
    },
    Section {
        name: SEVERAL,
        title: "Several processes on the same cores",
        is_summed_up: false,
        measure: processes::measure,
    },
    Section {
        name: "latency",
        title: "Latency under an open loop",
        is_summed_up: false,
        measure: latency::measure,
    },
    Section { name: "keys", title: "Memory per key", is_summed_up: true, measure: memory::keys },
    Section {
        name: "populate",
        title: "DEBUG POPULATE",
        is_summed_up: true,
        measure: memory::populate,
    },
    Section {
        name: "threads",
        title: "Two threads against one, without sockets",
        is_summed_up: false,
        measure: threads::measure,
    },
    Section {
        name: "hotkey",
        title: "One key against uniform keys, two workers",
        is_summed_up: false,
        measure: hotkey::measure,
    },
    Section {
        name: "connections",
        title: "Memory of 10,000 connections",
        is_summed_up: true,
        measure: memory::connections,
    },
    Section {
        name: "idle",
        title: "A server that nobody asks anything",
        is_summed_up: true,
        measure: idle::measure,
    },
    Section {
        name: "prefetch",
        title: "Prefetch over pipelined batches",
        is_summed_up: false,
        measure: prefetch::measure,
    },
    Section {
        name: "defaults",
        title: "The default list of redis-benchmark",
        is_summed_up: false,
        measure: defaults::measure,
    },
    Section {
        name: "sortedset",
        title: "A sorted set of a million members",
        is_summed_up: true,
        measure: sorted_set::measure,
    },
    Section {
        name: "elements",
        title: "Memory of elements",
        is_summed_up: true,
        measure: elements::measure,
    },
    Section {
        name: "scripts",
        title: "A script of one GET",
        is_summed_up: false,
        measure: programs::scripts,
    },
    Section {
        name: "transactions",
        title: "Transactions of ten SETs",
        is_summed_up: true,
        measure: programs::transactions,
    },
    Section {
        name: "messages",
        title: "Messages to a hundred subscribers",
        is_summed_up: true,
        measure: programs::messages,
    },
    Section {
        name: "stalls",
        title: "GET beside work on a million members",
        is_summed_up: false,
        measure: stalls::latency,
    },
    Section {
        name: "sweep",
        title: "What others notice of each command on big data",
        is_summed_up: false,
        measure: sweep::measure,
    },
    Section {
        name: "holds",
        title: "Locks of ten million members",
        is_summed_up: false,
        measure: stalls::holds,
    },
    Section {
        name: "snapshots",
        title: "Snapshots beside a full load of writes",
        is_summed_up: false,
        measure: snapshots::memory,
    },
    Section {
        name: "saving",
        title: "A snapshot on the one core that serves",
        is_summed_up: false,
        measure: snapshots::latency,
    },
    Section {
        name: "cuts",
        title: "The pause that begins a snapshot",
        is_summed_up: false,
        measure: snapshots::cuts,
    },
    Section {
        name: "logs",
        title: "SET with the append-only file",
        is_summed_up: false,
        measure: logs::measure,
    },
    Section {
        name: "fullsync",
        title: "A full sync of two gigabytes under load",
        is_summed_up: false,
        measure: replication::full_sync,
    },
    Section {
        name: "stream",
        title: "SET with a replica attached",
        is_summed_up: false,
        measure: replication::stream,
    },
    Section {
        name: "streambuffers",
        title: "Memory of the stream for replicas that do not read",
        is_summed_up: false,
        measure: replication::buffers,
    },
    Section {
        name: "failover",
        title: "A failover by Sentinels",
        is_summed_up: false,
        measure: replication::failover,
    },
    Section {
        name: "files",
        title: "Saving and loading two gigabytes",
        is_summed_up: false,
        measure: files::measure,
    },
    Section {
        name: "budget",
        title: "A budget of a gigabyte and twice as much",
        is_summed_up: false,
        measure: budget::memory,
    },
    Section {
        name: "evictions",
        title: "SETs that evict",
        is_summed_up: false,
        measure: budget::cost,
    },
    Section {
        name: "hits",
        title: "Hit ratios at the same resident memory",
        is_summed_up: false,
        measure: hits::measure,
    },
    Section {
        name: "tls",
        title: "Encrypted connections",
        is_summed_up: false,
        measure: encrypted::measure,
    },
    Section {
        name: "memcached",
        title: "As a memcached, one server core",
        is_summed_up: false,
        measure: memcached::measure,
    },
];

/// What every section is given.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) peers: &'a [Peer],
    pub(super) cores: &'a Cores,
}

/// What a section has found.
#[derive(Default)]
pub(super) struct Finding {
    /// How the figures were measured: lines of Markdown.
    pub(super) method: String,
    pub(super) tables: Vec<Table>,
    pub(super) goals: Vec<Goal>,
    /// Each form of command once.
    pub(super) commands: Vec<String>,
    /// What the generator warned of, and how often.
    pub(super) warnings: Vec<(String, usize)>,
    /// Every report as it came.
    pub(super) runs: Vec<Value>,
}

/// Servers give back buffers and pages some seconds later.
const SETTLE: Duration = Duration::from_secs(5);

impl Bench<'_> {
    fn generator(&self, cores: String) -> Generator {
        Generator { program: self.ours().program.clone(), cores }
    }

    fn ours(&self) -> &Peer {
        &self.peers[0]
    }

    fn peer(&self, name: &str) -> Result<&Peer, String> {
        let found = self.peers.iter().find(|peer| peer.name == name);
        found.ok_or_else(|| format!("there is no {name}"))
    }

    /// The peers' names.
    fn names(&self) -> Vec<String> {
        self.peers.iter().map(|peer| peer.name.to_owned()).collect()
    }

    /// All peers on one core, ours with one worker.
    fn start_all(&self) -> Result<Vec<Running>, String> {
        let core = self.cores.server();
        let all = self.peers.iter();
        all.map(|peer| peer.start(&core, Workers::Exactly(1), &[])).collect()
    }

    /// Does something with each of so many, round by round.
    fn rounds(
        &self,
        count: usize,
        mut each: impl FnMut(usize, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        for round in 0..self.plan.rounds {
            println!("  round {} of {}", round + 1, self.plan.rounds);
            for place in 0..count {
                each(round, (round + place) % count)?;
            }
        }
        Ok(())
    }

    fn settle(&self) {
        sleep(SETTLE.mul_f64(self.plan.scale));
    }

    /// Seconds as the generator takes them.
    fn seconds(&self, seconds: u64) -> u64 {
        self.plan.scaled(seconds)
    }
}

impl Finding {
    /// Keeps what a run has reported and warned of.
    fn keep(&mut self, round: usize, server: &str, load: &str, report: &Report, warned: &[String]) {
        self.keep_warnings(server, load, warned);
        self.remember(&report.command);
        self.runs.push(json!({
            "round": round + 1,
            "server": server,
            "load": load,
            "command": report.command,
            "report": report.raw,
        }));
    }

    /// Counts warnings of one kind.
    fn keep_warnings(&mut self, server: &str, load: &str, warned: &[String]) {
        for warning in warned {
            // Figures differ from round to round; the words beside them do not.
            let head = warning.split([':', '(']).next().unwrap_or(warning);
            let words = head.split_whitespace().filter(|word| word.parse::<f64>().is_err());
            let text = format!("{server}, {load}: {}", words.collect::<Vec<_>>().join(" "));
            match self.warnings.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => self.warnings.push((text, 1)),
            }
        }
    }

    /// Tells a command, once.
    fn remember(&mut self, command: &str) {
        if !self.commands.iter().any(|known| known == command) {
            self.commands.push(command.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ALL, Finding};
    use crate::bench::generator::Report;

    #[test]
    fn warnings_of_one_kind_are_counted_whatever_their_figures() {
        let mut finding = Finding::default();
        let report = Report { command: "apus bench".to_owned(), raw: json!({}) };
        for percent in ["95%", "97%"] {
            let warned = [format!("the generator was the limit: busy for {percent}")];
            finding.keep(0, "Apus", "GET", &report, &warned);
        }
        let expected = ("Apus, GET: the generator was the limit".to_owned(), 2);
        assert_eq!(finding.warnings, [expected]);
        assert_eq!((finding.commands.len(), finding.runs.len()), (1, 2));
    }

    #[test]
    fn a_section_has_one_name() {
        for section in ALL {
            let same = ALL.iter().filter(|other| other.name == section.name).count();
            assert_eq!(same, 1, "{}", section.name);
        }
    }
}
