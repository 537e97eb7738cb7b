//! BACKUP: START, SEAL, STATUS, LIST, ABORT and CLEANUP, as the pages of Redis 8.10 have them.
//!
//! The pages do not have the texts of errors; those are our own.
//!
//! Invariant: what may wait for the disk runs off the workers.

use std::os::unix::ffi::OsStrExt;

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use durability::backup::{Backup, BackupStatus};
use durability::durability::Durability;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::{self, container};

pub(super) const BACKUP: ControlCommand = Command {
    spec: Spec {
        name: "BACKUP",
        since: SINCE,
        group: Group::Server,
        summary: "A container for backup management commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[START, SEAL, STATUS, LIST, ABORT, CLEANUP, HELP],
    run: container,
};

const SINCE: &str = "8.10.0";

/// What those have in common that act.
const ACTS: Spec = Spec {
    since: SINCE,
    group: Group::Server,
    complexity: "O(1)",
    arity: exactly(2),
    flags: Flags::ADMIN.and(Flags::NOSCRIPT),
    ..Spec::BASE
};

/// What those have in common that tell.
const TELLS: Spec = Spec { flags: Flags::ADMIN.and(Flags::STALE), ..ACTS };

const START: ControlCommand = Command {
    spec: Spec {
        name: "START",
        summary: "Start a new backup into the configured 'backupdirname'.",
        ..ACTS
    },
    subcommands: &[],
    run: |context, _, _| offload(context, Backup::start),
};

const SEAL: ControlCommand = Command {
    spec: Spec {
        name: "SEAL",
        summary: "Freeze the current backup (BASE + INCR + manifest).",
        ..ACTS
    },
    subcommands: &[],
    run: |context, _, _| offload(context, Backup::seal),
};

const ABORT: ControlCommand = Command {
    spec: Spec { name: "ABORT", summary: "Cancel a backup that has not been sealed yet.", ..ACTS },
    subcommands: &[],
    run: |context, _, _| offload(context, Backup::abort),
};

const CLEANUP: ControlCommand = Command {
    spec: Spec {
        name: "CLEANUP",
        summary: "Remove sealed backup files and return to idle.",
        ..ACTS
    },
    subcommands: &[],
    run: |context, _, _| offload(context, Backup::clean_up),
};

/// Has the work done where it may wait.
fn offload(
    context: &Context<'_>,
    step: fn(&Backup, &'static Durability) -> Result<(), String>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    Ok(ControlOutcome::offload(move |_, _, reply| {
        step(&server.backup, server).map_err(|why| Refusal::owned(format!("ERR {why}")))?;
        reply.ok();
        Ok(())
    }))
}

const STATUS: ControlCommand = Command {
    spec: Spec { name: "STATUS", summary: "Report the current backup state.", ..TELLS },
    subcommands: &[],
    run: status,
};

fn status(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let BackupStatus { stage, error, began, sealed, .. } = context.server.backup.status();
    let (began, sealed) = (began.to_string(), sealed.to_string());
    let fields = [
        ("state", stage.word()),
        ("error", &*error),
        ("start_time", &*began),
        ("end_time", &*sealed),
    ];
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(ControlOutcome::Done)
}

const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        summary: "List the immutable backup file paths pinned so far.",
        ..TELLS
    },
    subcommands: &[],
    run: list,
};

fn list(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let files = context.server.backup.status().files;
    reply.array(files.len());
    files.iter().for_each(|file| reply.bulk(file.as_os_str().as_bytes()));
    Ok(ControlOutcome::Done)
}

const HELP: ControlCommand = help::subcommand(Group::Server, SINCE, |_, _, reply| {
    help::help(
        reply,
        "BACKUP",
        &[
            "START",
            "    Begin a backup in the directory that backupdirname names.",
            "SEAL",
            "    End it: its files do not change any more.",
            "STATUS",
            "    Tell how far it is.",
            "LIST",
            "    Tell the files that do not change any more.",
            "ABORT",
            "    Give up a backup that is not sealed.",
            "CLEANUP",
            "    Remove the files of a backup that is sealed or has failed.",
        ],
    );
    Ok(ControlOutcome::Done)
});
