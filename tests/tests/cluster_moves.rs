//! Clients that are in the middle of something when a hash slot leaves its node.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, address, ask, ask_by, create, id, owners};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);

/// The slot of `foo`.
pub(crate) const SLOT: i64 = 12182;

/// A cluster of Apus, where the slot of `foo` is the first node's or another's.
pub(crate) struct Moving {
    pub(crate) nodes: [Server; 3],
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Moving {
    pub(crate) fn start(programs: [Program; 3]) -> Self {
        let nodes = programs.map(|program| program.node(&[]));
        create(&nodes.each_ref(), 0);
        Self::of(nodes)
    }

    /// Of nodes that are a cluster.
    pub(crate) fn of(nodes: [Server; 3]) -> Self {
        let owner = owners(&nodes[0]).into_iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
        let from = nodes.iter().position(|node| i64::from(node.port()) == owner.2).unwrap();
        Self { nodes, from, to: (from + 1) % 3 }
    }

    pub(crate) fn from(&self) -> &Server {
        &self.nodes[self.from]
    }

    /// Gives the slot away, with no key in it.
    pub(crate) fn finish(&self) {
        let to = &self.nodes[self.to];
        let line = format!("CLUSTER SETSLOT {SLOT} NODE {}", id(to));
        assert_eq!(ask(to, &format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", id(self.from()))), "OK");
        assert_eq!(ask(to, &line), "OK");
        assert_eq!(ask(self.from(), &line), "OK");
    }

    pub(crate) fn moved(&self) -> String {
        format!("(error) MOVED {SLOT} {}", address(&self.nodes[self.to]))
    }
}

/// A client that waits for a key is sent after its slot.
#[test]
fn clients_that_wait_for_keys_are_sent_to_the_new_owner() {
    let moving = Moving::start([APUS, APUS, REDIS82]);
    let mut waiting = [moving.from().client(), moving.from().client()];
    waiting[0].send(&["BLPOP", "foo", "0"]);
    waiting[1].send(&["XREAD", "BLOCK", "0", "STREAMS", "{foo}s", "$"]);
    eventually("both wait", || moving.from().client().info("blocked_clients") == "2");
    moving.finish();
    for client in &mut waiting {
        assert_eq!(tests::render::render(&client.receive()), moving.moved());
    }
    assert_eq!(moving.from().client().info("blocked_clients"), "0");
}

/// A transaction whose slot has left does nothing, and the connection goes on.
#[test]
fn a_transaction_of_a_slot_that_has_left_is_sent_after_it() {
    let moving = Moving::start([APUS, APUS, APUS]);
    let mut client = moving.from().client();
    for line in ["MULTI", "SET foo 1"] {
        ask_by(&mut client, line);
    }
    moving.finish();
    assert_eq!(ask_by(&mut client, "EXEC"), moving.moved());
    assert_eq!(ask_by(&mut client, "EXEC"), "(error) ERR EXEC without MULTI");
    assert_eq!(ask(&moving.nodes[moving.to], "EXISTS foo"), "(integer) 0");
    // What is queued behind the move fails at once, and so does its EXEC.
    assert_eq!(ask_by(&mut client, "MULTI"), "OK");
    assert_eq!(ask_by(&mut client, "SET foo 1"), moving.moved());
    let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(ask_by(&mut client, "EXEC"), aborted);
}

/// Scripts run where their keys are, and reach no key of another node.
#[test]
fn scripts_are_sent_after_their_keys() {
    let moving = Moving::start([APUS, APUS, APUS]);
    let mut client = moving.from().client();
    let script = "EVAL \"return redis.call('SET', KEYS[1], 'x')\" 1 foo";
    moving.finish();
    assert_eq!(ask_by(&mut client, script), moving.moved());
    assert_eq!(ask(&moving.nodes[moving.to], script), "OK");
    let hidden = ask_by(&mut client, "EVAL \"return redis.call('GET', 'foo')\" 0");
    assert!(
        hidden.contains("Script attempted to access a non local key in a cluster node"),
        "{hidden}"
    );
}
