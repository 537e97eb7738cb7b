//! Adding places: GEOADD.
//!
//! Invariant: the journal gets a ZADD, so its readers need to know nothing of places.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use super::position;
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::sorted_set::add::{ScoreConditions, ScoredArgs, add};

pub(super) const GEOADD: DataCommand = Command {
    spec: Spec {
        name: "GEOADD",
        since: "3.2.0",
        group: Group::Geo,
        syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        summary: "Adds one or more members to a geospatial index. The key is created if it \
            doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the \
            sorted set.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: geoadd,
};

fn geoadd(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (mut conditions, mut counts_changed, mut next) = (ScoreConditions::default(), false, 2);
    while let Some(word) = args.get(next) {
        match word {
            word if is(word, "NX") => conditions.absent = true,
            word if is(word, "XX") => conditions.present = true,
            word if is(word, "CH") => counts_changed = true,
            _ => break,
        }
        next += 1;
    }
    let (options, triples) = (args.slice(2..next), args.skip(next));
    let is_whole = !triples.is_empty() && triples.len().is_multiple_of(3);
    if !is_whole || conditions.absent && conditions.present {
        return Err(SYNTAX);
    }
    let mut scored = ScoredArgs::with_capacity(triples.len() / 3);
    for index in (0..triples.len()).step_by(3) {
        let place = position(&triples[index], &triples[index + 1])?;
        scored.push((place.score() as f64, &triples[index + 2]));
    }
    let done = add(tx, &args[1], &scored, conditions)?;
    let changed = done.added + done.updated;
    if changed > 0 && tx.effects().is_recorded() {
        journal(tx, &args[1], options, &scored);
    }
    reply.integer(if counts_changed { changed } else { done.added } as i64);
    Ok(())
}

fn journal(tx: &mut Tx, key: &[u8], options: Args<'_>, scored: &[(f64, &[u8])]) {
    let scores: Vec<String> = scored.iter().map(|(score, _)| (*score as u64).to_string()).collect();
    let mut words: Vec<&[u8]> = vec![b"ZADD", key];
    words.extend(options.iter());
    for (score, (_, member)) in scores.iter().zip(scored) {
        words.extend([score.as_bytes(), member]);
    }
    tx.effects_mut().instead(&words);
}
