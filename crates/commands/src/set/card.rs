//! Counting what the algebra finds: SINTERCARD, SUNIONCARD, SDIFFCARD.
//!
//! Invariant: nothing beyond the limit is looked at, or told.

use base::number::parse_i64;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hyperloglog::{self, RegisterUpdate};

use super::PASSED_NS;
use super::algebra::{INTERSECTION_COST, SUM_COST, SetOperation, Sources};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NEGATIVE_LIMIT, NO_KEYS, SYNTAX, TOO_MANY_KEYS};
use crate::keys::{Access, counted};

pub(super) const SINTERCARD: DataCommand = Command {
    spec: Spec {
        name: "SINTERCARD",
        since: "7.0.0",
        summary: "Returns the number of members of the intersect of multiple sets.",
        complexity: INTERSECTION_COST,
        ..COUNTING
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let CardRequest { keys, limit, .. } = CardRequest::parse(args, false)?;
        count(tx, keys, reply, SetOperation::Intersection, limit)
    },
};

pub(super) const SDIFFCARD: DataCommand = Command {
    spec: Spec {
        name: "SDIFFCARD",
        since: "8.10.0",
        summary: "Returns the number of members of the difference between the first set and all \
                  successive sets.",
        complexity: SUM_COST,
        ..COUNTING
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let CardRequest { keys, limit, .. } = CardRequest::parse(args, false)?;
        count(tx, keys, reply, SetOperation::Difference, limit)
    },
};

pub(super) const SUNIONCARD: DataCommand = Command {
    spec: Spec {
        name: "SUNIONCARD",
        since: "8.10.0",
        syntax: "numkeys key [key ...] [APPROX] [LIMIT limit]",
        summary: "Returns the number of members of the union of multiple sets.",
        complexity: SUM_COST,
        ..COUNTING
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let CardRequest { keys, limit, is_approximate } = CardRequest::parse(args, true)?;
        if is_approximate {
            return estimate_union(tx, keys, reply, limit);
        }
        count(tx, keys, reply, SetOperation::Union, limit)
    },
};

/// What the three have in common.
const COUNTING: Spec = Spec {
    group: Group::Set,
    syntax: "numkeys key [key ...] [LIMIT limit]",
    arity: at_least(3),
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    keys: &[counted(1, 1, Access::RO.and(Access::ACCESS))],
    ..Spec::BASE
};

struct CardRequest<'a> {
    keys: Args<'a>,
    limit: u64,
    is_approximate: bool,
}

impl<'a> CardRequest<'a> {
    fn parse(args: Args<'a>, has_approx: bool) -> Result<Self, Refusal> {
        let count = parse_i64(&args[1]).filter(|&count| count > 0).ok_or(NO_KEYS)?;
        let count = usize::try_from(count).ok().filter(|&count| count <= args.len() - 2);
        let end = 2 + count.ok_or(TOO_MANY_KEYS)?;
        let (mut limit, mut is_approximate) = (0, false);
        let mut options = Options::from(args, end);
        while let Some(word) = options.word() {
            if is(word, "LIMIT") {
                let number = parse_i64(options.value()?).ok_or(NEGATIVE_LIMIT)?;
                limit = u64::try_from(number).map_err(|_| NEGATIVE_LIMIT)?;
            } else if has_approx && is(word, "APPROX") {
                is_approximate = true;
            } else {
                return Err(SYNTAX);
            }
        }
        let limit = if limit == 0 { u64::MAX } else { limit };
        Ok(Self { keys: args.slice(2..end), limit, is_approximate })
    }
}

fn count(
    tx: &Tx,
    keys: Args<'_>,
    reply: &mut Reply<'_>,
    operation: SetOperation,
    limit: u64,
) -> Result<(), Refusal> {
    let sources = Sources::read(tx, keys)?;
    tx.charge(sources.cost(operation))?;
    reply.integer(sources.combine(operation).count(limit) as i64);
    Ok(())
}

/// What PFCOUNT would say of a HyperLogLog with all members: about 0.81% off.
fn estimate_union(
    tx: &Tx,
    keys: Args<'_>,
    reply: &mut Reply<'_>,
    limit: u64,
) -> Result<(), Refusal> {
    const OURS: &str = "it was made here";
    let sources = Sources::read(tx, keys)?;
    tx.charge(sources.len() * PASSED_NS)?;
    let (mut registers, mut buffer) = (hyperloglog::new(), Vec::new());
    hyperloglog::to_dense(&mut registers).expect(OURS);
    for member in sources.present().iter().flat_map(|set| set.alive(tx.expired_until())) {
        let place = RegisterUpdate::of(member.as_bytes(&mut buffer));
        hyperloglog::add_dense(&mut registers, place).expect(OURS);
    }
    let estimate = hyperloglog::count(&registers).expect(OURS);
    reply.integer(estimate.min(limit) as i64);
    Ok(())
}
