//! A node's part in the consensus: its engine, and what the server asks of that.
//!
//! Invariants: a proposal is written once at most by a call, and what became of it is said only
//! where it is sure; a read sees all that was acknowledged before it began.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::NodeId;
use openraft::error::{InitializeError, RaftError};
use openraft::{ChangeMembers, EmptyNode, Raft, Snapshot};
use persist::storage::Storage;
use quorum::wire::WireError;
use quorum::{MapEntry, MapRefusal};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::folder::Folder;
use crate::keep_voters::keep_voters;
use crate::log_store::{LogStore, on_disk};
use crate::message::{Answer, LeadError, LeadTask, Request};
use crate::network::{Network, ask};
use crate::settings::Settings;
use crate::snapshot::SnapshotFile;
use crate::state_machine::{AppliedMap, StateMachine};
use crate::transport::Transport;
use crate::types::{MapRaft, PeerId};

/// A node's part. Dropped, it ends as by a crash.
pub struct Consensus {
    node: NodeId,
    settings: Settings,
    raft: Raft<MapRaft>,
    transport: Arc<dyn Transport>,
    applied: watch::Receiver<AppliedMap>,
    /// Held by whoever changes members.
    changing: Arc<Mutex<()>>,
    voters: JoinHandle<()>,
}

/// The nodes that have the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Those whose majority counts.
    pub voters: BTreeSet<NodeId>,
    /// Those that only follow.
    pub learners: BTreeSet<NodeId>,
    /// Whether voters change: majorities of those before and of those to come count.
    pub is_changing: bool,
}

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProposalError {
    /// The map does not take the entry.
    Refused(MapRefusal),
    /// The last voter cannot go.
    LastVoter,
    /// There is no leader, or none that has a majority. Nothing was done.
    NoLeader,
    /// No answer came: the thing may have been done, or be done yet.
    Unknown,
    /// This node's engine is at its end.
    Ended(String),
}

/// Why a request gets no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The request is not understood.
    Wire(WireError),
    /// The request speaks for another node than the one that sent it.
    Sender,
}

impl fmt::Display for ProposalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProposalError::Refused(refusal) => refusal.fmt(formatter),
            ProposalError::LastVoter => formatter.write_str("the last voter cannot go"),
            ProposalError::NoLeader => formatter.write_str("the map has no leader now"),
            ProposalError::Unknown => formatter.write_str("no answer came in time"),
            ProposalError::Ended(reason) => write!(formatter, "the map's log has ended: {reason}"),
        }
    }
}

impl std::error::Error for ProposalError {}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Wire(error) => error.fmt(formatter),
            RequestError::Sender => formatter.write_str("the request speaks for another node"),
        }
    }
}

impl std::error::Error for RequestError {}

impl Consensus {
    /// Starts with what the folder has, which is this node's alone. `log` hears of what an operator
    /// should know. A node that is new then founds a cluster or joins one.
    pub async fn start(
        settings: Settings,
        node: NodeId,
        folder: &Path,
        storage: Arc<dyn Storage>,
        transport: Arc<dyn Transport>,
        log: impl Fn(&str) + Send + 'static,
    ) -> Result<Consensus, String> {
        let config = settings.config()?;
        let path = folder.to_owned();
        let opened = on_disk(move || {
            let folder = Folder::open(storage, &path)?;
            let (store, snapshot) =
                (LogStore::open(&folder, node, &log)?, SnapshotFile::open(&folder)?);
            snapshot.check(store.purged())?;
            Ok((store, snapshot))
        });
        let (store, snapshot) = opened.await.map_err(|error| error.to_string())?;
        let (published, applied) = watch::channel(AppliedMap::default());
        let machine = StateMachine::new(snapshot, published);
        let network = Network { transport: Arc::clone(&transport), pause: settings.heartbeat };
        let raft = Raft::new(PeerId(node), Arc::new(config), network, store, machine).await;
        let raft = raft.map_err(|error| error.to_string())?;
        let changing = Arc::new(Mutex::new(()));
        let keeping = keep_voters(
            raft.clone(),
            Arc::clone(&changing),
            settings.heartbeat,
            settings.request_timeout,
        );
        let voters = tokio::spawn(keeping);
        Ok(Consensus { node, settings, raft, transport, applied, changing, voters })
    }

    /// The node's name.
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// Founds a cluster of which this node is the first. Whether that was done, and not before.
    pub async fn found(&self) -> Result<bool, ProposalError> {
        let members = BTreeMap::from([(PeerId(self.node), EmptyNode {})]);
        match self.raft.initialize(members).await {
            Ok(()) => Ok(true),
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(false),
            Err(error) => Err(ProposalError::Ended(error.to_string())),
        }
    }

    /// Joins the cluster of a node, whichever one of it that is. Done twice it is done once.
    pub async fn join(&self, through: NodeId) -> Result<(), ProposalError> {
        self.at_leader(Some(through), LeadTask::AddMember(self.node)).await.map(drop)
    }

    /// Has a node follow; it votes once it has all, if there is room.
    pub async fn add_member(&self, node: NodeId) -> Result<(), ProposalError> {
        self.at_leader(None, LeadTask::AddMember(node)).await.map(drop)
    }

    /// Has a node follow no more. Done twice it is done once.
    pub async fn remove_member(&self, node: NodeId) -> Result<(), ProposalError> {
        self.at_leader(None, LeadTask::RemoveMember(node)).await.map(drop)
    }

    /// Writes an entry; how many entries there were when the map had it.
    pub async fn propose(&self, entry: MapEntry) -> Result<u64, ProposalError> {
        self.at_leader(None, LeadTask::Propose(entry)).await
    }

    /// The map with all that was acknowledged before.
    pub async fn read_linearizable(&self) -> Result<AppliedMap, ProposalError> {
        let entries = match self.at_leader(None, LeadTask::Read).await {
            // A read that got no answer has done nothing.
            Err(ProposalError::Unknown) => return Err(ProposalError::NoLeader),
            result => result?,
        };
        let mut applied = self.applied.clone();
        let reading = applied.wait_for(|applied| applied.entries >= entries);
        match timeout(self.settings.request_timeout, reading).await {
            Ok(Ok(applied)) => Ok(applied.clone()),
            Ok(Err(_)) => Err(self.ended_error()),
            Err(_) => Err(ProposalError::NoLeader),
        }
    }

    /// The map as far as this node has applied the log.
    pub fn applied(&self) -> watch::Receiver<AppliedMap> {
        self.applied.clone()
    }

    /// The nodes that have the log, as far as this node knows.
    pub fn members(&self) -> Members {
        let metrics = self.raft.metrics();
        let stored = metrics.borrow().membership_config.clone();
        let membership = stored.membership();
        Members {
            voters: membership.voter_ids().map(|peer| peer.0).collect(),
            learners: membership.learner_ids().map(|peer| peer.0).collect(),
            is_changing: membership.get_joint_config().len() > 1,
        }
    }

    /// The leader, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.raft.metrics().borrow().current_leader.map(|leader| leader.0)
    }

    /// Why the engine has ended; nothing while it runs.
    pub fn ended(&self) -> Option<String> {
        let metrics = self.raft.metrics();
        let ended = metrics.borrow().running_state.clone().err();
        ended.map(|fatal| fatal.to_string())
    }

    /// Waits for the end of the engine; why it has ended.
    pub async fn wait_for_end(&self) -> String {
        let mut metrics = self.raft.metrics();
        let is_over = metrics.wait_for(|metrics| metrics.running_state.is_err()).await.is_ok();
        let reason = if is_over { self.ended() } else { None };
        reason.unwrap_or_else(|| "the engine is gone".to_owned())
    }

    /// Ends, and gives the files back.
    pub async fn stop(self) {
        // An engine that panicked is at its end, too.
        let _ = self.raft.shutdown().await;
    }

    /// The answer to a request of another node.
    pub async fn answer(&self, from: NodeId, request: &[u8]) -> Result<Vec<u8>, RequestError> {
        let request = Request::decode(request).map_err(RequestError::Wire)?;
        if request.sender().is_some_and(|sender| sender != from) {
            return Err(RequestError::Sender);
        }
        let answer = match request {
            Request::Append(request) => {
                self.raft.append_entries(request).await.map(Answer::Append).ok()
            }
            Request::Vote(request) => self.raft.vote(request).await.map(Answer::Vote).ok(),
            Request::Snapshot { vote, meta, state } => {
                let snapshot = Snapshot { meta, snapshot: Box::new(state) };
                let installed = self.raft.install_full_snapshot(vote, snapshot).await;
                installed.map(|answer| Answer::Snapshot(answer.vote)).ok()
            }
            Request::Lead(task) => Some(Answer::Lead(self.lead_in_time(task).await)),
        };
        Ok(answer.unwrap_or(Answer::Ended).encode())
    }

    /// Has the leader do something, wherever that is.
    async fn at_leader(
        &self,
        through: Option<NodeId>,
        task: LeadTask,
    ) -> Result<u64, ProposalError> {
        let is_begun = AtomicBool::new(false);
        let doing = self.seek_leader(through, task, &is_begun);
        match timeout(self.settings.request_timeout, doing).await {
            Ok(result) => result,
            Err(_) if is_begun.load(Ordering::Relaxed) => Err(ProposalError::Unknown),
            Err(_) => Err(ProposalError::NoLeader),
        }
    }

    /// The same without an end while there is no leader; `is_begun`: whether one may have begun.
    async fn seek_leader(
        &self,
        through: Option<NodeId>,
        task: LeadTask,
        is_begun: &AtomicBool,
    ) -> Result<u64, ProposalError> {
        let mut next = None;
        loop {
            if self.ended().is_some() {
                return Err(self.ended_error());
            }
            let Some(node) = next.take().or_else(|| self.leader()).or(through) else {
                tokio::time::sleep(self.settings.heartbeat).await;
                continue;
            };
            is_begun.store(true, Ordering::Relaxed);
            let result = match node == self.node {
                true => self.lead_in_time(task.clone()).await,
                false => self.ask_to_lead(node, task.clone()).await,
            };
            match result {
                Ok(entries) => return Ok(entries),
                Err(LeadError::Refused(refusal)) => return Err(ProposalError::Refused(refusal)),
                Err(LeadError::LastVoter) => return Err(ProposalError::LastVoter),
                Err(LeadError::Unknown) if matches!(task, LeadTask::Propose(_)) => {
                    return Err(ProposalError::Unknown);
                }
                // All but proposals can be asked for once more.
                Err(LeadError::Unknown) => {}
                Err(LeadError::NotLeader(leader)) => {
                    is_begun.store(false, Ordering::Relaxed);
                    next = leader.filter(|leader| *leader != node);
                }
            }
            if next.is_none() {
                tokio::time::sleep(self.settings.heartbeat).await;
            }
        }
    }

    async fn ask_to_lead(&self, node: NodeId, task: LeadTask) -> Result<u64, LeadError> {
        let request = Request::Lead(task);
        let patience = self.settings.request_timeout;
        match ask(&*self.transport, node, &request, patience).await {
            Ok(Answer::Lead(result)) => result,
            _ => Err(LeadError::Unknown),
        }
    }

    async fn lead_in_time(&self, task: LeadTask) -> Result<u64, LeadError> {
        if self.leader() != Some(self.node) {
            return Err(LeadError::NotLeader(self.leader()));
        }
        let done = timeout(self.settings.request_timeout, self.lead(task)).await;
        done.unwrap_or(Err(LeadError::Unknown))
    }

    async fn lead(&self, task: LeadTask) -> Result<u64, LeadError> {
        match task {
            LeadTask::Propose(entry) => match self.raft.client_write(entry).await {
                Ok(written) => match written.data {
                    Ok(()) => Ok(written.log_id.index + 1),
                    Err(refusal) => Err(LeadError::Refused(refusal)),
                },
                // Another leader may have written over the entry, and a third one may have it yet.
                Err(_) => Err(LeadError::Unknown),
            },
            LeadTask::Read => match self.raft.get_read_log_id().await {
                Ok((last, _)) => Ok(last.map_or(0, |last| last.index + 1)),
                Err(_) => Err(LeadError::Unknown),
            },
            LeadTask::AddMember(node) => {
                let _turn = self.changing.lock().await;
                let Members { voters, learners, .. } = self.members();
                if voters.contains(&node) || learners.contains(&node) {
                    return Ok(self.applied.borrow().entries);
                }
                let members = BTreeMap::from([(PeerId(node), EmptyNode {})]);
                self.change_members(ChangeMembers::AddNodes(members)).await
            }
            LeadTask::RemoveMember(node) => {
                let _turn = self.changing.lock().await;
                let Members { voters, learners, .. } = self.members();
                let gone = BTreeSet::from([PeerId(node)]);
                if learners.contains(&node) {
                    return self.change_members(ChangeMembers::RemoveNodes(gone)).await;
                }
                if !voters.contains(&node) {
                    return Ok(self.applied.borrow().entries);
                }
                if voters.len() == 1 {
                    return Err(LeadError::LastVoter);
                }
                self.change_members(ChangeMembers::RemoveVoters(gone)).await
            }
        }
    }

    async fn change_members(
        &self,
        change: ChangeMembers<PeerId, EmptyNode>,
    ) -> Result<u64, LeadError> {
        let changed = self.raft.change_membership(change, false).await;
        changed.map(|changed| changed.log_id.index + 1).map_err(|_| LeadError::Unknown)
    }

    fn ended_error(&self) -> ProposalError {
        ProposalError::Ended(self.ended().unwrap_or_else(|| "the engine is gone".to_owned()))
    }
}

impl Drop for Consensus {
    fn drop(&mut self) {
        // The task holds the engine, which ends with the last who does.
        self.voters.abort();
    }
}
