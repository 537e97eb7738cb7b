//! `client-output-buffer-limit`: when a client that does not read is closed.
//!
//! A session whose replies pile up executes nothing more, so an ordinary client holds little more
//! than one reply. The limits are for what is left: one reply of many megabytes, and what others
//! owe a client, whether it is in the output already or not. Subscribers have limits of their own.
//! A client that monitors, or tracks what others change, is an ordinary one, as in Redis; but where
//! those have no limit, which is the default, others fill its buffer without bound. Such a client
//! is judged as a subscriber then, one that tracks by what others brought upon it alone.
//!
//! A reply does not grow beyond the hard limit while it is made: what comes then is dropped, and
//! nothing of it leaves.
//!
//! Invariant: a client over its hard limit is closed at once, one over its soft limit once it has
//! been for as long as the limit says: its session looks whenever it has something to send, and is
//! woken to look when that time is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::time::UnixMillis;
use config::OutputBufferLimit;
use config::settings::CLIENT_OUTPUT_BUFFER_LIMIT;
use engine::clients::registry::{Client, client_flags};
use engine::runtime::log::log_warning;
use engine::session::client_info::describe;
use engine::session::output_ceiling::limit_of;

use crate::net::network::Network;

/// However patient the limit is: timers have an end.
const LONGEST: Duration = Duration::from_secs(3600);

/// What waits to be sent to a client, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct UnsentBytes {
    pub(crate) all: u64,
    /// What others brought upon it: notices of changes, and what is still to be passed on.
    pub(crate) notices: u64,
}

/// Whether a client to which so much is unsent is to be closed; says so in the log.
pub(crate) fn is_exceeded(
    server: &Network,
    client: &Arc<Client>,
    owed: UnsentBytes,
    now: UnixMillis,
) -> bool {
    let flags = client.live.flags.load(Ordering::Relaxed);
    let limits = server.config.get(CLIENT_OUTPUT_BUFFER_LIMIT);
    // A client that is judged otherwise without its tracking is judged by what that brings alone.
    let untracked = limit_of(limits, flags & !client_flags::TRACKING);
    let limit = limit_of(limits, flags);
    let unsent = if untracked == limit { owed.all } else { owed.notices };
    let since = &client.live.over_soft_limit_since;
    let began = match since.load(Ordering::Relaxed) {
        0 => 0,
        lower => now - i64::from((now as u32).wrapping_sub(lower)),
    };
    let (exceeded, began) = check_limit(limit, unsent, began, now);
    since.store(if began == 0 { 0 } else { (began as u32).max(1) }, Ordering::Relaxed);
    if began != 0 && !exceeded {
        schedule_recheck(client, limit, now - began);
    }
    if exceeded {
        record(server, client, now);
    }
    exceeded
}

/// Says that a client is closed for its limits.
pub(crate) fn record(server: &Network, client: &Arc<Client>, now: UnixMillis) {
    server.observed.stats.output_limit_disconnections.fetch_add(1, Ordering::Relaxed);
    let client = describe(server, client, now);
    log_warning!(
        server.log,
        "Client {client} scheduled to be closed ASAP for overcoming of output buffer limits."
    );
}

/// Has all sessions look that have something unsent: the limits are others now.
pub(crate) fn review(server: &Network) {
    for client in server.clients.all() {
        if client.live.output_bytes.load(Ordering::Relaxed) > 0 {
            client.wake();
        }
    }
}

/// Has the session look again when the time is over that the soft limit grants, as nothing else may
/// happen until then. One alarm at a time is enough: the look sets the next.
fn schedule_recheck(client: &Arc<Client>, limit: OutputBufferLimit, over_ms: i64) {
    if client.has_flag(client_flags::ALARMED) {
        return;
    }
    client.set_flag(client_flags::ALARMED, true);
    let granted = Duration::from_secs(limit.soft_seconds);
    let over = Duration::from_millis(u64::try_from(over_ms).unwrap_or(0));
    let left = granted.saturating_sub(over).min(LONGEST) + Duration::from_millis(1);
    let client = Arc::clone(client);
    tokio::task::spawn_local(async move {
        tokio::time::sleep(left).await;
        client.set_flag(client_flags::ALARMED, false);
        client.wake();
    });
}

/// What a client is to its limits, which may change with each of its commands.
#[inline]
pub(crate) fn class_of(client: &Client) -> u32 {
    const CLASS: u32 = client_flags::SUBSCRIBER | client_flags::MONITOR | client_flags::TRACKING;
    client.live.flags.load(Ordering::Relaxed) & CLASS
}

/// Whether the limit is exceeded, and since when the soft one is (0 for not at all).
fn check_limit(
    limit: OutputBufferLimit,
    unsent: u64,
    began: UnixMillis,
    now: UnixMillis,
) -> (bool, UnixMillis) {
    if limit.hard > 0 && unsent >= limit.hard {
        return (true, began);
    }
    if limit.soft == 0 || unsent < limit.soft {
        return (false, 0);
    }
    let began = if began == 0 { now } else { began };
    let patience = i64::try_from(limit.soft_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    (now - began > patience, began)
}

#[cfg(test)]
mod tests {
    use config::{OutputBufferLimit, OutputBufferLimits};
    use engine::clients::registry::client_flags;

    use super::{check_limit, limit_of};

    const LIMIT: OutputBufferLimit = OutputBufferLimit { hard: 100, soft: 10, soft_seconds: 2 };

    #[test]
    fn monitor_and_tracking_have_the_normal_limit_unless_it_is_none() {
        const MONITOR: u32 = client_flags::MONITOR;
        const TRACKING: u32 = client_flags::TRACKING;
        let none = OutputBufferLimit { hard: 0, soft: 0, soft_seconds: 0 };
        let pubsub = OutputBufferLimit { hard: 7, ..LIMIT };
        let limits = |normal| OutputBufferLimits { normal, replica: none, pubsub };
        let hard = |normal, flags| limit_of(limits(normal), flags).hard;
        assert_eq!((hard(none, 0), hard(none, MONITOR)), (0, 7));
        assert_eq!((hard(LIMIT, 0), hard(LIMIT, MONITOR)), (100, 100));
        assert_eq!((hard(none, TRACKING), hard(LIMIT, TRACKING)), (7, 100));
        assert_eq!(hard(OutputBufferLimit { soft: 5, ..none }, MONITOR), 0);
        assert_eq!(hard(LIMIT, client_flags::SUBSCRIBER), 7);
    }

    #[test]
    fn the_hard_limit_closes_at_once() {
        assert!(!check_limit(LIMIT, 9, 0, 1000).0);
        assert!(check_limit(LIMIT, 100, 0, 1000).0);
        assert!(!check_limit(OutputBufferLimit { hard: 0, ..LIMIT }, 1_000_000, 0, 1000).0);
    }

    #[test]
    fn the_soft_limit_closes_after_its_time_without_a_break() {
        assert_eq!(check_limit(LIMIT, 10, 0, 1000), (false, 1000));
        assert_eq!(check_limit(LIMIT, 50, 1000, 3000), (false, 1000));
        assert_eq!(check_limit(LIMIT, 50, 1000, 3001), (true, 1000));
        assert_eq!(check_limit(LIMIT, 9, 1000, 2500), (false, 0));
    }
}
