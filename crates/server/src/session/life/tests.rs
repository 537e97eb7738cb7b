//! The plan, for every sight there is.

use super::{BACKLOG_LIMIT, Deed, Incoming, Outgoing, Plan, Sight, Wait, plan};

const WAITS: [Wait; 4] = [Wait::Nothing, Wait::Grant, Wait::Leave, Wait::Event];
const OUTGOING: [Outgoing; 3] = [Outgoing::Nothing, Outgoing::Little, Outgoing::Much];
const INCOMING: [Incoming; 4] =
    [Incoming::Incomplete, Incoming::Requests, Incoming::Over, Incoming::Last];

fn sights() -> impl Iterator<Item = Sight> {
    WAITS.into_iter().flat_map(|wait| {
        OUTGOING.into_iter().flat_map(move |outgoing| {
            INCOMING.into_iter().flat_map(move |incoming| {
                [false, true].map(|closing| Sight { wait, outgoing, incoming, closing })
            })
        })
    })
}

fn does(sight: Sight) -> Option<Deed> {
    match plan(sight) {
        Plan::GoOn { does, .. } => Some(does),
        _ => None,
    }
}

#[test]
fn a_grant_is_looked_at_or_given_back_whatever_else_there_is() {
    for sight in sights().filter(|sight| sight.wait == Wait::Grant) {
        let expected = match sight.closing {
            true => Plan::GiveUp,
            false => Plan::GoOn { listens: !sight.incoming.has_ended(), does: Deed::Await },
        };
        assert_eq!(plan(sight), expected, "{sight:?}");
    }
}

#[test]
fn reading_goes_on_until_the_client_has_ended_or_is_to_be_closed() {
    for sight in sights().filter(|sight| !sight.closing && !sight.incoming.has_ended()) {
        let reads = matches!(
            plan(sight),
            Plan::GoOn { listens: true, .. } | Plan::GoOn { does: Deed::Execute, .. }
        );
        assert!(reads, "{sight:?}");
    }
}

#[test]
fn nothing_is_executed_behind_a_wait_nor_behind_a_heap_of_replies() {
    for sight in sights().filter(|sight| does(*sight) == Some(Deed::Execute)) {
        assert_eq!(sight.wait, Wait::Nothing, "{sight:?}");
        assert_ne!(sight.outgoing, Outgoing::Much, "{sight:?}");
        assert!(!sight.closing, "{sight:?}");
    }
}

#[test]
fn who_is_gone_or_to_be_closed_waits_for_nothing_that_has_not_begun() {
    let may_not_wait = |sight: &Sight| {
        let has_begun = matches!(sight.wait, Wait::Nothing | Wait::Grant);
        sight.closing && sight.wait != Wait::Nothing || sight.incoming.has_ended() && !has_begun
    };
    for sight in sights().filter(may_not_wait) {
        assert!(matches!(plan(sight), Plan::End | Plan::GiveUp), "{sight:?}");
    }
}

/// Each step changes the sight, or waits for something that comes by itself: the client takes its
/// replies, a grant, an event, bytes.
#[test]
fn every_session_comes_to_its_end() {
    for mut sight in sights() {
        let mut steps = 0;
        while plan(sight) != Plan::End {
            match plan(sight) {
                Plan::End => unreachable!("the loop ends with it"),
                Plan::Close => sight.closing = true,
                Plan::GiveUp => sight.wait = Wait::Nothing,
                Plan::GoOn { does: Deed::Await, .. } => sight.wait = Wait::Nothing,
                Plan::GoOn { does: Deed::Nothing, .. } => sight.outgoing = Outgoing::Nothing,
                Plan::GoOn { does: Deed::Execute, .. } => sight.incoming = Incoming::Over,
            }
            steps += 1;
            assert!(steps < 6, "{sight:?}");
        }
    }
}

#[test]
fn a_long_reply_is_much_however_little_of_it_is_made() {
    assert_eq!(Outgoing::of(0, false), Outgoing::Nothing);
    assert_eq!(Outgoing::of(1, false), Outgoing::Little);
    assert_eq!(Outgoing::of(BACKLOG_LIMIT, false), Outgoing::Little);
    assert_eq!(Outgoing::of(BACKLOG_LIMIT + 1, false), Outgoing::Much);
    assert_eq!(Outgoing::of(0, true), Outgoing::Much);
}
