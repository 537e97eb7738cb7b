//! Where values are written to.
//!
//! Invariant: whether strings are compressed is decided once, so that all of a file is written
//! alike.

use crate::lzf::Packer;

/// Bytes that grow, and how strings are written among them.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    packer: Option<Box<Packer>>,
}

impl Writer {
    /// An empty one, which compresses strings or leaves them as they are.
    #[must_use]
    pub fn new(compresses: bool) -> Self {
        Self { bytes: Vec::new(), packer: compresses.then(Box::default) }
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What was written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written, and nothing more to come.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Takes what was written, and has room for as much again.
    #[must_use]
    pub(super) fn take(&mut self) -> Vec<u8> {
        let room = Vec::with_capacity(self.bytes.len());
        std::mem::replace(&mut self.bytes, room)
    }

    /// Shows `write` the packed form of a string; `false` if there is none that is shorter.
    pub(super) fn pack(&mut self, bytes: &[u8], write: impl FnOnce(&mut Self, &[u8])) -> bool {
        let Some(mut packer) = self.packer.take() else { return false };
        let packed = packer.pack(bytes);
        let is_shorter = packed.is_some();
        if let Some(packed) = packed {
            write(self, packed);
        }
        self.packer = Some(packer);
        is_shorter
    }
}
