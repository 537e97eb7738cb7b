//! What the operator has set, as far as the engine goes by it.
//!
//! Invariant: every field has the meaning and the default of the directive that it is named after.

use std::net::IpAddr;

use super::event::Millis;
use crate::client_address::ClientAddress;

/// No time is longer: a few of them, one after the other, still are a number.
const TIME_MAX: Millis = 1 << 40;

/// The settings of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `cluster-node-timeout`.
    pub node_timeout: Millis,
    /// `cluster-require-full-coverage`.
    pub requires_full_coverage: bool,
    /// `cluster-replica-validity-factor`.
    pub replica_validity_factor: u64,
    /// `repl-ping-replica-period`, in milliseconds.
    pub replica_ping_period: Millis,
    /// `cluster-replica-no-failover`.
    pub is_failover_off: bool,
    /// `cluster-allow-replica-migration`.
    pub allows_replica_migration: bool,
    /// `cluster-migration-barrier`.
    pub migration_barrier: usize,
    /// `cluster-blacklist-ttl`, in milliseconds.
    pub blacklist_ttl: Millis,
    /// `cluster-manual-failover-timeout`.
    pub manual_failover_timeout: Millis,
    /// `cluster-announce-ip`.
    pub ip: Option<IpAddr>,
    /// `cluster-announce-hostname`.
    pub hostname: Option<String>,
    /// `cluster-announce-human-nodename`.
    pub human_name: Option<String>,
    /// `cluster-announce-client-ipv4` and its kin.
    pub client: ClientAddress,
    /// `cluster-ping-interval`; 0 is half of `cluster-node-timeout`.
    pub ping_interval: Millis,
    /// The port for clients without TLS; 0 if there is none.
    pub tcp_port: u16,
    /// The port for clients with TLS; 0 if there is none.
    pub tls_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// `tls-cluster`.
    pub is_tls: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout: 15_000,
            requires_full_coverage: true,
            replica_validity_factor: 10,
            replica_ping_period: 10_000,
            is_failover_off: false,
            allows_replica_migration: true,
            migration_barrier: 1,
            blacklist_ttl: 60_000,
            manual_failover_timeout: 5000,
            ip: None,
            hostname: None,
            human_name: None,
            client: ClientAddress::default(),
            ping_interval: 0,
            tcp_port: 6379,
            tls_port: 0,
            bus_port: 16_379,
            is_tls: false,
        }
    }
}

impl Settings {
    /// With times that can be reckoned with: directives take any number.
    pub(super) fn bounded(mut self) -> Settings {
        for time in [
            &mut self.node_timeout,
            &mut self.replica_ping_period,
            &mut self.blacklist_ttl,
            &mut self.manual_failover_timeout,
            &mut self.ping_interval,
        ] {
            *time = (*time).min(TIME_MAX);
        }
        self
    }
}
