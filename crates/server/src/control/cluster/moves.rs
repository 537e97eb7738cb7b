//! Orders to move slots at once, in the words of Valkey 9 and of Redis 8.4, and what is told of
//! moves.
//!
//! Invariant: a request that is refused has begun no move.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::io_error_text::plain;
use cluster::{Cluster, NodeId, Slot, SlotSet};
use commands::arguments::is;
use commands::errors::{SYNTAX, wrong_arity};
use config::settings::{MASTERAUTH, MASTERUSER};
use keyspace::Refusal;
use proto::args::encode_command;
use proto::{Args, Reply};

use super::commands::enabled;
use super::parse;
use crate::cluster::{MoveDirection, MoveJob, MoveRequest, SlotMoves, start_export};
use crate::control::context::{Context, Next};
use crate::server::Server;

/// So long the other end of an import may take to be asked.
const PATIENCE: Duration = Duration::from_secs(5);

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

fn target(word: &[u8]) -> Result<NodeId, Refusal> {
    NodeId::parse(word).ok_or_else(|| Refusal::owned([b"ERR Invalid node name: ", word].concat()))
}

pub(super) fn migrate_slots(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<Next, Refusal> {
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
        let node = target(&args[index + 1])?;
        index += 2;
        let mut name = SlotMoves::new_name();
        // The word of a node that asks for its import.
        if args.get(index).is_some_and(|word| is(word, "NAME")) && index + 1 < args.len() {
            name = target(&args[index + 1])?.to_string();
            index += 2;
        }
        requests.push((slots, node, name));
    }
    Ok(Next::offload(move |_, _, reply| {
        begin(server, requests)?;
        reply.ok();
        Ok(())
    }))
}

/// Begins moves from here, all or none.
fn begin(server: &'static Server, requests: Vec<(SlotSet, NodeId, String)>) -> Result<(), Refusal> {
    let look = |cluster: &mut Cluster| {
        let mut all = SlotSet::empty();
        for (slots, node, _) in &requests {
            check(cluster, slots, *node)?;
            if !all.and(slots).is_empty() {
                return Err(Refusal::error("ERR Slot ranges in migrations overlap"));
            }
            all = all.or(slots);
        }
        Ok(cluster.my_id())
    };
    let me = server.cluster.with_engine(look).ok_or(SYNTAX)??;
    let jobs = requests.into_iter().map(|(slots, target, name)| {
        let request = MoveRequest { name, slots, source: me, target };
        MoveJob::new(server, request, MoveDirection::Export, None)
    });
    let jobs: Vec<Arc<MoveJob>> = jobs.collect();
    let busy = |slot| Refusal::owned(format!("ERR I am already migrating slot {slot}."));
    server.cluster.moves.add(server, &jobs).map_err(busy)?;
    for job in jobs {
        let begun = start_export(server.cluster_start(), job);
        begun.map_err(|why| Refusal::owned(format!("ERR {}", plain(&why))))?;
    }
    Ok(())
}

/// Whether slots may go from here to a node.
fn check(cluster: &Cluster, slots: &SlotSet, node: NodeId) -> Result<(), Refusal> {
    if cluster.offset(node).is_none() {
        return Err(Refusal::owned(format!("ERR Unknown node name: {node}")));
    }
    if !slots.minus(cluster.my_slots()).is_empty() {
        return Err(Refusal::error("ERR Slots are not served by this node."));
    }
    if node == cluster.my_id() {
        return Err(Refusal::error("ERR Target node can not be this node."));
    }
    if cluster.open_slots().next().is_some() {
        return Err(Refusal::error("ERR Slots are being manually migrated"));
    }
    Ok(())
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

fn text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn ranges_text(slots: &SlotSet) -> String {
    let ranges = slots.ranges().into_iter().map(|(first, last)| format!("{first}-{last}"));
    ranges.collect::<Vec<_>>().join(" ")
}

pub(super) fn cancel(server: &Server, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let running = server.cluster.moves.running();
    if running.is_empty() {
        return Err(Refusal::error("ERR No migrations ongoing"));
    }
    running.iter().for_each(|job| stop(server, job));
    reply.ok();
    Ok(())
}

/// Ends a move: its thread looks at the mark, and a session that brings slots is closed.
fn stop(server: &Server, job: &MoveJob) {
    job.cancel();
    job.close_client(server);
}

pub(super) fn migration(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<Next, Refusal> {
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
    Ok(Next::offload(move |_, args, reply| {
        run(server, args.get(4), reply);
        Ok(())
    }))
}

fn named(server: &Server, id: Option<&[u8]>) -> Vec<Arc<MoveJob>> {
    let all = server.cluster.moves.all().into_iter();
    all.filter(|job| id.is_none_or(|id| job.name.as_bytes() == id)).collect()
}

fn cancel_named(server: &Server, id: Option<&[u8]>, reply: &mut Reply<'_>) {
    let all = named(server, id);
    let running: Vec<_> = all.iter().filter(|job| !job.state().is_over()).collect();
    running.iter().for_each(|job| stop(server, job));
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

fn import(server: &'static Server, args: Args<'_>) -> Result<Next, Refusal> {
    let mut slots = SlotSet::empty();
    if ranges(args, 3, &mut slots)? != args.len() {
        return Err(SYNTAX);
    }
    Ok(Next::offload(move |_, _, reply| {
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
fn ask_source(server: &Server, source: NodeId, words: &[Vec<u8>]) -> Result<(), Refusal> {
    let failed = |why: String| Refusal::owned(format!("ERR source node: {why}"));
    let records = server.cluster.with_engine(|cluster| cluster.records()).unwrap_or_default();
    let record = records.into_iter().find(|record| record.id == source);
    let place = record.and_then(|record| Some(SocketAddr::new(record.ip?, record.tcp_port)));
    let place = place.ok_or_else(|| failed("its address is not known".to_owned()))?;
    let (user, password) = (server.config.get(MASTERUSER), server.config.get(MASTERAUTH));
    let mut bytes = Vec::new();
    let mut answers = 1;
    if !password.is_empty() {
        let all: [&[u8]; 3] = [b"AUTH", &user, &password];
        encode_command(
            all.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().into_iter(),
            &mut bytes,
        );
        answers += 1;
    }
    encode_command(words.iter().map(Vec::as_slice), &mut bytes);
    let said = exchange(place, &bytes, answers).map_err(|why| failed(plain(&why)))?;
    match said.lines().find(|line| !line.starts_with('+')) {
        None => Ok(()),
        Some(line) => Err(failed(line.trim_start_matches('-').to_owned())),
    }
}

/// Sends requests, and reads so many lines.
fn exchange(place: SocketAddr, bytes: &[u8], lines: usize) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&place, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(bytes)?;
    let mut said = Vec::new();
    let mut chunk = [0; 512];
    while said.iter().filter(|byte| **byte == b'\n').count() < lines {
        let count = socket.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        said.extend_from_slice(&chunk[..count]);
    }
    Ok(String::from_utf8_lossy(&said).replace('\r', ""))
}
