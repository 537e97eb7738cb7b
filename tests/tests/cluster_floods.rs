//! Clients that publish as fast as they can: the bus goes on, and memory is bounded.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use proto::value::Value;
use tests::client::encode;
use tests::cluster::{Program, ask, create, state};
use tests::server::eventually;
use tests::{Client, Server};

const APUS: Program = Program::Apus;

/// So long a node may be silent here.
const NODE_TIMEOUT: &str = "2000";

fn trio() -> [Server; 3] {
    let nodes = [APUS, APUS, APUS].map(|program| program.node(&[]));
    create(&nodes.each_ref(), 0);
    nodes
}

/// So many commands a client sends before it reads.
const BATCH: usize = 1000;

/// Sends this command so many times at once, and reads the replies.
fn flood(client: &mut Client, command: &[u8], times: usize) {
    client.send_raw(&command.repeat(times));
    for _ in 0..times {
        let reply = client.receive();
        assert!(matches!(reply, Value::Integer(_)), "{reply:?}");
    }
}

/// Has the watch end, also where an assertion fails meanwhile: the scope waits for it.
struct OverAtEnd<'a>(&'a AtomicBool);

impl Drop for OverAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two clients publish so many batches, and until the last message is sent no node is suspected.
fn nothing_is_suspected(nodes: &[Server; 3], command: &[&str], batches: usize) {
    for node in nodes {
        let line = format!("CONFIG SET cluster-node-timeout {NODE_TIMEOUT}");
        assert_eq!(ask(node, &line), "OK");
    }
    let before = nodes[0].resident();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flood = || {
            let (mut client, command) = (nodes[0].client(), encode(command));
            (0..batches).for_each(|_| flood(&mut client, &command, BATCH));
        };
        let floods: Vec<_> = (0..2).map(|_| scope.spawn(flood)).collect();
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for node in nodes {
                    assert_eq!(state(node, "cluster_state"), "ok");
                    let known = ask(node, "CLUSTER NODES");
                    assert!(!known.contains("fail"), "{known}");
                }
            }
        });
        let over = OverAtEnd(&is_over);
        let ended: Vec<_> = floods.into_iter().map(ScopedJoinHandle::join).collect();
        let all = (2 * batches * BATCH * 2).to_string();
        let sent = || state(&nodes[0], "cluster_stats_messages_publish_sent");
        eventually("all are sent to both", || sent() == all || watch.is_finished());
        drop(over);
        assert!(watch.join().is_ok(), "a node was suspected");
        assert!(ended.iter().all(Result::is_ok));
    });
    let taken = nodes[0].peak().saturating_sub(before) >> 20;
    assert!(taken < 160, "{taken} MiB");
}

/// What the thread of the bus sends in some times the timeout.
#[test]
fn many_short_messages_make_no_node_suspected() {
    nothing_is_suspected(&trio(), &["PUBLISH", "channel", "0123456789"], 250);
}

#[test]
fn many_long_messages_make_no_node_suspected() {
    nothing_is_suspected(&trio(), &["PUBLISH", "channel", &"x".repeat(10_000)], 20);
}

/// Publishers are held back, and nothing is lost or comes out of order.
#[test]
fn all_messages_of_a_flood_come_in_order() {
    const COUNT: usize = 100_000;
    let nodes = trio();
    assert_eq!(ask(&nodes[1], "CONFIG SET client-output-buffer-limit \"pubsub 0 0 0\""), "OK");
    let mut subscriber = nodes[1].client();
    subscriber.send(&["SUBSCRIBE", "channel"]);
    subscriber.receive();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = nodes[0].client();
            for batch in 0..COUNT / 1000 {
                let commands = (0..1000).flat_map(|number| {
                    let text = format!("{:0>200}", batch * 1000 + number);
                    encode(&["PUBLISH", "channel", &text])
                });
                client.send_raw(&commands.collect::<Vec<u8>>());
                (0..1000).for_each(|_| drop(client.receive()));
            }
        });
        for number in 0..COUNT {
            let Value::Array(words) = subscriber.receive() else { panic!("a message") };
            assert_eq!(words[2].as_bytes(), Some(format!("{number:0>200}").as_bytes()));
        }
    });
    assert_eq!(state(&nodes[0], "cluster_stats_messages_lost"), "");
}

/// A script cannot be held in its middle; a peer that takes nothing keeps nobody from publishing.
#[test]
fn a_peer_that_stands_still_holds_no_publisher_for_long() {
    let nodes = trio();
    nodes[2].signal(rustix::process::Signal::STOP);
    let mut client = nodes[0].client();
    let command = encode(&["PUBLISH", "channel", &"x".repeat(10_000)]);
    (0..10).for_each(|_| flood(&mut client, &command, 1000));
    nodes[2].signal(rustix::process::Signal::CONT);
    eventually("all is well", || {
        nodes.iter().all(|node| {
            state(node, "cluster_state") == "ok" && !ask(node, "CLUSTER NODES").contains("fail")
        })
    });
}
