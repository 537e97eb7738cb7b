//! The bytes of a link, cut into packets.
//!
//! Invariant: no more is kept than what has arrived, and no packet longer than its type allows is
//! waited for.

use super::{
    FramingError, GOSSIP_LEN, HEADER_LEN, LIGHT_BIT, LIGHT_HEADER_LEN, MessageType, Packet,
    PacketError, SIGNATURE, read,
};

/// How long packets may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most nodes that one packet may gossip about.
    pub nodes: usize,
    /// The most bytes of a channel and a message.
    pub payload: usize,
}

/// Room for the extensions of a packet.
const EXTENSIONS_MAX: usize = 64 << 10;

impl Limits {
    /// The length of the longest packet of a type, which may be an unknown one.
    fn longest(self, kind: Option<MessageType>) -> u64 {
        let behind = match kind {
            Some(MessageType::Ping | MessageType::Pong | MessageType::Meet) => {
                self.nodes.saturating_mul(GOSSIP_LEN).saturating_add(EXTENSIONS_MAX)
            }
            Some(MessageType::Publish | MessageType::PublishShard | MessageType::Module) => {
                self.payload.saturating_add(64)
            }
            _ => EXTENSIONS_MAX,
        };
        HEADER_LEN.saturating_add(behind) as u64
    }
}

/// Something that has arrived whole.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are packets, and none is kept")]
pub enum ReceivedPacket {
    /// A packet.
    Packet(Box<Packet>),
    /// A packet that is to be passed over.
    Ignored(PacketError),
}

/// Cuts the bytes of one link into packets.
#[derive(Debug, Default)]
pub struct PacketReader {
    buffer: Vec<u8>,
    /// Where in the buffer the next packet begins.
    start: usize,
}

/// An empty buffer that is greater than this is given back.
const KEPT_MAX: usize = 64 << 10;

impl PacketReader {
    /// Takes bytes as they have come.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_MAX {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The memory that is held.
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// The next packet, if it is whole.
    pub fn next(&mut self, limits: Limits) -> Result<Option<ReceivedPacket>, FramingError> {
        let waiting = &self.buffer[self.start..];
        let seen = waiting.len().min(SIGNATURE.len());
        if waiting[..seen] != SIGNATURE[..seen] {
            return Err(FramingError::Signature);
        }
        let Some(head) = waiting.first_chunk::<LIGHT_HEADER_LEN>() else { return Ok(None) };
        let [_, _, _, _, a, b, c, d, _, _, _, _, type_high, type_low, ..] = *head;
        let total = u32::from_be_bytes([a, b, c, d]);
        let number = u16::from_be_bytes([type_high, type_low]);
        let is_light = number & LIGHT_BIT != 0;
        if (total as usize) < if is_light { LIGHT_HEADER_LEN } else { HEADER_LEN } {
            return Err(FramingError::Signature);
        }
        if u64::from(total) > limits.longest(MessageType::from_number(number & !LIGHT_BIT)) {
            return Err(FramingError::TooLong);
        }
        let Some(bytes) = waiting.get(..total as usize) else { return Ok(None) };
        let read = if is_light { read::light(bytes) } else { read::packet(bytes) };
        self.start += total as usize;
        Ok(Some(match read {
            Ok(packet) => ReceivedPacket::Packet(Box::new(packet)),
            Err(error) => ReceivedPacket::Ignored(error),
        }))
    }
}
