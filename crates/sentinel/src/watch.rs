//! A primary's tick: connections are made, PING, INFO and hellos are sent, and what is seen is
//! judged.
//!
//! Invariant: in TILT instances are still asked, but nothing is concluded from their answers.

use crate::address::Address;
use crate::context::{Context, Promise};
use crate::event::ConnectionId;
use crate::failover::Stage;
use crate::hello::{HELLO_CHANNEL, Hello};
use crate::info::OwnFailover;
use crate::instance::{Instance, Node};
use crate::links::{Channel, LinkId, PendingReply};
use crate::primary::{Primary, PrimaryState};

impl Primary {
    /// Does what is due.
    pub(crate) fn tick(&mut self, context: &mut Context) {
        let current = self.current_address().clone();
        self.head.instance.reconnect(context);
        self.head.ask_node(context, None);
        self.head.greet(context, &current, &self.head.instance, self.head.command("PUBLISH"));
        if !context.is_tilted() {
            self.check_primary_down(context);
            self.fail_over(context);
        }
        for replica in self.replicas.values_mut() {
            replica.instance.reconnect(context);
            self.head
                .ask_node(context, Some((&replica.instance, &replica.node, replica.link_down)));
            self.head.greet(context, &current, &replica.instance, self.head.command("PUBLISH"));
            if !context.is_tilted() {
                self.head.check_replica_down(context, replica);
            }
        }
        for peer in self.peers.values_mut() {
            peer.instance.reconnect(context);
            if peer.instance.ready(context).is_some() && peer.instance.is_ping_due(context) {
                peer.instance.ping(context, b"PING");
            }
            self.head.greet(context, &current, &peer.instance, b"PUBLISH");
            if !context.is_tilted() {
                self.head.check_peer_down(context, peer);
            }
        }
        if matches!(self.head.failover.stage, Stage::UpdateConfig(_)) {
            self.switch_to_promoted(context);
        }
    }

    /// Sends hellos at once, since they have something new to say.
    pub(crate) fn force_hellos(&mut self, context: &Context) {
        let long_ago = context.now - context.periods.publish - 1;
        let old = |instance: &mut Instance| instance.hello_at = instance.hello_at.min(long_ago);
        old(&mut self.head.instance);
        self.replicas.values_mut().for_each(|replica| old(&mut replica.instance));
        self.peers.values_mut().for_each(|peer| old(&mut peer.instance));
    }
}

impl PrimaryState {
    /// Sends what is due of INFO and PING to the primary, or to one of its replicas.
    fn ask_node(&self, context: &mut Context, replica: Option<(&Instance, &Node, i64)>) {
        let (instance, node) = match replica {
            Some((instance, node, _)) => (instance, node),
            None => (&self.instance, &self.node),
        };
        if instance.ready(context).is_none() {
            return;
        }
        // While the primary is away each word of a replica may decide.
        let is_urgent = replica.is_some_and(|(.., link_down)| {
            self.objective.is_down || self.failover.is_running() || link_down != 0
        });
        let period = if is_urgent { context.periods.info.min(1000) } else { context.periods.info };
        let is_awaited = context.links.get(instance.link).awaited.contains(&PendingReply::Info);
        if !is_awaited && !node.is_fresh(context, period) {
            context.send(instance.link, PendingReply::Info, Promise::No, &[self.command("INFO")]);
        }
        if instance.is_ping_due(context) {
            instance.ping(context, self.command("PING"));
        }
    }

    /// Sends a hello if it is due.
    fn greet(&self, context: &mut Context, current: &Address, instance: &Instance, publish: &[u8]) {
        let is_due =
            instance.ready(context).is_some() && instance.is_hello_due(context, &self.name);
        // A hello tells epochs, which a restart must not forget.
        if !is_due || !context.is_disk_trusted() {
            return;
        }
        let Some(host) = context.own_host(context.links.get(instance.link).local) else { return };
        let hello = Hello {
            host,
            port: context.own_port(),
            id: context.my_id.clone(),
            epoch: context.current_epoch,
            name: self.name.clone(),
            primary_host: context.shown(current),
            primary_port: current.port,
            config_epoch: self.config_epoch,
        };
        let payload = hello.payload();
        let words = [publish, HELLO_CHANNEL.as_bytes(), payload.as_bytes()];
        context.send(instance.link, PendingReply::Hello(self.name.clone()), Promise::Yes, &words);
    }

    /// Tells an instance whose replica it is, or that it is none. Its replies do not matter: what
    /// it says in INFO does.
    pub(crate) fn send_replicaof(
        &self,
        context: &mut Context,
        instance: &Instance,
        node: &Node,
        to: Option<&Address>,
    ) -> bool {
        let (host, port) = match to {
            Some(address) => (context.shown(address), address.port.to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        let (link, name) = (instance.link, |word| self.command(word));
        if context.links.get(link).ready().is_none() {
            return false;
        }
        if node.own_failover == Some(OwnFailover::Running) {
            // A FAILOVER that hangs refuses REPLICAOF.
            send_step(context, link, &[name("FAILOVER"), b"ABORT"]);
        }
        send_step(context, link, &[name("MULTI")]);
        send_step(context, link, &[name("SLAVEOF"), host.as_bytes(), port.as_bytes()]);
        self.send_aftercare(context, link);
        send_step(context, link, &[name("EXEC")])
    }

    /// What follows a change of roles: the configuration is rewritten, and clients must look again.
    pub(crate) fn send_aftercare(&self, context: &mut Context, link: LinkId) {
        send_step(context, link, &[self.command("CONFIG"), b"REWRITE"]);
        let client = self.command("CLIENT");
        send_step(context, link, &[client, b"KILL", b"TYPE", b"normal"]);
        send_step(context, link, &[client, b"KILL", b"TYPE", b"pubsub"]);
    }

    /// What a primary of this name expects of AUTH.
    fn credentials(&self) -> Option<(Option<&[u8]>, &[u8])> {
        let user = self.settings.auth_user.as_deref();
        self.settings.auth_pass.as_deref().map(|password| (user, password))
    }

    /// Begins to speak on a connection to the primary or a replica.
    pub(crate) fn begin(&self, context: &mut Context, link: LinkId, channel: Channel) {
        let Some(connection) = channel.connection() else { return };
        let is_commands = context.links.get(link).commands == channel;
        if let Some((user, password)) = self.credentials() {
            let mut words = vec![self.command("AUTH")];
            words.extend(user);
            words.push(password);
            context.send_first(link, connection, is_commands, &words);
        }
        let suffix = if is_commands { "cmd" } else { "pubsub" };
        context.send_name(link, connection, is_commands, self.command("CLIENT"), suffix);
        if is_commands {
            context.send_first_ping(link, connection, self.command("PING"));
        } else {
            let words = [self.command("SUBSCRIBE"), HELLO_CHANNEL.as_bytes()];
            context.send_over(connection, Promise::No, &words);
        }
    }
}

/// Sends one command of a transaction. Roles change only after a vote or an epoch was written.
pub(crate) fn send_step(context: &mut Context, link: LinkId, words: &[&[u8]]) -> bool {
    context.send(link, PendingReply::Nothing, Promise::Yes, words)
}

impl Context {
    /// Begins to speak on a connection to another Sentinel.
    pub(crate) fn begin_with_peer(&mut self, link: LinkId) {
        let Some(connection) = self.links.get(link).commands.connection() else { return };
        let own = (None, self.options.requirepass.clone());
        let (user, password) = match &self.globals.password {
            Some(password) => (self.globals.user.clone(), Some(password.clone())),
            None => own,
        };
        if let Some(password) = password {
            let mut words: Vec<&[u8]> = vec![b"AUTH"];
            words.extend(user.as_deref());
            words.push(&password);
            self.send_first(link, connection, true, &words);
        }
        self.send_name(link, connection, true, b"CLIENT", "cmd");
        self.send_first_ping(link, connection, b"PING");
    }

    fn send_first(
        &mut self,
        link: LinkId,
        connection: ConnectionId,
        is_commands: bool,
        words: &[&[u8]],
    ) {
        if is_commands {
            self.links.get_mut(link).awaited.push_back(PendingReply::Nothing);
        }
        self.send_over(connection, Promise::No, words);
    }

    fn send_name(
        &mut self,
        link: LinkId,
        connection: ConnectionId,
        is_commands: bool,
        client: &[u8],
        suffix: &str,
    ) {
        let name = format!("sentinel-{}-{suffix}", &self.my_id[..8]);
        let words = [client, b"SETNAME", name.as_bytes()];
        self.send_first(link, connection, is_commands, &words);
    }

    fn send_first_ping(&mut self, link: LinkId, connection: ConnectionId, ping: &[u8]) {
        let now = self.now;
        let link = self.links.get_mut(link);
        link.awaited.push_back(PendingReply::Ping);
        link.ping_at = Some(now);
        link.ping_since.get_or_insert(now);
        self.send_over(connection, Promise::No, &[ping]);
    }
}
