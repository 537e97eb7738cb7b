//! The directives of a cluster, as the engine takes them.
//!
//! Invariant: what a directive leaves open is what the server found when it started.

use cluster::{ClientAddress, Settings};
use config::Config;
use config::settings::{
    CLUSTER_ALLOW_REPLICA_MIGRATION, CLUSTER_ANNOUNCE_BUS_PORT, CLUSTER_ANNOUNCE_CLIENT_IPV4,
    CLUSTER_ANNOUNCE_CLIENT_IPV6, CLUSTER_ANNOUNCE_CLIENT_PORT, CLUSTER_ANNOUNCE_CLIENT_TLS_PORT,
    CLUSTER_ANNOUNCE_HOSTNAME, CLUSTER_ANNOUNCE_HUMAN_NODENAME, CLUSTER_ANNOUNCE_IP,
    CLUSTER_ANNOUNCE_PORT, CLUSTER_ANNOUNCE_TLS_PORT, CLUSTER_BLACKLIST_TTL,
    CLUSTER_MANUAL_FAILOVER_TIMEOUT, CLUSTER_MIGRATION_BARRIER, CLUSTER_NODE_TIMEOUT,
    CLUSTER_PING_INTERVAL, CLUSTER_PORT, CLUSTER_REPLICA_NO_FAILOVER,
    CLUSTER_REPLICA_VALIDITY_FACTOR, CLUSTER_REQUIRE_FULL_COVERAGE, PORT, REPL_PING_REPLICA_PERIOD,
    TLS_CLUSTER, TLS_PORT,
};

use crate::net::network::Network;

/// So far above the port for clients is that of the bus.
const BUS_OFFSET: u16 = 10_000;

/// The settings of the engine.
pub(super) fn of_engine(server: &Network) -> Settings {
    let config = &server.config;
    let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    let hostname = config.get(CLUSTER_ANNOUNCE_HOSTNAME);
    let human_name = config.get(CLUSTER_ANNOUNCE_HUMAN_NODENAME);
    let (port, tls_port) = (config.get(PORT), config.get(TLS_PORT));
    Settings {
        node_timeout: config.get(CLUSTER_NODE_TIMEOUT),
        requires_full_coverage: config.get(CLUSTER_REQUIRE_FULL_COVERAGE),
        replica_validity_factor: config.get(CLUSTER_REPLICA_VALIDITY_FACTOR),
        replica_ping_period: u64::from(config.get(REPL_PING_REPLICA_PERIOD)) * 1000,
        is_failover_off: config.get(CLUSTER_REPLICA_NO_FAILOVER),
        allows_replica_migration: config.get(CLUSTER_ALLOW_REPLICA_MIGRATION),
        migration_barrier: config.get(CLUSTER_MIGRATION_BARRIER),
        blacklist_ttl: config.get(CLUSTER_BLACKLIST_TTL).saturating_mul(1000),
        manual_failover_timeout: config.get(CLUSTER_MANUAL_FAILOVER_TIMEOUT),
        ip: text(&config.get(CLUSTER_ANNOUNCE_IP)).parse().ok(),
        human_name: (!human_name.is_empty()).then(|| text(&human_name)),
        client: client_address(config),
        ping_interval: config.get(CLUSTER_PING_INTERVAL),
        hostname: (!hostname.is_empty()).then(|| text(&hostname)),
        tcp_port: or(config.get(CLUSTER_ANNOUNCE_PORT), port),
        tls_port: or(config.get(CLUSTER_ANNOUNCE_TLS_PORT), tls_port),
        bus_port: or(config.get(CLUSTER_ANNOUNCE_BUS_PORT), bus_port(server).unwrap_or(0)),
        is_tls: config.get(TLS_CLUSTER),
    }
}

/// Where clients are to come, as far as that is not where the bus finds the node.
fn client_address(config: &Config) -> ClientAddress {
    let port = |port: u16| (port != 0).then_some(port);
    ClientAddress {
        ipv4: text(&config.get(CLUSTER_ANNOUNCE_CLIENT_IPV4)).parse().ok(),
        ipv6: text(&config.get(CLUSTER_ANNOUNCE_CLIENT_IPV6)).parse().ok(),
        port: port(config.get(CLUSTER_ANNOUNCE_CLIENT_PORT)),
        tls_port: port(config.get(CLUSTER_ANNOUNCE_CLIENT_TLS_PORT)),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The port of the bus, if there can be one.
pub(super) fn bus_port(server: &Network) -> Option<u16> {
    let config = &server.config;
    let (bus_port, port, tls_port) =
        (config.get(CLUSTER_PORT), config.get(PORT), config.get(TLS_PORT));
    let (first, second) = if config.get(TLS_CLUSTER) { (tls_port, port) } else { (port, tls_port) };
    match (bus_port, first) {
        (0, 0) => second.checked_add(BUS_OFFSET),
        (0, first) => first.checked_add(BUS_OFFSET),
        (bus_port, _) => Some(bus_port),
    }
}
