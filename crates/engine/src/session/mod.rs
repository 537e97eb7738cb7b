//! The state of a client's session, and what it waits for, without its connection.
//!
//! Invariant: nothing here knows a socket or a worker.

mod accounts;
mod acl_subject;
mod blocked;
pub mod client_info;
pub mod fieldsets;
mod forwarding;
mod importing_slots;
pub mod life;
pub mod lock_set;
pub mod lost_channels;
mod memcached;
pub mod multi;
pub mod output_ceiling;
pub mod patience;
mod pending_input;
mod replica;
mod request;
mod state;
mod steps;
mod suspension;
pub mod timer;
mod waiting;

pub(crate) use accounts::{OtherDatabaseUsage, SessionAccounts};
pub(crate) use acl_subject::databases;
pub use acl_subject::{
    AclLogRecord, AclSubject, Denied, NO_AUTH, Request, channels_of, denial, needs_password,
};
pub use blocked::{AckRequirement, AckWait, Blocked, Recheck};
pub use forwarding::{
    ClusterProxy, ForwardBatch, ForwardBody, ForwardOrder, ForwardedReplies, ForwardedRequest,
    ForwardedWait, PROXY_LIBRARY, QueuedRequests,
};
pub use importing_slots::ImportingSlots;
pub(crate) use lock_set::LockSet;
pub use memcached::{CLASSES, EventWatch, MemcachedState, WatchClass, WatchClasses};
pub(crate) use multi::{MultiQueue, MultiState};
pub use pending_input::PendingInput;
pub use replica::{AskedSync, ReplicaSession};
pub(crate) use request::ClientView;
pub use request::{LockWaitEnd, RequestAttempt, Step, aborted, tx_options};
pub use state::Session;
pub use steps::{StepContext, StepOutcome, SteppedWork, Steps};
pub use suspension::{
    AfterOffload, ExecutedCommand, OffloadResult, Parked, ProgramAccounts, Resumable, Resumed,
    SessionEndWait, Suspension,
};
pub use waiting::{
    BlockedClient, KeyWait, NEVER, Served, ServedWith, Waiting, WaitingCommand, await_end_of_wait,
    blocked, end_wait, keys_on_nokey, memory, unblock,
};
