//! The backlog: the last part of the stream, and the only buffer of it. Links hold places in it,
//! never copies.
//!
//! Invariant: what a place still needs stays, whatever the size that is kept without need.
//!
//! Bytes are copied into one open piece of fixed length, under the lock that orders the stream.
//! A full piece is sealed without another copy and never changes again; readers clone handles of
//! sealed pieces. Of the open piece readers get tips: copies of what came since the last tip, each
//! made once for all readers, by the first one of a batch, and forgotten when the piece is sealed.
//! So a record costs one copy, and one more where links are up to date; neither `unsafe` nor an
//! atomic is needed for bytes, and a reader holds the lock only to clone handles.

mod buffer;
mod piece;
mod place;
#[cfg(test)]
mod tests;

pub use buffer::{Backlog, PIECE_BYTES, SIZE_MIN, pieces_of};
pub use piece::StreamSlice;
pub use place::Place;
