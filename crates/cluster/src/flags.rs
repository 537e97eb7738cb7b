//! What a node says of itself and of others in sixteen bits.
//!
//! Invariant: bits that are not known here are kept as they came, and never acted upon: 256, that
//! replicas of others may move to this primary, and 2048, that the node reads published messages
//! under a light header (Valkey 8).

/// Flags of a node, on the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFlags(u16);

impl NodeFlags {
    /// The node is a primary.
    pub const PRIMARY: NodeFlags = NodeFlags(1);
    /// The node is a replica.
    pub const REPLICA: NodeFlags = NodeFlags(2);
    /// The node is suspected by one other.
    pub const PFAIL: NodeFlags = NodeFlags(4);
    /// The node is down by the word of a majority.
    pub const FAIL: NodeFlags = NodeFlags(8);
    /// The node is the one that speaks.
    pub const MYSELF: NodeFlags = NodeFlags(16);
    /// The node has not been met yet.
    pub const HANDSHAKE: NodeFlags = NodeFlags(32);
    /// The address of the node is not known.
    pub const NOADDR: NodeFlags = NodeFlags(64);
    /// The node is to be sent MEET.
    pub const MEET: NodeFlags = NodeFlags(128);
    /// The replica does not fail over by itself.
    pub const NOFAILOVER: NodeFlags = NodeFlags(512);
    /// The node reads extensions of pings.
    pub const EXTENSIONS: NodeFlags = NodeFlags(1024);

    /// The flags of these bits.
    pub const fn from_bits(bits: u16) -> NodeFlags {
        NodeFlags(bits)
    }

    /// The bits of these flags.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: NodeFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    pub const fn intersects(self, flags: NodeFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// These flags and `flags`.
    #[must_use]
    pub const fn with(self, flags: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 | flags.0)
    }

    /// These flags but for `flags`.
    #[must_use]
    pub const fn without(self, flags: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 & !flags.0)
    }
}
