//! Messages: each comes back as it was, and no bytes do harm.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Random;
use cluster::NodeId;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{CommittedLeaderId, EntryPayload};
use quorum::{ClusterMap, MapEntry, MapRefusal};

use crate::codec::snapshot_meta;
use crate::message::{Answer, LeadError, LeadTask, Request};
use crate::record::Record;
use crate::state_machine::MapState;
use crate::types::{Entry, LogId, Membership, PeerId, StoredMembership, Vote};

fn peer(letter: u8) -> PeerId {
    PeerId(NodeId::parse(&[letter; 40]).expect("forty letters"))
}

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term, peer(b'a')), index)
}

fn membership() -> Membership {
    let sets = [[peer(b'a'), peer(b'b')], [peer(b'b'), peer(b'c')]].map(BTreeSet::from);
    let nodes: BTreeSet<_> = (b'a'..=b'd').map(peer).collect();
    Membership::new(sets.to_vec(), nodes)
}

fn requests() -> Vec<Request> {
    let vote = Vote::new_committed(7, peer(b'a'));
    let entry = MapEntry::RemoveNode { node: peer(b'z').0 };
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Normal(entry.clone()),
        EntryPayload::Membership(membership()),
    ];
    let entries = payloads.into_iter().enumerate();
    let entries = entries
        .map(|(place, payload)| Entry { log_id: log_id(7, 5 + place as u64), payload })
        .collect();
    let append = AppendEntriesRequest {
        vote,
        prev_log_id: Some(log_id(6, 4)),
        entries,
        leader_commit: Some(log_id(6, 4)),
    };
    let stored = StoredMembership::new(Some(log_id(1, 1)), membership());
    let meta = snapshot_meta(Some(log_id(6, 4)), stored);
    let state = MapState { map: Arc::new(ClusterMap::default()), digest: 5 };
    let mut requests = vec![
        Request::Append(append),
        Request::Vote(VoteRequest::new(Vote::new(8, peer(b'b')), None)),
        Request::Snapshot { vote, meta, state },
    ];
    let tasks = [
        LeadTask::Propose(entry),
        LeadTask::Read,
        LeadTask::AddMember(peer(b'd').0),
        LeadTask::RemoveMember(peer(b'd').0),
    ];
    requests.extend(tasks.map(Request::Lead));
    requests
}

fn answers() -> Vec<Answer> {
    let vote = Vote::new(8, peer(b'b'));
    vec![
        Answer::Append(AppendEntriesResponse::Success),
        Answer::Append(AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2)))),
        Answer::Append(AppendEntriesResponse::Conflict),
        Answer::Append(AppendEntriesResponse::HigherVote(vote)),
        Answer::Vote(VoteResponse::new(vote, Some(log_id(1, 2)), true)),
        Answer::Snapshot(vote),
        Answer::Lead(Ok(12)),
        Answer::Lead(Err(LeadError::NotLeader(None))),
        Answer::Lead(Err(LeadError::NotLeader(Some(peer(b'c').0)))),
        Answer::Lead(Err(LeadError::Refused(MapRefusal::OldTerm))),
        Answer::Lead(Err(LeadError::LastVoter)),
        Answer::Lead(Err(LeadError::Unknown)),
        Answer::Ended,
    ]
}

/// The bytes of what these bytes are.
fn again(kind: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    match kind {
        0 => Request::decode(bytes).ok().map(|request| request.encode()),
        1 => Answer::decode(bytes).ok().map(|answer| answer.encode()),
        _ => Record::decode(bytes).ok().map(|record| record.encode()),
    }
}

fn samples() -> [Vec<Vec<u8>>; 3] {
    let records = [
        Record::Vote(Vote::new(8, peer(b'b'))),
        Record::Entry(Entry {
            log_id: log_id(1, 2),
            payload: EntryPayload::Membership(membership()),
        }),
        Record::Truncated(4),
        Record::Purged(log_id(1, 2)),
        Record::Committed(log_id(1, 2)),
    ];
    [
        requests().iter().map(Request::encode).collect(),
        answers().iter().map(Answer::encode).collect(),
        records.iter().map(Record::encode).collect(),
    ]
}

#[test]
fn messages_and_records_come_back() {
    for (kind, samples) in samples().into_iter().enumerate() {
        for bytes in samples {
            assert_eq!(again(kind, &bytes).as_ref(), Some(&bytes));
            for length in 0..bytes.len() {
                assert_eq!(again(kind, &bytes[..length]), None, "{kind} {length}");
            }
            assert_eq!(again(kind, &[&bytes[..], &[0]].concat()), None);
        }
    }
    // What has no form but its bytes is the same in words, too.
    for request in requests() {
        let back = Request::decode(&request.encode()).expect("it comes back");
        assert_eq!(format!("{back:?}"), format!("{request:?}"));
    }
    for answer in answers() {
        let back = Answer::decode(&answer.encode()).expect("it comes back");
        assert_eq!(format!("{back:?}"), format!("{answer:?}"));
    }
}

#[test]
fn changed_bytes_are_refused_or_mean_what_they_say() {
    let mut random = Random::from_seed(51);
    for (kind, samples) in samples().into_iter().enumerate() {
        for bytes in samples {
            for _ in 0..400 {
                let mut changed = bytes.clone();
                for _ in 0..=random.below(3) {
                    let place = random.below(changed.len() as u64) as usize;
                    changed[place] = random.next_u64() as u8;
                }
                if let Some(written) = again(kind, &changed) {
                    assert_eq!(written, changed);
                }
            }
        }
    }
}

#[test]
fn entries_that_do_not_follow_each_other_are_refused() {
    let vote = Vote::new_committed(7, peer(b'a'));
    for (prev, ids) in [
        (None, vec![log_id(1, 1)]),
        (Some(log_id(1, 4)), vec![log_id(1, 4)]),
        (Some(log_id(1, 4)), vec![log_id(1, 5), log_id(1, 7)]),
        (Some(log_id(2, 4)), vec![log_id(1, 5)]),
    ] {
        let entries = ids.into_iter().map(|log_id| Entry { log_id, payload: EntryPayload::Blank });
        let entries = entries.collect();
        let request =
            AppendEntriesRequest { vote, prev_log_id: prev, entries, leader_commit: None };
        assert!(Request::decode(&Request::Append(request).encode()).is_err());
    }
}
