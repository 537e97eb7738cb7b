//! A primary's view of its replicas; a replica that has replicas of its own keeps the same view.
//!
//! Invariants: the first byte of the stream that a replica gets is the one behind its cut, or the
//! one that was asked for; nothing comes between the header of all data and its end; a replica
//! that was promised all data gets it or is closed.
//!
//! How a driver runs [`Primary`]:
//!
//! - Calls come one at a time, with the clock's milliseconds; what is to be done is fetched with
//!   `take_actions` after each call, and done in order. `Send`s of one replica keep their order
//!   with its body, file and stream.
//! - A client's REPLCONF goes to `Primary::announce`, with the client's own [`ReplconfState`],
//!   until the client is attached, and to `Primary::replconf` from then on. Its PSYNC or SYNC goes
//!   to `Primary::sync`, behind the gates of all commands (loading, stale, MULTI), with the
//!   journal's lock held until the actions are done, so that what was judged to be kept still is
//!   when `Pin` takes its place.
//! - `CreateBacklog` and `FreeBacklog` are about the backlog, `Pin` gives a link a place in it,
//!   `Stream` lets bytes flow from there. `Append` is a record for the journal, as a write's.
//! - `StartSnapshot` is answered by `snapshot_cut` with the LSN of the cut, the world still
//!   stopped, or by `snapshot_failed`. Target socket: the driver then writes the same bytes to all
//!   replicas of the list that are still there, and calls `snapshot_streamed` when the last one is
//!   queued. Target disk: the driver calls `snapshot_saved` with the length. The file is to be kept
//!   as long as a replica is being sent it.
//! - `NoteSent` is answered by `body_sent` when the socket has taken all that was to be sent until
//!   then; `stalled` and `moved` are called as a socket stops and takes bytes again.
//! - `Close` ends a replica for the engine at once; the driver calls `closed` for all others that
//!   end. What was to be sent to a closed one is dropped, `CloseWhen::Flushed` apart.
//! - `tick` is called once a second, `end_of_turn` when waiting clients have been looked at,
//!   `weigh` when a link's debt has changed.
//! - A change of role or of history calls `drop_all`; the history itself is the driver's, and so
//!   are the counters of bytes, the sockets' options, and the words of INFO beside the rows.

mod action;
mod attached;
mod registry;
mod replconf_state;
mod report;
mod round_pauses;
mod rounds;
mod settings;
mod successor;
mod sync;
mod watch;

#[cfg(test)]
mod tests;

pub use action::{CloseWhen, LogLevel, PrimaryAction, RoundId, SnapshotTarget};
pub use attached::ReplicaId;
pub use registry::{Primary, RandomIds, SyncCounts};
pub use replconf_state::{
    Ack, Capabilities, IsNode, OWN_CAPABILITY, RdbReader, ReplconfReply, ReplconfState,
    Requirements,
};
pub use report::ReplicaRow;
pub use settings::{OutputLimit, PrimarySettings};
pub use successor::Successor;
pub use sync::{Role, ServerRole, StreamView, SyncKind, SyncRequest, SyncVerdict};
