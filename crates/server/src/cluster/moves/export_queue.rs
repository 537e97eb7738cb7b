//! Moves from here that wait for a thread, and the threads.
//!
//! Invariants: a move from here that is not over waits in the queue or has a thread, and one that
//! waits ends as soon as it is to end; a thread ends when nothing waits.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Builder;

use super::MoveJob;
use super::export;
use crate::cluster::start::ClusterContext;
use crate::net::network::Network;

/// So many moves go on at a time. Their snapshots are taken one after the other in any case.
const THREADS_MAX: usize = 8;

/// Moves that wait for a thread.
#[derive(Default)]
pub(super) struct ExportQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Arc<MoveJob>>,
    threads: usize,
}

impl ExportQueue {
    /// Takes moves in, and begins threads for them. Where the system gives no more threads those
    /// that are there take all; an error where there is none: no move waits then.
    pub(super) fn push(&self, start: ClusterContext, jobs: &[Arc<MoveJob>]) -> io::Result<()> {
        let mut state = self.lock();
        state.waiting.extend(jobs.iter().cloned());
        let wanted = (THREADS_MAX - state.threads).min(jobs.len());
        for _ in 0..wanted {
            let work = move || start.node.moves.exports.serve(start);
            match Builder::new().name("slot-move".to_owned()).spawn(work) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.waiting.clear();
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Ends those that wait and are to end.
    pub(super) fn drop_ended(&self, server: &Network) {
        self.lock().waiting.retain(|job| {
            let goes_on = job.ending().is_none() && !job.is_cancelled();
            if !goes_on {
                job.finish(server, Err(job.ending().unwrap_or_default().to_owned()));
            }
            goes_on
        });
    }

    /// Carries out one move after the other.
    fn serve(&self, start: ClusterContext) {
        while let Some(job) = self.next() {
            export::run(start, &job);
        }
    }

    /// The next move; without one the thread that asks is counted no more.
    fn next(&self) -> Option<Arc<MoveJob>> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().expect("no critical section here panics")
    }
}
