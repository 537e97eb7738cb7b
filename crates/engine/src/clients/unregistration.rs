//! Places in the queues of keys, and watches of keys, that nobody needs any more.
//!
//! Invariants: whichever way a wait or a watch ends, and on whichever thread, its registrations are
//! taken off their keys; no thread waits for the locks of those keys meanwhile, and no client does:
//! a task of a worker takes them as they come free, one partition at a time.

use std::sync::{Arc, OnceLock};

use keyspace::{
    Acquisition, BlockingKeys, Keyspace, PartitionIndex, PartitionSet, Tx, TxOptions, Waiter, Watch,
};

/// So many keys are seen to under one lock at most.
const KEYS_PER_LOCK: usize = 64;

/// Where unregistrations are passed on that nobody has begun.
pub struct Unregistrar {
    keyspace: &'static Keyspace,
    /// To a worker that does it.
    workers: OnceLock<Box<UnregistrationHandler>>,
}

type UnregistrationHandler = dyn Fn(Box<Unregistration>) + Send + Sync;

impl Unregistrar {
    /// Without workers yet, while no client can wait or watch.
    pub(crate) fn new(keyspace: &'static Keyspace) -> Self {
        Self { keyspace, workers: OnceLock::new() }
    }

    /// From now on this passes them on to a worker; once.
    pub fn begin(&self, pass_on: impl Fn(Box<Unregistration>) + Send + Sync + 'static) {
        let _ = self.workers.set(Box::new(pass_on));
    }
}

/// Registrations that are to be taken off.
pub struct Unregistration {
    registrar: &'static Unregistrar,
    registered: Registered,
    /// The keys that still have it, those of one partition in a row; the last one comes next.
    keys: Vec<Key>,
}

/// What stands at the keys, and at which.
#[derive(Clone)]
pub(crate) enum Registered {
    /// The database of all keys, and these.
    Waiter(Arc<Waiter>, usize, Arc<BlockingKeys>),
    /// Each key with its database.
    Watch(Arc<Watch>, Arc<[(usize, Box<[u8]>)]>),
}

/// Which of the keys it is, and where that lies.
struct Key {
    partition: PartitionIndex,
    nth: u32,
}

impl Registered {
    fn len(&self) -> usize {
        match self {
            Self::Waiter(_, _, awaited) => awaited.len(),
            Self::Watch(_, keys) => keys.len(),
        }
    }

    /// The `nth` key, behind its database.
    fn key(&self, nth: usize) -> (usize, &[u8]) {
        match self {
            Self::Waiter(_, database, awaited) => (*database, awaited.key(nth)),
            Self::Watch(_, keys) => (keys[nth].0, &keys[nth].1),
        }
    }
}

impl Unregistration {
    /// Takes this off its keys. The unregistration has to be begun, or is by its end.
    pub(crate) fn new(registrar: &'static Unregistrar, registered: Registered) -> Self {
        let key = |nth: usize| Key {
            partition: registrar.keyspace.locate(registered.key(nth).1).partition(),
            nth: u32::try_from(nth).expect("a command has fewer words"),
        };
        let mut keys: Vec<_> = (0..registered.len()).map(key).collect();
        keys.sort_unstable_by_key(|key| key.partition);
        Self { registrar, registered, keys }
    }

    /// The same of a watch, off keys that stand behind their databases.
    pub fn of_watch(
        registrar: &'static Unregistrar,
        watch: Arc<Watch>,
        keys: Arc<[(usize, Box<[u8]>)]>,
    ) -> Self {
        Self::new(registrar, Registered::Watch(watch, keys))
    }

    /// The locks of the next keys; `None` if all are seen to.
    pub fn next(&self) -> Option<Acquisition> {
        let next = self.keys.last()?;
        let wanted = PartitionSet::from_slice(&[next.partition]);
        Some(Acquisition::of_partitions(self.registrar.keyspace, wanted))
    }

    /// Sees to the next keys of one partition, whose lock this is.
    pub fn unregister_next(&mut self, acquisition: Acquisition, options: TxOptions) {
        let mut tx = Tx::begin(acquisition, options);
        let Some(partition) = self.keys.last().map(|key| key.partition) else { return };
        for _ in 0..KEYS_PER_LOCK {
            let next = self.keys.pop_if(|key| key.partition == partition);
            let Some(Key { nth, .. }) = next else { return };
            let (database, name) = self.registered.key(nth as usize);
            match &self.registered {
                Registered::Watch(watch, _) => tx.unwatch(database, name, watch),
                Registered::Waiter(waiter, ..) => {
                    tx.switch_database(database);
                    tx.unregister(name, waiter).expect("the queue is locked");
                }
            }
        }
    }

    /// No thread is left to do it: the process ends.
    pub fn forget(&mut self) {
        self.keys.clear();
    }
}

impl Drop for Unregistration {
    /// What is left is done by a worker that stays: this one retires, or the thread is none.
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            let (registrar, keys) = (self.registrar, std::mem::take(&mut self.keys));
            let mut rest = Self { registrar, registered: self.registered.clone(), keys };
            match registrar.workers.get() {
                Some(pass_on) => pass_on(Box::new(rest)),
                None => rest.forget(),
            }
        }
    }
}
