//! The small forms of containers: one byte string each, in Redis' own layout where it has one.

#[cfg(test)]
mod tests;

/// Bytes that a small container may take, whatever the configured thresholds say. By those that
/// are there at first the largest is a hash of 512 fields with 64 bytes each for field and value,
/// and a deadline: 74,247 bytes, which must fit, as a small hash keeps the order of its fields.
pub const PACKED_MAX: usize = 76 * 1024;

/// How the bytes of a small container are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A listpack of elements, of member and score, or of field and value.
    Listpack,
    /// A listpack of field, value and deadline (0: none), the earliest deadlines first.
    TimedListpack,
    /// Sorted integers of one width.
    Intset,
    /// A listpack of an array's state, and of indexes and elements; no layout of Redis'.
    Sparse,
}

/// A small container's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRef<'a> {
    /// How to read them.
    pub packing: Packing,
    /// At most [`PACKED_MAX`].
    pub bytes: &'a [u8],
}

/// A small container taken out for editing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// How to read them.
    pub packing: Packing,
    /// What goes back into the entry's block.
    pub bytes: Vec<u8>,
}

impl Packing {
    /// The name that `OBJECT ENCODING` replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listpack => "listpack",
            Self::TimedListpack => "listpackex",
            Self::Intset => "intset",
            Self::Sparse => crate::array::ENCODING,
        }
    }
}

impl PackedRef<'_> {
    /// A copy to be edited.
    #[must_use]
    pub fn to_owned(self) -> Packed {
        Packed { packing: self.packing, bytes: self.bytes.to_vec() }
    }
}

impl Packed {
    /// The bytes to be read.
    #[must_use]
    pub fn borrow(&self) -> PackedRef<'_> {
        PackedRef { packing: self.packing, bytes: &self.bytes }
    }
}
