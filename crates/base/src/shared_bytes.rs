//! Bytes that somebody else keeps alive: what a reply pins instead of copying.
//!
//! Invariant: an implementation never changes while it is held; `len` and every chunk stay as
//! they were when it was handed out.

/// Immutable bytes, possibly scattered over several allocations.
pub trait SharedBytes: Send + Sync {
    /// The number of bytes in all chunks together.
    fn len(&self) -> usize;

    /// The longest contiguous run that starts at `offset`; empty only at or past the end.
    fn chunk_at(&self, offset: usize) -> &[u8];

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: AsRef<[u8]> + Send + Sync> SharedBytes for T {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        self.as_ref().get(offset..).unwrap_or_default()
    }
}
