//! Groups of servers that follow one another, Apus and the real ones.
//! Invariant: whatever a test waits for here comes in time, or the test says what did not.

use rustix::process::Signal;

use crate::client::Client;
use crate::render::render;
use crate::server::{Oracle, Server, eventually};

/// What a server of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The server under test.
    Apus,
    /// A real one.
    Genuine(Oracle),
}

impl NodeKind {
    /// Starts a node that answers DEBUG and saves nothing by itself, with these further arguments.
    pub fn start(self, arguments: &[&str]) -> Server {
        const COMMON: [&str; 6] =
            ["--enable-debug-command", "yes", "--save", "", "--repl-diskless-sync-delay", "0"];
        // Redis 6.2 answers DEBUG in any case, and does not know the directive.
        let known = if self == Self::Genuine(Oracle::Redis62) { &COMMON[2..] } else { &COMMON };
        let arguments = [known, arguments].concat();
        match self {
            Self::Apus => Server::start(&arguments),
            Self::Genuine(oracle) => oracle.start(&arguments),
        }
    }
}

/// Has a server follow the one on this port.
#[track_caller]
pub fn follow(replica: &Server, port: u16) {
    let reply = replica.client().call(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
    assert!(render(&reply).starts_with("OK"), "{reply:?}");
}

/// Has a server be a primary.
#[track_caller]
pub fn promote(replica: &Server) {
    assert_eq!(render(&replica.client().call(&["REPLICAOF", "NO", "ONE"])), "OK");
}

/// Waits until a replica has all that the primary has.
#[track_caller]
pub fn await_replica(primary: &Server, replica: &Server) {
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    eventually("the replica has everything", || has_all(&mut ours, &mut theirs));
}

/// Whether a replica stands where the primary stands.
pub fn has_all(primary: &mut Client, replica: &mut Client) -> bool {
    replica.info("role") == "slave"
        && replica.info("master_link_status") == "up"
        && replica.info("slave_repl_offset") == primary.info("master_repl_offset")
}

/// Cuts the link between two servers, and lets the replica come back only when `write` has run,
/// which says more than the backlog keeps: the replica needs all data anew.
pub fn outrun(upstream: &Server, replica: &Server, write: impl FnOnce()) {
    replica.signal(Signal::STOP);
    upstream.client().call(&["CLIENT", "KILL", "TYPE", "REPLICA"]);
    write();
    replica.signal(Signal::CONT);
}
