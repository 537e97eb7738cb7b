//! A mutation of one key: every change to a table passes here.
//!
//! Invariant: before an entry changes or leaves, walks that have not saved it get it and undo keeps
//! its image; after a change, counters of keys, deadlines, sizes and memory agree with the tables.
//! From the first byte that changes until then a panic ends the process.

use std::sync::atomic::Ordering;

use base::step_count;
use base::time::UnixMillis;
use structs::object::Object;
use structs::packing::PackedRef;
use structs::table::Place;

use super::Tx;
use super::modified::ModifiedKeys;
use super::undo::UndoLog;
use crate::big_keys::BigKeyMetric;
use crate::clock::AccessPolicy;
use crate::counters::{DatabaseCounters, LaneCounters, bump};
use crate::critical_section::CriticalSection;
use crate::entry::{EntryBox, EntryRef, Identity, ItemNotes, NewText};
use crate::feature_level::FeatureLevel;
use crate::keyspace::{Keyspace, Location};
use crate::lazy_free::{BIG_ENTRY, Garbage};
use crate::lock::partition::{PartitionContent, PartitionIndex};
use crate::prefix_index::{PLACE_BYTES, PrefixNumber};
use crate::sizes::{SizeClass, power_of};
use crate::waiting::ReadyKeys;

/// One key's table, open for a change.
pub(super) struct Mutation<'a> {
    pub(super) content: &'a mut PartitionContent,
    pub(super) keyspace: &'static Keyspace,
    pub(super) lane: &'static LaneCounters,
    pub(super) partition: PartitionIndex,
    pub(super) position: u64,
    pub(super) physical: usize,
    pub(super) undo: Option<&'a mut UndoLog>,
    pub(super) logical: usize,
    pub(super) ready: &'a mut ReadyKeys,
    pub(super) modified: Option<&'a mut ModifiedKeys>,
    pub(super) made: &'a mut MutationSummary,
}

/// What mutations of a transaction came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MutationSummary {
    /// Whether anything was changed that is not final.
    pub(super) touched: bool,
    /// What a reader must know to hold what was stored.
    pub(super) feature_level: FeatureLevel,
}

impl MutationSummary {
    #[inline]
    pub(super) fn require_feature_level(&mut self, feature_level: FeatureLevel) {
        self.feature_level = self.feature_level.max(feature_level);
    }
}

impl Tx {
    /// Says what it takes to hold what was stored, where no new entry tells it.
    pub fn require_feature_level(&mut self, feature_level: FeatureLevel) {
        self.made.require_feature_level(feature_level);
    }

    /// Whether words that Redis 6.2 does not know may be told of this; if so a replica has to know
    /// them.
    pub fn tells_redis_7(&mut self) -> bool {
        let settings = self.keyspace().settings();
        let keeps_to_old =
            self.effects().is_recorded() && settings.tells_redis_6.load(Ordering::Relaxed);
        if !keeps_to_old {
            self.require_feature_level(FeatureLevel::Redis7);
        }
        !keeps_to_old
    }

    /// Takes the level of a server that can hold what was stored so far.
    pub fn take_feature_level(&mut self) -> FeatureLevel {
        std::mem::take(&mut self.made.feature_level)
    }
}

/// When an entry expires, and the first of its members.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Deadlines {
    own: Option<UnixMillis>,
    members: Option<UnixMillis>,
}

impl Deadlines {
    #[inline]
    fn of(entry: EntryRef<'_>) -> Self {
        Self { own: entry.deadline(), members: entry.member_deadline() }
    }

    /// As `of`, before an edit: where no member ever had a deadline, none has to be looked for.
    #[inline]
    fn before(entry: EntryRef<'_>, keyspace: &Keyspace) -> Self {
        let looks = keyspace.settings().members_expire();
        let members = if looks { entry.member_deadline() } else { None };
        Self { own: entry.deadline(), members }
    }
}

impl Mutation<'_> {
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<(Place, EntryRef<'_>)> {
        let found = self.content.table(self.physical)?.find(self.position, key)?;
        Some((found.place, found.entry))
    }

    /// Where an entry is that was seen under the locks that are held, if it is still there.
    pub(super) fn find_same(&self, entry: Identity) -> Option<Place> {
        self.content.table(self.physical)?.find_same(self.position, entry)
    }

    /// Adds an entry whose key is absent.
    pub(super) fn insert(&mut self, entry: EntryBox) {
        self.made.touched = true;
        if let Some(undo) = &mut self.undo {
            undo.remember(self.partition, self.physical, entry.borrow().key(), || None);
        }
        self.signal_ready(entry.borrow(), false);
        self.made.require_feature_level(FeatureLevel::of(entry.borrow()));
        step_count::step();
        let change = CriticalSection::begin();
        entry.borrow().set_marks(self.content.marks);
        self.note_hit(entry.borrow());
        let (deadlines, memory) = (Deadlines::of(entry.borrow()), entry.borrow().memory());
        let size = SizeClass::of(entry.borrow());
        self.database().sizes.count(None, size);
        self.note_growth(entry.borrow(), (None, size), (0, memory));
        let (keyspace, position) = (self.keyspace, self.position);
        let table = self.content.tables.get_or_add(self.physical);
        let before = table.memory();
        let prefixes = keyspace.declared_prefixes.of_key(entry.borrow().key());
        table.insert(position, entry, |key| keyspace.locate(key).position());
        let grown = table.memory() as i64 - before as i64;
        if !prefixes.is_empty() {
            self.index(&prefixes);
        }
        bump(&self.database().memory, grown + memory as i64);
        bump(&self.database().keys, 1);
        step_count::step();
        self.count_deadlines(Deadlines::default(), deadlines);
        self.keyspace.add_population(self.partition, 1);
        change.end();
    }

    /// Enters the key that came in the index of its prefixes.
    #[cold]
    fn index(&mut self, prefixes: &[PrefixNumber]) {
        let index = self.content.prefixes_mut();
        let mut added = 0;
        for &number in prefixes {
            if !index.has(number) {
                self.keyspace.declared_prefixes.note(number, self.partition, true);
            }
            added += i64::from(index.add(number, self.physical, self.position));
        }
        bump(&self.database().memory, added * PLACE_BYTES);
    }

    /// Takes the key that went out of the index of its prefixes, unless another has its place. A
    /// mutation may know less of the place than an entry's key tells.
    #[cold]
    fn unindex(&mut self, prefixes: &[PrefixNumber], key: &[u8]) {
        let (keyspace, physical) = (self.keyspace, self.physical);
        let place = keyspace.locate(key).position();
        let mut removed = 0;
        for &number in prefixes {
            let begins = keyspace.declared_prefixes.prefix(number);
            let mut is_others = false;
            if let Some(table) = self.content.table(physical) {
                table.visit_at(place, |entry| {
                    let is_there = || keyspace.locate(entry.key()).position() == place;
                    is_others |= entry.key().starts_with(begins) && is_there();
                });
            }
            if is_others {
                continue;
            }
            let index = self.content.prefixes_mut();
            removed += i64::from(index.remove(number, physical, place));
            if !index.has(number) {
                keyspace.declared_prefixes.note(number, self.partition, false);
            }
        }
        self.content.release_rare();
        bump(&self.database().memory, -removed * PLACE_BYTES);
    }

    /// Has a key that is in the ghost list count as used.
    #[inline]
    fn note_hit(&self, entry: EntryRef<'_>) {
        if self.remembers() && self.keyspace.ghost_list().note_hit(self.location()) {
            entry.set_access_clock(entry.access_clock() | 1);
        }
    }

    /// Has what says whether the key was evicted lately on its way from memory.
    #[inline]
    pub(super) fn prefetch_ghost(&self) {
        if self.remembers() {
            self.keyspace.ghost_list().prefetch(self.location());
        }
    }

    #[inline]
    fn remembers(&self) -> bool {
        self.keyspace.settings().access_policy() == AccessPolicy::Worth
    }

    #[inline]
    fn location(&self) -> Location {
        Location::new(self.partition, self.position)
    }

    /// Says whether an entry may be evicted.
    pub(super) fn set_sticky(&mut self, place: Place, is_sticky: bool) {
        self.before_change(place);
        self.entry(place).set_sticky(is_sticky);
    }

    /// Replaces what memcached's clients noted.
    pub(super) fn set_notes(&mut self, place: Place, notes: ItemNotes) {
        self.before_change(place);
        let entry = self.entry(place);
        if !entry.set_notes(notes) {
            let noted = entry.with_notes(notes);
            self.replace(place, noted);
        }
    }

    /// Sets a version, which is a change to none but the clients that compare it; 0 takes it away.
    pub(super) fn set_version(&mut self, place: Place, version: u64) {
        let entry = self.entry(place);
        if !entry.set_version(version) {
            let versioned = entry.with_version(version);
            self.replace(place, versioned);
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, place: Place) -> EntryBox {
        self.before_change(place);
        let change = CriticalSection::begin();
        let table = self.content.table_mut(self.physical);
        let before = table.memory();
        let entry = table.remove(place);
        let after = table.memory();
        let shrunk = before as i64 - after as i64;
        let prefixes = self.keyspace.declared_prefixes.of_key(entry.borrow().key());
        if !prefixes.is_empty() {
            self.unindex(&prefixes, entry.borrow().key());
        }
        self.content.tables.prune(self.physical);
        self.signal_ready(entry.borrow(), true);
        bump(&self.database().memory, -shrunk - entry.borrow().memory() as i64);
        bump(&self.database().keys, -1);
        self.database().sizes.count(SizeClass::of(entry.borrow()), None);
        step_count::step();
        self.count_deadlines(Deadlines::of(entry.borrow()), Deadlines::default());
        self.keyspace.add_population(self.partition, -1);
        change.end();
        entry
    }

    /// Puts another entry with the same key in an entry's place.
    pub(super) fn replace(&mut self, place: Place, entry: EntryBox) {
        self.before_change(place);
        self.made.require_feature_level(FeatureLevel::of(entry.borrow()));
        let change = CriticalSection::begin();
        // Whatever is stored there: the key stays.
        if self.entry(place).is_sticky() {
            entry.borrow().set_sticky(true);
        }
        entry.borrow().set_marks(self.content.marks);
        let (deadlines, memory) = (Deadlines::of(entry.borrow()), entry.borrow().memory());
        let size = SizeClass::of(entry.borrow());
        let old = self.content.table_mut(self.physical).replace(place, entry);
        let (size_before, before) = (SizeClass::of(old.borrow()), old.borrow().memory());
        self.database().sizes.count(size_before, size);
        bump(&self.database().memory, memory as i64 - before as i64);
        self.note_growth(self.entry(place), (size_before, size), (before, memory));
        step_count::step();
        self.count_deadlines(Deadlines::of(old.borrow()), deadlines);
        change.end();
        discard(self.keyspace, old);
    }

    /// Writes a value and a deadline over the old ones where that needs no new block: the entry as
    /// it is then; `None` if nothing was changed.
    #[inline]
    pub(super) fn overwrite_text(
        &mut self,
        place: Place,
        value: &NewText<'_>,
        deadline: Option<UnixMillis>,
    ) -> Option<EntryRef<'_>> {
        let entry = self.entry(place);
        if entry.deadline().is_some() != deadline.is_some() || !value.is_inline() {
            return None;
        }
        let size = SizeClass::of(entry);
        self.before_change(place);
        let change = CriticalSection::begin();
        // Same block, same class of size: the memory count stays.
        let overwritten = self.content.table_mut(self.physical).overwrite_text(place, value);
        let Some(entry) = overwritten else {
            change.end();
            return None;
        };
        let counters = self.keyspace.counters().database(self.lane, self.physical);
        counters.sizes.count(size, SizeClass::of(entry));
        if let Some(at) = deadline {
            entry.overwrite_deadline(at);
            self.keyspace.note_deadline(self.partition, at);
        }
        change.end();
        Some(entry)
    }

    /// Changes a large value in place; `None` if the value is not one.
    pub(super) fn edit_object<R>(
        &mut self,
        place: Place,
        edit: impl FnOnce(&mut Object) -> R,
    ) -> Option<R> {
        self.before_change(place);
        let members_expire = self.keyspace.settings().members_expire();
        let size = SizeClass::of(self.entry(place));
        let change = CriticalSection::begin();
        let Some(object) = self.content.table_mut(self.physical).object_mut(place) else {
            change.end();
            return None;
        };
        let memory = object.memory();
        // Where no member ever had a deadline, none has to be looked for.
        let before = if members_expire { object.earliest_deadline() } else { None };
        let result = edit(object);
        let (memory_after, after) = (object.memory(), object.earliest_deadline());
        if memory_after != memory {
            bump(&self.database().memory, memory_after as i64 - memory as i64);
        }
        let size_after = SizeClass::of(self.entry(place));
        self.database().sizes.count(size, size_after);
        self.note_growth(self.entry(place), (size, size_after), (memory, memory_after));
        if after != before {
            let own = self.entry(place).deadline();
            self.note_deadlines(
                place,
                Deadlines { own, members: before },
                Deadlines { own, members: after },
            );
        }
        change.end();
        Some(result)
    }

    /// Writes over a part of a string that lies in its block; `false` if nothing was changed.
    pub(super) fn patch_text(&mut self, place: Place, offset: usize, bytes: &[u8]) -> bool {
        self.before_change(place);
        let change = CriticalSection::begin();
        let done = self.content.table_mut(self.physical).patch_text(place, offset, bytes);
        change.end();
        done
    }

    /// Writes a small container over the old one where that needs no new block; `false` if
    /// nothing was changed.
    pub(super) fn overwrite_packed(&mut self, place: Place, packed: PackedRef<'_>) -> bool {
        self.before_change(place);
        let deadlines = Deadlines::before(self.entry(place), self.keyspace);
        let size = SizeClass::of(self.entry(place));
        let change = CriticalSection::begin();
        // Same block, same class of size: the memory count stays.
        let done = self.content.table_mut(self.physical).overwrite_packed(place, packed);
        let (after, size_after) =
            (Deadlines::of(self.entry(place)), SizeClass::of(self.entry(place)));
        self.database().sizes.count(size, size_after);
        self.note_growth(self.entry(place), (size, size_after), (0, 0));
        if done && after != deadlines {
            self.note_deadlines(place, deadlines, after);
        }
        change.end();
        done
    }

    /// Sets a deadline over one that is there; `false` if the entry has no room for one.
    pub(super) fn overwrite_deadline(&mut self, place: Place, deadline: UnixMillis) -> bool {
        self.before_change(place);
        let change = CriticalSection::begin();
        let done = self.content.table_mut(self.physical).overwrite_deadline(place, deadline);
        if done {
            self.keyspace.note_deadline(self.partition, deadline);
        }
        change.end();
        done
    }

    /// Notes a key that may be one of the biggest now.
    #[inline]
    fn note_growth(
        &self,
        entry: EntryRef<'_>,
        (size_before, size): (Option<SizeClass>, Option<SizeClass>),
        (memory_before, memory): (usize, usize),
    ) {
        let big_keys = &self.keyspace.big_keys;
        let name = || (self.physical, entry.key());
        let memories = (power_of(memory_before as u64), power_of(memory as u64));
        big_keys.note(BigKeyMetric::Memory, memories, name);
        if size != size_before {
            let elements = |size: Option<SizeClass>| size.map_or(0, SizeClass::power_of_elements);
            big_keys.note(BigKeyMetric::Elements, (elements(size_before), elements(size)), name);
        }
    }

    /// Saves an entry for the walks that must see it as it was.
    #[inline]
    fn before_change(&mut self, place: Place) {
        self.made.touched = true;
        step_count::step();
        let content = &*self.content;
        let entry = content.table(self.physical).expect("a place is in a table").entry(place);
        let missing = entry.marks() ^ content.marks;
        if missing != 0 {
            let change = CriticalSection::begin();
            self.keyspace.walks().save(missing, self.physical, entry);
            entry.set_marks(content.marks);
            change.end();
        }
        if let Some(undo) = &mut self.undo {
            undo.remember(self.partition, self.physical, entry.key(), || Some(entry.pre_image()));
        }
        step_count::step();
        if content.waiting().is_some() {
            note_ready(content, self.logical, entry.key(), false, self.ready);
        }
        if let Some(modified) = &mut self.modified {
            modified.note(self.logical, entry.key());
        }
    }

    /// Notes an entry that is written again as it was, which counts as modified.
    #[inline]
    pub(super) fn rewritten(&mut self, place: Place) {
        if let Some(modified) = &mut self.modified {
            let table = self.content.table(self.physical).expect("a place is in a table");
            modified.note(self.logical, table.entry(place).key());
        }
    }

    /// Notes a key that came or went, for clients that wait for that, watch it or cache it.
    #[inline]
    fn signal_ready(&mut self, entry: EntryRef<'_>, gone: bool) {
        if self.content.waiting().is_some() {
            note_ready(self.content, self.logical, entry.key(), gone, self.ready);
        }
        if let Some(modified) = &mut self.modified {
            modified.note(self.logical, entry.key());
        }
    }

    #[inline]
    pub(super) fn entry(&self, place: Place) -> EntryRef<'_> {
        self.content.table(self.physical).expect("a place is in a table").entry(place)
    }

    /// Notes what became of members' deadlines in an entry that stayed in its block.
    #[cold]
    fn note_deadlines(&mut self, place: Place, before: Deadlines, after: Deadlines) {
        self.content.table_mut(self.physical).retag(place);
        self.made.require_feature_level(FeatureLevel::of_members(
            self.entry(place).kind(),
            after.members.is_some(),
        ));
        self.count_deadlines(before, after);
    }

    /// Counts deadlines that came and went. Most entries have none, and this is where a new entry
    /// would be waited for, which is still on its way to memory.
    #[inline]
    fn count_deadlines(&self, old: Deadlines, new: Deadlines) {
        if old != Deadlines::default() || new != Deadlines::default() {
            self.count_some_deadlines(old, new);
        }
    }

    fn count_some_deadlines(&self, old: Deadlines, new: Deadlines) {
        let by =
            |old: Option<_>, new: Option<_>| i64::from(new.is_some()) - i64::from(old.is_some());
        let (own, members) = (by(old.own, new.own), by(old.members, new.members));
        if own != 0 {
            bump(&self.database().volatile, own);
            self.keyspace.partition(self.partition).add_volatile(own as i32);
        }
        if members != 0 {
            bump(&self.database().members_volatile, members);
            self.keyspace.settings().members_expire.store(true, Ordering::Relaxed);
        }
        for deadline in [new.own, new.members].into_iter().flatten() {
            self.keyspace.note_deadline(self.partition, deadline);
        }
    }

    fn database(&self) -> &'static DatabaseCounters {
        self.keyspace.counters().database(self.lane, self.physical)
    }
}

/// Frees an entry that left its table, elsewhere if it is big.
pub(super) fn discard(keyspace: &Keyspace, entry: EntryBox) {
    if entry.borrow().memory() >= BIG_ENTRY {
        keyspace.discard(Garbage::entry(entry));
    }
}

/// Notes a key for the clients that wait for it.
#[cold]
fn note_ready(
    content: &PartitionContent,
    database: usize,
    key: &[u8],
    gone: bool,
    ready: &mut ReadyKeys,
) {
    if content.waiting().is_some_and(|waiting| waiting.wakes_on(database, key, gone)) {
        ready.add(database, key);
    }
}
