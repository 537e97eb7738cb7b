//! The connections to instances: for each a link of up to two channels, and what is awaited there.
//!
//! Sentinels that several primaries have in common share one link. Invariants: a link lives as
//! long as it has users; a connection that is closed or lost is never heard of again; what is
//! awaited on a channel is gone with it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::Millis;
use crate::event::ConnectionId;

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(u64);

/// Whose a link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The primary of this name.
    Primary(String),
    /// A replica, by its primary's name and its own.
    Replica(String, String),
    /// The Sentinel of this id, under whatever primaries.
    Peer(String),
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Closed,
    Opening(ConnectionId),
    Open(ConnectionId),
}

impl Channel {
    pub(crate) fn connection(self) -> Option<ConnectionId> {
        match self {
            Channel::Closed => None,
            Channel::Opening(connection) | Channel::Open(connection) => Some(connection),
        }
    }
}

/// The question that a reply will answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingReply {
    /// What does not matter.
    Nothing,
    Ping,
    Info,
    /// A hello about the primary of this name.
    Hello(String),
    /// A question whether the primary of this name is down.
    Vote(String),
    /// The order to the primary to hand over itself.
    HandOver,
}

/// A link, and what was heard over it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) users: usize,
    pub(crate) commands: Channel,
    /// `None` where there is none to be, as to Sentinels.
    pub(crate) messages: Option<Channel>,
    pub(crate) awaited: VecDeque<PendingReply>,
    /// When connections were last made.
    pub(crate) tried_at: Option<Millis>,
    pub(crate) commands_since: Millis,
    pub(crate) messages_since: Millis,
    /// When the last message came.
    pub(crate) message_at: Millis,
    /// Since when a PING has no answer; kept while connections come and go.
    pub(crate) ping_since: Option<Millis>,
    pub(crate) ping_at: Option<Millis>,
    /// The last answer to PING that says the instance is well.
    pub(crate) well_at: Millis,
    /// The last answer to PING.
    pub(crate) answer_at: Millis,
    /// This side's address.
    pub(crate) local: Option<IpAddr>,
}

impl Link {
    fn new(owner: Owner, now: Millis) -> Link {
        let messages = match owner {
            Owner::Peer(_) => None,
            Owner::Primary(_) | Owner::Replica(..) => Some(Channel::Closed),
        };
        Link {
            owner,
            users: 1,
            commands: Channel::Closed,
            messages,
            awaited: VecDeque::new(),
            tried_at: None,
            commands_since: now,
            messages_since: now,
            message_at: now,
            // An instance that never answers is down from the start on.
            ping_since: Some(now),
            ping_at: None,
            well_at: now,
            answer_at: now,
            local: None,
        }
    }

    /// Whether a connection is missing.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.commands == Channel::Closed || self.messages == Some(Channel::Closed)
    }

    /// Where commands can be sent, if all is open.
    pub(crate) fn ready(&self) -> Option<ConnectionId> {
        match self.commands {
            Channel::Open(connection) if !self.is_disconnected() => Some(connection),
            _ => None,
        }
    }

    /// For how long the instance has not been well.
    pub(crate) fn unavailable_for(&self, now: Millis) -> Millis {
        match (self.ping_since, self.commands) {
            (Some(since), _) => now - since,
            (None, Channel::Open(_)) => 0,
            (None, _) => now - self.well_at,
        }
    }

    /// The connections that there are.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        let messages = self.messages.and_then(Channel::connection);
        self.commands.connection().into_iter().chain(messages)
    }
}

/// All links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: BTreeMap<LinkId, Link>,
    connections: BTreeMap<ConnectionId, LinkId>,
    next_link: u64,
    next_connection: u64,
}

impl Links {
    /// A link for a new instance; Sentinels of the same id share theirs.
    pub(crate) fn add(&mut self, owner: Owner, now: Millis) -> LinkId {
        if matches!(owner, Owner::Peer(_)) {
            let shared = self.links.iter_mut().find(|(_, link)| link.owner == owner);
            if let Some((id, link)) = shared {
                link.users += 1;
                return *id;
            }
        }
        self.next_link += 1;
        let id = LinkId(self.next_link);
        self.links.insert(id, Link::new(owner, now));
        id
    }

    /// Takes one user away: the connections to close if it was the last.
    pub(crate) fn release(&mut self, id: LinkId) -> Vec<ConnectionId> {
        let link = self.get_mut(id);
        link.users -= 1;
        if link.users > 0 {
            return Vec::new();
        }
        let open: Vec<ConnectionId> = link.connections().collect();
        self.links.remove(&id);
        for connection in &open {
            self.connections.remove(connection);
        }
        open
    }

    /// A link of an instance that is alive.
    pub(crate) fn get(&self, id: LinkId) -> &Link {
        self.links.get(&id).expect("an instance has a link")
    }

    /// A link of an instance that is alive, to change.
    pub(crate) fn get_mut(&mut self, id: LinkId) -> &mut Link {
        self.links.get_mut(&id).expect("an instance has a link")
    }

    /// The link of a connection that is not closed.
    pub(crate) fn of(&self, connection: ConnectionId) -> Option<LinkId> {
        self.connections.get(&connection).copied()
    }

    /// A new connection for a link.
    pub(crate) fn connect(&mut self, id: LinkId) -> ConnectionId {
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        self.connections.insert(connection, id);
        connection
    }

    /// Forgets a connection, and what was awaited there: the link that it belonged to.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> Option<LinkId> {
        let id = self.connections.remove(&connection)?;
        let link = self.get_mut(id);
        if link.commands.connection() == Some(connection) {
            link.commands = Channel::Closed;
            link.awaited.clear();
        } else {
            link.messages = Some(Channel::Closed);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, Links, Owner};

    #[test]
    fn sentinels_share_a_link() {
        let mut links = Links::default();
        let peer = || Owner::Peer("id".to_owned());
        let (first, second) = (links.add(peer(), 0), links.add(peer(), 5));
        let other = links.add(Owner::Primary("name".to_owned()), 5);
        assert_eq!(first, second);
        assert_ne!(first, other);
        let connection = links.connect(first);
        links.get_mut(first).commands = Channel::Open(connection);
        assert_eq!(links.get(first).ready(), Some(connection));
        assert_eq!(links.release(first), []);
        assert_eq!(links.release(second), [connection]);
        assert_eq!((links.of(connection), links.forget(connection)), (None, None));
    }

    #[test]
    fn a_link_of_two_channels_needs_both() {
        let mut links = Links::default();
        let id = links.add(Owner::Primary("name".to_owned()), 0);
        let (commands, messages) = (links.connect(id), links.connect(id));
        let link = links.get_mut(id);
        assert_eq!(link.unavailable_for(7), 7, "it was never well");
        link.ping_since = None;
        assert_eq!(link.unavailable_for(9), 9);
        link.commands = Channel::Open(commands);
        assert_eq!((link.ready(), link.unavailable_for(9)), (None, 0));
        link.messages = Some(Channel::Opening(messages));
        assert_eq!(link.ready(), Some(commands));
        assert_eq!(links.forget(messages), Some(id));
        assert!(links.get(id).is_disconnected());
    }
}
