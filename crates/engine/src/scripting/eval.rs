//! EVAL, EVALSHA and their forms that only read.
//!
//! Invariant: what is wrong with a request is said before anything is locked.

use commands::declare::{Command, Flags, Group, Spec, at_least};
use commands::errors::{NOT_AN_INTEGER, TOO_MANY_KEYS};
use commands::{Access, KeySpec, Role, keys};
use keyspace::Refusal;
use proto::Args;
use script::{ScriptError, Sha1};

use super::accounting::Accounting;
use super::interpreter::with_interpreter;
use super::run::{CallTarget, ScriptCall};
use crate::admission::gates::MASTERDOWN;
use crate::transaction::unit::{Program, ProgramRequest, UnitCommand, UnitRefusals};

/// All of them.
pub(crate) const COMMANDS: &[&UnitCommand] = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO];

/// The reply to SCRIPT DEBUG YES and SYNC.
pub const NO_DEBUGGER: Refusal =
    Refusal::error("ERR There is no debugger of scripts here: SCRIPT DEBUG takes NO only");
const NO_SCRIPT: Refusal = Refusal::error("NOSCRIPT No matching script. Please use EVAL.");
const NOT_READ_ONLY: Refusal =
    Refusal::error("ERR Can not execute a script with write flag using *_ro command.");
const NO_CLUSTER: Refusal =
    Refusal::error("ERR Can not run script on cluster, 'no-cluster' flag is set.");
const NEGATIVE_KEYS: Refusal = Refusal::error("ERR Number of keys can't be negative");

/// What all have in common.
pub(crate) const COMMON: Spec = Spec {
    since: "2.6.0",
    group: Group::Scripting,
    syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
    complexity: "Depends on the script that is executed.",
    arity: at_least(3),
    flags: Flags::NOSCRIPT
        .and(Flags::STALE)
        .and(Flags::SKIP_MONITOR)
        .and(Flags::MAY_REPLICATE)
        .and(Flags::NO_MANDATORY_KEYS)
        .and(Flags::MOVABLEKEYS),
    keys: &[ANY_USE],
    ..Spec::BASE
};

/// The keys of a script, and what clients are told of them where its text is given.
const ANY_USE: KeySpec = keys::counted(2, 1, Access::RW.and(Access::ACCESS).and(Access::UPDATE));
pub(crate) const NOTED_USE: KeySpec =
    ANY_USE.noted("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE");

/// The same where it only reads.
const ANY_READING: KeySpec = keys::counted(2, 1, Access::RO.and(Access::ACCESS));
pub(crate) const NOTED_READING: KeySpec = ANY_READING
    .noted("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS");

/// What the forms that only read have in common.
pub(crate) const READ_ONLY: Spec = Spec {
    since: "7.0.0",
    flags: Flags::READONLY
        .and(Flags::NOSCRIPT)
        .and(Flags::STALE)
        .and(Flags::SKIP_MONITOR)
        .and(Flags::NO_MANDATORY_KEYS)
        .and(Flags::MOVABLEKEYS),
    keys: &[ANY_READING],
    ..COMMON
};

const EVAL: UnitCommand = Command {
    spec: Spec {
        name: "EVAL",
        role: Role::RunScript,
        summary: "Executes a server-side Lua script.",
        keys: &[NOTED_USE],
        ..COMMON
    },
    subcommands: &[],
    run: |asked, args| evaluate(&asked, args),
};

const EVALSHA: UnitCommand = Command {
    spec: Spec {
        name: "EVALSHA",
        role: Role::RunDigest,
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Executes a server-side Lua script by SHA1 digest.",
        ..COMMON
    },
    subcommands: &[],
    run: |asked, args| evaluate_digest(&asked, args),
};

const EVAL_RO: UnitCommand = Command {
    spec: Spec {
        name: "EVAL_RO",
        role: Role::RunScript,
        summary: "Executes a read-only server-side Lua script.",
        keys: &[NOTED_READING],
        ..READ_ONLY
    },
    subcommands: &[],
    run: |asked, args| evaluate(&asked, args),
};

const EVALSHA_RO: UnitCommand = Command {
    spec: Spec {
        name: "EVALSHA_RO",
        role: Role::RunDigest,
        syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Executes a read-only server-side Lua script by SHA1 digest.",
        ..READ_ONLY
    },
    subcommands: &[],
    run: |asked, args| evaluate_digest(&asked, args),
};

fn evaluate(asked: &ProgramRequest<'_>, args: Args<'_>) -> Result<Box<dyn Program>, Refusal> {
    let keys = count_keys(args, || NOT_AN_INTEGER)?;
    let cache = &asked.server.scripts.cache;
    let digest = Sha1::of(&args[1]);
    if let Some(program) = cache.get(digest) {
        let (flags, has_claim) = (program.flags(), program.claim());
        let call = prepare(asked, keys, CallTarget::Script(program), flags)?;
        return Ok(Box::new(ScriptCall { has_claim, ..call }));
    }
    let (program, has_claim) = cache.evaluate(&args[1]).map_err(refusal)?;
    // Only what can be compiled is kept; an interpreter keeps what it compiled, too.
    if let Err(error) = with_interpreter(asked.server, |interpreter| interpreter.check(&program)) {
        if has_claim {
            cache.withdraw(&program);
        }
        return Err(refusal(error));
    }
    let flags = program.flags();
    let call = prepare(asked, keys, CallTarget::Script(program), flags)?;
    Ok(Box::new(ScriptCall { has_claim, ..call }))
}

fn evaluate_digest(
    asked: &ProgramRequest<'_>,
    args: Args<'_>,
) -> Result<Box<dyn Program>, Refusal> {
    let keys = count_keys(args, || NOT_AN_INTEGER)?;
    let Some(program) = asked.server.scripts.cache.get_by_digits(&args[1]) else {
        return Err(NO_SCRIPT);
    };
    let flags = program.flags();
    Ok(Box::new(prepare(asked, keys, CallTarget::Script(program), flags)?))
}

pub(crate) fn prepare(
    asked: &ProgramRequest<'_>,
    keys: usize,
    code: CallTarget,
    flags: script::Flags,
) -> Result<ScriptCall, Refusal> {
    if asked.wants_debugger {
        return Err(NO_DEBUGGER);
    }
    let asks_to_read = asked.entry.spec.flags.has(Flags::READONLY);
    if asks_to_read && !flags.no_writes && !flags.is_compatible {
        return Err(NOT_READ_ONLY);
    }
    // What says itself what it does is told at once; other scripts are when they write.
    if !flags.no_writes && !flags.is_compatible {
        let initial_refusals =
            asked.initial_refusals.unwrap_or_else(|| UnitRefusals::now(asked.server));
        let what = Flags::WRITE.and(Flags::DENYOOM);
        let refusal = initial_refusals.refuse(asked.server, what, flags.allow_oom);
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
    }
    if flags.no_cluster {
        if asked.server.gates.routing.is_on() {
            return Err(NO_CLUSTER);
        }
        asked.server.keyspace.compatibility().note();
    }
    if asked.server.gates.replica_role.is_stale() && !flags.allow_stale {
        return Err(MASTERDOWN);
    }
    Ok(ScriptCall {
        server: asked.server,
        code,
        entry: asked.entry,
        keys,
        resp: asked.resp,
        subject: asked.subject.clone(),
        is_part: asked.initial_refusals.is_some(),
        is_read_only: asks_to_read || flags.no_writes,
        allows_oom: flags.allow_oom,
        access: asked.access,
        allows_cross_slot: flags.allow_cross_slot_keys || flags.is_compatible,
        seed: None,
        has_failed: false,
        running: None,
        was_killed: false,
        has_claim: false,
        accounting: Accounting::default(),
        saw: 0,
        began: (0, 0),
    })
}

/// How many keys a request says it has.
pub(crate) fn count_keys(
    args: Args<'_>,
    no_number: impl FnOnce() -> Refusal,
) -> Result<usize, Refusal> {
    let keys = base::number::parse_i64(&args[2]).ok_or_else(no_number)?;
    let keys = usize::try_from(keys).map_err(|_| NEGATIVE_KEYS)?;
    if keys > args.len() - 3 { Err(TOO_MANY_KEYS) } else { Ok(keys) }
}

/// The error of a script as the client's reply.
pub fn refusal(error: ScriptError) -> Refusal {
    Refusal::owned(error.text)
}
