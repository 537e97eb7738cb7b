//! How long there is no primary that takes writes when Sentinels fail a group over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::super::figure::{Figure, Table};
use super::super::super::goal::{Bound, Goal};
use super::super::super::peer::{Peer, REDIS_82, Running, Workers, free_port, installed};
use super::super::super::pipe;
use super::super::{Bench, Finding};
use super::{follow, names, start, two, until, until_equal};
use crate::shell;

/// Milliseconds of silence until a Sentinel takes a server to be down.
const DOWN_AFTER: u32 = 1000;

pub(in super::super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let mut figure = Figure::new("time without a primary that takes writes", "s", 2);
    bench.rounds(2, |_, index| {
        figure.values[index].push(fail_over(bench, peers[index])?.as_secs_f64());
        Ok(())
    })?;
    let table = Table { names: names(peers), figures: vec![figure] };
    let ratio = table.ratio(&table.figures[0].name, REDIS_82);
    let what = "failover by Sentinel, time without a primary, times Redis 8.2";
    finding.goals.push(Goal::new(what, Bound::AtMost(1.2), ratio));
    finding.tables.push(table);
    finding.method = format!(
        "A primary with two replicas, all of one program, under three Sentinels of Redis 7.0 with \
         down-after-milliseconds {DOWN_AFTER}; the primary is killed with SIGKILL, and a client \
         asks a Sentinel for the primary and SETs there until it succeeds."
    );
    Ok(())
}

/// A Sentinel, which ends when dropped.
struct Sentinel {
    child: Child,
    port: u16,
}

impl Sentinel {
    fn start(program: &Path, primary: u16) -> Result<Self, String> {
        let port = free_port()?;
        let folder: PathBuf = shell::target().join("bench").join(format!("sentinel-{port}"));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let file = folder.join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor group 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds group {DOWN_AFTER}\n",
            folder.display()
        );
        fs::write(&file, text).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg(&file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { child, port })
    }

    /// Whether the Sentinel knows so many Sentinels and replicas beside itself and the primary.
    fn knows(&self, sentinels: usize, replicas: usize) -> Result<bool, String> {
        let Ok(text) = pipe::text(self.port, &["INFO", "sentinel"]) else { return Ok(false) };
        let wanted = format!("slaves={replicas},sentinels={}", sentinels + 1);
        Ok(text.contains(&wanted))
    }

    /// Where the Sentinel says that the primary is.
    fn primary(&self) -> Result<u16, String> {
        let text = pipe::text(self.port, &["INFO", "sentinel"])?;
        let port = text.split("address=127.0.0.1:").nth(1).and_then(|rest| rest.split(',').next());
        port.and_then(|port| port.parse().ok()).ok_or_else(|| format!("no primary: {text}"))
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // The Sentinel may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fail_over(bench: &Bench<'_>, peer: &Peer) -> Result<Duration, String> {
    let cores = bench.cores.all();
    let start_one = || start(peer, &cores, Workers::Default);
    let primary = start_one()?;
    let replicas: Vec<Running> = (0..2)
        .map(|_| {
            let replica = start_one()?;
            follow(&replica, &primary)?;
            until_equal(&primary, &replica)?;
            Ok(replica)
        })
        .collect::<Result<_, String>>()?;
    let program = installed("redis70")?;
    let sentinels: Vec<Sentinel> =
        (0..3).map(|_| Sentinel::start(&program, primary.port)).collect::<Result<_, String>>()?;
    until("the Sentinels know each other", || {
        sentinels.iter().try_fold(true, |all, one| Ok(all && one.knows(2, replicas.len())?))
    })?;
    drop(primary);
    let began = Instant::now();
    until("a primary takes writes", || {
        let Ok(stream) = pipe::connect(sentinels[0].primary()?) else { return Ok(false) };
        Ok(pipe::line(&stream, &["SET", "key", "value"]).is_ok_and(|reply| reply == "+OK"))
    })?;
    Ok(began.elapsed())
}
