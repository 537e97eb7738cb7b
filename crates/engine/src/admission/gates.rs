//! Admission: everything that may keep a command from running, in one list.
//!
//! Invariant: a gate looks and never changes anything but the log of what is denied; the first one
//! that objects decides.

use commands::{Flags, Role};
use config::DebugAccess;
use config::settings::{ENABLE_DEBUG_COMMAND, ENABLE_MODULE_COMMAND};
use keyspace::Refusal;
use proto::Args;

use crate::admission::declared;
use crate::admission::guard;
use crate::clients::registry::client_flags;
use crate::lane::Lane;
use crate::limits::budget;
use crate::limits::loading::LOADING;
use crate::runtime::write_gate::WriteGate;
use crate::session::{Limited, Request};
use crate::session::{Session, Stage};
use crate::shared::Shared;
use crate::table::command_table::Entry;

/// In Redis, who watches counts as a replica.
const WATCHES: Refusal = Refusal::error("ERR Replica can't interact with the keyspace");

/// Whether a command may run.
pub enum Verdict {
    Admitted,
    Refused(Refusal),
    /// Not now: the stage says when to ask again.
    Postponed(Stage),
}

/// Asks all gates.
#[inline]
pub(crate) fn admit(lane: &Lane, session: &Session, entry: &Entry, args: Args<'_>) -> Verdict {
    ask(lane, session, entry, args, guard::refuse)
}

/// What a user's rules say of a request.
type Guard = fn(&Shared, &Session, &Entry, Args<'_>) -> Option<Refusal>;

#[inline]
fn ask(lane: &Lane, session: &Session, entry: &Entry, args: Args<'_>, refuse: Guard) -> Verdict {
    let (server, flags) = (lane.shared, entry.spec.flags);
    if !entry.spec.arity.admits(args.len()) {
        return Verdict::Refused(commands::errors::wrong_arity(&entry.full_name));
    }
    if flags.has(Flags::PROTECTED)
        && let Some(refusal) = protect(lane, session, entry)
    {
        return Verdict::Refused(refusal);
    }
    if !session.may_do_everything()
        && !flags.has(Flags::NO_AUTH)
        && let Some(refusal) = refuse(lane.shared, session, entry, args)
    {
        return Verdict::Refused(refusal);
    }
    if session.is_confined() && !flags.has(Flags::SUBSCRIBED) {
        return Verdict::Refused(confined(entry));
    }
    if session.client.has_flag(client_flags::MONITOR) && touches_keys(flags) {
        return Verdict::Refused(WATCHES);
    }
    if lane.shared.loading.is_on() && is_kept_from_loading(session, entry) {
        return Verdict::Refused(LOADING);
    }
    if let Some(refusal) = lane.shared.scripts.underway.refuse()
        && !flags.has(Flags::ALLOW_BUSY)
    {
        return Verdict::Refused(refusal);
    }
    let effective = effective_flags(session, entry);
    let declared = || declared_flags(lane, session, entry, args);
    let room = || budget::room_for(effective, args);
    match admit_deed(server, effective, entry.spec.role, room, declared) {
        Verdict::Admitted => admit_in_pause(lane, declared),
        other => other,
    }
}

/// Asks the last gate: whether CLIENT PAUSE holds what has these flags.
#[inline]
pub fn admit_in_pause(lane: &Lane, flags: impl FnOnce() -> Flags) -> Verdict {
    let pause = &lane.shared.pause;
    if pause.may_hold() && pause.holds(flags(), lane.now_ms()) {
        return Verdict::Postponed(Stage::Paused);
    }
    Verdict::Admitted
}

/// Asks the gates that are about the data and not about the client, but for that of a pause: for
/// what has these flags and this role, and needs so much room. `declared` finds what a program says
/// that it does.
#[inline]
pub fn admit_deed(
    server: &'static Shared,
    effective: Flags,
    role: Role,
    room: impl FnOnce() -> usize,
    declared: impl FnOnce() -> Flags,
) -> Verdict {
    if (server.disk_errors.are_there() || server.budget.limit() != 0)
        && let Some(refusal) = refuse_for_want(server, effective, role, room, declared)
    {
        return Verdict::Refused(refusal);
    }
    if may_write(effective)
        && let Some(gate) = shut_gate(server)
    {
        return Verdict::Postponed(Stage::Shut(gate));
    }
    Verdict::Admitted
}

/// Why a command may not run for want of memory, or of a place to write down what changes. A
/// program that says what it does is refused by that: within a transaction it would be refused in
/// its middle, behind what others of it have changed.
#[inline]
fn refuse_for_want(
    server: &Shared,
    effective: Flags,
    role: Role,
    room: impl FnOnce() -> usize,
    declared: impl FnOnce() -> Flags,
) -> Option<Refusal> {
    let may_be_refused = || server.disk_errors.are_there() || server.budget.is_out_of_memory(0);
    let speaks_for_others = declared::may_declare(role) || role == Role::Exec;
    let flags = if speaks_for_others && may_be_refused() { declared() } else { effective };
    let refusal = server.disk_errors.refuse(&server.config, &server.journal, flags, role);
    refusal.or_else(|| server.budget.refuse(flags, room))
}

/// Finds what a command says that it does.
pub(crate) type FlagsOf<'a> = &'a dyn Fn(&Entry, Args<'_>) -> Flags;

/// Finds what any command says that it does, as the server's scripts have it now.
pub(crate) fn declared_by(server: &Shared) -> impl Fn(&Entry, Args<'_>) -> Flags {
    move |entry, args| declared::declared_flags(server, entry, args)
}

/// The gates for one that begins a second time: its locks were given back in its middle, and others
/// ran since. What rights, a pause, a limit and a failed disk promise holds for whatever takes its
/// locks behind them.
///
/// Of the list above it leaves out what cannot have changed while its session waits for it (the
/// number of its arguments, its client's state), what cannot be while it has its locks (a load),
/// and the patience of others with a script, which it had for as long as its own lasts. The gate
/// of memory it passes: what it holds itself may be what is to be freed.
pub struct Again<'a> {
    pub(crate) server: &'static Shared,
    /// Whose it is.
    limited: Option<&'a Limited>,
    request: Request<'a>,
    effective: Flags,
    declared: Flags,
    /// Whether its session can begin it anew, so that it need not wait where it is.
    pub(crate) may_be_put_off: bool,
}

impl<'a> Again<'a> {
    pub fn of_command(
        server: &'static Shared,
        limited: Option<&'a Limited>,
        request: Request<'a>,
    ) -> Self {
        let flags = request.entry.spec.flags;
        let may_be_put_off = true;
        Self { server, limited, request, effective: flags, declared: flags, may_be_put_off }
    }

    /// For a program that is a command, or whose commands are queued: `queued` says what they do,
    /// and what they say that they do as this finds it.
    pub(crate) fn of_program(
        server: &'static Shared,
        limited: Option<&'a Limited>,
        request: Request<'a>,
        may_be_put_off: bool,
        queued: impl FnOnce(FlagsOf<'_>) -> Option<(Flags, Flags)>,
    ) -> Self {
        let of = declared_by(server);
        let Request { entry, args, .. } = request;
        let (effective, declared) = match queued(&of) {
            Some((effective, declared)) => (entry.spec.flags.and(effective), declared),
            None => (entry.spec.flags, of(entry, args)),
        };
        Self { server, limited, request, effective, declared, may_be_put_off }
    }

    /// Whether it is not to begin now. An error says that it is not to begin at all. Asked while it
    /// has its locks: whoever shuts a gate afterwards sees all that it does.
    pub fn hold(&self) -> Result<bool, Refusal> {
        let Self { server, limited, request, effective, declared, .. } = *self;
        if let Some(refusal) = limited.and_then(|member| member.refuse_again(server, request)) {
            return Err(refusal);
        }
        if let Some(refusal) =
            server.disk_errors.refuse(&server.config, &server.journal, declared, Role::Any)
        {
            return Err(refusal);
        }
        let more = budget::room_for(declared, request.args);
        let garbage = server.keyspace.reclaimer().bytes();
        if let Some(refusal) = server.budget.refuse_late(&server.config, declared, more, garbage) {
            return Err(refusal);
        }
        let waits_for_disk =
            may_write(effective) && (server.snapshot_gate.is_shut() || server.log_gate.is_shut());
        let now = server.keyspace.clock().now_ms();
        let is_paused = server.pause.may_hold() && server.pause.holds(declared, now);
        Ok(waits_for_disk || is_paused)
    }
}

/// Whether a command may run, or be queued, right behind one that was admitted; most are behind
/// one for the same command. What a program says of itself is not looked at behind another: who
/// cares leaves `before` out. What is denied is not noted: who asks here asks `admit` then.
#[inline]
pub(crate) fn admits_behind(
    lane: &Lane,
    session: &Session,
    before: Option<&Entry>,
    entry: &Entry,
    args: Args<'_>,
) -> bool {
    if !before.is_some_and(|it| std::ptr::eq(it, entry)) || !session.may_do_everything() {
        let verdict = ask(lane, session, entry, args, guard::would_refuse);
        return matches!(verdict, Verdict::Admitted);
    }
    let (spec, flags) = (entry.spec, entry.spec.flags);
    let room = || budget::room_for(flags, args);
    spec.arity.admits(args.len()) && lane.shared.budget.refuse(flags, room).is_none()
}

/// Whether a command may say of itself what it does, so that two with one name differ.
#[inline]
pub(crate) fn may_declare(entry: &Entry) -> bool {
    declared::may_declare(entry.spec.role)
}

/// Whether a command may leave something behind: scripts may, whatever they say.
#[inline]
fn may_write(flags: Flags) -> bool {
    flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE)
}

/// What has no room at present for what commands leave behind.
#[inline]
fn shut_gate(server: &'static Shared) -> Option<&'static WriteGate> {
    let gates = [&server.snapshot_gate, &server.log_gate, &server.budget.gate];
    gates.into_iter().find(|gate| gate.is_shut())
}

/// Whether a command is refused while data are loaded; EXEC is if one of its commands is.
#[cold]
fn is_kept_from_loading(session: &Session, entry: &Entry) -> bool {
    let pending = session.pending.as_ref().filter(|_| entry.spec.role == Role::Exec);
    !entry.spec.flags.has(Flags::LOADING)
        || pending.is_some_and(|pending| pending.is_kept_from_loading())
}

/// EXEC does what its commands do.
#[inline]
pub(crate) fn effective_flags(session: &Session, entry: &Entry) -> Flags {
    match &session.pending {
        Some(pending) if entry.spec.role == Role::Exec => entry.spec.flags.and(pending.flags()),
        _ => entry.spec.flags,
    }
}

/// As `effective_flags`, with what scripts and functions say that they do.
#[cold]
fn declared_flags(lane: &Lane, session: &Session, entry: &Entry, args: Args<'_>) -> Flags {
    let of = declared_by(lane.shared);
    match &session.pending {
        Some(pending) if entry.spec.role == Role::Exec => pending.flags_by(of),
        _ => of(entry, args),
    }
}

/// In RESP2 a subscriber could not tell most replies from messages.
#[cold]
fn confined(entry: &Entry) -> Refusal {
    Refusal::owned(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context",
        entry.full_name
    ))
}

/// What a connection that watches all others may not do.
fn touches_keys(flags: Flags) -> bool {
    [Flags::WRITE, Flags::READONLY, Flags::MAY_REPLICATE].into_iter().any(|flag| flags.has(flag))
}

/// DEBUG and MODULE are for those whom the configuration names.
#[cold]
fn protect(lane: &Lane, session: &Session, entry: &Entry) -> Option<Refusal> {
    let config = &lane.shared.config;
    let (access, word): (DebugAccess, &str) = match entry.spec.role {
        Role::Debug => (config.get(ENABLE_DEBUG_COMMAND), "debug"),
        _ => (config.get(ENABLE_MODULE_COMMAND), "module"),
    };
    if access.allows(session.is_local) {
        return None;
    }
    Some(Refusal::owned(format!(
        "ERR {} command not allowed. If the enable-{word}-command option is set to \"local\", you \
         can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
        word.to_ascii_uppercase()
    )))
}
