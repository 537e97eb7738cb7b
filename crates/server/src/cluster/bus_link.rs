//! A link of the bus: a task that writes what the engine sends and a task that cuts what comes into
//! packets.
//!
//! The peer may be hostile. Invariants: what waits to be sent and what has come of a packet that is
//! not whole are bounded; news of a link waits until the driver has taken that before it. What the
//! node itself has to say never waits behind what clients publish.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use base::io_error_text::strerror;
use cluster::{Event, Limits, LinkId, PacketReader, ReceivedPacket};
use config::LogLevel;
use config::settings::{CLUSTER_LINK_SENDBUF_LIMIT, PROTO_MAX_BULK_LEN, TLS_CLUSTER};
use engine::runtime::log::log_warning;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::driver::LinkEvent;
use super::node::LinkFigures;
use crate::net::network::Network;
use crate::net::outgoing;
use crate::net::tls::TlsStream;

/// How long a link may take to be opened.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// How much is read at once.
const CHUNK: usize = 16 << 10;

/// What may wait to be sent where `cluster-link-sendbuf-limit` says nothing.
const QUEUED_MAX: usize = 256 << 20;

/// Messages wait for a link that has more to send, as long as it sends anything.
const BEHIND_ABOVE: usize = 16 << 20;

/// A link that has sent nothing for so many ticks is waited for no more.
const STUCK_TICKS: u32 = 10;

/// Packets up to this size together are written at once.
const GATHERED: usize = 64 << 10;

/// A packet may gossip about so many nodes.
const GOSSIP_MAX: usize = 16_384;

/// Room beside the longest value for a channel's name.
const CHANNEL_ROOM: usize = 16 << 20;

/// How long a peer that has come may take to agree on keys.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

type LinkReader = Box<dyn AsyncRead + Send + Unpin>;
type LinkWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// What is sent.
pub(super) enum BusPacket {
    /// What the node has to say.
    Order(Vec<u8>),
    /// What a client has published.
    Message(Arc<[u8]>),
}

/// The driver's end of a link, which ends with it.
pub(super) struct BusLink {
    queue: BusQueue,
    pub(super) figures: Arc<LinkFigures>,
    tasks: Vec<AbortHandle>,
    /// What was sent at the last tick, and since how many ticks that is no more though some waits.
    written: u64,
    stuck_ticks: u32,
}

/// What waits to be sent, at the driver's end.
struct BusQueue {
    orders: mpsc::UnboundedSender<Vec<u8>>,
    messages: mpsc::UnboundedSender<Arc<[u8]>>,
}

/// The same at the end of the task that writes.
struct BusQueueReader {
    orders: mpsc::UnboundedReceiver<Vec<u8>>,
    messages: mpsc::UnboundedReceiver<Arc<[u8]>>,
}

impl Drop for BusLink {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl BusLink {
    /// Opens a link, and tells when it stands.
    pub(super) fn open(
        server: &'static Network,
        link: LinkId,
        to: SocketAddr,
        news: mpsc::Sender<LinkEvent>,
    ) -> Self {
        let (queue, packets) = bus_queue();
        let figures = figures(server);
        let told = Arc::clone(&figures);
        let task = tokio::spawn(async move {
            let (input, output) = match timeout(CONNECT_PATIENCE, connect(server, to)).await {
                Ok(Ok(halves)) => halves,
                Ok(Err(error)) => {
                    note_failure(server, to, &strerror(&error));
                    return send_event(&news, Event::Closed { link }).await;
                }
                Err(_) => return send_event(&news, Event::Closed { link }).await,
            };
            send_event(&news, Event::Connected { link }).await;
            let writer = tokio::spawn(write(output, packets, told));
            let _ended = EndsWith(writer.abort_handle());
            read(server, link, input, &news).await;
        });
        Self { queue, figures, tasks: vec![task.abort_handle()], written: 0, stuck_ticks: 0 }
    }

    /// Takes a link over that a peer has opened.
    pub(super) fn accepted(
        server: &'static Network,
        link: LinkId,
        stream: TcpStream,
        news: mpsc::Sender<LinkEvent>,
    ) -> Self {
        let (queue, packets) = bus_queue();
        let figures = figures(server);
        let told = Arc::clone(&figures);
        let task = tokio::spawn(async move {
            let Ok((input, output)) = receive(server, stream).await else {
                return send_event(&news, Event::Closed { link }).await;
            };
            let writer = tokio::spawn(write(output, packets, told));
            let _ended = EndsWith(writer.abort_handle());
            read(server, link, input, &news).await;
        });
        Self { queue, figures, tasks: vec![task.abort_handle()], written: 0, stuck_ticks: 0 }
    }

    /// Sends a packet; `false` where too much waits already.
    pub(super) fn send(&self, server: &Network, packet: BusPacket) -> bool {
        let configured = server.config.get(CLUSTER_LINK_SENDBUF_LIMIT);
        let most = if configured == 0 { QUEUED_MAX } else { configured };
        let len = packet.bytes().len();
        let queued = self.figures.queued.fetch_add(len, Ordering::Relaxed) + len;
        if queued > most {
            log_warning!(
                server.log,
                "Freeing cluster link(used memory: {queued}) due to exceeding send buffer memory \
                 limit."
            );
            return false;
        }
        // The writer of a link that is lost takes nothing more, which its reader tells.
        match packet {
            BusPacket::Order(bytes) => drop(self.queue.orders.send(bytes)),
            BusPacket::Message(bytes) => drop(self.queue.messages.send(bytes)),
        }
        true
    }

    /// Looks, at each tick, whether the link sends what it has to.
    pub(super) fn note_progress(&mut self) {
        let written = self.figures.written.load(Ordering::Relaxed);
        let waits = self.figures.queued.load(Ordering::Relaxed) > 0;
        let is_stuck = waits && written == self.written;
        self.stuck_ticks = if is_stuck { self.stuck_ticks.saturating_add(1) } else { 0 };
        self.written = written;
    }

    /// Whether messages are to wait for the link.
    pub(super) fn is_behind(&self) -> bool {
        self.stuck_ticks < STUCK_TICKS && self.figures.queued.load(Ordering::Relaxed) > BEHIND_ABOVE
    }
}

impl BusPacket {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Order(bytes) => bytes,
            Self::Message(bytes) => bytes,
        }
    }
}

fn bus_queue() -> (BusQueue, BusQueueReader) {
    let (orders, coming_orders) = mpsc::unbounded_channel();
    let (messages, coming_messages) = mpsc::unbounded_channel();
    let reader = BusQueueReader { orders: coming_orders, messages: coming_messages };
    (BusQueue { orders, messages }, reader)
}

impl BusQueueReader {
    /// The next packet; none when the driver's end is gone.
    async fn next(&mut self) -> Option<BusPacket> {
        poll_fn(|cx| {
            if let Poll::Ready(order) = self.orders.poll_recv(cx) {
                return Poll::Ready(order.map(BusPacket::Order));
            }
            self.messages.poll_recv(cx).map(|message| message.map(BusPacket::Message))
        })
        .await
    }

    /// The next packet that is there already.
    fn try_next(&mut self) -> Option<BusPacket> {
        let order = self.orders.try_recv().ok().map(BusPacket::Order);
        order.or_else(|| self.messages.try_recv().ok().map(BusPacket::Message))
    }
}

/// Ends a task with the one that has this.
struct EndsWith(AbortHandle);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn figures(server: &Network) -> Arc<LinkFigures> {
    let created = server.keyspace.clock().now_ms().unsigned_abs();
    Arc::new(LinkFigures { created, ..LinkFigures::default() })
}

fn note_failure(server: &Network, to: SocketAddr, why: &str) {
    let line = format_args!("Connection with Node at {to} failed: {why}");
    server.log.write(LogLevel::Debug, line);
}

async fn send_event(news: &mpsc::Sender<LinkEvent>, event: Event) {
    // The driver listens no more when the process is about to end.
    let _ = news.send(LinkEvent::Event(event)).await;
}

/// Opens a connection, encrypted where `tls-cluster` says so.
async fn connect(server: &Network, to: SocketAddr) -> io::Result<(LinkReader, LinkWriter)> {
    let socket = outgoing::connect(&server.config, to).await?;
    // What is sent is short and awaited; the kernel's default would do, only slower.
    let _ = socket.set_nodelay(true);
    if server.config.get(TLS_CLUSTER) {
        return Ok(encrypted(server.tls.connect(socket).await?));
    }
    Ok(open(socket))
}

/// Makes the same of a connection that has come.
async fn receive(server: &Network, socket: TcpStream) -> io::Result<(LinkReader, LinkWriter)> {
    // As above.
    let _ = socket.set_nodelay(true);
    if server.config.get(TLS_CLUSTER) {
        return Ok(encrypted(server.tls.receive_node(socket, HANDSHAKE_PATIENCE).await?));
    }
    Ok(open(socket))
}

fn open(socket: TcpStream) -> (LinkReader, LinkWriter) {
    let (input, output) = socket.into_split();
    (Box::new(input), Box::new(output))
}

fn encrypted(stream: Box<TlsStream>) -> (LinkReader, LinkWriter) {
    let (input, output) = split(stream);
    (Box::new(input), Box::new(output))
}

async fn write(mut output: LinkWriter, mut packets: BusQueueReader, figures: Arc<LinkFigures>) {
    let mut gathered = Vec::new();
    let mut next = None;
    loop {
        let packet = match next.take() {
            Some(packet) => packet,
            None => match packets.next().await {
                Some(packet) => packet,
                None => return,
            },
        };
        let bytes = packet.bytes();
        gathered.clear();
        let written = if bytes.len() < GATHERED {
            gathered.extend_from_slice(bytes);
            while let Some(more) = packets.try_next() {
                if gathered.len() + more.bytes().len() > GATHERED {
                    next = Some(more);
                    break;
                }
                gathered.extend_from_slice(more.bytes());
            }
            &gathered[..]
        } else {
            bytes
        };
        if write_counted(&mut output, written, &figures).await.is_err() {
            return;
        }
    }
}

/// Writes all of it, and counts what is written as it goes.
async fn write_counted(
    output: &mut LinkWriter,
    mut bytes: &[u8],
    figures: &LinkFigures,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = output.write(bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        figures.queued.fetch_sub(count, Ordering::Relaxed);
        figures.written.fetch_add(count as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn read(
    server: &'static Network,
    link: LinkId,
    mut input: LinkReader,
    news: &mpsc::Sender<LinkEvent>,
) {
    let mut reader = PacketReader::default();
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = input.read(&mut chunk).await {
        reader.feed(&chunk[..count]);
        if !pass_on(server, link, &mut reader, news).await {
            break;
        }
    }
    send_event(news, Event::Closed { link }).await;
}

/// Passes on what has come whole; `false` where the peer speaks nonsense.
async fn pass_on(
    server: &Network,
    link: LinkId,
    reader: &mut PacketReader,
    news: &mpsc::Sender<LinkEvent>,
) -> bool {
    let payload = server.config.get(PROTO_MAX_BULK_LEN).saturating_add(CHANNEL_ROOM);
    let limits = Limits { nodes: GOSSIP_MAX, payload };
    loop {
        match reader.next(limits) {
            Ok(None) => return true,
            Ok(Some(ReceivedPacket::Packet(packet))) => {
                send_event(news, Event::Received { link, packet }).await;
            }
            Ok(Some(ReceivedPacket::Ignored(why))) => log_warning!(server.log, "{why}"),
            Err(why) => {
                log_warning!(server.log, "{why}");
                return false;
            }
        }
    }
}
