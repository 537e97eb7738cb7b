//! CLUSTER SLOT-STATS: how many keys each slot has, and what requests for the slot took.
//!
//! Invariant: slots that are served here are told, and no others.

use std::cmp::Reverse;

use base::number::parse_i64;
use commands::arguments::is;
use commands::errors::SYNTAX;
use engine::observe::slot_stats::SlotUsage;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::parse;
use crate::control::help::misused;
use crate::server::Server;

/// What is told of a slot.
struct SlotRow {
    slot: u16,
    keys: usize,
    usage: SlotUsage,
}

impl SlotRow {
    fn of(server: &Server, slot: u16) -> Self {
        let (keys, usage) =
            (server.keyspace.population(slot), server.observed.slot_stats.usage(slot));
        Self { slot, keys, usage }
    }

    /// All figures, as they are told.
    fn figures(&self) -> [(&'static str, u64); 4] {
        let SlotUsage { cpu_us, bytes_in, bytes_out } = self.usage;
        [
            ("key-count", self.keys as u64),
            ("cpu-usec", cpu_us),
            ("network-bytes-in", bytes_in),
            ("network-bytes-out", bytes_out),
        ]
    }
}

pub(super) fn slot_stats(
    server: &Server,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    // Figures that are not kept are not told.
    let told = if server.observed.slot_stats.is_on() { 4 } else { 1 };
    let routes = server.gates.routing.table();
    let rows = |first: u16, last: u16| {
        let served = (first..=last).filter(|slot| routes.is_served(*slot));
        served.map(|slot| SlotRow::of(server, slot)).collect::<Vec<_>>()
    };
    let rows = if is(&args[2], "SLOTSRANGE") {
        if args.len() != 5 {
            return Err(misused("CLUSTER", &args[1]));
        }
        let (first, last) = (parse::slot(&args[3])?, parse::slot(&args[4])?);
        if first > last {
            return Err(Refusal::owned(format!(
                "ERR Start slot number {first} is greater than end slot number {last}"
            )));
        }
        rows(first.get(), last.get())
    } else if is(&args[2], "ORDERBY") {
        let order = SlotOrder::parse(args, told)?;
        order.sort(rows(0, cluster::SLOTS - 1))
    } else {
        return Err(misused("CLUSTER", &args[1]));
    };
    reply.array(rows.len());
    for row in rows {
        reply.array(2);
        reply.integer(row.slot.into());
        reply.map(told);
        for (name, figure) in row.figures().into_iter().take(told) {
            reply.bulk(name.as_bytes());
            reply.integer(figure as i64);
        }
    }
    Ok(())
}

/// What ORDERBY says.
struct SlotOrder {
    /// Which of the figures counts.
    figure: usize,
    most: usize,
    ascends: bool,
}

impl SlotOrder {
    /// Reads what is asked, where so many figures are told.
    fn parse(args: Args<'_>, told: usize) -> Result<Self, Refusal> {
        const MANY: Refusal =
            Refusal::error("ERR Multiple filters of the same type are disallowed.");
        const LIMIT: Refusal = Refusal::error(
            "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
        );
        let row = SlotRow { slot: 0, keys: 0, usage: SlotUsage::default() };
        let figures = row.figures();
        let figure = figures[..told].iter().position(|(name, _)| is(&args[3], name));
        let figure = figure.ok_or(Refusal::error("ERR Unrecognized sort metric for ORDERBY."))?;
        let (mut most, mut ascends) = (None, None);
        let mut index = 4;
        while let Some(word) = args.get(index) {
            if is(word, "LIMIT") && index + 1 < args.len() {
                let number = parse_i64(&args[index + 1]);
                let limit = number.and_then(|number| usize::try_from(number).ok());
                let limit = limit.filter(|limit| (1..=usize::from(cluster::SLOTS)).contains(limit));
                if most.replace(limit.ok_or(LIMIT)?).is_some() {
                    return Err(MANY);
                }
                index += 1;
            } else if is(word, "ASC") || is(word, "DESC") {
                if ascends.replace(is(word, "ASC")).is_some() {
                    return Err(MANY);
                }
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        let most = most.unwrap_or(usize::from(cluster::SLOTS));
        Ok(Self { figure, most, ascends: ascends.unwrap_or(false) })
    }

    /// The rows in this order; equal ones by their slots.
    fn sort(&self, mut rows: Vec<SlotRow>) -> Vec<SlotRow> {
        let figure = |row: &SlotRow| row.figures()[self.figure].1;
        if self.ascends {
            rows.sort_by_key(figure);
        } else {
            rows.sort_by_key(|row| Reverse(figure(row)));
        }
        rows.truncate(self.most);
        rows
    }
}
