//! What every watched instance has: an address, a link, whether it is down.
//!
//! Invariant: an instance that is said to be down has a time since when.

use crate::Millis;
use crate::address::Address;
use crate::context::{Context, Promise};
use crate::event::ConnectionId;
use crate::info::{OwnFailover, Role};
use crate::links::{Channel, LinkId, Owner, PendingReply};

/// Whether an instance is down, and since when it was last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Down {
    pub(crate) is_down: bool,
    /// Kept when the instance is up again.
    pub(crate) since: Option<Millis>,
}

/// What every watched instance has.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) address: Address,
    pub(crate) link: LinkId,
    /// As this Sentinel alone sees it.
    pub(crate) subjective: Down,
    pub(crate) down_after: Millis,
    pub(crate) is_script_killed: bool,
    /// When a hello was last taken.
    pub(crate) hello_at: Millis,
}

impl Instance {
    pub(crate) fn new(
        context: &mut Context,
        address: Address,
        owner: Owner,
        down_after: Millis,
    ) -> Self {
        Instance {
            address,
            link: context.links.add(owner, context.now),
            subjective: Down::default(),
            down_after,
            is_script_killed: false,
            hello_at: context.now,
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.subjective.is_down
    }

    /// Time between two PINGs.
    pub(crate) fn ping_period(&self, context: &Context) -> Millis {
        self.down_after.min(context.periods.ping)
    }

    /// Makes what connections are missing, at most once a second.
    pub(crate) fn reconnect(&mut self, context: &mut Context) {
        let link = context.links.get_mut(self.link);
        let is_soon = link.tried_at.is_some_and(|at| context.now - at < context.periods.ping);
        if !link.is_disconnected() || is_soon {
            return;
        }
        link.tried_at = Some(context.now);
        if link.commands == Channel::Closed {
            // A PING goes with the connection. Its time counts from here, not from the last answer.
            link.ping_since.get_or_insert(context.now);
        }
        if self.address.is_named() {
            context.hosts.ask(&self.address.host, context.now);
            self.address.ip = context.hosts.known(&self.address.host).or(self.address.ip);
        }
        context.connect(self.link, &self.address);
    }

    /// Closes connections that stand, but lead nowhere.
    pub(crate) fn drop_dead_connections(&self, context: &mut Context) {
        let (now, link) = (context.now, context.links.get(self.link));
        let half = self.down_after / 2;
        let hangs = link.ping_since.is_some_and(|since| now - since > half);
        let is_old = now - link.commands_since > context.periods.link_age;
        if is_old && hangs && now - link.answer_at > half {
            context.close(link.commands);
        }
        let link = context.links.get(self.link);
        let Some(messages) = link.messages else { return };
        // Own hellos come back: three that do not are a fault.
        let is_silent = now - link.message_at > context.periods.publish * 3;
        if now - link.messages_since > context.periods.link_age && is_silent {
            context.close(messages);
        }
    }

    /// The connection for commands, unless too many replies are missing.
    pub(crate) fn ready(&self, context: &Context) -> Option<ConnectionId> {
        let link = context.links.get(self.link);
        link.ready().filter(|_| link.awaited.len() < PENDING_MAX * link.users)
    }

    /// Sends a PING.
    pub(crate) fn ping(&self, context: &mut Context, ping: &[u8]) {
        if context.send(self.link, PendingReply::Ping, Promise::No, &[ping]) {
            let now = context.now;
            let link = context.links.get_mut(self.link);
            link.ping_at = Some(now);
            link.ping_since.get_or_insert(now);
        }
    }

    /// Whether the time for a PING has come.
    pub(crate) fn is_ping_due(&self, context: &Context) -> bool {
        let (link, period) = (context.links.get(self.link), self.ping_period(context));
        let is_sent = link.ping_at.is_some_and(|at| context.now - at <= period / 2);
        context.now - link.answer_at > period && !is_sent
    }

    /// Whether the time for a hello about this primary has come.
    pub(crate) fn is_hello_due(&self, context: &Context, name: &str) -> bool {
        let is_of =
            |awaited: &PendingReply| matches!(awaited, PendingReply::Hello(of) if of == name);
        let is_awaited = context.links.get(self.link).awaited.iter().any(is_of);
        context.now - self.hello_at > context.periods.publish && !is_awaited
    }

    /// Whether the instance was never seen down in the last so many milliseconds.
    pub(crate) fn was_up_for(&self, context: &Context, time: Millis) -> bool {
        self.subjective.since.is_none_or(|since| context.now - since > time)
    }
}

/// So many replies may be missing on a link.
pub(crate) const PENDING_MAX: usize = 100;

/// What a primary or a replica says of itself.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) run_id: Option<String>,
    /// When the instance last sent INFO.
    pub(crate) info_at: Option<Millis>,
    pub(crate) info: Vec<u8>,
    pub(crate) role: Role,
    /// Since when it says so.
    pub(crate) role_since: Millis,
    /// When the instance was seen to have another run id, until it answers PING.
    pub(crate) rebooted_at: Option<Millis>,
    pub(crate) own_failover: Option<OwnFailover>,
}

impl Node {
    pub(crate) fn new(role: Role, now: Millis) -> Node {
        Node {
            run_id: None,
            info_at: None,
            info: Vec::new(),
            role,
            role_since: now,
            rebooted_at: None,
            own_failover: None,
        }
    }

    /// Whether its INFO is younger than this.
    pub(crate) fn is_fresh(&self, context: &Context, age: Millis) -> bool {
        self.info_at.is_some_and(|at| context.now - at <= age)
    }
}
