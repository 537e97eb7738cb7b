//! Packets: their bytes, their way there and back, and what hostile ones come to.
//!
//! Invariant: no packet makes the reader panic, or keep more than has arrived.

use base::Random;
use proptest::prelude::{prop_assert_eq, proptest};

use super::{
    Body, Extensions, FramingError, GossipEntry, GossipSection, Header, Limits, MessageFlags,
    MessageType, Packet, PacketError, PacketReader, ReceivedPacket, write_light_packet,
    write_packet,
};
use crate::client_address::ClientAddress;
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::slots::{Slot, SlotSet};

const LIMITS: Limits = Limits { nodes: 100, payload: 1 << 20 };

fn id(digit: u8) -> NodeId {
    NodeId::parse(&[digit; 40]).unwrap()
}

fn header() -> Header {
    Header {
        sender: id(b'a'),
        current_epoch: 7,
        config_epoch: 5,
        offset: 1 << 40,
        slots: [0, 9, 16_383].into_iter().filter_map(Slot::new).collect(),
        primary: None,
        ip: Some("10.1.2.3".parse().unwrap()),
        port: 6379,
        secondary_port: 6380,
        bus_port: 16_379,
        flags: NodeFlags::PRIMARY.with(NodeFlags::MYSELF),
        is_down: true,
        message: MessageFlags { supports_extensions: true, ..MessageFlags::default() },
    }
}

fn entry(digit: u8) -> GossipEntry {
    GossipEntry {
        id: id(digit),
        ping_sent: 0,
        pong_received: 1_700_000_000,
        ip: Some("::1".parse().unwrap()),
        port: 1,
        secondary_port: 2,
        bus_port: 3,
        flags: NodeFlags::REPLICA.with(NodeFlags::PFAIL),
    }
}

fn extensions() -> Extensions {
    Extensions {
        hostname: Some("node-1.example".to_owned()),
        human_name: Some("one".to_owned()),
        forgotten: vec![(id(b'c'), 60)],
        shard: Some(ShardId(id(b'd'))),
        secret: Some([b'e'; 40]),
        client: ClientAddress {
            ipv4: Some("10.0.0.1".parse().unwrap()),
            ipv6: Some("fe80::1".parse().unwrap()),
            port: Some(1),
            tls_port: Some(2),
        },
        availability_zone: Some("zone-1".to_owned()),
        unknown: Vec::new(),
    }
}

fn bodies() -> Vec<Body> {
    let gossip = GossipSection {
        entries: vec![entry(b'1'), entry(b'2')],
        extensions: extensions(),
        is_dropped: false,
    };
    let (channel, message) = (b"channel".to_vec(), b"message".to_vec());
    vec![
        Body::Ping(gossip.clone()),
        Body::Pong(GossipSection::default()),
        Body::Meet(gossip),
        Body::Fail(id(b'9')),
        Body::Publish { channel: channel.clone(), message: message.clone() },
        Body::PublishShard { channel, message: Vec::new() },
        Body::AuthRequest,
        Body::AuthAck,
        Body::Update { config_epoch: 3, owner: id(b'4'), slots: SlotSet::full() },
        Body::ManualFailoverStart,
        Body::Module { module: *b"module-1", kind: 4, payload: message },
    ]
}

fn read(bytes: &[u8]) -> Result<ReceivedPacket, FramingError> {
    let mut reader = PacketReader::default();
    reader.feed(bytes);
    reader.next(LIMITS).map(|arrival| arrival.expect("the packet is whole"))
}

fn written(body: &Body) -> Vec<u8> {
    write_packet(&header(), body)
}

#[test]
fn every_kind_comes_back_as_it_was_written() {
    let bodies = bodies();
    assert_eq!(bodies.iter().map(Body::kind).collect::<std::collections::BTreeSet<_>>().len(), 11);
    for body in bodies {
        let packet = Box::new(Packet { header: Some(header()), body: body.clone() });
        assert_eq!(read(&written(&body)), Ok(ReceivedPacket::Packet(packet)), "{:?}", body.kind());
        if let Some(light) = write_light_packet(&body) {
            let packet = Box::new(Packet { header: None, body });
            assert_eq!(read(&light), Ok(ReceivedPacket::Packet(packet)));
        }
    }
}

#[test]
fn packets_have_the_lengths_and_places_of_the_protocol() {
    let lengths: Vec<usize> = bodies().iter().map(|body| written(body).len()).collect();
    assert_eq!(lengths[1], 2256);
    assert_eq!(lengths[3..], [2296, 2264 + 14, 2264 + 7, 2256, 2256, 4352, 2256, 2269 + 7]);
    let light = write_light_packet(&bodies()[4]).unwrap();
    assert_eq!((light.len(), &light[..4]), (24 + 14, &b"RCmb"[..]));
    assert_eq!(light[12..14], [0x80, 4]);
    let bytes = written(&bodies()[0]);
    assert_eq!(bytes[8..16], [0, 1, 0x18, 0xeb, 0, 0, 0, 2]);
    assert_eq!(bytes[40..80], [b'a'; 40]);
    assert_eq!((bytes[80], bytes[81], bytes[2127]), (1, 2, 128));
    assert_eq!(&bytes[2168..2177], b"10.1.2.3\0");
    assert_eq!(bytes[2214..2216], 10_u16.to_be_bytes());
    assert_eq!(bytes[2246..2256], [0x18, 0xec, 0x3f, 0xfb, 0, 17, 1, 4, 0, 0]);
    // One extension of a shard: 48 bytes, as captured.
    let shard = Extensions { shard: extensions().shard, ..Extensions::default() };
    let body = Body::Pong(GossipSection { extensions: shard, ..GossipSection::default() });
    assert_eq!(written(&body).len(), 2304);
}

#[test]
fn bytes_may_come_one_by_one_and_many_at_once() {
    let stream: Vec<u8> = bodies().iter().flat_map(written).collect();
    let (mut slow, mut fast) = (PacketReader::default(), PacketReader::default());
    let mut found = Vec::new();
    for byte in &stream {
        slow.feed(&[*byte]);
        found.extend(slow.next(LIMITS).unwrap());
    }
    fast.feed(&stream);
    let at_once: Vec<ReceivedPacket> = std::iter::from_fn(|| fast.next(LIMITS).unwrap()).collect();
    assert_eq!(at_once.len(), 11);
    assert_eq!(found, at_once);
}

fn ignored(bytes: &[u8]) -> PacketError {
    match read(bytes) {
        Ok(ReceivedPacket::Ignored(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// H110, H114.
#[test]
fn a_packet_that_lies_about_its_parts_is_passed_over() {
    let ping = written(&bodies()[0]);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = ping.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let total = ping.len() as u64;
    let kind = MessageType::Ping;
    assert_eq!(ignored(&with(8, &[0, 2])), PacketError::Version(2));
    assert_eq!(ignored(&with(12, &[0, 11])), PacketError::UnknownKind(11));
    let past_end = PacketError::GossipPastEnd { kind, count: 65_535, total };
    assert_eq!(ignored(&with(14, &[0xff, 0xff])), past_end);
    assert_eq!(ignored(&with(16, &[0xff])), PacketError::Epoch(kind));
    assert_eq!(ignored(&with(40, b"A")), PacketError::Id(kind));
    assert_eq!(ignored(&with(2128, b"x")), PacketError::Id(kind));
    assert_eq!(ignored(&with(2251, &[3])), PacketError::Role(kind));
    let first = 2256 + 2 * 104;
    for length in [0_u32, 4, 12] {
        let padding = PacketError::Padding { kind, length };
        assert_eq!(ignored(&with(first, &length.to_be_bytes())), padding);
    }
    let past_end = PacketError::ExtensionPastEnd { kind, total };
    assert_eq!(ignored(&with(first, &0x4000_0008_u32.to_be_bytes())), past_end);
    assert_eq!(ignored(&with(2215, &[11])), past_end);
    assert!(matches!(ignored(&with(2215, &[9])), PacketError::Length { .. }));
    // Extensions that are not announced are bytes too many.
    assert!(matches!(ignored(&with(2253, &[0])), PacketError::Length { .. }));
    let mut publish = written(&bodies()[4]);
    publish[2256..2264].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
    let expected = 2264 + u64::from(u32::MAX) + 1;
    let length = PacketError::Length { kind: MessageType::Publish, found: 2278, expected };
    assert_eq!(ignored(&publish), length);
    let mut light = write_light_packet(&bodies()[4]).unwrap();
    light[13] = 0;
    assert_eq!(ignored(&light), PacketError::NotLight(MessageType::Ping));
}

/// H114.
#[test]
fn gossip_about_what_is_no_node_is_dropped_as_a_whole() {
    let mut ping = written(&bodies()[0]);
    ping[2256 + 104] = b'!';
    let Ok(ReceivedPacket::Packet(packet)) = read(&ping) else { panic!("the packet is right") };
    let gossip = packet.body.gossip().unwrap();
    assert!(gossip.is_dropped && gossip.entries.is_empty());
    assert_eq!(gossip.extensions, extensions());
}

/// H111, H112.
#[test]
fn a_stream_of_no_packets_or_of_endless_ones_is_given_up() {
    assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n"), Err(FramingError::Signature));
    let mut reader = PacketReader::default();
    reader.feed(b"RX");
    assert_eq!(reader.next(LIMITS), Err(FramingError::Signature));
    for (length, kind, error) in [
        (2255, 0, FramingError::Signature),
        (u32::MAX, 0, FramingError::TooLong),
        (u32::MAX, 4, FramingError::TooLong),
        (1 << 20, 3, FramingError::TooLong),
        (15, 0x8004, FramingError::Signature),
    ] {
        let mut bytes = b"RCmb".to_vec();
        bytes.extend(u32::to_be_bytes(length));
        bytes.extend([0, 1, 0, 0]);
        bytes.extend(u16::to_be_bytes(kind));
        bytes.extend([0, 0]);
        assert_eq!(read(&bytes), Err(error), "{length} {kind}");
    }
}

/// In Redis 8 the fourth extension is a secret, in Valkey an address.
#[test]
fn the_fourth_extension_is_told_by_its_form() {
    for (data, secret, ipv4) in [
        (&[b'a'; 40][..], true, None),
        (b"10.0.0.1\0\0\0\0\0\0\0\0", false, Some("10.0.0.1")),
        (b"10.0.0.256\0\0\0\0\0\0", false, None),
        (b"10.0.0.1", false, None),
        (&[b'z'; 40], false, None),
    ] {
        let mut bytes = (data.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend([0, 4, 0, 0]);
        bytes.extend(data);
        let found = Extensions::read(MessageType::Ping, 0, 1, &bytes).unwrap();
        assert_eq!(found.secret.is_some(), secret);
        assert_eq!(found.client.ipv4, ipv4.map(|ip| ip.parse().unwrap()));
    }
}

/// H56.
#[test]
fn names_that_would_break_a_line_are_not_taken() {
    for name in ["a b", "a,b", "a\nb", "a=b", "", "caf\u{e9}"] {
        let sent = Extensions {
            human_name: Some(name.to_owned()),
            hostname: Some(name.to_owned()),
            ..Extensions::default()
        };
        let body = Body::Ping(GossipSection { extensions: sent, ..GossipSection::default() });
        let Ok(ReceivedPacket::Packet(packet)) = read(&written(&body)) else {
            panic!("it is right")
        };
        assert_eq!(packet.body.gossip().unwrap().extensions, Extensions::default(), "{name}");
    }
}

proptest! {
    /// H114: whatever a few bytes are changed to, the packet is read or passed over, and what is
    /// read is written as something that is read as the same.
    #[test]
    fn changed_packets_are_read_or_passed_over(seed: u64) {
        let mut random = Random::from_seed(seed);
        let bodies = bodies();
        let mut bytes = written(&bodies[random.below(bodies.len() as u64) as usize]);
        for _ in 0..=random.below(4) {
            let tail = random.below(2) == 0 && bytes.len() > 2256;
            let first = if tail { 2256 } else { 0 };
            let at = first + random.below((bytes.len() - first) as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let mut reader = PacketReader::default();
        reader.feed(&bytes);
        if let Ok(Some(ReceivedPacket::Packet(packet))) = reader.next(LIMITS)
            && let Some(header) = &packet.header
        {
            let mut body = packet.body.clone();
            if let Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) = &mut body {
                gossip.extensions.unknown.clear();
                gossip.is_dropped = false;
            }
            let mut header = header.clone();
            header.message.supports_extensions = true;
            let again = read(&write_packet(&header, &body));
            let packet = Box::new(Packet { header: Some(header), body });
            prop_assert_eq!(again, Ok(ReceivedPacket::Packet(packet)));
        }
    }
}
