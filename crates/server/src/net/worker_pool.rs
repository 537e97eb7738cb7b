//! The workers: which there are, and which serves a new connection.
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

use crate::net::connection::MovingSession;
use crate::net::network::Network;
use crate::net::worker::{self, Message};

/// The workers of a server.
pub(crate) struct WorkerPool {
    threads: Mutex<WorkerThreads>,
}

#[derive(Default)]
struct WorkerThreads {
    inboxes: Vec<mpsc::UnboundedSender<Message>>,
    /// The last thread of every lane there ever was: the next one there waits for its end.
    handles: Vec<Option<JoinHandle<()>>>,
}

impl WorkerPool {
    pub(crate) fn new() -> Self {
        Self { threads: Mutex::default() }
    }

    /// Makes the pool `size` workers strong. Sessions of workers that go are taken over by others;
    /// if the system does not give us all the threads, the pool stays as strong as it is.
    pub(crate) fn resize(&self, server: &'static Network, size: usize) -> io::Result<()> {
        let mut threads = self.threads();
        let before = threads.inboxes.len();
        let mut result = Ok(());
        while threads.inboxes.len() < size && result.is_ok() {
            result = threads.spawn(server);
        }
        let size = if result.is_ok() { size } else { before };
        server.threads.set_worker_count(size);
        for inbox in threads.inboxes.drain(size..) {
            // A worker whose thread is gone has nothing left to hand over.
            let _ = inbox.send(Message::Retire);
        }
        result
    }

    /// Gives a connection to the worker with the fewest.
    pub(crate) fn hand_over(&self, server: &Network, moving: Box<MovingSession>) {
        let threads = self.threads();
        let load =
            |lane: &usize| server.threads.worker_counters(*lane).sessions.load(Ordering::Relaxed);
        let Some(lane) = (0..threads.inboxes.len()).min_by_key(load) else {
            // The process ends; so does the connection.
            return server.session_ended(moving.session.client.id);
        };
        server.threads.worker_counters(lane).sessions.fetch_add(1, Ordering::Relaxed);
        let sent = threads.inboxes[lane].send(Message::Adopt(moving));
        debug_assert!(sent.is_ok(), "a worker in the list receives");
    }

    /// Has a worker take registrations off their keys.
    pub(crate) fn unregister(&self, mut rest: Box<Unregistration>) {
        let threads = self.threads();
        let Some(inbox) = threads.inboxes.first() else { return rest.forget() };
        let sent = inbox.send(Message::Unregister(rest));
        drop(threads);
        if let Err(SendError(Message::Unregister(mut rest))) = sent {
            rest.forget();
        }
    }

    /// Tells all workers to bind themselves to cores, or not to, as the configuration says.
    pub(crate) fn rebind(&self) {
        for inbox in &self.threads().inboxes {
            let _ = inbox.send(Message::Bind);
        }
    }

    /// Ends all workers with their sessions and waits until their threads are gone.
    pub(crate) fn shut_down(&self) {
        let threads = {
            let mut threads = self.threads();
            for inbox in threads.inboxes.drain(..) {
                let _ = inbox.send(Message::End);
            }
            std::mem::take(&mut threads.handles)
        };
        for thread in threads.into_iter().flatten() {
            // A panic in it was told when it happened.
            let _ = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, WorkerThreads> {
        self.threads.lock().expect("no critical section here panics")
    }
}

impl WorkerThreads {
    /// Sets one more worker to work.
    fn spawn(&mut self, server: &'static Network) -> io::Result<()> {
        let lane = self.inboxes.len();
        if self.handles.len() == lane {
            self.handles.push(None);
        }
        let predecessor = self.handles[lane].take();
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
        self.handles[lane] = Some(thread.spawn(work)?);
        told.recv().expect("the thread tells it first")?;
        self.inboxes.push(sender);
        Ok(())
    }
}
