//! Replication beside Redis 8.2: a full sync under load, the stream, its buffers, a failover.
//! Invariant: primary and replica of a pair are the same program with the same directives.

mod buffers;
mod failover;
mod full_sync;
mod stream;

use std::time::{Duration, Instant};

use super::super::peer::{Peer, REDIS_82, Running, Workers};
use super::super::pipe;
use super::Bench;

pub(super) use buffers::measure as buffers;
pub(super) use failover::measure as failover;
pub(super) use full_sync::measure as full_sync;
pub(super) use stream::measure as stream;

/// A sync begins when it is asked for, and a slow replica is not closed.
const FLAGS: &[&str] = &[
    "--repl-diskless-sync-delay",
    "0",
    "--client-output-buffer-limit",
    "replica 0 0 0",
    "--repl-backlog-size",
    "1gb",
];

/// Longer than any full sync or catching up takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ours and Redis 8.2.
fn two<'a>(bench: &'a Bench<'_>) -> Result<[&'a Peer; 2], String> {
    Ok([bench.ours(), bench.peer(REDIS_82)?])
}

fn names(peers: [&Peer; 2]) -> Vec<String> {
    peers.map(|peer| peer.name.to_owned()).to_vec()
}

fn start(peer: &Peer, cores: &str, workers: Workers) -> Result<Running, String> {
    peer.start(cores, workers, FLAGS)
}

/// Makes one server the replica of another.
fn follow(replica: &Running, primary: &Running) -> Result<(), String> {
    pipe::order(replica.port, &["REPLICAOF", "127.0.0.1", &primary.port.to_string()])
}

/// How long it takes until something is so, looked at each millisecond.
fn until(
    what: &str,
    mut condition: impl FnMut() -> Result<bool, String>,
) -> Result<Duration, String> {
    let began = Instant::now();
    while !condition()? {
        if began.elapsed() > PATIENCE {
            return Err(format!("never: {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed())
}

/// How long it takes until the replica has all that the primary has.
fn until_equal(primary: &Running, replica: &Running) -> Result<Duration, String> {
    until("the replica has everything", || {
        let is_up = replica.info("replication", "master_link_status")? == "up";
        let offset = |server: &Running, field| server.info("replication", field);
        let (above, below) =
            (offset(primary, "master_repl_offset")?, offset(replica, "slave_repl_offset")?);
        Ok(is_up && above == below)
    })
}
