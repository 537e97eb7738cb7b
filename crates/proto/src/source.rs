//! Replies that are made while they are sent: a million members leave without lying in memory a
//! second time.
//!
//! Invariant: a source owns all that it writes, so it needs no lock and sees one moment.

use crate::reply::{Reply, Resp};

/// The rest of a reply whose head was written already.
pub trait Source: Send {
    /// Writes on, about so many bytes and at least one element; whether there is more to come.
    fn write(&mut self, reply: &mut Reply<'_>, bytes: usize) -> bool;

    /// About how many bytes are still to come.
    fn bytes_left(&self) -> u64;
}

/// A source at the end of an output.
pub(crate) struct Stream {
    pub(crate) source: Box<dyn Source>,
    pub(crate) resp: Resp,
}
