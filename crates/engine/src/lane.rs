//! A lane: what a thread that serves sessions knows of its own while it runs transactions.
//!
//! Invariants: everything here belongs to one thread; a lane is inside its turnstile only while it
//! runs a session's turn; what it left in mailboxes meanwhile is announced right after.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use base::time::{Moment, UnixMillis};
use keyspace::Acquisition;

use crate::clients::mailbox::{Letter, PendingWakes, deliver_next};
use crate::clients::registry::Client;
use crate::limits::evictor::Evictor;
use crate::limits::gate_state::GateState;
use crate::limits::slot_map::SlotMap;
use crate::limits::sweep::Sweep;
use crate::runtime::counters::WorkerCounters;
use crate::runtime::failpoint;
use crate::runtime::yielding::TURN_US;
use crate::shared::Shared;
use crate::table::flag_set::FlagSet;

/// The first command of a thread that is looked at: those that a client begins with are alike.
const FIRST_SAMPLE: u32 = 256;

/// A thread's part in the data.
pub struct Lane {
    /// What all threads share.
    pub shared: &'static Shared,
    /// The lane's number in the keyspace, which is its worker's, too.
    pub number: usize,
    /// The counters of the thread, which INFO sums.
    pub counters: &'static WorkerCounters,
    inside: Cell<bool>,
    /// Where letters were left since workers were last woken.
    pub wakes: PendingWakes,
    /// Letters taken out of the mailbox and not handed out yet.
    letters: RefCell<VecDeque<Letter>>,
    /// Clients that were given messages and whose sessions are to be woken for them.
    addressees: RefCell<VecDeque<Arc<Client>>>,
    /// The partition that the expiry of this lane's share is in the middle of.
    pub sweep: RefCell<Option<Sweep>>,
    /// What it knows of keys that may be evicted.
    pub(crate) evictor: RefCell<Evictor>,
    /// The cluster's table that the gates saw last, and its number.
    routes: RefCell<Arc<SlotMap>>,
    routed: Cell<u64>,
    /// The last time it was asked to give back memory, by number.
    pub(crate) purged: Cell<u32>,
    /// The monotonic clock when last read, and what turns it into wall-clock time.
    ticked_us: Cell<i64>,
    wall_offset_us: Cell<i64>,
    /// When the present batch began.
    batch_began: Cell<Moment>,
    /// How many commands later the next one is looked at for the statistics of keys.
    sample_in: Cell<u32>,
}

impl Lane {
    /// That of this thread.
    pub fn new(shared: &'static Shared, number: usize) -> Self {
        let lane = Self {
            shared,
            number,
            counters: shared.threads.counters_of_new_worker(number),
            inside: Cell::new(false),
            wakes: PendingWakes::default(),
            letters: RefCell::default(),
            addressees: RefCell::default(),
            sweep: RefCell::default(),
            evictor: RefCell::new(Evictor::new()),
            routes: RefCell::default(),
            routed: Cell::new(0),
            purged: Cell::new(shared.memory.budget.purges()),
            ticked_us: Cell::new(0),
            wall_offset_us: Cell::new(0),
            batch_began: Cell::default(),
            sample_in: Cell::new(FIRST_SAMPLE),
        };
        lane.start_batch();
        lane
    }

    /// Whether the next command that is booked is one to be looked at.
    #[inline]
    pub(crate) fn is_sample_next(&self) -> bool {
        self.sample_in.get() == 1
    }

    /// A command is booked; whether it is one to be looked at.
    #[inline]
    pub(crate) fn takes_sample(&self) -> bool {
        let left = self.sample_in.get() - 1;
        self.sample_in.set(left);
        left == 0
    }

    /// The next command to be looked at is the one so many later.
    pub(crate) fn sample_again_in(&self, commands: u32) {
        self.sample_in.set(commands.max(1));
    }

    /// Reads both clocks; within the batch only what has passed since is asked for. From here on
    /// replies wait if the journal is late.
    #[inline]
    pub fn start_batch(&self) {
        let clock = self.shared.keyspace.clock();
        self.batch_began.set(clock.moment());
        self.ticked_us.set(self.batch_began.get().us());
        self.wall_offset_us.set(clock.now_us() - self.ticked_us.get());
        self.shared.journal.check_lag(self.ticked_us.get());
    }

    /// Reads the clock; returns the microseconds since it was last read.
    #[inline]
    pub fn tick(&self) -> i64 {
        let now = self.shared.keyspace.clock().since(self.batch_began.get());
        now - self.ticked_us.replace(now)
    }

    /// When the present batch began.
    #[inline]
    pub fn batch_began(&self) -> Moment {
        self.batch_began.get()
    }

    /// The monotonic clock when last read.
    #[inline]
    pub fn ticked_us(&self) -> i64 {
        self.ticked_us.get()
    }

    /// Wall-clock time when the clock was last read, in microseconds.
    #[inline]
    pub fn now_us(&self) -> i64 {
        self.ticked_us.get() + self.wall_offset_us.get()
    }

    /// As `now_us`, in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> UnixMillis {
        self.now_us() / 1000
    }

    /// Enters the turnstile; `false` while the world stands still.
    #[inline]
    pub fn enter(&self) -> bool {
        let keyspace = self.shared.keyspace;
        if self.inside.get() {
            if !keyspace.is_stopping() {
                return true;
            }
            self.leave();
            return false;
        }
        let inside = keyspace.enter(self.number);
        self.inside.set(inside);
        inside
    }

    /// Comes in to begin what has these flags and was let pass by the gates. `false`, too, where a
    /// pause, a load, another role or another table of a cluster keeps it that may have come behind
    /// them: all ask for the world, which sees what is inside (`pause.rs`).
    #[inline]
    pub fn enter_past_gates(&self, flags: impl FnOnce() -> FlagSet) -> bool {
        let GateState { pause, loading, write_refusals, replica_role, routing, .. } =
            &self.shared.gates;
        if !self.enter() {
            return false;
        }
        let may_be_kept = pause.may_hold()
            || loading.is_on()
            || write_refusals.are_there()
            || replica_role.is_stale()
            || routing.version() != self.routed.get();
        !may_be_kept || self.is_let_pass_again(flags())
    }

    /// Comes in to remove what no command asks to be removed: keys whose time is over, and those
    /// that make room. `false`, too, while a pause or a load keeps the data as they are, which may
    /// have come since the caller looked.
    pub(crate) fn enter_to_reclaim(&self) -> bool {
        self.enter()
            && !self.shared.gates.loading.is_on()
            && !self.shared.keyspace.settings().holds_expiry(self.now_ms())
    }

    /// Asks the gates again whose answer changes with the world stopped.
    #[cold]
    fn is_let_pass_again(&self, flags: FlagSet) -> bool {
        let GateState { pause, loading, write_refusals, replica_role, .. } = &self.shared.gates;
        let is_routed_anew = self.refresh_routes();
        !(is_routed_anew
            || pause.holds(|| flags.any, || self.now_ms())
            || loading.refuses(|| flags)
            || write_refusals.refuses_as_replica(flags.any)
            || replica_role.refuses_stale(|| flags))
    }

    /// The cluster's table as it is now. Only for gates: what is behind them goes by `routes`.
    pub(crate) fn refreshed_routes(&self) -> Ref<'_, SlotMap> {
        self.refresh_routes();
        self.routes()
    }

    /// The cluster's table that the gates went by last. To look at a later one behind them would
    /// hide from `enter_past_gates` that there is another, and from what has left the worker.
    pub(crate) fn routes(&self) -> Ref<'_, SlotMap> {
        Ref::map(self.routes.borrow(), |routes| &**routes)
    }

    /// The version of the table that the gates went by last; 0 without a cluster.
    pub(crate) fn routed(&self) -> u64 {
        self.routed.get()
    }

    /// Takes the cluster's table over if there is another one.
    fn refresh_routes(&self) -> bool {
        if self.shared.gates.routing.version() == self.routed.get() {
            return false;
        }
        let table = self.shared.gates.routing.table();
        self.routed.set(table.version);
        self.routes.replace(table);
        true
    }

    /// Whether the worker is inside its turnstile; for assertions.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.get()
    }

    /// Leaves, if inside.
    #[inline]
    pub fn leave(&self) {
        if self.inside.replace(false) {
            self.shared.keyspace.leave(self.number);
        }
    }

    /// Whether the locks are there, with the worker inside its turnstile, or the world, with the
    /// worker outside; if not, the waker is woken when that is to be asked again.
    pub fn poll_locks(&self, acquisition: &mut Acquisition, waker: &Waker) -> Poll<()> {
        if acquisition.wants_world() {
            // The world is granted to those outside; a turnstile held here would never let it.
            self.leave();
        } else if !self.enter() {
            if !self.shared.keyspace.wait_for_world(waker) {
                // The world goes on already: try once more.
                waker.wake_by_ref();
            }
            return Poll::Pending;
        }
        acquisition.poll(waker)
    }

    /// Whether the present batch has lasted for a turn's time.
    pub(crate) fn is_batch_over(&self) -> bool {
        let began = self.batch_began();
        is_over(self.shared.keyspace.clock().since(began) - began.us())
    }

    /// Hands out all letters that there are.
    pub fn deliver_letters(&self) {
        self.letters.borrow_mut().append(&mut self.shared.mailboxes.collect(self.number));
        while self.deliver_letter().is_some() {}
    }

    /// Hands out the next letters that belong together; for how many clients they were.
    pub fn deliver_letter(&self) -> Option<usize> {
        let mut addressees = self.addressees.borrow_mut();
        let wake = &mut |client: &Arc<Client>| addressees.push_back(Arc::clone(client));
        deliver_next(&mut self.letters.borrow_mut(), wake)
    }

    /// Whether letters were not handed out yet, or sessions not woken.
    pub fn has_mail(&self) -> bool {
        !self.letters.borrow().is_empty() || !self.addressees.borrow().is_empty()
    }

    /// Wakes the first of the sessions that were given messages.
    pub fn wake_addressees(&self, most: usize) {
        let mut addressees = self.addressees.borrow_mut();
        let count = most.min(addressees.len());
        addressees.drain(..count).for_each(|client| client.wake());
    }

    /// Letters were taken out of the mailbox.
    pub fn take_letters(&self, letters: &mut VecDeque<Letter>) {
        self.letters.borrow_mut().append(letters);
    }

    /// How many clients were given messages and are still to be woken.
    pub fn addressee_count(&self) -> usize {
        self.addressees.borrow().len()
    }
}

/// Whether a turn that has lasted for so long is over.
#[inline]
pub fn is_over(turn_us: i64) -> bool {
    turn_us >= TURN_US || failpoint::are_turns_short()
}

#[cfg(test)]
mod tests {
    use commands::Flags;

    use super::{Acquisition, FlagSet, Lane, Shared};
    use crate::limits::write_refusals::{FEW_REPLICAS, READ_ONLY};
    use crate::runtime::background::wait_for;
    use crate::testing::engine;

    /// What the gates let pass before the world was stopped is kept behind it by whatever has
    /// changed meanwhile.
    #[test]
    fn what_changes_with_the_world_stopped_is_asked_for_behind_the_gates() {
        type Shut = fn(&Shared);
        let [read, write] = [Flags::READONLY, Flags::WRITE].map(FlagSet::of);
        let stale = FlagSet::of(Flags::READONLY.and(Flags::STALE).and(Flags::LOADING));
        let together = stale.and(read);
        let server = engine();
        let lane = Lane::new(server, 0);
        let shut: [(Shut, [bool; 4]); 5] = [
            (|_| {}, [true; 4]),
            (|it| it.gates.write_refusals.set(FEW_REPLICAS, true), [true; 4]),
            (|it| it.gates.write_refusals.set(READ_ONLY, true), [true, false, true, true]),
            (|it| it.gates.replica_role.set_stale(true), [false, false, true, false]),
            (|it| it.gates.loading.begin(it.keyspace.clock(), 0), [false, false, true, false]),
        ];
        for (number, (shut, expected)) in shut.into_iter().enumerate() {
            let mut world = Acquisition::of_world(server.keyspace);
            wait_for(&mut world);
            shut(server);
            drop(world);
            let passes = [read, write, stale, together].map(|flags| {
                let passes = lane.enter_past_gates(|| flags);
                lane.leave();
                passes
            });
            assert_eq!(passes, expected, "{number}");
        }
    }
}
