//! What clients find their nodes by: CLUSTER SLOTS and CLUSTER SHARDS.
//!
//! Invariant: both tell of one moment, in the order of slots.

use std::collections::BTreeMap;

use cluster::{ClientRoute, NodeFlags, NodeId, NodeRecord, ShardId, Slot};
use config::EndpointType;
use config::settings::CLUSTER_PREFERRED_ENDPOINT_TYPE;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::server::Server;

/// A node, with how far it has come.
struct ShardNode {
    record: NodeRecord,
    offset: u64,
}

fn members(server: &Server) -> Vec<ShardNode> {
    let members = server.cluster.with_engine(|cluster| {
        let records = cluster.records().into_iter();
        let with_offset = records.map(|record| {
            let offset = cluster.offset(record.id).unwrap_or(0);
            ShardNode { record, offset }
        });
        with_offset.collect()
    });
    members.unwrap_or_default()
}

/// How a client is told where nodes are.
#[derive(Clone, Copy)]
struct EndpointFormat {
    endpoint: EndpointType,
    route: ClientRoute,
}

impl EndpointFormat {
    fn of(server: &Server, route: ClientRoute) -> Self {
        Self { endpoint: server.config.get(CLUSTER_PREFERRED_ENDPOINT_TYPE), route }
    }

    fn ip(self, record: &NodeRecord) -> String {
        record.client_ip(self.route.is_ipv6).map(|ip| ip.to_string()).unwrap_or_default()
    }

    fn port(self, record: &NodeRecord) -> u16 {
        let (tcp_port, tls_port) = record.client_ports();
        let (first, second) = match self.route.is_encrypted {
            true => (tls_port, tcp_port),
            false => (tcp_port, tls_port),
        };
        if first == 0 { second } else { first }
    }

    fn endpoint(self, record: &NodeRecord, reply: &mut Reply<'_>) {
        match self.endpoint {
            EndpointType::Ip => reply.bulk(self.ip(record).as_bytes()),
            EndpointType::Hostname => match &record.aux.hostname {
                Some(hostname) => reply.bulk(hostname.as_bytes()),
                None => reply.bulk(b"?"),
            },
            EndpointType::Unknown => reply.null(),
        }
    }

    fn node(self, record: &NodeRecord, reply: &mut Reply<'_>) {
        reply.array(4);
        self.endpoint(record, reply);
        reply.integer(self.port(record).into());
        reply.bulk(record.id.as_str().as_bytes());
        let ip = self.ip(record);
        let mut notes: Vec<(&str, &str)> = Vec::new();
        if self.endpoint != EndpointType::Ip {
            notes.push(("ip", &ip));
        }
        if let Some(hostname) = &record.aux.hostname
            && self.endpoint != EndpointType::Hostname
        {
            notes.push(("hostname", hostname));
        }
        reply.map(notes.len());
        for (name, value) in notes {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// CLUSTER SLOTS.
pub(super) fn slots(
    server: &Server,
    _: Args<'_>,
    route: ClientRoute,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let (members, telling) = (members(server), EndpointFormat::of(server, route));
    let ranges = members.iter().flat_map(|member| {
        member.record.slots.ranges().into_iter().map(move |range| (range, member))
    });
    let mut ranges: Vec<((Slot, Slot), &ShardNode)> = ranges.collect();
    ranges.sort_unstable_by_key(|(range, _)| *range);
    reply.array(ranges.len());
    for ((first, last), owner) in ranges {
        let replicas: Vec<_> =
            members.iter().filter(|member| is_usable_replica(member, owner.record.id)).collect();
        reply.array(3 + replicas.len());
        reply.integer(first.get().into());
        reply.integer(last.get().into());
        telling.node(&owner.record, reply);
        replicas.into_iter().for_each(|replica| telling.node(&replica.record, reply));
    }
    Ok(())
}

/// A replica without any data is of no use to clients.
fn is_usable_replica(member: &ShardNode, primary: NodeId) -> bool {
    let has_failed = member.record.flags.contains(NodeFlags::FAIL);
    member.record.primary == Some(primary) && !has_failed && member.offset != 0
}

/// CLUSTER SHARDS.
pub(super) fn shards(
    server: &Server,
    _: Args<'_>,
    route: ClientRoute,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let telling = EndpointFormat::of(server, route);
    let mut shards: BTreeMap<Option<ShardId>, Vec<ShardNode>> = BTreeMap::new();
    for member in members(server) {
        shards.entry(member.record.aux.shard).or_default().push(member);
    }
    reply.array(shards.len());
    for mut members in shards.into_values() {
        members.sort_by_key(|member| member.record.primary.is_some());
        let ranges = members.iter().flat_map(|member| member.record.slots.ranges());
        let ranges: Vec<(Slot, Slot)> = ranges.collect();
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * ranges.len());
        for (first, last) in ranges {
            reply.integer(first.get().into());
            reply.integer(last.get().into());
        }
        reply.bulk(b"nodes");
        reply.array(members.len());
        members.iter().for_each(|member| shard_member(telling, member, reply));
    }
    Ok(())
}

fn shard_member(
    telling: EndpointFormat,
    ShardNode { record, offset }: &ShardNode,
    reply: &mut Reply<'_>,
) {
    let (tcp_port, tls_port) = record.client_ports();
    let ports = [("port", tcp_port), ("tls-port", tls_port)];
    let ports: Vec<_> = ports.into_iter().filter(|(_, port)| *port != 0).collect();
    let hostname = record.aux.hostname.as_deref();
    reply.map(6 + ports.len() + usize::from(hostname.is_some()));
    reply.bulk(b"id");
    reply.bulk(record.id.as_str().as_bytes());
    for (name, port) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(port.into());
    }
    reply.bulk(b"ip");
    reply.bulk(telling.ip(record).as_bytes());
    reply.bulk(b"endpoint");
    telling.endpoint(record, reply);
    if let Some(hostname) = hostname {
        reply.bulk(b"hostname");
        reply.bulk(hostname.as_bytes());
    }
    let is_replica = record.flags.contains(NodeFlags::REPLICA);
    reply.bulk(b"role");
    let role = if is_replica { "replica" } else { "master" };
    reply.bulk(role.as_bytes());
    reply.bulk(b"replication-offset");
    reply.integer(*offset as i64);
    let health = if record.flags.contains(NodeFlags::FAIL) {
        "fail"
    } else if is_replica && *offset == 0 {
        "loading"
    } else {
        "online"
    };
    reply.bulk(b"health");
    reply.bulk(health.as_bytes());
}
