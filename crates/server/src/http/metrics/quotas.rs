//! Metrics of accounts: what each user and each database took, and was refused.
//!
//! Invariant: there are none unless accounts are kept; a user's name is told only to users that may
//! run QUOTA USERS.

use std::sync::Arc;

use engine::limits::quotas::{Account, RATES};

use super::catalogue::MetricFamily;
use super::exposition::{Exposition, MetricKind};
use super::keys::label;
use crate::http::state::HttpState;

/// A kind of account: its label, its metrics in the order of [`RATES`], that of rejections, and
/// that of what its limits have left.
struct Accounts {
    label: &'static str,
    used: [(&'static str, f64, &'static str); RATES.len()],
    rejected: (&'static str, &'static str),
    spent: (&'static str, &'static str),
}

const OF_USERS: Accounts = Accounts {
    label: "user",
    used: [
        ("user_requests", 1.0, "Requests of a user."),
        ("user_received_bytes", 1.0, "Bytes of a user's requests."),
        ("user_sent_bytes", 1.0, "Bytes of the replies to a user."),
        ("user_busy_seconds", 1e-6, "How long a user's commands took."),
    ],
    rejected: ("user_quota_rejections", "Requests of a user that were refused by its quota."),
    spent: (
        "user_quota_spent_ratio",
        "How much of a user's limit is spent; from 1 on requests are refused.",
    ),
};

const OF_DATABASES: Accounts = Accounts {
    label: "db",
    used: [
        ("db_requests", 1.0, "Requests in a database."),
        ("db_received_bytes", 1.0, "Bytes of the requests in a database."),
        ("db_sent_bytes", 1.0, "Bytes of the replies to requests in a database."),
        ("db_busy_seconds", 1e-6, "How long the commands in a database took."),
    ],
    rejected: ("db_quota_rejections", "Requests that were refused by a database's quota."),
    spent: (
        "db_quota_spent_ratio",
        "How much of a database's limit is spent; from 1 on requests are refused.",
    ),
};

/// The metrics of a database's memory, with what they are.
const MEMORY: (&str, &str) = ("db_memory_bytes", "Bytes that a database takes.");
const MEMORY_MAX: (&str, &str) =
    ("db_quota_memory_bytes", "Bytes that a database may take, where that has a limit.");

pub(super) fn families() -> Vec<MetricFamily> {
    let counters = [OF_USERS, OF_DATABASES].into_iter().flat_map(|accounts| {
        let names = accounts.used.map(|(name, _, help)| (name, help));
        let names = names.into_iter().chain([accounts.rejected]);
        names.map(move |(name, help)| {
            MetricFamily::of(name, MetricKind::Counter, help).with_label(accounts.label)
        })
    });
    let spent = [OF_USERS, OF_DATABASES].map(|Accounts { label, spent: (name, help), .. }| {
        MetricFamily::of(name, MetricKind::Gauge, help).with_label(label).with_label("limit")
    });
    let gauges = [MEMORY, MEMORY_MAX]
        .map(|(name, help)| MetricFamily::of(name, MetricKind::Gauge, help).with_label("db"));
    counters.chain(spent).chain(gauges).collect()
}

pub(super) fn write(server: &HttpState, exposition: &mut Exposition, names_users: bool) {
    let quotas = &server.gates.quotas;
    if !quotas.is_accounting_on() {
        return;
    }
    let now_us = server.keyspace.clock().monotonic_us();
    if names_users {
        let users = quotas.all_users().into_iter();
        let named: Vec<_> = users.map(|(name, it)| (label(&name), it)).collect();
        write_accounts(&OF_USERS, &named, now_us, exposition);
    }
    let mut databases = quotas.all_databases();
    databases.retain(|(database, _)| *database < server.keyspace.database_count());
    let named = databases.iter().map(|(database, it)| (database.to_string(), it.clone()));
    write_accounts(&OF_DATABASES, &named.collect::<Vec<_>>(), now_us, exposition);
    exposition.family_if(!databases.is_empty(), MEMORY.0, MetricKind::Gauge, MEMORY.1);
    for (database, _) in &databases {
        let memory = server.keyspace.database_memory(*database);
        exposition.sample(&[("db", &*database.to_string())], memory);
    }
    databases.retain(|(_, account)| account.memory_max() > 0);
    exposition.family_if(!databases.is_empty(), MEMORY_MAX.0, MetricKind::Gauge, MEMORY_MAX.1);
    for (database, account) in &databases {
        exposition.sample(&[("db", &*database.to_string())], account.memory_max());
    }
}

fn write_accounts(
    kind: &Accounts,
    accounts: &[(String, Arc<Account>)],
    now_us: i64,
    exposition: &mut Exposition,
) {
    let is_any = !accounts.is_empty();
    for (place, (name, unit, help)) in kind.used.iter().enumerate() {
        exposition.family_if(is_any, name, MetricKind::Counter, help);
        for (of, account) in accounts {
            exposition.sample(&[(kind.label, of)], account.usage()[place] as f64 * unit);
        }
    }
    let (name, help) = kind.rejected;
    exposition.family_if(is_any, name, MetricKind::Counter, help);
    for (of, account) in accounts {
        exposition.sample(&[(kind.label, of)], account.rejected());
    }
    let (name, help) = kind.spent;
    let is_any_limited = accounts.iter().any(|(_, account)| account.is_limited());
    exposition.family_if(is_any_limited, name, MetricKind::Gauge, help);
    for (of, account) in accounts {
        for (limit, rate, remaining) in account.limited_rates(now_us) {
            let spent = 1.0 - remaining as f64 / rate.amount as f64;
            exposition.sample(&[(kind.label, of), ("limit", limit.name())], spent);
        }
    }
}
