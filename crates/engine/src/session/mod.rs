//! The state of a client's session, and what it waits for, without its connection.
//!
//! Invariant: nothing here knows a socket or a worker.

mod acl_subject;
mod blocked;
pub mod client_info;
pub mod fieldsets;
mod later;
pub mod life;
mod memcached;
pub mod multi;
pub mod needs;
pub mod output_ceiling;
pub mod patience;
mod replica;
mod request;
mod state;
mod steps;
mod suspension;
pub mod timer;
mod waiting;

pub use acl_subject::{
    AclSubject, Denied, NO_AUTH, Noted, Request, channels_of, denial, needs_password,
};
pub use blocked::{Blocked, Copies, Recheck, Safety};
pub use later::Later;
pub use memcached::{CLASSES, Class, Classes, EventWatch, MemcachedState};
pub(crate) use multi::{MultiQueue, MultiState};
pub(crate) use needs::Needs;
pub use replica::{AskedSync, ReplicaSession};
pub use request::{Grant, Round, Step, aborted, tx_options};
pub use state::Session;
pub use steps::{Stepped, Steps, Stepwise, Stride};
pub use suspension::{
    Accounted, Departures, Executed, OffloadResult, Parked, Resumable, Resumed, Suspension, Then,
};
pub use waiting::{
    BlockedClient, KeyWait, NEVER, Served, ServedWith, Waiting, WaitingCommand, await_end_of_wait,
    blocked, end_wait, keys_on_nokey, memory, unblock,
};
