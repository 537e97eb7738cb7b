//! engine.

pub mod live;
