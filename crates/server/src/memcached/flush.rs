//! flush_all: all items of the database are forgotten, now or at a moment to come.
//!
//! Invariant: what is forgotten is what is there at that moment, all of it and nothing that comes
//! later, since the world stands still meanwhile; and what keeps FLUSHDB from running at that
//! moment keeps this, however long the world was waited for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use config::settings::MEMCACHED_DATABASE;
use engine::admission::readmission::Readmission;
use engine::clients::mailbox::PendingWakes;
use engine::commit::publish::commit;
use engine::runtime::background::{BETWEEN_LOOKS, wait_for, wait_for_client};
use engine::session::{self, AclSubject, Step};
use keyspace::{Acquisition, Refusal, Tx, TxOptions};
use proto::memcached::{Deadline, Expiry, Failure, Form, Operation, Request, Response, answer};
use proto::{Args, Output, OwnedArgs};

use super::MemcachedServer;
use super::command_map::CommandKind;
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
        let subject = self.session.acl_subject_from_now(server);
        let request = kept(self.request, expiry);
        self.on_a_lane(move |lane, reply| {
            let keyspace = server.keyspace;
            let wait = |world: &mut Acquisition| wait_for_client(keyspace, world);
            let world = world_past_gates(server, subject.as_ref(), wait);
            let mut told = Output::new();
            match world {
                Ok(world) => {
                    flush(server, world, lane);
                    answer(&mut told, &request, Response::Ok);
                }
                Err(refusal) => {
                    answer(&mut told, &request, Response::Failed(failure_of(&refusal)));
                }
            }
            reply.raw(told.front());
        })
    }
}

/// The request, for a thread that answers it later: flush_all names no key.
fn kept(request: &Request<'_>, expiry: Expiry) -> Request<'static> {
    let form = match request.form {
        Form::Text { with_cas, quiet } => Form::Text { with_cas, quiet },
        Form::Binary { opcode, opaque } => Form::Binary { opcode, opaque },
        Form::Meta(_) => unreachable!("no meta command flushes"),
    };
    Request { operation: Operation::Flush(expiry), form }
}

/// Empties the database as soon as the world can be had, on the thread that `lane` was given to. A
/// server that may not do that by then, as a replica, has nothing to flush.
pub(super) fn flush_when_due(server: &'static MemcachedServer, lane: usize) {
    let wait = |world: &mut Acquisition| {
        wait_for(world);
        Ok(())
    };
    if let Ok(world) = world_past_gates(server, None, wait) {
        flush(server, world, lane);
    }
}

/// The world, with the gates of FLUSHDB open while it is in hand: what came to be since they were
/// asked holds, too. While they only hold, the world is given back.
fn world_past_gates(
    server: &'static MemcachedServer,
    subject: Option<&Arc<AclSubject>>,
    wait: impl Fn(&mut Acquisition) -> Result<(), Refusal>,
) -> Result<Acquisition, Refusal> {
    let entry = server.memcached.commands(server).entry(CommandKind::Flush);
    let entry = entry.ok_or(Refusal::error("ERR flush_all not allowed"))?;
    let args: OwnedArgs = [&b"FLUSHDB"[..]].into_iter().collect();
    let database = server.config.get(MEMCACHED_DATABASE) as usize;
    let request = session::Request { entry, args: args.as_args(), database };
    let readmission = Readmission::beside_slots(server, subject, request);
    loop {
        let mut world = Acquisition::of_world(server.keyspace);
        wait(&mut world)?;
        if !readmission.hold(None)? {
            return Ok(world);
        }
        drop(world);
        std::thread::sleep(BETWEEN_LOOKS);
    }
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
