//! The thread of the bus: it accepts links, feeds the engine one event at a time, and carries out
//! what comes of each.
//!
//! Invariants: ticks come before all else, so no flood of packets puts them off; what may wait for
//! the data goes to the thread of roles.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use cluster::{Action, Event, Kind, LinkId, NodeId};
use config::settings::TLS_REPLICATION;
use engine::clients::mailbox::PendingWakes;
use engine::observe::pubsub::Space;
use engine::runtime::log::log_notice;
use replication::replica::{LinkState, PrimaryAddress};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::link::BusLink;
use super::node::{BusCounts, BusMail, LinkFigures};
use super::roles::RoleJob;
use super::start::ClusterStart;

/// So much news may wait; a sender of more waits, too.
const NEWS_MAX: usize = 256;

/// So many links of peers stand at a time: strangers may ask for more.
const ACCEPTED_MAX: usize = 4096;

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TICK: Duration = Duration::from_millis(100);

/// What the tasks of links and sockets tell the driver.
pub(super) enum BusNews {
    Event(Event),
    Accepted(TcpStream),
}

/// What the driver is woken for.
enum BusCall {
    Tick,
    Mail(BusMail),
    News(BusNews),
}

/// What drives the node.
pub(super) struct BusDriver {
    start: ClusterStart,
    roles: Sender<RoleJob>,
    links: HashMap<LinkId, BusLink>,
    accepted: u64,
    tick: Interval,
    mail: UnboundedReceiver<BusMail>,
    reporter: mpsc::Sender<BusNews>,
    news: mpsc::Receiver<BusNews>,
}

impl BusDriver {
    /// To be called within the runtime of its thread.
    pub(super) fn new(
        start: ClusterStart,
        mail: UnboundedReceiver<BusMail>,
        roles: Sender<RoleJob>,
    ) -> Self {
        let (reporter, news) = mpsc::channel(NEWS_MAX);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (links, accepted) = (HashMap::new(), 0);
        Self { start, roles, links, accepted, tick, mail, reporter, news }
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
                BusCall::Tick => self.feed_tick(),
                BusCall::Mail(BusMail::Actions(actions)) => {
                    actions.into_iter().for_each(|action| self.act(action));
                }
                BusCall::Mail(BusMail::Event(event)) => self.feed(event),
                BusCall::News(BusNews::Event(event)) => self.feed(event),
                BusCall::News(BusNews::Accepted(stream)) => self.take_in(stream),
            }
        }
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<BusCall> {
        if self.tick.poll_tick(cx).is_ready() {
            return Poll::Ready(BusCall::Tick);
        }
        if let Poll::Ready(Some(mail)) = self.mail.poll_recv(cx) {
            return Poll::Ready(BusCall::Mail(mail));
        }
        match self.news.poll_recv(cx) {
            Poll::Ready(Some(news)) => Poll::Ready(BusCall::News(news)),
            _ => Poll::Pending,
        }
    }

    /// Tells how far replication is, and that time goes by.
    fn feed_tick(&mut self) {
        let ClusterStart { server, links, .. } = self.start;
        let report = links.report(server);
        let (offset, silence) = match &report.link {
            None => (report.offset, None),
            Some(link) => {
                let seconds = match link.state {
                    LinkState::Connected => Some(link.last_io_s),
                    _ => link.down_since_s,
                };
                let silence = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                (link.offset, silence.map(|seconds| seconds * 1000))
            }
        };
        self.feed(Event::Progress { offset, silence });
        self.feed(Event::Tick);
    }

    fn feed(&mut self, event: Event) {
        let ClusterStart { server, node, .. } = self.start;
        match &event {
            Event::Closed { link } => self.forget(*link),
            Event::Received { packet, .. } => {
                BusCounts::count(&node.counts.received, packet.body.kind());
            }
            _ => {}
        }
        if node.handle(server, event) {
            self.leave(RoleJob::Publish);
        }
    }

    fn take_in(&mut self, stream: TcpStream) {
        let addresses = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
        let Ok((peer, local)) = addresses else { return };
        let accepted = self.links.keys().filter(|link| matches!(link, LinkId::From(_))).count();
        if accepted >= ACCEPTED_MAX {
            return;
        }
        self.accepted += 1;
        let link = LinkId::From(self.accepted);
        let bus_link = BusLink::accepted(self.start.server, link, stream, self.reporter.clone());
        self.keep(link, bus_link);
        self.feed(Event::Accepted {
            link,
            peer: peer.ip().to_canonical(),
            local: local.ip().to_canonical(),
        });
    }

    fn keep(&mut self, link: LinkId, bus_link: BusLink) {
        let figures = Arc::clone(&bus_link.figures);
        self.told_links().insert(link, figures);
        self.links.insert(link, bus_link);
    }

    fn forget(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.told_links().remove(&link);
    }

    fn told_links(&self) -> MutexGuard<'_, BTreeMap<LinkId, Arc<LinkFigures>>> {
        self.start.node.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, job: RoleJob) {
        // The thread of roles lives as long as the process.
        let _ = self.roles.send(job);
    }

    fn act(&mut self, action: Action) {
        let server = self.start.server;
        match action {
            Action::Persist { .. } => unreachable!("what is promised was written at once"),
            Action::Connect { link, ip, port } => {
                let to = SocketAddr::new(ip, port);
                let opened = BusLink::open(server, link, to, self.reporter.clone());
                self.keep(link, opened);
            }
            Action::Close { link } => self.forget(link),
            Action::Send { link, bytes } => self.send(link, bytes),
            Action::Deliver { channel, message, is_sharded } => {
                let space = if is_sharded { Space::Shard } else { Space::Global };
                let wakes = PendingWakes::default();
                server.pushes.pubsub.publish(server.outbox(&wakes), space, &channel, &message);
                server.mailboxes.wake(&wakes);
            }
            Action::Follow { primary, ip: Some(ip), port } => {
                let port = self.replication_port(primary).unwrap_or(port);
                self.leave(RoleJob::Follow(PrimaryAddress { host: ip.to_string(), port }));
            }
            // The address comes with the primary's next packet.
            Action::Follow { ip: None, .. } => {}
            Action::Lead => self.leave(RoleJob::Lead),
            Action::PauseWrites { length } => {
                self.leave(RoleJob::Pause(Duration::from_millis(length)));
            }
            Action::ResumeWrites => self.leave(RoleJob::Resume),
            Action::DropKeys { slots } => {
                self.leave(RoleJob::Drop(slots.iter().map(cluster::Slot::get).collect()));
            }
            Action::DropAll => self.leave(RoleJob::Drop((0..cluster::SLOTS).collect())),
            Action::Log { text } => log_notice!(server.log, "{text}"),
        }
    }

    /// The port for replicas of a primary: that of TLS where replication goes by TLS.
    fn replication_port(&self, primary: NodeId) -> Option<u16> {
        let records = self.start.node.look(|cluster| cluster.records())?;
        let record = records.iter().find(|record| record.id == primary)?;
        let is_encrypted = self.start.server.config.get(TLS_REPLICATION);
        let port = if is_encrypted { record.tls_port } else { record.tcp_port };
        (port != 0).then_some(port)
    }

    fn send(&mut self, link: LinkId, bytes: Vec<u8>) {
        let ClusterStart { server, node, .. } = self.start;
        let Some(bus_link) = self.links.get(&link) else { return };
        if let Some(kind) = kind_of(&bytes) {
            BusCounts::count(&node.counts.sent, kind);
        }
        if !bus_link.send(server, bytes) {
            node.counts.overflowed.fetch_add(1, Ordering::Relaxed);
            self.feed(Event::Closed { link });
        }
    }
}

/// The type of a packet of ours.
fn kind_of(bytes: &[u8]) -> Option<Kind> {
    let number = u16::from_be_bytes([*bytes.get(12)?, *bytes.get(13)?]);
    Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
}

async fn accept(listener: TcpListener, news: mpsc::Sender<BusNews>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if news.send(BusNews::Accepted(stream)).await.is_err() {
                    return;
                }
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
