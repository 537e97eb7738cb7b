//! What is told of the nodes one by one: CLUSTER NODES, REPLICAS, MYID, LINKS and their kin.
//!
//! Invariant: a line is one of `nodes.conf`, without what stands there only for the node itself.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use cluster::{ClientRoute, Cluster, LinkId, NodeId, NodeRecord};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::parse;
use crate::server::Server;

pub(super) fn nodes(
    server: &Server,
    _: Args<'_>,
    route: ClientRoute,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let all = |cluster: &mut Cluster| [cluster.records(), cluster.handshakes()].concat();
    let records = server.cluster.with_engine(all).unwrap_or_default();
    let text: String = records.iter().map(|record| line(record, route) + "\n").collect();
    reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// The line, with the address and the port by which this client could come.
fn line(record: &NodeRecord, route: ClientRoute) -> String {
    let (mut text, record) = (String::new(), record.for_client(route));
    let shows_tls = record.tcp_port == 0 || (route.is_encrypted && record.tls_port != 0);
    record.put_line(shows_tls, false, &mut text);
    text
}

pub(super) fn replicas(
    server: &Server,
    args: Args<'_>,
    route: ClientRoute,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let id = known(server, args)?;
    let records = server.cluster.with_engine(|cluster| cluster.records()).unwrap_or_default();
    if records.iter().any(|record| record.id == id && record.primary.is_some()) {
        return Err(Refusal::error("ERR The specified node is not a master"));
    }
    let replicas: Vec<_> = records.iter().filter(|record| record.primary == Some(id)).collect();
    reply.array(replicas.len());
    for record in replicas {
        reply.bulk(line(record, route).as_bytes());
    }
    Ok(())
}

/// The node that the third argument names.
fn known(server: &Server, args: Args<'_>) -> Result<NodeId, Refusal> {
    let id = parse::node(&args[2], parse::UNKNOWN_NODE)?;
    let is_known = server.cluster.with_engine(|cluster| cluster.offset(id).is_some());
    if is_known == Some(true) {
        return Ok(id);
    }
    Err(Refusal::owned(format!("ERR {} {id}", parse::UNKNOWN_NODE)))
}

pub(super) fn failure_reports(
    server: &Server,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let id = known(server, args)?;
    let count =
        server.cluster.with_engine(|cluster| cluster.failure_reports(id)).flatten().unwrap_or(0);
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn my_id(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let id = server.cluster.with_engine(|cluster| cluster.my_id().to_string()).unwrap_or_default();
    reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(
    server: &Server,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let id =
        server.cluster.with_engine(|cluster| cluster.my_shard().to_string()).unwrap_or_default();
    reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn links(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let links =
        server.cluster.with_engine(|cluster: &mut Cluster| cluster.links()).unwrap_or_default();
    let figures = server.cluster.links.lock().unwrap_or_else(PoisonError::into_inner);
    let known: Vec<_> =
        links.iter().filter_map(|(link, id)| Some((link, id, figures.get(link)?))).collect();
    reply.array(known.len());
    for (link, id, figures) in known {
        let queued = figures.queued.load(Ordering::Relaxed);
        reply.map(6);
        reply.bulk(b"direction");
        let direction = if matches!(link, LinkId::To(_)) { "to" } else { "from" };
        reply.bulk(direction.as_bytes());
        reply.bulk(b"node");
        reply.bulk(id.as_str().as_bytes());
        reply.bulk(b"create-time");
        reply.integer(figures.created as i64);
        reply.bulk(b"events");
        let events = if queued > 0 { "rw" } else { "r" };
        reply.bulk(events.as_bytes());
        reply.bulk(b"send-buffer-allocated");
        reply.integer(queued as i64);
        reply.bulk(b"send-buffer-used");
        reply.integer(queued as i64);
    }
    Ok(())
}
