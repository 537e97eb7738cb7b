//! What is refused as a user, or a database, has taken what it may.
//!
//! Invariants: nothing is refused in its middle; what steers the server, logs in, or begins, guards
//! or ends a transaction is never refused; a replica or a primary is no user with a quota.

use std::sync::Arc;

use acl::Database;
use base::quote::quote;
use commands::{Flags, LockPlan};
use config::QuotaLimit;
use keyspace::Refusal;

use crate::clients::registry::client_flags;
use crate::lane::Lane;
use crate::limits::quotas::{Account, DatabasesOverQuota, Rate};
use crate::session::{Request, Session, SessionAccounts, databases};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// Why a request of a client is refused, if anything is used up.
#[cold]
pub(super) fn refuse(lane: &Lane, session: &Session, request: Request<'_>) -> Option<Refusal> {
    let server = lane.shared;
    let is_of_link = [client_flags::REPLICA, client_flags::PRIMARY]
        .into_iter()
        .any(|flag| session.client.has_flag(flag));
    if is_of_link || is_exempt(request.entry) {
        return None;
    }
    // What is queued was asked for when it came, and is asked for its memory when it begins.
    if session.is_queueing() {
        return refuse_rate(lane, session);
    }
    refuse_rate(lane, session).or_else(|| {
        let refusal = refuse_memory(
            server,
            server.gates.quotas.databases_over_quota(server.keyspace),
            request,
        );
        if refusal.is_some() {
            session.with_accounts(server, session.database, |accounts| {
                if let Some(account) = accounts.database() {
                    account.note_refusal();
                }
            });
        }
        refusal
    })
}

/// Why a request that begins a second time is refused: its database is full by now. Its client's
/// rates were asked for when it came.
#[inline]
pub(super) fn refuse_again(server: &Shared, request: Request<'_>) -> Option<Refusal> {
    let full = server.gates.quotas.databases_over_quota(server.keyspace);
    if is_exempt(request.entry) { None } else { refuse_memory(server, full, request) }
}

fn is_exempt(entry: &CommandEntry) -> bool {
    let flags = entry.spec.flags;
    // A transaction whose MULTI or WATCH is refused would run in pieces, or unwatched.
    let frames = flags.has(Flags::IMMEDIATE);
    flags.has(Flags::ADMIN) || flags.has(Flags::NO_AUTH) || frames
}

/// Whether a client's requests in a database go one by one, as something of it is limited.
#[inline]
pub(crate) fn is_limited(lane: &Lane, session: &Session, database: usize) -> bool {
    lane.shared.gates.quotas.has_quotas() && is_of_limited_account(lane, session, database)
}

#[cold]
fn is_of_limited_account(lane: &Lane, session: &Session, database: usize) -> bool {
    let server = lane.shared;
    let is_any_limited = |accounts: &SessionAccounts| accounts.all().any(Account::is_limited);
    server.gates.quotas.databases_over_quota(server.keyspace).are_there()
        || session.with_accounts(server, database, is_any_limited)
}

/// Asks for what comes now, where it is to run: what is queued is asked for here and, by its rates,
/// not again.
fn refuse_rate(lane: &Lane, session: &Session) -> Option<Refusal> {
    let (server, now_us) = (lane.shared, lane.ticked_us());
    let database = session.next_database();
    session.with_accounts(server, database, |accounts| {
        if let Some(account) = accounts.user()
            && let Some(exhausted) = account.exhausted(now_us)
        {
            account.note_refusal();
            let user = session.effective_user(server)?;
            return Some(rate_refusal(exhausted, &format!("user {}", quote(user.name()))));
        }
        let account = accounts.database()?;
        let refusal = refuse_rate_of_database(account, database, now_us)?;
        account.note_refusal();
        Some(refusal)
    })
}

fn refuse_rate_of_database(account: &Account, database: usize, now_us: i64) -> Option<Refusal> {
    Some(rate_refusal(account.exhausted(now_us)?, &format!("database {database}")))
}

/// Why a script may not turn to a database, if it may not, and the account that this is noted in.
#[inline]
pub(crate) fn refuse_select(server: &Shared, database: usize) -> Option<(Refusal, Arc<Account>)> {
    if !server.gates.quotas.has_quotas() {
        return None;
    }
    let account = server.gates.quotas.of_database(database)?;
    let now_us = server.keyspace.clock().monotonic_us();
    let refusal = refuse_rate_of_database(&account, database, now_us)?;
    Some((refusal, account))
}

fn rate_refusal((limit, rate): (QuotaLimit, Rate), of: &str) -> Refusal {
    let Rate { amount, seconds } = rate;
    Refusal::owned(format!(
        "QUOTA {of} may have {} {amount}/{seconds} and has had them, try again later",
        limit.name()
    ))
}

/// Why a request may not run for want of memory in a database: its own, where it takes memory, or
/// another that it brings something to.
pub(crate) fn refuse_memory(
    server: &Shared,
    full: DatabasesOverQuota,
    request: Request<'_>,
) -> Option<Refusal> {
    refuse_memory_for(server, full, request, request.entry.spec.flags)
}

/// As `refuse_memory`, for what does this.
pub(crate) fn refuse_memory_for(
    server: &Shared,
    full: DatabasesOverQuota,
    request: Request<'_>,
    flags: Flags,
) -> Option<Refusal> {
    if !full.are_there() || !flags.has(Flags::WRITE) {
        return None;
    }
    if flags.has(Flags::DENYOOM) && full.has(request.database) {
        return Some(memory_refusal(server, request.database));
    }
    // Databases that are exchanged, or emptied, as a whole take no more than before.
    if request.entry.spec.plan == LockPlan::World {
        return None;
    }
    let touched = databases(server, request);
    let others = touched.into_iter().filter_map(|(_, database)| match database {
        Database::Number(number) if number != request.database => Some(number),
        _ => None,
    });
    others.into_iter().find(|other| full.has(*other)).map(|other| memory_refusal(server, other))
}

fn memory_refusal(server: &Shared, database: usize) -> Refusal {
    let max = server.gates.quotas.of_database(database).map_or(0, |account| account.memory_max());
    Refusal::owned(format!("QUOTA database {database} may have memory {max} and has more"))
}
