//! The thread of the bus, which accepts links, feeds the engine one event at a time, and carries
//! out what comes of each.
//!
//! Invariants: ticks come before all else, so no flood of packets puts them off, and each of the
//! sources has its turn: orders, what links bring, and what clients here publish, of which a few
//! are taken at a time, and none while a link that goes on has much to send. What may wait for the
//! data goes to the thread of roles.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use cluster::{Action, Cluster, Event, LinkId, MessageType, PublishedMessage, StreamPosition};
use config::settings::{
    CLUSTER_BUS_ALLOW, CLUSTER_BUS_PORT_PROTECTED_MODE, REPL_TIMEOUT, TLS_CLUSTER,
};
use engine::clients::mailbox::PendingWakes;
use engine::observe::pubsub::PubSubType;
use engine::runtime::log::{log_notice, log_warning};
use replication::replica::{LinkState, PrimaryAddress, ReplicaofTarget};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::yield_now;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::bus_link::{BusLink, BusPacket};
use super::node::{BusStats, DriverRequest, LinkFigures};
use super::rebalance::Rebalancer;
use super::role_thread::RoleJob;
use super::start::ClusterContext;
use crate::links::{LinkStatus, ReplicationReport};

/// So much news may wait; a sender of more waits, too.
const LINK_EVENTS_MAX: usize = 256;

/// So many links of peers stand at a time: strangers may ask for more.
const ACCEPTED_MAX: usize = 4096;

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Between two lines of the log about peers that were turned away.
const BETWEEN_NOTES_US: i64 = 1_000_000;

const TICK: Duration = Duration::from_millis(100);

/// What the tasks of links and sockets tell the driver.
pub(super) enum LinkEvent {
    Event(Event),
    Accepted(TcpStream),
}

/// What the driver is woken for.
enum DriverInput {
    Tick,
    Mail(DriverRequest),
    News(LinkEvent),
    Messages(Vec<PublishedMessage>),
}

/// Whose turn it is.
#[derive(Clone, Copy)]
enum DriverSource {
    Mail,
    News,
    Messages,
}

/// What drives the node.
pub(super) struct BusDriver {
    start: ClusterContext,
    roles: Sender<RoleJob>,
    links: HashMap<LinkId, BusLink>,
    accepted: u64,
    /// When the log may next be told of a peer that was turned away.
    tells_of_strangers_us: i64,
    tick: Interval,
    /// The source that comes first; the others follow round about.
    turn: usize,
    mail: UnboundedReceiver<DriverRequest>,
    reporter: mpsc::Sender<LinkEvent>,
    news: mpsc::Receiver<LinkEvent>,
}

impl BusDriver {
    /// To be called within the runtime of its thread.
    pub(super) fn new(
        start: ClusterContext,
        mail: UnboundedReceiver<DriverRequest>,
        roles: Sender<RoleJob>,
    ) -> Self {
        let (reporter, news) = mpsc::channel(LINK_EVENTS_MAX);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            start,
            roles,
            links: HashMap::new(),
            accepted: 0,
            tells_of_strangers_us: i64::MIN,
            tick,
            turn: 0,
            mail,
            reporter,
            news,
        }
    }

    /// Runs as long as the process.
    pub(super) async fn run(mut self, sockets: Vec<std::net::TcpListener>) {
        for socket in sockets {
            let listener =
                socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket));
            if let Ok(listener) = listener {
                tokio::spawn(accept(listener, self.reporter.clone()));
            }
        }
        loop {
            match poll_fn(|cx| self.poll_call(cx)).await {
                DriverInput::Tick => self.feed_tick(),
                DriverInput::Mail(DriverRequest::Actions(actions)) => {
                    actions.into_iter().for_each(|action| self.execute_action(action));
                }
                DriverInput::Mail(DriverRequest::DeleteSlotKeys(slots)) => {
                    self.queue(RoleJob::DeleteSlotKeys(slots));
                }
                DriverInput::Mail(DriverRequest::TakeOver) => {
                    self.handle_event(replication_offset(self.start));
                    self.handle_event(Event::PrimaryEnds);
                }
                DriverInput::News(LinkEvent::Event(event)) => self.handle_event(event),
                DriverInput::News(LinkEvent::Accepted(stream)) => self.accept_link(stream),
                DriverInput::Messages(messages) => {
                    self.send_messages(messages);
                    // The tasks of links go on, too.
                    yield_now().await;
                }
            }
        }
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<DriverInput> {
        if self.tick.poll_tick(cx).is_ready() {
            return Poll::Ready(DriverInput::Tick);
        }
        const SOURCES: [DriverSource; 3] =
            [DriverSource::Mail, DriverSource::News, DriverSource::Messages];
        self.turn = (self.turn + 1) % SOURCES.len();
        for index in 0..SOURCES.len() {
            let source = SOURCES[(self.turn + index) % SOURCES.len()];
            if let Poll::Ready(input) = self.poll_source(source, cx) {
                return Poll::Ready(input);
            }
        }
        Poll::Pending
    }

    fn poll_source(&mut self, source: DriverSource, cx: &mut Context<'_>) -> Poll<DriverInput> {
        match source {
            DriverSource::Mail => match self.mail.poll_recv(cx) {
                Poll::Ready(Some(mail)) => Poll::Ready(DriverInput::Mail(mail)),
                _ => Poll::Pending,
            },
            DriverSource::News => match self.news.poll_recv(cx) {
                Poll::Ready(Some(news)) => Poll::Ready(DriverInput::News(news)),
                _ => Poll::Pending,
            },
            DriverSource::Messages => {
                let Some(messages) = self.start.node.messages.get() else { return Poll::Pending };
                // The next tick looks again.
                if !messages.is_empty() && self.links.values().any(BusLink::is_behind) {
                    return Poll::Pending;
                }
                messages.poll_take(cx).map(DriverInput::Messages)
            }
        }
    }

    /// Tells how far replication is, and that time goes by.
    fn feed_tick(&mut self) {
        let server = self.start.server;
        self.links.values_mut().for_each(BusLink::note_progress);
        let silence_max_ms = i64::from(server.config.get(REPL_TIMEOUT)) * 1000;
        self.start.node.moves.end_hopeless(self.start, silence_max_ms);
        Rebalancer::tick(self.start);
        self.handle_event(replication_offset(self.start));
        self.handle_event(Event::Tick);
    }

    fn handle_event(&mut self, event: Event) {
        let ClusterContext { server, node, .. } = self.start;
        match &event {
            Event::Closed { link } => self.forget(*link),
            Event::Received { packet, .. } => {
                BusStats::count(&node.counts.received, packet.body.kind());
            }
            _ => {}
        }
        if node.handle(server, event) {
            self.queue(RoleJob::Publish);
        }
    }

    fn accept_link(&mut self, stream: TcpStream) {
        let addresses = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
        let Ok((peer, local)) = addresses else { return };
        let allowed = self.start.server.config.get(CLUSTER_BUS_ALLOW);
        let is_allowed = match allowed.are_none() {
            true => peer.ip().to_canonical().is_loopback() || !self.is_protected(),
            false => allowed.contain(peer.ip()),
        };
        if !is_allowed {
            self.note_stranger(peer.ip().to_canonical());
            return;
        }
        let accepted = self.links.keys().filter(|link| matches!(link, LinkId::From(_))).count();
        if accepted >= ACCEPTED_MAX {
            return;
        }
        self.accepted += 1;
        let link = LinkId::From(self.accepted);
        let bus_link = BusLink::accepted(self.start.server, link, stream, self.reporter.clone());
        self.keep(link, bus_link);
        self.handle_event(Event::Accepted {
            link,
            peer: peer.ip().to_canonical(),
            local: local.ip().to_canonical(),
        });
    }

    /// Whether peers of other machines are kept out until something says who may come.
    fn is_protected(&self) -> bool {
        let config = &self.start.server.config;
        config.get(CLUSTER_BUS_PORT_PROTECTED_MODE) && !config.get(TLS_CLUSTER)
    }

    /// A peer was turned away that `cluster-bus-allow` does not name. Of very many a few are told.
    fn note_stranger(&mut self, address: IpAddr) {
        let server = self.start.server;
        let now_us = server.keyspace.clock().monotonic_us();
        if now_us >= self.tells_of_strangers_us {
            self.tells_of_strangers_us = now_us + BETWEEN_NOTES_US;
            log_warning!(
                server.log,
                "A connection to the cluster bus from {address} was closed: cluster-bus-allow \
                 does not name it"
            );
        }
    }

    fn keep(&mut self, link: LinkId, bus_link: BusLink) {
        let figures = Arc::clone(&bus_link.figures);
        self.link_stats().insert(link, figures);
        self.links.insert(link, bus_link);
    }

    fn forget(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.link_stats().remove(&link);
    }

    fn link_stats(&self) -> MutexGuard<'_, BTreeMap<LinkId, Arc<LinkFigures>>> {
        self.start.node.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, job: RoleJob) {
        // The thread of roles lives as long as the process.
        let _ = self.roles.send(job);
    }

    fn execute_action(&mut self, action: Action) {
        let server = self.start.server;
        match action {
            Action::SaveConfig { .. } => unreachable!("what is promised was written at once"),
            Action::Connect { link, ip, port } => {
                let to = SocketAddr::new(ip, port);
                let opened = BusLink::open(server, link, to, self.reporter.clone());
                self.keep(link, opened);
            }
            Action::Close { link } => self.forget(link),
            Action::Send { link, bytes } => self.send(link, bytes),
            Action::Deliver { channel, message, is_sharded } => {
                let space = if is_sharded { PubSubType::Shard } else { PubSubType::Global };
                let wakes = PendingWakes::default();
                server.pushes.pubsub.publish(server.outbox(&wakes), space, &channel, &message);
                server.mailboxes.wake(&wakes);
            }
            Action::Replicate { primary, ip: Some(ip), port } => {
                let ClusterContext { server, node, .. } = self.start;
                let port = node.replication_port(server, primary).unwrap_or(port);
                self.queue(RoleJob::Replicate(PrimaryAddress { host: ip.to_string(), port }));
            }
            // The address comes with the primary's next packet.
            Action::Replicate { ip: None, .. } => {}
            Action::BecomePrimary => self.queue(RoleJob::Promote),
            Action::PauseWrites { length } => {
                self.queue(RoleJob::Pause(Duration::from_millis(length)));
            }
            Action::ResumeWrites => self.queue(RoleJob::Resume),
            Action::DeleteSlotKeys { slots } => {
                self.queue(RoleJob::DeleteLostKeys(slots.iter().map(cluster::Slot::get).collect()));
            }
            Action::Log { text } => log_notice!(server.log, "{text}"),
        }
    }

    fn send(&mut self, link: LinkId, bytes: Vec<u8>) {
        let ClusterContext { server, node, .. } = self.start;
        let Some(bus_link) = self.links.get(&link) else { return };
        if let Some(kind) = kind_of(&bytes) {
            BusStats::count(&node.counts.sent, kind);
        }
        if !bus_link.send(server, BusPacket::Order(bytes)) {
            self.give_up(link);
        }
    }

    /// Sends messages, each packet of which is made once.
    fn send_messages(&mut self, messages: Vec<PublishedMessage>) {
        let ClusterContext { server, node, .. } = self.start;
        let pack = |cluster: &mut Cluster| {
            messages.into_iter().map(|message| cluster.packet_of(message)).collect::<Vec<_>>()
        };
        for (to, bytes) in node.with_engine(pack).unwrap_or_default() {
            let (kind, bytes) = (kind_of(&bytes), Arc::<[u8]>::from(bytes));
            for link in to {
                let Some(bus_link) = self.links.get(&link) else { continue };
                kind.into_iter().for_each(|kind| BusStats::count(&node.counts.sent, kind));
                if !bus_link.send(server, BusPacket::Message(Arc::clone(&bytes))) {
                    self.give_up(link);
                }
            }
        }
    }

    /// A link has too much to send.
    fn give_up(&mut self, link: LinkId) {
        self.start.node.counts.buffer_limit_exceeded.fetch_add(1, Ordering::Relaxed);
        self.handle_event(Event::Closed { link });
    }
}

/// How far replication is. The link may lead to another primary than the node has by now.
fn replication_offset(start: ClusterContext) -> Event {
    let ClusterContext { server, links, node } = start;
    let primary = node.with_engine(|cluster| cluster.my_primary()).flatten();
    let address = match node.replication_target(server) {
        Some(ReplicaofTarget::Primary(address)) => Some(address),
        _ => None,
    };
    let ReplicationReport { offset, link, .. } = links.report(server);
    if primary.is_none() {
        // Until it leads, the node has what it applied.
        let offset = link.map_or(offset, |link| link.offset);
        let position = StreamPosition::Flowing(offset);
        return Event::ReplicationOffset { primary, position, silence: None };
    }
    let leads_there = |link: &LinkStatus| {
        let there = PrimaryAddress { host: link.host.clone(), port: link.port };
        address.is_some_and(|address| address.is_same(&there))
    };
    let Some(link) = link.filter(leads_there) else {
        let position = StreamPosition::Nowhere;
        return Event::ReplicationOffset { primary, position, silence: None };
    };
    let flows = link.state == LinkState::Connected;
    let position = match link.is_of_primary {
        false => StreamPosition::Nowhere,
        true if flows => StreamPosition::Flowing(link.offset),
        true => StreamPosition::Stopped(link.offset),
    };
    let seconds = if flows { Some(link.last_io_s) } else { link.down_since_s };
    let silence = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let silence = silence.map(|seconds| seconds * 1000);
    Event::ReplicationOffset { primary, position, silence }
}

/// The type of a packet of ours.
fn kind_of(bytes: &[u8]) -> Option<MessageType> {
    let number = u16::from_be_bytes([*bytes.get(12)?, *bytes.get(13)?]);
    MessageType::ALL.into_iter().find(|kind| *kind as u16 == number)
}

async fn accept(listener: TcpListener, news: mpsc::Sender<LinkEvent>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if news.send(LinkEvent::Accepted(stream)).await.is_err() {
                    return;
                }
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
