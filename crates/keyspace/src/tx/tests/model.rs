//! Random operations against a naive model, and walks beside them; counters against a full walk;
//! leaks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use base::time::UnixMillis;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::walks::{begin_walk, finish, visit};
use super::{NOW, OPTIONS, audit, begin, bytes_of, keyspace, on, world};
use crate::entry::{EntryRef, NewText, live_blocks};
use crate::keyspace::Keyspace;
use crate::refusal::Refusal;
use crate::tx::{Lifetime, Tx, TxOptions};
use crate::walk::{WALKS, Walk, WalkSink};

const DATABASES: usize = 4;

/// Few keys, so that operations meet.
const KEYS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<u8>, Life),
    Append(usize, Vec<u8>),
    WriteAt(usize, usize, Vec<u8>),
    SetDeadline(usize, Option<UnixMillis>),
    Delete(usize),
    Rename(usize, usize),
    Copy(usize, usize, Option<UnixMillis>),
    Read(usize),
    Select(usize),
    Swap(usize, usize),
    Flush,
    Advance(UnixMillis),
    Sweep,
    /// These steps, then an undeclared key: nothing of them is left.
    Undone(Vec<Step>),
    /// Begins a walk.
    Cut,
    /// Some more partitions of a walk.
    Visit(usize, usize),
    /// Gives a walk up.
    GiveUp(usize),
    /// The rest of a walk.
    Finish(usize),
}

/// A lifetime relative to the present time.
#[derive(Clone, Copy, Debug)]
enum Life {
    Keep,
    Forever,
    For(UnixMillis),
}

#[derive(Clone, Debug, PartialEq)]
struct Value {
    bytes: Vec<u8>,
    deadline: Option<UnixMillis>,
}

/// What the keyspace should hold.
#[derive(Clone)]
struct Model {
    databases: Vec<HashMap<usize, Value>>,
    selected: usize,
    now: UnixMillis,
}

fn key(number: usize) -> Vec<u8> {
    // One key is long enough to need wide lengths.
    let pad = if number == 0 { 5000 } else { number * 3 };
    format!("key:{number}:{}", "k".repeat(pad)).into_bytes()
}

fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(key).collect()
}

impl Model {
    fn new() -> Self {
        Self { databases: vec![HashMap::new(); DATABASES], selected: 0, now: NOW }
    }

    /// The value of a key whose time is not over.
    fn get(&mut self, number: usize) -> Option<&mut Value> {
        let now = self.now;
        let database = &mut self.databases[self.selected];
        if database.get(&number).is_some_and(|value| value.deadline.is_some_and(|at| at <= now)) {
            database.remove(&number);
        }
        database.get_mut(&number)
    }

    fn put(&mut self, number: usize, bytes: &[u8], deadline: Option<UnixMillis>) {
        let value = Value { bytes: bytes.to_vec(), deadline };
        self.databases[self.selected].insert(number, value);
    }

    fn write(&mut self, number: usize, offset: usize, bytes: &[u8]) -> usize {
        if self.get(number).is_none() {
            self.put(number, b"", None);
        }
        let value = self.get(number).unwrap();
        value.bytes.resize(value.bytes.len().max(offset + bytes.len()), 0);
        value.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        value.bytes.len()
    }
}

/// The keyspace and the model side by side.
struct Pair {
    keyspace: &'static Keyspace,
    model: Model,
    walks: Vec<Walking>,
}

/// A walk with the model of its cut.
struct Walking {
    walk: Arc<Walk>,
    sink: Sink,
    cut: Model,
}

/// What a walk saved.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<Saved>>>);

/// Physical database, key and value.
type Saved = (usize, Vec<u8>, Value);

impl WalkSink for Sink {
    fn save(&self, database: usize, entry: EntryRef<'_>) {
        let value = Value { bytes: bytes_of(entry), deadline: entry.deadline() };
        self.0.lock().unwrap().push((database, entry.key().to_vec(), value));
    }
}

impl Pair {
    fn options(&self) -> TxOptions {
        TxOptions { now: self.model.now, database: self.model.selected, ..OPTIONS }
    }

    fn run(&mut self, step: &Step) {
        let keys = keys();
        let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        match step {
            Step::Select(database) => self.model.selected = *database,
            Step::Advance(by) => self.model.now += by,
            Step::Swap(one, other) => {
                world(self.keyspace, self.options()).swap_databases(*one, *other).unwrap();
                self.model.databases.swap(*one, *other);
            }
            Step::Flush => {
                world(self.keyspace, self.options()).flush_database().unwrap();
                self.model.databases[self.model.selected].clear();
            }
            Step::Sweep => self.sweep(),
            Step::Cut if self.walks.len() < WALKS => {
                let sink = Sink::default();
                let walk = begin_walk(self.keyspace, Box::new(sink.clone()));
                self.walks.push(Walking { walk, sink, cut: self.model.clone() });
            }
            Step::Cut => {}
            Step::Visit(number, partitions) => {
                if let Some(walking) = self.walks.get(*number) {
                    visit(self.keyspace, &walking.walk, &walking.sink, *partitions);
                }
            }
            Step::GiveUp(number) => {
                if let Some(walking) = self.walks.get(*number) {
                    walking.walk.abort();
                    walking.walk.start_over();
                }
            }
            Step::Finish(number) => {
                if *number < self.walks.len() {
                    self.walks.remove(*number).finish(self.keyspace);
                }
            }
            Step::Undone(steps) => {
                let options = TxOptions { undoable: true, ..self.options() };
                let mut tx = begin(self.keyspace, &all, options);
                let mut scratch = self.model.clone();
                steps.iter().for_each(|step| apply(&mut tx, &mut scratch, &keys, step));
                assert_eq!(tx.delete(b"undeclared").unwrap_err(), Refusal::Widen);
                drop(tx.widen(0));
            }
            step => {
                let mut tx = begin(self.keyspace, &all, self.options());
                apply(&mut tx, &mut self.model, &keys, step);
                tx.finish();
            }
        }
    }

    fn sweep(&mut self) {
        let now = self.model.now;
        for partition in self.keyspace.partitions_due(now).collect::<Vec<_>>() {
            let mut tx = Tx::begin(self.keyspace.try_acquire(partition).unwrap(), self.options());
            tx.begin_sweep(partition);
            let swept = tx.sweep_expired(partition, (0, 0), 1000);
            let mut earliest = swept.earliest.unwrap_or(i64::MAX);
            let mut from = swept.next;
            while let Some(place) = from {
                let swept = tx.sweep_expired(partition, place, 1);
                earliest = earliest.min(swept.earliest.unwrap_or(i64::MAX));
                from = swept.next;
            }
            tx.end_sweep(partition, earliest);
        }
        assert_eq!(self.keyspace.partitions_due(now).count(), 0);
        for logical in 0..DATABASES {
            self.model.databases[logical]
                .retain(|_, value| value.deadline.is_none_or(|at| at > now));
            assert_eq!(self.keyspace.len(logical), self.model.databases[logical].len());
        }
    }

    fn check(&mut self) {
        let keys = keys();
        for logical in 0..DATABASES {
            self.model.selected = logical;
            for (number, key) in keys.iter().enumerate() {
                let tx = begin(self.keyspace, &[key], self.options());
                let found = tx.peek(key).unwrap().map(|entry| {
                    let (bytes, deadline) = (bytes_of(entry), entry.deadline());
                    assert_eq!(entry.text().unwrap().len(), bytes.len());
                    Value { bytes, deadline }
                });
                assert_eq!(found.as_ref(), self.model.get(number).as_deref());
            }
        }
    }
}

impl Walking {
    /// What was saved is what the model held at the cut, but for keys whose time was over then.
    fn finish(self, keyspace: &'static Keyspace) {
        finish(keyspace, &self.walk, &self.sink);
        if self.walk.is_given_up() {
            return;
        }
        let alive = |value: &Value| value.deadline.is_none_or(|at| at > self.cut.now);
        let mut expected = BTreeMap::new();
        for (logical, database) in self.cut.databases.iter().enumerate() {
            for (number, value) in database.iter().filter(|(_, value)| alive(value)) {
                expected.insert((logical, key(*number)), value.clone());
            }
        }
        let saved = std::mem::take(&mut *self.sink.0.lock().unwrap());
        let saved: Vec<_> = saved.into_iter().filter(|(.., value)| alive(value)).collect();
        assert_eq!(saved.len(), expected.len(), "each key exactly once");
        for (physical, key, value) in saved {
            let place = (self.walk.name(physical), key);
            assert_eq!(expected.get(&place), Some(&value), "as it was at the cut");
        }
    }
}

/// One step within a transaction that holds all keys.
fn apply(tx: &mut Tx, model: &mut Model, keys: &[Vec<u8>], step: &Step) {
    match step {
        Step::Put(number, bytes, life) => {
            let existed = model.get(*number).is_some();
            let (lifetime, deadline) = match life {
                Life::Keep => (Lifetime::Keep, model.get(*number).and_then(|old| old.deadline)),
                Life::Forever => (Lifetime::Forever, None),
                Life::For(time) => (Lifetime::Until(model.now + time), Some(model.now + time)),
            };
            let value = NewText::from_client(bytes);
            assert_eq!(tx.put_text(&keys[*number], value, lifetime).unwrap().is_some(), existed);
            model.put(*number, bytes, deadline);
        }
        Step::Append(number, bytes) => {
            let offset = model.get(*number).map_or(0, |value| value.bytes.len());
            let len = model.write(*number, offset, bytes);
            assert_eq!(tx.append_text(&keys[*number], bytes).unwrap(), len);
        }
        Step::WriteAt(number, offset, bytes) => {
            let len = model.write(*number, *offset, bytes);
            assert_eq!(tx.write_text(&keys[*number], *offset, bytes).unwrap(), len);
        }
        Step::SetDeadline(number, life) => {
            let deadline = life.map(|time| model.now + time);
            let present = model.get(*number).map(|value| value.deadline = deadline).is_some();
            assert_eq!(tx.set_deadline(&keys[*number], deadline).unwrap(), present);
        }
        Step::Delete(number) => {
            let present = model.get(*number).is_some();
            assert_eq!(tx.delete(&keys[*number]).unwrap(), present);
            model.databases[model.selected].remove(number);
        }
        Step::Rename(from, to) => {
            let taken = tx.take(&keys[*from]).unwrap();
            assert_eq!(taken.is_some(), model.get(*from).is_some());
            let Some(entry) = taken else { return };
            tx.place(entry.renamed(&keys[*to])).unwrap();
            let value = model.databases[model.selected].remove(from).unwrap();
            model.databases[model.selected].insert(*to, value);
        }
        Step::Copy(from, to, life) => {
            let deadline = life.map(|time| model.now + time);
            let Some(entry) = tx.peek(&keys[*from]).unwrap() else { return };
            let copy = entry.duplicate(&keys[*to], deadline);
            tx.place(copy).unwrap();
            let bytes = model.get(*from).unwrap().bytes.clone();
            model.put(*to, &bytes, deadline);
        }
        Step::Read(number) => {
            let read = tx.read(&keys[*number]).unwrap();
            assert_eq!(read.is_some(), model.get(*number).is_some());
        }
        other => unreachable!("{other:?} is not for one transaction"),
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let filled = |size: std::ops::Range<usize>| {
        (size, any::<u8>()).prop_map(|(size, byte)| vec![byte; size])
    };
    prop_oneof![
        4 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => (0..300_i64).prop_map(|number| number.to_string().into_bytes()),
        6 => filled(0..100),
        2 => filled(4000..4200),
        1 => filled(65_400..65_700),
    ]
}

fn number() -> impl Strategy<Value = usize> {
    0..KEYS
}

fn life() -> impl Strategy<Value = Option<UnixMillis>> {
    prop::option::of(-2..50_i64)
}

fn simple() -> impl Strategy<Value = Step> {
    let lifetime =
        prop_oneof![Just(Life::Keep), Just(Life::Forever), (-2..50_i64).prop_map(Life::For)];
    prop_oneof![
        6 => (number(), bytes(), lifetime)
            .prop_map(|(key, value, life)| Step::Put(key, value, life)),
        2 => (number(), bytes()).prop_map(|(key, tail)| Step::Append(key, tail)),
        2 => (number(), 0..70_000_usize, bytes())
            .prop_map(|(key, offset, bytes)| Step::WriteAt(key, offset, bytes)),
        2 => (number(), life()).prop_map(|(key, life)| Step::SetDeadline(key, life)),
        2 => number().prop_map(Step::Delete),
        2 => (number(), number()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (number(), number(), life()).prop_map(|(from, to, life)| Step::Copy(from, to, life)),
        3 => number().prop_map(Step::Read),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => simple(),
        3 => (0..DATABASES).prop_map(Step::Select),
        1 => (0..DATABASES, 0..DATABASES).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => Just(Step::Flush),
        3 => (1..30_i64).prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        2 => prop::collection::vec(simple(), 1..8).prop_map(Step::Undone),
        2 => Just(Step::Cut),
        4 => (0..WALKS, 0..6000_usize).prop_map(|(walk, count)| Step::Visit(walk, count)),
        1 => (0..WALKS).prop_map(Step::GiveUp),
        1 => (0..WALKS).prop_map(Step::Finish),
    ]
}

#[test]
fn random_operations_do_what_the_model_does() {
    let keyspace = keyspace();
    let config = Config { cases: 60, ..Config::default() };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..60))| {
        let mut pair = Pair { keyspace, model: Model::new(), walks: Vec::new() };
        world(keyspace, OPTIONS).flush_all().unwrap();
        assert_eq!(live_blocks::count(), 0, "what was flushed is freed");
        for step in &steps {
            pair.run(step);
        }
        pair.walks.drain(..).for_each(|walking| walking.finish(keyspace));
        audit(keyspace);
        pair.check();
    });
    world(keyspace, OPTIONS).flush_all().unwrap();
    assert_eq!((live_blocks::count(), keyspace.memory()), (0, keyspace.fixed_memory()));
    drop(on(keyspace, &[]));
}
