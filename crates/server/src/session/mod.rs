//! The state of a client's session, and what it waits for, without its connection.
//!
//! Invariant: nothing here knows a socket or a worker.

mod blocked;
pub(crate) mod fieldsets;
mod later;
pub(crate) mod life;
mod request;
mod stage;
mod state;
mod steps;

pub(crate) use blocked::{Awaited, Blocked, Rousing, Safety};
pub(crate) use later::Later;
pub(crate) use request::{Grant, Round, Step, tx_options};
pub(crate) use stage::{Departures, Elsewhere, Parked, Ran, Stage, Then};
pub(crate) use state::Session;
pub(crate) use steps::{Stepped, Steps, Stepwise, Stride};
