//! What hellos lead to.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::{prop_assert, proptest};

use super::rig::{Answers, OTHER_ID, OWN_ID, PEER_ID, Rig, at, primary_info, replica_info};
use crate::primary::PEERS_MAX;

fn rig() -> Rig {
    let mut rig = Rig::new(
        "sentinel monitor m 127.0.0.1 6379 2\nsentinel monitor n 127.0.0.1 7379 2\n\
         sentinel client-reconfig-script m /bin/reconfigure\n",
    );
    rig.alive.insert(at(6379), primary_info(&[6380]));
    rig.alive.insert(at(6380), replica_info(6379, "up", 100, 7));
    rig.alive.insert(at(7379), primary_info(&[]));
    rig.alive.insert(at(26380), Answers::default());
    rig.run(1000);
    rig.take_events();
    rig
}

fn hello(port: u16, id: &str, name: &str, primary: u16, config_epoch: u64) -> String {
    format!("127.0.0.1,{port},{id},{config_epoch},{name},127.0.0.1,{primary},{config_epoch}")
}

#[test]
fn sentinels_are_met_once() {
    let mut rig = rig();
    for _ in 0..3 {
        rig.hello(&hello(26380, PEER_ID, "m", 6379, 0));
        rig.hello(&hello(26380, PEER_ID, "n", 7379, 0));
        rig.hello(&hello(26379, OWN_ID, "m", 6379, 0));
        rig.hello(&hello(26380, PEER_ID, "unknown", 6379, 0));
    }
    assert_eq!(
        rig.take_events(),
        [
            format!("+sentinel sentinel {PEER_ID} 127.0.0.1 26380 @ m 127.0.0.1 6379"),
            format!("+sentinel sentinel {PEER_ID} 127.0.0.1 26380 @ n 127.0.0.1 7379"),
        ]
    );
    rig.run(1000);
    assert_eq!(rig.connections_to(26380).len(), 1, "primaries share the link");
    assert!(rig.command("sentinel sentinels n").contains("link-refcount|$1|2|"));
    let text = String::from_utf8(rig.disk).unwrap();
    assert!(text.contains(&format!("sentinel known-sentinel n 127.0.0.1 26380 {PEER_ID}\n")));
}

#[test]
fn a_sentinel_moves() {
    let mut rig = rig();
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 0));
    rig.hello(&hello(26380, PEER_ID, "n", 7379, 0));
    rig.run(1000);
    rig.take_events();
    rig.alive.insert(at(26390), Answers::default());
    rig.hello(&hello(26390, PEER_ID, "m", 6379, 0));
    rig.run(100);
    let place = "m 127.0.0.1 6379";
    assert_eq!(
        rig.take_events(),
        [
            format!(
                "+sentinel-address-switch master {place} ip 127.0.0.1 port 26390 for {PEER_ID}"
            ),
            format!(
                "+sentinel-address-update sentinel {PEER_ID} 127.0.0.1 26390 @ {place} 1 \
                 additional matching instances"
            ),
        ]
    );
    assert_eq!((rig.connections_to(26380).len(), rig.connections_to(26390).len()), (0, 1));
}

#[test]
fn a_sentinel_takes_the_place_of_another() {
    let mut rig = rig();
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 0));
    rig.hello(&hello(26380, PEER_ID, "n", 7379, 0));
    rig.take_events();
    rig.hello(&hello(26380, OTHER_ID, "m", 6379, 0));
    assert_eq!(
        rig.take_events(),
        [
            format!("+sentinel-invalid-addr sentinel {PEER_ID} 127.0.0.1 26380 @ m 127.0.0.1 6379"),
            format!("+sentinel sentinel {OTHER_ID} 127.0.0.1 26380 @ m 127.0.0.1 6379"),
        ]
    );
    assert_eq!(rig.command("sentinel sentinels n"), "*0|", "it is dropped everywhere");
}

#[test]
fn a_later_configuration_is_taken_over() {
    let mut rig = rig();
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 0));
    rig.hello(&hello(26380, PEER_ID, "m", 6390, 0));
    rig.take_events();
    rig.hello(&hello(26380, PEER_ID, "m", 6380, 3));
    assert_eq!(
        rig.take_events(),
        [
            "+new-epoch 3".to_owned(),
            format!("+config-update-from sentinel {PEER_ID} 127.0.0.1 26380 @ m 127.0.0.1 6379"),
            "+switch-master m 127.0.0.1 6379 127.0.0.1 6380".to_owned(),
            "+slave slave 127.0.0.1:6379 127.0.0.1 6379 @ m 127.0.0.1 6380".to_owned(),
        ]
    );
    rig.run(100);
    let script = "/bin/reconfigure m observer start 127.0.0.1 6379 127.0.0.1 6380";
    assert_eq!(rig.scripts.last().unwrap(), script);
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel monitor m 127.0.0.1 6380 2\n"), "{text}");
    assert!(text.contains("sentinel config-epoch m 3\n"), "{text}");
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 2));
    assert!(rig.take_events().is_empty(), "an earlier one is not");
}

#[test]
fn two_addresses_of_one_epoch_find_together() {
    // The greater id claims a new epoch, the other one waits for it.
    for (id, claims) in [("0".repeat(40), true), (PEER_ID.to_owned(), false)] {
        let mut rig = rig();
        rig.hello(&hello(26380, &id, "m", 6380, 3));
        rig.run(100);
        rig.take_events();
        rig.hello(&hello(26380, &id, "m", 6379, 3));
        let text = String::from_utf8(rig.disk.clone()).unwrap();
        assert_eq!(text.contains("sentinel config-epoch m 4\n"), claims, "{text}");
        assert_eq!(rig.take_events() == ["+new-epoch 4"], claims);
        assert_eq!(rig.command("sentinel get-master-addr-by-name m"), "*2|$9|127.0.0.1|$4|6380|");
    }
}

#[test]
fn a_later_word_counts_while_a_replica_is_promoted_here() {
    let mut rig = rig();
    rig.alive.insert(at(6381), replica_info(6379, "up", 100, 5));
    rig.alive.insert(at(6379), primary_info(&[6380, 6381]));
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 0));
    rig.run(12_000);
    assert_eq!(rig.command("sentinel failover m"), "+OK|");
    rig.run(500);
    rig.alive.insert(at(6380), primary_info(&[]));
    rig.run(1000);
    let address = "sentinel get-master-addr-by-name m";
    assert_eq!(rig.command(address), "*2|$9|127.0.0.1|$4|6380|");
    rig.take_events();
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 9));
    assert_eq!(rig.command(address), "*2|$9|127.0.0.1|$4|6379|");
    let events = rig.take_events();
    assert!(events.iter().any(|event| event.starts_with("+config-update-from")), "{events:?}");
    assert!(!events.iter().any(|event| event.starts_with("+switch-master")), "{events:?}");
    // A promotion does not fall behind what was heard since its election.
    rig.run(12_000);
    assert_eq!(rig.command("sentinel failover m"), "+OK|");
    rig.run(500);
    rig.hello(&hello(26380, PEER_ID, "m", 6379, 20));
    rig.alive.insert(at(6381), primary_info(&[]));
    rig.run(1500);
    let text = String::from_utf8(rig.disk.clone()).unwrap();
    assert!(text.contains("sentinel config-epoch m 21\n"), "{text}");
}

fn hostile() -> impl Strategy<Value = String> {
    let host =
        prop_oneof![Just("127.0.0.1".to_owned()), "10\\.0\\.[0-9]{1,3}\\.[0-9]", "[ -~]{0,8}"];
    let id = prop_oneof![Just(PEER_ID.to_owned()), "[0-9a-f]{40}", "[0-9a-f]{0,3}"];
    let number = || prop_oneof![any::<u64>().prop_map(|it| it.to_string()), "[0-9]{0,5}"];
    let fields = (host, "[0-9]{1,5}", id, number(), "[mnx]", "[0-9a-z.]{0,9}", "[0-9]{1,5}");
    (fields, number()).prop_map(|((host, port, id, epoch, name, primary, number), config)| {
        format!("{host},{port},{id},{epoch},{name},{primary},{number},{config}")
    })
}

proptest! {
    #[test]
    fn hostile_hellos_do_no_harm(hellos in prop::collection::vec(hostile(), 1..60)) {
        let mut rig = rig();
        for hello in &hellos {
            rig.hello(hello);
            rig.run(100);
        }
        let again = rig.engine.rewritten(&rig.disk);
        prop_assert!(again == rig.disk, "all that is known is written");
    }
}

#[test]
fn only_so_many_peers_are_met() {
    let mut rig = rig();
    for number in 0..PEERS_MAX + 50 {
        let (id, host) =
            (format!("{number:040}"), format!("10.0.{}.{}", number / 250, number % 250));
        rig.hello(&format!("{host},26379,{id},0,m,127.0.0.1,6379,0"));
    }
    assert_eq!(rig.engine.primaries["m"].peers.len(), PEERS_MAX);
}
