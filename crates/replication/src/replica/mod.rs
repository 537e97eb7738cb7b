//! A replica's side of the link to its primary.
//!
//! Invariants: each byte of the stream is handed over once, in order, in whole units; what is kept
//! is bounded, whatever a primary sends; nothing but the primary's bytes moves the offset.
//!
//! How a driver runs [`ReplicaLink`]:
//!
//! - Calls come one at a time, with the clock's milliseconds; what is to be done is fetched with
//!   `take_actions` after each call, and done in order.
//! - `replicaof` and `promote` are REPLICAOF, also that of the configuration. A role changes in
//!   the driver's hands: clients, expiry, gates, and `History::promote` after what `promote` tells.
//! - `Connect` is answered by `connected` or `connect_failed`, and `closed` tells of the end that
//!   the other side made. With `Close` a connection is forgotten: no event of it comes afterwards.
//! - A full sync may have a second connection, `PrimaryChannel::Rdb`. While its data come and are
//!   loaded the first one's stream is told by `Hold`, to be kept by the driver; when `is_holding`
//!   is over it is shown again, before anything else of the first connection is, `released` as that
//!   goes, and with the first connection's end told behind it only.
//! - Bytes are read into a buffer per connection of the driver while `is_reading`; the buffer grows
//!   as they come. `received` is shown all of it, and when the actions are done, so many bytes are
//!   taken off its front. What stays is half a line, less than a mark, or half a unit: bounded by
//!   `unit_len_max`. With `Close` the buffer is emptied.
//! - `BeginLoad` makes a loader, `Rdb` feeds it, `EndOfRdb` asks for `loaded`; a loader that sees
//!   before that that the data is of no use calls `loaded` early. `AbortLoad` ends it without an
//!   answer. After `loaded`, `received` is called with what the buffer holds, also if nothing.
//! - `Stream` are whole units. Units go to the journal as they are, and to the lanes with the
//!   database told; from then on they are the driver's, and are never asked for again. Replies to
//!   them are thrown away; PING, SELECT and REPLCONF among them do nothing
//!   but count; a [`StreamParser`] begun in that database splits them again. `applied` tells the
//!   offset when the lanes have got there, `synced` when the disk. Lanes are empty, and scripts
//!   have ended, before data takes the place of other data.
//! - A driver that reads no more since its lanes are full shows `received` what it has once in a
//!   while: that silence is not the primary's. What a primary does not read is bounded there too.
//! - `SetHistory` and `Follow` are `History::adopt` and `History::shift_id`, and the end of the
//!   links of our own replicas if the id is another.
//! - `tick` is called a few times per second, `report` is for ROLE and INFO.

mod action;
mod channel;
mod check;
mod handover;
mod handshake;
mod line;
mod link;
mod phase;
mod psync;
mod receive;
mod report;
mod settings;
mod stream;
mod transfer;

#[cfg(test)]
mod tests;

pub use action::{LoadMode, LoadOrder, PrimaryChannel, RdbFraming, ReplicaAction, StreamCommands};
pub use channel::HeldBytes;
pub use check::{check_channels, check_link, check_stream};
pub use link::{Attempts, LoadOutcome, ReplicaLink};
pub use phase::LinkState;
pub use report::{LinkReport, SyncProgress};
pub use settings::{PrimaryAddress, ReplicaSettings, ReplicaofReply, ReplicaofTarget};
pub use stream::{StreamFault, StreamParser, StreamUnit};
