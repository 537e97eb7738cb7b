//! openraft's network: requests as bytes over the transport.
//!
//! Invariant: an answer that is not one to the request counts as none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cluster::NodeId;
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, EmptyNode, OptionalSend, RaftNetwork, RaftNetworkFactory, Snapshot};

use crate::message::{Answer, Request};
use crate::transport::{Transport, TransportError};
use crate::types::{MapRaft, PeerId, Vote};

/// Makes links to nodes.
pub(crate) struct Network {
    pub(crate) transport: Arc<dyn Transport>,
    /// How long a node that cannot be reached is left alone.
    pub(crate) pause: Duration,
}

/// A link to a node.
pub(crate) struct Link {
    node: NodeId,
    transport: Arc<dyn Transport>,
    pause: Duration,
}

type LinkError = RPCError<PeerId, EmptyNode, RaftError<PeerId>>;

impl RaftNetworkFactory<MapRaft> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: PeerId, _: &EmptyNode) -> Link {
        Link { node: target.0, transport: Arc::clone(&self.transport), pause: self.pause }
    }
}

impl Link {
    async fn ask(&self, request: &Request, patience: Duration) -> Result<Answer, Unreachable> {
        ask(&*self.transport, self.node, request, patience)
            .await
            .map_err(|error| Unreachable::new(&error))
    }
}

/// The answer of a node that is waited for so long.
pub(crate) async fn ask(
    transport: &dyn Transport,
    node: NodeId,
    request: &Request,
    patience: Duration,
) -> Result<Answer, TransportError> {
    let answering = transport.ask(node, request.encode());
    let bytes = tokio::time::timeout(patience, answering)
        .await
        .map_err(|_| TransportError("no answer in time".to_owned()))??;
    Answer::decode(&bytes).map_err(|error| TransportError(error.to_string()))
}

/// A node answered something else than what it was asked.
fn beside_the_point(answer: &Answer) -> Unreachable {
    Unreachable::from(AnyError::error(format!("the node answered {answer:?}")))
}

impl RaftNetwork<MapRaft> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<MapRaft>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<PeerId>, LinkError> {
        match self.ask(&Request::Append(request), option.hard_ttl()).await? {
            Answer::Append(answer) => Ok(answer),
            other => Err(beside_the_point(&other).into()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<PeerId>,
        option: RPCOption,
    ) -> Result<VoteResponse<PeerId>, LinkError> {
        match self.ask(&Request::Vote(request), option.hard_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            other => Err(beside_the_point(&other).into()),
        }
    }

    /// A snapshot is one message: a map is small.
    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<MapRaft>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<PeerId>, StreamingError<MapRaft, Fatal<PeerId>>> {
        let Snapshot { meta, snapshot } = snapshot;
        let request = Request::Snapshot { vote, meta, state: *snapshot };
        match self.ask(&request, option.hard_ttl()).await? {
            Answer::Snapshot(vote) => Ok(SnapshotResponse { vote }),
            other => Err(beside_the_point(&other).into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.pause))
    }
}
