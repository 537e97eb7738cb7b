//! ACL LOAD and ACL SAVE: the users from a file, and into it.
//!
//! Invariant: both take turns with changes of the configuration, on heavy-work threads, so no
//! worker waits for a disk.

use commands::declare::{Command, Spec, exactly};
use engine::admission::acl_check;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::shared::OF_USERS;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::users;

pub(super) const LOAD: ControlCommand = Command {
    spec: Spec {
        name: "LOAD",
        since: "6.0.0",
        summary: "Reloads the rules from the configured ACL file.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: load,
};

pub(super) const SAVE: ControlCommand = Command {
    spec: Spec {
        name: "SAVE",
        since: "6.0.0",
        summary: "Saves the effective ACL rules in the configured ACL file.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..OF_USERS
    },
    subcommands: &[],
    run: save,
};

const NO_FILE: Refusal = Refusal::error(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.",
);

fn load(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let path = users::file(server).ok_or(NO_FILE)?;
    let own_id = context.session()?.client.id;
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let _turn = server.take_config_turn();
        let loaded = users::load_file(server, &path);
        let changed = loaded.map_err(|why| Refusal::owned(format!("ERR {why}")))?;
        reply.ok();
        acl_check::recheck_clients_of(server, &changed, Some(own_id));
        Ok(())
    }))
}

fn save(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let path = users::file(server).ok_or(NO_FILE)?;
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let _turn = server.take_config_turn();
        users::save_file(server, &path)?;
        reply.ok();
        Ok(())
    }))
}
