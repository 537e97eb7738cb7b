//! Asking a set: SCARD, SISMEMBER, SMEMBERS, SMISMEMBER.
//!
//! Invariant: what has expired is neither counted nor told.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::members::Text;
use structs::set::{Set, SetRef};

use super::{FOUND_NS, PASSED_NS};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, first};
use crate::long_reply::{is_long, reply_in_pieces};
use crate::text::reply_member;

pub(super) const SCARD: DataCommand = Command {
    spec: Spec {
        name: "SCARD",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key",
        summary: "Returns the number of members in a set.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: scard,
};

fn scard(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    tx.expire_many_members::<Set>(&args[1])?;
    let (now, set) = (tx.expired_until(), tx.view::<Set>(&args[1])?);
    let count = match set {
        None => 0,
        Some(set) if set.has_expired(now) => {
            tx.charge(set.len() * PASSED_NS)?;
            set.alive(now).count() as u64
        }
        Some(set) => set.len(),
    };
    reply.integer(count as i64);
    Ok(())
}

pub(super) const SISMEMBER: DataCommand = Command {
    spec: Spec {
        name: "SISMEMBER",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key member",
        summary: "Determines whether a member belongs to a set.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let set = tx.view::<Set>(&args[1])?;
        let is_member = set.is_some_and(|set| set.holds(Text::Bytes(&args[2]), tx.expired_until()));
        reply.integer(i64::from(is_member));
        Ok(())
    },
};

pub(super) const SMISMEMBER: DataCommand = Command {
    spec: Spec {
        name: "SMISMEMBER",
        since: "6.2.0",
        group: Group::Set,
        syntax: "key member [member ...]",
        summary: "Determines whether multiple members belong to a set.",
        complexity: "O(N) where N is the number of elements being checked for membership.",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: smismember,
};

fn smismember(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (set, members) = (tx.view::<Set>(&args[1])?, args.skip(2));
    tx.charge(members.len() as u64 * FOUND_NS)?;
    reply.array(members.len());
    for member in members.iter() {
        let is_member = set.is_some_and(|set| set.holds(Text::Bytes(member), tx.expired_until()));
        reply.integer(i64::from(is_member));
    }
    Ok(())
}

pub(super) const SMEMBERS: DataCommand = Command {
    spec: Spec {
        name: "SMEMBERS",
        since: "1.0.0",
        group: Group::Set,
        syntax: "key",
        summary: "Returns all members of a set.",
        complexity: "O(N) where N is the set cardinality.",
        arity: exactly(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output_order"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: smembers,
};

fn smembers(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let Some(set) = tx.view::<Set>(&args[1])? else {
        reply.set(0);
        return Ok(());
    };
    let cost = set.len() * PASSED_NS;
    if let SetRef::Large(large) = set
        && is_long(cost)
        && !set.has_expired(tx.expired_until())
    {
        reply.set(set.len() as usize);
        let large = large.clone();
        reply_in_pieces(tx, reply, set.len(), move |places, reply| {
            let members = large.members().range(places);
            members.for_each(|member| reply_member(member.member, reply));
        });
        return Ok(());
    }
    tx.charge(cost)?;
    let (mark, mut count) = (reply.defer(), 0);
    for member in set.alive(tx.expired_until()) {
        reply_member(member, reply);
        count += 1;
    }
    reply.finish_set(mark, count);
    Ok(())
}
