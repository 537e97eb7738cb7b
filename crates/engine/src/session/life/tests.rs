//! The plan, for every sight there is.

use super::{
    BACKLOG_LIMIT, Demand, Incoming, Outgoing, Plan, SessionAction, Sight, Wait, demand, plan,
};
use crate::clients::registry::{Clients, Peer, Signal};

const WAITS: [Wait; 7] =
    [Wait::Nothing, Wait::Locks, Wait::Result, Wait::Return, Wait::Room, Wait::Leave, Wait::Event];
const OUTGOING: [Outgoing; 4] =
    [Outgoing::Nothing, Outgoing::Little, Outgoing::Much, Outgoing::Unfinished];
const INCOMING: [Incoming; 4] =
    [Incoming::Incomplete, Incoming::Requests, Incoming::Over, Incoming::Last];

fn sights() -> impl Iterator<Item = Sight> {
    WAITS.into_iter().flat_map(|wait| {
        OUTGOING.into_iter().flat_map(move |outgoing| {
            INCOMING.into_iter().flat_map(move |incoming| {
                [(false, false), (true, false), (false, true)].map(|(closing, is_cut_off)| Sight {
                    wait,
                    outgoing,
                    incoming,
                    closing,
                    is_cut_off,
                })
            })
        })
    })
}

fn does(sight: Sight) -> Option<SessionAction> {
    match plan(sight) {
        Plan::GoOn { does, .. } => Some(does),
        _ => None,
    }
}

#[test]
fn a_grant_is_looked_at_or_given_back_whatever_else_there_is() {
    let is_granted = |sight: &Sight| matches!(sight.wait, Wait::Locks | Wait::Result | Wait::Room);
    for sight in sights().filter(is_granted).filter(|sight| !sight.is_cut_off) {
        let expected = match sight.closing {
            true => Plan::GiveUp,
            false => {
                Plan::GoOn { listens: !sight.incoming.has_ended(), does: SessionAction::Await }
            }
        };
        assert_eq!(plan(sight), expected, "{sight:?}");
    }
}

/// Such a unit holds locks, has done one half, and needs its session for the other.
#[test]
fn a_unit_that_may_come_back_is_awaited_whatever_else_there_is() {
    for sight in sights().filter(|sight| sight.wait == Wait::Return) {
        let listens = !sight.closing && !sight.is_cut_off && !sight.incoming.has_ended();
        assert_eq!(plan(sight), Plan::GoOn { listens, does: SessionAction::Await }, "{sight:?}");
    }
    for sight in sights().filter(|sight| sight.wait != Wait::Return && sight.is_cut_off) {
        assert_eq!(plan(sight), Plan::End, "{sight:?}");
    }
}

#[test]
fn reading_goes_on_until_the_client_has_ended_or_is_to_be_closed() {
    let may_send = |sight: &Sight| !sight.closing && !sight.is_cut_off;
    for sight in sights().filter(|it| may_send(it) && !it.incoming.has_ended()) {
        let reads = matches!(
            plan(sight),
            Plan::GoOn { listens: true, .. } | Plan::GoOn { does: SessionAction::Execute, .. }
        );
        assert!(reads, "{sight:?}");
    }
}

#[test]
fn nothing_is_executed_behind_a_wait_nor_behind_a_heap_of_replies() {
    for sight in sights().filter(|sight| does(*sight) == Some(SessionAction::Execute)) {
        assert_eq!(sight.wait, Wait::Nothing, "{sight:?}");
        assert!(!sight.outgoing.is_much(), "{sight:?}");
        assert!(!sight.closing && !sight.is_cut_off, "{sight:?}");
    }
}

#[test]
fn who_is_gone_or_to_be_closed_waits_for_nothing_that_has_not_begun() {
    let may_not_wait = |sight: &Sight| {
        let was_put_off = matches!(sight.wait, Wait::Leave | Wait::Event);
        sight.closing && sight.wait != Wait::Return && sight.wait != Wait::Nothing
            || sight.incoming.has_ended() && was_put_off
    };
    for sight in sights().filter(may_not_wait) {
        assert!(matches!(plan(sight), Plan::End | Plan::Close | Plan::GiveUp), "{sight:?}");
    }
}

#[test]
fn no_session_ends_by_itself_with_replies_that_it_owes() {
    for sight in sights().filter(|sight| !sight.is_cut_off && plan(*sight) == Plan::End) {
        assert_eq!(sight.outgoing, Outgoing::Nothing, "{sight:?}");
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
                Plan::GoOn { does: SessionAction::Await, .. } => sight.wait = Wait::Nothing,
                Plan::GoOn { does: SessionAction::Nothing, .. } => {
                    sight.outgoing = Outgoing::Nothing;
                }
                Plan::GoOn { does: SessionAction::Execute, .. } => sight.incoming = Incoming::Over,
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
    for bytes in [0, 1, BACKLOG_LIMIT + 1] {
        assert_eq!(Outgoing::of(bytes, true), Outgoing::Unfinished);
    }
}

const SIGNALS: [Signal; 8] = [
    Signal::Kill,
    Signal::Review,
    Signal::ReviewAfterReply,
    Signal::Move,
    Signal::Deliver,
    Signal::Unblock,
    Signal::UnblockError,
    Signal::Served,
];

/// Whatever is asked together, and in view of whatever.
#[test]
fn what_others_ask_is_seen_to_in_one_order() {
    let clients = Clients::default();
    for set in 0..1_u32 << SIGNALS.len() {
        let client = clients.register(Peer::Unix, Peer::Unix, 0, 0);
        let asked = || SIGNALS.iter().enumerate().filter(|(at, _)| set & 1 << at != 0);
        asked().for_each(|(_, signal)| _ = client.ask(*signal));
        let asks = |signal| asked().any(|(_, it)| *it == signal);
        for sight in sights() {
            let is_settled = !sight.wait.is_offloaded();
            let may_interrupt = is_settled && sight.outgoing != Outgoing::Unfinished;
            let expected = match () {
                () if asks(Signal::Kill) => Some(Demand::Kill),
                () if asks(Signal::Review) => Some(Demand::Review),
                () if asks(Signal::ReviewAfterReply) && is_settled => {
                    Some(Demand::ReviewAfterReply)
                }
                () if asks(Signal::Deliver) && may_interrupt => Some(Demand::Deliver),
                () if asks(Signal::Move) => Some(Demand::Move),
                () => None,
            };
            assert_eq!(demand(client.asked(), || sight), expected, "{sight:?}, {set:b}");
        }
    }
}
