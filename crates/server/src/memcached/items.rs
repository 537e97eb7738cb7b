//! What memcached's requests do to items, on one transaction.
//!
//! An item is a string with notes. Invariants: whatever changed is said to the journal as commands
//! of Redis that give the same result; a value of another type is no item, so reading misses it and
//! changing it in part is refused.

use base::number::format_i64;
use base::time::UnixMillis;
use commands::change;
use commands::errors::NOT_AN_INTEGER;
use durability::data::item::journal_item;
use engine::session::WatchClass;
use keyspace::{EntryRef, EventClass, ItemNotes, Kind, Lifetime, NewText, Refusal, Text, Tx};
use proto::Output;
use proto::memcached::{
    Arithmetic, Deadline, Delete, Expiry, Failure, Item, ItemValue, Number, Operation, Request,
    Response, Retrieve, Store, StoreMode, answer,
};

use super::body::PendingStats;
use super::command_map::keys_of;
use super::counters::Counter;
use super::details::KeyOperation;
use super::events::{self, size_of_item};
use super::number::number_of;
use super::{failure_of, shows_cas};

/// The outcome of a request on one key.
type Done = Result<Response<'static>, Refusal>;

/// A request at work.
pub(super) struct Work<'a> {
    pub(super) tx: &'a mut Tx,
    pub(super) request: &'a Request<'a>,
    pub(super) out: &'a mut Output,
    /// What the work counts and tells.
    pub(super) told: &'a mut PendingStats,
    /// No value may be larger.
    pub(super) size_max: usize,
    /// Whether more keys of its request come behind it.
    pub(super) is_part: bool,
}

impl Work<'_> {
    /// Does what the request asks for and answers it.
    pub(super) fn run(&mut self) -> Result<(), Refusal> {
        let operation = &self.request.operation;
        if let Operation::Retrieve(retrieve) = operation {
            return self.retrieve(retrieve);
        }
        let mut buffer = [0; proto::memcached::KEY_LENGTH_MAX];
        let key = keys_of(operation).next().expect("what is not read has one key");
        let key = key.bytes(&mut buffer);
        self.notify_fetch(key)?;
        let done = match operation {
            Operation::Store(store) => self.store(key, store),
            Operation::Delete(delete) => self.delete(key, delete),
            Operation::Arithmetic(change) => self.change_number(key, change),
            Operation::Touch { expiry, .. } => self.touch(key, *expiry),
            Operation::Inspect(_) => return self.inspect(key),
            Operation::Refuse(refusal) => {
                if refusal.failure == Failure::TooLarge {
                    self.told.counters.add(Counter::StoreTooLarge);
                }
                self.remove(key)?;
                Ok(Response::Failed(refusal.failure))
            }
            _ => unreachable!("nothing else is done to items"),
        };
        if self.told.events.is_watched(WatchClass::Mutations) {
            match &done {
                Ok(response) => self.notify_store(key, response)?,
                Err(refusal) if refusal.line().is_some() => {
                    self.notify_store(key, &Response::Failed(failure_of(refusal)))?;
                }
                Err(_) => {}
            }
        }
        self.answer(done?);
        Ok(())
    }

    /// Tells watchers that an item is looked up.
    #[inline]
    fn notify_fetch(&mut self, key: &[u8]) -> Result<(), Refusal> {
        if self.told.events.is_watched(WatchClass::Fetchers) {
            self.told.events.fetch(key, size_of_item(self.tx.peek(key)?));
        }
        Ok(())
    }

    /// Tells watchers that an item was stored, or was not.
    #[cold]
    fn notify_store(&mut self, key: &[u8], outcome: &Response<'_>) -> Result<(), Refusal> {
        let (command, expiry, length) = match (&self.request.operation, outcome) {
            (Operation::Store(store), _) => {
                (events::name_of(store), store.expiry, store.value.len())
            }
            (Operation::Arithmetic(change), Response::Number(number)) if number.is_new => {
                ("add", change.initial.map_or(Expiry::NEVER, |(_, expiry)| expiry), 0)
            }
            (Operation::Refuse(_), _) => ("set", Expiry::NEVER, 0),
            _ => return Ok(()),
        };
        let ttl_s = match expiry.deadline(self.tx.now()) {
            Deadline::Never => 0,
            Deadline::Passed => -1,
            Deadline::At(moment) => unix_seconds(moment - self.tx.now()),
        };
        let is_stored = matches!(outcome, Response::Stored { .. } | Response::Number(_));
        let size = if is_stored { size_of_item(self.tx.peek(key)?) } else { None };
        self.told.events.store(key, (command, ttl_s), outcome, size.unwrap_or(length));
        Ok(())
    }

    fn answer(&mut self, response: Response<'_>) {
        answer(self.out, self.request, response);
    }

    fn retrieve(&mut self, retrieve: &Retrieve<'_>) -> Result<(), Refusal> {
        let mut buffer = [0; proto::memcached::KEY_LENGTH_MAX];
        for key in retrieve.keys {
            self.retrieve_one(key.bytes(&mut buffer), retrieve)?;
        }
        if !self.is_part {
            self.answer(Response::End);
        }
        Ok(())
    }

    fn retrieve_one(&mut self, key: &[u8], retrieve: &Retrieve<'_>) -> Result<(), Refusal> {
        let expired = self.tx.expired();
        self.notify_fetch(key)?;
        let now = self.tx.now();
        let moment = retrieve.touch.map(|expiry| expiry.deadline(now));
        let (shows_cas, mut idle_s) = (shows_cas(self.request), 0);
        let ttl_before = match retrieve.recaches_first || retrieve.shows_ttl_first {
            true => self.tx.peek(key)?.and_then(|entry| ttl_of(entry, now)),
            false => None,
        };
        if retrieve.shows_access || shows_cas || moment.is_some() {
            let found = self.tx.peek(key)?.filter(|entry| entry.kind() == Kind::String);
            idle_s = found.and_then(|entry| self.tx.idle_seconds(entry)).unwrap_or(0);
            if shows_cas && found.is_some() {
                self.tx.version(key)?;
            }
            if let Some(moment) = moment {
                self.touch_one(key, moment)?;
            }
        }
        // What touches, too, counts as a touch alone.
        let is_get = moment.is_none();
        self.told.counters.add_if(is_get, Counter::CmdGet);
        let entry = self.tx.read(key)?;
        let Some((entry, text)) = entry.and_then(|entry| Some((entry, entry.text()?))) else {
            if self.tx.expired() > expired {
                self.told.counters.add(Counter::GetExpired);
            }
            return self.miss(key, retrieve);
        };
        self.told.counters.add_if(is_get, Counter::GetHits);
        self.told.details.record(key, KeyOperation::Hit);
        // What expires at once is told for the last time.
        let is_last = moment == Some(Deadline::Passed);
        let (notes, ttl_s) = (entry.notes(), if is_last { Some(0) } else { ttl_of(entry, now) });
        let judged_s = if retrieve.recaches_first { ttl_before } else { ttl_s };
        let is_due = retrieve.recache.zip(judged_s).is_some_and(|(least, left)| left < least);
        let won = retrieve.can_win && (notes.is_stale || is_due) && !notes.is_won;
        let mut digits = [0; 20];
        let item = Item {
            key,
            value: value_of(text, &mut digits),
            flags: notes.flags,
            cas: entry.version().unwrap_or(0),
            ttl_s: if retrieve.shows_ttl_first { ttl_before } else { ttl_s },
            idle_s: idle_s.into(),
            was_read: entry.was_read(),
            stale: notes.is_stale,
            won,
            taken: notes.is_won,
        };
        answer(self.out, self.request, Response::Hit(item));
        entry.set_read(true);
        if won {
            self.tx.set_notes(key, ItemNotes { is_won: true, ..notes })?;
        }
        if is_last {
            change::remove(self.tx, key)?;
        }
        Ok(())
    }

    /// Has an item that is about to be read expire at another time; one that is to expire at once
    /// is read first.
    fn touch_one(&mut self, key: &[u8], moment: Deadline) -> Result<(), Refusal> {
        self.told.counters.add(Counter::CmdTouch);
        if !self.tx.exists(key)? {
            self.told.counters.add(Counter::TouchMisses);
            return Ok(());
        }
        self.told.counters.add(Counter::TouchHits);
        match moment {
            Deadline::At(at) => change::expire(self.tx, key, at),
            Deadline::Never => change::persist(self.tx, key).map(drop),
            Deadline::Passed => Ok(()),
        }
    }

    /// Answers a miss, or makes the item that the client is to fill.
    fn miss(&mut self, key: &[u8], retrieve: &Retrieve<'_>) -> Result<(), Refusal> {
        self.told.details.record(key, KeyOperation::Miss);
        let is_free = !self.tx.exists(key)?;
        let is_get = retrieve.touch.is_none();
        let Some(expiry) = retrieve.vivify.filter(|_| is_free) else {
            self.told.counters.add_if(is_get, Counter::GetMisses);
            self.answer(Response::Miss);
            return Ok(());
        };
        // The client that is to fill it got an item.
        self.told.counters.add_if(is_get, Counter::GetHits);
        let notes = ItemNotes { is_won: true, ..ItemNotes::default() };
        self.put(key, b"", Some(expiry), notes)?;
        let cas = self.finish_cas(key, retrieve.new_cas)?;
        let ttl_s = self.ttl(key)?;
        self.answer(Response::Hit(Item {
            key,
            value: ItemValue::Plain(b""),
            flags: 0,
            cas,
            ttl_s,
            idle_s: 0,
            was_read: false,
            stale: false,
            won: true,
            taken: false,
        }));
        if let Some(entry) = self.tx.peek(key)? {
            entry.set_read(true);
        }
        Ok(())
    }

    fn store(&mut self, key: &[u8], store: &Store<'_>) -> Done {
        self.told.counters.add(Counter::CmdSet);
        self.told.details.record(key, KeyOperation::Set);
        let found = self.tx.peek(key)?.map(EntryRef::kind);
        let (mut notes, mut expiry) = (ItemNotes::of_flags(store.flags), Some(store.expiry));
        // Whether there is an item is asked before which one it is.
        let is_refused = match store.mode {
            StoreMode::Add => found.is_some(),
            StoreMode::Append | StoreMode::Prepend => found.is_none() && store.vivify.is_none(),
            StoreMode::Set | StoreMode::Replace => false,
        };
        if is_refused {
            return Ok(Response::NotStored);
        }
        // A CAS value of 0 is no condition of those that add to what is there.
        let asks = |compare: &u64| match store.mode {
            StoreMode::Add => false,
            StoreMode::Append | StoreMode::Prepend => *compare != 0,
            StoreMode::Set | StoreMode::Replace => true,
        };
        if let Some(compare) = store.compare.filter(asks) {
            let Some(cas) = self.item_cas(key, found)? else {
                self.told.counters.add(Counter::CasMisses);
                return Ok(Response::NotFound);
            };
            // A client that missed an invalidation may store what others then see as stale, for no
            // longer than they would have seen what was there; the winner is still at it.
            let replaces = matches!(store.mode, StoreMode::Set | StoreMode::Replace);
            let is_late = replaces && store.invalidates && (1..cas).contains(&compare);
            if compare != cas && !is_late {
                self.told.counters.add(Counter::CasBadValue);
                return Ok(Response::Exists);
            }
            if is_late {
                let is_won = self.notes_of(key)?.is_won;
                notes = ItemNotes { is_stale: true, is_won, ..notes };
                expiry = None;
            }
            self.told.counters.add(Counter::CasHits);
        }
        let mut size = store.value.len();
        match (store.mode, found) {
            (StoreMode::Add, Some(_)) | (StoreMode::Replace, None) => {
                return Ok(Response::NotStored);
            }
            (StoreMode::Set | StoreMode::Add | StoreMode::Replace, _) => {
                self.put(key, store.value, expiry, notes)?;
            }
            (StoreMode::Append | StoreMode::Prepend, Some(Kind::String)) => {
                let Some(extended) = self.extend(key, store)? else {
                    return Ok(Response::NotStored);
                };
                size = extended;
                self.renew(key)?;
            }
            (StoreMode::Append | StoreMode::Prepend, Some(_)) => {
                return Err(Refusal::WrongType);
            }
            (StoreMode::Append | StoreMode::Prepend, None) => match store.vivify {
                Some(expiry) => self.put(key, store.value, Some(expiry), notes)?,
                None => return Ok(Response::NotStored),
            },
        }
        Ok(Response::Stored { cas: self.finish_cas(key, store.new_cas)?, size })
    }

    /// Adds to the value at one end; its notes and its deadline stay. Its length then;
    /// nothing if there is no room.
    fn extend(&mut self, key: &[u8], store: &Store<'_>) -> Result<Option<usize>, Refusal> {
        let text = self.tx.peek_text(key)?.expect("it is a string");
        let size = text.len() + store.value.len();
        if size > self.size_max {
            return Ok(None);
        }
        if store.mode == StoreMode::Append {
            self.tx.append_text(key, store.value)?;
            self.tx.event(EventClass::String, "append", key);
            self.tx.effects_mut().instead(&[b"APPEND", key, store.value]);
            return Ok(Some(size));
        }
        let whole = [store.value, text.contiguous(&mut Vec::new())].concat();
        self.tx.update_text(key, |_| Ok(NewText::from_bytes(&whole, true)))?;
        self.tx.event(EventClass::String, "set", key);
        self.journal_item(key)?;
        Ok(Some(size))
    }

    /// A value that was made longer counts as a new one: no client has read it or won it.
    fn renew(&mut self, key: &[u8]) -> Result<(), Refusal> {
        self.told.counters.add(Counter::TotalItems);
        let flags = self.notes_of(key)?.flags;
        self.tx.set_notes(key, ItemNotes::of_flags(flags))?;
        if let Some(entry) = self.tx.peek(key)? {
            entry.set_read(false);
        }
        Ok(())
    }

    fn notes_of(&mut self, key: &[u8]) -> Result<ItemNotes, Refusal> {
        Ok(self.tx.peek(key)?.map(EntryRef::notes).unwrap_or_default())
    }

    fn delete(&mut self, key: &[u8], delete: &Delete<'_>) -> Done {
        self.told.details.record(key, KeyOperation::Delete);
        let found = self.tx.peek(key)?.map(EntryRef::kind);
        if found.is_none() {
            self.told.counters.add(Counter::DeleteMisses);
            return Ok(Response::NotFound);
        }
        if let Some(compare) = delete.compare
            && self.item_cas(key, found)? != Some(compare)
        {
            return Ok(Response::Exists);
        }
        // What is marked as stale stays.
        if !delete.invalidates {
            self.told.counters.add(Counter::DeleteHits);
            if self.told.events.is_watched(WatchClass::Deletions) {
                let left = if delete.empties { None } else { self.tx.peek(key)? };
                self.told.events.delete(key, self.request, size_of_item(left).unwrap_or(0));
            }
        }
        if !delete.invalidates && !delete.empties {
            change::remove(self.tx, key)?;
            return Ok(Response::Deleted);
        }
        if found != Some(Kind::String) {
            return Err(Refusal::WrongType);
        }
        if let Some(expiry) = delete.expiry {
            self.set_expiry(key, expiry)?;
            if self.tx.peek(key)?.is_none() {
                // The item is over at once: nothing is left to empty.
                return Ok(Response::Deleted);
            }
        }
        let mut notes = self.notes_of(key)?;
        if delete.empties {
            notes.flags = 0;
            self.tx.put_item(key, NewText::from_bytes(b"", false), Lifetime::Keep, notes)?;
            self.journal_item(key)?;
        }
        if delete.invalidates {
            let notes = ItemNotes { is_stale: true, is_won: false, ..notes };
            self.tx.set_notes(key, notes)?;
        }
        self.tx.set_version(key, delete.new_cas.unwrap_or(0))?;
        Ok(Response::Deleted)
    }

    fn change_number(&mut self, key: &[u8], change: &Arithmetic<'_>) -> Done {
        let (hits, misses) = match change.decrements {
            true => (Counter::DecrHits, Counter::DecrMisses),
            false => (Counter::IncrHits, Counter::IncrMisses),
        };
        let Some(entry) = self.tx.peek(key)? else {
            let Some((initial, expiry)) = change.initial else {
                self.told.counters.add(misses);
                return Ok(Response::NotFound);
            };
            self.put(key, initial.to_string().as_bytes(), Some(expiry), ItemNotes::default())?;
            return self.number(key, initial, change, true);
        };
        let Some(text) = entry.text() else { return Err(Refusal::WrongType) };
        let (length, before) = (text.len(), number_of(text));
        // That there is nothing at all is seen first, what there is last.
        if let Some(compare) = change.compare
            && compare != 0
            && length > 0
            && self.tx.version(key)? != Some(compare)
        {
            return Ok(Response::Exists);
        }
        let Some(before) = before else { return Err(NOT_AN_INTEGER) };
        let after = match change.decrements {
            true => before.saturating_sub(change.delta),
            false => before.wrapping_add(change.delta),
        };
        self.told.counters.add(hits);
        let digits = after.to_string();
        self.tx.update_text(key, |_| Ok(NewText::from_client(digits.as_bytes())))?;
        self.tx.event(EventClass::String, "incrby", key);
        self.journal_item(key)?;
        if digits.len() > length {
            self.renew(key)?;
        }
        if let Some(expiry) = change.touch {
            self.set_expiry(key, expiry)?;
        }
        self.number(key, after, change, false)
    }

    fn number(&mut self, key: &[u8], value: u64, change: &Arithmetic<'_>, is_new: bool) -> Done {
        let cas = self.finish_cas(key, change.new_cas)?;
        Ok(Response::Number(Number { value, cas, ttl_s: self.ttl(key)?, is_new }))
    }

    fn touch(&mut self, key: &[u8], expiry: Expiry) -> Done {
        let moment = expiry.deadline(self.tx.now());
        self.touch_one(key, moment)?;
        if !self.tx.exists(key)? {
            return Ok(Response::NotFound);
        }
        match moment {
            Deadline::Passed => change::remove(self.tx, key)?,
            // The item counts as read.
            _ => {
                self.tx.touch(key)?;
                if let Some(entry) = self.tx.peek(key)? {
                    entry.set_read(true);
                }
            }
        }
        Ok(Response::Touched)
    }

    /// Describes an item for people.
    fn inspect(&mut self, key: &[u8]) -> Result<(), Refusal> {
        let is_item = self.tx.peek(key)?.is_some_and(|entry| entry.kind() == Kind::String);
        if !is_item {
            self.answer(Response::Miss);
            return Ok(());
        }
        let cas = self.tx.version(key)?.unwrap_or(0);
        let entry = self.tx.peek(key)?.expect("it is an item");
        let left = ttl_of(entry, self.tx.now()).map_or(-1, |left| left as i64);
        let idle = self.tx.idle_seconds(entry).unwrap_or(0);
        let fetched = if entry.was_read() { "yes" } else { "no" };
        let size = entry.memory();
        let words = format!("exp={left} la={idle} cas={cas} fetch={fetched} cls=1 size={size}");
        self.answer(Response::Inspected(words.as_bytes()));
        Ok(())
    }

    /// Takes an item out, if there is one.
    fn remove(&mut self, key: &[u8]) -> Result<(), Refusal> {
        if self.tx.exists(key)? {
            change::remove(self.tx, key)?;
        }
        Ok(())
    }

    /// Stores an item whatever was there. One that has expired already is gone at once.
    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
        notes: ItemNotes,
    ) -> Result<(), Refusal> {
        self.told.counters.add(Counter::TotalItems);
        let lifetime = match expiry.map(|expiry| expiry.deadline(self.tx.now())) {
            Some(Deadline::Passed) => return self.remove(key),
            Some(Deadline::Never) => Lifetime::Forever,
            Some(Deadline::At(moment)) => Lifetime::Until(moment),
            None => Lifetime::Keep,
        };
        let value_text = NewText::from_client(value);
        if let Some(before) = self.tx.put_item(key, value_text, lifetime, notes)? {
            change::notify_overwritten(self.tx, key, before, Kind::String);
        }
        self.tx.event(EventClass::String, "set", key);
        if let Lifetime::Until(_) = lifetime {
            self.tx.event(EventClass::Generic, "expire", key);
        }
        let deadline = match lifetime {
            Lifetime::Keep => return self.journal_item(key),
            Lifetime::Until(moment) => Some(moment),
            Lifetime::Forever => None,
        };
        if self.tx.effects().is_recorded() {
            journal_item(self.tx, key, value, deadline, notes.flags);
        }
        Ok(())
    }

    /// Has an item that is there expire at another time, which has not passed.
    fn set_expiry(&mut self, key: &[u8], expiry: Expiry) -> Result<(), Refusal> {
        match expiry.deadline(self.tx.now()) {
            Deadline::At(moment) => change::expire(self.tx, key, moment),
            Deadline::Passed => change::remove(self.tx, key),
            Deadline::Never => change::persist(self.tx, key).map(drop),
        }
    }

    /// Says to the journal what an item is now.
    fn journal_item(&mut self, key: &[u8]) -> Result<(), Refusal> {
        if !self.tx.effects().is_recorded() {
            return Ok(());
        }
        let Some(entry) = self.tx.peek(key)? else { return Ok(()) };
        let (deadline, flags) = (entry.deadline(), entry.notes().flags);
        let text = entry.text().expect("an item is a string");
        let value = text.contiguous(&mut Vec::new()).to_vec();
        journal_item(self.tx, key, &value, deadline, flags);
        Ok(())
    }

    /// The CAS value of an item, if the answer shows it. One that has expired already when it is
    /// stored has one all the same.
    fn cas_of(&mut self, key: &[u8]) -> Result<u64, Refusal> {
        if !shows_cas(self.request) {
            return Ok(0);
        }
        let version = self.tx.version(key)?;
        Ok(version.unwrap_or_else(|| self.tx.keyspace().next_version()))
    }

    /// The CAS value to compare with; `None` if there is no item.
    fn item_cas(&mut self, key: &[u8], found: Option<Kind>) -> Result<Option<u64>, Refusal> {
        if found == Some(Kind::String) { self.tx.version(key) } else { Ok(None) }
    }

    /// Gives a new item the CAS value that the client wants; the one that it has then.
    fn finish_cas(&mut self, key: &[u8], wanted: Option<u64>) -> Result<u64, Refusal> {
        if let Some(wanted) = wanted {
            self.tx.set_version(key, wanted)?;
        }
        self.cas_of(key)
    }

    /// How long an item that was just stored is kept: not at all, or for ever, or so many seconds.
    fn ttl(&mut self, key: &[u8]) -> Result<Option<u64>, Refusal> {
        let now = self.tx.now();
        Ok(self.tx.peek(key)?.map_or(Some(0), |entry| ttl_of(entry, now)))
    }
}

/// The seconds that an entry has left, begun ones counted; `None` for ever.
fn ttl_of(entry: EntryRef<'_>, now: UnixMillis) -> Option<u64> {
    entry.deadline().map(|deadline| (deadline - now).max(0).unsigned_abs().div_ceil(1000))
}

/// A moment in seconds, begun ones not counted.
pub(super) fn unix_seconds(moment: UnixMillis) -> i64 {
    moment.div_euclid(1000)
}

fn value_of<'v>(text: Text<'v>, scratch: &'v mut [u8; 20]) -> ItemValue<'v> {
    match text {
        Text::Integer(number) => ItemValue::Plain(format_i64(number, scratch)),
        Text::Inline(bytes) => ItemValue::Plain(bytes),
        Text::Large(blob) => ItemValue::Shared(Box::new(blob.clone())),
    }
}
