//! Places in the queues of keys, and watches of keys, that nobody needs any more.
//!
//! Invariants: whichever way a wait or a watch ends, and on whichever thread, its registrations are
//! taken off their keys; no thread waits for the locks of those keys meanwhile, and no client does:
//! a task of a worker takes them as they come free, one partition at a time.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use keyspace::{Acquisition, Awaited, PartitionIndex, PartitionSet, Tx, TxOptions, Waiter, Watch};

use crate::server::Server;
use crate::worker::Worker;

/// So many keys are seen to under one lock at most.
const KEYS_PER_LOCK: usize = 64;

/// Registrations that are to be taken off.
pub(crate) struct Unregistration {
    server: &'static Server,
    registered: Registered,
    /// The keys that still have it, those of one partition in a row; the last one comes next.
    keys: Vec<Key>,
}

/// What stands at the keys, and at which.
#[derive(Clone)]
pub(crate) enum Registered {
    /// The database of all keys, and these.
    Waiter(Arc<Waiter>, usize, Arc<Awaited>),
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
    /// Takes this off its keys. It has to be begun, or is by its end.
    pub(crate) fn new(server: &'static Server, registered: Registered) -> Self {
        let key = |nth: usize| Key {
            partition: server.keyspace.locate(registered.key(nth).1).partition(),
            nth: u32::try_from(nth).expect("a command has fewer words"),
        };
        let mut keys: Vec<_> = (0..registered.len()).map(key).collect();
        keys.sort_unstable_by_key(|key| key.partition);
        Self { server, registered, keys }
    }

    /// Does it in a task of this worker.
    pub(crate) fn begin(self, worker: &Rc<Worker>) {
        if !self.keys.is_empty() {
            tokio::task::spawn_local(self.carry_out(Rc::clone(worker)));
        }
    }

    async fn carry_out(mut self, worker: Rc<Worker>) {
        while let Some(next) = self.keys.last() {
            let wanted = PartitionSet::from_slice(&[next.partition]);
            let mut acquisition = Acquisition::of_partitions(self.server.keyspace, wanted);
            poll_fn(|cx| {
                let polled = worker.poll_locks(&mut acquisition, cx.waker());
                if polled.is_pending() {
                    worker.go_out();
                }
                polled
            })
            .await;
            worker.start_batch();
            self.take_off(acquisition, TxOptions::internal(worker.lane, worker.now_ms()));
            worker.go_out();
            // Others have the worker before the next partition.
            tokio::task::yield_now().await;
        }
    }

    /// Sees to the next keys of one partition, whose lock this is.
    fn take_off(&mut self, acquisition: Acquisition, options: TxOptions) {
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

    /// There is nobody left to do it: the process ends.
    pub(crate) fn forget(&mut self) {
        self.keys.clear();
    }
}

impl Drop for Unregistration {
    /// What is left is done by a worker that stays: this one retires, or the thread is none.
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            let (server, keys) = (self.server, std::mem::take(&mut self.keys));
            let rest = Self { server, registered: self.registered.clone(), keys };
            server.crew.unregister(Box::new(rest));
        }
    }
}
