//! Orders to move slots at once, in the words of Valkey 9 and of Redis 8.4, and what is told of
//! moves.
//!
//! Invariant: a request that is refused has begun no move.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use cluster::{Cluster, NodeId, Slot, SlotSet};
use commands::arguments::is;
use commands::errors::{SYNTAX, wrong_arity};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::commands::enabled;
use super::parse;
use crate::cluster::{
    MoveDirection, MoveJob, PeerClient, RequestedExport, SlotMoves, begin_exports,
};
use crate::control::context::{Context, ControlOutcome};
use crate::server::Server;

/// Pairs of slots from `index` on, up to a word that is none; where that stands.
pub(super) fn ranges(
    args: Args<'_>,
    mut index: usize,
    slots: &mut SlotSet,
) -> Result<usize, Refusal> {
    let is_slot = |word: &[u8]| word.first().is_some_and(u8::is_ascii_digit);
    let mut before: Option<(Slot, Slot)> = None;
    while let Some(word) = args.get(index).filter(|word| is_slot(word)) {
        let Some(last) = args.get(index + 1) else {
            return Err(Refusal::error("ERR No end slot for final slot range"));
        };
        let (first, last) = (parse::slot(word)?, parse::slot(last)?);
        if first > last {
            return Err(Refusal::owned(format!(
                "ERR Start slot number {first} is greater than end slot number {last}."
            )));
        }
        for slot in (first.get()..=last.get()).filter_map(Slot::new) {
            if !slots.insert(slot) {
                let (a, b) = before.unwrap_or((slot, slot));
                return Err(Refusal::owned(format!(
                    "ERR Slot range {first}-{last} overlaps with previous range {a}-{b}."
                )));
            }
        }
        before = Some((first, last));
        index += 2;
    }
    match before {
        Some(_) => Ok(index),
        None => Err(Refusal::error("ERR No slot ranges specified")),
    }
}

fn node_name(word: &[u8]) -> Result<NodeId, Refusal> {
    NodeId::parse(word).ok_or_else(|| Refusal::owned([b"ERR Invalid node name: ", word].concat()))
}

pub(super) fn migrate_slots(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const REPLICA: Refusal =
        Refusal::error("ERR Slot migration can only be used on primary nodes.");
    let server = enabled(context)?;
    if server.cluster.with_engine(|cluster| cluster.is_primary()) != Some(true) {
        return Err(REPLICA);
    }
    let mut requests = Vec::new();
    let mut index = 2;
    while index < args.len() {
        if !is(&args[index], "SLOTSRANGE") {
            return Err(SYNTAX);
        }
        let mut slots = SlotSet::empty();
        index = ranges(args, index + 1, &mut slots)?;
        if args.get(index).is_none_or(|word| !is(word, "NODE")) || index + 1 >= args.len() {
            return Err(SYNTAX);
        }
        let target = node_name(&args[index + 1])?;
        index += 2;
        let mut name = SlotMoves::new_name();
        // The word of a node that asks for its import.
        if args.get(index).is_some_and(|word| is(word, "NAME")) && index + 1 < args.len() {
            name = node_name(&args[index + 1])?.to_string();
            index += 2;
        }
        requests.push(RequestedExport { slots, target, name });
    }
    Ok(ControlOutcome::offload(move |_, _, reply| {
        begin_exports(server.cluster_start(), requests)?;
        reply.ok();
        Ok(())
    }))
}

pub(super) fn list(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let jobs = server.cluster.moves.all();
    reply.array(jobs.len());
    for job in jobs {
        let (state, message) = job.progress();
        let direction = if job.direction == MoveDirection::Export { "EXPORT" } else { "IMPORT" };
        let seconds = |ms: i64| ms / 1000;
        reply.map(12);
        text(reply, "name", &job.name);
        text(reply, "operation", direction);
        text(reply, "slot_ranges", &ranges_text(&job.slots));
        text(reply, "target_node", job.target.as_str());
        text(reply, "source_node", job.source.as_str());
        reply.integer_field("create_time", seconds(job.created_ms));
        reply.integer_field("last_update_time", seconds(job.updated_ms.load(Relaxed)));
        reply.integer_field("last_ack_time", seconds(job.heard_ms.load(Relaxed)));
        text(reply, "state", state.name());
        text(reply, "message", &message);
        reply.integer_field("cow_size", 0);
        reply.integer_field("remaining_repl_size", job.waiting.load(Relaxed) as i64);
    }
    Ok(())
}

pub(super) fn text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

pub(super) fn ranges_text(slots: &SlotSet) -> String {
    let ranges = slots.ranges().into_iter().map(|(first, last)| format!("{first}-{last}"));
    ranges.collect::<Vec<_>>().join(" ")
}

pub(super) fn cancel(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let running = server.cluster.moves.running();
    if running.is_empty() {
        return Err(Refusal::error("ERR No migrations ongoing"));
    }
    server.cluster.moves.cancel(server, &running);
    reply.ok();
    Ok(())
}

pub(super) fn migration(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = enabled(context)?;
    let word = &args[2];
    if is(word, "IMPORT") {
        return import(server, args);
    }
    if args.len() < 4 || !(is(&args[3], "ID") || is(&args[3], "ALL")) {
        return Err(SYNTAX);
    }
    if args.len() != if is(&args[3], "ID") { 5 } else { 4 } {
        return Err(wrong_arity("cluster|migration"));
    }
    let run = match () {
        () if is(word, "STATUS") => status,
        () if is(word, "CANCEL") => cancel_named,
        () => return Err(Refusal::error("ERR unknown argument")),
    };
    Ok(ControlOutcome::offload(move |_, args, reply| {
        run(server, args.get(4), reply);
        Ok(())
    }))
}

fn named(server: &Server, id: Option<&[u8]>) -> Vec<Arc<MoveJob>> {
    let all = server.cluster.moves.all().into_iter();
    all.filter(|job| id.is_none_or(|id| job.name.as_bytes() == id)).collect()
}

fn cancel_named(server: &Server, id: Option<&[u8]>, reply: &mut Reply<'_>) {
    let all = named(server, id).into_iter();
    let running: Vec<_> = all.filter(|job| !job.state().is_over()).collect();
    server.cluster.moves.cancel(server, &running);
    reply.integer(running.len() as i64);
}

fn status(server: &Server, id: Option<&[u8]>, reply: &mut Reply<'_>) {
    let jobs = named(server, id);
    reply.array(jobs.len());
    for job in jobs {
        let (state, message) = job.progress();
        let ended = if state.is_over() { job.updated_ms.load(Relaxed) } else { -1 };
        let told = match state.name() {
            "success" => "completed",
            "cancelled" => "canceled",
            other => other,
        };
        let operation = if job.direction == MoveDirection::Export { "migrate" } else { "import" };
        reply.map(12);
        text(reply, "id", &job.name);
        text(reply, "slots", &ranges_text(&job.slots));
        text(reply, "source", job.source.as_str());
        text(reply, "dest", job.target.as_str());
        text(reply, "operation", operation);
        text(reply, "state", told);
        text(reply, "last_error", &message);
        reply.integer_field("retries", 0);
        reply.integer_field("create_time", job.created_ms);
        reply.integer_field("start_time", job.created_ms);
        reply.integer_field("end_time", ended);
        reply.integer_field("write_pause_ms", job.paused_ms.load(Relaxed));
    }
}

fn import(server: &'static Server, args: Args<'_>) -> Result<ControlOutcome, Refusal> {
    let mut slots = SlotSet::empty();
    if ranges(args, 3, &mut slots)? != args.len() {
        return Err(SYNTAX);
    }
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let (source, me) =
            server.cluster.with_engine(|cluster| source_of(cluster, &slots)).ok_or(SYNTAX)??;
        let name = SlotMoves::new_name();
        ask_source(server, source, &order(&slots, me, &name))?;
        reply.bulk(name.as_bytes());
        Ok(())
    }))
}

/// The one node that has all the slots, and this one.
fn source_of(cluster: &mut Cluster, slots: &SlotSet) -> Result<(NodeId, NodeId), Refusal> {
    if !cluster.is_primary() {
        return Err(Refusal::error("ERR slot migration not allowed on replica."));
    }
    if cluster.open_slots().next().is_some() {
        return Err(Refusal::error(
            "ERR all slot states must be STABLE to start a slot migration task.",
        ));
    }
    let mut source = None;
    for slot in slots.iter() {
        let owner = cluster.owner(slot);
        let owner =
            owner.ok_or_else(|| Refusal::owned(format!("ERR slot has no owner: {slot}")))?;
        if *source.get_or_insert(owner) != owner {
            return Err(Refusal::error("ERR slots belong to different source nodes"));
        }
    }
    let source = source.ok_or(SYNTAX)?;
    if source == cluster.my_id() {
        return Err(Refusal::error("ERR this node is already the owner of the slot range"));
    }
    Ok((source, cluster.my_id()))
}

/// The words by which the source is asked to begin.
fn order(slots: &SlotSet, me: NodeId, name: &str) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> =
        ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"].map(std::convert::Into::into).to_vec();
    for (first, last) in slots.ranges() {
        words.extend([first.to_string().into_bytes(), last.to_string().into_bytes()]);
    }
    let end = ["NODE", me.as_str(), "NAME", name];
    words.extend(end.map(|word| word.as_bytes().to_vec()));
    words
}

/// Has another node begin a move to this one.
fn ask_source(server: &'static Server, source: NodeId, words: &[Vec<u8>]) -> Result<(), Refusal> {
    let failed = |why: String| Refusal::owned(format!("ERR source node: {why}"));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let peer = PeerClient::connect(server.cluster_start(), source);
    peer.and_then(|mut peer| peer.ask(&words)).map_err(failed)?;
    Ok(())
}
