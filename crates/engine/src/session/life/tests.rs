//! The plan, for every status there is.

use super::{
    BACKLOG_LIMIT, DueSignal, Incoming, Outgoing, SessionAction, SessionPlan, SessionStatus, Wait,
    due_signal, plan,
};
use crate::clients::registry::{Clients, Peer, Signal};

const WAITS: [Wait; 7] = [
    Wait::Nothing,
    Wait::Locks,
    Wait::Result,
    Wait::Return,
    Wait::Room,
    Wait::Postponed,
    Wait::Event,
];
const OUTGOING: [Outgoing; 4] =
    [Outgoing::Nothing, Outgoing::Little, Outgoing::Much, Outgoing::Unfinished];
const INCOMING: [Incoming; 4] =
    [Incoming::Incomplete, Incoming::Requests, Incoming::Over, Incoming::Last];

fn statuses() -> impl Iterator<Item = SessionStatus> {
    WAITS.into_iter().flat_map(|wait| {
        OUTGOING.into_iter().flat_map(move |outgoing| {
            INCOMING.into_iter().flat_map(move |incoming| {
                [(false, false), (true, false), (false, true)].map(|(closing, is_cut_off)| {
                    SessionStatus { wait, outgoing, incoming, closing, is_cut_off }
                })
            })
        })
    })
}

fn does(status: SessionStatus) -> Option<SessionAction> {
    match plan(status) {
        SessionPlan::GoOn { does, .. } => Some(does),
        _ => None,
    }
}

#[test]
fn a_grant_is_looked_at_or_given_back_whatever_else_there_is() {
    let is_granted =
        |status: &SessionStatus| matches!(status.wait, Wait::Locks | Wait::Result | Wait::Room);
    for status in statuses().filter(is_granted).filter(|status| !status.is_cut_off) {
        let expected = match status.closing {
            true => SessionPlan::CancelWait,
            false => SessionPlan::GoOn {
                reads: !status.incoming.has_ended(),
                does: SessionAction::Await,
            },
        };
        assert_eq!(plan(status), expected, "{status:?}");
    }
}

/// Such a unit holds locks, has done one half, and needs its session for the other.
#[test]
fn a_unit_that_may_come_back_is_awaited_whatever_else_there_is() {
    for status in statuses().filter(|status| status.wait == Wait::Return) {
        let reads = !status.closing && !status.is_cut_off && !status.incoming.has_ended();
        assert_eq!(
            plan(status),
            SessionPlan::GoOn { reads, does: SessionAction::Await },
            "{status:?}"
        );
    }
    for status in statuses().filter(|status| status.wait != Wait::Return && status.is_cut_off) {
        assert_eq!(plan(status), SessionPlan::End, "{status:?}");
    }
}

#[test]
fn reading_goes_on_until_the_client_has_ended_or_is_to_be_closed() {
    let may_send = |status: &SessionStatus| !status.closing && !status.is_cut_off;
    for status in statuses().filter(|it| may_send(it) && !it.incoming.has_ended()) {
        let reads = matches!(
            plan(status),
            SessionPlan::GoOn { reads: true, .. }
                | SessionPlan::GoOn { does: SessionAction::Execute, .. }
        );
        assert!(reads, "{status:?}");
    }
}

#[test]
fn nothing_is_executed_behind_a_wait_nor_behind_a_heap_of_replies() {
    for status in statuses().filter(|status| does(*status) == Some(SessionAction::Execute)) {
        assert_eq!(status.wait, Wait::Nothing, "{status:?}");
        assert!(!status.outgoing.is_much(), "{status:?}");
        assert!(!status.closing && !status.is_cut_off, "{status:?}");
    }
}

#[test]
fn a_closing_or_gone_session_waits_for_nothing_that_has_not_begun() {
    let may_not_wait = |status: &SessionStatus| {
        let was_put_off = matches!(status.wait, Wait::Postponed | Wait::Event);
        status.closing && status.wait != Wait::Return && status.wait != Wait::Nothing
            || status.incoming.has_ended() && was_put_off
    };
    for status in statuses().filter(may_not_wait) {
        assert!(
            matches!(plan(status), SessionPlan::End | SessionPlan::Close | SessionPlan::CancelWait),
            "{status:?}"
        );
    }
}

#[test]
fn no_session_ends_by_itself_with_replies_that_it_owes() {
    for status in
        statuses().filter(|status| !status.is_cut_off && plan(*status) == SessionPlan::End)
    {
        assert_eq!(status.outgoing, Outgoing::Nothing, "{status:?}");
    }
}

/// Each step changes the status, or waits for something that comes by itself: the client takes its
/// replies, a grant, an event, bytes.
#[test]
fn every_session_comes_to_its_end() {
    for mut status in statuses() {
        let mut steps = 0;
        while plan(status) != SessionPlan::End {
            match plan(status) {
                SessionPlan::End => unreachable!("the loop ends with it"),
                SessionPlan::Close => status.closing = true,
                SessionPlan::CancelWait => status.wait = Wait::Nothing,
                SessionPlan::GoOn { does: SessionAction::Await, .. } => status.wait = Wait::Nothing,
                SessionPlan::GoOn { does: SessionAction::Nothing, .. } => {
                    status.outgoing = Outgoing::Nothing;
                }
                SessionPlan::GoOn { does: SessionAction::Execute, .. } => {
                    status.incoming = Incoming::Over;
                }
            }
            steps += 1;
            assert!(steps < 6, "{status:?}");
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
        for (status, must_go) in statuses().flat_map(|it| [(it, false), (it, true)]) {
            let is_settled = !status.wait.is_offloaded();
            let may_interrupt = is_settled && status.outgoing != Outgoing::Unfinished;
            let expected = match () {
                () if asks(Signal::Kill) => Some(DueSignal::Kill),
                () if asks(Signal::Review) && (is_settled || must_go) => Some(DueSignal::Review),
                () if asks(Signal::ReviewAfterReply) && is_settled => {
                    Some(DueSignal::ReviewAfterReply)
                }
                () if asks(Signal::Deliver) && may_interrupt => Some(DueSignal::Deliver),
                () if asks(Signal::Move) => Some(DueSignal::Move),
                () => None,
            };
            let found = due_signal(client.asked(), || status, || must_go);
            assert_eq!(found, expected, "{status:?}, {set:b}");
        }
    }
}
