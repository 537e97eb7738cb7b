//! Reading and changing containers, each through its type.
//!
//! Invariant: a container without elements does not exist, so an edit that leaves none removes the
//! key, and one that makes the first adds it.

use structs::object::{Container, NewStored, Object, Stored};

use super::Tx;
use super::effects::EventClass;
use super::write::Lifetime;
use crate::entry::{EntryBox, EntryRef};
use crate::refusal::Refusal;

/// What became of a key whose container was edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Kept,
    /// It had its last element taken and is gone; the caller reports `del`.
    Removed,
    /// There was and is none.
    Absent,
}

impl Tx {
    /// The container at a key, as a reading command sees it.
    #[inline]
    pub fn view<C: Container>(&self, key: &[u8]) -> Result<Option<C::Ref<'_>>, Refusal> {
        self.read(key)?.map(view_of::<C>).transpose()
    }

    /// The container at a key, leaving no trace.
    #[inline]
    pub fn peek_view<C: Container>(&self, key: &[u8]) -> Result<Option<C::Ref<'_>>, Refusal> {
        self.peek(key)?.map(view_of::<C>).transpose()
    }

    /// Changes the container at a key, or a new one where there is none. The edit counts no change
    /// by itself: the command does, by Redis' rule for it.
    pub fn edit<C: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut C) -> R,
    ) -> Result<(R, Outcome), Refusal> {
        let (now, location) = (self.options.now, self.locate(key));
        let suspended = self.keyspace.settings().suspends_expiry();
        let Some((mut door, access)) = self.door_and_clock(location) else {
            return Err(self.refuse_beyond(location.partition));
        };
        let Some((place, entry)) = door.find(key) else {
            let mut container = C::default();
            let result = edit(&mut container);
            let Some(stored) = container.store() else { return Ok((result, Outcome::Absent)) };
            let mut entry = EntryBox::container(key, C::KIND, stored, None);
            entry.set_access_clock(access.fresh());
            door.insert(entry);
            self.event(EventClass::New, "new", key);
            return Ok((result, Outcome::Kept));
        };
        if entry.is_expired(now) && !suspended {
            self.expire_if_due(key)?;
            return self.edit(key, edit);
        }
        let (deadline, clock) = (entry.deadline(), access.accessed(entry.access_clock()));
        let (container, result) = match small_of::<C>(entry)? {
            Some(mut container) => {
                let result = edit(&mut container);
                (container, result)
            }
            None => {
                let edited = door.edit_object(place, |object| edit_large(object, edit));
                match edited.expect("what is not small is an object") {
                    (Some(container), result) => (container, result),
                    (None, result) => {
                        door.entry(place).set_access_clock(clock);
                        return Ok((result, Outcome::Kept));
                    }
                }
            }
        };
        let Some(stored) = container.store() else {
            let entry = door.remove(place);
            self.discard(entry);
            return Ok((result, Outcome::Removed));
        };
        if let NewStored::Packed(packed) = &stored
            && door.overwrite_packed(place, packed.borrow())
        {
            door.entry(place).set_access_clock(clock);
            return Ok((result, Outcome::Kept));
        }
        let mut entry = EntryBox::container(key, C::KIND, stored, deadline);
        entry.set_access_clock(clock);
        door.replace(place, entry);
        Ok((result, Outcome::Kept))
    }

    /// Stores a container, whatever was there; one without elements removes the key. Returns
    /// whether the key existed.
    pub fn put<C: Container>(
        &mut self,
        key: &[u8],
        container: C,
        lifetime: Lifetime,
    ) -> Result<bool, Refusal> {
        let Some(stored) = container.store() else { return self.delete(key) };
        self.expire_if_due(key)?;
        let old = self.peek(key)?;
        let existed = old.is_some();
        let deadline = lifetime.applied_to(old.and_then(EntryRef::deadline));
        let mut entry = EntryBox::container(key, C::KIND, stored, deadline);
        entry.set_access_clock(self.access.fresh());
        self.place(entry)?;
        Ok(existed)
    }
}

fn view_of<C: Container>(entry: EntryRef<'_>) -> Result<C::Ref<'_>, Refusal> {
    if entry.kind() != C::KIND {
        return Err(Refusal::WrongType);
    }
    Ok(C::view(entry.stored().expect("every other kind than a string is a container")))
}

/// The small form, taken out for editing; `None` where the value is large and edited in place.
fn small_of<C: Container>(entry: EntryRef<'_>) -> Result<Option<C>, Refusal> {
    if entry.kind() != C::KIND {
        return Err(Refusal::WrongType);
    }
    match entry.stored().expect("every other kind than a string is a container") {
        Stored::Packed(packed) => Ok(Some(C::from_packed(packed.to_owned()))),
        Stored::Large(_) => Ok(None),
    }
}

/// Edits a large value where it lies. Gives the container back if its place is no longer there:
/// it is empty now, or small.
fn edit_large<C: Container, R>(
    object: &mut Object,
    edit: impl FnOnce(&mut C) -> R,
) -> (Option<C>, R) {
    // While the container is out, the key holds an empty one: a panic now would lose the data.
    let guard = AbortOnUnwind;
    let mut container = C::take(object);
    let result = edit(&mut container);
    let rest = container.put(object).err();
    std::mem::forget(guard);
    (rest, result)
}

/// Ends the process when it is dropped by a panic.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
