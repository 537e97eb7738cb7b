//! Failovers: each state, its events and its ways out.

use proto::value::Value;

use super::rig::{
    Answers, OTHER_ID, OWN_ID, PEER_ID, Rig, at, primary_info, promoted_info, replica_info,
};

/// A primary with two replicas, and two more Sentinels that vote for this one.
fn rig(more: &str) -> Rig {
    let mut rig = Rig::new(&format!(
        "sentinel monitor m 127.0.0.1 6379 2\nsentinel down-after-milliseconds m 3000\n\
         sentinel failover-timeout m 20000\nsentinel client-reconfig-script m /bin/reconfigure\n\
         sentinel known-sentinel m 127.0.0.1 26380 {PEER_ID}\n\
         sentinel known-sentinel m 127.0.0.1 26381 {OTHER_ID}\n{more}"
    ));
    rig.alive.insert(at(6379), primary_info(&[6380, 6381]));
    rig.alive.insert(at(6380), replica_info(6379, "up", 100, 70));
    rig.alive.insert(at(6381), replica_info(6379, "up", 100, 90));
    for port in [26380, 26381] {
        let vote = Some((1, OWN_ID.to_owned(), 1));
        rig.alive.insert(at(port), Answers { vote, ..Answers::default() });
    }
    rig.run(3000);
    rig.take_events();
    rig.take_orders();
    rig
}

fn replica(port: u16) -> String {
    format!("slave 127.0.0.1:{port} 127.0.0.1 {port} @ m 127.0.0.1 6379")
}

fn transaction(port: u16, words: &str) -> Vec<String> {
    let all = [
        "MULTI",
        words,
        "CONFIG REWRITE",
        "CLIENT KILL TYPE normal",
        "CLIENT KILL TYPE pubsub",
        "EXEC",
    ];
    all.iter().map(|words| format!("{port}: {words}")).collect()
}

fn without_questions(orders: Vec<String>) -> Vec<String> {
    orders.into_iter().filter(|order| !order.contains("SENTINEL is-master-down")).collect()
}

#[test]
fn from_the_start_to_the_end() {
    let mut rig = rig("");
    rig.kill(6379);
    rig.run(5000);
    let events = rig.take_events();
    let expected = [
        "+sdown master m 127.0.0.1 6379".to_owned(),
        "+odown master m 127.0.0.1 6379 #quorum 3/2".to_owned(),
        "+new-epoch 1".to_owned(),
        "+try-failover master m 127.0.0.1 6379".to_owned(),
        format!("+vote-for-leader {OWN_ID} 1"),
        "+elected-leader master m 127.0.0.1 6379".to_owned(),
        "+failover-state-select-slave master m 127.0.0.1 6379".to_owned(),
        format!("+selected-slave {}", replica(6381)),
        format!("+failover-state-send-slaveof-noone {}", replica(6381)),
        format!("+failover-state-wait-promotion {}", replica(6381)),
    ];
    assert_eq!(events, expected);
    let orders = rig.take_orders();
    let question = format!("26381: SENTINEL is-master-down-by-addr 127.0.0.1 6379 1 {OWN_ID}");
    assert!(orders.contains(&question), "{orders:?}");
    assert_eq!(without_questions(orders), transaction(6381, "SLAVEOF NO ONE"));
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.1|$4|6379|");

    rig.alive.insert(at(6381), promoted_info());
    rig.run(1200);
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.1|$4|6381|");
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel monitor m 127.0.0.1 6381 2\n"), "{text}");
    assert!(text.contains("sentinel known-replica m 127.0.0.1 6379\n"), "{text}");
    assert!(text.contains("sentinel config-epoch m 1\n"), "{text}");
    let script = "/bin/reconfigure m leader start 127.0.0.1 6379 127.0.0.1 6381";
    assert_eq!(rig.scripts, [script]);
    let expected = [
        format!("-role-change {} new reported role is master", replica(6381)),
        format!("+promoted-slave {}", replica(6381)),
        "+failover-state-reconf-slaves master m 127.0.0.1 6379".to_owned(),
        format!("+slave-reconf-sent {}", replica(6380)),
    ];
    assert_eq!(rig.take_events(), expected);
    let hello = format!("127.0.0.9,26379,{OWN_ID},1,m,127.0.0.1,6381,1");
    assert!(rig.sent.iter().any(|sent| sent.ends_with(&hello)), "everybody is told at once");
    let orders = without_questions(rig.take_orders());
    assert_eq!(orders, transaction(6380, "SLAVEOF 127.0.0.1 6381"));

    rig.alive.insert(at(6380), replica_info(6381, "down", 100, 70));
    rig.run(1100);
    assert_eq!(rig.take_events(), [format!("+slave-reconf-inprog {}", replica(6380))]);
    rig.alive.insert(at(6380), replica_info(6381, "up", 100, 70));
    rig.run(1100);
    let expected = [
        format!("+slave-reconf-done {}", replica(6380)),
        "+failover-end master m 127.0.0.1 6379".to_owned(),
        "+switch-master m 127.0.0.1 6379 127.0.0.1 6381".to_owned(),
        "+slave slave 127.0.0.1:6380 127.0.0.1 6380 @ m 127.0.0.1 6381".to_owned(),
        "+slave slave 127.0.0.1:6379 127.0.0.1 6379 @ m 127.0.0.1 6381".to_owned(),
    ];
    assert_eq!(rig.take_events(), expected);
    assert_eq!(rig.persists, 4, "at first, the epoch and the vote, the promotion, the switch");
}

#[test]
fn a_sentinel_that_is_not_elected_waits() {
    for vote in [(1, "*".to_owned(), 0), (1, PEER_ID.to_owned(), 1), (1, OWN_ID.to_owned(), 0)] {
        let mut rig = rig("");
        for port in [26380, 26381] {
            rig.alive.get_mut(&at(port)).unwrap().vote = Some(vote.clone());
        }
        rig.kill(6379);
        rig.run(15_200);
        let events = rig.take_events();
        let aborted = "-failover-abort-not-elected master m 127.0.0.1 6379";
        assert_eq!(events.last().unwrap(), aborted, "{events:?}");
        assert!(!events.iter().any(|event| event.starts_with("+elected-leader")));
        rig.run(25_000);
        assert!(rig.take_events().is_empty(), "twice the time of a failover goes by");
        rig.run(6000);
        assert!(rig.take_events().contains(&"+new-epoch 2".to_owned()));
    }
}

#[test]
fn a_majority_of_those_known_is_needed() {
    let mut rig = rig(&format!(
        "sentinel known-sentinel m 127.0.0.1 26382 {}\n\
         sentinel known-sentinel m 127.0.0.1 26383 {}\n",
        "d".repeat(40),
        "e".repeat(40)
    ));
    // Of five that are known, two are away and one does not vote.
    rig.alive.get_mut(&at(26380)).unwrap().vote = Some((1, "*".to_owned(), 0));
    rig.kill(6379);
    rig.run(14_000);
    let events = rig.take_events();
    assert!(events.iter().any(|event| event.starts_with("+odown")), "{events:?}");
    assert!(!events.iter().any(|event| event.starts_with("+elected-leader")), "{events:?}");
}

#[test]
fn which_replica_is_the_best() {
    let good = || replica_info(6379, "up", 100, 70);
    let (zero, low) = (replica_info(6379, "up", 0, 90), replica_info(6379, "up", 10, 5));
    let mut away = replica_info(6379, "down", 100, 90);
    away.info += "master_link_down_since_seconds:90\r\n";
    let mut greater = replica_info(6379, "up", 100, 70);
    greater.info = greater.info.replace(&"2".repeat(40), &"3".repeat(40));
    for (one, other, best) in [
        (good(), replica_info(6379, "up", 100, 90), Some(6381)),
        (good(), low.clone(), Some(6381)),
        (good(), zero.clone(), Some(6380)),
        (good(), greater, Some(6380)),
        (good(), away.clone(), Some(6380)),
        (zero, away, None),
    ] {
        let mut rig = rig("");
        rig.alive.insert(at(6380), one.clone());
        rig.alive.insert(at(6381), other);
        rig.run(10_000);
        rig.take_events();
        let reply = rig.command("sentinel failover m");
        rig.run(300);
        let events = rig.take_events();
        let chosen = best.map(|port| format!("+selected-slave {}", replica(port)));
        match chosen {
            Some(event) => assert!(events.contains(&event), "{event}: {events:?}"),
            None => assert_eq!(reply, "-NOGOODSLAVE No suitable replica to promote|"),
        }
    }
}

#[test]
fn without_a_good_replica_there_is_no_failover() {
    let mut rig = rig("");
    for port in [6379, 6380, 6381] {
        rig.kill(port);
    }
    rig.run(6000);
    let events = rig.take_events();
    let aborted = "-failover-abort-no-good-slave master m 127.0.0.1 6379";
    assert!(events.contains(&aborted.to_owned()), "{events:?}");
}

#[test]
fn a_replica_that_is_not_promoted_in_time() {
    let mut rig = rig("");
    rig.kill(6379);
    rig.run(5000);
    rig.take_events();
    rig.run(21_000);
    let aborted = "-failover-abort-slave-timeout master m 127.0.0.1 6379";
    assert_eq!(rig.take_events(), [aborted]);
}

#[test]
fn replicas_that_do_not_follow() {
    let mut rig = rig("");
    rig.kill(6379);
    rig.run(5000);
    rig.alive.insert(at(6381), promoted_info());
    rig.run(1200);
    rig.take_events();
    // The order was sent, and has no effect: after ten seconds that is as good as done.
    rig.run(10_500);
    let events = rig.take_events();
    assert_eq!(events[0], format!("-slave-reconf-sent-timeout {}", replica(6380)));
    assert_eq!(events[1], "+failover-end master m 127.0.0.1 6379");

    // One that is busy with its sync holds the next one up, until the time is over.
    let mut rig = rig_with_three();
    rig.kill(6379);
    rig.run(5000);
    rig.alive.insert(at(6381), promoted_info());
    rig.run(1200);
    rig.alive.insert(at(6380), replica_info(6381, "down", 100, 70));
    rig.run(10_000);
    rig.take_events();
    rig.run(10_000);
    let events = rig.take_events();
    assert_eq!(
        events[..3],
        [
            "+failover-end-for-timeout master m 127.0.0.1 6379".to_owned(),
            "+failover-end master m 127.0.0.1 6379".to_owned(),
            format!("+slave-reconf-sent-be {}", replica(6382)),
        ]
    );
}

fn rig_with_three() -> Rig {
    let mut rig = rig("");
    rig.alive.insert(at(6379), primary_info(&[6380, 6381, 6382]));
    rig.alive.insert(at(6382), replica_info(6379, "up", 100, 10));
    rig.run(12_000);
    rig
}

#[test]
fn a_promoted_replica_that_dies_is_a_primary_that_is_down() {
    let mut rig = rig("");
    rig.kill(6379);
    rig.run(5000);
    rig.alive.insert(at(6381), promoted_info());
    rig.run(1100);
    rig.kill(6381);
    rig.take_events();
    rig.run(22_000);
    let events = rig.take_events();
    assert!(events.contains(&"+switch-master m 127.0.0.1 6379 127.0.0.1 6381".to_owned()));
    rig.run(4000);
    assert!(rig.take_events().contains(&"+sdown master m 127.0.0.1 6381".to_owned()));
}

#[test]
fn an_operator_needs_nobody() {
    let mut rig = rig("");
    for port in [26380, 26381] {
        rig.kill(port);
    }
    assert_eq!(rig.command("sentinel failover m"), "+OK|");
    assert_eq!(rig.command("sentinel failover m"), "-INPROG Failover already in progress|");
    assert!(rig.command("sentinel master m").contains("failover_in_progress,force_failover"));
    rig.run(400);
    assert_eq!(without_questions(rig.take_orders()), transaction(6381, "SLAVEOF NO ONE"));
}

#[test]
fn a_vote_that_is_not_on_disk_elects_nobody() {
    let mut rig = rig("");
    let is_elected =
        |events: &[String]| events.iter().any(|event| event.starts_with("+elected-leader"));
    assert_eq!(rig.command("sentinel failover m"), "+OK|");
    rig.is_disk_full = true;
    rig.run(2000);
    assert!(!is_elected(&rig.take_events()));
    rig.is_disk_full = false;
    rig.run(2000);
    assert!(is_elected(&rig.take_events()));
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel leader-epoch m 1\n"), "{text}");
}

#[test]
fn a_primary_hands_over() {
    let mut rig = rig("");
    let supports = "master_failover_state:no-failover\r\n";
    rig.alive.get_mut(&at(6379)).unwrap().info += supports;
    rig.run(10_000);
    rig.take_orders();
    assert_eq!(rig.command("sentinel failover m coordinated"), "+OK|");
    rig.run(500);
    let orders = rig.take_orders();
    assert!(orders.iter().any(|order| order.contains("SENTINEL is-master-down")), "an election");
    let expected =
        ["MULTI", "CLIENT PAUSE 20000 WRITE", "FAILOVER TO 127.0.0.1 6381 TIMEOUT 20000", "EXEC"];
    assert_eq!(without_questions(orders), expected.map(|words| format!("6379: {words}")));
    rig.alive.insert(at(6381), promoted_info());
    rig.alive.insert(at(6379), replica_info(6381, "up", 100, 90));
    rig.run(900);
    let orders = without_questions(rig.take_orders());
    for port in ["6381", "6379"] {
        let position = orders.iter().position(|order| *order == format!("{port}: CLIENT UNPAUSE"));
        assert_eq!(orders[position.unwrap() + 1], format!("{port}: EXEC"));
    }
}

#[test]
fn a_primary_refuses_to_hand_over() {
    let mut rig = rig("");
    let primary = rig.alive.get_mut(&at(6379)).unwrap();
    primary.info += "master_failover_state:no-failover\r\n";
    let error = Value::Error(b"ERR FAILOVER target replica is not online.".to_vec());
    primary.exec = Some(Value::Array(vec![Value::Simple(b"OK".to_vec()), error]));
    rig.run(10_000);
    rig.take_events();
    rig.take_orders();
    assert_eq!(rig.command("sentinel failover m coordinated"), "+OK|");
    rig.run(500);
    let events = rig.take_events();
    let aborted = "-failover-abort-no-good-slave master m 127.0.0.1 6379";
    assert_eq!(events.last().unwrap(), aborted, "{events:?}");
    let orders = without_questions(rig.take_orders());
    assert_eq!(orders[4..], ["6379: FAILOVER ABORT", "6379: CLIENT UNPAUSE"]);
}

#[test]
fn failures_on_demand() {
    for (word, event) in
        [("crash-after-election", "+elected-leader"), ("crash-after-promotion", "+promoted-slave")]
    {
        let mut rig = rig("");
        assert_eq!(rig.command(&format!("sentinel simulate-failure {word}")), "+OK|");
        assert_eq!(rig.command("sentinel failover m"), "+OK|");
        rig.run(400);
        rig.alive.insert(at(6381), promoted_info());
        rig.run(1500);
        assert_eq!(rig.crash, Some(99), "{word}");
        assert!(rig.take_events().iter().any(|seen| seen.starts_with(event)), "{word}");
    }
}

/// A server may call itself its own replica; a file with a line twice could not be read.
#[test]
fn a_replica_stands_once_in_the_file() {
    let mut rig = rig("");
    rig.alive.insert(at(6379), primary_info(&[6379, 6380, 6381]));
    rig.run(11_000);
    rig.kill(6379);
    rig.run(5000);
    rig.alive.insert(at(6381), promoted_info());
    rig.run(1200);
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel monitor m 127.0.0.1 6381 2\n"), "{text}");
    assert_eq!(text.matches("known-replica m 127.0.0.1 6379\n").count(), 1, "{text}");
}
