//! Admission: everything that may keep a command from running, in one list.
//!
//! Where the answer may change while a command waits it is asked for again, by a shorter list:
//! `Readmission::hold` and `Lane::enter_past_gates` say what each leaves out. `admits_batched` lets
//! a request pass that comes right behind an equal one, by what its own arguments can change alone.
//! What flags a gate lets pass is said once, by what the gate is about (`limits`).
//!
//! Invariant: the first gate that objects decides. A gate changes nothing, but that a denial is
//! logged and counted, and that a client whose user is gone is asked to go.

use commands::declare::Group;
use commands::{Flags, Role};
use keyspace::{Location, Refusal};
use proto::Args;

use crate::admission::acl_check;
use crate::admission::protected_command::protected_command_refusal;
use crate::admission::quota;
use crate::admission::redirection::RoutedRequest;
use crate::admission::script_flags;
use crate::clients::registry::client_flags;
use crate::lane::Lane;
use crate::limits::budget;
use crate::limits::loading::LOADING;
use crate::limits::slot_map::SlotMap;
use crate::runtime::backpressure::Backpressure;
use crate::session::Request;
use crate::session::{Session, Suspension};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;
use crate::table::flag_set::FlagSet;

/// In Redis, a client in MONITOR counts as a replica.
const MONITOR_REFUSAL: Refusal = Refusal::error("ERR Replica can't interact with the keyspace");

/// What a replica without its primary says, where it is not to show what it has.
pub(crate) const MASTERDOWN: Refusal = Refusal::error(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
);

/// Whether a command may run.
pub enum GateVerdict {
    /// The command runs now.
    Admitted,
    /// The client gets this error.
    Refused(Refusal),
    /// Not now: the suspension says when to ask again.
    Postponed(Suspension),
    /// The command is to be sent on to the node of this name.
    Elsewhere(Box<str>),
}

/// Asks all gates; `locations` is where the first of its keys belong.
#[inline]
pub(crate) fn admit<'a>(
    lane: &Lane,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
    locations: impl FnOnce() -> &'a [Location],
) -> GateVerdict {
    ask(lane, session, entry, args, locations, acl_check::refuse)
}

/// What a user's rules say of a request.
type AclCheck = fn(&Shared, &Session, &CommandEntry, Args<'_>) -> Option<Refusal>;

/// What a gate says of a command.
type GateResult = Result<(), GateError>;

/// Why a command does not run now.
enum GateError {
    Refusal(Refusal),
    /// The suspension says when to ask again.
    Wait(Suspension),
    /// The node of this name has its keys, and runs it for the client.
    Elsewhere(Box<str>),
}

/// A command at the gates.
#[derive(Clone, Copy)]
struct GateRequest<'a> {
    lane: &'a Lane,
    session: &'a Session,
    entry: &'a CommandEntry,
    args: Args<'a>,
    /// Whether a part of it has run, so that it is not refused for what it took since.
    has_partly_run: bool,
}

#[inline]
fn ask<'a>(
    lane: &Lane,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
    locations: impl FnOnce() -> &'a [Location],
    acl_check_of: AclCheck,
) -> GateVerdict {
    let request = GateRequest { lane, session, entry, args, has_partly_run: false };
    verdict(pass(request, locations, acl_check_of))
}

/// The list of gates, in the order in which they are asked. A new gate is a line here, or in
/// `pass_with_data` if requests of other fronts are to pass it, too; one by arguments is in
/// `admits_batched` as well.
#[inline]
fn pass<'a>(
    request: GateRequest<'_>,
    locations: impl FnOnce() -> &'a [Location],
    acl_check_of: AclCheck,
) -> GateResult {
    let GateRequest { lane, session, entry, args, .. } = request;
    arity(request)?;
    protected_command(request)?;
    acl(request, acl_check_of)?;
    let effective = effective_flags(session, entry);
    let declared = || declared_flags(lane, session, entry, args);
    if let Some(node) = route(request, locations)? {
        return pass_forwarded(request, effective, declared, node);
    }
    let bytes_needed = || budget::bytes_needed(effective, args);
    pass_with_data(request, effective, bytes_needed, declared)
}

/// The gates for what another node runs: those that are about the client. What is about the data is
/// asked there.
#[cold]
fn pass_forwarded(
    request: GateRequest<'_>,
    effective: Flags,
    declared: impl Fn() -> Flags + Copy,
    node: Box<str>,
) -> GateResult {
    subscriber(request)?;
    monitor(request, effective, declared)?;
    quotas(request)?;
    pause(request.lane, declared)?;
    Err(GateError::Elsewhere(node))
}

/// The gates that are not about the words of a request: for what does this and needs so many
/// bytes. `declared` finds what a program says that it does. The order is that in which Redis asks.
#[inline]
fn pass_with_data(
    request: GateRequest<'_>,
    effective: Flags,
    bytes_needed: impl FnOnce() -> usize,
    declared: impl Fn() -> Flags + Copy,
) -> GateResult {
    let lane = request.lane;
    oom(request, effective, bytes_needed, declared)?;
    write_refusals(request, effective, declared)?;
    subscriber(request)?;
    stale_data(request)?;
    loading(request)?;
    busy_script(request)?;
    monitor(request, effective, declared)?;
    quotas(request)?;
    backpressure(request, effective)?;
    pause(lane, declared)
}

#[inline]
fn arity(GateRequest { entry, args, .. }: GateRequest<'_>) -> GateResult {
    match entry.spec.arity.admits(args.len()) {
        true => Ok(()),
        false => Err(GateError::Refusal(commands::errors::wrong_arity(&entry.full_name))),
    }
}

/// DEBUG and MODULE are for the clients that the configuration names.
#[inline]
fn protected_command(GateRequest { lane, session, entry, .. }: GateRequest<'_>) -> GateResult {
    if !entry.spec.flags.has(Flags::PROTECTED) {
        return Ok(());
    }
    protected_command_refusal(lane, session, entry)
        .map_or(Ok(()), |refusal| Err(GateError::Refusal(refusal)))
}

/// What the client's user may do.
#[inline]
fn acl(
    GateRequest { lane, session, entry, args, .. }: GateRequest<'_>,
    acl_check_of: AclCheck,
) -> GateResult {
    if session.may_do_everything() || entry.spec.flags.has(Flags::NO_AUTH) {
        return Ok(());
    }
    let refusal = acl_check_of(lane.shared, session, entry, args);
    refusal.map_or(Ok(()), |refusal| Err(GateError::Refusal(refusal)))
}

/// In a cluster, keys that another node serves; the node, if the request is to be sent on. On a
/// server that is no node keys of several slots are counted, if anybody wants to know.
#[inline]
fn route<'a>(
    GateRequest { lane, session, entry, args, .. }: GateRequest<'_>,
    locations: impl FnOnce() -> &'a [Location],
) -> Result<Option<Box<str>>, GateError> {
    let routing = &lane.shared.gates.routing;
    if !routing.looks_at_slots() {
        return Ok(None);
    }
    if !routing.is_on() {
        let (server, flags) = (lane.shared, entry.spec.flags);
        RoutedRequest { server, session, entry, args, locations: locations(), flags }
            .note_several_slots();
        return Ok(None);
    }
    let routes = lane.refreshed_routes();
    // A program that says that it writes goes where it may, and not only its commands.
    let is_declared = uses_declared_flags(entry.spec.role) && (routes.is_replica || !routes.is_up);
    let flags = match is_declared {
        true => declared_flags(lane, session, entry, args),
        false => effective_flags(session, entry),
    };
    let request =
        RoutedRequest { server: lane.shared, session, entry, args, locations: locations(), flags };
    request.route(&routes).map_err(GateError::Refusal)
}

/// A subscriber that speaks RESP2 is confined to what its messages cannot be taken for.
#[inline]
fn subscriber(GateRequest { session, entry, .. }: GateRequest<'_>) -> GateResult {
    match session.is_resp2_subscriber() && !entry.spec.flags.has(Flags::SUBSCRIBED) {
        true => Err(GateError::Refusal(subscriber_refusal(entry))),
        false => Ok(()),
    }
}

/// A client that called MONITOR keeps from the data. A program that says that it writes nothing
/// may run, as in Redis, but not by the name of a command that reads.
#[inline]
fn monitor(
    GateRequest { session, .. }: GateRequest<'_>,
    effective: Flags,
    declared: impl Fn() -> Flags,
) -> GateResult {
    let touches_keys = || effective.has(Flags::READONLY) || may_write(declared());
    match session.client.has_flag(client_flags::MONITOR) && touches_keys() {
        true => Err(GateError::Refusal(MONITOR_REFUSAL)),
        false => Ok(()),
    }
}

/// A replica without its primary may have nothing to show but what was.
#[inline]
fn stale_data(GateRequest { lane, session, entry, .. }: GateRequest<'_>) -> GateResult {
    match lane.shared.gates.replica_role.refuses_stale(|| flag_set(session, entry)) {
        true => Err(GateError::Refusal(MASTERDOWN)),
        false => Ok(()),
    }
}

/// While data are loaded few commands run.
#[inline]
fn loading(GateRequest { lane, session, entry, .. }: GateRequest<'_>) -> GateResult {
    match lane.shared.gates.loading.refuses(|| flag_set(session, entry)) {
        true => Err(GateError::Refusal(LOADING)),
        false => Ok(()),
    }
}

/// A script that has run for too long.
#[inline]
fn busy_script(GateRequest { lane, entry, .. }: GateRequest<'_>) -> GateResult {
    match lane.shared.scripts.running.refuse() {
        Some(refusal) if !entry.spec.flags.has(Flags::ALLOW_BUSY) => {
            Err(GateError::Refusal(refusal))
        }
        _ => Ok(()),
    }
}

/// A disk that fails, too few replicas, a primary that alone may write here: what keeps everybody
/// from writing (`limits::write_refusals`).
#[inline]
fn write_refusals(
    GateRequest { lane, entry, .. }: GateRequest<'_>,
    effective: Flags,
    declared: impl FnOnce() -> Flags,
) -> GateResult {
    let (server, role) = (lane.shared, entry.spec.role);
    let refusals = &server.gates.write_refusals;
    if !refusals.are_there() {
        return Ok(());
    }
    let flags = if uses_declared_flags(role) { declared() } else { effective };
    let refusal = refusals.refuse(&server.config, &server.journal, flags, role);
    refusal.map_or(Ok(()), |refusal| Err(GateError::Refusal(refusal)))
}

/// Memory that is used up. While data are loaded, or a script runs for too long, other gates say
/// what is the matter.
#[inline]
fn oom(
    GateRequest { lane, entry, .. }: GateRequest<'_>,
    effective: Flags,
    bytes_needed: impl FnOnce() -> usize,
    declared: impl FnOnce() -> Flags,
) -> GateResult {
    let budget = &lane.shared.memory.budget;
    if budget.limit() == 0 || is_yielding(lane.shared) {
        return Ok(());
    }
    let asks_others = uses_declared_flags(entry.spec.role) && budget.is_out_of_memory(0);
    let flags = if asks_others { declared() } else { effective };
    budget.refuse(flags, bytes_needed).map_or(Ok(()), |refusal| Err(GateError::Refusal(refusal)))
}

/// Whether Redis would answer between two steps of what keeps it busy.
#[inline]
fn is_yielding(server: &'static Shared) -> bool {
    server.gates.loading.is_on() || server.scripts.running.refuse().is_some()
}

/// Whether a command is refused by what it says of others: a program that says what it does would
/// be refused in its middle, within a transaction behind what others of it have changed.
#[inline]
fn uses_declared_flags(role: Role) -> bool {
    script_flags::may_declare(role) || role == Role::Exec
}

/// What the client's user, or its database, may take.
#[inline]
fn quotas(request: GateRequest<'_>) -> GateResult {
    let GateRequest { lane, session, entry, args, has_partly_run } = request;
    if has_partly_run || !lane.shared.gates.quotas.has_quotas() {
        return Ok(());
    }
    let refusal = quota::refuse(lane, session, Request { entry, args, database: session.database });
    refusal.map_or(Ok(()), |refusal| Err(GateError::Refusal(refusal)))
}

/// What has no room for what commands would leave behind: writes, and messages to other nodes. Of
/// the latter those are held that publish and do nothing else: of what a program publishes in its
/// middle, and of what had begun, the bus has a bound of its own.
#[inline]
fn backpressure(GateRequest { lane, entry, .. }: GateRequest<'_>, effective: Flags) -> GateResult {
    let server = lane.shared;
    let of_writes = write_backpressure_of(server).filter(|_| may_write(effective));
    let publishes = || entry.spec.group == Group::PubSub && effective.has(Flags::MAY_REPLICATE);
    let of_messages = || {
        let backpressure = &server.gates.message_backpressure;
        Some(backpressure).filter(|backpressure| backpressure.is_on() && publishes())
    };
    match of_writes.or_else(of_messages) {
        Some(backpressure) => Err(GateError::Wait(Suspension::Backpressure(backpressure))),
        None => Ok(()),
    }
}

/// CLIENT PAUSE: the last gate.
#[inline]
fn pause(lane: &Lane, flags: impl FnOnce() -> Flags) -> GateResult {
    match lane.shared.gates.pause.holds(flags, || lane.now_ms()) {
        true => Err(GateError::Wait(Suspension::Pause)),
        false => Ok(()),
    }
}

#[inline]
fn verdict(passed: GateResult) -> GateVerdict {
    match passed {
        Ok(()) => GateVerdict::Admitted,
        Err(GateError::Refusal(refusal)) => GateVerdict::Refused(refusal),
        Err(GateError::Wait(suspension)) => GateVerdict::Postponed(suspension),
        Err(GateError::Elsewhere(node)) => GateVerdict::Elsewhere(node),
    }
}

/// Asks the gates for a request of another front, which a command stands for: `deny` says what
/// keeps it from its user, `elsewhere` that another node has its keys, and `bytes_needed` what it
/// brings. Those are left out that are about what its front cannot send: arguments, and words of a
/// reply.
#[inline]
pub(crate) fn admit_foreign(
    lane: &Lane,
    session: &Session,
    (entry, has_partly_run): (&CommandEntry, bool),
    bytes_needed: impl FnOnce() -> usize,
    deny: impl FnOnce() -> Option<Refusal>,
    elsewhere: impl FnOnce(&SlotMap) -> Option<Refusal>,
) -> GateVerdict {
    if !session.may_do_everything()
        && let Some(refusal) = deny()
    {
        return GateVerdict::Refused(refusal);
    }
    if lane.shared.gates.routing.is_on()
        && let Some(refusal) = elsewhere(&lane.refreshed_routes())
    {
        return GateVerdict::Refused(refusal);
    }
    let (args, flags) = (Args::default(), entry.spec.flags);
    let request = GateRequest { lane, session, entry, args, has_partly_run };
    verdict(pass_with_data(request, flags, bytes_needed, || flags))
}

/// Finds what a command says that it does.
pub(crate) type FlagsOf<'a> = &'a dyn Fn(&CommandEntry, Args<'_>) -> Flags;

/// Finds what any command says that it does, as the server's scripts have it now.
pub(crate) fn script_flags_of(server: &Shared) -> impl Fn(&CommandEntry, Args<'_>) -> Flags {
    move |entry, args| script_flags::declared_flags(server, entry, args)
}

/// Whether a command may run, or be queued, right behind one that was admitted; most are behind one
/// for the same command. What a program says of itself is looked at behind another where its client
/// is in MONITOR, which only that gate asks; a caller that cares for others leaves `before` out.
/// What is denied is not noted: the caller asks `admit` then. Of a client with a quota, requests go
/// one by one, each behind what was charged.
#[inline]
pub(crate) fn admits_batched(
    lane: &Lane,
    session: &Session,
    before: Option<&CommandEntry>,
    entry: &CommandEntry,
    (args, locations): (Args<'_>, &[Location]),
) -> bool {
    if quota::is_limited(lane, session, session.database) {
        return false;
    }
    let is_monitor = || session.client.has_flag(client_flags::MONITOR);
    let is_alike =
        before.is_some_and(|it| std::ptr::eq(it, entry)) && !(may_declare(entry) && is_monitor());
    if !is_alike || !session.may_do_everything() || lane.shared.gates.routing.is_on() {
        let verdict = ask(lane, session, entry, args, || locations, acl_check::is_denied_quietly);
        return matches!(verdict, GateVerdict::Admitted);
    }
    let (spec, flags) = (entry.spec, entry.spec.flags);
    let bytes_needed = || budget::bytes_needed(flags, args);
    spec.arity.admits(args.len()) && lane.shared.memory.budget.refuse(flags, bytes_needed).is_none()
}

/// The node that a request is sent on to behind another, if nothing else is to be said of it.
#[cold]
pub(crate) fn destination_batched(
    lane: &Lane,
    session: &Session,
    entry: &CommandEntry,
    (args, locations): (Args<'_>, &[Location]),
) -> Option<Box<str>> {
    if quota::is_limited(lane, session, session.database) {
        return None;
    }
    match ask(lane, session, entry, args, || locations, acl_check::is_denied_quietly) {
        GateVerdict::Elsewhere(node) => Some(node),
        _ => None,
    }
}

/// Whether a command may say of itself what it does, so that two with one name differ.
#[inline]
pub(crate) fn may_declare(entry: &CommandEntry) -> bool {
    script_flags::may_declare(entry.spec.role)
}

/// Whether a command may leave something behind: scripts may, whatever they say.
#[inline]
pub(super) fn may_write(flags: Flags) -> bool {
    flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE)
}

/// What has no room at present for what commands leave behind.
#[inline]
fn write_backpressure_of(server: &'static Shared) -> Option<&'static Backpressure> {
    let of_memory =
        || Some(&server.memory.budget.backpressure).filter(|backpressure| backpressure.is_on());
    server.gates.write_backpressure().or_else(of_memory)
}

/// The flags that gates let a command pass by; EXEC's commands pass together.
#[inline]
pub(crate) fn flag_set(session: &Session, entry: &CommandEntry) -> FlagSet {
    let own = FlagSet::of(entry.spec.flags);
    match &session.multi {
        Some(multi) if entry.spec.role == Role::Exec => own.and(multi.flags()),
        _ => own,
    }
}

/// EXEC does what its commands do.
#[inline]
pub(crate) fn effective_flags(session: &Session, entry: &CommandEntry) -> Flags {
    flag_set(session, entry).any
}

/// As `effective_flags`, with what scripts and functions say that they do.
#[cold]
fn declared_flags(lane: &Lane, session: &Session, entry: &CommandEntry, args: Args<'_>) -> Flags {
    let of = script_flags_of(lane.shared);
    match &session.multi {
        Some(multi) if entry.spec.role == Role::Exec => multi.flags_by(of),
        _ => of(entry, args),
    }
}

/// In RESP2 a subscriber could not tell most replies from messages.
#[cold]
fn subscriber_refusal(entry: &CommandEntry) -> Refusal {
    Refusal::owned(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context",
        entry.full_name
    ))
}
