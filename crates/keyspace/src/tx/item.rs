//! Strings as memcached's clients see them: with notes, and with a version to compare.
//!
//! Invariant: neither notes nor versions are changes to observers of the data, unless a value
//! changes with them.

use structs::object::Kind;

use super::Tx;
use super::write::Lifetime;
use crate::entry::{ItemNotes, NewText};
use crate::refusal::Refusal;

impl Tx {
    /// Stores a string with notes, whatever was there. Returns the type of that.
    #[inline]
    pub fn put_item(
        &mut self,
        key: &[u8],
        value: NewText<'_>,
        lifetime: Lifetime,
        notes: ItemNotes,
    ) -> Result<Option<Kind>, Refusal> {
        self.put_with(key, lifetime, Some(notes), |_| Ok(value))
    }

    /// The version of a key's value, which is told from now on if none was; `None` if the key is
    /// absent.
    pub fn version(&mut self, key: &[u8]) -> Result<Option<u64>, Refusal> {
        let Some(entry) = self.peek(key)? else { return Ok(None) };
        if let Some(version) = entry.version() {
            return Ok(Some(version));
        }
        let version = self.keyspace.next_version();
        self.set_version(key, version)?;
        Ok(Some(version))
    }

    /// Sets the version of a key's value, if there is one; with 0 the next lookup gives a new one.
    pub fn set_version(&mut self, key: &[u8], version: u64) -> Result<(), Refusal> {
        self.without_modified_keys(|tx| {
            let location = tx.locate(key);
            let mut mutation = tx.mutation(location)?;
            if let Some((place, _)) = mutation.find(key) {
                mutation.set_version(place, version);
            }
            Ok(())
        })
    }

    /// Replaces the notes of a key, if it is there; whether it is.
    pub fn set_notes(&mut self, key: &[u8], notes: ItemNotes) -> Result<bool, Refusal> {
        self.expire_if_due(key)?;
        self.without_modified_keys(|tx| {
            let location = tx.locate(key);
            let mut mutation = tx.mutation(location)?;
            let Some((place, entry)) = mutation.find(key) else { return Ok(false) };
            if entry.notes() != notes {
                mutation.set_notes(place, notes);
            }
            Ok(true)
        })
    }
}
