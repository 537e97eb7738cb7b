//! What a user may do: the rules of its ACL beside each of its requests.
//!
//! Invariants: each run of a command for a client is asked about here first, on every port and
//! wherever the command comes from; keys are found the way the lock plan finds them; a user that
//! may do everything costs one look.

use std::sync::Arc;

use acl::{Context, Event, Reason, User};
use config::settings::ACLLOG_MAX_LEN;
use keyspace::Refusal;
use proto::Args;

use crate::clients::client_id::ClientId;
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::{Client, Peer, Signal, client_flags};
use crate::observe::pubsub::Subscriptions;
use crate::runtime::failpoint;
use crate::session::Session;
use crate::session::client_info::describe;
use crate::session::{NO_AUTH, Request, channels_of};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// What keeps a request from a session's user, if anything does. For sessions that may not do
/// everything, and commands that need a user.
pub fn refuse(
    server: &Shared,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Option<Refusal> {
    let Some(subject) = session.look_up_acl_subject(server) else {
        return session.effective_user(server).is_none().then_some(NO_AUTH);
    };
    if subject.user.is_deleted() {
        // The client came in just when its user went.
        session.client.ask(Signal::Kill);
        return Some(NO_AUTH);
    }
    let context = if session.is_queueing() { Context::Multi } else { Context::TopLevel };
    let request = Request { entry, args, database: session.database };
    subject.refuse(server, context, request)
}

/// As `refuse`, for a caller that only wants to know: nothing is noted, and no client is cut off.
/// What is said is not for clients.
pub(crate) fn is_denied_quietly(
    server: &Shared,
    session: &Session,
    entry: &CommandEntry,
    args: Args<'_>,
) -> Option<Refusal> {
    let Some(subject) = session.look_up_acl_subject(server) else {
        return session.effective_user(server).is_none().then_some(NO_AUTH);
    };
    let request = Request { entry, args, database: session.database };
    if subject.user.is_deleted() || !subject.allows(server, request) {
        return Some(NO_AUTH);
    }
    subject.refuse_pattern(request)
}

/// Has the clients of users that were changed or removed look at what they may still do; `own` has
/// changed them, and is answered first.
pub fn recheck_clients_of(server: &Shared, users: &[Arc<User>], own: Option<ClientId>) {
    let wakes = PendingWakes::default();
    for client in server.clients.all() {
        let is_of = |user: &Arc<User>| client.is_of_user(user.name());
        failpoint::point();
        if users.iter().any(is_of) {
            let is_own = own == Some(client.id);
            // A link has no session that would look.
            let is_link = client.has_flag(client_flags::REPLICA);
            let signal = match is_own {
                true => Signal::ReviewAfterReply,
                false if is_link && users.iter().any(|it| is_of(it) && it.is_deleted()) => {
                    Signal::Kill
                }
                false => Signal::Review,
            };
            server.mailboxes.signal(&client, signal, &wakes);
        }
    }
    server.mailboxes.wake(&wakes);
}

/// Whether a client has to go: its user is gone, or may not hear any more what it listens to.
pub fn must_disconnect(server: &Shared, session: &Session) -> bool {
    let Some(user) = session.effective_user(server) else { return false };
    if user.is_deleted() {
        return true;
    }
    let rules = user.rules();
    let may_hear = |all: &Subscriptions| {
        all.all_names().all(|(name, is_pattern)| rules.may_use_channel(name, is_pattern))
    };
    session.subscriptions.as_deref().is_some_and(|all| !may_hear(all))
}

/// Whether a client's user may hear all that a request in its middle begins to listen to.
pub fn may_subscribe(
    server: &Shared,
    session: &Session,
    (entry, args): (&CommandEntry, Args<'_>),
) -> bool {
    let Some(user) = session.effective_user(server) else { return true };
    let (rules, (mut channels, are_patterns)) = (user.rules(), channels_of(entry, args));
    channels.all(|index| rules.may_use_channel(&args[index], are_patterns))
}

const WRONG_PASSWORD: Refusal =
    Refusal::error("WRONGPASS invalid username-password pair or user is disabled.");

/// A client that logs in.
#[derive(Clone, Copy)]
pub struct LoginAttempt<'a> {
    /// Where the login was tried, for ACL LOG: at top level, in MULTI or in a script.
    pub context: Context,
    /// The command, as the client wrote it.
    pub word: &'a [u8],
    /// The name of the user.
    pub name: &'a [u8],
    /// The password, in plain text.
    pub password: &'a [u8],
}

/// The user of this name, if this is its password; another password is noted in ACL LOG.
pub fn verify(
    server: &Shared,
    client: &Client,
    login: LoginAttempt<'_>,
) -> Result<Arc<User>, Refusal> {
    let describe = || describe(server, client, server.keyspace.clock().now_ms());
    verify_from(server, client.peer, login, describe)
}

/// The same, of somebody who is no client yet; `describe` says who that is where a client's line
/// stands.
pub fn verify_from(
    server: &Shared,
    peer: Peer,
    login: LoginAttempt<'_>,
    describe: impl FnOnce() -> String,
) -> Result<Arc<User>, Refusal> {
    let LoginAttempt { context, word: object, name: user, password } = login;
    server.access.users.authenticate(user, password).ok_or_else(|| {
        let clock = server.keyspace.clock();
        server.access.auth_failures.note_failure(peer, clock.monotonic_us());
        let event = Event { reason: Reason::Auth, context, object, user, client: describe() };
        server.access.acl_log.record(event, clock.now_ms(), server.config.get(ACLLOG_MAX_LEN));
        WRONG_PASSWORD
    })
}
