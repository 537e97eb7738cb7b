//! Fields by chance: HRANDFIELD.
//!
//! Invariant: each field whose time is not over is equally likely.

use base::Random;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply, Resp};
use structs::hash::{Hash, HashRef};
use structs::members::{MemberRef, sample};

use super::{charge, has_expired, is_live};
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, VALUE_OUT_OF_RANGE};
use crate::keys::{Access, first};
use crate::repeated::ReplyAllowance;
use crate::text::reply_member;

/// The most fields that one request may ask for with repetition: what comes of more would be
/// gigabytes out of a hash of any size.
const REPEATED_MAX: u64 = 1 << 26;

pub(super) const HRANDFIELD: DataCommand = Command {
    spec: Spec {
        name: "HRANDFIELD",
        since: "6.2.0",
        group: Group::Hash,
        syntax: "key [count [WITHVALUES]]",
        summary: "Returns one or more random fields from a hash.",
        complexity: "O(N) where N is the number of fields returned",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hrandfield,
};

fn hrandfield(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if args.len() > 2 {
        return hrandfield_with_count(tx, args, reply);
    }
    tx.expire_many_members::<Hash>(&args[1])?;
    let pool = FieldPool::of(tx, &args[1], 1)?;
    match pool.filter(|pool| pool.len() > 0) {
        Some(pool) => {
            let number = Random::from_entropy().below(pool.len());
            reply_member(pool.field(number).member, reply);
        }
        None => reply.null(),
    }
    Ok(())
}

fn hrandfield_with_count(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let count = integer(args, 2)?;
    if count == i64::MIN {
        return Err(Refusal::error(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && is(word, "WITHVALUES") => true,
        Some(_) => return Err(SYNTAX),
    };
    let wanted = count.unsigned_abs();
    // As in Redis, pairs may be half as many.
    if with_values && wanted > i64::MAX as u64 / 2 {
        return Err(VALUE_OUT_OF_RANGE);
    }
    tx.expire_many_members::<Hash>(&args[1])?;
    let Some(pool) = FieldPool::of(tx, &args[1], wanted)? else {
        reply.array(0);
        return Ok(());
    };
    if count < 0 && wanted > REPEATED_MAX {
        return Err(VALUE_OUT_OF_RANGE);
    }
    let len = pool.len();
    let mut random = Random::from_entropy();
    if count < 0 && len > 0 {
        charge(tx, wanted as usize)?;
        let mut allowance = ReplyAllowance::of(wanted)?;
        reply_header(wanted, with_values, reply);
        for _ in 0..wanted {
            let field = pool.field(random.below(len));
            allowance.take(field.member)?;
            if with_values {
                allowance.take(field.value)?;
            }
            reply_field(field, with_values, reply);
        }
    } else {
        charge(tx, wanted.min(len) as usize)?;
        reply_header(wanted.min(len), with_values, reply);
        for number in sample(len, wanted, &mut random) {
            reply_field(pool.field(number), with_values, reply);
        }
    }
    Ok(())
}

/// What is drawn from.
enum FieldPool<'t> {
    /// All fields.
    Whole(HashRef<'t>),
    /// Those whose time is not over; or all of a small hash, where finding one passes over others.
    Listed(Vec<MemberRef<'t>>),
}

impl<'t> FieldPool<'t> {
    fn of(tx: &'t Tx, key: &[u8], draws: u64) -> Result<Option<Self>, Refusal> {
        let now = tx.expired_until();
        let Some(hash) = tx.view::<Hash>(key)? else { return Ok(None) };
        let is_packed = matches!(hash, HashRef::Packed(_));
        if !has_expired(hash, now) && (!is_packed || draws <= 1) {
            return Ok(Some(Self::Whole(hash)));
        }
        charge(tx, hash.len() as usize)?;
        Ok(Some(Self::Listed(hash.iter().filter(|field| is_live(field, now)).collect())))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Whole(hash) => hash.len(),
            Self::Listed(fields) => fields.len() as u64,
        }
    }

    fn field(&self, number: u64) -> MemberRef<'t> {
        match self {
            Self::Whole(hash) => hash.at(number).expect("only numbers of fields are drawn"),
            Self::Listed(fields) => fields[number as usize],
        }
    }
}

fn reply_header(count: u64, with_values: bool, reply: &mut Reply<'_>) {
    let flat = with_values && reply.resp() == Resp::Two;
    reply.array(count as usize * if flat { 2 } else { 1 });
}

fn reply_field(field: MemberRef<'_>, with_values: bool, reply: &mut Reply<'_>) {
    if with_values && reply.resp() == Resp::Three {
        reply.array(2);
    }
    reply_member(field.member, reply);
    if with_values {
        reply_member(field.value, reply);
    }
}
