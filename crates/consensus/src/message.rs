//! What nodes ask each other and answer, as bytes.
//!
//! Invariants: whatever the bytes, reading them ends in a message or an error; what is read is
//! written as the same bytes; the entries of a message follow each other.

use cluster::NodeId;
use openraft::SnapshotMeta;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use quorum::wire::{Fields, WireError, put_count, put_id, put_option, put_u64};
use quorum::{MapEntry, MapRefusal};

use crate::codec::{Coded, number};
use crate::state_machine::MapState;
use crate::types::{Entry, LogId, MapRaft, PeerId, Vote};

/// The version of messages.
const VERSION: u8 = 1;

/// No message is longer: a map of 65,535 nodes is a third of that.
pub(crate) const MESSAGE_LEN_MAX: usize = 16 << 20;

/// What one node asks of another one.
#[derive(Clone, Debug)]
pub enum Request {
    /// A leader's entries, or its heartbeat.
    Append(AppendEntriesRequest<MapRaft>),
    /// A candidate wants a vote.
    Vote(VoteRequest<PeerId>),
    /// A leader's snapshot, for a node that needs entries which are gone.
    Snapshot {
        /// The leader's vote.
        vote: openraft::Vote<PeerId>,
        /// Of what it is.
        meta: SnapshotMeta<PeerId, openraft::EmptyNode>,
        /// What it is.
        state: MapState,
    },
    /// Something that only the leader can do.
    Lead(LeadTask),
}

/// What only the leader can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeadTask {
    /// To write an entry.
    Propose(MapEntry),
    /// To say how many entries are committed.
    Read,
    /// To have a node follow the map.
    AddMember(NodeId),
    /// To have a node follow no more.
    RemoveMember(NodeId),
}

/// What is answered.
#[derive(Debug)]
pub enum Answer {
    /// To a leader's entries.
    Append(AppendEntriesResponse<PeerId>),
    /// To a candidate.
    Vote(VoteResponse<PeerId>),
    /// To a leader's snapshot: the vote of the node.
    Snapshot(openraft::Vote<PeerId>),
    /// To a task: so many entries of the log have it.
    Lead(Result<u64, LeadError>),
    /// The node is at its end.
    Ended,
}

/// Why a task was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeadError {
    /// The node does not lead; maybe this one does. Nothing was done.
    NotLeader(Option<NodeId>),
    /// The entry was written, and changes nothing.
    Refused(MapRefusal),
    /// The last voter stays.
    LastVoter,
    /// What became of it the node does not know.
    Unknown,
}

impl Request {
    /// The bytes of the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Request::Append(request) => {
                out.push(0);
                request.vote.put(&mut out);
                request.prev_log_id.put(&mut out);
                request.leader_commit.put(&mut out);
                put_count(&mut out, request.entries.len());
                for entry in &request.entries {
                    entry.put(&mut out);
                }
            }
            Request::Vote(request) => {
                out.push(1);
                request.vote.put(&mut out);
                request.last_log_id.put(&mut out);
            }
            Request::Snapshot { vote, meta, state } => {
                out.push(2);
                vote.put(&mut out);
                meta.put(&mut out);
                state.put(&mut out);
            }
            Request::Lead(task) => {
                out.push(3);
                task.put(&mut out);
            }
        }
        out
    }

    /// The request of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Request, WireError> {
        let mut fields = begin(bytes)?;
        let request = match fields.u8()? {
            0 => Request::Append(append(&mut fields)?),
            1 => Request::Vote(VoteRequest {
                vote: Vote::read(&mut fields)?,
                last_log_id: Option::read(&mut fields)?,
            }),
            2 => Request::Snapshot {
                vote: Vote::read(&mut fields)?,
                meta: SnapshotMeta::read(&mut fields)?,
                state: MapState::read(&mut fields)?,
            },
            3 => Request::Lead(LeadTask::read(&mut fields)?),
            _ => return Err(WireError::Value("kind of request")),
        };
        fields.end().map(|()| request)
    }

    /// The node that must have sent the request, if that is sure.
    pub(crate) fn sender(&self) -> Option<NodeId> {
        let vote = match self {
            Request::Append(request) => &request.vote,
            Request::Vote(request) => &request.vote,
            Request::Snapshot { vote, .. } => vote,
            Request::Lead(_) => return None,
        };
        Some(vote.leader_id.node_id.0)
    }
}

impl Answer {
    /// The bytes of the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Answer::Append(AppendEntriesResponse::Success) => out.extend([0, 0]),
            Answer::Append(AppendEntriesResponse::PartialSuccess(last)) => {
                out.extend([0, 1]);
                last.put(&mut out);
            }
            Answer::Append(AppendEntriesResponse::Conflict) => out.extend([0, 2]),
            Answer::Append(AppendEntriesResponse::HigherVote(vote)) => {
                out.extend([0, 3]);
                vote.put(&mut out);
            }
            Answer::Vote(answer) => {
                out.push(1);
                answer.vote.put(&mut out);
                out.push(u8::from(answer.vote_granted));
                answer.last_log_id.put(&mut out);
            }
            Answer::Snapshot(vote) => {
                out.push(2);
                vote.put(&mut out);
            }
            Answer::Lead(Ok(entries)) => {
                out.extend([3, 0]);
                put_u64(&mut out, *entries);
            }
            Answer::Lead(Err(error)) => {
                out.push(3);
                error.put(&mut out);
            }
            Answer::Ended => out.push(4),
        }
        out
    }

    /// The answer of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Answer, WireError> {
        let mut fields = begin(bytes)?;
        let answer = match fields.u8()? {
            0 => Answer::Append(appended(&mut fields)?),
            1 => Answer::Vote(VoteResponse {
                vote: Vote::read(&mut fields)?,
                vote_granted: fields.flag()?,
                last_log_id: Option::read(&mut fields)?,
            }),
            2 => Answer::Snapshot(Vote::read(&mut fields)?),
            3 => Answer::Lead(led(&mut fields)?),
            4 => Answer::Ended,
            _ => return Err(WireError::Value("kind of answer")),
        };
        fields.end().map(|()| answer)
    }
}

impl LeadError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            LeadError::NotLeader(leader) => {
                out.push(1);
                put_option(out, leader.as_ref(), |out, leader| put_id(out, *leader));
            }
            LeadError::Refused(refusal) => {
                out.push(2);
                refusal.encode(out);
            }
            LeadError::LastVoter => out.push(3),
            LeadError::Unknown => out.push(4),
        }
    }
}

impl Coded for LeadTask {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            LeadTask::Propose(entry) => {
                out.push(0);
                entry.encode(out);
            }
            LeadTask::Read => out.push(1),
            LeadTask::AddMember(node) => {
                out.push(2);
                put_id(out, *node);
            }
            LeadTask::RemoveMember(node) => {
                out.push(3);
                put_id(out, *node);
            }
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<LeadTask, WireError> {
        Ok(match fields.u8()? {
            0 => LeadTask::Propose(MapEntry::decode(fields)?),
            1 => LeadTask::Read,
            2 => LeadTask::AddMember(fields.id()?),
            3 => LeadTask::RemoveMember(fields.id()?),
            _ => return Err(WireError::Value("task")),
        })
    }
}

/// What follows the version.
fn begin(bytes: &[u8]) -> Result<Fields<'_>, WireError> {
    if bytes.len() > MESSAGE_LEN_MAX {
        return Err(WireError::Value("length of a message"));
    }
    let mut fields = Fields::new(bytes);
    match fields.u8()? {
        VERSION => Ok(fields),
        _ => Err(WireError::Value("version of messages")),
    }
}

fn append(fields: &mut Fields<'_>) -> Result<AppendEntriesRequest<MapRaft>, WireError> {
    let vote = Vote::read(fields)?;
    let (prev_log_id, leader_commit) = (Option::<LogId>::read(fields)?, Option::read(fields)?);
    let mut entries: Vec<Entry> = Vec::new();
    let mut last = prev_log_id;
    for _ in 0..fields.u16()? {
        let entry = Entry::read(fields)?;
        let next = last.map_or(0, |last| last.index + 1);
        if entry.log_id.index != next || Some(entry.log_id) <= last {
            return Err(WireError::Value("list of entries"));
        }
        last = Some(entry.log_id);
        entries.push(entry);
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

fn appended(fields: &mut Fields<'_>) -> Result<AppendEntriesResponse<PeerId>, WireError> {
    Ok(match fields.u8()? {
        0 => AppendEntriesResponse::Success,
        1 => AppendEntriesResponse::PartialSuccess(Option::read(fields)?),
        2 => AppendEntriesResponse::Conflict,
        3 => AppendEntriesResponse::HigherVote(Vote::read(fields)?),
        _ => return Err(WireError::Value("answer to entries")),
    })
}

fn led(fields: &mut Fields<'_>) -> Result<Result<u64, LeadError>, WireError> {
    Ok(match fields.u8()? {
        0 => Ok(number(fields)?),
        1 => Err(LeadError::NotLeader(fields.option(Fields::id)?)),
        2 => Err(LeadError::Refused(MapRefusal::decode(fields)?)),
        3 => Err(LeadError::LastVoter),
        4 => Err(LeadError::Unknown),
        _ => return Err(WireError::Value("answer to a task")),
    })
}
