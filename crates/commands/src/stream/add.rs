//! XADD: an entry for a stream, and room for it.
//!
//! Invariant: the journal has the ID that the entry got, so that it gets it again.

use keyspace::{EventClass, FeatureLevel, Refusal, Tx};
use proto::{Args, Reply};
use smallvec::SmallVec;
use structs::stream::{ENTRY_BYTES_MAX, EntryId, Pair, Stream, Trim};

use super::ids::{self, IdText, NewId, reply_id};
use super::node_limits;
use super::settings::{default_limits, journal_sent};
use super::trim::{self, TrimAsDone, TrimWords};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};

const ZERO: Refusal = Refusal::error("ERR The ID specified in XADD must be greater than 0-0");
const NOT_GREATER: Refusal = Refusal::error(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const EXHAUSTED: Refusal =
    Refusal::error("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Refusal = Refusal::error("ERR Elements are too large to be stored");
const SENT_TWICE: Refusal = Refusal::error("ERR IDMP/IDMPAUTO specified multiple times");
const SENT_WITH_ID: Refusal =
    Refusal::error("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
const SENT_BY_NOBODY: Refusal =
    Refusal::error("ERR IDMP/IDMPAUTO producer and idempotent IDs must not be empty");

pub(super) const XADD: DataCommand = Command {
    spec: Spec {
        name: "XADD",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | \
                 IDMP producer-id idempotent-id] [<MAXLEN | MINID> [= | ~] threshold \
                 [LIMIT count]] <* | id> field value [field value ...]",
        summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
        complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number \
                     of entries evicted.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))
            .noted("UPDATE instead of INSERT because of the optional trimming feature")],
        tips: &["nondeterministic_output"],
        history: &[
            (
                "6.2.0",
                "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option.",
            ),
            ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
            ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xadd,
};

/// What XADD was asked for.
struct AddRequest<'a> {
    key: &'a [u8],
    id: NewId,
    makes_stream: bool,
    trim: Option<Trim>,
    /// Whether every server with streams knows what was asked about references.
    is_plain: bool,
    sent: Option<Sent<'a>>,
    pairs: SmallVec<[Pair<'a>; 8]>,
}

/// The producer of the entry, and its ID there, if not one made of what it holds.
#[derive(Clone, Copy)]
struct Sent<'a> {
    producer: &'a [u8],
    id: Option<&'a [u8]>,
}

fn xadd(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = AddRequest::read(tx, args)?;
    let key = request.key;
    let stream = tx.peek_view::<Stream>(key)?;
    if stream.is_none() && !request.makes_stream {
        reply.null();
        return Ok(());
    }
    let sent = request.sent.map(|sent| (sent.producer, sent.id(&request.pairs)));
    if let Some((producer, iid)) = &sent
        && let Some(known) = stream.and_then(|stream| stream.idempotence())
        && let Some(original) = known.find(producer, iid, tx.now())
    {
        let limits = known.limits();
        super::edit(tx, key, |stream| stream.idempotence_mut(limits).count_duplicate())?;
        reply_id(original, reply);
        return Ok(());
    }
    let last = stream.map_or(EntryId::MIN, Stream::last_id);
    let id = request.choose_id(last, tx.now())?;
    let bytes = request.pairs.iter().map(|(field, value)| field.len() + value.len());
    if bytes.sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    if let (Some(stream), Some(trim)) = (stream, &request.trim) {
        trim::charge(tx, stream, trim)?;
    }
    let exact = request.add(tx, id, sent.as_ref())?;
    let trimmed = exact.as_ref().is_some_and(|exact| exact.deleted > 0);
    reply_id(id, reply);
    tx.event(EventClass::Stream, "xadd", key);
    tx.effects_mut().add_changes(1);
    if trimmed {
        tx.event(EventClass::Stream, "xtrim", key);
    }
    if sent.is_none() && exact.as_ref().is_none_or(|exact| exact.whole().is_some()) {
        request.journal(tx, id, exact.as_ref());
        return Ok(());
    }
    request.journal(tx, id, None);
    if let Some((producer, iid)) = &sent {
        tx.require_feature_level(FeatureLevel::Producers);
        journal_sent(tx, key, producer, iid, id);
    }
    if let Some(exact) = exact.filter(|_| trimmed) {
        // Not with the entry: that may have been trimmed itself, and only one that is there can be
        // said to have been sent.
        exact.journal(tx, key);
    }
    Ok(())
}

impl<'a> AddRequest<'a> {
    fn read(tx: &Tx, args: Args<'a>) -> Result<Self, Refusal> {
        let mut options = Options::from(args, 2);
        let (mut words, mut id, mut sent) = (TrimWords::default(), None, None);
        let mut makes_stream = true;
        while let Some(word) = options.word() {
            if word == b"*" {
                id = Some(NewId::Auto);
                break;
            }
            let left = args.len() - options.position();
            if is(word, "NOMKSTREAM") {
                makes_stream = false;
            } else if is(word, "IDMPAUTO") && left >= 1 || is(word, "IDMP") && left >= 2 {
                let producer = options.value()?;
                let id = if is(word, "IDMP") { Some(options.value()?) } else { None };
                if sent.replace(Sent { producer, id }).is_some() {
                    return Err(SENT_TWICE);
                }
            } else if !words.take(word, args, &mut options)? {
                id = Some(ids::of_new(word)?);
                break;
            }
        }
        let (is_plain, trim) = (words.are_known_to_all(), words.finish(tx)?);
        let fields = args.skip(options.position());
        let id = id.filter(|_| fields.len() >= 2 && fields.len().is_multiple_of(2));
        let id = id.ok_or_else(|| wrong_arity("xadd"))?;
        if id == NewId::Exact(EntryId::MIN) {
            return Err(ZERO);
        }
        if let Some(Sent { producer, id: iid }) = sent {
            if id != NewId::Auto {
                return Err(SENT_WITH_ID);
            }
            if producer.is_empty() || iid.is_some_and(<[u8]>::is_empty) {
                return Err(SENT_BY_NOBODY);
            }
        }
        let pairs = fields.iter().step_by(2).zip(fields.skip(1).iter().step_by(2)).collect();
        Ok(Self {
            key: args.get(1).expect("the arity was checked"),
            id,
            makes_stream,
            trim,
            is_plain,
            sent,
            pairs,
        })
    }

    /// The ID of the new entry.
    fn choose_id(&self, last: EntryId, now: i64) -> Result<EntryId, Refusal> {
        if last == EntryId::MAX {
            return Err(EXHAUSTED);
        }
        let id = match self.id {
            NewId::Exact(id) => Some(id),
            NewId::NextOf(ms) if ms == last.ms => {
                last.seq.checked_add(1).map(|seq| EntryId::new(ms, seq))
            }
            NewId::NextOf(ms) => Some(EntryId::new(ms, 0)),
            NewId::Auto => {
                let ms = u64::try_from(now).unwrap_or(0);
                if ms > last.ms { Some(EntryId::new(ms, 0)) } else { last.next() }
            }
        };
        id.filter(|id| *id > last).ok_or(NOT_GREATER)
    }

    /// Adds the entry and trims; what that came to.
    fn add(
        &self,
        tx: &mut Tx,
        id: EntryId,
        sent: Option<&(&[u8], Vec<u8>)>,
    ) -> Result<Option<TrimAsDone>, Refusal> {
        let (limits, known, now) = (node_limits(tx), default_limits(tx), tx.now());
        super::edit(tx, self.key, |stream| {
            stream.append(id, &self.pairs, limits);
            if let Some((producer, iid)) = sent {
                stream.idempotence_mut(known).record(producer, iid, id, now);
            }
            self.trim.as_ref().map(|trim| TrimAsDone::make(stream, trim))
        })
    }

    /// Says what was added, with the ID that was chosen and the trim as it came out, if that is to
    /// be told with it.
    fn journal(&self, tx: &mut Tx, id: EntryId, exact: Option<&TrimAsDone>) {
        let is_told = self.trim.is_none_or(|trim| !trim.approximate && exact.is_some());
        let is_plain = matches!(self.id, NewId::Exact(_)) && is_told && self.is_plain;
        if is_plain || !tx.effects().is_recorded() {
            return;
        }
        let id = IdText::new(id);
        let mut words: SmallVec<[&[u8]; 16]> = SmallVec::new();
        words.extend([b"XADD".as_slice(), self.key]);
        if let Some([name, operator, threshold]) = exact.and_then(TrimAsDone::whole) {
            words.extend([&**name, operator, threshold]);
        }
        words.push(id.as_bytes());
        words.extend(self.pairs.iter().flat_map(|(field, value)| [*field, value]));
        tx.effects_mut().instead(&words);
    }
}

impl Sent<'_> {
    /// The ID that the producer gave the entry, or one that equal entries have in common, in
    /// whatever order they name their fields: many languages keep them in maps without one.
    fn id(&self, pairs: &[Pair<'_>]) -> Vec<u8> {
        if let Some(id) = self.id {
            return id.to_vec();
        }
        let mut text = Vec::new();
        let mut pairs = pairs.to_vec();
        pairs.sort_unstable();
        for (field, value) in &pairs {
            for part in [field, value] {
                text.extend_from_slice(&(part.len() as u64).to_le_bytes());
                text.extend_from_slice(part);
            }
        }
        xxhash_rust::xxh3::xxh3_128(&text).to_be_bytes().to_vec()
    }
}
