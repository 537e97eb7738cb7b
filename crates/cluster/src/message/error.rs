//! Why bytes of the bus are no packet: the link is closed, or the packet passed over.
//!
//! Invariant: the texts are those of real servers where real servers have one.

use std::fmt;

use super::MessageType;

/// The stream cannot be followed any more: the link is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramingError {
    /// Not a packet, or one that is shorter than its header.
    Signature,
    /// A packet that is longer than any of its type may be.
    TooLong,
}

impl fmt::Display for FramingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Bad message length or signature received from Cluster bus.")
    }
}

impl std::error::Error for FramingError {}

/// The packet is passed over; the link stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketError {
    /// Another version of the protocol.
    Version(u16),
    /// A type that is not known.
    UnknownKind(u16),
    /// A type that has no light header.
    NotLight(MessageType),
    /// The lengths within do not add up to that of the packet.
    Length {
        /// The type.
        kind: MessageType,
        /// The length of the packet.
        found: u64,
        /// The length that its parts have.
        expected: u64,
    },
    /// An extension whose length is no multiple of eight, or too small to be one.
    Padding {
        /// The type.
        kind: MessageType,
        /// The length.
        length: u32,
    },
    /// An extension that ends behind the packet.
    ExtensionPastEnd {
        /// The type.
        kind: MessageType,
        /// The length of the packet.
        total: u64,
    },
    /// More gossip than the packet has room for.
    GossipPastEnd {
        /// The type.
        kind: MessageType,
        /// The number of entries.
        count: u16,
        /// The length of the packet.
        total: u64,
    },
    /// An id that is none.
    Id(MessageType),
    /// A node that is both a primary and a replica, or neither.
    Role(MessageType),
    /// An epoch that no cluster reaches.
    Epoch(MessageType),
}

impl fmt::Display for PacketError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PacketError::Version(version) => {
                write!(formatter, "Received packet of unknown protocol version: {version}")
            }
            PacketError::UnknownKind(number) => {
                write!(formatter, "Received unknown packet type: {number}")
            }
            PacketError::NotLight(kind) => {
                write!(formatter, "Received {} packet with a light header", kind.name())
            }
            PacketError::Length { kind, found, expected } => write!(
                formatter,
                "Received invalid {} packet of length {found} but expected length {expected}",
                kind.name()
            ),
            PacketError::Padding { kind, length } => write!(
                formatter,
                "Received a {} packet without proper padding ({length} bytes)",
                kind.name()
            ),
            PacketError::ExtensionPastEnd { kind, total } => write!(
                formatter,
                "Received invalid {} packet with extension data that exceeds total packet length \
                 ({total})",
                kind.name()
            ),
            PacketError::GossipPastEnd { kind, count, total } => write!(
                formatter,
                "Received invalid {} packet with gossip count {count} that exceeds total packet \
                 length ({total})",
                kind.name()
            ),
            PacketError::Id(kind) => {
                write!(
                    formatter,
                    "Received invalid {} packet with a malformed node ID",
                    kind.name()
                )
            }
            PacketError::Role(kind) => {
                write!(formatter, "Received invalid {} packet without a clear role", kind.name())
            }
            PacketError::Epoch(kind) => write!(
                formatter,
                "Received invalid {} packet with an epoch out of range",
                kind.name()
            ),
        }
    }
}

impl std::error::Error for PacketError {}
