//! Members and coordinators by hand: the order of what is said, and when nothing is.

use std::net::Ipv4Addr;

use cluster::{NodeId, ShardId};

use crate::coordinator::{Coordinator, CoordinatorEvent};
use crate::history::{History, TermStart};
use crate::map::{ClusterMap, MapEntry, NodeAddress};
use crate::member::{Action, Event, FoundLog, Member};
use crate::message::{Body, Message};
use crate::position::{Millis, Offset, Position, ShardVersion, Term};
use crate::settings::Settings;
use crate::state::{LogRecord, MemberState, Membership};

fn node(letter: u8) -> NodeId {
    NodeId::parse(&[letter; 40]).expect("forty letters")
}

fn shard() -> ShardId {
    ShardId(node(b's'))
}

fn settings() -> Settings {
    Settings { lease: 1000, node_timeout: 5000 }
}

fn message(term: u64, body: Body) -> Message {
    Message { shard: shard(), term: Term(term), body }
}

fn received(from: u8, term: u64, body: Body) -> Event {
    Event::Received { from: node(from), message: message(term, body) }
}

fn ask() -> Body {
    Body::AskPromise { version: ShardVersion(3) }
}

fn promise(position: Option<Position>) -> Body {
    Body::Promise { version: ShardVersion(3), position }
}

fn elect(primary: u8, term: u64, version: u64) -> MapEntry {
    let (term, version) = (Term(term), ShardVersion(version));
    MapEntry::Elect { shard: shard(), primary: node(primary), term, version }
}

/// The map of a shard of a, b and c, whose primary is a in term 1; then these entries.
fn map(entries: &[MapEntry]) -> ClusterMap {
    let mut map = ClusterMap::default();
    let address =
        NodeAddress { ip: Ipv4Addr::LOCALHOST.into(), tcp_port: 1, tls_port: 0, bus_port: 2 };
    let mut first: Vec<MapEntry> =
        (b'a'..=b'e').map(|name| MapEntry::AddNode { node: node(name), address }).collect();
    first.push(MapEntry::CreateShard { shard: shard(), founder: node(b'a') });
    first.push(elect(b'a', 1, 0));
    for (name, version) in [(b'b', 1), (b'c', 2)] {
        let (node, version) = (node(name), ShardVersion(version));
        first.push(MapEntry::Join { shard: shard(), node });
        first.push(MapEntry::Admit { shard: shard(), node, version });
    }
    for entry in first.iter().chain(entries) {
        map.apply(entry).expect("the test has it right");
    }
    map
}

/// A member that has promised term 1 and has so much of it, started at 0.
fn member(name: u8, end: Offset, map: &ClusterMap) -> Member {
    member_that_found(name, FoundLog { generation: 4, end }, map)
}

/// The same; of any other log than the fourth it knows nothing.
fn member_that_found(name: u8, found: FoundLog, map: &ClusterMap) -> Member {
    let starts = [(0, 0), (1, 100)].map(|(term, offset)| TermStart { term: Term(term), offset });
    let history = History::from_starts(starts.to_vec()).expect("the test has it right");
    let log = LogRecord { generation: 4, history };
    let membership =
        Membership { shard: shard(), promised: Term(1), is_whole: true, log, incoming: None };
    let state = MemberState { node: node(name), membership: Some(membership) };
    let (mut member, _) = Member::start(settings(), state, Some(found), 0);
    member.take_map(0, map);
    member
}

fn sent(actions: &[Action]) -> Vec<(NodeId, &Message)> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send { to, message } => Some((*to, message)),
        _ => None,
    });
    sent.collect()
}

/// What is promised, as the file has it.
fn persisted(action: &Action) -> Option<Term> {
    match action {
        Action::Persist(state) => state.membership.as_ref().map(|own| own.promised),
        _ => None,
    }
}

const LATE: Millis = 10_000;

#[test]
fn a_promise_is_on_disk_before_it_is_told() {
    let mut member = member(b'b', 150, &map(&[]));
    let actions = member.handle(LATE, received(b'c', 5, ask()));
    assert_eq!(persisted(&actions[0]), Some(Term(5)));
    let position = Some(Position { term: Term(1), offset: 150 });
    let answer = message(5, promise(position));
    assert_eq!(sent(&actions), [(node(b'c'), &answer)]);
    // The same again is told again; what is earlier is refused, of a primary, too.
    let again = member.handle(LATE, received(b'a', 5, ask()));
    assert_eq!(sent(&again), [(node(b'a'), &answer)]);
    let refusal = message(5, Body::Refusal);
    for (term, body) in [(4, ask()), (1, Body::Heartbeat { sent: 7 })] {
        let refused = member.handle(LATE, received(b'a', term, body));
        assert_eq!(sent(&refused), [(node(b'a'), &refusal)]);
    }
}

#[test]
fn a_member_promises_what_is_there_for_sure() {
    let mut member = member(b'b', 150, &map(&[]));
    member.handle(LATE, Event::Appended { end: 180 });
    let actions = member.handle(LATE, received(b'c', 5, ask()));
    let position = Some(Position { term: Term(1), offset: 150 });
    assert_eq!(sent(&actions), [(node(b'c'), &message(5, promise(position)))]);
}

#[test]
fn a_member_is_quiet_behind_a_start_and_behind_each_heartbeat() {
    let patience = settings().patience();
    assert!(patience > settings().lease);
    let mut member = member(b'b', 150, &map(&[]));
    let asked = || received(b'c', 5, ask());
    assert!(member.handle(patience - 1, asked()).is_empty());
    member.handle(patience - 1, received(b'a', 1, Body::Heartbeat { sent: 3 }));
    assert!(member.handle(2 * patience - 2, asked()).is_empty());
    assert!(!member.handle(2 * patience - 1, asked()).is_empty());
}

#[test]
fn a_primary_that_serves_no_more_is_not_waited_for() {
    let mut member = member(b'b', 150, &map(&[]));
    member.handle(1, received(b'a', 2, Body::Heartbeat { sent: 3 }));
    // What the primary of an earlier term says does not count for this one.
    member.handle(2, received(b'c', 1, Body::Release));
    assert!(member.handle(2, received(b'c', 5, ask())).is_empty());
    member.handle(2, received(b'a', 2, Body::Release));
    // A heartbeat that was overtaken.
    member.handle(2, received(b'a', 2, Body::Heartbeat { sent: 1 }));
    assert!(!member.handle(2, received(b'c', 5, ask())).is_empty());
}

#[test]
fn nothing_is_acknowledged_before_the_start_of_the_term() {
    let mut member = member(b'b', 150, &map(&[]));
    let starts = [(0, 0), (1, 100), (2, 160)];
    let starts = starts.map(|(term, offset)| TermStart { term: Term(term), offset });
    let history = History::from_starts(starts.to_vec()).expect("the test has it right");
    let asked = member.handle(1, received(b'a', 2, Body::Heartbeat { sent: 3 }));
    let position = Some(Position { term: Term(1), offset: 150 });
    let ack = |sent, durable| message(2, Body::Ack { sent, durable });
    let ask = message(2, Body::AskStream { position });
    assert_eq!(sent(&asked), [(node(b'a'), &ack(Some(3), None)), (node(b'a'), &ask)]);
    let given = member.handle(2, received(b'a', 2, Body::Stream { history, is_full: false }));
    assert!(matches!(given[..], [Action::Persist(_), Action::TakeStream { .. }]));
    for (end, told) in [(155, vec![]), (160, vec![ack(None, Some(160))])] {
        member.handle(3, Event::Appended { end });
        let actions = member.handle(3, Event::Durable { offset: end });
        let messages: Vec<Message> =
            sent(&actions).into_iter().map(|(_, message)| message.clone()).collect();
        assert_eq!(messages, told);
    }
}

#[test]
fn a_primary_serves_once_a_majority_has_its_start_and_within_the_lease() {
    let map = map(&[elect(b'b', 2, 3)]);
    let mut member = member(b'b', 150, &self::map(&[]));
    member.handle(LATE, received(b'c', 2, ask()));
    let actions = member.take_map(LATE, &map);
    assert!(actions.contains(&Action::Reign { term: Term(2), start: 150 }));
    let ack = |sent, durable| received(b'c', 2, Body::Ack { sent: Some(sent), durable });
    // What was told of another term does not count.
    let earlier = Body::Ack { sent: Some(LATE), durable: Some(150) };
    member.handle(LATE + 5, received(b'c', 1, earlier));
    assert_eq!(member.served_until(), None);
    member.handle(LATE + 5, ack(LATE, None));
    assert_eq!(member.served_until(), None);
    let released = member.handle(LATE + 6, ack(LATE, Some(150)));
    assert_eq!(released, [Action::Release { offset: 150 }]);
    // The lease counts from the sending of the heartbeat, not from its answer.
    assert_eq!(member.served_until(), Some(LATE + settings().lease));
    member.handle(LATE + 7, received(b'c', 9, Body::Refusal));
    assert_eq!((member.served_until(), member.reigns()), (None, None));
}

#[test]
fn the_next_change_of_members_waits_until_all_is_safe_by_the_present_ones() {
    let joins = [b'd', b'e'].map(|name| MapEntry::Join { shard: shard(), node: node(name) });
    let admit = |name, version| {
        let (node, version) = (node(name), ShardVersion(version));
        MapEntry::Admit { shard: shard(), node, version }
    };
    let mut entries = vec![elect(b'b', 2, 3)];
    entries.extend(joins);
    let mut member = member(b'b', 150, &map(&[]));
    member.handle(LATE, received(b'c', 2, ask()));
    member.take_map(LATE, &map(&entries));
    let ack =
        |name, durable| received(name, 2, Body::Ack { sent: Some(LATE), durable: Some(durable) });
    for name in [b'c', b'd', b'e'] {
        member.handle(LATE, ack(name, 150));
    }
    assert_eq!(member.handle(LATE, Event::Tick), [Action::Propose(admit(b'd', 4))]);
    member.handle(LATE, Event::Appended { end: 160 });
    entries.push(admit(b'd', 4));
    member.take_map(LATE, &map(&entries));
    // Of four members three have 150, and none has for sure what was written by the three before.
    assert_eq!(member.handle(LATE, Event::Tick), []);
    for event in [ack(b'e', 160), ack(b'c', 160), ack(b'd', 160)] {
        member.handle(LATE, event);
        assert_eq!(member.handle(LATE, Event::Tick), []);
    }
    member.handle(LATE, Event::Durable { offset: 160 });
    assert_eq!(member.handle(LATE, Event::Tick), [Action::Propose(admit(b'e', 5))]);
}

#[test]
fn a_reign_is_not_gone_on_with_behind_a_start() {
    let mut member = member(b'a', 150, &map(&[]));
    assert_eq!(member.reigns(), None);
    let actions = member.handle(1, Event::Tick);
    let release = message(1, Body::Release);
    assert_eq!(sent(&actions), [(node(b'b'), &release), (node(b'c'), &release)]);
    let body = Body::Report { holds_lease: false, wants_election: true };
    assert_eq!(member.report(), Some(message(1, body)));
}

#[test]
fn of_two_logs_the_one_that_came_is_found() {
    for (generation, is_whole) in [(4, true), (5, true), (6, false)] {
        let incoming = LogRecord { generation: 5, history: History::default() };
        let membership = Membership {
            shard: shard(),
            promised: Term(1),
            is_whole: true,
            log: LogRecord { generation: 4, history: History::default() },
            incoming: Some(incoming),
        };
        let state = MemberState { node: node(b'b'), membership: Some(membership) };
        let found = FoundLog { generation, end: 9 };
        let (mut member, _) = Member::start(settings(), state, Some(found), 0);
        member.take_map(0, &map(&[]));
        let actions = member.handle(LATE, received(b'c', 5, ask()));
        let position = is_whole.then_some(Position { term: Term(0), offset: 9 });
        assert_eq!(sent(&actions), [(node(b'c'), &message(5, promise(position)))]);
    }
}

#[test]
fn a_log_with_holes_is_not_continued() {
    let found = FoundLog { generation: 9, end: 150 };
    let mut member = member_that_found(b'b', found, &map(&[]));
    let asked = member.handle(1, received(b'a', 2, Body::Heartbeat { sent: 3 }));
    let ask = message(2, Body::AskStream { position: None });
    assert_eq!(sent(&asked)[1], (node(b'a'), &ask));
    let stream = |is_full| received(b'a', 2, Body::Stream { history: History::default(), is_full });
    // An answer from before the log was lost.
    assert_eq!(member.handle(2, stream(false)), []);
    let taken = member.handle(3, stream(true));
    let is_full =
        |action: &Action| matches!(action, Action::TakeStream { generation: Some(5), .. });
    assert!(taken.iter().any(is_full), "{taken:?}");
}

#[test]
fn the_member_that_has_the_most_is_elected_by_a_majority_of_whole_logs() {
    let map = map(&[]);
    let at = |term, offset| Some(Position { term: Term(term), offset });
    let mut coordinator = Coordinator::new(settings());
    coordinator.handle(0, &map, CoordinatorEvent::Led);
    let timeout = settings().node_timeout;
    assert!(coordinator.handle(timeout - 1, &map, CoordinatorEvent::Tick).is_empty());
    let asked = coordinator.handle(timeout, &map, CoordinatorEvent::Tick);
    assert!(asked.len() == 3 && sent(&asked).iter().all(|(_, one)| one.term == Term(2)));
    let promises = [
        (b'a', at(1, 500), None),
        (b'b', None, None),
        // The later term counts more than the longer log.
        (b'c', at(2, 120), Some(elect(b'c', 2, 3))),
    ];
    for (name, position, elected) in promises {
        let (from, message) = (node(name), message(2, promise(position)));
        let event = CoordinatorEvent::Received { from, message };
        let actions = coordinator.handle(timeout, &map, event);
        assert_eq!(actions, elected.map(Action::Propose).into_iter().collect::<Vec<_>>());
    }
}
