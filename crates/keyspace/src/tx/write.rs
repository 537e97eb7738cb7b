//! Changing keys.
//!
//! Invariant: an expired key that a change meets is removed first, as an effect of its own, so the
//! change sees an absent key.

use base::time::UnixMillis;
use structs::object::Kind;

use super::effects::EventClass;
use super::{Tx, TxOptions};
use crate::entry::{EntryBox, EntryRef, ItemNotes, NewText, Text};
use crate::refusal::Refusal;

/// What becomes of a key's deadline when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The deadline stays.
    Keep,
    /// The key never expires.
    Forever,
    /// The key expires then.
    Until(UnixMillis),
}

impl Lifetime {
    pub(super) fn applied_to(self, old: Option<UnixMillis>) -> Option<UnixMillis> {
        match self {
            Self::Keep => old,
            Self::Forever => None,
            Self::Until(deadline) => Some(deadline),
        }
    }
}

impl Tx {
    /// Stores a string without notes, whatever was there. Returns the type of that.
    #[inline]
    pub fn put_text(
        &mut self,
        key: &[u8],
        value: NewText<'_>,
        lifetime: Lifetime,
    ) -> Result<Option<Kind>, Refusal> {
        self.put_with(key, lifetime, Some(ItemNotes::default()), |_| Ok(value))
    }

    /// Stores what `make` gives for the string at a key, or for its absence; deadline and notes
    /// stay.
    #[inline]
    pub fn update_text<'v>(
        &mut self,
        key: &[u8],
        make: impl FnOnce(Option<Text<'_>>) -> Result<NewText<'v>, Refusal>,
    ) -> Result<Option<Kind>, Refusal> {
        self.put_with(key, Lifetime::Keep, None, |entry| {
            make(entry.map(|entry| entry.text().ok_or(Refusal::WrongType)).transpose()?)
        })
    }

    /// Looks a key up once, lets `make` decide on the new value with the old one in sight, and
    /// stores it with these notes, or those that are there. Returns the type of the old one.
    #[inline]
    pub(super) fn put_with<'v>(
        &mut self,
        key: &[u8],
        lifetime: Lifetime,
        notes: Option<ItemNotes>,
        make: impl FnOnce(Option<EntryRef<'_>>) -> Result<NewText<'v>, Refusal>,
    ) -> Result<Option<Kind>, Refusal> {
        if let Lifetime::Until(_) = lifetime {
            self.note_local_deadline(key);
        }
        let options @ TxOptions { now, sees_expired, .. } = self.options;
        let location = self.locate(key);
        let Some((mut mutation, access)) = self.mutation_and_clock(location) else {
            return Err(self.refuse_beyond(location.partition()));
        };
        let Some((place, old)) = mutation.find(key) else {
            mutation.prefetch_ghost();
            let (value, deadline) = (make(None)?, lifetime.applied_to(None));
            let mut entry = EntryBox::item(key, value, deadline, notes.unwrap_or_default());
            entry.set_access_clock(access.fresh());
            mutation.insert(entry);
            self.effects.add_changes(1);
            self.event(EventClass::New, "new", key);
            return Ok(None);
        };
        if old.is_expired(now) && !sees_expired {
            self.expire_if_due(key)?;
            return self.put_with(key, lifetime, notes, make);
        }
        let (value, kind) = (make(Some(old))?, old.kind());
        let clock = options.renewed(access, old.access_clock());
        let deadline = lifetime.applied_to(old.deadline());
        let (was_read, stays) = (old.was_read() && notes.is_none(), old.notes());
        let notes = notes.unwrap_or(stays);
        let fits = old.has_room_for(notes);
        if fits && let Some(entry) = mutation.overwrite_text(place, &value, deadline) {
            // Not before: undo and walks keep the entry as it was.
            entry.set_access_clock(clock);
            entry.set_notes(notes);
            entry.set_read(was_read);
        } else {
            let mut entry = EntryBox::item(key, value, deadline, notes);
            entry.set_access_clock(clock);
            entry.borrow().set_read(was_read);
            mutation.replace(place, entry);
        }
        self.effects.add_changes(1);
        Ok(Some(kind))
    }

    /// Sets or removes a key's deadline; `false` if the key is absent.
    pub fn set_deadline(
        &mut self,
        key: &[u8],
        deadline: Option<UnixMillis>,
    ) -> Result<bool, Refusal> {
        self.expire_if_due(key)?;
        if deadline.is_some() {
            self.note_local_deadline(key);
        }
        let location = self.locate(key);
        let mut mutation = self.mutation(location)?;
        let Some((place, entry)) = mutation.find(key) else { return Ok(false) };
        if entry.deadline() != deadline {
            let overwritten = match deadline {
                Some(at) => mutation.overwrite_deadline(place, at),
                None => false,
            };
            if !overwritten {
                let moved = mutation.entry(place).duplicate(key, deadline);
                mutation.replace(place, moved);
            }
        } else {
            mutation.rewritten(place);
        }
        self.effects.add_changes(1);
        Ok(true)
    }

    /// Notes a deadline that a client of a replica sets: its primary does not know of it.
    #[inline]
    pub(super) fn note_local_deadline(&self, key: &[u8]) {
        let local = self.keyspace.local_deadlines();
        if local.is_on() && !self.options.sees_expired {
            local.note(self.options.database, key);
        }
    }

    /// Removes a key; whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Refusal> {
        let Some(entry) = self.take(key)? else { return Ok(false) };
        self.discard(entry);
        Ok(true)
    }

    /// Takes a key out of the keyspace with its value.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<EntryBox>, Refusal> {
        self.expire_if_due(key)?;
        let location = self.locate(key);
        let mut mutation = self.mutation(location)?;
        let Some((place, _)) = mutation.find(key) else { return Ok(None) };
        let entry = mutation.remove(place);
        self.effects.add_changes(1);
        Ok(Some(entry))
    }

    /// Stores an entry under its own key, whatever was there.
    pub fn place(&mut self, entry: EntryBox) -> Result<(), Refusal> {
        let location = self.locate(entry.borrow().key());
        if entry.borrow().deadline().is_some() {
            self.note_local_deadline(entry.borrow().key());
        }
        self.expire_if_due(entry.borrow().key())?;
        let announced = self.effects.listens(EventClass::New);
        let announced = announced.then(|| Box::<[u8]>::from(entry.borrow().key()));
        let mut mutation = self.mutation(location)?;
        match mutation.find(entry.borrow().key()).map(|(place, _)| place) {
            Some(place) => mutation.replace(place, entry),
            None => {
                mutation.insert(entry);
                if let Some(key) = announced {
                    self.event(EventClass::New, "new", &key);
                }
            }
        }
        self.effects.add_changes(1);
        Ok(())
    }

    /// Stores an entry under its own key if there is none; whether it did. That is no change that
    /// anybody is told of: for what comes from a file of the data set itself.
    pub fn load(&mut self, entry: EntryBox) -> Result<bool, Refusal> {
        let location = self.locate(entry.borrow().key());
        let mut mutation = self.mutation(location)?;
        let is_new = mutation.find(entry.borrow().key()).is_none();
        if is_new {
            mutation.insert(entry);
        }
        Ok(is_new)
    }

    /// As `load`, in the place of an entry that is there.
    pub fn load_over(&mut self, entry: EntryBox) -> Result<(), Refusal> {
        let location = self.locate(entry.borrow().key());
        let mut mutation = self.mutation(location)?;
        match mutation.find(entry.borrow().key()).map(|(place, _)| place) {
            Some(place) => mutation.replace(place, entry),
            None => mutation.insert(entry),
        }
        Ok(())
    }

    /// Notes an access to a key though the client's reads are none (`TOUCH`); whether it exists.
    pub fn touch(&mut self, key: &[u8]) -> Result<bool, Refusal> {
        let Some(entry) = self.lookup_no_touch(key)? else { return Ok(false) };
        if self.access.notes_reads() {
            entry.set_access_clock(self.access.accessed(entry.access_clock()));
        }
        Ok(true)
    }

    /// Says whether a key may be evicted; whether that is new.
    pub fn set_sticky(&mut self, key: &[u8], is_sticky: bool) -> Result<bool, Refusal> {
        self.expire_if_due(key)?;
        let mut mutation = self.mutation(self.locate(key))?;
        let Some((place, entry)) = mutation.find(key) else { return Ok(false) };
        if entry.is_sticky() == is_sticky {
            return Ok(false);
        }
        mutation.set_sticky(place, is_sticky);
        self.effects.add_changes(1);
        Ok(true)
    }

    /// The access clock of a key that is made now.
    #[must_use]
    pub fn fresh_clock(&self) -> u32 {
        self.access.fresh()
    }

    /// The access clock that stands for an idle time of `seconds`.
    #[must_use]
    pub fn clock_of_idle(&self, seconds: u64) -> u32 {
        self.access.with_idle_seconds(seconds)
    }

    /// The access clock that stands for an access frequency.
    #[must_use]
    pub fn clock_of_frequency(&self, frequency: u8) -> u32 {
        self.access.with_frequency(frequency)
    }

    /// Whether access clocks count frequency rather than time.
    #[must_use]
    pub fn tracks_frequency(&self) -> bool {
        self.access.by_frequency()
    }

    /// Reports a keyspace event in the present database.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        if !self.effects.listens(class) {
            return;
        }
        self.report_met();
        self.effects.event(class, name, self.options.database, key);
    }

    /// Reports a keyspace event that is about some members of the value.
    #[inline]
    pub fn member_event<'a>(
        &mut self,
        class: EventClass,
        name: &'static str,
        key: &[u8],
        members: impl IntoIterator<Item = &'a [u8]>,
    ) {
        if !self.effects.listens(class) {
            return;
        }
        self.report_met();
        self.effects.member_event(class, name, (self.options.database, key), members);
    }

    /// Removes a key whose time is over; whether it was.
    pub fn expire_if_due(&mut self, key: &[u8]) -> Result<bool, Refusal> {
        let TxOptions { now, sees_expired, .. } = self.options;
        let location = self.locate(key);
        let mutation = self.mutation(location)?;
        let due = |entry: EntryRef<'_>| entry.is_expired(now) && !sees_expired;
        let Some((place, _)) = mutation.find(key).filter(|(_, entry)| due(*entry)) else {
            return Ok(false);
        };
        if !self.stale.get_mut().is_empty() {
            // What reads met goes before anything is written in its place: an entry that comes
            // there, and whose time is over as well, is another one.
            self.notify_met();
            self.expire_if_due(key)?;
            return Ok(true);
        }
        let mut mutation = self.mutation(location)?;
        let entry = mutation.remove(place);
        if entry.borrow().kind() == Kind::String && !entry.borrow().was_read() {
            self.counted.expired_unread.update(|unread| unread + 1);
        }
        self.discard(entry);
        self.counted.expired.update(|expired| expired + 1);
        self.effects.note_expired(self.options.database, key);
        Ok(true)
    }

    /// How many keys it met whose time was over, of those it has not booked: some are still to go.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.counted.expired.get() + self.stale.borrow().len() as u64
    }

    /// Frees an entry, elsewhere if it is big.
    pub fn discard(&self, entry: EntryBox) {
        super::mutation::discard(self.keyspace, entry);
    }
}
