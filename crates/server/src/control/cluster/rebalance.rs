//! CLUSTER REBALANCE: slots are shared out anew between the primaries, by a plan.
//!
//! Invariant: what is asked wrongly is refused before any node is asked for anything.

use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeId, RebalanceBounds};
use commands::arguments::{Options, is};
use commands::declare::{Flags, Group, Spec, at_least};
use commands::errors::{SYNTAX, wrong_arity};
use engine::observe::key_survey::memory_of;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::commands::{enabled, offered};
use super::moves::{ranges_text, text};
use super::parse;
use crate::cluster::{RebalanceBy, RebalanceOrder, RebalanceRun, Rebalancer};
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::server::Server;

/// What each option may be; the first is what holds without the option.
const THRESHOLD: (i64, i64, i64) = (2, 0, 100);
const LIMIT: (i64, i64, i64) = (16_384, 1, 16_384);
const DURATION: (i64, i64, i64) = (10, 1, 300);
const WEIGHT: (i64, i64, i64) = (1, 0, 1000);

pub(super) const REBALANCE: ControlCommand = offered(
    rebalance,
    Spec {
        name: "REBALANCE",
        group: Group::Cluster,
        // Other nodes are asked, which takes its time.
        flags: Flags::ADMIN
            .and(Flags::STALE)
            .and(Flags::NO_ASYNC_LOADING)
            .and(Flags::NOSCRIPT)
            .and(Flags::NO_MULTI),
        origin: "apus",
        since: "0.1.0",
        syntax: "<[BY <KEYS | MEMORY | SLOTS | LOAD | HOTSLOTS>] [THRESHOLD percent] \
            [WEIGHT node-id weight [node-id weight ...]] [LIMIT slots] [DURATION seconds] \
            [DRYRUN] | STATUS | CANCEL | SLOT-MEMORY>",
        summary: "Moves hash slots until every primary has its share of what is counted.",
        complexity: "O(N) where N is the number of slots, and with BY MEMORY and SLOT-MEMORY the \
            number of keys, plus the moves, which go on in the background.",
        arity: at_least(2),
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
);

fn rebalance(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const WORDS: [(&str, NodeWord); 3] =
        [("STATUS", status), ("CANCEL", cancel), ("SLOT-MEMORY", slot_memory)];
    let server = enabled(context)?;
    let word = WORDS.into_iter().find(|(word, _)| args.get(2).is_some_and(|arg| is(arg, word)));
    if let Some((_, run)) = word {
        return match args.len() {
            3 => Ok(ControlOutcome::offload(move |lane, _, reply| run(server, lane, reply))),
            _ => Err(wrong_arity("cluster|rebalance")),
        };
    }
    let order = order(args)?;
    Ok(ControlOutcome::offload(move |lane, _, reply| {
        let run = Rebalancer::rebalance(server.cluster_start(), lane, &order);
        tell(&run.map_err(Refusal::owned)?, reply);
        Ok(())
    }))
}

/// What is asked of this node alone.
type NodeWord = fn(&'static Server, usize, &mut Reply<'_>) -> Result<(), Refusal>;

fn status(server: &'static Server, _: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match server.cluster.rebalancer.last() {
        Some(run) => tell(&run, reply),
        None => reply.null(),
    }
    Ok(())
}

fn cancel(server: &'static Server, _: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if !server.cluster.rebalancer.cancel() {
        return Err(Refusal::error("ERR No rebalance is under way"));
    }
    reply.ok();
    Ok(())
}

fn slot_memory(server: &'static Server, lane: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let routes = server.gates.routing.table();
    let served = (0..cluster::SLOTS).filter(|slot| routes.is_served(*slot));
    let sizes = memory_of(server.keyspace, lane, served)?;
    reply.array(sizes.len());
    for (slot, bytes) in sizes {
        reply.array(2);
        reply.integer(slot.into());
        reply.map(1);
        reply.integer_field("memory-bytes", bytes);
    }
    Ok(())
}

/// What the options say.
fn order(args: Args<'_>) -> Result<RebalanceOrder, Refusal> {
    let mut by = RebalanceBy::Keys;
    let (mut threshold, mut limit, mut duration) = (THRESHOLD.0, LIMIT.0, DURATION.0);
    let (mut weights, mut is_dry) = (Vec::new(), false);
    let mut options = Options::from(args, 2);
    while let Some(word) = options.word() {
        match word {
            _ if is(word, "BY") => {
                let named = options.value()?;
                let found = RebalanceBy::ALL.into_iter().find(|by| is(named, by.name()));
                by = found.ok_or(SYNTAX)?;
            }
            _ if is(word, "THRESHOLD") => threshold = number(&mut options, "THRESHOLD", THRESHOLD)?,
            _ if is(word, "LIMIT") => limit = number(&mut options, "LIMIT", LIMIT)?,
            _ if is(word, "DURATION") => duration = number(&mut options, "DURATION", DURATION)?,
            _ if is(word, "DRYRUN") => is_dry = true,
            _ if is(word, "WEIGHT") => loop {
                let node = parse::node(options.value()?, parse::UNKNOWN_NODE)?;
                weights.push((node, number(&mut options, "WEIGHT", WEIGHT)? as u16));
                let next = args.get(options.position());
                if next.and_then(NodeId::parse).is_none() {
                    break;
                }
            },
            _ => return Err(SYNTAX),
        }
    }
    let bounds = RebalanceBounds { threshold: threshold as u8, slots_max: limit as usize };
    let duration = Duration::from_secs(duration.unsigned_abs());
    Ok(RebalanceOrder { by, bounds, weights, fills_empty: true, duration, is_dry })
}

/// The number behind an option.
fn number(
    options: &mut Options<'_>,
    word: &str,
    (_, least, most): (i64, i64, i64),
) -> Result<i64, Refusal> {
    let number = options.integer()?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(Refusal::owned(format!("ERR {word} must be between {least} and {most}"))),
    }
}

/// A plan, and how far it is.
fn tell(run: &Arc<RebalanceRun>, reply: &mut Reply<'_>) {
    reply.map(7);
    text(reply, "state", run.state().name());
    text(reply, "by", run.by.name());
    reply.integer_field("threshold", run.threshold);
    reply.bulk(b"imbalance");
    reply.double(run.plan.imbalance());
    reply.bulk(b"planned-imbalance");
    reply.double(run.plan.planned_imbalance());
    reply.bulk(b"nodes");
    reply.array(run.plan.nodes.len());
    for node in &run.plan.nodes {
        reply.map(4);
        text(reply, "node", node.id.as_str());
        reply.integer_field("weight", node.weight);
        reply.integer_field("before", node.before);
        reply.integer_field("after", node.after);
    }
    reply.bulk(b"moves");
    reply.array(run.plan.moves.len());
    for (planned, progress) in run.plan.moves.iter().zip(run.progress()) {
        reply.map(6);
        text(reply, "source", planned.source.as_str());
        text(reply, "target", planned.target.as_str());
        text(reply, "slot-ranges", &ranges_text(&planned.slots));
        reply.integer_field("figure", planned.figure);
        text(reply, "state", progress.state.name());
        text(reply, "message", &progress.message);
    }
}
