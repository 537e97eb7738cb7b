//! Programs of several commands on one transaction, and what runs the commands that steer.
//!
//! Invariant: nothing here knows what prepares a program or which control commands there are.

pub mod control_plane;
pub mod engine;
pub mod unit;
