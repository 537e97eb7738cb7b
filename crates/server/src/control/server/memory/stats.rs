//! What takes the memory, in figures.
//!
//! Invariant: `used` is what the server accounts for, not what the system sees; the parts are of
//! the same moment as far as counters of many threads can be.

use engine::clients::registry::client_flags;
use engine::runtime::system_memory::ResidentSet;
use engine::session::client_info::bytes_of;
use keyspace::{Keyspace, arena};

use crate::server::Server;

/// What a key's place in its table takes: a word, and a share of those that are free.
const TABLE_BYTES_PER_KEY: usize = 11;

/// A view of the memory.
pub(crate) struct MemoryStats {
    /// All that is allocated.
    pub(crate) used: usize,
    /// The most that `used` was seen to be.
    pub(crate) peak: usize,
    /// What the server took before the first key.
    pub(crate) startup: usize,
    /// Records and buffers of clients.
    pub(crate) clients: usize,
    /// Everything in `used` that is neither a key nor a value.
    pub(crate) overhead: usize,
    /// Keys of all databases.
    pub(crate) keys: usize,
    /// Databases with keys, and what their tables take.
    pub(crate) tables: Vec<(usize, usize)>,
    /// `used` and what lies free in the arena.
    pub(crate) active: usize,
    /// What the system counts as ours.
    pub(crate) resident: usize,
    /// What of it is not the program: the allocator's, and stacks.
    pub(crate) anonymous: usize,
}

impl MemoryStats {
    /// The figures of this moment.
    pub(crate) fn of(server: &Server) -> Self {
        let keyspace = server.keyspace;
        let all = server.clients.all();
        // What is kept for replicas they share, and is the backlog's.
        let clients = all.iter().filter(|client| !client.has_flag(client_flags::REPLICA));
        let clients = clients.map(|client| bytes_of(client)).sum();
        let used = server.memory.budget.used_exactly();
        server.memory.peak.record(used, keyspace.clock().now_ms());
        let now_us = keyspace.clock().monotonic_us();
        let ResidentSet { all: resident, of_files } =
            server.memory.budget.resident(now_us, used + arena::slack());
        let startup = server.memory.budget.startup();
        let tables = tables(keyspace);
        let overhead = startup + clients + tables.iter().map(|(_, bytes)| bytes).sum::<usize>();
        Self {
            used,
            peak: server.memory.peak.bytes(),
            startup,
            clients,
            overhead: overhead.min(used),
            keys: (0..keyspace.database_count()).map(|database| keyspace.len(database)).sum(),
            tables,
            active: used + arena::slack(),
            resident,
            anonymous: resident - of_files.min(resident),
        }
    }

    /// What keys and values take.
    pub(crate) fn dataset(&self) -> usize {
        self.used - self.overhead
    }

    /// The share of keys and values in what came since the start.
    pub(crate) fn dataset_percentage(&self) -> f64 {
        let since_start = self.used.saturating_sub(self.startup);
        if since_start == 0 { 0.0 } else { 100.0 * self.dataset() as f64 / since_start as f64 }
    }

    /// The present share of the peak.
    pub(crate) fn peak_percentage(&self) -> f64 {
        100.0 * super::ratio(self.used, self.peak)
    }

    pub(crate) fn bytes_per_key(&self) -> usize {
        self.used.saturating_sub(self.startup).checked_div(self.keys).unwrap_or(0)
    }
}

fn tables(keyspace: &Keyspace) -> Vec<(usize, usize)> {
    let sizes = (0..keyspace.database_count()).map(|database| (database, keyspace.len(database)));
    let used = sizes.filter(|(_, keys)| *keys > 0);
    used.map(|(database, keys)| (database, keys * TABLE_BYTES_PER_KEY)).collect()
}

/// How many times larger one number is than another.
pub(in crate::control::server) fn ratio(larger: usize, smaller: usize) -> f64 {
    larger as f64 / smaller.max(1) as f64
}
