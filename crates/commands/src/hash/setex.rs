//! HSETEX: putting values together with a deadline, if the fields are there or are not.
//!
//! Invariant: the journal gets an absolute time in milliseconds, or HDEL where it is over already;
//! and no conditions, as they held; and HSET where no time is told.

use base::number::{format_i64, parse_i64};
use base::quote::shown;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::members::Lifetime;

use super::set::put_pairs;
use super::{charge, live};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, showing, wrong_arity};
use crate::keys::{Access, first};
use crate::time_unit::TimeUnit;

pub(super) const HSETEX: DataCommand = Command {
    spec: Spec {
        name: "HSETEX",
        since: "8.0.0",
        group: Group::Hash,
        syntax: "key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | \
                 EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] \
                 FIELDS numfields field value [field value ...]",
        summary: "Set the value of one or more fields of a given hash key, and optionally set \
                  their expiration.",
        complexity: "O(N) where N is the number of fields being set.",
        arity: at_least(6),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hsetex,
};

fn hsetex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let request = SetExRequest::read(tx, args)?;
    charge(tx, request.pairs.len() / 2)?;
    if !request.admits(tx, key)? {
        reply.integer(0);
        return Ok(());
    }
    match request.lifetime {
        Lifetime::Until(deadline) if tx.is_over_at(deadline) => {
            put_and_remove(tx, key, request.pairs)?;
        }
        lifetime => {
            put_pairs(tx, key, request.pairs, lifetime)?;
            tx.member_event(EventClass::Hash, "hset", key, request.fields());
            journal_put(tx, key, &request);
        }
    }
    reply.integer(1);
    Ok(())
}

/// Puts values that are over at once: they are gone, whatever was there.
fn put_and_remove(tx: &mut Tx, key: &[u8], pairs: Args<'_>) -> Result<(), Refusal> {
    let fields: Vec<&[u8]> = pairs.iter().step_by(2).collect();
    let (_, outcome) = tx.edit(key, |hash: &mut Hash| {
        fields.iter().for_each(|field| _ = hash.remove(field));
    })?;
    tx.effects_mut().add_changes(fields.len() as u64);
    if outcome == ContainerOutcome::Absent {
        tx.event(EventClass::New, "new", key);
    }
    tx.member_event(EventClass::Hash, "hset", key, fields.iter().copied());
    tx.member_event(EventClass::Hash, "hdel", key, fields.iter().copied());
    if outcome != ContainerOutcome::Kept {
        tx.event(EventClass::Generic, "del", key);
    }
    let words = [b"HDEL".as_slice(), key].into_iter().chain(fields);
    tx.effects_mut().instead(&words.collect::<Vec<_>>());
    Ok(())
}

fn journal_put(tx: &mut Tx, key: &[u8], request: &SetExRequest<'_>) {
    let keeps_times = match request.lifetime {
        Lifetime::Endless => false,
        Lifetime::Keep => has_deadlines(tx, key),
        Lifetime::Until(_) => true,
    };
    if !keeps_times {
        let words = [b"HSET".as_slice(), key].into_iter().chain(request.pairs.iter());
        return tx.effects_mut().instead(&words.collect::<Vec<_>>());
    }
    let mut number = [0; 20];
    let mut words = vec![b"HSETEX".as_slice(), key];
    match request.lifetime {
        Lifetime::Endless => {}
        Lifetime::Keep => words.push(b"KEEPTTL"),
        Lifetime::Until(deadline) => {
            tx.member_event(EventClass::Hash, "hexpire", key, request.fields());
            words.extend([b"PXAT", format_i64(deadline, &mut number)]);
        }
    }
    let mut count = [0; 20];
    words.extend([b"FIELDS", format_i64(request.pairs.len() as i64 / 2, &mut count)]);
    words.extend(request.pairs.iter());
    tx.effects_mut().instead(&words);
}

/// Whether a field of a hash expires; without that older servers know what is done.
fn has_deadlines(tx: &Tx, key: &[u8]) -> bool {
    let hash = tx.peek_view::<Hash>(key).ok().flatten();
    hash.is_some_and(|hash| hash.earliest_deadline().is_some())
}

/// What a client asks for.
struct SetExRequest<'a> {
    /// `NX` or `XX` (Valkey): whether the key must exist.
    key_exists: Option<bool>,
    /// `FNX` or `FXX`: whether the fields must exist.
    fields_exist: Option<bool>,
    lifetime: Lifetime,
    pairs: Args<'a>,
}

impl<'a> SetExRequest<'a> {
    fn read(tx: &Tx, args: Args<'a>) -> Result<Self, Refusal> {
        let (mut key_exists, mut fields_exist, mut lifetime) = (None, None, None);
        let mut options = Options::from(args, 2);
        while let Some(word) = options.word() {
            if is(word, "FIELDS") {
                let pairs = Self::read_pairs(args, options.position())?;
                let lifetime = lifetime.unwrap_or(Lifetime::Endless);
                return Ok(Self { key_exists, fields_exist, lifetime, pairs });
            }
            match word {
                _ if is(word, "NX") => set_once(&mut key_exists, false, SYNTAX)?,
                _ if is(word, "XX") => set_once(&mut key_exists, true, SYNTAX)?,
                _ if is(word, "FNX") => set_once(&mut fields_exist, false, TWO_CONDITIONS)?,
                _ if is(word, "FXX") => set_once(&mut fields_exist, true, TWO_CONDITIONS)?,
                _ if is(word, "KEEPTTL") => set_once(&mut lifetime, Lifetime::Keep, TWO_TIMES)?,
                _ => {
                    let unit = TimeUnit::of(word).ok_or_else(|| unknown(word))?;
                    // A second time is refused before it is read.
                    set_once(&mut lifetime, Lifetime::Endless, TWO_TIMES)?;
                    let deadline = unit.member_deadline(tx, options.word(), "hsetex")?;
                    lifetime = Some(Lifetime::Until(deadline));
                }
            }
        }
        Err(wrong_arity("hsetex"))
    }

    /// The number and the pairs behind `FIELDS`, which are all that is left.
    fn read_pairs(args: Args<'a>, index: usize) -> Result<Args<'a>, Refusal> {
        const INVALID_COUNT: Refusal = Refusal::error("ERR invalid number of fields");
        let count = args.get(index).ok_or_else(|| wrong_arity("hsetex"))?;
        let count = parse_i64(count).filter(|count| *count > 0).ok_or(INVALID_COUNT)?;
        let pairs = args.skip(index + 1);
        let fits = count.checked_mul(2) == Some(pairs.len() as i64);
        if fits { Ok(pairs) } else { Err(wrong_arity("hsetex")) }
    }

    fn fields(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.pairs.iter().step_by(2)
    }

    /// Whether the conditions hold.
    fn admits(&self, tx: &Tx, key: &[u8]) -> Result<bool, Refusal> {
        let hash = tx.lookup_write_view::<Hash>(key)?;
        let exists =
            |field| hash.is_some_and(|hash| live(hash, field, tx.expired_until()).is_some());
        let wanted = self.fields_exist;
        Ok(self.key_exists.is_none_or(|wanted| hash.is_some() == wanted)
            && wanted.is_none_or(|wanted| self.fields().all(|field| exists(field) == wanted)))
    }
}

const TWO_CONDITIONS: Refusal =
    Refusal::error("ERR Only one of FXX or FNX arguments can be specified");
const TWO_TIMES: Refusal =
    Refusal::error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");

fn unknown(word: &[u8]) -> Refusal {
    showing("ERR unknown argument: ", shown(word, usize::MAX), "")
}

/// Takes what a word says; a second one is refused.
fn set_once<T>(place: &mut Option<T>, said: T, refusal: Refusal) -> Result<(), Refusal> {
    if place.replace(said).is_some() { Err(refusal) } else { Ok(()) }
}
