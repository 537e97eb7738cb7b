//! What SENTINEL shows of primaries, replicas, other Sentinels and scripts, and what INFO does.
//!
//! Invariant: an instance is a map of texts, in the protocol's order of fields.

use base::glob;
use proto::{Args, Reply};

use super::{Answer, NO_SUCH_MASTER, refuse, text};
use crate::Millis;
use crate::address::host_and_port;
use crate::context::Context;
use crate::engine::Sentinel;
use crate::failover::FailoverKind;
use crate::instance::{Instance, Node};
use crate::primary::{Peer, Primary, PrimaryState, Reconf, Replica};
use crate::scripts::JobState;

/// SENTINEL MASTERS
pub(super) fn masters(sentinel: &mut Sentinel, _: Args<'_>, mut reply: Reply<'_>) -> Answer {
    reply.array(sentinel.primaries.len());
    for primary in sentinel.primaries.values() {
        show_primary(&sentinel.context, primary, &mut reply);
    }
    Answer::Ready
}

/// SENTINEL MASTER name
pub(super) fn master(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.get(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    show_primary(&sentinel.context, primary, &mut reply);
    Answer::Ready
}

/// SENTINEL REPLICAS name
pub(super) fn replicas(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.get(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    let shown: Vec<&Replica> =
        primary.replicas.values().filter(|replica| replica.is_announced).collect();
    reply.array(shown.len());
    for replica in shown {
        show_replica(&sentinel.context, &primary.head, replica, &mut reply);
    }
    Answer::Ready
}

/// SENTINEL SENTINELS name
pub(super) fn sentinels(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.get(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    reply.array(primary.peers.len());
    for peer in primary.peers.values() {
        show_peer(&sentinel.context, peer, &mut reply);
    }
    Answer::Ready
}

/// ROLE
pub(super) fn role(sentinel: &mut Sentinel, _: Args<'_>, mut reply: Reply<'_>) -> Answer {
    reply.array(2);
    reply.bulk(b"sentinel");
    reply.array(sentinel.primaries.len());
    for name in sentinel.primaries.keys() {
        reply.bulk(name.as_bytes());
    }
    Answer::Ready
}

/// SENTINEL INFO-CACHE name [name ...]
pub(super) fn info_cache(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let is_asked =
        |primary: &&Primary| args.skip(2).iter().any(|name| name == primary.head.name.as_bytes());
    let asked: Vec<&Primary> = sentinel.primaries.values().filter(is_asked).collect();
    reply.array(asked.len() * 2);
    let now = sentinel.context.now;
    for primary in asked {
        reply.bulk(primary.head.name.as_bytes());
        reply.array(1 + primary.replicas.len());
        let replicas = primary.replicas.values().map(|replica| &replica.node);
        for node in std::iter::once(&primary.head.node).chain(replicas) {
            reply.array(2);
            reply.integer(node.info_at.map_or(0, |at| now - at));
            match node.info_at {
                Some(_) => reply.bulk(&node.info),
                None => reply.null(),
            }
        }
    }
    Answer::Ready
}

/// SENTINEL PENDING-SCRIPTS
pub(super) fn pending_scripts(
    sentinel: &mut Sentinel,
    _: Args<'_>,
    mut reply: Reply<'_>,
) -> Answer {
    let now = sentinel.context.now;
    reply.array(sentinel.context.scripts.jobs.len());
    for job in &sentinel.context.scripts.jobs {
        let (flags, pid, (word, time)) = match job.state {
            JobState::Running { pid, since, .. } => ("running", pid, ("run-time", now - since)),
            JobState::Waiting(until) => {
                let delay = until.map_or(0, |until| (until - now).max(0));
                ("scheduled", 0, ("run-delay", delay))
            }
        };
        reply.map(5);
        reply.bulk(b"argv");
        reply.array(1 + job.arguments.len());
        reply.bulk(job.path.as_bytes());
        job.arguments.iter().for_each(|argument| reply.bulk(argument.as_bytes()));
        let mut fields = Fields(Vec::new());
        fields.add("flags", flags);
        fields.add("pid", pid);
        fields.add(word, time);
        fields.add("retry-num", job.runs);
        fields.pairs(&mut reply);
    }
    Answer::Ready
}

/// The fields of a map.
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn add(&mut self, name: &'static str, value: impl std::fmt::Display) {
        self.0.push((name, value.to_string()));
    }

    fn add_ago(&mut self, name: &'static str, now: Millis, since: Option<Millis>) {
        self.add(name, since.map_or(0, |since| now - since));
    }

    fn pairs(&self, reply: &mut Reply<'_>) {
        for (name, value) in &self.0 {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }

    fn write(&self, reply: &mut Reply<'_>) {
        reply.map(self.0.len());
        self.pairs(reply);
    }
}

fn show_primary(context: &Context, primary: &Primary, reply: &mut Reply<'_>) {
    let (head, settings) = (&primary.head, &primary.head.settings);
    let mut fields = Fields(Vec::new());
    let flags = primary_flags(context, head);
    let state = head.failover.is_running().then(|| head.failover.stage.word());
    let run_id = head.node.run_id.as_deref().unwrap_or_default();
    fields.add_instance(context, (&head.name, run_id), &head.instance, &flags, state);
    let down = [("s-down-time", head.instance.subjective), ("o-down-time", head.objective)];
    for (name, down) in down.into_iter().filter(|(_, down)| down.is_down) {
        fields.add_ago(name, context.now, down.since);
    }
    fields.add("down-after-milliseconds", settings.down_after);
    fields.add_node(context, &head.node);
    fields.add("config-epoch", head.config_epoch);
    fields.add("num-slaves", primary.replicas.len());
    fields.add("num-other-sentinels", primary.peers.len());
    fields.add("quorum", settings.quorum);
    fields.add("failover-timeout", settings.failover_timeout);
    fields.add("parallel-syncs", settings.parallel_syncs);
    let scripts = [
        ("notification-script", &settings.notification_script),
        ("client-reconfig-script", &settings.reconfig_script),
    ];
    for (name, path) in scripts {
        if let Some(path) = path {
            fields.add(name, path);
        }
    }
    fields.write(reply);
}

fn show_replica(context: &Context, head: &PrimaryState, replica: &Replica, reply: &mut Reply<'_>) {
    let mut fields = Fields(Vec::new());
    let flags = replica_flags(context, head, replica);
    let run_id = replica.node.run_id.as_deref().unwrap_or_default();
    fields.add_instance(context, (&replica.name, run_id), &replica.instance, &flags, None);
    if replica.instance.is_down() {
        fields.add_ago("s-down-time", context.now, replica.instance.subjective.since);
    }
    fields.add("down-after-milliseconds", replica.instance.down_after);
    fields.add_node(context, &replica.node);
    fields.add("master-link-down-time", replica.link_down);
    fields.add("master-link-status", if replica.is_link_up { "ok" } else { "err" });
    fields.add("master-host", replica.primary_host.as_deref().unwrap_or("?"));
    fields.add("master-port", replica.primary_port);
    fields.add("slave-priority", replica.priority);
    fields.add("slave-repl-offset", replica.offset);
    fields.add("replica-announced", u8::from(replica.is_announced));
    fields.write(reply);
}

fn show_peer(context: &Context, peer: &Peer, reply: &mut Reply<'_>) {
    let mut fields = Fields(Vec::new());
    let mut flags = Flags::of(context, &peer.instance, None, "sentinel");
    flags.add(peer.says_down, "master_down");
    fields.add_instance(context, (&peer.id, &peer.id), &peer.instance, &flags.0, None);
    if peer.instance.is_down() {
        fields.add_ago("s-down-time", context.now, peer.instance.subjective.since);
    }
    fields.add("down-after-milliseconds", peer.instance.down_after);
    fields.add("last-hello-message", context.now - peer.last_hello_at);
    fields.add("voted-leader", peer.leader.as_deref().unwrap_or("?"));
    fields.add("voted-leader-epoch", peer.leader_epoch);
    fields.write(reply);
}

impl Fields {
    /// What every instance has, up to the times when it was down.
    fn add_instance(
        &mut self,
        context: &Context,
        (name, run_id): (&str, &str),
        instance: &Instance,
        flags: &str,
        state: Option<&str>,
    ) {
        let (now, link) = (context.now, context.links.get(instance.link));
        self.add("name", name);
        self.add("ip", context.shown(&instance.address));
        self.add("port", instance.address.port);
        self.add("runid", run_id);
        self.add("flags", flags);
        self.add("link-pending-commands", link.awaited.len());
        self.add("link-refcount", link.users);
        if let Some(state) = state {
            self.add("failover-state", state);
        }
        self.add_ago("last-ping-sent", now, link.ping_since);
        self.add("last-ok-ping-reply", now - link.well_at);
        self.add("last-ping-reply", now - link.answer_at);
    }

    fn add_node(&mut self, context: &Context, node: &Node) {
        self.add_ago("info-refresh", context.now, node.info_at);
        self.add("role-reported", node.role.word());
        self.add("role-reported-time", context.now - node.role_since);
    }
}

/// Words, set apart by commas.
struct Flags(String);

impl Flags {
    fn of(context: &Context, instance: &Instance, objective: Option<bool>, kind: &str) -> Flags {
        let mut flags = Flags(String::new());
        flags.add(instance.is_down(), "s_down");
        flags.add(objective == Some(true), "o_down");
        flags.add(true, kind);
        flags.add(context.links.get(instance.link).is_disconnected(), "disconnected");
        flags
    }

    fn add(&mut self, is_set: bool, flag: &str) {
        if is_set && !self.0.is_empty() {
            self.0.push(',');
        }
        if is_set {
            self.0.push_str(flag);
        }
    }
}

fn primary_flags(context: &Context, head: &PrimaryState) -> String {
    let mut flags = Flags::of(context, &head.instance, Some(head.objective.is_down), "master");
    let failover = &head.failover;
    flags.add(failover.is_running(), "failover_in_progress");
    flags.add(failover.kind == FailoverKind::Forced, "force_failover");
    flags.add(failover.kind == FailoverKind::Coordinated, "coord_failover");
    flags.add(head.instance.is_script_killed, "script_kill_sent");
    flags.add(head.node.rebooted_at.is_some(), "master_reboot");
    flags.0
}

fn replica_flags(context: &Context, head: &PrimaryState, replica: &Replica) -> String {
    let mut flags = Flags::of(context, &replica.instance, None, "slave");
    flags.add(head.failover.stage.chosen() == Some(&replica.name), "promoted");
    flags.add(matches!(replica.reconf, Reconf::Sent(_)), "reconf_sent");
    flags.add(replica.reconf == Reconf::InProgress, "reconf_inprog");
    flags.add(replica.reconf == Reconf::Done, "reconf_done");
    flags.add(replica.instance.is_script_killed, "script_kill_sent");
    flags.add(replica.node.rebooted_at.is_some(), "master_reboot");
    flags.0
}

impl Sentinel {
    /// The section `Sentinel` of INFO, with its head line.
    pub fn info_section(&self) -> String {
        use std::fmt::Write;
        let context = &self.context;
        let tilted_for = context.tilt.since.map_or(-1, |since| (context.now - since) / 1000);
        let mut text = format!(
            "# Sentinel\r\nsentinel_masters:{}\r\nsentinel_tilt:{}\r\n\
             sentinel_tilt_since_seconds:{tilted_for}\r\nsentinel_total_tilt:{}\r\n\
             sentinel_running_scripts:{}\r\nsentinel_scripts_queue_length:{}\r\n\
             sentinel_simulate_failure_flags:{}\r\n",
            self.primaries.len(),
            u8::from(context.tilt.since.is_some()),
            context.tilt.count,
            context.scripts.running(),
            context.scripts.jobs.len(),
            context.failures.flags(),
        );
        for (index, primary) in self.primaries.values().enumerate() {
            let head = &primary.head;
            let status = match (head.objective.is_down, head.instance.is_down()) {
                (true, _) => "odown",
                (false, true) => "sdown",
                (false, false) => "ok",
            };
            let address = &head.instance.address;
            writeln!(
                text,
                "master{index}:name={},status={status},address={},slaves={},sentinels={}\r",
                head.name,
                host_and_port(&context.shown(address), address.port),
                primary.replicas.len(),
                primary.peers.len() + 1,
            )
            .expect("writing to a String cannot fail");
        }
        text
    }

    /// The names of the primaries that a pattern matches.
    pub(super) fn matching(&self, pattern: &[u8]) -> Vec<String> {
        let names = self.primaries.keys();
        names.filter(|name| glob::matches(pattern, name.as_bytes(), false)).cloned().collect()
    }
}
