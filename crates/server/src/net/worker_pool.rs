//! The crew: which workers there are, and who serves a new connection.
//!
//! Invariants: worker numbers below the size of the crew are at work; a worker that retires hands
//! its sessions to those that stay, whatever these wait for, before its thread ends; a lane has one
//! thread at a time.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use engine::clients::unregistration::Unregistration;
use engine::runtime::lanes::STACK_BYTES;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{self, error::SendError};

use crate::net::connection::Moving;
use crate::net::network::Network;
use crate::net::worker::{self, Message};

/// The workers of a server.
pub(crate) struct WorkerPool {
    roster: Mutex<Roster>,
}

#[derive(Default)]
struct Roster {
    inboxes: Vec<mpsc::UnboundedSender<Message>>,
    /// The last thread of every lane there ever was: the next one there waits for its end.
    threads: Vec<Option<JoinHandle<()>>>,
}

impl WorkerPool {
    pub(crate) fn new() -> Self {
        Self { roster: Mutex::default() }
    }

    /// Makes the crew `size` workers strong. Sessions of workers that go are taken over by others;
    /// if the system does not give us all the threads, the crew stays as strong as it is.
    pub(crate) fn resize(&self, server: &'static Network, size: usize) -> io::Result<()> {
        let mut roster = self.roster();
        let before = roster.inboxes.len();
        let mut result = Ok(());
        while roster.inboxes.len() < size && result.is_ok() {
            result = roster.hire(server);
        }
        let size = if result.is_ok() { size } else { before };
        server.set_worker_count(size);
        for inbox in roster.inboxes.drain(size..) {
            // A worker whose thread is gone has nothing left to hand over.
            let _ = inbox.send(Message::Retire);
        }
        result
    }

    /// Gives a connection to the worker with the fewest.
    pub(crate) fn hand_over(&self, server: &Network, moving: Box<Moving>) {
        let roster = self.roster();
        let load = |lane: &usize| server.worker_counters(*lane).sessions.load(Ordering::Relaxed);
        let Some(lane) = (0..roster.inboxes.len()).min_by_key(load) else {
            // The process ends; so does the connection.
            return server.session_ended(moving.session.client.id);
        };
        server.worker_counters(lane).sessions.fetch_add(1, Ordering::Relaxed);
        let sent = roster.inboxes[lane].send(Message::Adopt(moving));
        debug_assert!(sent.is_ok(), "a worker in the list receives");
    }

    /// Has a worker take registrations off their keys.
    pub(crate) fn unregister(&self, mut rest: Box<Unregistration>) {
        let roster = self.roster();
        let Some(inbox) = roster.inboxes.first() else { return rest.forget() };
        let sent = inbox.send(Message::Unregister(rest));
        drop(roster);
        if let Err(SendError(Message::Unregister(mut rest))) = sent {
            rest.forget();
        }
    }

    /// Tells all workers to bind themselves to cores, or not to, as the configuration says.
    pub(crate) fn rebind(&self) {
        for inbox in &self.roster().inboxes {
            let _ = inbox.send(Message::Bind);
        }
    }

    /// Ends all workers with their sessions and waits until their threads are gone.
    pub(crate) fn dismiss(&self) {
        let threads = {
            let mut roster = self.roster();
            for inbox in roster.inboxes.drain(..) {
                let _ = inbox.send(Message::End);
            }
            std::mem::take(&mut roster.threads)
        };
        for thread in threads.into_iter().flatten() {
            // A panic in it was told when it happened.
            let _ = thread.join();
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().expect("no critical section here panics")
    }
}

impl Roster {
    /// Sets one more worker to work.
    fn hire(&mut self, server: &'static Network) -> io::Result<()> {
        let lane = self.inboxes.len();
        if self.threads.len() == lane {
            self.threads.push(None);
        }
        let predecessor = self.threads[lane].take();
        let (sender, receiver) = mpsc::unbounded_channel();
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let work = move || {
            // Tasks that stay on their thread need a runtime that does.
            let mut builder = Builder::new_current_thread();
            let (runtime, outcome) = match builder.enable_all().build_local(LocalOptions::default())
            {
                Ok(runtime) => (Some(runtime), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let _ = tell.send(outcome);
            if let Some(predecessor) = predecessor {
                let _ = predecessor.join();
            }
            if let Some(runtime) = runtime {
                worker::run(server, lane, &runtime, receiver);
            }
        };
        let thread =
            std::thread::Builder::new().name(format!("worker-{lane}")).stack_size(STACK_BYTES);
        self.threads[lane] = Some(thread.spawn(work)?);
        told.recv().expect("the thread tells it first")?;
        self.inboxes.push(sender);
        Ok(())
    }
}
