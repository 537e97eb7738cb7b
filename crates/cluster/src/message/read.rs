//! Reads one packet out of its bytes.
//!
//! The layout is that of the header's table in the protocol: integers are big-endian, ids and
//! addresses have fixed room. Invariant: a packet whose parts do not add up to its length exactly
//! is not read.

use std::net::IpAddr;

use super::extension::Extensions;
use super::{
    Body, EPOCH_MAX, GOSSIP_LEN, GossipEntry, GossipSection, HEADER_LEN, Header, IP_LEN, LIGHT_BIT,
    LIGHT_HEADER_LEN, MessageFlags, MessageType, Packet, PacketError, VERSION,
};
use crate::flags::NodeFlags;
use crate::id::{ID_LEN, NodeId};
use crate::slots::{SET_LEN, SlotSet};

/// Fields taken one after the other. A caller has made sure that they are there.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.bytes(N).try_into().expect("so many bytes were taken")
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    fn ip(&mut self) -> Option<IpAddr> {
        let field = self.bytes(IP_LEN);
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(IP_LEN);
        std::str::from_utf8(&field[..end]).ok()?.parse().ok()
    }
}

/// What the header says of the packet, but not of its sender.
struct PacketHeader {
    kind: MessageType,
    gossip: u16,
    extensions: u16,
}

/// Reads a packet of at least the length of a header.
pub(super) fn packet(bytes: &[u8]) -> Result<Packet, PacketError> {
    let (head, rest) = bytes.split_at(HEADER_LEN);
    let (outline, header) = header(head)?;
    let total = bytes.len() as u64;
    let body = match outline.kind {
        MessageType::Ping => Body::Ping(read_gossip(&outline, &header, total, rest)?),
        MessageType::Pong => Body::Pong(read_gossip(&outline, &header, total, rest)?),
        MessageType::Meet => Body::Meet(read_gossip(&outline, &header, total, rest)?),
        kind => read_body(kind, HEADER_LEN, rest)?,
    };
    Ok(Packet { header: Some(header), body })
}

/// Reads a packet under a light header, of at least that length.
pub(super) fn read_light(bytes: &[u8]) -> Result<Packet, PacketError> {
    let (head, rest) = bytes.split_at(LIGHT_HEADER_LEN);
    let mut fields = Fields(&head[8..]);
    let version = fields.u16();
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    fields.bytes(2);
    let number = fields.u16() & !LIGHT_BIT;
    let kind = MessageType::from_number(number).ok_or(PacketError::UnknownKind(number))?;
    match kind {
        MessageType::Publish | MessageType::PublishShard | MessageType::Module => {}
        _ => return Err(PacketError::NotLight(kind)),
    }
    Ok(Packet { header: None, body: read_body(kind, LIGHT_HEADER_LEN, rest)? })
}

fn header(head: &[u8]) -> Result<(PacketHeader, Header), PacketError> {
    let mut fields = Fields(&head[8..]);
    let version = fields.u16();
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    let port = fields.u16();
    let number = fields.u16();
    let kind = MessageType::from_number(number).ok_or(PacketError::UnknownKind(number))?;
    let gossip = fields.u16();
    let (current_epoch, config_epoch) = (fields.u64(), fields.u64());
    if current_epoch > EPOCH_MAX || config_epoch > EPOCH_MAX {
        return Err(PacketError::Epoch(kind));
    }
    let offset = fields.u64();
    let sender = NodeId::parse(fields.bytes(ID_LEN)).ok_or(PacketError::Id(kind))?;
    let slots = SlotSet::from_wire(fields.bytes(SET_LEN));
    let primary = primary(fields.bytes(ID_LEN)).map_err(|()| PacketError::Id(kind))?;
    let ip = fields.ip();
    let extensions = fields.u16();
    fields.bytes(30);
    let (secondary_port, bus_port) = (fields.u16(), fields.u16());
    let flags = NodeFlags::from_bits(fields.u16());
    if flags.contains(NodeFlags::PRIMARY) == flags.contains(NodeFlags::REPLICA) {
        return Err(PacketError::Role(kind));
    }
    let [state, bits, ..] = fields.array::<4>();
    let message = MessageFlags {
        is_paused: bits & 1 != 0,
        forces_ack: bits & 2 != 0,
        supports_extensions: bits & 4 != 0,
    };
    let header = Header {
        sender,
        current_epoch,
        config_epoch,
        offset,
        slots,
        primary,
        ip,
        port,
        secondary_port,
        bus_port,
        flags,
        is_down: state != 0,
        message,
    };
    Ok((PacketHeader { kind, gossip, extensions }, header))
}

/// A primary's id; zeros are none.
fn primary(field: &[u8]) -> Result<Option<NodeId>, ()> {
    if field.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    NodeId::parse(field).map(Some).ok_or(())
}

fn read_gossip(
    outline: &PacketHeader,
    header: &Header,
    total: u64,
    rest: &[u8],
) -> Result<GossipSection, PacketError> {
    let PacketHeader { kind, gossip: count, extensions } = *outline;
    let length = usize::from(count) * GOSSIP_LEN;
    let Some((listed, rest)) = rest.split_at_checked(length) else {
        return Err(PacketError::GossipPastEnd { kind, count, total });
    };
    let extensions = if header.message.supports_extensions { extensions } else { 0 };
    let extensions = Extensions::read(kind, total, extensions, rest)?;
    let entries: Option<Vec<GossipEntry>> = listed.chunks_exact(GOSSIP_LEN).map(entry).collect();
    let is_dropped = entries.is_none();
    Ok(GossipSection { entries: entries.unwrap_or_default(), extensions, is_dropped })
}

fn entry(bytes: &[u8]) -> Option<GossipEntry> {
    let mut fields = Fields(bytes);
    Some(GossipEntry {
        id: NodeId::parse(fields.bytes(ID_LEN))?,
        ping_sent: fields.u32(),
        pong_received: fields.u32(),
        ip: fields.ip(),
        port: fields.u16(),
        bus_port: fields.u16(),
        flags: NodeFlags::from_bits(fields.u16()),
        secondary_port: fields.u16(),
    })
}

/// Reads a body that has no gossip; `before` is the length of the header.
fn read_body(kind: MessageType, before: usize, rest: &[u8]) -> Result<Body, PacketError> {
    let found = (before + rest.len()) as u64;
    let wrong = |least: u64| PacketError::Length { kind, found, expected: before as u64 + least };
    let exactly = |length: u64| {
        if rest.len() as u64 == length { Ok(Fields(rest)) } else { Err(wrong(length)) }
    };
    match kind {
        MessageType::Ping | MessageType::Pong | MessageType::Meet => Err(wrong(0)),
        MessageType::AuthRequest => exactly(0).map(|_| Body::AuthRequest),
        MessageType::AuthAck => exactly(0).map(|_| Body::AuthAck),
        MessageType::ManualFailoverStart => exactly(0).map(|_| Body::ManualFailoverStart),
        MessageType::Fail => {
            let id = NodeId::parse(exactly(ID_LEN as u64)?.0);
            id.map(Body::Fail).ok_or(PacketError::Id(kind))
        }
        MessageType::Update => {
            let mut fields = exactly((8 + ID_LEN + SET_LEN) as u64)?;
            let config_epoch = fields.u64();
            if config_epoch > EPOCH_MAX {
                return Err(PacketError::Epoch(kind));
            }
            let owner = NodeId::parse(fields.bytes(ID_LEN)).ok_or(PacketError::Id(kind))?;
            Ok(Body::Update { config_epoch, owner, slots: SlotSet::from_wire(fields.0) })
        }
        MessageType::Publish | MessageType::PublishShard => {
            let lengths = rest.first_chunk::<8>().ok_or_else(|| wrong(8))?;
            let mut fields = Fields(lengths);
            let (channel, message) = (u64::from(fields.u32()), u64::from(fields.u32()));
            let mut fields = exactly(8 + channel + message)?;
            fields.bytes(8);
            let (channel, message) = fields.0.split_at(channel as usize);
            let (channel, message) = (channel.to_vec(), message.to_vec());
            Ok(match kind {
                MessageType::Publish => Body::Publish { channel, message },
                _ => Body::PublishShard { channel, message },
            })
        }
        MessageType::Module => {
            let head = rest.first_chunk::<13>().ok_or_else(|| wrong(13))?;
            let mut fields = Fields(head);
            let module = fields.array();
            let length = u64::from(fields.u32());
            let [kind] = fields.array();
            let payload = exactly(13 + length)?.0[13..].to_vec();
            Ok(Body::Module { module, kind, payload })
        }
    }
}
