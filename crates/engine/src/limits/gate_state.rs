//! Why a command waits or is refused: what the gates ask, from a primary's role to a full disk.
//!
//! Invariant: whoever knows of a reason sets it and takes it back; a gate only reads.

use keyspace::Keyspace;

use crate::limits::copied_slots::CopiedSlots;
use crate::limits::loading::Loading;
use crate::limits::long_running::LongRunning;
use crate::limits::pause::Pause;
use crate::limits::quotas::Quotas;
use crate::limits::replica_role::ReplicaRole;
use crate::limits::slot_map::SlotRouting;
use crate::limits::write_refusals::WriteRefusals;
use crate::runtime::backpressure::Backpressure;
use crate::runtime::shutdown_request::ShutdownRequest;

/// The reasons for which commands wait or are refused.
pub struct GateState {
    /// Why writes are refused.
    pub write_refusals: WriteRefusals,
    /// Commands that others may have to wait for.
    pub(crate) long_running: LongRunning,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// What users and databases take, and may take.
    pub quotas: Quotas,
    /// Whether this is a replica; `keyspace_settings::set_replica` changes it.
    pub replica_role: ReplicaRole,
    /// Which node of a cluster serves what; no cluster without a table.
    pub routing: SlotRouting,
    /// The slots whose keys may be dropped here once others serve them.
    pub copied_slots: CopiedSlots,
    /// Whether data are being loaded, and how far that is.
    pub loading: Loading,
    /// Whether the process is about to end.
    pub shutdown_request: ShutdownRequest,
    /// On while a snapshot, or the log, has no room for what more writes would leave it.
    pub snapshot_backpressure: Backpressure,
    /// On while the append-only file has no room for what more writes would leave.
    pub log_backpressure: Backpressure,
    /// On while there is no room for more messages to other nodes of a cluster.
    pub message_backpressure: Backpressure,
}

impl GateState {
    /// Has all that wait look again where many may be over.
    pub(crate) fn sweep(&self) {
        self.pause.sweep();
        [&self.snapshot_backpressure, &self.log_backpressure, &self.message_backpressure]
            .into_iter()
            .for_each(Backpressure::sweep);
    }

    pub(crate) fn new(keyspace: &'static Keyspace) -> Self {
        Self {
            write_refusals: WriteRefusals::default(),
            long_running: LongRunning::default(),
            pause: Pause::new(keyspace),
            quotas: Quotas::default(),
            replica_role: ReplicaRole::default(),
            routing: SlotRouting::default(),
            copied_slots: CopiedSlots::default(),
            loading: Loading::default(),
            shutdown_request: ShutdownRequest::default(),
            snapshot_backpressure: Backpressure::default(),
            log_backpressure: Backpressure::default(),
            message_backpressure: Backpressure::default(),
        }
    }

    /// What has no room at present for what writes would leave on a disk.
    #[inline]
    pub fn write_backpressure(&self) -> Option<&Backpressure> {
        [&self.snapshot_backpressure, &self.log_backpressure]
            .into_iter()
            .find(|backpressure| backpressure.is_on())
    }
}
