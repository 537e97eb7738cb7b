//! The state of a client's session, and what it waits for, without its connection.
//!
//! Invariant: nothing here knows a socket or a worker.

mod blocked;
mod dialogue;
pub(crate) mod fieldsets;
mod later;
pub(crate) mod life;
mod member;
pub(crate) mod multi;
pub(crate) mod needs;
mod request;
mod stage;
mod state;
mod steps;
mod waiting;

pub(crate) use blocked::{Awaited, Blocked, Rousing, Safety};
pub(crate) use dialogue::{CLASSES, Class, Classes, Dialogue, Watch};
pub(crate) use later::Later;
pub(crate) use member::{
    AclSubject, Denied, Limited, NO_AUTH, Noted, Request, channels_of, denial, needs_password,
};
pub(crate) use multi::{Pending, Queue};
pub(crate) use needs::Needs;
pub(crate) use request::{Grant, Round, Step, aborted, tx_options};
pub(crate) use stage::{
    Accounted, Departures, Elsewhere, Parked, Ran, Resumable, Resumed, Stage, Then,
};
pub(crate) use state::Session;
pub(crate) use steps::{Stepped, Steps, Stepwise, Stride};
pub(crate) use waiting::{
    BlockedClient, NEVER, Place, Served, ServedWith, Waiting, WaitingCommand, blocked,
    keys_on_nokey, memory, unblock,
};
