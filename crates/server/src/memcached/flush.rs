//! flush_all: all items of the database are forgotten, now or at a moment to come.
//!
//! Invariant: what is forgotten is what is there at that moment, all of it and nothing that comes
//! later, since the world stands still meanwhile.

use std::sync::atomic::Ordering;

use config::settings::MEMCACHED_DATABASE;
use engine::clients::mailbox::PendingWakes;
use engine::commit::publish::commit;
use engine::runtime::background::{wait_for, wait_for_client};
use engine::session::Step;
use keyspace::{Acquisition, BUSY, Tx, TxOptions};
use proto::memcached::{Deadline, Expiry, Failure, Response, answer};
use proto::{Args, Output};

use super::MemcachedServer;
use super::counters::Counter;
use super::{RequestContext, failure_of};

pub(super) const NOT_ALLOWED: Failure<'static> = Failure::Client("flush_all not allowed");

impl RequestContext<'_> {
    /// Forgets all items.
    pub(super) fn flush(&mut self, expiry: Expiry) -> Step {
        let server = self.server;
        self.count(Counter::CmdFlush);
        // There is one moment: another takes back the former one.
        let flush_at = &server.memcached.flush_at;
        if let Deadline::At(moment) = expiry.deadline(self.lane.now_ms()) {
            flush_at.store(moment, Ordering::Relaxed);
            return self.respond(Response::Ok);
        }
        flush_at.store(0, Ordering::Relaxed);
        let mut told = Output::new();
        answer(&mut told, self.request, Response::Ok);
        let told = told.front().to_vec();
        let mut busy = Output::new();
        answer(&mut busy, self.request, Response::Failed(failure_of(&BUSY)));
        let busy = busy.front().to_vec();
        self.on_a_lane(move |lane, reply| {
            let mut world = Acquisition::of_world(server.keyspace);
            match wait_for_client(server.keyspace, &mut world) {
                Ok(()) => {
                    flush(server, world, lane);
                    reply.raw(&told);
                }
                Err(_) => reply.raw(&busy),
            }
        })
    }
}

/// Empties the database as soon as the world can be had, on the thread that `lane` was given to.
pub(super) fn flush_when_due(server: &'static MemcachedServer, lane: usize) {
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for(&mut world);
    flush(server, world, lane);
}

fn flush(server: &'static MemcachedServer, world: Acquisition, lane: usize) {
    let internal = TxOptions::internal(lane, server.keyspace.clock().now_ms());
    let database = server.config.get(MEMCACHED_DATABASE) as usize;
    let mut tx = Tx::begin(world, TxOptions { database, heavy: true, ..internal });
    const GRANTED: &str = "the world is granted";
    tx.flush_database().expect(GRANTED);
    tx.effects_mut().instead(&[b"FLUSHDB"]);
    let wakes = PendingWakes::default();
    commit(server, &wakes, &mut tx, Args::default()).expect(GRANTED);
    drop(tx);
    server.mailboxes.wake(&wakes);
}
