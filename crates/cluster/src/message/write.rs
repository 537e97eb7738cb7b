//! Writes packets, to the byte as real servers do.
//!
//! Invariant: the length in a packet's header is that of the packet.

use std::net::IpAddr;

use super::{
    Body, GossipEntry, GossipSection, HEADER_LEN, Header, IP_LEN, LIGHT_BIT, SIGNATURE, VERSION,
};
use crate::id::{ID_LEN, NodeId};

/// The bytes of a packet.
pub fn write_packet(header: &Header, body: &Body) -> Vec<u8> {
    let entries = body.gossip().map_or(0, |gossip| gossip.entries.len());
    let entries = u16::try_from(entries).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(HEADER_LEN + usize::from(entries) * 104 + 128);
    out.extend(SIGNATURE);
    out.extend([0; 4]);
    out.extend(VERSION.to_be_bytes());
    out.extend(header.port.to_be_bytes());
    out.extend(body.kind().number().to_be_bytes());
    out.extend(entries.to_be_bytes());
    out.extend(header.current_epoch.to_be_bytes());
    out.extend(header.config_epoch.to_be_bytes());
    out.extend(header.offset.to_be_bytes());
    out.extend(header.sender.as_bytes());
    header.slots.put_wire(&mut out);
    out.extend(header.primary.as_ref().map_or(&[0; ID_LEN], NodeId::as_bytes));
    put_ip(header.ip, &mut out);
    let extensions_at = out.len();
    out.extend([0; 2 + 30]);
    out.extend(header.secondary_port.to_be_bytes());
    out.extend(header.bus_port.to_be_bytes());
    out.extend(header.flags.bits().to_be_bytes());
    let message = header.message;
    let bits = u8::from(message.is_paused)
        | u8::from(message.forces_ack) << 1
        | u8::from(message.supports_extensions) << 2;
    out.extend([u8::from(header.is_down), bits, 0, 0]);
    debug_assert_eq!(out.len(), HEADER_LEN);
    let extensions = put_body(body, usize::from(entries), &mut out);
    out[extensions_at..extensions_at + 2].copy_from_slice(&extensions.to_be_bytes());
    seal(out)
}

/// The bytes of a packet under Valkey's light header; none if its type has no such header.
pub fn write_light_packet(body: &Body) -> Option<Vec<u8>> {
    if !matches!(body, Body::Publish { .. } | Body::PublishShard { .. } | Body::Module { .. }) {
        return None;
    }
    let mut out = Vec::new();
    out.extend(SIGNATURE);
    out.extend([0; 4]);
    out.extend(VERSION.to_be_bytes());
    out.extend([0; 2]);
    out.extend((body.kind().number() | LIGHT_BIT).to_be_bytes());
    out.extend([0; 2]);
    put_body(body, 0, &mut out);
    Some(seal(out))
}

/// Puts the length where it belongs.
fn seal(mut out: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(out.len()).expect("a message is shorter than a bulk string may be");
    out[4..8].copy_from_slice(&length.to_be_bytes());
    out
}

/// Appends the body, and says how many extensions it has.
fn put_body(body: &Body, entries: usize, out: &mut Vec<u8>) -> u16 {
    match body {
        Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => {
            return put_gossip(gossip, entries, out);
        }
        Body::AuthRequest | Body::AuthAck | Body::ManualFailoverStart => {}
        Body::Fail(id) => out.extend(id.as_bytes()),
        Body::Publish { channel, message } | Body::PublishShard { channel, message } => {
            out.extend((channel.len() as u32).to_be_bytes());
            out.extend((message.len() as u32).to_be_bytes());
            out.extend(channel);
            out.extend(message);
        }
        Body::Update { config_epoch, owner, slots } => {
            out.extend(config_epoch.to_be_bytes());
            out.extend(owner.as_bytes());
            slots.put_wire(out);
        }
        Body::Module { module, kind, payload } => {
            out.extend(module);
            out.extend((payload.len() as u32).to_be_bytes());
            out.push(*kind);
            out.extend(payload);
        }
    }
    0
}

fn put_gossip(gossip: &GossipSection, entries: usize, out: &mut Vec<u8>) -> u16 {
    for entry in &gossip.entries[..entries] {
        put_entry(entry, out);
    }
    gossip.extensions.write(out)
}

fn put_entry(entry: &GossipEntry, out: &mut Vec<u8>) {
    out.extend(entry.id.as_bytes());
    out.extend(entry.ping_sent.to_be_bytes());
    out.extend(entry.pong_received.to_be_bytes());
    put_ip(entry.ip, out);
    out.extend(entry.port.to_be_bytes());
    out.extend(entry.bus_port.to_be_bytes());
    out.extend(entry.flags.bits().to_be_bytes());
    out.extend(entry.secondary_port.to_be_bytes());
    out.extend([0; 2]);
}

fn put_ip(ip: Option<IpAddr>, out: &mut Vec<u8>) {
    let text = ip.map(|ip| ip.to_string()).unwrap_or_default();
    out.extend(text.as_bytes());
    out.resize(out.len() + IP_LEN - text.len(), 0);
}
