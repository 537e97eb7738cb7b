//! A cluster of three primaries, each with a replica, one of which has a slot that another is to
//! get; and the states of a node's moves.
//!
//! Invariant: a place is a node's as the cluster was made, whatever roles it has since.

use std::thread;
use std::time::{Duration, Instant};

use proto::value::Value;

use crate::cluster::{Program, ask, create, id, owners};
use crate::server::{Server, eventually};

/// An agreed failover is over within this time, or was given up
/// (`cluster-manual-failover-timeout`).
const FAILOVER_PATIENCE: Duration = Duration::from_secs(8);

/// So often one is asked for.
const FAILOVERS_MAX: usize = 4;

/// Whether a node is a replica that its primary's stream comes to.
pub fn is_linked(node: &Server) -> bool {
    let mut client = node.client();
    client.info("role") == "slave" && client.info("master_link_status") == "up"
}

/// The cluster.
pub struct Shards {
    /// All nodes.
    pub nodes: Vec<Server>,
    /// The source and its replica, the target and its replica.
    pub places: [usize; 4],
}

impl Shards {
    /// With these further arguments for each node, and the source that has this slot.
    ///
    /// # Panics
    ///
    /// If the slot has no owner.
    pub fn start(program: Program, further: &[&str], slot: i64) -> Self {
        let nodes: Vec<Server> = (0..6).map(|_| program.node(further)).collect();
        create(&nodes.iter().collect::<Vec<_>>(), 1);
        let owners = owners(&nodes[0]);
        let place = |port: i64| {
            nodes.iter().position(|it| i64::from(it.port()) == port).expect("it is a node")
        };
        let is_owner = |it: &&(i64, i64, i64)| it.0 <= slot && slot <= it.1;
        let source = owners.iter().find(is_owner).expect("the slot has an owner").2;
        let target = owners.iter().find(|it| it.2 != source).expect("there are three").2;
        let (source, target) = (place(source), place(target));
        let replica = |primary: usize| {
            let port = nodes[primary].port().to_string();
            let follows = |node: &Server| {
                let mut client = node.client();
                client.info("role") == "slave" && client.info("master_port") == port
            };
            nodes.iter().position(follows).expect("each primary has a replica")
        };
        let places = [source, replica(source), target, replica(target)];
        Self { nodes, places }
    }

    /// The node of a place.
    pub fn of(&self, place: usize) -> &Server {
        &self.nodes[self.places[place]]
    }

    /// Has the replica of one place take the part of its primary at another.
    #[track_caller]
    pub fn fail_over(&self, primary: usize, replica: usize) {
        let (primary, replica) = (self.of(primary), self.of(replica));
        eventually("the primary knows the replica", || {
            is_linked(replica)
                && ask(primary, &format!("CLUSTER REPLICAS {}", id(primary))).contains(&id(replica))
        });
        let are_exchanged = || {
            replica.client().info("role") == "master" && primary.client().info("role") == "slave"
        };
        // An agreed failover is given up when it takes too long, as on a machine under load.
        for _ in 0..FAILOVERS_MAX {
            assert_eq!(ask(replica, "CLUSTER FAILOVER"), "OK");
            let given_up = Instant::now() + FAILOVER_PATIENCE;
            while Instant::now() < given_up {
                if are_exchanged() {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
            if replica.client().info("role") == "master" {
                return eventually("the primary follows", are_exchanged);
            }
        }
        panic!("the replica never took over");
    }

    /// Kills a primary, and waits until its replica is in its place.
    pub fn replace(&mut self, place: usize) {
        let primary = self.places[place];
        self.nodes[primary].kill();
        let replica = self.of(place + 1);
        eventually("the replica leads", || replica.client().info("role") == "master");
    }
}

/// The states of all moves of a node.
///
/// # Panics
///
/// If the reply is no list of moves.
pub fn move_states(node: &Server) -> Vec<String> {
    let Value::Array(jobs) = node.client().call(&["CLUSTER", "GETSLOTMIGRATIONS"]) else {
        panic!("a list of moves")
    };
    let state = |job: &Value| {
        let Value::Array(pairs) = job else { panic!("a move") };
        let place = pairs.iter().position(|it| it.as_bytes() == Some(b"state"));
        let state = &pairs[place.expect("a move has a state") + 1];
        String::from_utf8_lossy(state.as_bytes().expect("a text")).into_owned()
    };
    jobs.iter().map(state).collect()
}
