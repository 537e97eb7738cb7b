//! HTTP for operators and monitoring systems: metrics, health, the dashboard and its API.
//!
//! A thread of its own serves it, and another one makes the answers that take long, behind which
//! health does not wait. Figures are read from the same places as INFO; what takes a command is run
//! by a worker, in a session of the caller's user.
//!
//! Invariants: a caller that asks for figures has the right to run INFO; health is told to all,
//! without a figure; a command is run with the rights of the caller's user and no others.

mod access;
mod answer_memory;
mod api;
mod command_session;
mod health;
mod json;
mod listener;
mod metrics;
mod origin;
mod page;
mod patient_stream;
mod query;
mod response;
mod routes;
mod state;

pub(crate) use listener::open;
pub use metrics::{MetricFamily, metric_families};
pub(crate) use metrics::{NamePermissions, values as metric_values};
pub(crate) use state::HttpState;
