//! Where the data of this node stand in the stream of its primary.
//!
//! Invariant: an offset counts, here and for others, only within the history of the present
//! primary. A replica that has nothing of that yet tells the offset 0, whatever it had before.

use super::Cluster;
use super::event::{Millis, StreamPosition};
use crate::id::{NodeId, ShardId};

impl Cluster {
    /// Takes what the driver tells, unless the node has another primary by now.
    pub(super) fn record_position(
        &mut self,
        primary: Option<NodeId>,
        position: StreamPosition,
        silence: Option<Millis>,
    ) {
        if primary != self.own().primary() {
            return;
        }
        let offset = match position {
            StreamPosition::Nowhere => 0,
            StreamPosition::Stopped(offset) | StreamPosition::Flowing(offset) => offset,
        };
        self.has_foreign_data &= position == StreamPosition::Nowhere;
        self.own_mut().offset = offset;
        (self.position, self.silence) = (position, silence);
        self.advance_manual();
    }

    /// The node follows another primary, of this shard: what it has is of none of its history, as
    /// far as is known.
    pub(super) fn forget_position(&mut self, shard: ShardId) {
        self.has_foreign_data |= self.own().shard != shard;
        self.own_mut().offset = 0;
        (self.position, self.silence) = (StreamPosition::Nowhere, None);
    }
}
