//! Giving keys a time to live: EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT.
//!
//! Invariant: the journal gets an absolute time in milliseconds, or DEL where it is over already,
//! so that a later replay does the same.

use base::quote::shown;
use base::time::UnixMillis;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{invalid_expire, showing};
use crate::keys::{Access, first};
use crate::{DataCommand, change};

pub(super) const EXPIRE: DataCommand = Command {
    spec: Spec {
        name: "EXPIRE",
        since: "1.0.0",
        syntax: "key seconds [NX | XX | GT | LT]",
        summary: "Sets the expiration time of a key in seconds.",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let deadline = Deadline { unit: 1000, from: tx.now(), command: "expire" };
        expire(tx, args, reply, &deadline)
    },
};

pub(super) const PEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "PEXPIRE",
        since: "2.6.0",
        syntax: "key milliseconds [NX | XX | GT | LT]",
        summary: "Sets the expiration time of a key in milliseconds.",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let deadline = Deadline { unit: 1, from: tx.now(), command: "pexpire" };
        expire(tx, args, reply, &deadline)
    },
};

pub(super) const EXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "EXPIREAT",
        since: "1.2.0",
        syntax: "key unix-time-seconds [NX | XX | GT | LT]",
        summary: "Sets the expiration time of a key to a Unix timestamp.",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        expire(tx, args, reply, &Deadline { unit: 1000, from: 0, command: "expireat" })
    },
};

pub(super) const PEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "PEXPIREAT",
        since: "2.6.0",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT]",
        summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        ..FAMILY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        expire(tx, args, reply, &Deadline { unit: 1, from: 0, command: "pexpireat" })
    },
};

/// What the four have in common.
const FAMILY: Spec = Spec {
    group: Group::Generic,
    complexity: "O(1)",
    arity: at_least(3),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    ..Spec::BASE
};

/// How one of the four reads its number.
struct Deadline {
    /// Milliseconds in one.
    unit: i64,
    /// What the time is counted from.
    from: UnixMillis,
    command: &'static str,
}

impl Deadline {
    /// The moment that a number stands for.
    fn at(&self, number: i64) -> Result<UnixMillis, Refusal> {
        let millis = number.checked_mul(self.unit);
        let moment = millis.and_then(|millis| self.from.checked_add(millis));
        moment.ok_or_else(|| invalid_expire(self.command))
    }
}

/// Under which conditions the deadline is set.
#[derive(Default)]
struct ExpireConditions {
    /// NX: there is none yet.
    none: bool,
    /// XX: there is one.
    some: bool,
    /// GT: the deadline is later than the present one.
    later: bool,
    /// LT: the deadline is earlier than the present one.
    earlier: bool,
}

impl ExpireConditions {
    fn parse(words: Args<'_>) -> Result<Self, Refusal> {
        let mut conditions = Self::default();
        for word in words.iter() {
            match word {
                word if is(word, "NX") => conditions.none = true,
                word if is(word, "XX") => conditions.some = true,
                word if is(word, "GT") => conditions.later = true,
                word if is(word, "LT") => conditions.earlier = true,
                word => {
                    let shown = shown(word, usize::MAX);
                    return Err(showing("ERR Unsupported option ", shown, ""));
                }
            }
        }
        let Self { none, some, later, earlier } = conditions;
        if none && (some || later || earlier) {
            return Err(Refusal::error(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            return Err(Refusal::error(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// Whether they hold; without a deadline a key lives for ever, which is later than any.
    fn admit(&self, present: Option<UnixMillis>, new: UnixMillis) -> bool {
        match present {
            None => !self.some && !self.later,
            Some(present) => {
                !(self.none || self.later && new <= present || self.earlier && new >= present)
            }
        }
    }
}

fn expire(
    tx: &mut Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    deadline: &Deadline,
) -> Result<(), Refusal> {
    let key = &args[1];
    let conditions = ExpireConditions::parse(args.skip(3))?;
    let deadline = deadline.at(integer(args, 2)?)?;
    let entry = tx.lookup_write(key)?;
    let admitted = entry.is_some_and(|entry| conditions.admit(entry.deadline(), deadline));
    if admitted {
        change::expire(tx, key, deadline)?;
    }
    reply.integer(i64::from(admitted));
    Ok(())
}
