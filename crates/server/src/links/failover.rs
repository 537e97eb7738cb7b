//! FAILOVER: the primary and one of its replicas change places, without a moment at which both take
//! writes.
//!
//! Writes wait until the replica has all there is. Then this server becomes a replica, and asks the
//! other one, in its PSYNC, to become the primary.
//!
//! Invariants: one failover at a time, on a thread of its own; however it ends, writers go on, or
//! are told that this is a replica now. From when the other one was asked until it has said that it
//! does not, this server is a replica, whatever becomes of links; only an operator ends that.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Builder;
use std::time::Duration;

use base::io_error_text::strerror;
use engine::limits::pause::Ticket;
use engine::runtime::background::wait_while;
use engine::runtime::log::{log_notice, log_warning};
use keyspace::Acquisition;
use replication::primary::ReplicaRow;
use replication::replica::PrimaryAddress;

use super::handle::Links;
use super::replication_state::now_ms;
use crate::net::network::Network;

/// Between two looks how far it is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

const UNDER_WAY: &str = "FAILOVER already in progress.";

const ABORTED: &str = "Failover manually aborted";

/// A REPLICAOF came first.
const DEMOTED: &str = "The server is a replica by now";

/// What FAILOVER asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailoverRequest {
    /// The replica that is to be the primary; any if `None`.
    pub(crate) to: Option<PrimaryAddress>,
    /// Whether the replica is made the primary when the time is over, whatever it has.
    pub(crate) is_forced: bool,
    /// For how many milliseconds it is waited for; without an end if `None`.
    pub(crate) timeout_ms: Option<u64>,
}

/// How far a failover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailoverState {
    /// There is none.
    #[default]
    None,
    /// Writes wait until the replica has everything.
    WaitingForSync,
    /// The replica is asked to be the primary.
    InProgress,
}

impl FailoverState {
    /// `master_failover_state`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no-failover",
            Self::WaitingForSync => "waiting-for-sync",
            Self::InProgress => "failover-in-progress",
        }
    }
}

/// The failover under way, if there is one.
#[derive(Default)]
pub(super) struct Failover(Mutex<Underway>);

#[derive(Default)]
struct Underway {
    state: FailoverState,
    /// Whether the failover was called off.
    is_aborted: bool,
}

impl Failover {
    pub(super) fn state(&self) -> FailoverState {
        self.lock().state
    }

    fn set(&self, state: FailoverState) {
        self.lock().state = state;
    }

    /// Of two that begin at once, one does.
    fn begin(&self) -> Result<(), &'static str> {
        let mut underway = self.lock();
        if underway.state != FailoverState::None {
            return Err(UNDER_WAY);
        }
        *underway = Underway { state: FailoverState::WaitingForSync, is_aborted: false };
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Underway> {
        self.0.lock().expect("no critical section here panics")
    }
}

impl Links {
    /// How far a failover is.
    pub(crate) fn failover_state(&self) -> FailoverState {
        self.failover.state()
    }

    /// Calls a failover off; `false` if there is none.
    pub(crate) fn abort_failover(&self) -> bool {
        let mut underway = self.failover.lock();
        underway.is_aborted = underway.state != FailoverState::None;
        underway.is_aborted
    }

    /// Begins a failover; the error is what to answer behind `-ERR `.
    pub(crate) fn fail_over(
        &'static self,
        server: &'static Network,
        request: FailoverRequest,
    ) -> Result<(), &'static str> {
        if self.failover_state() != FailoverState::None {
            return Err(UNDER_WAY);
        }
        if server.gates.replica_role.is_replica() {
            return Err("FAILOVER is not valid when server is a replica.");
        }
        let replicas = self.report(server).replicas;
        check_target(&request, &replicas)?;
        self.failover.begin()?;
        match &request.to {
            Some(PrimaryAddress { host, port }) => {
                log_notice!(server.log, "FAILOVER requested to {host}:{port}.");
            }
            None => log_notice!(server.log, "FAILOVER requested to any replica."),
        }
        // Writes wait from the answer on, and until it is over.
        let mut pause = Some(server.gates.pause.begin_own());
        let run = move || {
            let began_us = server.keyspace.clock().monotonic_us();
            let done = self.run(server, &request, &mut pause);
            let (spans, clock) = (&server.observed.spans, server.keyspace.clock());
            spans.note_task(clock, "failover", began_us, done.is_err());
            // A writer that goes on finds it over.
            self.set_failover(server, FailoverState::None);
            drop(pause);
            if let Err(why) = done {
                let to = request.to.map_or("any replica".to_owned(), |it| name_of(&it));
                log_notice!(server.log, "FAILOVER to {to} aborted: {why}");
            }
        };
        let spawned = Builder::new().name("failover".to_owned()).spawn(run);
        if let Err(error) = spawned {
            self.failover.set(FailoverState::None);
            log_warning!(server.log, "Cannot fail over: {}", strerror(&error));
            return Err("FAILOVER needs a thread, and the system gives none.");
        }
        Ok(())
    }

    fn set_failover(&self, server: &Network, state: FailoverState) {
        self.failover.set(state);
        self.core(server).fails_over = state != FailoverState::None;
    }

    /// Hands the role over; the error says why that was given up.
    fn run(
        &'static self,
        server: &'static Network,
        request: &FailoverRequest,
        pause: &mut Option<Ticket>,
    ) -> Result<(), &'static str> {
        self.set_failover(server, FailoverState::WaitingForSync);
        let began_ms = now_ms(server);
        drop(self.await_world(server, request, began_ms)?);
        let target = self.await_target(server, request, began_ms)?;
        // By force it may begin when the time is over.
        let began_ms = if request.is_forced { now_ms(server) } else { began_ms };
        self.hand_over(server, &target, request, began_ms)?;
        loop {
            let is_aborted = self.failover.lock().is_aborted;
            let (handed_over, is_in_doubt) = {
                let link = &self.core(server).link;
                (link.handed_over(), link.is_handover_in_doubt())
            };
            let why = match handed_over {
                Some(true) => return Ok(()),
                Some(false) => "Failover target rejected psync request",
                None if is_aborted => ABORTED,
                None => {
                    if is_in_doubt {
                        // That may last: writers are told that this is a replica.
                        *pause = None;
                    }
                    std::thread::sleep(BETWEEN_LOOKS);
                    continue;
                }
            };
            self.resume_as_primary(server);
            return Err(why);
        }
    }

    /// Waits for the world, which a script may have, for as long as the failover may last.
    fn await_world(
        &self,
        server: &Network,
        request: &FailoverRequest,
        began_ms: u64,
    ) -> Result<Acquisition, &'static str> {
        let mut world = Acquisition::of_world(server.keyspace);
        let mut goes_on = Ok(());
        wait_while(&mut world, || {
            goes_on = self.check_time(server, request, began_ms);
            goes_on.is_ok()
        });
        goes_on.map(|()| world)
    }

    /// Whether the failover may wait on; the error says why it may not.
    fn check_time(
        &self,
        server: &Network,
        request: &FailoverRequest,
        began_ms: u64,
    ) -> Result<(), &'static str> {
        if self.failover.lock().is_aborted {
            return Err(ABORTED);
        }
        let waited_ms = now_ms(server).saturating_sub(began_ms);
        match request.timeout_ms.is_some_and(|most_ms| waited_ms >= most_ms) {
            true => Err("The server is busy, and was not free before timeout"),
            false => Ok(()),
        }
    }

    /// Waits until a replica that may be the primary has everything.
    fn await_target(
        &'static self,
        server: &'static Network,
        request: &FailoverRequest,
        began_ms: u64,
    ) -> Result<PrimaryAddress, &'static str> {
        loop {
            if self.failover.lock().is_aborted {
                return Err(ABORTED);
            }
            if server.gates.replica_role.is_replica() {
                return Err(DEMOTED);
            }
            let report = self.report(server);
            let is_it = |row: &&ReplicaRow| {
                row.state == "online"
                    && row.offset == report.offset
                    && request.to.as_ref().is_none_or(|to| is_at(row, to))
            };
            if let Some(target) = report.replicas.iter().find(is_it).and_then(address_of) {
                let name = name_of(&target);
                log_notice!(server.log, "Failover target {name} is synced, failing over.");
                return Ok(target);
            }
            let waited_ms = now_ms(server).saturating_sub(began_ms);
            if request.timeout_ms.is_some_and(|most_ms| waited_ms >= most_ms) {
                let forced = request.to.as_ref().filter(|_| request.is_forced);
                let Some(target) = forced else {
                    return Err("Replica never caught up before timeout");
                };
                let name = name_of(target);
                log_notice!(server.log, "FAILOVER to {name} time out exceeded, failing over.");
                return Ok(target.clone());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Becomes a replica of one that is to become the primary.
    fn hand_over(
        &'static self,
        server: &'static Network,
        target: &PrimaryAddress,
        request: &FailoverRequest,
        began_ms: u64,
    ) -> Result<(), &'static str> {
        let _turn = self.await_turn(server, request, began_ms)?;
        let world = self.await_world(server, request, began_ms)?;
        if server.gates.replica_role.is_replica() {
            return Err(DEMOTED);
        }
        self.core(server).position(server).ok_or("There is no backlog any more")?;
        // The next one that has the turn is to see it.
        self.set_failover(server, FailoverState::InProgress);
        self.become_replica(server, target, |link, own, now_ms| {
            link.hand_over(target.clone(), own, now_ms)
        });
        drop(world);
        Ok(())
    }

    /// The turn to change the role; a caller that has it may wait for the world.
    fn await_turn(
        &self,
        server: &Network,
        request: &FailoverRequest,
        began_ms: u64,
    ) -> Result<MutexGuard<'_, ()>, &'static str> {
        loop {
            match self.role_turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    self.check_time(server, request, began_ms)?;
                    std::thread::sleep(BETWEEN_LOOKS);
                }
            }
        }
    }

    /// Is the primary again.
    fn resume_as_primary(&'static self, server: &'static Network) {
        let _turn = self.role_turn.lock().unwrap_or_else(PoisonError::into_inner);
        let client = "an aborted failover";
        let world = Acquisition::of_world(server.keyspace);
        drop(self.promote(server, client, true, world));
    }
}

/// Whether the failover may be done with these replicas.
fn check_target(request: &FailoverRequest, replicas: &[ReplicaRow]) -> Result<(), &'static str> {
    if replicas.is_empty() {
        return Err("FAILOVER requires connected replicas.");
    }
    if request.is_forced && (request.timeout_ms.is_none() || request.to.is_none()) {
        return Err("FAILOVER with force option requires both a timeout and target HOST and IP.");
    }
    let Some(to) = &request.to else { return Ok(()) };
    match replicas.iter().find(|row| is_at(row, to)) {
        None => Err("FAILOVER target HOST and PORT is not a replica."),
        Some(row) if row.state != "online" => Err("FAILOVER target replica is not online."),
        Some(_) => Ok(()),
    }
}

fn is_at(row: &ReplicaRow, address: &PrimaryAddress) -> bool {
    row.port == i64::from(address.port) && row.ip.eq_ignore_ascii_case(&address.host)
}

fn address_of(row: &ReplicaRow) -> Option<PrimaryAddress> {
    Some(PrimaryAddress { host: row.ip.clone(), port: u16::try_from(row.port).ok()? })
}

fn name_of(address: &PrimaryAddress) -> String {
    format!("{}:{}", address.host, address.port)
}
