//! What replication promises through failovers, and what it does not: histories of single keys with
//! WAIT behind each step are judged by Porcupine, and without WAIT what is lost is counted.
//!
//! `APUS_FAILOVER_OPERATIONS=1000000` asks for so many operations, `APUS_FAILOVER_LOSSES=100` for
//! so many kills of which the loss is measured; both of fresh seeds.

use std::time::{Duration, Instant};

use base::random::Random;
use proto::value::Value;
use rustix::process::Signal;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, promote};
use tests::server::{eventually, free_port};
use tests::{Client, Server, clients};

/// How many operations are to be acknowledged.
const OPERATIONS: usize = 6_000;
/// Kills of which the loss is measured.
const LOSSES: usize = 2;

fn asked(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

/// Nodes that keep their ports, the second one following the first.
fn pair() -> [Server; 2] {
    let nodes = [(); 2].map(|()| NodeKind::Apus.start(&["--port", &free_port().to_string()]));
    follow(&nodes[1], nodes[0].port());
    await_replica(&nodes[0], &nodes[1]);
    nodes
}

/// Every other failover is one by order, the others are kills.
#[test]
fn what_has_wait_behind_it_is_linearizable_through_failovers() {
    let (operations, mut random) = match asked("APUS_FAILOVER_OPERATIONS") {
        Some(operations) => (operations, Random::from_entropy()),
        None => (OPERATIONS, Random::from_seed(1)),
    };
    let mut nodes = pair();
    let ports = nodes.each_ref().map(Server::port);
    let (seed, mut failovers) = (random.next_u64() >> 24, 0);
    let text = clients::linearizable_through_failovers(ports, operations, seed, || {
        std::thread::sleep(Duration::from_millis(100 + random.below(300)));
        let [primary, replica] = &mut nodes;
        if failovers % 2 == 0 {
            primary.kill();
            promote(replica);
            primary.restart();
            follow(primary, replica.port());
        } else {
            let mut client = primary.client();
            eventually("it begins", || render(&client.call(&["FAILOVER"])) == "OK");
        }
        await_replica(replica, primary);
        nodes.rotate_left(1);
        failovers += 1;
    });
    println!("{failovers} failovers: {text}");
    assert!(failovers > 1, "the operations were over before");
}

/// Without WAIT the newest writes may be lost, though they were answered; what is left is what was
/// written up to some moment, without holes. Prints what was lost.
#[test]
fn without_wait_the_newest_writes_are_lost_and_no_others() {
    let kills = asked("APUS_FAILOVER_LOSSES");
    let mut random = Random::from_entropy();
    let (mut lost, mut oldest, mut total, mut without) = (Vec::new(), Duration::ZERO, 0, 0);
    for _ in 0..kills.unwrap_or(LOSSES) {
        let mut nodes = pair();
        let port = nodes[0].port();
        let after = Duration::from_millis(100 + random.below(200));
        let (answered, killed) = std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..4).map(|at| scope.spawn(move || write_until_the_end(port, at))).collect();
            std::thread::sleep(after);
            let killed = Instant::now();
            nodes[0].signal(Signal::KILL);
            let answered = writers.into_iter().map(|it| it.join().expect("it ends"));
            (answered.collect::<Vec<_>>(), killed)
        });
        nodes[0].kill();
        promote(&nodes[1]);
        let mut client = nodes[1].client();
        let mut of_this = 0;
        for (at, times) in answered.iter().enumerate() {
            let Value::Array(kept) = client.call(&["LRANGE", &format!("log:{at}"), "0", "-1"])
            else {
                panic!("a list")
            };
            let numbers = kept.iter().enumerate();
            let expected = |(at, found): (usize, &Value)| render(found) == format!("\"{at}\"");
            assert!(numbers.clone().all(expected), "there is a hole");
            total += times.len();
            if let Some(first) = times.get(kept.len()) {
                of_this += times.len() - kept.len();
                oldest = oldest.max(killed.saturating_duration_since(*first));
            }
        }
        without += usize::from(of_this == 0);
        lost.push(of_this);
    }
    lost.sort_unstable();
    println!(
        "{} kills, {total} writes answered, {} lost; {without} kills lost none, the median {}, the \
         worst {}; the oldest of them was answered {oldest:?} before the kill",
        lost.len(),
        lost.iter().sum::<usize>(),
        lost[lost.len() / 2],
        lost[lost.len() - 1],
    );
}

/// Appends numbers to a list, sixteen at a time; when each was answered.
fn write_until_the_end(port: u16, at: usize) -> Vec<Instant> {
    const AHEAD: usize = 16;
    let (mut client, mut answered) = (Client::connect(port), Vec::new());
    let key = format!("log:{at}");
    for first in (0..).step_by(AHEAD) {
        let commands = (first..first + AHEAD)
            .flat_map(|number| tests::client::encode(&["RPUSH", &key, &number.to_string()]));
        if client.try_send_raw(&commands.collect::<Vec<u8>>()).is_err() {
            break;
        }
        for _ in 0..AHEAD {
            match client.arrival(Duration::from_secs(60)) {
                Ok(tests::Arrival::Reply(Value::Integer(_))) => answered.push(Instant::now()),
                _ => return answered,
            }
        }
    }
    answered
}
