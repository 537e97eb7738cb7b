//! What a source has granted: kept whatever befalls either end between the grant and the claim, and
//! nothing that lasts beyond the move.
//!
//! Claims stand still where the test wants them to (DEBUG FAILPOINT CLAIM).
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use proto::value::Value;
use rustix::process::Signal;
use tests::Server;
use tests::cluster::{Program, ask, ask_by, await_whole};
use tests::server::eventually;

use crate::cluster_slot_moves::{Cluster, SLOT, fill, newest, shown, slow};

const APUS: Program = Program::Apus;

/// What is acknowledged outlives a kill, and a node that is down stops no other.
const OPTIONS: &[&str] = &[
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--cluster-require-full-coverage",
    "no",
    "--enable-debug-command",
    "yes",
];

/// Numbers that a node has taken into a list.
struct Writer {
    next: i64,
    acknowledged: Vec<i64>,
}

impl Writer {
    fn new() -> Self {
        Self { next: 0, acknowledged: Vec::new() }
    }

    /// Writes once: what was said if that was refused.
    fn write(&mut self, node: &Server) -> Option<String> {
        self.next += 1;
        let said = ask(node, &format!("RPUSH {{foo}}log {}", self.next));
        if !said.starts_with("(integer)") {
            return Some(said);
        }
        self.acknowledged.push(self.next);
        None
    }

    /// All that was acknowledged is at a node.
    fn check(&self, node: &Server) {
        let Value::Array(found) = node.client().call(&["LRANGE", "{foo}log", "0", "-1"]) else {
            panic!("a list")
        };
        let number = |value: &Value| {
            String::from_utf8_lossy(value.as_bytes().unwrap()).parse::<i64>().unwrap()
        };
        let found: Vec<i64> = found.iter().map(number).collect();
        assert_eq!(found, self.acknowledged);
    }
}

fn file(node: &Server) -> String {
    std::fs::read_to_string(node.folder().join("nodes.conf")).unwrap_or_default()
}

/// Has the next claim of the target stand still.
fn hold_claim(cluster: &Cluster, place: &str, millis: u64) {
    let line = format!("DEBUG FAILPOINT CLAIM {place} {millis}");
    assert_eq!(ask(cluster.to(), &line), "(integer) 0");
}

/// A move whose claim stands still, with writes before it.
fn granted(place: &str, millis: u64, timeout: &str) -> (Cluster, Writer, Vec<String>) {
    let timeout = ["--cluster-manual-failover-timeout", timeout];
    let cluster = Cluster::start([APUS, APUS, APUS], &[OPTIONS, &timeout].concat());
    fill(&cluster);
    let before = shown(cluster.from());
    let mut writer = Writer::new();
    (0..10).for_each(|_| assert_eq!(writer.write(cluster.from()), None));
    hold_claim(&cluster, place, millis);
    cluster.begin();
    eventually("the slots are granted", || file(cluster.from()).contains("grantedSlots"));
    // The target, which may have the world stopped by then, hears of it.
    sleep(Duration::from_millis(200));
    (cluster, writer, before)
}

fn count(node: &Server) -> String {
    ask(node, &format!("CLUSTER COUNTKEYSINSLOT {SLOT}"))
}

/// The target dies when its claim is on disk and told to nobody. The source takes the slots back,
/// and what it acknowledges from then on is not lost when the target comes back with its claim.
#[test]
fn a_claim_that_comes_to_light_late_takes_nothing() {
    let (mut cluster, mut writer, before) = granted("TELLING", 600_000, "1000");
    eventually("the claim is on disk", || {
        let file = file(cluster.to());
        file.lines().any(|line| line.contains("myself") && line.contains("12000-12200"))
    });
    let to = cluster.to;
    cluster.nodes[to].kill();
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    assert_eq!(newest(cluster.from(), "message"), "Unpaused before failover completed");
    eventually("the source serves again", || writer.write(cluster.from()).is_none());
    (0..50).for_each(|_| assert_eq!(writer.write(cluster.from()), None));
    assert!(!file(cluster.from()).contains("grantedSlots"));
    cluster.nodes[to].restart();
    await_whole(&cluster.all(), 3);
    eventually("the target has dropped its copy", || count(cluster.to()) == "(integer) 0");
    assert_eq!(writer.write(cluster.from()), None);
    writer.check(cluster.from());
    assert_eq!(shown(cluster.from()), before);
}

/// The source dies behind its grant and starts at once, and the claim comes when it might serve
/// again: what it has granted it does not serve.
#[test]
fn a_source_that_starts_anew_knows_what_it_has_granted() {
    let (mut cluster, mut writer, before) = granted("ORDER", 3500, "5000");
    eventually("the grant is on disk", || file(cluster.from()).contains("grantedSlots"));
    // The word goes out behind that. The target has stopped the world, and cannot be asked.
    sleep(Duration::from_millis(200));
    let from = cluster.from;
    cluster.nodes[from].kill();
    cluster.nodes[from].restart();
    eventually("the slots are the target's", || {
        writer.write(cluster.from()).is_some_and(|said| said.contains("MOVED"))
    });
    assert_eq!(Cluster::ending(cluster.to()), "success");
    writer.check(cluster.to());
    assert_eq!(shown(cluster.to()), before);
    await_whole(&cluster.all(), 3);
    assert!(!file(cluster.from()).contains("grantedSlots"));
    eventually("the source has dropped its keys", || count(cluster.from()) == "(integer) 0");
}

/// The source stands still behind its grant for longer than its pause lasts, as one that is cut
/// off, while the target claims and takes writes: when the source goes on nothing is taken back.
#[test]
fn a_source_that_was_away_for_its_whole_pause_takes_nothing_back() {
    let (cluster, mut writer, before) = granted("LOOK", 1000, "3000");
    eventually("the word has come", || newest(cluster.to(), "state") == "failover-granted");
    cluster.from().signal(Signal::STOP);
    let stopped = Instant::now();
    eventually("the target serves", || writer.write(cluster.to()).is_none());
    while stopped.elapsed() < Duration::from_millis(8000) {
        assert_eq!(writer.write(cluster.to()), None);
        sleep(Duration::from_millis(20));
    }
    cluster.from().signal(Signal::CONT);
    let resumed = Instant::now();
    while resumed.elapsed() < Duration::from_millis(6000) {
        assert_eq!(writer.write(cluster.to()), None);
        sleep(Duration::from_millis(20));
    }
    await_whole(&cluster.all(), 3);
    assert!(writer.write(cluster.from()).unwrap().contains("MOVED"));
    writer.check(cluster.to());
    assert_eq!(shown(cluster.to()), before);
    assert!(!file(cluster.from()).contains("grantedSlots"));
    eventually("the source has dropped its keys", || count(cluster.from()) == "(integer) 0");
}

/// A target whose source is gone claims nothing, though the time for that is not over.
#[test]
fn a_target_that_has_lost_its_source_claims_nothing() {
    let (mut cluster, mut writer, before) = granted("LOOK", 2000, "5000");
    let from = cluster.from;
    cluster.nodes[from].kill();
    assert_eq!(Cluster::ending(cluster.to()), "failed");
    assert!(newest(cluster.to(), "message").contains("Connection to source lost"));
    cluster.nodes[from].restart();
    eventually("the source serves again", || writer.write(cluster.from()).is_none());
    await_whole(&cluster.all(), 3);
    assert_eq!(writer.write(cluster.from()), None);
    writer.check(cluster.from());
    assert_eq!(shown(cluster.from()), before);
    eventually("the target has dropped what came", || count(cluster.to()) == "(integer) 0");
}

/// Slots that move whole are not disposed of, at either end.
#[test]
fn slots_are_not_disposed_of_beside_their_move() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    for (node, word) in [(cluster.from(), "export"), (cluster.to(), "import")] {
        let refused = format!("(error) ERR Slot {word} in progress.");
        for line in [
            format!("CLUSTER DELSLOTS {SLOT}"),
            format!("CLUSTER DELSLOTSRANGE {SLOT} {SLOT}"),
            format!("CLUSTER ADDSLOTS {SLOT}"),
            "CLUSTER FLUSHSLOTS".to_owned(),
            "CLUSTER RESET SOFT".to_owned(),
        ] {
            assert_eq!(ask(node, &line), refused, "{line}");
        }
        let mut client = node.client();
        assert_eq!(ask_by(&mut client, "MULTI"), "OK");
        assert_eq!(ask_by(&mut client, &format!("CLUSTER DELSLOTS {SLOT}")), "QUEUED");
        assert!(ask_by(&mut client, "EXEC").contains("in progress"));
    }
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "success");
    cluster.await_gone();
    assert_eq!(shown(cluster.to()), before);
}
