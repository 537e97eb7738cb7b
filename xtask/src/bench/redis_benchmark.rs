//! Load by `redis-benchmark`, which everyone knows. Invariant: the CPU time is the server's, from
//! the kernel's scheduler, around a run whose number of requests is known.

use std::path::PathBuf;

use super::peer::{Running, installed};
use crate::shell;

/// The generator on its cores.
pub(super) struct Classic {
    program: PathBuf,
    cores: String,
}

impl Classic {
    /// The generator runs on these cores.
    pub(super) fn on(cores: String) -> Result<Self, String> {
        Ok(Self { program: installed("redis_benchmark")?, cores })
    }

    /// The command line, as a record shows it.
    pub(super) fn command(&self, requests: u64, words: &str) -> String {
        format!("taskset -c {} redis-benchmark -p PORT {}", self.cores, flags(requests, words))
    }

    /// Microseconds of the server's CPU time per request.
    pub(super) fn cost(&self, server: &Running, requests: u64, words: &str) -> Result<f64, String> {
        let mut command = shell::command("taskset", &["-c", &self.cores]);
        command.arg(&self.program).args(["-p", &server.port.to_string()]);
        command.args(flags(requests, words).split_whitespace());
        let watch = server.watch();
        let said = shell::output(&mut command)?;
        let used = server.used(&watch)?;
        if !said.contains("requests per second") {
            return Err(format!("`{}` says {said}", self.command(requests, words)));
        }
        Ok((used.user + used.system).as_secs_f64() * 1e6 / requests as f64)
    }
}

fn flags(requests: u64, words: &str) -> String {
    format!("-q -c 50 -P 16 -n {requests} {words}")
}
