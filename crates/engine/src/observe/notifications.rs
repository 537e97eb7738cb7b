//! Keyspace notifications: events that transactions gathered, published in channels named after the
//! key, the event, or the members that it is about.
//!
//! Invariant: they are published under the locks of their keys, so that what happened to a key is
//! told in its order.

use config::KeyEvents;
use keyspace::{Effects, Event, EventClass, EventMask, MEMBER_EVENTS};

use crate::clients::mailbox::Outbox;
use crate::observe::pubsub::{PubSub, PubSubType};

/// The classes of events by their letters; events of modules do not exist.
const CLASSES: [(u8, EventClass); 14] = [
    (b'g', EventClass::Generic),
    (b'$', EventClass::String),
    (b'l', EventClass::List),
    (b's', EventClass::Set),
    (b'h', EventClass::Hash),
    (b'z', EventClass::SortedSet),
    (b'x', EventClass::Expired),
    (b'e', EventClass::Evicted),
    (b't', EventClass::Stream),
    (b'm', EventClass::Missed),
    (b'n', EventClass::New),
    (b'o', EventClass::Overwritten),
    (b'c', EventClass::TypeChanged),
    (b'a', EventClass::Array),
];

/// The letters of the channels in which a key and its event are told.
const OF_KEYS: &[u8] = b"KE";

/// The letters of those in which members are told, too.
const OF_MEMBERS: &[u8] = b"STIV";

/// What transactions have to gather for these events to be told.
pub(crate) fn mask(asked: KeyEvents) -> EventMask {
    let has = |letters: &[u8]| letters.iter().any(|&letter| asked.has(letter));
    if !has(OF_KEYS) && !has(OF_MEMBERS) {
        return 0;
    }
    let members = if has(OF_MEMBERS) { MEMBER_EVENTS } else { 0 };
    let classes = CLASSES.iter().filter(|(letter, _)| asked.has(*letter));
    classes.fold(members, |mask, (_, class)| mask | *class as EventMask)
}

/// Publishes what a transaction gathered, as far as these events are asked for; the caller wakes
/// workers when its batch is over.
#[inline]
pub(crate) fn notify(pubsub: &PubSub, asked: KeyEvents, outbox: Outbox<'_>, effects: &Effects) {
    if !effects.events().is_empty() {
        publish_events(pubsub, asked, outbox, effects.events());
    }
}

#[cold]
fn publish_events(pubsub: &PubSub, asked: KeyEvents, outbox: Outbox<'_>, events: &[Event]) {
    if pubsub.is_silent() {
        return;
    }
    for event in events {
        let publisher = EventPublisher { pubsub, outbox, event };
        publisher.publish_key(asked);
        if !event.members.is_empty() {
            publisher.publish_members(asked);
        }
    }
}

struct EventPublisher<'a> {
    pubsub: &'a PubSub,
    outbox: Outbox<'a>,
    event: &'a Event,
}

impl EventPublisher<'_> {
    fn publish_key(&self, asked: KeyEvents) {
        let (name, key) = (self.event.name.as_bytes(), &self.event.key);
        if asked.has(b'K') {
            self.publish("keyspace", &[key], name);
        }
        if asked.has(b'E') {
            self.publish("keyevent", &[name], key);
        }
    }

    /// Names of events hold no `|`, which separates them from what follows.
    fn publish_members(&self, asked: KeyEvents) {
        let (name, key) = (self.event.name.as_bytes(), &self.event.key);
        let members = listed(&self.event.members);
        if asked.has(b'S') {
            self.publish("subkeyspace", &[key], &[name, b"|", &members].concat());
        }
        if asked.has(b'T') {
            let message = [&measured(key)[..], b"|", &members].concat();
            self.publish("subkeyevent", &[name], &message);
        }
        // A key with a line end could not be told from its member.
        if asked.has(b'I') && !key.contains(&b'\n') {
            for member in &self.event.members {
                self.publish("subkeyspaceitem", &[key, b"\n", member], name);
            }
        }
        if asked.has(b'V') {
            self.publish("subkeyspaceevent", &[name, b"|", key], &members);
        }
    }

    fn publish(&self, kind: &str, rest: &[&[u8]], message: &[u8]) {
        let mut channel = format!("__{kind}@{}__:", self.event.database).into_bytes();
        rest.iter().for_each(|part| channel.extend_from_slice(part));
        self.pubsub.publish(self.outbox, PubSubType::Global, &channel, message);
    }
}

/// Members as payloads have them: each behind its length, with commas between.
fn listed(members: &[Box<[u8]>]) -> Vec<u8> {
    members.iter().map(|member| measured(member)).collect::<Vec<_>>().join(&b',')
}

fn measured(text: &[u8]) -> Vec<u8> {
    let mut measured = format!("{}:", text.len()).into_bytes();
    measured.extend_from_slice(text);
    measured
}

#[cfg(test)]
mod tests {
    use super::{listed, mask};
    use config::settings::NOTIFY_KEYSPACE_EVENTS;
    use keyspace::{EventClass, EventMask, MEMBER_EVENTS};

    #[test]
    fn nothing_is_gathered_without_a_channel_for_it() {
        let server = crate::testing::engine();
        let mask_of = |letters: &str| {
            let pair = [b"notify-keyspace-events".as_slice(), letters.as_bytes()];
            server.config.set_many(&pair, true).unwrap();
            mask(server.config.get(NOTIFY_KEYSPACE_EVENTS))
        };
        assert_eq!((mask_of(""), mask_of("A"), mask_of("KE")), (0, 0, 0));
        let (string, hash) = (EventClass::String as EventMask, EventClass::Hash as EventMask);
        assert_eq!(mask_of("K$"), string);
        assert_eq!(mask_of("Eh$"), string | hash);
        assert_eq!(mask_of("Sh"), hash | MEMBER_EVENTS);
        assert_eq!(mask_of("KA") & EventClass::New as EventMask, 0);
        assert_ne!(mask_of("KAn") & EventClass::New as EventMask, 0);
    }

    #[test]
    fn members_are_told_with_their_lengths() {
        let members = [&b"field1"[..], b"", b"a,3:b"].map(Box::from);
        assert_eq!(listed(&members), b"6:field1,0:,5:a,3:b");
        assert!(listed(&[]).is_empty());
    }
}
