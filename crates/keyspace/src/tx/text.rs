//! Changing a string in part.
//!
//! Invariant: a string of more than `INLINE_MAX` bytes is a tree and a shorter one is not, save
//! that a tree never turns back by itself.

use std::sync::Arc;

use structs::blob::Blob;
use structs::object::Object;

use super::Tx;
use super::read_phase::TxPhase;
use super::write::Lifetime;
use crate::entry::{INLINE_MAX, NewText, Text};
use crate::refusal::Refusal;

/// How much of a buffer a value has to be that is to stay there.
const SHARE: (usize, usize) = (15, 16);

impl Tx {
    /// Says in what buffer the request came, where that came alone: a long value stays in it.
    pub fn came_in(&mut self, buffer: &Arc<Vec<u8>>) {
        if self.phase.is_none() {
            self.phase = Some(Box::new(TxPhase::Single(Arc::clone(buffer))));
        }
    }

    /// The value that a client's `SET` stores: an integer where the bytes are one, else the bytes.
    #[inline]
    pub fn text_from_client<'v>(&self, bytes: &'v [u8]) -> NewText<'v> {
        if bytes.len() > INLINE_MAX
            && let Some(blob) = self.left_in_buffer(bytes)
        {
            return NewText::Large(blob);
        }
        NewText::from_client(bytes)
    }

    #[cold]
    fn left_in_buffer(&self, bytes: &[u8]) -> Option<Blob> {
        let Some(TxPhase::Single(buffer)) = self.phase.as_deref() else { return None };
        let begin = bytes.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
        let lies_there = begin + bytes.len() <= buffer.len();
        (lies_there && bytes.len() / SHARE.0 >= buffer.capacity() / SHARE.1)
            .then(|| Blob::within(Arc::clone(buffer), begin..begin + bytes.len()))
    }

    /// Appends to the string at a key, which is made if absent. Returns the new length.
    pub fn append_text(&mut self, key: &[u8], tail: &[u8]) -> Result<usize, Refusal> {
        let len = self.peek_text(key)?.map_or(0, |text| text.len());
        self.write_text(key, len, tail)
    }

    /// Writes bytes over the string at a key from an offset on, with zeroes in any gap before
    /// them, which is there even if no bytes are. Returns the new length. The caller has checked
    /// it against the limit.
    pub fn write_text(
        &mut self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<usize, Refusal> {
        self.expire_if_due(key)?;
        let old = self.peek_text(key)?;
        let old_len = old.map_or(0, |text| text.len());
        let new_len = old_len.max(offset + bytes.len());
        if matches!(old, Some(Text::Large(_))) {
            let location = self.locate(key);
            let mut mutation = self.mutation(location)?;
            let (place, _) = mutation.find(key).expect("just seen");
            mutation
                .edit_object(place, |object| write_object(object, offset, bytes))
                .expect("a large string is an object");
            self.effects.add_changes(1);
            return Ok(new_len);
        }
        if matches!(old, Some(Text::Inline(_))) && new_len == old_len {
            let location = self.locate(key);
            let mut mutation = self.mutation(location)?;
            let (place, _) = mutation.find(key).expect("just seen");
            if mutation.patch_text(place, offset, bytes) {
                self.effects.add_changes(1);
                return Ok(new_len);
            }
        }
        let old = self.peek_text(key)?;
        let mut scratch = Vec::new();
        let old = old.map_or(&[][..], |text| text.contiguous(&mut scratch));
        if new_len > INLINE_MAX {
            let mut blob = Blob::from_slice(old);
            write_blob(&mut blob, offset, bytes);
            self.put_with(key, Lifetime::Keep, None, |_| Ok(NewText::Large(blob)))?;
            return Ok(new_len);
        }
        let mut whole = Vec::with_capacity(new_len);
        whole.extend_from_slice(old);
        whole.resize(new_len, 0);
        whole[offset..offset + bytes.len()].copy_from_slice(bytes);
        let value = NewText::Bytes { bytes: &whole, raw: true };
        self.put_with(key, Lifetime::Keep, None, |_| Ok(value))?;
        Ok(new_len)
    }
}

fn write_object(object: &mut Object, offset: usize, bytes: &[u8]) {
    let Object::Text(blob) = object else { unreachable!("the value is a string") };
    write_blob(blob, offset, bytes);
}

/// Writes, or without bytes only lengthens: a string in a tree does as one in its entry.
fn write_blob(blob: &mut Blob, offset: usize, bytes: &[u8]) {
    blob.set_len(blob.len().max(offset));
    blob.write_at(offset, bytes);
}
