//! What is done instead of sending one command, a file each.

mod eval;
mod latency;
mod scan;
mod stat;

pub(crate) use eval::eval;
pub(crate) use latency::latency;
pub(crate) use scan::scan;
pub(crate) use stat::stat;
