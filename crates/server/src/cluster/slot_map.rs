//! The table by which the gates send clients to other nodes.
//!
//! Invariant: an index of a slot's owner leads to that owner, or to none at all; a slot of this
//! node that another may have claimed has none.

use std::collections::BTreeMap;

use cluster::{Cluster, NodeId, NodeRecord, OpenSlot, SLOTS};
use config::settings::{
    CLUSTER_ALLOW_CROSS_SLOT, CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN, CLUSTER_ALLOW_READS_WHEN_DOWN,
    CLUSTER_PREFERRED_ENDPOINT_TYPE,
};
use config::{Config, EndpointType};
use engine::limits::slot_map::{OpenSlotState, SlotMap, SlotMapNode};

/// No node has this index.
const NOBODY: u16 = u16::MAX;

/// The table, as the node sees its cluster.
pub(super) fn of(cluster: &Cluster, config: &Config) -> SlotMap {
    let records = cluster.records();
    let index_of: BTreeMap<NodeId, u16> =
        records.iter().enumerate().map(|(index, it)| (it.id, index as u16)).collect();
    let mut owners = vec![NOBODY; usize::from(SLOTS)];
    for (index, record) in records.iter().enumerate() {
        record.slots.iter().for_each(|slot| owners[slot.index()] = index as u16);
    }
    cluster.held_slots().iter().for_each(|slot| owners[slot.index()] = NOBODY);
    let served = cluster.my_primary().unwrap_or(cluster.my_id());
    let open = cluster.open_slots().filter_map(|(slot, open)| {
        let open = match open {
            OpenSlot::Migrating(to) => OpenSlotState::Migrating(*index_of.get(&to)?),
            OpenSlot::Importing(from) => OpenSlotState::Importing(*index_of.get(&from)?),
        };
        Some((slot.get(), open))
    });
    SlotMap {
        owners,
        open: open.collect(),
        served: index_of.get(&served).copied(),
        is_replica: !cluster.is_primary(),
        nodes: records.iter().map(|record| node(record, config)).collect(),
        is_up: cluster.is_ok(),
        reads_when_down: config.get(CLUSTER_ALLOW_READS_WHEN_DOWN),
        allows_cross_slot: config.get(CLUSTER_ALLOW_CROSS_SLOT),
        pubsubshard_when_down: config.get(CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN),
        ..SlotMap::default()
    }
}

fn node(record: &NodeRecord, config: &Config) -> SlotMapNode {
    let endpoint = |is_ipv6: bool| match config.get(CLUSTER_PREFERRED_ENDPOINT_TYPE) {
        EndpointType::Ip => record.client_ip(is_ipv6).map(|ip| ip.to_string()).unwrap_or_default(),
        EndpointType::Hostname => record.aux.hostname.clone().unwrap_or_else(|| "?".to_owned()),
        EndpointType::Unknown => String::new(),
    };
    let (tcp_port, tls_port) = record.client_ports();
    let endpoints = [endpoint(false), endpoint(true)];
    SlotMapNode { name: record.id.to_string(), endpoints, tcp_port, tls_port }
}
