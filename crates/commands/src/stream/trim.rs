//! XTRIM, and the words about trimming that XADD has too.
//!
//! Invariant: a trim reaches the journal as an exact one, without what becomes of references: what
//! became of them is said by other commands, which older servers know, too.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{EntryId, References, Stream, Threshold, Trim, Trimmed};

use super::effects::{DroppedPending, TrimmedGaps};
use super::ids;
use super::{ENTRY_NS, PENDING_NS, edit_quietly, node_limits, references};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const TWO_STRATEGIES: Refusal = Refusal::error(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const NEGATIVE_MAXLEN: Refusal = Refusal::error("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: Refusal = Refusal::error("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: Refusal =
    Refusal::error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const LIMIT_EXACT: Refusal =
    Refusal::error("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NO_STRATEGY: Refusal =
    Refusal::error("ERR syntax error, XTRIM must be called with a trimming strategy");

/// What an approximate trim looks at, at most, where nodes have no number of entries.
const LIMIT_OF_ENDLESS_NODES: u64 = 10_000;
const DEFAULT_LIMIT_MAX: u64 = 1_000_000;
const DEFAULT_LIMIT_NODES: u64 = 100;

/// About what it takes to drop an entry together with its node, in nanoseconds.
const DROPPED_NS: u64 = 3;

/// The time that it takes to see whether a group may have old entries pending, in nanoseconds.
const GROUP_NS: u64 = 60;

/// Words about trimming, as they are read one by one.
#[derive(Clone, Copy, Default)]
pub(super) struct TrimWords {
    threshold: Option<Threshold>,
    approximate: bool,
    limit: Option<u64>,
    references: Option<References>,
}

impl TrimWords {
    /// Takes a word, and what belongs to it, if it is about trimming.
    pub(super) fn take(
        &mut self,
        word: &[u8],
        args: Args<'_>,
        options: &mut Options<'_>,
    ) -> Result<bool, Refusal> {
        let left = args.len() - options.position();
        if left > 0 && (is(word, "MAXLEN") || is(word, "MINID")) {
            if self.threshold.is_some() {
                return Err(TWO_STRATEGIES);
            }
            let next = &args[options.position()];
            self.approximate = left >= 2 && next == b"~";
            if self.approximate || left >= 2 && next == b"=" {
                options.word();
            }
            self.threshold = Some(match is(word, "MAXLEN") {
                true => {
                    let most = options.integer()?;
                    Threshold::Length(u64::try_from(most).map_err(|_| NEGATIVE_MAXLEN)?)
                }
                false => Threshold::Id(ids::exact(options.value()?)?),
            });
            return Ok(true);
        }
        if left > 0 && is(word, "LIMIT") {
            self.limit = Some(u64::try_from(options.integer()?).map_err(|_| NEGATIVE_LIMIT)?);
            return Ok(true);
        }
        if self.references.is_none() {
            self.references = references(word);
            return Ok(self.references.is_some());
        }
        Ok(false)
    }

    /// Whether every server with streams knows all of the words.
    pub(super) fn are_known_to_all(&self) -> bool {
        self.references.is_none()
    }

    /// The trim that the words ask for together.
    pub(super) fn finish(self, tx: &Tx) -> Result<Option<Trim>, Refusal> {
        let Some(threshold) = self.threshold else {
            return match self.limit {
                None => Ok(None),
                Some(0) => Err(LIMIT_EXACT),
                Some(_) => Err(LIMIT_ALONE),
            };
        };
        let limit = match (self.limit, self.approximate) {
            // As other servers journal what an approximate trim came to.
            (Some(_), false) if tx.replays() => 0,
            (Some(_), false) => return Err(LIMIT_EXACT),
            (Some(limit), true) => limit,
            (None, false) => 0,
            (None, true) => match node_limits(tx).entries as u64 {
                0 => LIMIT_OF_ENDLESS_NODES,
                entries => entries.saturating_mul(DEFAULT_LIMIT_NODES).min(DEFAULT_LIMIT_MAX),
            },
        };
        let references = self.references.unwrap_or_default();
        Ok(Some(Trim { threshold, approximate: self.approximate, limit, references }))
    }
}

/// Groups that a worker asks what they have read, before it is known what that leads to.
const FEW_GROUPS: usize = 2000;

/// Charges a transaction for a trim that it is about to make.
pub(super) fn charge(tx: &Tx, stream: &Stream, trim: &Trim) -> Result<(), Refusal> {
    let is_idle = trim.references == References::Acknowledged
        && stream.groups().len() <= FEW_GROUPS
        && stream.is_wholly_unread();
    let going = match trim.threshold {
        _ if is_idle => 0,
        Threshold::Length(most) => stream.len().saturating_sub(most),
        Threshold::Id(least) => stream.about_below(least),
    };
    let going = if trim.limit == 0 { going } else { going.min(trim.limit) };
    // The groups are looked through once, and for each entry those whose pending ones are as old.
    let (each, once) = match trim.references {
        References::Keep => (DROPPED_NS, 0),
        _ => (DROPPED_NS + ENTRY_NS + PENDING_NS, GROUP_NS * stream.groups().len() as u64),
    };
    let once = if going == 0 { 0 } else { once };
    tx.charge(going.saturating_mul(each).saturating_add(once))
}

/// What a trim came to, for the journal.
pub(super) struct TrimAsDone {
    pub(super) deleted: u64,
    /// The words that give the same again where nothing else went: the strategy, `=`, the
    /// threshold.
    words: [Vec<u8>; 3],
    holes: Option<TrimmedGaps>,
    forgotten: DroppedPending,
}

impl TrimAsDone {
    /// Trims a stream.
    pub(super) fn make(stream: &mut Stream, trim: &Trim) -> Self {
        let Trimmed { deleted, gone, forgotten, .. } = stream.trim(trim);
        let mut groups = DroppedPending::default();
        forgotten.into_iter().for_each(|(group, id)| groups.note(group, id));
        let leaves_holes = trim.references == References::Acknowledged;
        let holes = leaves_holes.then(|| TrimmedGaps::of(stream, &gone));
        Self { deleted, words: exact_words(trim, stream), holes, forgotten: groups }
    }

    /// The words, where they tell all of it.
    pub(super) fn whole(&self) -> Option<&[Vec<u8>; 3]> {
        (self.holes.is_none() && self.forgotten.is_empty()).then_some(&self.words)
    }

    /// Says what was trimmed, as it came out.
    pub(super) fn journal(&self, tx: &mut Tx, key: &[u8]) {
        let [name, operator, threshold] = &self.words;
        tx.effects_mut().instead(&[b"XTRIM", key, name, operator, threshold]);
        self.forgotten.journal(tx, key);
        if let Some(holes) = &self.holes {
            holes.journal(tx, key);
        }
    }
}

/// The words for the journal that trim a stream to where it begins now.
fn exact_words(trim: &Trim, stream: &Stream) -> [Vec<u8>; 3] {
    let (name, threshold) = match trim.threshold {
        // Some of those that it has looked at stay.
        _ if trim.references == References::Acknowledged => {
            ("MINID", first_or_after(stream).to_string())
        }
        Threshold::Length(_) if trim.approximate => ("MAXLEN", stream.len().to_string()),
        Threshold::Length(most) => ("MAXLEN", most.to_string()),
        Threshold::Id(least) if !trim.approximate => ("MINID", least.to_string()),
        Threshold::Id(_) => ("MINID", first_or_after(stream).to_string()),
    };
    [name, "=", &threshold].map(|word| word.as_bytes().to_vec())
}

/// Where the stream begins; behind its last ID where it is empty.
fn first_or_after(stream: &Stream) -> EntryId {
    if stream.is_empty() {
        return stream.last_id().next().unwrap_or(EntryId::MAX);
    }
    stream.first_id()
}

pub(super) const XTRIM: DataCommand = Command {
    spec: Spec {
        name: "XTRIM",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] \
                 [KEEPREF | DELREF | ACKED]",
        summary: "Deletes messages from the beginning of a stream.",
        complexity: "O(N), with N being the number of evicted entries. Constant times are very \
                     small however, since entries are organized in macro nodes containing \
                     multiple entries that can be released with a single deallocation.",
        arity: at_least(4),
        flags: Flags::WRITE,
        keys: &[first(Access::RW.and(Access::DELETE))],
        tips: &["nondeterministic_output"],
        history: &[
            ("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option."),
            ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xtrim,
};

fn xtrim(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let mut options = Options::from(args, 2);
    let mut words = TrimWords::default();
    while let Some(word) = options.word() {
        if !words.take(word, args, &mut options)? {
            return Err(SYNTAX);
        }
    }
    if words.threshold.is_none() && words.limit.unwrap_or(0) == 0 {
        return Err(NO_STRATEGY);
    }
    let is_plain = words.are_known_to_all();
    let trim = words.finish(tx)?.ok_or(NO_STRATEGY)?;
    let Some(stream) = tx.peek_view::<Stream>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    charge(tx, stream, &trim)?;
    let done = edit_quietly(tx, key, |stream| TrimAsDone::make(stream, &trim))?;
    if done.deleted > 0 {
        tx.event(EventClass::Stream, "xtrim", key);
        tx.effects_mut().add_changes(done.deleted);
        if trim.approximate || !is_plain {
            done.journal(tx, key);
        }
    }
    reply.integer(done.deleted as i64);
    Ok(())
}
