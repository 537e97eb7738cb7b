//! Files of real servers, files that are none, and files of any content.
//!
//! Invariant: a file that is written is read as the same.

use base::Random;
use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

use super::{AuxFields, NodeRecord, NodesFile, OpenSlot, SlotGrant};
use crate::client_address::ClientAddress;
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::slots::{Slot, SlotSet};

const A: &str = "07c37dfeb235213a872192d90877d0cd55635b91";
const B: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";

fn parse(text: &str) -> Result<NodesFile, &'static str> {
    NodesFile::parse(text.as_bytes(), false).map_err(|error| error.problem)
}

#[test]
fn files_of_every_server_are_read() {
    let of_70 = format!(
        "{A} 127.0.0.1:30004@31004 slave {B} 0 1426238317239 4 connected\n\
         {B} :30001@31001,host-1 myself,master - 0 0 9 connected 0-99 5460 [93-<-{A}] [5->-{A}]\n\
         vars currentEpoch 6 lastVoteEpoch 3 somethingElse 7\n\n"
    );
    let file = parse(&of_70).unwrap();
    let [replica, own] = &file.nodes[..] else { panic!("two nodes") };
    assert_eq!(replica.primary, Some(own.id));
    assert_eq!((replica.tcp_port, replica.tls_port, replica.bus_port), (30_004, 0, 31_004));
    // An epoch stands in vars that is behind one of a claim.
    assert_eq!((file.current_epoch, file.last_vote_epoch), (9, 3));
    assert_eq!((own.ip, own.slots.len()), (None, 101));
    assert_eq!(own.aux.hostname.as_deref(), Some("host-1"));
    assert_eq!(own.open_slots.len(), 2);
    let later = format!(
        "{A} ::1:21045@31045,,tls-port=6380,nodename=one,shard-id={B},client-ipv4=10.0.0.1,\
         client-ipv6=::2,client-tcp-port=7,client-tls-port=8,availability-zone=a \
         myself,primary - 0 0 0 connected\n"
    );
    let node = &parse(&later).unwrap().nodes[0];
    assert_eq!(node.ip, Some("::1".parse().unwrap()));
    assert_eq!((node.tcp_port, node.tls_port), (21_045, 6380));
    assert_eq!(node.aux.client.ipv4, Some("10.0.0.1".parse().unwrap()));
    assert_eq!((node.aux.client.port, node.aux.client.tls_port), (Some(7), Some(8)));
    let poisoned = format!("{A} 1.2.3.4:1@2,,tls-port=0,client-ipv4={B} myself,master - 0 0 0 x\n");
    assert_eq!(parse(&poisoned).unwrap().nodes[0].aux.client.ipv4, None);
}

/// H56.
#[test]
fn a_file_that_says_nothing_clear_is_refused() {
    let line = |id: &str, flags: &str, rest: &str| {
        format!("{id} 127.0.0.1:1@2 {flags} - 0 0 1 connected{rest}\n")
    };
    let own = line(A, "myself,master", "");
    assert!(parse(&own).is_ok());
    let cases = [
        (own.trim_end().to_owned(), "cut off"),
        (format!("{own}vars currentEpoch\n"), "a variable without a value"),
        (format!("{own}vars currentEpoch x\n"), "an epoch that is no number"),
        (format!("{own}vars currentEpoch 281474976710657\n"), "an epoch out of range"),
        (format!("{own}vars lastVoteEpoch 18446744073709551615\n"), "an epoch out of range"),
        (String::new(), "not exactly one node is myself"),
        (line(A, "master", ""), "not exactly one node is myself"),
        (own.clone() + &line(B, "myself,master", ""), "not exactly one node is myself"),
        (own.clone() + &own, "two lines of one node"),
        (line(A, "myself,master", " 1") + &line(B, "master", " 0-2"), "a slot of two nodes"),
        (line(A, "myself,king", ""), "an unknown flag"),
        (line(A, "myself,master,slave", ""), "both a master and a slave"),
        (line("abc", "myself,master", ""), "not a node id"),
        (line(A, "myself,master", " 16384"), "not a slot"),
        (line(A, "myself,master", " [1->-x]"), "not the id of a node"),
        (own.clone() + &line(B, "master", &format!(" [1->-{A}]")), "an open slot of another node"),
        (own.replace("@2", "@2,,colour=red"), "an unknown field"),
        (own.replace("@2", "@2,a_b"), "not a host name"),
        (format!("{A} x myself\n"), "too few fields"),
    ];
    for (text, problem) in cases {
        assert_eq!(parse(&text), Err(problem), "{text}");
    }
}

#[test]
fn a_replica_is_of_the_shard_of_its_primary() {
    let text = format!(
        "{A} 127.0.0.1:1@2,,tls-port=0,shard-id={A} myself,slave {B} 0 0 1 connected\n\
         {B} 127.0.0.1:3@4,,tls-port=0,shard-id={B} master - 0 0 1 connected 0-16383\n"
    );
    let file = parse(&text).unwrap();
    assert_eq!(file.nodes[0].aux.shard, file.nodes[1].aux.shard);
}

fn drawn(seed: u64) -> NodesFile {
    let mut random = Random::from_seed(seed);
    let ids: Vec<NodeId> = (0..=random.below(4)).map(|_| NodeId::random(&mut random)).collect();
    let owner = |slot: Slot| usize::from(slot.get()) * 7 / 100 % (ids.len() + 1);
    let some = |random: &mut Random| random.below(2) == 0;
    let nodes = ids.iter().enumerate().map(|(index, id)| {
        let is_replica = index > 0 && some(&mut random);
        let role = if is_replica { NodeFlags::REPLICA } else { NodeFlags::PRIMARY };
        let own = if index == 0 { NodeFlags::MYSELF } else { NodeFlags::default() };
        let open = [
            (Slot::of_key(id.as_bytes()), OpenSlot::Migrating(ids[ids.len() - 1])),
            (Slot::of_key(b"x"), OpenSlot::Importing(*id)),
        ];
        NodeRecord {
            id: *id,
            ip: some(&mut random)
                .then(|| std::net::Ipv4Addr::from_bits(random.next_u64() as u32).into()),
            tcp_port: random.next_u64() as u16,
            tls_port: random.next_u64() as u16,
            bus_port: random.next_u64() as u16,
            aux: AuxFields {
                hostname: some(&mut random).then(|| "a-b.c".to_owned()),
                human_name: some(&mut random).then(|| "the/first:one".to_owned()),
                shard: Some(ShardId(if is_replica { ids[0] } else { *id })),
                client: ClientAddress {
                    ipv6: some(&mut random).then(|| "fe80::1".parse().unwrap()),
                    tls_port: some(&mut random).then_some(9),
                    ..ClientAddress::default()
                },
                availability_zone: some(&mut random).then(|| "eu-1a".to_owned()),
            },
            flags: role.with(own).with(if some(&mut random) { NodeFlags::FAIL } else { own }),
            primary: is_replica.then_some(ids[0]),
            ping_sent: random.below(3),
            pong_received: random.below(1 << 40),
            config_epoch: if is_replica { 0 } else { random.below(100) },
            is_connected: some(&mut random),
            slots: Slot::all().filter(|slot| !is_replica && owner(*slot) == index).collect(),
            open_slots: if index == 0 { open.to_vec() } else { Vec::new() },
        }
    });
    let nodes = nodes.collect();
    let (last_vote_epoch, grants) = (random.below(100), random.below(3));
    let grant = |_| SlotGrant {
        target: NodeId::random(&mut random),
        first_epoch: random.below(50),
        last_epoch: 50 + random.below(50),
        slots: [random.below(16_384), 3, 4].iter().filter_map(|it| Slot::new(*it as u16)).collect(),
    };
    let grants = (0..grants).map(grant).collect();
    let claimed_epochs = ids.iter().filter(|_| some(&mut random)).map(|id| (*id, 7)).collect();
    NodesFile { nodes, current_epoch: 100, last_vote_epoch, grants, claimed_epochs }
}

/// Servers of other kinds pass over these variables, as do those of before.
#[test]
fn grants_are_variables_of_their_own() {
    let own = format!("{A} 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-99\n");
    let text = format!("{own}vars grantedSlots {B}:2:17:3-5,7-7\n");
    let file = parse(&text).unwrap();
    let slots = [3, 4, 5, 7].into_iter().filter_map(Slot::new).collect();
    let target = NodeId::parse(B.as_bytes()).unwrap();
    let grant = SlotGrant { target, first_epoch: 2, last_epoch: 17, slots };
    assert_eq!(file.grants, [grant]);
    assert!(file.to_text(false).ends_with(&format!("\nvars grantedSlots {B}:2:17:3-5,7-7\n")));
    for wrong in
        ["1:2", "1:2:", "x:2:3-4", "1:2:5-3", "2:1:3-4", "1:2:3-4:5", "1:281474976710657:3-4"]
    {
        let text = format!("{own}vars grantedSlots {B}:{wrong}\n");
        assert!(parse(&text).is_err(), "{wrong}");
    }
    let text = format!("{own}vars claimedEpoch {B}:4\n");
    assert_eq!(parse(&text).unwrap().claimed_epochs, [(target, 4)]);
    for wrong in [format!("{B}:x"), B.to_owned(), "x:4".to_owned()] {
        assert!(parse(&format!("{own}vars claimedEpoch {wrong}\n")).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn a_file_is_read_as_it_was_written(seed: u64, is_tls: bool) {
        let file = drawn(seed);
        let text = file.to_text(is_tls);
        prop_assert_eq!(NodesFile::parse(text.as_bytes(), is_tls), Ok(file), "{}", text);
    }

    #[test]
    fn a_file_that_was_cut_is_refused_or_ends_with_a_line(seed: u64, cut: prop::sample::Index) {
        let text = drawn(seed).to_text(false);
        let part = &text[..cut.index(text.len())];
        if NodesFile::parse(part.as_bytes(), false).is_ok() {
            prop_assert!(part.ends_with('\n'));
        }
    }
}

#[test]
fn an_empty_set_of_slots_leaves_nothing_behind_the_link() {
    let mut text = String::new();
    let mut file = drawn(1);
    file.nodes[0].slots = SlotSet::empty();
    file.nodes[0].open_slots.clear();
    file.nodes[0].put_line(false, false, &mut text);
    assert!(text.ends_with("connected") && !text.contains("port="), "{text}");
}
