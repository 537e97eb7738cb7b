//! Where values are written to.
//!
//! Invariant: whether strings are compressed is decided once, so that all of a file is written
//! alike.

use crate::lzf::Compressor;

/// Bytes from which on what is written of a value leaves before the value is written whole.
const PIECE: usize = 256 << 10;

/// Takes what is written of a value that goes on behind it.
pub(super) type PartialFlush = Box<dyn FnMut(Vec<u8>)>;

/// Bytes that grow, and how strings are written among them.
pub struct Writer {
    bytes: Vec<u8>,
    packer: Option<Box<Compressor>>,
    outlet: Option<PartialFlush>,
}

impl Writer {
    /// An empty one, which compresses strings or leaves them as they are.
    #[must_use]
    pub fn new(compresses: bool) -> Self {
        Self { bytes: Vec::new(), packer: compresses.then(Box::default), outlet: None }
    }

    /// One that lets go of large values piece by piece.
    #[must_use]
    pub(super) fn with_outlet(compresses: bool, outlet: PartialFlush) -> Self {
        Self { outlet: Some(outlet), ..Self::new(compresses) }
    }

    /// Called within a value, between its elements: lets go of what was written if that is much.
    #[inline]
    pub(crate) fn flush_if_large(&mut self) {
        if self.bytes.len() >= PIECE && self.outlet.is_some() {
            self.flush_to_outlet();
        }
    }

    #[cold]
    fn flush_to_outlet(&mut self) {
        let bytes = self.take();
        if let Some(outlet) = &mut self.outlet {
            outlet(bytes);
        }
    }

    /// The bytes, to be appended to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
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

    /// Shows `write` the form of a string that `pack` makes; `false` if there is none.
    pub(super) fn pack(
        &mut self,
        pack: impl FnOnce(&mut Compressor) -> Option<&[u8]>,
        write: impl FnOnce(&mut Self, &[u8]),
    ) -> bool {
        let Some(mut packer) = self.packer.take() else { return false };
        let packed = pack(&mut packer);
        let is_shorter = packed.is_some();
        if let Some(packed) = packed {
            write(self, packed);
        }
        self.packer = Some(packer);
        is_shorter
    }
}
