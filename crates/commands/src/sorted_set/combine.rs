//! Commands over several sorted sets and sets: ZUNION, ZINTER, ZDIFF, what stores their results,
//! and ZINTERCARD.
//!
//! Invariant: a destination among the sources is read before it is overwritten.

use base::number::{parse_f64, parse_i64};
use keyspace::{Refusal, Tx};
use proto::{Args, Reply, Resp};

use super::aggregate::{
    Aggregate, Input, ScoredMember, difference, intersection, intersection_len, to_sorted_set,
    union,
};
use super::{SEARCH_COST_NS, journal_result, limits, reply_header, store};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::change::record_in_decimal;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NEGATIVE_LIMIT, NOT_AN_INTEGER, SYNTAX};
use crate::keys::{Access, counted, first};

pub(super) const ZUNION: DataCommand = Command {
    spec: Spec {
        name: "ZUNION",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX \
            | COUNT>] [WITHSCORES]",
        summary: "Returns the union of multiple sorted sets.",
        complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, \
            and M being the number of elements in the resulting sorted set.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RO.and(Access::ACCESS))],
        history: &[("8.8.0", "Added the `COUNT` aggregator.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| show(tx, args, reply, &UNION),
};

pub(super) const ZINTER: DataCommand = Command {
    spec: Spec {
        name: "ZINTER",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX \
            | COUNT>] [WITHSCORES]",
        summary: "Returns the intersect of multiple sorted sets.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K \
            being the number of input sorted sets and M being the number of elements in the \
            resulting sorted set.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RO.and(Access::ACCESS))],
        history: &[("8.8.0", "Added the `COUNT` aggregator.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| show(tx, args, reply, &INTERSECTION),
};

pub(super) const ZDIFF: DataCommand = Command {
    spec: Spec {
        name: "ZDIFF",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "numkeys key [key ...] [WITHSCORES]",
        summary: "Returns the difference between multiple sorted sets.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all \
            the sets, N is the size of the first set, and K is the size of the result set.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| show(tx, args, reply, &DIFFERENCE),
};

/// Replies a result.
fn show(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: &CombineOperation,
) -> Result<(), Refusal> {
    let request = CombineRequest::parse(tx, args, 1, operation)?;
    let with_scores = request.with_scores;
    let members = request.compute(tx, operation)?;
    reply_header(members.len() as u64, with_scores, reply);
    for ScoredMember { member, score } in members {
        if with_scores && reply.resp() == Resp::Three {
            reply.array(2);
        }
        reply.bulk(&member);
        if with_scores {
            reply.double(score);
        }
    }
    Ok(())
}

pub(super) const ZUNIONSTORE: DataCommand = Command {
    spec: Spec {
        name: "ZUNIONSTORE",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM \
            | MIN | MAX | COUNT>]",
        summary: "Stores the union of multiple sorted sets in a key.",
        complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, \
            and M being the number of elements in the resulting sorted set.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS).and(Flags::OPTIMISTIC),
        keys: &[
            first(Access::OW.and(Access::UPDATE)),
            counted(2, 1, Access::RO.and(Access::ACCESS)),
        ],
        history: &[("8.8.0", "Added the `COUNT` aggregator.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| keep(tx, args, reply, &UNION),
};

pub(super) const ZINTERSTORE: DataCommand = Command {
    spec: Spec {
        name: "ZINTERSTORE",
        since: "2.0.0",
        group: Group::SortedSet,
        syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM \
            | MIN | MAX | COUNT>]",
        summary: "Stores the intersect of multiple sorted sets in a key.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K \
            being the number of input sorted sets and M being the number of elements in the \
            resulting sorted set.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS).and(Flags::OPTIMISTIC),
        keys: &[
            first(Access::OW.and(Access::UPDATE)),
            counted(2, 1, Access::RO.and(Access::ACCESS)),
        ],
        history: &[("8.8.0", "Added the `COUNT` aggregator.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| keep(tx, args, reply, &INTERSECTION),
};

pub(super) const ZDIFFSTORE: DataCommand = Command {
    spec: Spec {
        name: "ZDIFFSTORE",
        since: "6.2.0",
        group: Group::SortedSet,
        syntax: "destination numkeys key [key ...]",
        summary: "Stores the difference of multiple sorted sets in a key.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all \
            the sets, N is the size of the first set, and K is the size of the result set.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS).and(Flags::OPTIMISTIC),
        keys: &[
            first(Access::OW.and(Access::UPDATE)),
            counted(2, 1, Access::RO.and(Access::ACCESS)),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| keep(tx, args, reply, &DIFFERENCE),
};

/// Stores a result.
fn keep(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: &CombineOperation,
) -> Result<(), Refusal> {
    // The journal gets the command as it was sent: a replay must find the same members.
    let keys = keys(args, 2, operation.names[1])?;
    for key in keys.iter() {
        tx.refresh_members(key)?;
    }
    let (set, aggregate) = tx.compute(|tx| {
        let request = CombineRequest::parse(tx, args, 2, operation)?;
        let aggregate = request.aggregate;
        let members = request.compute(tx, operation)?;
        Ok((to_sorted_set(&members, &limits(tx)), aggregate))
    })?;
    let count = set.borrow().len();
    if aggregate == Aggregate::Count {
        journal_result(tx, &args[1], set.borrow());
    }
    store(tx, &args[1], set, operation.event)?;
    // Of the options only weights are numbers.
    if aggregate != Aggregate::Count {
        record_in_decimal(tx, args, |index| index >= 3 + keys.len());
    }
    reply.integer(count as i64);
    Ok(())
}

pub(super) const ZINTERCARD: DataCommand = Command {
    spec: Spec {
        name: "ZINTERCARD",
        since: "7.0.0",
        group: Group::SortedSet,
        syntax: "numkeys key [key ...] [LIMIT limit]",
        summary: "Returns the number of members of the intersect of multiple sorted sets.",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the \
            number of input sorted sets.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 1, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: zintercard,
};

fn zintercard(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (inputs, options) = read_inputs(tx, args, 1, "zintercard")?;
    let mut limit = usize::MAX;
    let mut options = Options::from(args, options);
    while let Some(word) = options.word() {
        if !is(word, "LIMIT") {
            return Err(SYNTAX);
        }
        let number = parse_i64(options.value()?).and_then(|number| usize::try_from(number).ok());
        limit = match number.ok_or(NEGATIVE_LIMIT)? {
            0 => usize::MAX,
            number => number,
        };
    }
    charge_look_ups(tx, &inputs)?;
    reply.integer(intersection_len(inputs, limit) as i64);
    Ok(())
}

/// What the three operations differ in.
struct CombineOperation {
    /// The commands that reply it and store it, as errors name them.
    names: [&'static str; 2],
    event: &'static str,
    kind: OperationKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationKind {
    Union,
    Intersection,
    Difference,
}

const UNION: CombineOperation = CombineOperation {
    names: ["zunion", "zunionstore"],
    event: "zunionstore",
    kind: OperationKind::Union,
};

const INTERSECTION: CombineOperation = CombineOperation {
    names: ["zinter", "zinterstore"],
    event: "zinterstore",
    kind: OperationKind::Intersection,
};

const DIFFERENCE: CombineOperation = CombineOperation {
    names: ["zdiff", "zdiffstore"],
    event: "zdiffstore",
    kind: OperationKind::Difference,
};

/// A request, read to its end.
struct CombineRequest<'a> {
    inputs: Vec<Input<'a>>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl<'a> CombineRequest<'a> {
    /// Reads a request whose number of keys stands at an index: 1, or 2 behind a destination.
    fn parse(
        tx: &'a Tx,
        args: Args<'_>,
        index: usize,
        operation: &CombineOperation,
    ) -> Result<Self, Refusal> {
        const NOT_A_WEIGHT: Refusal = Refusal::error("ERR weight value is not a float");
        let (mut inputs, options) = read_inputs(tx, args, index, operation.names[index - 1])?;
        let (mut aggregate, mut with_scores) = (Aggregate::Sum, false);
        let aggregates = operation.kind != OperationKind::Difference;
        let mut options = Options::from(args, options);
        while let Some(word) = options.word() {
            let remaining = args.len() - options.position();
            if aggregates && is(word, "WEIGHTS") && remaining >= inputs.len() {
                for input in &mut inputs {
                    let weight = parse_f64(options.value()?).filter(|weight| !weight.is_nan());
                    input.weight = weight.ok_or(NOT_A_WEIGHT)?;
                }
            } else if aggregates && is(word, "AGGREGATE") && remaining > 0 {
                aggregate = read_aggregate(options.value()?)?;
            } else if index == 1 && is(word, "WITHSCORES") {
                with_scores = true;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(Self { inputs, aggregate, with_scores })
    }

    /// The result, in order.
    fn compute(
        self,
        tx: &Tx,
        operation: &CombineOperation,
    ) -> Result<Vec<ScoredMember<'a>>, Refusal> {
        match operation.kind {
            OperationKind::Union => {
                let members: u64 = self.inputs.iter().map(Input::len).sum();
                tx.charge(members * SEARCH_COST_NS)?;
                Ok(union(self.inputs, self.aggregate))
            }
            OperationKind::Intersection => {
                charge_look_ups(tx, &self.inputs)?;
                Ok(intersection(self.inputs, self.aggregate))
            }
            OperationKind::Difference => {
                let first = self.inputs.first().map_or(0, Input::len);
                tx.charge(first * self.inputs.len() as u64 * SEARCH_COST_NS)?;
                Ok(difference(&self.inputs))
            }
        }
    }
}

fn read_aggregate(word: &[u8]) -> Result<Aggregate, Refusal> {
    let known = [
        ("SUM", Aggregate::Sum),
        ("MIN", Aggregate::Min),
        ("MAX", Aggregate::Max),
        ("COUNT", Aggregate::Count),
    ];
    known.iter().find(|(name, _)| is(word, name)).map(|&(_, aggregate)| aggregate).ok_or(SYNTAX)
}

/// The inputs of a request whose number of keys stands at an index, and where its options begin.
fn read_inputs<'a>(
    tx: &'a Tx,
    args: Args<'_>,
    index: usize,
    command: &str,
) -> Result<(Vec<Input<'a>>, usize), Refusal> {
    let keys = keys(args, index, command)?;
    let inputs = keys.iter().map(|key| Input::of_key(tx, key)).collect::<Result<_, _>>()?;
    Ok((inputs, index + 1 + keys.len()))
}

/// The keys of a request whose number stands at an index.
fn keys<'a>(args: Args<'a>, index: usize, command: &str) -> Result<Args<'a>, Refusal> {
    let count = parse_i64(&args[index]).ok_or(NOT_AN_INTEGER)?;
    if count < 1 {
        let text = format!("ERR at least 1 input key is needed for '{command}' command");
        return Err(Refusal::owned(text));
    }
    let keys = args.skip(index + 1);
    let count = usize::try_from(count).ok().filter(|count| *count <= keys.len()).ok_or(SYNTAX)?;
    Ok(keys.slice(0..count))
}

/// Charges for a look into every input for each member of the smallest.
fn charge_look_ups(tx: &Tx, inputs: &[Input<'_>]) -> Result<(), Refusal> {
    let smallest = inputs.iter().map(Input::len).min().unwrap_or(0);
    tx.charge(smallest * inputs.len() as u64 * SEARCH_COST_NS)
}
