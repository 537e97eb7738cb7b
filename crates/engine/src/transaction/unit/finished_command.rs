//! What a unit's commands have to say, once all of them are final.
//!
//! Invariant: notifications and messages leave in the order of the commands that they come from.

use config::KeyEvents;
use keyspace::Effects;
use proto::OwnedArgs;

use crate::clients::mailbox::PendingWakes;
use crate::observe::pubsub::Publication;
use crate::shared::Shared;

/// A command of a unit, for the journal and for observers.
pub(super) struct FinishedCommand {
    pub(super) effects: Effects,
    pub(super) database: usize,
    pub(super) args: OwnedArgs,
    /// Which events were to be told when it ran: a later command may have changed that.
    pub(super) asked: KeyEvents,
}

/// Publishes what commands of a unit have to say, in their order.
pub(super) fn announce(
    server: &Shared,
    wakes: &PendingWakes,
    done: &[FinishedCommand],
    publications: &[(usize, Publication)],
) {
    let mut publications = publications.iter().peekable();
    let publish = |Publication { space, channel, message }: &Publication| {
        server.publish(wakes, *space, channel, message);
    };
    for (index, command) in done.iter().enumerate() {
        while let Some((_, publication)) = publications.next_if(|(before, _)| *before <= index) {
            publish(publication);
        }
        server.notify_as_asked(wakes, command.asked, &command.effects);
    }
    publications.for_each(|(_, publication)| publish(publication));
}
