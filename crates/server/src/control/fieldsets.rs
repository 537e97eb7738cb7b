//! HIMPORT: names of fields that a session says once, for many hashes that have them all. HIMPORT
//! SET is a data command; `execute` gives it its fields.
//!
//! Invariant: a fieldset has at least one field, and none twice. The texts of its errors are told
//! by the clients' own tests, as the pages do not have them.

use std::collections::HashSet;

use commands::declare::{Command, Group, Spec, at_least, exactly};
use engine::runtime::yielding::FEW;
use engine::session::fieldsets::Fieldsets;
use engine::session::{StepContext, StepOutcome, SteppedWork};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, ControlOutcome};
use super::help::container;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&HIMPORT];

const DUPLICATE: Refusal = Refusal::error("ERR duplicate field name in fieldset");

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
) -> Result<ControlOutcome, Refusal> {
    let fields = args.skip(3);
    if fields.len() > FEW && context.unit.is_none() {
        let work = EachField { seen: HashSet::new(), next: 3 };
        return Ok(ControlOutcome::in_steps(context.entry, args, work));
    }
    let mut seen = HashSet::new();
    if !fields.iter().all(|field| seen.insert(field)) {
        return Err(DUPLICATE);
    }
    context.session()?.change_fieldsets(|fieldsets| fieldsets.insert(&args[2], fields))?;
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// Looks whether any of very many fields is named twice.
struct EachField {
    seen: HashSet<Box<[u8]>>,
    /// The argument that comes next.
    next: usize,
}

impl SteppedWork for EachField {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        while let Some(field) = step_context.args.get(self.next) {
            if !self.seen.insert(field.into()) {
                return StepOutcome::Failed(DUPLICATE);
            }
            self.next += 1;
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        let (name, fields) = (&step_context.args[2], step_context.args.skip(3));
        let insert = |fieldsets: &mut Fieldsets| fieldsets.insert(name, fields);
        if let Err(refusal) = step_context.session.change_fieldsets(insert) {
            return StepOutcome::Failed(refusal);
        }
        Reply::new(step_context.out, step_context.session.resp).ok();
        StepOutcome::Done
    }
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
        let found = context.session()?.change_fieldsets(|fieldsets| fieldsets.remove(&args[2]));
        reply.integer(i64::from(found));
        Ok(ControlOutcome::Done)
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
        Ok(ControlOutcome::Done)
    },
};
