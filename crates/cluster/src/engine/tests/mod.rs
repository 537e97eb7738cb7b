//! The engine: what single nodes do, and histories of whole clusters.

mod confirmations;
mod handovers;
mod moving_data;
mod orders;
mod simulation;
mod successors;
mod world;

use crate::engine::{
    Action, AdminCommand, AdminError, Cluster, Event, FailoverMode, LinkId, Moment, Settings,
    StreamPosition,
};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::message::{
    Body, GossipSection, Header, Limits, MessageFlags, Packet, PacketReader, ReceivedPacket,
    write_packet,
};
use crate::nodes_file::NodesFile;
use crate::slots::{Slot, SlotSet};
use base::Random;

use self::world::World;

fn fresh(seed: u64) -> Cluster {
    Cluster::start(Settings::default(), None, Moment::default(), Random::from_seed(seed)).0
}

fn at(now: u64) -> Moment {
    Moment { now, wall: 1_700_000_000_000 + now }
}

fn sent(actions: &[Action]) -> Vec<(LinkId, Packet)> {
    let read = |bytes: &[u8]| {
        let mut reader = PacketReader::default();
        reader.feed(bytes);
        match reader.next(Limits { nodes: 100, payload: 100 }) {
            Ok(Some(ReceivedPacket::Packet(packet))) => *packet,
            other => panic!("{other:?}"),
        }
    };
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send { link, bytes } => Some((*link, read(bytes))),
        _ => None,
    });
    sent.collect()
}

#[test]
fn a_new_node_writes_its_file_first_and_is_alone() {
    let (cluster, actions) =
        Cluster::start(Settings::default(), None, Moment::default(), Random::from_seed(1));
    let Action::SaveConfig { text, is_synced: true } = &actions[0] else { panic!("{actions:?}") };
    let file = NodesFile::parse(text.as_bytes(), false).unwrap();
    assert_eq!(file.own().unwrap().id, cluster.my_id());
    let line = format!("No cluster configuration found, I'm {}", cluster.my_id());
    assert!(actions.contains(&Action::Log { text: line }));
    assert!(!cluster.is_ok());
}

/// Data may take long to be loaded, and nobody is heard until they are.
#[test]
fn the_time_before_a_node_serves_counts_from_when_it_can_hear() {
    let mut cluster = fresh(1);
    cluster.handle(at(5000), Event::Begun);
    cluster.order(at(5000), &AdminCommand::AddSlots(SlotSet::full())).unwrap();
    cluster.handle(at(6999), Event::Tick);
    assert!(!cluster.is_ok());
    cluster.handle(at(7000), Event::Tick);
    assert!(cluster.is_ok());
}

#[test]
fn a_lone_node_with_all_slots_serves_after_two_seconds() {
    let mut cluster = fresh(1);
    cluster.order(at(0), &AdminCommand::AddSlots(SlotSet::full())).unwrap();
    cluster.handle(at(1999), Event::Tick);
    assert!(!cluster.is_ok());
    cluster.handle(at(2000), Event::Tick);
    assert!(cluster.is_ok());
    cluster
        .order(at(2000), &AdminCommand::DelSlots([Slot::of_key(b"x")].into_iter().collect()))
        .unwrap();
    assert!(!cluster.is_ok());
}

#[test]
fn orders_that_cannot_be_are_refused_in_the_words_of_real_servers() {
    let mut cluster = fresh(1);
    let one: SlotSet = [Slot::of_key(b"foo")].into_iter().collect();
    let mut refused = |order: AdminCommand| cluster.order(at(0), &order).unwrap_err().to_string();
    assert_eq!(refused(AdminCommand::DelSlots(one.clone())), "Slot 12182 is already unassigned");
    let other = NodeId::random(&mut Random::from_seed(9));
    assert_eq!(refused(AdminCommand::Replicate(other, false)), format!("Unknown node {other}"));
    let not_replica = "You should send CLUSTER FAILOVER to a replica";
    assert_eq!(refused(AdminCommand::Failover(FailoverMode::Takeover)), not_replica);
    cluster.order(at(0), &AdminCommand::AddSlots(one.clone())).unwrap();
    let busy = cluster.order(at(0), &AdminCommand::AddSlots(one));
    assert_eq!(busy.unwrap_err().to_string(), "Slot 12182 is already busy");
    let me = cluster.my_id();
    assert_eq!(cluster.order(at(0), &AdminCommand::Replicate(me, false)), Err(AdminError::Myself));
    cluster.order(at(0), &AdminCommand::SetConfigEpoch(3)).unwrap();
    let again = cluster.order(at(0), &AdminCommand::SetConfigEpoch(4));
    assert_eq!(again, Err(AdminError::EpochIsSet));
}

fn header(sender: NodeId) -> Header {
    Header {
        sender,
        current_epoch: 5,
        config_epoch: 5,
        offset: 0,
        slots: SlotSet::full(),
        primary: None,
        ip: None,
        port: 1,
        secondary_port: 0,
        bus_port: 2,
        flags: NodeFlags::PRIMARY,
        is_down: false,
        message: MessageFlags::default(),
    }
}

#[test]
fn a_stranger_gets_an_answer_and_is_not_believed() {
    let mut cluster = fresh(1);
    let (link, ip) = (LinkId::From(1), "10.0.0.9".parse().unwrap());
    cluster.handle(at(0), Event::Accepted { link, peer: ip, local: ip });
    let stranger = NodeId::random(&mut Random::from_seed(9));
    let bodies = [
        Body::Ping(GossipSection::default()),
        Body::Fail(cluster.my_id()),
        Body::AuthRequest,
        Body::AuthAck,
        Body::ManualFailoverStart,
        Body::Publish { channel: vec![1], message: vec![2] },
        Body::Update { config_epoch: 9, owner: stranger, slots: SlotSet::full() },
    ];
    for (index, body) in bodies.into_iter().enumerate() {
        let packet = Box::new(Packet { header: Some(header(stranger)), body });
        let actions = cluster.handle(at(0), Event::Received { link, packet });
        let answers = sent(&actions);
        assert_eq!(answers.len(), usize::from(index == 0), "{actions:?}");
        assert!(answers.iter().all(|(_, answer)| matches!(answer.body, Body::Pong(_))));
        assert!(!actions.iter().any(|action| matches!(action, Action::Deliver { .. })));
    }
    assert_eq!((cluster.records().len(), cluster.current_epoch()), (1, 0));
}

/// Only so many links stand: those that no node speaks on make room.
#[test]
fn links_that_strangers_hold_open_are_closed() {
    let mut world = World::new(Random::from_seed(5), 3, 0, false);
    world.run_for(4000);
    let (link, ip) = (LinkId::From(u64::MAX), "10.0.0.9".parse().unwrap());
    let (now, patience) = (world.now + 1000, 2 * world::NODE_TIMEOUT);
    let cluster = world.cluster(0);
    cluster.handle(at(now), Event::Accepted { link, peer: ip, local: ip });
    let is_closed = |actions: &[Action]| actions.contains(&Action::Close { link });
    assert!(!is_closed(&cluster.handle(at(now + patience), Event::Tick)));
    let actions = cluster.handle(at(now + patience + 1), Event::Tick);
    assert!(is_closed(&actions));
    // Those that nodes have opened stay.
    let is_inbound = |action: &&Action| matches!(action, Action::Close { link: LinkId::From(_) });
    assert_eq!(actions.iter().filter(is_inbound).count(), 1, "{actions:?}");
}

/// The same request, three times: one vote, and on disk before it goes.
#[test]
fn a_vote_is_given_once_in_an_epoch_and_written_before() {
    let mut world = World::new(Random::from_seed(3), 3, 1, false);
    world.run_for(4000);
    let voter = 0;
    let primary = world.id(1);
    let link = LinkId::From(u64::MAX);
    let ip = "10.0.0.9".parse().unwrap();
    world.kill(1);
    world.run_for(4000);
    let moment = at(world.now + 100_000);
    let cluster = world.cluster(voter);
    cluster.handle(moment, Event::Accepted { link, peer: ip, local: ip });
    let (asker, epoch) = (cluster.records().into_iter(), cluster.current_epoch() + 1);
    let asker = asker.filter(|node| node.primary.is_some()).map(|node| node.id).next().unwrap();
    let mut asking = header(asker);
    asking.current_epoch = epoch;
    asking.config_epoch = epoch - 1;
    asking.primary = Some(primary);
    asking.flags = NodeFlags::REPLICA;
    asking.slots = SlotSet::empty();
    asking.message.forces_ack = true;
    let bytes = write_packet(&asking, &Body::AuthRequest);
    let mut votes = 0;
    for _ in 0..3 {
        let mut reader = PacketReader::default();
        reader.feed(&bytes);
        let Ok(Some(ReceivedPacket::Packet(packet))) =
            reader.next(Limits { nodes: 10, payload: 10 })
        else {
            panic!("the packet is right")
        };
        let actions = cluster.handle(moment, Event::Received { link, packet });
        let given = sent(&actions).iter().filter(|(_, it)| it.body == Body::AuthAck).count();
        if given > 0 {
            let Action::SaveConfig { text, is_synced: true } = &actions[0] else { panic!("first") };
            assert!(text.contains(&format!("lastVoteEpoch {epoch}\n")), "{text}");
        }
        votes += given;
    }
    assert_eq!(votes, 1);
}

#[test]
fn nodes_that_meet_one_node_know_all_and_agree() {
    let mut world = World::new(Random::from_seed(5), 0, 0, false);
    for index in 0..4 {
        world.add_fresh();
        let slots = |slot: &Slot| usize::from(slot.get()) % 4 == index;
        world.order(index, &AdminCommand::SetConfigEpoch(index as u64 + 1));
        world.order(index, &AdminCommand::AddSlots(Slot::all().filter(slots).collect()));
    }
    for index in 1..4 {
        let order = AdminCommand::Meet { ip: world::ip(0), port: 6379, bus_port: world::BUS_PORT };
        world.order(index, &order);
    }
    world.run_for(8000);
    assert_eq!(world.disagreement(), None);
    assert!((0..4).all(|index| world.cluster(index).records().len() == 4));
}

#[test]
fn a_primary_that_dies_is_replaced_and_comes_back_as_a_replica() {
    let mut world = World::new(Random::from_seed(7), 3, 1, false);
    world.run_for(4000);
    assert_eq!(world.disagreement(), None);
    world.kill(0);
    world.run_for(10_000);
    assert!(world.cluster(3).is_primary() && world.cluster(3).is_ok());
    world.revive(0);
    world.run_for(6000);
    assert_eq!(world.disagreement(), None);
    assert_eq!(world.cluster(0).my_primary(), Some(world.id(3)));
}

#[test]
fn a_manual_failover_waits_for_all_of_the_stream() {
    let mut world = World::new(Random::from_seed(8), 3, 1, false);
    world.run_for(4000);
    world.order(3, &AdminCommand::Failover(FailoverMode::Agreed));
    world.run_for(3000);
    assert!(world.cluster(3).is_primary());
    assert_eq!(world.offset(0), world.offset(3));
    assert!(!world.is_paused(0));
    assert_eq!(world.disagreement(), None);
}

/// A replica that comes from another shard has a greater offset than its new primary, and none of
/// its data.
#[test]
fn a_manual_failover_waits_for_the_data_of_the_shard() {
    let mut world = World::new(Random::from_seed(10), 3, 1, false);
    world.run_for(4000);
    world.write(0, 1_000_000);
    world.run_for(500);
    let primary = world.id(1);
    world.order(3, &AdminCommand::Replicate(primary, true));
    world.run_for(1000);
    let id = world.id(3);
    assert_eq!(world.cluster(1).offset(id), Some(0));
    let forced = world.refusal(3, &AdminCommand::Failover(FailoverMode::Force));
    assert!(forced.starts_with("This replica has none of its master's data yet"), "{forced}");
    world.order(3, &AdminCommand::Failover(FailoverMode::Agreed));
    world.run_for(world::SYNC_TIME - 1300);
    assert!(!world.cluster(3).is_primary());
    world.run_for(3000);
    assert!(world.cluster(3).is_primary());
    assert!(world.shard(3) == 1 && world.offset(3) >= world.offset(1));
    world.run_for(4000);
    assert_eq!((world.failures.as_slice(), world.disagreement()), (&[][..], None));
}

#[test]
fn no_replica_is_elected_that_has_the_data_of_another_shard() {
    let mut world = World::new(Random::from_seed(11), 3, 2, false);
    world.configure(3, |settings| settings.replica_validity_factor = 0);
    world.run_for(4000);
    world.write(0, 1_000_000);
    world.run_for(500);
    let primary = world.id(1);
    for machine in [4, 7] {
        world.kill(machine);
    }
    world.order(3, &AdminCommand::Replicate(primary, true));
    world.run_for(300);
    world.kill(1);
    world.run_for(20_000);
    assert!(!world.cluster(3).is_primary());
    // One that has the shard's data is.
    world.revive(4);
    world.configure(4, |settings| settings.replica_validity_factor = 0);
    world.run_for(20_000);
    assert!(world.cluster(4).is_primary());
    assert_eq!(world.cluster(3).my_primary(), Some(world.id(4)));
}

#[test]
fn what_is_told_of_another_primary_does_not_count() {
    let mut world = World::new(Random::from_seed(12), 3, 1, false);
    world.run_for(4000);
    let (old, new, me) = (world.id(0), world.id(1), world.id(3));
    world.order(3, &AdminCommand::Replicate(new, true));
    let moment = at(world.now);
    let cluster = world.cluster(3);
    for primary in [Some(old), None] {
        let position = StreamPosition::Flowing(1_000_000);
        let event = Event::ReplicationOffset { primary, position, silence: Some(0) };
        cluster.handle(moment, event);
        assert_eq!(cluster.offset(me), Some(0));
    }
}

#[test]
fn a_takeover_needs_no_majority() {
    let mut world = World::new(Random::from_seed(9), 3, 1, false);
    world.run_for(4000);
    for index in 0..3 {
        world.kill(index);
    }
    world.run_for(200);
    world.order(3, &AdminCommand::Failover(FailoverMode::Takeover));
    assert!(world.cluster(3).is_primary());
    for index in 0..3 {
        world.revive(index);
    }
    world.run_for(12_000);
    assert_eq!(world.disagreement(), None);
    assert!(world.cluster(3).is_primary());
}
