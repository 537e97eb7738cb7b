//! The crew: which workers there are, and who serves a new connection.
//!
//! Invariant: worker numbers below the size of the crew are at work; a worker that retires hands
//! its sessions to those that stay before its thread ends.

use std::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use crate::server::Server;
use crate::session::Moving;
use crate::worker::{self, Message};

/// The most workers that can be asked for; higher lanes are for other threads.
pub(crate) const MAX_WORKERS: usize = 128;

/// The workers of a server.
pub(crate) struct Crew {
    roster: Mutex<Roster>,
    size: AtomicUsize,
}

#[derive(Default)]
struct Roster {
    inboxes: Vec<mpsc::UnboundedSender<Message>>,
    /// The last thread of every lane there ever was: the next one there waits for its end.
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        Self { roster: Mutex::default(), size: AtomicUsize::new(0) }
    }

    /// How many workers are at work.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Makes the crew `size` workers strong. Sessions of workers that go are taken over by others.
    pub(crate) fn resize(&self, server: &'static Server, size: usize) {
        let mut roster = self.roster();
        while roster.inboxes.len() < size {
            let lane = roster.inboxes.len();
            let predecessor = roster.threads.get(lane).is_some().then(|| roster.threads.remove(lane));
            let (sender, receiver) = mpsc::unbounded_channel();
            let work = move || {
                if let Some(predecessor) = predecessor {
                    let _ = predecessor.join();
                }
                worker::run(server, lane, receiver);
            };
            let thread = std::thread::Builder::new().name(format!("worker-{lane}"));
            let thread = thread.spawn(work).expect("the system lets us have a thread per core");
            roster.threads.insert(lane, thread);
            roster.inboxes.push(sender);
        }
        self.size.store(size, Ordering::Relaxed);
        for inbox in roster.inboxes.drain(size..) {
            // A worker whose thread is gone has nothing left to hand over.
            let _ = inbox.send(Message::Retire);
        }
    }

    /// Gives a connection to the worker with the fewest.
    pub(crate) fn hand_over(
        &self,
        server: &Server,
        moving: Box<Moving>,
    ) {
        let roster = self.roster();
        let load = |lane: &usize| server.worker_counters(*lane).sessions.load(Ordering::Relaxed);
        let lane = (0..roster.inboxes.len()).min_by_key(load).expect("a crew has a worker");
        server.worker_counters(lane).sessions.fetch_add(1, Ordering::Relaxed);
        let sent = roster.inboxes[lane].send(Message::Adopt(moving));
        assert!(sent.is_ok(), "a worker in the list receives");
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().expect("no critical section here panics")
    }
}
