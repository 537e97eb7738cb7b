//! Failpoints: whatever runs is told to begin again, or to panic, at one of its steps.
//!
//! Invariant: without debug assertions none of it is there. What a failpoint asks for could have
//! come by itself: a failpoint asks for nothing where the unit says that it is never begun again.

use commands::Role;

/// What is to happen.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailpointCause {
    /// A step needs more locks.
    Widen,
    /// A step is too much for a worker.
    Heavy,
    /// A script that runs without Lua gives up to it.
    GiveUp,
    /// A waiter that is served at the end needs more locks.
    Service,
    /// A step panics before it did anything.
    PanicBefore,
    /// A step panics when it has changed what it changes.
    PanicBehind,
    /// The commit panics before the journal has the record.
    PanicAtCommit,
    /// A step of a waiter that is served panics.
    PanicAtService,
    /// The commit panics behind that.
    PanicBehindCommit,
    /// What changes something beside the data panics.
    PanicBeside,
    /// What looks at the data or changes them panics, in whatever thread.
    PanicAtStep,
    /// The thread that writes the log panics between two things that it does.
    PanicInLog,
    /// The thread that reports a crash panics in the midst of it.
    PanicInReport,
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::runtime::failpoint::FailpointCause;

    static IS_ARMED: AtomicBool = AtomicBool::new(false);
    /// What is to happen, and in how many steps.
    static ORDER: Mutex<Option<(FailpointCause, u64)>> = Mutex::new(None);

    /// Arms a failpoint, or none; whether the one before is still to come.
    pub fn arm(order: Option<(FailpointCause, u64)>) -> bool {
        let (order, number) = match order {
            Some((FailpointCause::PanicAtStep, number)) => (None, number),
            order => (order, 0),
        };
        let was_near = base::step_count::arm(number);
        let mut place = ORDER.lock().expect("no critical section here panics");
        IS_ARMED.store(order.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut *place, order).is_some() || was_near
    }

    pub(crate) fn is_armed() -> bool {
        IS_ARMED.load(Ordering::Relaxed)
    }

    /// Whether units are to be undoable, for what is to happen.
    pub fn wants_undo() -> bool {
        let undoes = |(cause, _): &(FailpointCause, u64)| {
            matches!(cause, FailpointCause::Widen | FailpointCause::Service)
        };
        let order = || ORDER.lock().expect("no critical section here panics");
        is_armed() && order().as_ref().is_some_and(undoes)
    }

    /// A step is here at which one of these may happen; which one does, if it is the time.
    pub fn step(causes: &[FailpointCause]) -> Option<FailpointCause> {
        if !is_armed() {
            return None;
        }
        let mut place = ORDER.lock().expect("no critical section here panics");
        let (cause, left) = place.as_mut()?;
        if !causes.contains(cause) {
            return None;
        }
        *left = left.saturating_sub(1);
        let due = (*left == 0).then_some(*cause);
        if due.is_some() {
            *place = None;
            IS_ARMED.store(false, Ordering::Relaxed);
        }
        due
    }
}

#[cfg(debug_assertions)]
mod apart {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::thread::sleep;
    use std::time::Duration;

    /// What has all that can compute without its locks, however little it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Apart {
        /// Only what is much computes without its locks.
        Off,
        /// All that can compute without locks does.
        On,
        /// Those that have computed take no locks until it is another.
        Held,
    }

    static STATE: AtomicU8 = AtomicU8::new(Apart::Off as u8);

    /// Begins the failpoint, or ends it; whether it was on.
    pub fn arm_apart(state: Apart) -> bool {
        STATE.swap(state as u8, Ordering::Relaxed) != Apart::Off as u8
    }

    pub(crate) fn is_armed() -> bool {
        STATE.load(Ordering::Relaxed) != Apart::Off as u8
    }

    pub(crate) fn rest() {
        if is_armed() {
            sleep(Duration::from_micros(100));
        }
        while STATE.load(Ordering::Relaxed) == Apart::Held as u8 {
            sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(debug_assertions)]
mod services {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::sleep;
    use std::time::Duration;

    static ARE_HELD: AtomicBool = AtomicBool::new(false);
    /// How many stand still.
    static HELD: AtomicUsize = AtomicUsize::new(0);

    /// Has services on background threads stand still from here on, or lets them go on.
    pub fn hold_services(are_held: bool) {
        ARE_HELD.store(are_held, Ordering::Relaxed);
    }

    /// How many services stand still.
    pub fn services_held() -> usize {
        HELD.load(Ordering::Relaxed)
    }

    pub(crate) fn rest() {
        if !ARE_HELD.load(Ordering::Relaxed) {
            return;
        }
        HELD.fetch_add(1, Ordering::Relaxed);
        while ARE_HELD.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1));
        }
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(debug_assertions)]
mod short {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether each turn of a session ends as soon as it has done something.
    static IS_ARMED: AtomicBool = AtomicBool::new(false);

    /// Arms the failpoint, or ends it; whether it was armed.
    pub fn arm_short(is_armed: bool) -> bool {
        IS_ARMED.swap(is_armed, Ordering::Relaxed)
    }

    /// Whether the failpoint is armed.
    #[inline]
    pub fn are_turns_short() -> bool {
        IS_ARMED.load(Ordering::Relaxed)
    }
}

/// As with assertions, where it does something.
#[cfg(not(debug_assertions))]
#[inline]
pub const fn are_turns_short() -> bool {
    false
}

#[cfg(debug_assertions)]
mod gates {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::sleep;
    use std::time::Duration;

    /// For so many milliseconds.
    static REST: AtomicU64 = AtomicU64::new(0);

    /// Has whatever is about data stand still behind its gates, for so many milliseconds.
    pub fn rest_behind_gates(millis: u64) {
        REST.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn rest() {
        let millis = REST.load(Ordering::Relaxed);
        if millis > 0 {
            sleep(Duration::from_millis(millis));
        }
    }
}

#[cfg(debug_assertions)]
mod claims {
    use std::sync::Mutex;
    use std::thread::sleep;
    use std::time::Duration;

    /// Where a claim of hash slots may stand still.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClaimPlace {
        /// Before the move is looked at for the last time.
        Look,
        /// Behind that, with the world stopped.
        Order,
        /// When the claim is on disk, and told to nobody.
        Telling,
    }

    /// Where the next claim stands still, and for how long.
    static ORDER: Mutex<Option<(ClaimPlace, Duration)>> = Mutex::new(None);

    /// Has the next claim stand still.
    pub fn hold_claim(place: ClaimPlace, length: Duration) {
        *ORDER.lock().expect("no critical section here panics") = Some((place, length));
    }

    /// A claim is at this place.
    pub fn point_in_claim(place: ClaimPlace) {
        let mut order = ORDER.lock().expect("no critical section here panics");
        let due = order.take_if(|(at, _)| *at == place);
        drop(order);
        if let Some((_, length)) = due {
            sleep(length);
        }
    }
}

#[cfg(not(debug_assertions))]
mod claims {
    /// Where a claim of hash slots may stand still.
    #[derive(Clone, Copy, Debug)]
    pub enum ClaimPlace {
        /// Before the move is looked at for the last time.
        Look,
        /// Behind that, with the world stopped.
        Order,
        /// When the claim is on disk, and told to nobody.
        Telling,
    }

    /// As with assertions, where it does something.
    pub const fn point_in_claim(_: ClaimPlace) {}
}

#[cfg(debug_assertions)]
pub use apart::{Apart, arm_apart};
#[cfg(debug_assertions)]
pub use armed::{arm, step, wants_undo};
#[cfg(debug_assertions)]
pub use claims::hold_claim;
pub use claims::{ClaimPlace, point_in_claim};
#[cfg(debug_assertions)]
pub use gates::rest_behind_gates;
#[cfg(debug_assertions)]
pub use services::{hold_services, services_held};
#[cfg(debug_assertions)]
pub use short::{are_turns_short, arm_short};

/// Whether commands are to compute without their locks, where they can, though they are short.
#[cfg(debug_assertions)]
pub(crate) fn are_reads_apart() -> bool {
    apart::is_armed()
}

#[cfg(not(debug_assertions))]
pub(crate) const fn are_reads_apart() -> bool {
    false
}

/// A request that is about data has passed the gates and has no locks yet: others may come between.
#[cfg(debug_assertions)]
pub(crate) fn behind_gates() {
    gates::rest();
}

#[cfg(not(debug_assertions))]
pub(crate) const fn behind_gates() {}

/// Others may come between what was computed without locks and the locks.
#[cfg(debug_assertions)]
pub(crate) fn between_phases() {
    apart::rest();
}

#[cfg(not(debug_assertions))]
pub(crate) const fn between_phases() {}

#[cfg(not(debug_assertions))]
pub(crate) const fn wants_undo() -> bool {
    false
}

/// A step is over, and what it changed is not settled.
#[cfg(debug_assertions)]
pub(crate) fn trigger_behind_step() {
    let struck = armed::step(&[FailpointCause::PanicBehind]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// A waiter is claimed and about to be served.
#[cfg(debug_assertions)]
pub(crate) fn trigger_at_service(is_in_background: bool) {
    if is_in_background {
        services::rest();
    }
    let struck = armed::step(&[FailpointCause::PanicAtService]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// The journal has the record, and others are still to be told.
#[cfg(debug_assertions)]
pub(crate) fn trigger_behind_commit() {
    let struck = armed::step(&[FailpointCause::PanicBehindCommit]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// Something beside the data is about to change, or has.
#[cfg(debug_assertions)]
pub fn point() {
    let struck = armed::step(&[FailpointCause::PanicBeside]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// As with assertions, where it does something.
#[cfg(not(debug_assertions))]
pub const fn point() {}

/// The thread that writes the log is between two things that it does.
#[cfg(debug_assertions)]
pub fn point_in_log() {
    let struck = armed::step(&[FailpointCause::PanicInLog]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// As with assertions, where it does something.
#[cfg(not(debug_assertions))]
pub const fn point_in_log() {}

/// A crash is being reported.
#[cfg(debug_assertions)]
pub fn point_in_report() {
    let struck = armed::step(&[FailpointCause::PanicInReport]);
    assert!(struck.is_none(), "failpoint: {struck:?}");
}

/// As with assertions, where it does something.
#[cfg(not(debug_assertions))]
pub const fn point_in_report() {}

/// Does what a control command does, between two such places. The command that asks for failpoints
/// has none.
#[inline]
pub(crate) fn beside<T>(role: Role, work: impl FnOnce() -> T) -> T {
    if role == Role::Debug {
        return work();
    }
    point();
    let done = work();
    point();
    done
}

/// Whether a script that runs without Lua gives up before its next command.
#[cfg(debug_assertions)]
pub(crate) fn gives_up() -> bool {
    armed::step(&[FailpointCause::GiveUp]).is_some()
}

#[cfg(not(debug_assertions))]
pub(crate) const fn trigger_behind_step() {}

#[cfg(not(debug_assertions))]
pub(crate) const fn trigger_at_service(_: bool) {}

#[cfg(not(debug_assertions))]
pub(crate) const fn trigger_behind_commit() {}

#[cfg(not(debug_assertions))]
pub(crate) const fn gives_up() -> bool {
    false
}
