//! Reading and changing containers, each through its type.
//!
//! Invariant: a container without elements does not exist, so an edit that leaves none removes the
//! key, and one that makes the first adds it; and members whose time is over are removed before an
//! edit sees them, as an effect of its own. Reading leaves them: readers pass over them.

use base::time::UnixMillis;
use structs::hash::Hash;
use structs::object::{Container, Expiring, Kind, NewStored, Object, Stored};
use structs::set::Set;
use structs::sorted_set::SortedSet;
use structs::table::Place;

use super::Tx;
use super::effects::EventClass;
use super::mutation::Mutation;
use super::write::Lifetime;
use crate::entry::{EntryBox, EntryRef};
use crate::refusal::Refusal;

/// What became of a key whose container was edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerOutcome {
    /// The key is there.
    Kept,
    /// The key had its last element taken and is gone; the caller reports `del`.
    Removed,
    /// There was and is none.
    Absent,
}

/// The time that it takes to pass a member in search of those that expired; to remove one takes
/// [`TAKEN_OUT`](structs::members::TAKEN_OUT) times as much.
const EXPIRY_NS_PER_MEMBER: u64 = 4;

/// The most members that a reading command walks to pass over those whose time is over.
const WALKED_MAX: u64 = 256;

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

    /// The container that a writing command asks for, which may change nothing: a use.
    #[inline]
    pub fn lookup_write_view<C: Container>(
        &self,
        key: &[u8],
    ) -> Result<Option<C::Ref<'_>>, Refusal> {
        self.lookup_write(key)?.map(view_of::<C>).transpose()
    }

    /// Changes the container at a key, or a new one where there is none. The edit counts no change
    /// by itself: the command does, by Redis' rule for it.
    pub fn edit<C: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut C) -> R,
    ) -> Result<(R, ContainerOutcome), Refusal> {
        self.edit_with(key, edit, true)
    }

    /// Removes all members of the container at a key whose time is over. To be called before the
    /// first change. The members stay for the server that says when they go.
    #[inline]
    pub fn refresh_members(&mut self, key: &[u8]) -> Result<(), Refusal> {
        self.refresh_beyond(key, 0)
    }

    /// The same for a command that only reads, and may be there while what is over stays.
    #[inline]
    pub fn refresh_members_read(&mut self, key: &[u8]) -> Result<(), Refusal> {
        if self.keyspace.settings().keeps_expired(self.now()) {
            return Ok(());
        }
        self.refresh_beyond(key, 0)
    }

    /// The same for a command that would walk all members of the container to pass over those:
    /// where they are many, each then costs once, however many commands come. Few are walked: they
    /// stay.
    #[inline]
    pub fn expire_many_members<C: Container>(&mut self, key: &[u8]) -> Result<(), Refusal> {
        let settings = self.keyspace.settings();
        if !settings.members_expire() || settings.keeps_expired(self.now()) {
            return Ok(());
        }
        match self.peek(key)? {
            Some(entry) if entry.kind() == C::KIND => self.refresh_beyond(key, WALKED_MAX),
            _ => Ok(()),
        }
    }

    /// Removes what is over from a container of more members than so many.
    #[inline]
    fn refresh_beyond(&mut self, key: &[u8], len: u64) -> Result<(), Refusal> {
        if !self.keyspace.settings().members_expire() || self.options.sees_expired {
            return Ok(());
        }
        let Some(entry) = self.peek(key)? else { return Ok(()) };
        let is_due = entry.member_deadline().is_some_and(|deadline| deadline <= self.now());
        if is_due && len_of(entry) > len {
            self.charge(expiry_cost_ns(entry, self.now()))?;
            self.expire_members(key, usize::MAX)?;
        }
        Ok(())
    }

    /// Removes members of the container at a key whose time is over, at most `limit`; how many.
    pub fn expire_members(&mut self, key: &[u8], limit: usize) -> Result<usize, Refusal> {
        let Some(entry) = self.peek(key)? else { return Ok(0) };
        let due = entry.member_deadline().is_some_and(|deadline| deadline <= self.now());
        if !due || self.options.sees_expired {
            return Ok(0);
        }
        match entry.kind() {
            Kind::Hash => self.expire_members_of::<Hash>(key, limit),
            Kind::Set => self.expire_members_of::<Set>(key, limit),
            Kind::SortedSet => self.expire_members_of::<SortedSet>(key, limit),
            _ => Ok(0),
        }
    }

    #[cold]
    fn expire_members_of<C: Expiring>(
        &mut self,
        key: &[u8],
        limit: usize,
    ) -> Result<usize, Refusal> {
        let now = self.now();
        let take = |container: &mut C| container.take_expired(now, limit);
        let (members, outcome) = self.edit_with(key, take, false)?;
        self.counted.expired_members.update(|count| count + members.len() as u64);
        self.effects.note_expired_members(self.options.database, C::REMOVE, key, &members);
        let names = members.iter().map(Vec::as_slice);
        self.member_event(EventClass::of_kind(C::KIND), C::EXPIRED, key, names);
        if outcome == ContainerOutcome::Removed {
            self.event(EventClass::Generic, "del", key);
        }
        Ok(members.len())
    }

    fn edit_with<C: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut C) -> R,
        members_expire: bool,
    ) -> Result<(R, ContainerOutcome), Refusal> {
        let (options, location) = (self.options, self.locate(key));
        let settings = self.keyspace.settings();
        let Some((mut mutation, access)) = self.mutation_and_clock(location) else {
            return Err(self.refuse_beyond(location.partition()));
        };
        let Some((place, entry)) = mutation.find(key) else {
            let mut container = C::default();
            let result = edit(&mut container);
            let Some(stored) = container.store() else {
                return Ok((result, ContainerOutcome::Absent));
            };
            let mut entry = EntryBox::container(key, C::KIND, stored, None);
            entry.set_access_clock(access.fresh());
            mutation.insert(entry);
            self.event(EventClass::New, "new", key);
            return Ok((result, ContainerOutcome::Kept));
        };
        if entry.is_expired(options.now) && !options.sees_expired {
            self.expire_if_due(key)?;
            return self.edit_with(key, edit, members_expire);
        }
        let may_be_due = members_expire && settings.members_expire() && !options.sees_expired;
        let is_due = |deadline| deadline <= options.now;
        let members_due = may_be_due && entry.member_deadline().is_some_and(is_due);
        if members_due && entry.kind() == C::KIND {
            let cost = expiry_cost_ns(entry, options.now);
            if self.effects.changes() == 0 {
                self.charge(cost)?;
            }
            self.expire_members(key, usize::MAX)?;
            return self.edit_with(key, edit, false);
        }
        let (deadline, clock) = (entry.deadline(), options.renewed(access, entry.access_clock()));
        let (container, result) = match small_of::<C>(entry)? {
            Some(mut container) => {
                let result = edit(&mut container);
                (container, result)
            }
            None => {
                let edited = mutation.edit_object(place, |object| edit_large(object, edit));
                match edited.expect("what is not small is an object") {
                    (Some(container), result) => (container, result),
                    (None, result) => {
                        mutation.entry(place).set_access_clock(clock);
                        return Ok((result, ContainerOutcome::Kept));
                    }
                }
            }
        };
        let Some(stored) = container.store() else {
            let entry = mutation.remove(place);
            self.discard(entry);
            return Ok((result, ContainerOutcome::Removed));
        };
        if write_back(&mut mutation, place, &stored) {
            mutation.entry(place).set_access_clock(clock);
        } else {
            let mut entry = EntryBox::container(key, C::KIND, stored, deadline);
            entry.set_access_clock(clock);
            mutation.replace(place, entry);
        }
        Ok((result, ContainerOutcome::Kept))
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

/// The cost of removing the members of a container whose time is over, as far as that matters:
/// beyond what a worker may do it is not counted to the end.
#[cold]
fn expiry_cost_ns(entry: EntryRef<'_>, now: UnixMillis) -> u64 {
    let limit = crate::WORKER_BUDGET_NS / EXPIRY_NS_PER_MEMBER + 1;
    let work = match entry.kind() {
        Kind::Hash => work_of::<Hash>(entry, now, limit),
        Kind::Set => work_of::<Set>(entry, now, limit),
        Kind::SortedSet => work_of::<SortedSet>(entry, now, limit),
        _ => 0,
    };
    work * EXPIRY_NS_PER_MEMBER
}

/// The elements of a container, those whose time is over included.
fn len_of(entry: EntryRef<'_>) -> u64 {
    let elements = entry.stored().and_then(|stored| stored.elements(entry.kind()));
    elements.unwrap_or(0)
}

fn work_of<C: Expiring>(entry: EntryRef<'_>, now: UnixMillis, limit: u64) -> u64 {
    view_of::<C>(entry).map_or(0, |container| C::expiry_work(container, now, limit))
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

/// Writes a small form over the old one, if it fits there and is not as it was; `false` if it needs
/// another block.
fn write_back(mutation: &mut Mutation<'_>, place: Place, stored: &NewStored) -> bool {
    let NewStored::Packed(packed) = stored else { return false };
    let is_as_it_was = match mutation.entry(place).stored() {
        Some(Stored::Packed(old)) => old == packed.borrow(),
        _ => false,
    };
    if is_as_it_was {
        mutation.rewritten(place);
    }
    is_as_it_was || mutation.overwrite_packed(place, packed.borrow())
}

/// Edits a large value where it lies; meanwhile its key holds an empty one. Gives the container
/// back if its place is no longer there: a container that is empty now, or small.
fn edit_large<C: Container, R>(
    object: &mut Object,
    edit: impl FnOnce(&mut C) -> R,
) -> (Option<C>, R) {
    let mut container = C::take(object);
    let result = edit(&mut container);
    let rest = container.put(object).err();
    (rest, result)
}
