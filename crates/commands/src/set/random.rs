//! Members by chance: SPOP and SRANDMEMBER.
//!
//! Invariant: every member is as likely as any other. The journal gets what SPOP removed, by name.

use base::Random;
use base::number::parse_i64;
use keyspace::{EntryRef, EventClass, Refusal, Tx};
use proto::Reply;
use structs::members::{Text, sample};
use structs::object::Container;
use structs::set::{Set, SetRef};

use super::{CHANGED_NS, FOUND_NS, PASSED_NS, notify_changed};
use crate::DataCommand;
use crate::arguments::symmetric;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{NOT_POSITIVE, SYNTAX};
use crate::keys::{Access, first};
use crate::repeated::ReplyAllowance;
use crate::text::reply_member;

/// Members that one SREM in the journal names.
const JOURNALLED_MAX: usize = 1024;

pub(super) const SPOP: DataCommand = Command {
    spec: Spec {
        name: "SPOP",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key [count]",
        summary: "Returns one or more random members from a set after removing them. Deletes the \
                  set if the last member was popped.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the \
                     passed count.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        tips: &["nondeterministic_output"],
        history: &[("3.2.0", "Added the `count` argument.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| match args.len() {
        2 => pop(tx, &args[1], reply),
        3 => {
            let count = parse_i64(&args[2]).and_then(|count| u64::try_from(count).ok());
            pop_many(tx, &args[1], count.ok_or(NOT_POSITIVE)?, reply)
        }
        _ => Err(SYNTAX),
    },
};

fn pop(tx: &mut Tx, key: &[u8], reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if tx.peek_view::<Set>(key)?.is_none() {
        reply.null();
        return Ok(());
    }
    let mut random = Random::from_entropy();
    let (popped, outcome) = tx.edit(key, |set: &mut Set| set.pop(&mut random))?;
    let Some(member) = popped else {
        reply.null();
        return Ok(());
    };
    notify_changed(tx, key, "spop", 1, outcome);
    tx.effects_mut().instead(&[b"SREM", key, &member]);
    reply.bulk(&member);
    Ok(())
}

fn pop_many(tx: &mut Tx, key: &[u8], count: u64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let Some(set) = tx.peek_view::<Set>(key)? else {
        reply.set(0);
        return Ok(());
    };
    if count == 0 {
        reply.set(0);
        return Ok(());
    }
    let work = match set {
        _ if count >= set.len() => set.len() * PASSED_NS,
        // What stays is written anew.
        SetRef::Packed(_) => set.len() * PASSED_NS,
        SetRef::Large(_) => count * (FOUND_NS + CHANGED_NS),
    };
    tx.charge(work)?;
    tx.refresh_members(key)?;
    let len = tx.peek_view::<Set>(key)?.map_or(0, SetRef::len);
    if count >= len {
        return pop_all(tx, key, len, reply);
    }
    let mut random = Random::from_entropy();
    let (popped, outcome) = tx.edit(key, |set: &mut Set| set.pop_many(count, &mut random))?;
    notify_changed(tx, key, "spop", popped.len() as u64, outcome);
    for members in popped.chunks(JOURNALLED_MAX) {
        let words: [&[u8]; 2] = [b"SREM", key];
        let words: Vec<&[u8]> =
            words.into_iter().chain(members.iter().map(Vec::as_slice)).collect();
        tx.effects_mut().instead(&words);
    }
    reply.set(popped.len());
    popped.iter().for_each(|member| reply.bulk(member));
    Ok(())
}

/// Pops what is there; an expiry may have left nothing.
fn pop_all(tx: &mut Tx, key: &[u8], len: u64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let before = tx.effects().changes();
    let Some(entry) = tx.take(key)? else {
        reply.set(0);
        return Ok(());
    };
    tx.effects_mut().set_changes(before + len);
    tx.event(EventClass::Set, "spop", key);
    tx.event(EventClass::Generic, "del", key);
    tx.effects_mut().instead(&[b"DEL", key]);
    reply.set(len as usize);
    set_of(entry.borrow()).iter().for_each(|member| reply_member(member.member, reply));
    tx.discard(entry);
    Ok(())
}

fn set_of(entry: EntryRef<'_>) -> SetRef<'_> {
    Set::view(entry.stored().expect("a set is a container"))
}

pub(super) const SRANDMEMBER: DataCommand = Command {
    spec: Spec {
        name: "SRANDMEMBER",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key [count]",
        summary: "Get one or multiple random members from a set.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute \
                     value of the passed count.",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        history: &[("2.6.0", "Added the optional `count` argument.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| match args.len() {
        2 => choose(tx, &args[1], reply),
        3 => choose_many(tx, &args[1], symmetric(&args[2])?, reply),
        _ => Err(SYNTAX),
    },
};

fn choose(tx: &mut Tx, key: &[u8], reply: &mut Reply<'_>) -> Result<(), Refusal> {
    tx.expire_many_members::<Set>(key)?;
    let Some(set) = tx.view::<Set>(key)? else {
        reply.null();
        return Ok(());
    };
    let pool = MemberPool::new(tx, set, 1)?;
    match pool.len() {
        0 => reply.null(),
        len => reply_member(pool.at(Random::from_entropy().below(len)), reply),
    }
    Ok(())
}

fn choose_many(tx: &mut Tx, key: &[u8], count: i64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    tx.expire_many_members::<Set>(key)?;
    let set = tx.view::<Set>(key)?.filter(|_| count != 0);
    let Some(set) = set else {
        reply.array(0);
        return Ok(());
    };
    let wanted = count.unsigned_abs();
    if count < 0 {
        ReplyAllowance::of(wanted)?;
    }
    let drawn = if count < 0 { wanted } else { wanted.min(set.len()) };
    tx.charge(drawn * FOUND_NS)?;
    let pool = MemberPool::new(tx, set, drawn)?;
    let mut random = Random::from_entropy();
    if pool.len() == 0 {
        reply.array(0);
    } else if count > 0 {
        let chosen = sample(pool.len(), wanted, &mut random);
        reply.array(chosen.len());
        chosen.into_iter().for_each(|index| reply_member(pool.at(index), reply));
    } else {
        repeat(&pool, wanted, &mut random, reply)?;
    }
    Ok(())
}

/// Replies members that may be the same.
fn repeat(
    pool: &MemberPool<'_>,
    count: u64,
    random: &mut Random,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let mut allowance = ReplyAllowance::of(count)?;
    reply.array(count as usize);
    for _ in 0..count {
        let member = pool.at(random.below(pool.len()));
        allowance.take(member)?;
        reply_member(member, reply);
    }
    Ok(())
}

/// The members to draw from, by number.
enum MemberPool<'a> {
    /// Each is found by its number.
    Whole(SetRef<'a>),
    /// Members of a small set, where finding one passes over others, or of one where some expired.
    Listed(Vec<Text<'a>>),
}

impl<'a> MemberPool<'a> {
    /// The members of a set from which so many are to be drawn.
    fn new(tx: &Tx, set: SetRef<'a>, draws: u64) -> Result<Self, Refusal> {
        let is_packed = matches!(set, SetRef::Packed(_));
        if !set.has_expired(tx.expired_until()) && (!is_packed || draws <= 1) {
            return Ok(Self::Whole(set));
        }
        tx.charge(set.len() * PASSED_NS)?;
        Ok(Self::Listed(set.alive(tx.expired_until()).collect()))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Whole(set) => set.len(),
            Self::Listed(members) => members.len() as u64,
        }
    }

    fn at(&self, index: u64) -> Text<'a> {
        match self {
            Self::Whole(set) => set.at(index).expect("numbers are drawn below the count").member,
            Self::Listed(members) => members[index as usize],
        }
    }
}
