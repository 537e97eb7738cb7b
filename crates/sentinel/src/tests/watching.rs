//! How instances are asked, judged and put right.

use proptest::prelude::{Just, Strategy, prop, prop_oneof};
use proptest::{prop_assert, proptest};
use proto::value::Value;

use super::rig::{
    Answers, OTHER_ID, OWN_ID, PEER_ID, Rig, at, primary_info, promoted_info, replica_info,
};
use crate::event::{ConnectionId, Event};

const MONITOR: &str = "sentinel monitor m 127.0.0.1 6379 2\n\
                       sentinel down-after-milliseconds m 3000\n";

/// A primary, a replica and two more Sentinels.
fn rig(more: &str) -> Rig {
    let mut rig = Rig::new(&format!(
        "{MONITOR}sentinel known-sentinel m 127.0.0.1 26380 {PEER_ID}\n\
         sentinel known-sentinel m 127.0.0.1 26381 {OTHER_ID}\n{more}"
    ));
    rig.alive.insert(at(6379), primary_info(&[6380]));
    rig.alive.insert(at(6380), replica_info(6379, "up", 100, 7));
    rig.alive.insert(at(26380), Answers::default());
    rig.alive.insert(at(26381), Answers::default());
    rig.run(2000);
    rig
}

#[test]
fn what_is_said_first_on_a_connection() {
    let mut rig =
        rig("sentinel auth-pass m secret\nsentinel auth-user m me\nsentinel sentinel-pass other\n\
         sentinel rename-command m PING pang\n");
    let first = |port: u16, rig: &Rig| -> Vec<String> {
        let prefix = format!("{port}: ");
        rig.sent.iter().filter_map(|sent| Some(sent.strip_prefix(&prefix)?.to_owned())).collect()
    };
    let name = &OWN_ID[..8];
    assert_eq!(
        first(6379, &rig)[..6],
        [
            "AUTH me secret".to_owned(),
            format!("CLIENT SETNAME sentinel-{name}-cmd"),
            "pang".to_owned(),
            "AUTH me secret".to_owned(),
            format!("CLIENT SETNAME sentinel-{name}-pubsub"),
            "SUBSCRIBE __sentinel__:hello".to_owned(),
        ]
    );
    assert_eq!(
        first(26380, &rig)[..3],
        ["AUTH other".to_owned(), format!("CLIENT SETNAME sentinel-{name}-cmd"), "PING".to_owned()]
    );
    rig.sent.clear();
    assert_eq!(rig.command("sentinel set m auth-user \"\""), "+OK|");
    rig.run(1000);
    assert!(first(6380, &rig).contains(&"AUTH secret".to_owned()), "it begins again");
}

#[test]
fn how_often_instances_are_asked() {
    let mut rig = rig("");
    rig.run(10_000);
    rig.sent.clear();
    rig.run(20_000);
    let count = |port: u16, word: &str, rig: &Rig| {
        let prefix = format!("{port}: {word}");
        rig.sent.iter().filter(|sent| sent.starts_with(&prefix)).count()
    };
    for (port, word, expected) in [
        (6379, "PING", 18),
        (6379, "INFO", 2),
        (6380, "INFO", 2),
        (6379, "PUBLISH __sentinel__:hello 127.0.0.9,26379", 9),
        (6380, "PUBLISH", 9),
        (26380, "PUBLISH", 9),
        (26380, "PING", 18),
        (26380, "INFO", 0),
        (26380, "SENTINEL", 0),
    ] {
        let found = count(port, word, &rig);
        assert!(found.abs_diff(expected) <= 1, "{port} {word}: {found}, not {expected}");
    }
    let hello = format!("127.0.0.9,26379,{OWN_ID},0,m,127.0.0.1,6379,0");
    assert!(rig.sent.iter().any(|sent| sent.ends_with(&hello)));
    // What a link of the replica is down, or the primary, makes INFO urgent.
    let mut replica = replica_info(6379, "down", 100, 7);
    replica.info += "master_link_down_since_seconds:3\r\n";
    rig.alive.insert(at(6380), replica);
    rig.run(10_000);
    rig.sent.clear();
    rig.run(10_000);
    assert!(count(6380, "INFO", &rig) >= 9 && count(6379, "INFO", &rig) <= 1);
}

#[test]
fn a_primary_is_down_and_up_again() {
    let mut rig = rig("");
    rig.take_events();
    let primary = rig.alive[&at(6379)].clone();
    rig.kill(6379);
    rig.run(1900);
    assert!(rig.take_events().is_empty());
    rig.run(1400);
    assert_eq!(rig.take_events(), ["+sdown master m 127.0.0.1 6379"]);
    rig.run(1000);
    let question = "SENTINEL is-master-down-by-addr 127.0.0.1 6379 0 *";
    let asked = rig.take_orders();
    assert!(asked.contains(&format!("26380: {question}")), "{asked:?}");
    assert_eq!(rig.command(&question.to_lowercase()), "*3|:1|$1|*|:0|");
    rig.alive.get_mut(&at(26380)).unwrap().vote = Some((1, "*".to_owned(), 0));
    rig.run(1200);
    let events = rig.take_events();
    assert_eq!(events[0], "+odown master m 127.0.0.1 6379 #quorum 2/2", "{events:?}");
    rig.alive.insert(at(6379), primary);
    rig.run(2000);
    let events = rig.take_events();
    assert!(events.contains(&"-sdown master m 127.0.0.1 6379".to_owned()), "{events:?}");
    assert!(events.contains(&"-odown master m 127.0.0.1 6379".to_owned()), "{events:?}");
}

#[test]
fn replicas_and_sentinels_are_down_only_subjectively() {
    let mut rig = rig("");
    rig.take_events();
    rig.kill(6380);
    rig.kill(26381);
    rig.run(4000);
    let expected = [
        "+sdown slave 127.0.0.1:6380 127.0.0.1 6380 @ m 127.0.0.1 6379".to_owned(),
        format!("+sdown sentinel {OTHER_ID} 127.0.0.1 26381 @ m 127.0.0.1 6379"),
    ];
    let mut events = rig.take_events();
    events.sort();
    assert_eq!(events, {
        let mut sorted = expected;
        sorted.sort();
        sorted
    });
}

#[test]
fn the_answers_that_are_good_ones() {
    for (text, is_good) in [
        (Value::Simple(b"PONG".to_vec()), true),
        (Value::Error(b"LOADING Redis is loading the dataset in memory".to_vec()), true),
        (Value::Error(b"MASTERDOWN Link with MASTER is down".to_vec()), true),
        (Value::Error(b"NOAUTH Authentication required.".to_vec()), false),
        (Value::Error(b"BUSY Redis is busy running a script.".to_vec()), false),
        (Value::Bulk(b"PONG".to_vec()), false),
    ] {
        let mut rig = rig("");
        rig.alive.get_mut(&at(6379)).unwrap().ping = Some(text.clone());
        rig.take_orders();
        rig.run(6000);
        let is_down = rig.take_events().iter().any(|event| event.starts_with("+sdown master"));
        assert_eq!(!is_down, is_good, "{text:?}");
        let kills = rig.take_orders().iter().filter(|sent| sent.ends_with("SCRIPT KILL")).count();
        let is_busy = matches!(&text, Value::Error(text) if text.starts_with(b"BUSY"));
        assert_eq!(kills, usize::from(is_busy), "{text:?}");
    }
}

#[test]
fn a_connection_that_leads_nowhere_is_made_anew() {
    let mut rig = rig("");
    let old = rig.connections_to(6379);
    rig.run(14_000);
    assert_eq!(rig.connections_to(6379)[0], old[0], "the commands' one is kept");
    // PING is never answered: the reply is no reply.
    rig.alive.get_mut(&at(6379)).unwrap().ping = Some(Value::NullArray);
    rig.run(6000);
    assert!(!rig.connections_to(6379).contains(&old[0]));
    // Nor do own hellos come back in this test: silence is a fault.
    assert!(!rig.connections_to(6379).contains(&old[1]));
}

#[test]
fn a_primary_that_says_it_is_a_replica() {
    let mut rig = rig("");
    rig.run(10_000);
    rig.take_events();
    rig.alive.insert(at(6379), replica_info(6380, "up", 100, 7));
    rig.run(10_200);
    let events = rig.take_events();
    let change = "-role-change master m 127.0.0.1 6379 new reported role is slave";
    assert!(events.contains(&change.to_owned()), "{events:?}");
    rig.run(12_000);
    assert!(rig.take_events().is_empty());
    rig.run(11_500);
    assert_eq!(rig.take_events(), ["+sdown master m 127.0.0.1 6379"]);
}

#[test]
fn a_reboot_may_be_a_reason() {
    let mut rig = rig("sentinel master-reboot-down-after-period m 1000\n");
    rig.run(9000);
    rig.take_events();
    let primary = rig.alive.get_mut(&at(6379)).unwrap();
    primary.info = primary.info.replace(&"1".repeat(40), &"9".repeat(40));
    primary.ping = Some(Value::Error(b"LOADING Redis is loading".to_vec()));
    rig.run(11_000);
    assert_eq!(
        rig.take_events(),
        ["+reboot master m 127.0.0.1 6379", "+sdown master m 127.0.0.1 6379"]
    );
    rig.alive.get_mut(&at(6379)).unwrap().ping = None;
    rig.run(2000);
    assert_eq!(rig.take_events(), ["-sdown master m 127.0.0.1 6379"]);
}

#[test]
fn a_replica_that_says_it_is_a_primary_is_told_otherwise() {
    let mut rig = rig("");
    rig.run(8000);
    rig.take_events();
    rig.take_orders();
    rig.alive.insert(at(6380), promoted_info());
    rig.run(24_000);
    let about = "slave 127.0.0.1:6380 127.0.0.1 6380 @ m 127.0.0.1 6379";
    let events = rig.take_events();
    assert!(events.contains(&format!("-role-change {about} new reported role is master")));
    assert!(events.contains(&format!("+convert-to-slave {about}")), "{events:?}");
    let transaction = [
        "MULTI",
        "SLAVEOF 127.0.0.1 6379",
        "CONFIG REWRITE",
        "CLIENT KILL TYPE normal",
        "CLIENT KILL TYPE pubsub",
        "EXEC",
    ];
    let orders = rig.take_orders();
    assert_eq!(orders[..6], transaction.map(|words| format!("6380: {words}")));
}

#[test]
fn a_replica_of_another_primary_is_told_otherwise() {
    let mut rig =
        rig("sentinel failover-timeout m 5000\nsentinel rename-command m SLAVEOF follow\n");
    rig.run(8000);
    rig.take_events();
    rig.take_orders();
    let mut stray = replica_info(7000, "up", 100, 7);
    stray.info += "master_failover_state:waiting-for-sync\r\n";
    rig.alive.insert(at(6380), stray);
    rig.run(21_000);
    let about = "slave 127.0.0.1:6380 127.0.0.1 6380 @ m 127.0.0.1 6379";
    assert!(rig.take_events().contains(&format!("+fix-slave-config {about}")));
    let orders = rig.take_orders();
    assert_eq!(orders[..3], ["6380: FAILOVER ABORT", "6380: MULTI", "6380: follow 127.0.0.1 6379"]);
}

/// A connection that breaks is no sign that the instance is down, however long ago it answered.
#[test]
fn a_connection_that_breaks_and_is_made_again_is_no_silence() {
    let mut rig = rig("sentinel down-after-milliseconds m 1000\n");
    rig.run(5000);
    rig.take_events();
    for round in 0..40_i64 {
        // At each moment between two answers.
        rig.run(1500 + 100 * (round % 13));
        rig.disconnect(6379);
    }
    rig.run(3000);
    assert_eq!(rig.take_events(), Vec::<String>::new());
    rig.kill(6379);
    rig.run(3000);
    let events = rig.take_events();
    assert!(events.iter().any(|event| event.starts_with("+sdown master m ")), "{events:?}");
}

#[test]
fn instances_are_not_judged_in_tilt() {
    let mut rig = rig("");
    rig.take_events();
    rig.now += 5000;
    rig.handle(Event::Tick);
    assert_eq!(rig.take_events(), ["+tilt #tilt mode entered"]);
    rig.kill(6379);
    rig.run(10_000);
    assert!(rig.engine.info_section().contains("sentinel_tilt:1\r\n"));
    assert!(rig.engine.info_section().contains("tilt_since_seconds:10\r\n"));
    rig.now -= 1000;
    rig.handle(Event::Tick);
    assert_eq!(rig.take_events(), ["+tilt #tilt mode entered"], "back in time, too");
    rig.run(29_900);
    assert!(rig.take_events().is_empty());
    let question = "sentinel is-master-down-by-addr 127.0.0.1 6379 0 *";
    assert_eq!(rig.command(question), "*3|:0|$1|*|:0|");
    rig.run(500);
    let events = rig.take_events();
    assert_eq!(events[..2], ["-tilt #tilt mode exited", "+sdown master m 127.0.0.1 6379"]);
    assert!(rig.engine.info_section().contains("sentinel_total_tilt:1\r\n"));
}

#[test]
fn the_notification_script_is_told() {
    let mut rig = rig("sentinel notification-script m /bin/notify\n");
    rig.kill(6379);
    rig.run(4000);
    assert_eq!(
        rig.scripts,
        [
            "/bin/notify +monitor master m 127.0.0.1 6379 quorum 2",
            "/bin/notify +sdown master m 127.0.0.1 6379",
        ]
    );
    assert!(rig.command("sentinel pending-scripts").starts_with("*2|*10|$4|argv|*3|"));
}

#[test]
fn what_comes_over_closed_connections_is_nothing() {
    let mut rig = rig("");
    rig.take_events();
    let connection = ConnectionId(4711);
    for value in [Value::Null, Value::Array(vec![]), Value::Integer(1)] {
        rig.handle(Event::Received { connection, value });
    }
    rig.handle(Event::Connected { connection, local: [127, 0, 0, 1].into() });
    rig.handle(Event::Disconnected { connection });
    assert!(rig.take_events().is_empty());
}

#[test]
fn answers_about_a_primary_that_is_down() {
    let id = "d".repeat(40);
    let answer = |is_down: i64, leader: &str, epoch: i64| {
        let leader = Value::Bulk(leader.as_bytes().to_vec());
        Value::Array(vec![Value::Integer(is_down), leader, Value::Integer(epoch)])
    };
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    // What is said; whether it counts, and the vote that it holds.
    for (value, says_down, vote) in [
        (answer(1, "*", 0), true, "?"),
        (answer(0, "*", 0), false, "?"),
        (answer(2, "*", 0), false, "?"),
        (answer(1, &id, 3), true, &*id),
        (answer(1, &id, -3), true, &*id),
        (answer(1, "short", 3), true, "?"),
        (Value::Array(vec![Value::Integer(1), text("*")]), false, "?"),
        (Value::Array(vec![text("1"), text("*"), Value::Integer(0)]), false, "?"),
        (Value::Array(vec![Value::Integer(1), Value::Null, Value::Integer(0)]), false, "?"),
        (Value::Error(b"ERR no".to_vec()), false, "?"),
        (Value::Null, false, "?"),
    ] {
        let mut rig = rig("");
        rig.take_events();
        rig.alive.get_mut(&at(26380)).unwrap().answer = Some(value.clone());
        rig.kill(6379);
        rig.run(5000);
        let events = rig.take_events();
        let is_odown = events.iter().any(|event| event.starts_with("+odown"));
        assert_eq!(is_odown, says_down, "{value:?}");
        let shown = rig.command("sentinel sentinels m");
        let voted = format!("voted-leader|${}|{vote}|", vote.len());
        assert!(shown.contains(&voted), "{value:?}: {shown}");
    }
}

#[test]
fn a_name_may_come_to_mean_another_place() {
    let mut rig = Rig::new(
        "sentinel resolve-hostnames yes\nsentinel monitor m db.local 6379 1\n\
         sentinel known-replica m db2.local 6380\n",
    );
    rig.run(1000);
    assert_eq!(rig.questions, ["db.local", "db2.local"]);
    let resolved = |host: &str, last: u8| Event::Resolved {
        host: host.to_owned(),
        ip: Some([127, 0, 0, last].into()),
    };
    rig.alive.insert(at(6379), primary_info(&[]));
    rig.handle(resolved("db.local", 1));
    rig.handle(resolved("db2.local", 2));
    rig.run(2000);
    assert_eq!(rig.connections_to(6379).len(), 2);
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.1|$4|6379|");
    rig.handle(resolved("db.local", 1));
    rig.questions.clear();
    rig.kill(6379);
    rig.run(2000);
    assert!(rig.questions.contains(&"db.local".to_owned()), "it is asked about again");
    rig.handle(resolved("db.local", 7));
    rig.run(2000);
    assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.7|$4|6379|");
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel monitor m db.local 6379 1\n"), "{text}");
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let mut rig = rig("");
    rig.now -= 3_600_000;
    rig.run(31_000);
    rig.take_events();
    rig.sent.clear();
    rig.run(3000);
    assert!(rig.sent.iter().any(|sent| sent == "6379: PING"), "{:?}", rig.sent);
    rig.kill(6379);
    rig.run(4000);
    assert_eq!(rig.take_events(), ["+sdown master m 127.0.0.1 6379"]);
}

/// Lines of INFO, good and bad.
fn hostile_info() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("role:master".to_owned()),
        Just("role:slave".to_owned()),
        Just("master_host:127.0.0.1".to_owned()),
        Just("master_link_status:up".to_owned()),
        "run_id:[0-9a-f]{40}",
        "slave[0-9]{1,3}:ip=10\\.0\\.[0-9]{1,3}\\.[0-9]{1,3},port=[0-9]{1,5}",
        "slave[0-9]:ip=[ -~]{0,9},port=[0-9]{0,6}",
        "(master_port|slave_priority|slave_repl_offset):-?[0-9]{0,20}",
        "master_link_down_since_seconds:-?[0-9]{0,20}",
        "(replica_announced|master_failover_state|role|master_host):[ -~]{0,9}",
    ];
    prop::collection::vec(line, 0..30).prop_map(|lines| lines.join("\r\n"))
}

proptest! {
    #[test]
    fn hostile_info_does_no_harm(texts in prop::collection::vec(hostile_info(), 1..8)) {
        let mut rig = rig("");
        for pair in texts.chunks(2) {
            rig.alive.get_mut(&at(6379)).unwrap().info = pair[0].clone();
            rig.alive.get_mut(&at(6380)).unwrap().info = pair[pair.len() - 1].clone();
            rig.run(11_000);
            rig.command("sentinel masters");
            rig.command("sentinel replicas m");
            rig.command("sentinel info-cache m");
        }
        let again = rig.engine.rewritten(&rig.disk);
        prop_assert!(again == rig.disk, "all that is known is written");
    }
}
