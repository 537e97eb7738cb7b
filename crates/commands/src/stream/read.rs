//! XREAD, and what it shares with XREADGROUP: the words of a request, its limits, its wait.
//!
//! Invariant: a request that waits names IDs only, so that running it again gives what came since.

use base::number::parse_i64;
use base::time::UnixMillis;
use keyspace::{BlockingKeys, EmptyReply, Refusal, Tx, Wait};
use proto::{Args, Reply, Resp};
use structs::stream::{EntryId, Stream, StreamEntry};

use super::ids::{self, IdText};
use super::long_read::reply_unread;
use super::{ENTRY_NS, reply_entry};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NEGATIVE_TIMEOUT, NOT_A_WHOLE_TIMEOUT, SYNTAX, TIMEOUT_OUT_OF_RANGE};
use crate::keys::{Access, BeginSearch, FindKeys, KeySpec, KeyWord};
use crate::long_reply::is_long;
use crate::waiting::ENDLESS;

const GROUP_IN_XREAD: Refusal = Refusal::error(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
);
const NOACK_IN_XREAD: Refusal = Refusal::error(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
);
const CLAIM_IN_XREAD: Refusal = Refusal::error(
    "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
);
const NO_GROUP_OPTION: Refusal = Refusal::error("ERR Missing GROUP option for XREADGROUP");
const NEW_IN_XREAD: Refusal = Refusal::error(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);
const NOT_A_MAXCOUNT: Refusal = Refusal::error("ERR MAXCOUNT must be a positive integer");
const NOT_A_MAXSIZE: Refusal = Refusal::error("ERR MAXSIZE must be a positive integer");
const MAXCOUNT_BELOW_COUNT: Refusal =
    Refusal::error("ERR MAXCOUNT must be greater than or equal to COUNT");
const NOT_AN_IDLE_TIME: Refusal = Refusal::error("ERR min-idle-time must be a positive integer");

/// The keys behind the word STREAMS, which may be a group's or a consumer's name, too.
pub(super) const fn streams(told_from: i64, access: Access) -> KeySpec {
    KeySpec {
        begin: BeginSearch::Behind(KeyWord {
            word: "STREAMS",
            told_from,
            from: 1,
            others: &[
                ("BLOCK", 1),
                ("COUNT", 1),
                ("MAXCOUNT", 1),
                ("MAXSIZE", 1),
                ("GROUP", 2),
                ("CLAIM", 1),
            ],
        }),
        find: FindKeys::Range { last: -1, step: 1, limit: 2 },
        access,
        notes: "",
    }
}

pub(super) const XREAD: DataCommand = Command {
    spec: Spec {
        name: "XREAD",
        since: "5.0.0",
        group: Group::Stream,
        syntax: "[COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS \
                 key [key ...] id [id ...]",
        summary: "Returns messages from multiple streams with IDs greater than the ones \
                  requested. Blocks until a message is available otherwise.",
        complexity: "For each stream mentioned: O(M) with M being the number of elements \
                     returned. If M is constant (for example, always asking for the first 10 \
                     elements with COUNT), you can consider it O(1).",
        arity: at_least(4),
        flags: Flags::READONLY.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
        keys: &[streams(1, Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: xread,
};

/// What XREAD or XREADGROUP was asked for.
pub(super) struct ReadRequest<'a> {
    pub(super) keys: Args<'a>,
    pub(super) ids: Args<'a>,
    /// Group and consumer.
    pub(super) reader: Option<(&'a [u8], &'a [u8])>,
    /// Entries of one stream at most.
    pub(super) count: usize,
    pub(super) acknowledges: bool,
    /// For how long pending entries must have been idle to be claimed.
    pub(super) claim: Option<i64>,
    entries_max: Option<u64>,
    bytes_max: Option<u64>,
    block: Option<i64>,
    name: &'a [u8],
}

/// What may still be replied, of all streams together.
pub(super) struct Budget {
    entries: u64,
    bytes: u64,
    is_fresh: bool,
}

fn xread(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let request = ReadRequest::read(args, false)?;
    let deadline = request.deadline(tx.now())?;
    let from = request.resolve(tx)?;
    let mut cost = 0;
    for (key, after) in request.keys.iter().zip(&from) {
        let stream = tx.peek_view::<Stream>(key)?;
        let there = stream.map_or(0, |stream| stream.about_between(*after, EntryId::MAX));
        cost += there.min(request.count as u64).saturating_mul(ENTRY_NS);
    }
    if is_long(cost) && request.has_no_budget() {
        return match reply_unread(tx, &request, &from, reply)? {
            true => Ok(()),
            false => request.wait(deadline, &from, reply),
        };
    }
    tx.charge(cost)?;
    let mark = reply.defer();
    let (mut served, mut budget) = (0, request.budget());
    for (key, after) in request.keys.iter().zip(&from) {
        // A second time, as in Redis, for the counts of lookups.
        let Some(stream) = tx.view::<Stream>(key)? else { continue };
        let Some(next) = after.next() else { continue };
        let mut items = stream.range(next, EntryId::MAX).take(request.count).peekable();
        if items.peek().is_none_or(|item| !budget.admits(item)) {
            continue;
        }
        begin_stream(key, reply);
        let entries = reply.defer();
        let mut found = 0;
        for item in items.take_while(|item| budget.take(item)) {
            reply_entry(&item, reply);
            found += 1;
        }
        reply.finish_array(entries, found);
        served += 1;
    }
    if served == 0 {
        return request.wait(deadline, &from, reply);
    }
    finish_streams(mark, served, reply);
    Ok(())
}

/// Begins what is replied of one stream; a list of entries follows.
pub(super) fn begin_stream(key: &[u8], reply: &mut Reply<'_>) {
    if reply.resp() == Resp::Two {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Makes all streams since the mark a reply: a map, in RESP2 a list of pairs.
pub(super) fn finish_streams(mark: proto::Mark, streams: usize, reply: &mut Reply<'_>) {
    match reply.resp() {
        Resp::Two => reply.finish_array(mark, streams),
        Resp::Three => reply.finish_map(mark, streams),
    }
}

impl<'a> ReadRequest<'a> {
    pub(super) fn read(args: Args<'a>, reads_group: bool) -> Result<Self, Refusal> {
        let mut request = Self {
            keys: args.slice(0..0),
            ids: args.slice(0..0),
            reader: None,
            count: usize::MAX,
            acknowledges: false,
            claim: None,
            entries_max: None,
            bytes_max: None,
            block: None,
            name: args.get(0).expect("a request has a name"),
        };
        let (mut options, mut has_streams) = (Options::from(args, 1), false);
        while let Some(word) = options.word() {
            let left = args.len() - options.position();
            if left > 0 && is(word, "STREAMS") {
                request.take_streams(args.skip(options.position()), reads_group)?;
                has_streams = true;
                break;
            }
            request.take(word, left, &mut options, reads_group)?;
        }
        if !has_streams {
            return Err(SYNTAX);
        }
        if reads_group && request.reader.is_none() {
            return Err(NO_GROUP_OPTION);
        }
        let below = |most: u64| request.count != usize::MAX && most < request.count as u64;
        if request.entries_max.is_some_and(below) {
            return Err(MAXCOUNT_BELOW_COUNT);
        }
        Ok(request)
    }

    fn take(
        &mut self,
        word: &[u8],
        left: usize,
        options: &mut Options<'a>,
        reads_group: bool,
    ) -> Result<(), Refusal> {
        let positive = |value: &[u8], refusal: Refusal| {
            let number = parse_i64(value).filter(|number| *number > 0).ok_or(refusal)?;
            Ok(number.unsigned_abs())
        };
        if left > 0 && is(word, "BLOCK") {
            self.block = Some(parse_i64(options.value()?).ok_or(NOT_A_WHOLE_TIMEOUT)?);
            if self.block < Some(0) {
                return Err(NEGATIVE_TIMEOUT);
            }
        } else if left > 0 && is(word, "COUNT") {
            let count = usize::try_from(options.integer()?).unwrap_or(0);
            self.count = if count == 0 { usize::MAX } else { count };
        } else if left > 0 && is(word, "MAXCOUNT") {
            self.entries_max = Some(positive(options.value()?, NOT_A_MAXCOUNT)?);
        } else if left > 0 && is(word, "MAXSIZE") {
            self.bytes_max = Some(positive(options.value()?, NOT_A_MAXSIZE)?);
        } else if left > 1 && is(word, "GROUP") {
            if !reads_group {
                return Err(GROUP_IN_XREAD);
            }
            self.reader = Some((options.value()?, options.value()?));
        } else if is(word, "NOACK") {
            if !reads_group {
                return Err(NOACK_IN_XREAD);
            }
            self.acknowledges = true;
        } else if left > 0 && is(word, "CLAIM") {
            if !reads_group {
                return Err(CLAIM_IN_XREAD);
            }
            let idle = parse_i64(options.value()?).filter(|idle| *idle >= 0);
            self.claim = Some(idle.ok_or(NOT_AN_IDLE_TIME)?);
        } else {
            return Err(SYNTAX);
        }
        Ok(())
    }

    fn take_streams(&mut self, rest: Args<'a>, reads_group: bool) -> Result<(), Refusal> {
        if !rest.len().is_multiple_of(2) {
            let (name, ids) = match reads_group {
                true => ("xreadgroup", "an ID or '>'"),
                false => ("xread", "an ID, '+', or '$'"),
            };
            return Err(Refusal::owned(format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key {ids} must be \
                 specified."
            )));
        }
        self.keys = rest.slice(0..rest.len() / 2);
        self.ids = rest.skip(rest.len() / 2);
        Ok(())
    }

    /// Until when to wait; the inner `None` is for ever.
    pub(super) fn deadline(&self, now: UnixMillis) -> Result<Option<Option<i64>>, Refusal> {
        Ok(match self.block {
            None => None,
            Some(0) => Some(None),
            Some(millis) => Some(Some(now.checked_add(millis).ok_or(TIMEOUT_OUT_OF_RANGE)?)),
        })
    }

    /// Whether its reply is bounded by a count for each stream only.
    fn has_no_budget(&self) -> bool {
        self.entries_max.is_none() && self.bytes_max.is_none()
    }

    pub(super) fn budget(&self) -> Budget {
        Budget {
            entries: self.entries_max.unwrap_or(u64::MAX),
            bytes: self.bytes_max.unwrap_or(u64::MAX),
            is_fresh: true,
        }
    }

    /// Behind which IDs is read; `$` and `+` mean what they mean now.
    fn resolve(&self, tx: &Tx) -> Result<Vec<EntryId>, Refusal> {
        let pairs = self.keys.iter().zip(self.ids.iter());
        pairs
            .map(|(key, id)| {
                let stream = tx.view::<Stream>(key)?;
                let last = || stream?.range_back(EntryId::MIN, EntryId::MAX).next()?.id.previous();
                match id {
                    b"$" => Ok(stream.map_or(EntryId::MIN, Stream::last_id)),
                    b"+" => Ok(last().unwrap_or(EntryId::MIN)),
                    b">" => Err(NEW_IN_XREAD),
                    _ => ids::exact(id),
                }
            })
            .collect()
    }

    /// Nothing to reply: waits for the keys, if that was asked for.
    fn wait(
        &self,
        deadline: Option<Option<i64>>,
        from: &[EntryId],
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        let texts: Vec<_> = from.iter().map(|id| IdText::new(*id)).collect();
        self.wait_behind(deadline, None, texts.iter().map(IdText::as_bytes), reply)
    }

    /// As `wait`, each key with its ID as it is to be asked for again: once it is ready, or at the
    /// time `again`.
    pub(super) fn wait_behind<'b>(
        &self,
        deadline: Option<Option<i64>>,
        again: Option<UnixMillis>,
        ids: impl Iterator<Item = &'b [u8]>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        let Some(deadline) = deadline else {
            reply.null_array();
            return Ok(());
        };
        let mut words = vec![self.name.to_vec()];
        if let Some((group, consumer)) = self.reader {
            words.extend([b"GROUP", group, consumer].map(<[u8]>::to_vec));
        }
        let count = (self.count != usize::MAX).then_some(self.count as u64);
        let numbers = [
            ("COUNT", count),
            ("MAXCOUNT", self.entries_max),
            ("MAXSIZE", self.bytes_max),
            ("CLAIM", self.claim.map(i64::unsigned_abs)),
        ];
        for (word, number) in numbers {
            if let Some(number) = number {
                words.extend([word.as_bytes().to_vec(), number.to_string().into_bytes()]);
            }
        }
        if self.acknowledges {
            words.push(b"NOACK".to_vec());
        }
        let head = words.iter().map(Vec::as_slice).chain([&b"BLOCK"[..], ENDLESS, b"STREAMS"]);
        let own = self.keys.iter().zip(ids).map(|(key, id)| [key, id]);
        Err(Refusal::Wait(Box::new(Wait {
            awaited: BlockingKeys::new(head, own, []),
            deadline,
            again,
            wakes_on_deletion: self.reader.is_some(),
            at_once: EmptyReply::NullArray,
        })))
    }
}

impl Budget {
    /// Whether an entry may be replied: the first always may.
    pub(super) fn admits(&self, item: &StreamEntry<'_>) -> bool {
        self.entries > 0 && (self.is_fresh || self.bytes == u64::MAX || size(item) <= self.bytes)
    }

    /// Takes an entry's share; `false` if it may not be replied any more.
    pub(super) fn take(&mut self, item: &StreamEntry<'_>) -> bool {
        if !self.admits(item) {
            self.entries = 0;
            return false;
        }
        self.entries -= 1;
        self.is_fresh = false;
        if self.bytes != u64::MAX {
            self.bytes = self.bytes.saturating_sub(size(item));
        }
        true
    }
}

/// Bytes of an entry's reply.
fn size(item: &StreamEntry<'_>) -> u64 {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let bulk = |len: usize| 1 + digits(len) + 2 + len + 2;
    let fields = item.fields.clone();
    let header = 4 + bulk(IdText::new(item.id).as_bytes().len()) + 3 + digits(fields.len() * 2);
    let text: usize =
        fields.map(|(field, value)| bulk(field.len_text()) + bulk(value.len_text())).sum();
    (header + text) as u64
}
