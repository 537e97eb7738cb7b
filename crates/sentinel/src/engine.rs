//! The engine: events in, actions out.
//!
//! Invariant: all that happens in one call belongs to one moment, and to one list of actions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::Random;
use proto::value::Value;
use proto::{OwnedArgs, Resp};

use crate::Millis;
use crate::context::{Context, Options, Promise};
use crate::event::{Action, ClientId, ConnectionId, Event};
use crate::hello::HELLO_CHANNEL;
use crate::info::is_run_id;
use crate::instance::Instance;
use crate::links::{Channel, LinkId, Owner, PendingReply};
use crate::notice::Level;
use crate::primary::Primary;

/// A Sentinel without sockets, files and a clock.
#[derive(Debug)]
pub struct Sentinel {
    pub(crate) context: Context,
    pub(crate) primaries: BTreeMap<String, Primary>,
    /// Commands that wait for a host to be looked up.
    pub(crate) parked: Vec<Parked>,
}

/// A command that waits for a host to be looked up.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) host: String,
    pub(crate) client: ClientId,
    pub(crate) resp: Resp,
    pub(crate) args: OwnedArgs,
}

impl Sentinel {
    /// A Sentinel that watches nothing yet.
    pub(crate) fn empty(options: Options, now: Millis, random: Random) -> Sentinel {
        Sentinel {
            context: Context::new(options, now, random),
            primaries: BTreeMap::new(),
            parked: Vec::new(),
        }
    }

    /// The first actions, before any event: primaries are announced, ticks begin.
    pub(crate) fn begin(&mut self) -> Vec<Action> {
        let context = &mut self.context;
        context.ensure_id();
        context.log(Level::Warning, format!("Sentinel ID is {}", context.my_id));
        for primary in self.primaries.values() {
            let quorum = primary.head.settings.quorum;
            let text = format!("{} quorum {quorum}", primary.head.text(context));
            primary.head.warn(context, "+monitor", text);
        }
        context.schedule_tick();
        context.take_actions()
    }

    /// Takes an event and its time: the actions to carry out, in this order.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Action> {
        self.context.advance(now);
        match event {
            Event::Tick => self.tick(),
            Event::Connected { connection, local } => self.connected(connection, local),
            Event::Disconnected { connection } => {
                self.context.links.forget(connection);
            }
            Event::Received { connection, value } => self.received(connection, value),
            Event::Command { client, resp, args } => self.command(client, resp, &args),
            Event::Resolved { host, ip } => self.resolved(&host, ip),
            Event::ScriptStarted { script, pid } => self.context.begin_script(script, pid),
            Event::ScriptEnded { script, end } => self.context.end_script(script, end),
        }
        self.context.take_actions()
    }

    /// The configuration of a list could not be put on disk: the list without its promises.
    ///
    /// Clients are told so; connections over which promises were to go are closed. Until a later
    /// attempt succeeds, which is made once a second, there are no votes, no hellos and no new
    /// failovers.
    pub fn persist_failed(&mut self, actions: Vec<Action>) -> Vec<Action> {
        self.context.note_disk_failed();
        for action in actions {
            match action {
                Action::Persist => {
                    let text = "WARNING: Sentinel was not able to save the new configuration on \
                                disk!!!";
                    self.context.log(Level::Warning, text.to_owned());
                }
                Action::Reply { client, is_promise: true, .. } => {
                    let bytes = b"-ERR Failed to save config file. Check server logs.\r\n".to_vec();
                    self.context.push_action(Action::Reply { client, bytes, is_promise: false });
                }
                Action::Send { connection, is_promise: true, .. } => {
                    if self.context.links.forget(connection).is_some() {
                        self.context.push_action(Action::Close { connection });
                    }
                }
                // The connection was closed for an earlier promise.
                Action::Send { connection, .. } if self.context.links.of(connection).is_none() => {}
                other => self.context.push_action(other),
            }
        }
        self.context.take_actions()
    }

    fn tick(&mut self) {
        let context = &mut self.context;
        context.retry_disk();
        context.check_tilt();
        for primary in self.primaries.values_mut() {
            primary.tick(context);
        }
        context.tick_scripts();
        context.schedule_tick();
    }

    fn connected(&mut self, connection: ConnectionId, local: IpAddr) {
        let context = &mut self.context;
        let Some(id) = context.links.of(connection) else { return };
        let link = context.links.get_mut(id);
        link.local = Some(local);
        let open = Channel::Open(connection);
        if link.commands.connection() == Some(connection) {
            link.commands = open;
        } else {
            link.messages = Some(open);
        }
        match link.owner.clone() {
            Owner::Peer(_) => context.begin_with_peer(id),
            Owner::Primary(name) | Owner::Replica(name, _) => {
                if let Some(primary) = self.primaries.get(&name) {
                    primary.head.begin(context, id, open);
                }
            }
        }
    }

    fn received(&mut self, connection: ConnectionId, value: Value) {
        let Some(id) = self.context.links.of(connection) else { return };
        let now = self.context.now;
        let link = self.context.links.get_mut(id);
        if link.commands.connection() != Some(connection) {
            link.message_at = now;
            if let Some(payload) = hello_payload(&value) {
                self.take_hello(payload);
            }
            return;
        }
        match link.awaited.pop_front() {
            None | Some(PendingReply::Nothing) => {}
            Some(PendingReply::Ping) => self.take_pong(id, &value),
            Some(PendingReply::Info) => self.take_info(id, value),
            Some(PendingReply::Hello(name)) => self.take_hello_receipt(id, &name, &value),
            Some(PendingReply::Vote(name)) => self.take_vote(id, &name, &value),
            Some(PendingReply::HandOver) => self.take_hand_over(id, &value),
        }
    }

    fn take_pong(&mut self, id: LinkId, value: &Value) {
        let now = self.context.now;
        let link = self.context.links.get_mut(id);
        let text = match value {
            Value::Simple(text) | Value::Error(text) => text.as_slice(),
            _ => return,
        };
        let is_pong = text.starts_with(b"PONG");
        if is_pong || text.starts_with(b"LOADING") || text.starts_with(b"MASTERDOWN") {
            link.well_at = now;
            link.ping_since = None;
        }
        link.answer_at = now;
        let is_busy = text.starts_with(b"BUSY");
        match link.owner.clone() {
            Owner::Peer(_) => {}
            Owner::Primary(name) => {
                let Some(primary) = self.primaries.get_mut(&name) else { return };
                let head = &mut primary.head;
                if is_pong {
                    head.node.rebooted_at = None;
                }
                if is_busy {
                    let script = head.command("SCRIPT").to_vec();
                    kill_script(&mut self.context, &mut head.instance, &script);
                }
            }
            Owner::Replica(name, replica) => {
                let Some(primary) = self.primaries.get_mut(&name) else { return };
                let script = primary.head.command("SCRIPT").to_vec();
                let Some(replica) = primary.replicas.get_mut(&replica) else { return };
                if is_pong {
                    replica.node.rebooted_at = None;
                }
                if is_busy {
                    kill_script(&mut self.context, &mut replica.instance, &script);
                }
            }
        }
    }

    fn take_info(&mut self, id: LinkId, value: Value) {
        let (Value::Bulk(text) | Value::Verbatim(_, text)) = value else { return };
        match self.context.links.get(id).owner.clone() {
            Owner::Peer(_) => {}
            Owner::Primary(name) => {
                if let Some(primary) = self.primaries.get_mut(&name) {
                    primary.refresh_primary(&mut self.context, text);
                }
            }
            Owner::Replica(name, replica) => {
                if let Some(primary) = self.primaries.get_mut(&name) {
                    primary.refresh_replica(&mut self.context, &replica, text);
                }
            }
        }
    }

    fn take_hello_receipt(&mut self, id: LinkId, name: &str, value: &Value) {
        if matches!(value, Value::Error(_)) {
            return;
        }
        let now = self.context.now;
        let Some(primary) = self.primaries.get_mut(name) else { return };
        let instance = match &self.context.links.get(id).owner {
            Owner::Primary(_) => Some(&mut primary.head.instance),
            Owner::Replica(_, name) => {
                primary.replicas.get_mut(name).map(|replica| &mut replica.instance)
            }
            Owner::Peer(id) => primary.peers.get_mut(id).map(|peer| &mut peer.instance),
        };
        if let Some(instance) = instance {
            instance.hello_at = now;
        }
    }

    /// Takes the answer to SENTINEL is-master-down-by-addr.
    fn take_vote(&mut self, id: LinkId, name: &str, value: &Value) {
        let Value::Array(items) = value else { return };
        let [Value::Integer(is_down), leader, Value::Integer(epoch)] = &items[..] else { return };
        let Some(leader) = leader.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
        else {
            return;
        };
        let Owner::Peer(peer) = &self.context.links.get(id).owner else { return };
        let Some(primary) = self.primaries.get_mut(name) else { return };
        let Some(peer) = primary.peers.get_mut(peer) else { return };
        peer.said_at = Some(self.context.now);
        peer.says_down = *is_down == 1;
        if leader != "*" && is_run_id(leader) {
            peer.leader = Some(leader.to_owned());
            peer.leader_epoch = u64::try_from(*epoch).unwrap_or(0);
        }
    }

    /// Takes a primary's answer to the order to hand over.
    fn take_hand_over(&mut self, id: LinkId, value: &Value) {
        let is_refused = match value {
            Value::Array(items) => items.iter().any(|item| matches!(item, Value::Error(_))),
            _ => true,
        };
        let Owner::Primary(name) = &self.context.links.get(id).owner else { return };
        if let Some(primary) = self.primaries.get_mut(name).filter(|_| is_refused) {
            primary.hand_over_refused(&mut self.context);
        }
    }

    /// Takes the answer to a question about a host.
    fn resolved(&mut self, host: &str, ip: Option<IpAddr>) {
        self.context.hosts.answer(host, ip);
        let waiting: Vec<Parked> = self.parked.extract_if(.., |it| it.host == host).collect();
        for Parked { client, resp, args, .. } in waiting {
            self.command(client, resp, &args);
        }
    }
}

/// Ends a script that keeps an instance from answering, once.
fn kill_script(context: &mut Context, instance: &mut Instance, script: &[u8]) {
    if !instance.is_down() || instance.is_script_killed {
        return;
    }
    let words = [script, b"KILL"];
    instance.is_script_killed =
        context.send(instance.link, PendingReply::Nothing, Promise::No, &words);
}

/// The payload of a message on the hello channel.
fn hello_payload(value: &Value) -> Option<&[u8]> {
    let (Value::Array(items) | Value::Push(items)) = value else { return None };
    let [kind, channel, payload] = &items[..] else { return None };
    let is_hello =
        kind.as_bytes() == Some(b"message") && channel.as_bytes() == Some(HELLO_CHANNEL.as_bytes());
    payload.as_bytes().filter(|_| is_hello)
}
