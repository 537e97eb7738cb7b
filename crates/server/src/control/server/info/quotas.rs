//! The section of quotas: what each database took, and what all users did together.
//!
//! Invariant: no user is named, as a client that may run INFO need not know which users there are.

use engine::limits::quotas::{Account, Usage};

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let quotas = &server.gates.quotas;
    if !quotas.is_accounting_on() {
        return;
    }
    let users = quotas.all_users();
    let now_us = server.keyspace.clock().monotonic_us();
    let (mut sum, mut rejected, mut limited, mut exhausted) = (Usage::default(), 0, 0, 0);
    for (_, account) in &users {
        for (sum, used) in sum.iter_mut().zip(account.usage()) {
            *sum += used;
        }
        rejected += account.rejected();
        limited += usize::from(account.is_limited());
        exhausted += usize::from(account.exhausted(now_us).is_some());
    }
    report.field("quota_users", users.len());
    report.field("quota_users_limited", limited);
    report.field("quota_users_exhausted", exhausted);
    let [requests, bytes_in, bytes_out, micros] = sum;
    report.field("quota_users_requests", requests);
    report.field("quota_users_bytes_in", bytes_in);
    report.field("quota_users_bytes_out", bytes_out);
    report.field("quota_users_cpu_usec", micros);
    report.field("quota_users_rejected", rejected);
    for (database, account) in quotas.all_databases() {
        if database < server.keyspace.database_count() {
            write_database(server, report, database, &account);
        }
    }
}

fn write_database(server: &Server, report: &mut InfoText, database: usize, account: &Account) {
    let [requests, bytes_in, bytes_out, micros] = account.usage();
    let (rejected, max) = (account.rejected(), account.memory_max());
    let memory = server.keyspace.database_memory(database);
    let now_us = server.keyspace.clock().monotonic_us();
    let is_exhausted = u8::from(account.exhausted(now_us).is_some());
    report.field(
        &format!("quota_db{database}"),
        format_args!(
            "requests={requests},bytes_in={bytes_in},bytes_out={bytes_out},cpu_usec={micros},\
             rejected={rejected},memory={memory},memory_max={max},exhausted={is_exhausted}"
        ),
    );
}
