//! HTTP for those who watch the server: metrics, health, and INFO as JSON.
//!
//! A thread of its own serves it, so that no worker knows of it; what it says is read from the same
//! places as INFO. The thread changes nothing.
//!
//! Invariant: who asks for figures has the right to run INFO; health is told to everybody, without
//! a figure.

mod access;
mod health;
mod listener;
mod metrics;
mod routes;
mod state;

pub(crate) use listener::open;
pub(crate) use state::HttpState;
