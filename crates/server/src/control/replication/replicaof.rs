//! REPLICAOF: which primary the server follows.
//!
//! Invariant: within EXEC the world is let go of, until all of the stream is applied, only where
//! the transaction has neither changed nor seen data yet: no client sees half of it. What a
//! transaction has changed is of the history that ends here, and is recorded before.

use commands::declare::{Command, Flags, Group, LockPlan, Spec, exactly};
use engine::runtime::background::wait_for_client;
use engine::session::client_info::describe;
use keyspace::{Acquisition, Refusal};
use proto::{Args, Reply};
use replication::replica::ReplicaofTarget;

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::links::{FailoverState, RoleChange};

pub(super) const REPLICAOF: ControlCommand = Command {
    spec: Spec {
        name: "REPLICAOF",
        since: "5.0.0",
        group: Group::Server,
        syntax: "<host port | NO ONE>",
        summary: "Configures a server as replica of another, or promotes it to a master.",
        complexity: "O(1)",
        arity: exactly(3),
        plan: LockPlan::World,
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_ASYNC_LOADING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: replicaof,
};

pub(super) const SLAVEOF: ControlCommand = Command {
    spec: Spec {
        name: "SLAVEOF",
        since: "1.0.0",
        group: Group::Server,
        syntax: "<host port | NO ONE>",
        summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
        complexity: "O(1)",
        arity: exactly(3),
        plan: LockPlan::World,
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_ASYNC_LOADING),
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: replicaof,
};

fn replicaof(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let target = ReplicaofTarget::parse(&args[1], &args[2]);
    let target = target.map_err(|why| Refusal::owned(format!("ERR {why}")))?;
    let server = context.server;
    if server.cluster.is_on() {
        return Err(Refusal::error("ERR REPLICAOF not allowed in cluster mode."));
    }
    if server.links.failover_state() != FailoverState::None {
        return Err(Refusal::error("ERR REPLICAOF not allowed while failing over."));
    }
    let client = &context.session()?.client;
    let client = describe(server, client, server.keyspace.clock().now_ms());
    let Some(unit) = &mut context.unit else {
        return Ok(ControlOutcome::offload_with_locks(move |_, _, reply| {
            let change = RoleChange { target, client: &client, may_release_world: true };
            let mut world = Acquisition::of_world(server.keyspace);
            wait_for_client(server.keyspace, &mut world)?;
            let (world, done) = server.links.replicaof(server, change, world);
            drop(world);
            reply.simple(done?.text());
            Ok(())
        }));
    };
    unit.tx.require_world()?;
    let may_release_world = unit.may_release_world();
    unit.commit_so_far()?;
    let done = unit.tx.lend_world(|world| {
        let change = RoleChange { target, client: &client, may_release_world };
        server.links.replicaof(server, change, world)
    });
    reply.simple(done?.text());
    Ok(ControlOutcome::Done)
}
