//! HIMPORT: names of fields that a session says once, for many hashes that have them all. HIMPORT
//! SET is a data command; `execute` gives it its fields.
//!
//! Invariant: a fieldset has at least one field, and none twice. The texts of its errors are told
//! by the clients' own tests, as the pages do not have them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use commands::declare::{Command, Group, Spec, at_least, exactly};
use keyspace::Refusal;
use proto::{Args, OwnedArgs, Reply};

use super::context::{Context, ControlCommand, Next};
use super::help::container;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&HIMPORT];

const DUPLICATE: Refusal = Refusal::error("ERR duplicate field name in fieldset");
const UNKNOWN: Refusal = Refusal::error("ERR no such fieldset");
const MISMATCH: Refusal = Refusal::error("ERR value count does not match fieldset field count");

const TOO_LARGE: Refusal = Refusal::error("ERR fieldsets of this connection take too much memory");

/// What the fieldsets of a session may take, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// What a fieldset takes, about.
fn size(name: &[u8], fields: Args<'_>) -> usize {
    const OF_ITSELF: usize = 128;
    OF_ITSELF + name.len() + fields.total_bytes() + fields.len() * size_of::<u64>()
}

/// What a session has prepared; few have anything.
#[derive(Clone, Default)]
pub(crate) struct Fieldsets(Option<Box<Prepared>>);

#[derive(Clone, Default)]
struct Prepared {
    by_name: BTreeMap<Box<[u8]>, Arc<OwnedArgs>>,
    memory: usize,
}

impl Fieldsets {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Forgets all of them; how many.
    pub(crate) fn clear(&mut self) -> usize {
        self.0.take().map_or(0, |prepared| prepared.by_name.len())
    }

    /// Keeps a fieldset, in the place of one of its name.
    fn insert(&mut self, name: &[u8], fields: Args<'_>) -> Result<(), Refusal> {
        let prepared = self.0.get_or_insert_default();
        let memory = size(name, fields);
        let old = prepared.by_name.get(name).map_or(0, |old| size(name, old.as_args()));
        if prepared.memory - old + memory > MEMORY_MAX {
            return Err(TOO_LARGE);
        }
        prepared.memory = prepared.memory - old + memory;
        prepared.by_name.insert(name.into(), Arc::new(OwnedArgs::from(fields)));
        Ok(())
    }

    /// Forgets a fieldset; whether it was there.
    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(prepared) = &mut self.0 else { return false };
        let Some(old) = prepared.by_name.remove(name) else { return false };
        prepared.memory -= size(name, old.as_args());
        true
    }

    /// The words of HIMPORT SET with each value's field before it.
    pub(crate) fn expand(&self, args: Args<'_>) -> Result<OwnedArgs, Refusal> {
        let prepared = self.0.as_ref().ok_or(UNKNOWN)?;
        let fields = prepared.by_name.get(&args[3]).ok_or(UNKNOWN)?.as_args();
        let values = args.skip(4);
        if fields.len() != values.len() {
            return Err(MISMATCH);
        }
        let pairs = fields.iter().zip(values.iter()).flat_map(|(field, value)| [field, value]);
        Ok(args.slice(0..4).iter().chain(pairs).collect())
    }
}

const HIMPORT: ControlCommand = Command {
    spec: Spec {
        name: "HIMPORT",
        summary: "A container for session-based hash import commands using fieldsets.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..COMMON
    },
    subcommands: &[PREPARE, DISCARD, DISCARDALL],
    run: container,
};

/// What all have in common.
const COMMON: Spec = Spec { since: "8.10.0", group: Group::Hash, ..Spec::BASE };

const PREPARE: ControlCommand = Command {
    spec: Spec {
        name: "PREPARE",
        syntax: "fieldset-name field [field ...]",
        summary: "Defines a session-local fieldset with an ordered list of field names.",
        complexity: "O(N*log(N)) where N is the number of fields.",
        arity: at_least(4),
        ..COMMON
    },
    subcommands: &[],
    run: prepare,
};

fn prepare(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let fields = args.skip(3);
    let mut seen = HashSet::new();
    if !fields.iter().all(|field| seen.insert(field)) {
        return Err(DUPLICATE);
    }
    context.session()?.fieldsets_mut().insert(&args[2], fields)?;
    reply.ok();
    Ok(Next::Done)
}

const DISCARD: ControlCommand = Command {
    spec: Spec {
        name: "DISCARD",
        syntax: "fieldset-name",
        summary: "Removes a single session-local fieldset by name.",
        complexity: "O(N) where N is the number of session-local fieldsets.",
        arity: exactly(3),
        ..COMMON
    },
    subcommands: &[],
    run: |context, args, reply| {
        let found = context.session()?.fieldsets_mut().remove(&args[2]);
        reply.integer(i64::from(found));
        Ok(Next::Done)
    },
};

const DISCARDALL: ControlCommand = Command {
    spec: Spec {
        name: "DISCARDALL",
        summary: "Removes all session-local fieldsets for the connection.",
        complexity: "O(N) where N is the number of session-local fieldsets.",
        arity: exactly(2),
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        reply.integer(context.session()?.forget_fieldsets() as i64);
        Ok(Next::Done)
    },
};
