//! Clients that write and read keys, one request after the other.

use super::super::machine::{Outcome, Reply};
use super::{Happening, Queued, World};

/// Keys of a shard.
const KEYS: u64 = 3;
/// A client waits for a reply no longer.
const PATIENCE: u64 = 700;

#[derive(Default)]
pub(super) struct Client {
    /// Counts the requests; the last one is under way if anything is.
    request: u64,
    under_way: Option<Request>,
    /// The machine that served the client last, by shard.
    known: Vec<Option<usize>>,
}

struct Request {
    shard: usize,
    key: u64,
    begun: u64,
}

impl World {
    /// The client asks for something.
    pub(super) fn client_turn(&mut self, client: usize) {
        if self.clients[client].under_way.is_some() {
            return;
        }
        let shard = self.random.below(self.plan.shards as u64) as usize;
        let key = self.random.below(KEYS);
        let is_write = self.random.below(2) == 0;
        let write = is_write.then(|| {
            self.values += 1;
            self.values
        });
        let anyone = self.random.below(self.plan.nodes as u64) as usize;
        let shards = self.plan.shards;
        let own = &mut self.clients[client];
        own.known.resize(shards, None);
        own.request += 1;
        own.under_way = Some(Request { shard, key, begun: self.now });
        let (to, request) = (own.known[shard].unwrap_or(anyone), own.request);
        if let Some(value) = write {
            self.checks.write_begins((self.shards[shard], key), value, self.now);
        }
        let serves_shard = self.map.shard_of(self.machines[to].id).map(|(id, _)| id);
        if serves_shard == Some(self.shards[shard]) && !self.chance(self.loss) {
            let delay = self.latency();
            let happening = Happening::Request { client, request, key, write };
            self.later(delay, Queued::At(to, None, happening));
            self.clients[client].known[shard] = Some(to);
            self.later(PATIENCE, Queued::TimeOver(client, request));
        } else {
            self.clients[client].known[shard] = None;
            self.later(5, Queued::TimeOver(client, request));
        }
    }

    /// A machine answers a client.
    pub(super) fn reply(&mut self, reply: Reply) {
        if !self.chance(self.loss) {
            let delay = self.latency();
            self.later(delay, Queued::Told(reply));
        }
    }

    pub(super) fn client_told(&mut self, reply: &Reply) {
        let client = &mut self.clients[reply.client];
        if client.request != reply.request {
            return;
        }
        let Some(done) = client.under_way.take() else { return };
        match reply.outcome {
            Outcome::Written(value) => self.checks.write_ends(value, self.now),
            Outcome::Read(value) => {
                let key = (self.shards[done.shard], done.key);
                self.checks.read(key, value, done.begun, self.now);
            }
            Outcome::Refused => client.known[done.shard] = None,
        }
        let pause = self.random.below(40);
        self.later(pause, Queued::Turn(reply.client));
    }

    pub(super) fn client_gives_up(&mut self, client: usize, request: u64) {
        let own = &mut self.clients[client];
        if own.request == request
            && let Some(given_up) = own.under_way.take()
        {
            own.known[given_up.shard] = None;
            self.later(1, Queued::Turn(client));
        }
    }
}
