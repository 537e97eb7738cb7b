//! A link of the bus: a task that writes what the engine sends and a task that cuts what comes into
//! packets.
//!
//! The peer may be hostile. Invariants: what waits to be sent and what has come of a packet that is
//! not whole are bounded; news of a link waits until the driver has taken that before it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::io_error_text::plain;
use cluster::{Arrival, Event, Limits, LinkId, PacketReader};
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
use crate::net::tls::TlsStream;

/// How long a link may take to be opened.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// How much is read at once.
const CHUNK: usize = 16 << 10;

/// What may wait to be sent where `cluster-link-sendbuf-limit` says nothing.
const QUEUED_MAX: usize = 256 << 20;

/// A packet may gossip about so many nodes.
const GOSSIP_MAX: usize = 16_384;

/// Room beside the longest value for a channel's name.
const CHANNEL_ROOM: usize = 16 << 20;

/// How long a peer that has come may take to agree on keys.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

type LinkReader = Box<dyn AsyncRead + Send + Unpin>;
type LinkWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// The driver's end of a link, which ends with it.
pub(super) struct BusLink {
    queue: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) figures: Arc<LinkFigures>,
    tasks: Vec<AbortHandle>,
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
        let (queue, packets) = mpsc::unbounded_channel();
        let figures = figures(server);
        let told = Arc::clone(&figures);
        let task = tokio::spawn(async move {
            let (input, output) = match timeout(CONNECT_PATIENCE, connect(server, to)).await {
                Ok(Ok(halves)) => halves,
                Ok(Err(error)) => {
                    note_failure(server, to, &plain(&error));
                    return send_event(&news, Event::Closed { link }).await;
                }
                Err(_) => return send_event(&news, Event::Closed { link }).await,
            };
            send_event(&news, Event::Connected { link }).await;
            let writer = tokio::spawn(write(output, packets, told));
            let _ended = EndsWith(writer.abort_handle());
            read(server, link, input, &news).await;
        });
        Self { queue, figures, tasks: vec![task.abort_handle()] }
    }

    /// Takes a link over that a peer has opened.
    pub(super) fn accepted(
        server: &'static Network,
        link: LinkId,
        stream: TcpStream,
        news: mpsc::Sender<LinkEvent>,
    ) -> Self {
        let (queue, packets) = mpsc::unbounded_channel();
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
        Self { queue, figures, tasks: vec![task.abort_handle()] }
    }

    /// Sends a packet; `false` where too much waits already.
    pub(super) fn send(&self, server: &Network, bytes: Vec<u8>) -> bool {
        let configured = server.config.get(CLUSTER_LINK_SENDBUF_LIMIT);
        let most = if configured == 0 { QUEUED_MAX } else { configured };
        let queued = self.figures.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if queued > most {
            log_warning!(
                server.log,
                "Freeing cluster link(used memory: {queued}) due to exceeding send buffer memory \
                 limit."
            );
            return false;
        }
        // The writer of a link that is lost takes nothing more, which its reader tells.
        let _ = self.queue.send(bytes);
        true
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
    let socket = TcpStream::connect(to).await?;
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

async fn write(
    mut output: LinkWriter,
    mut packets: mpsc::UnboundedReceiver<Vec<u8>>,
    figures: Arc<LinkFigures>,
) {
    while let Some(bytes) = packets.recv().await {
        if output.write_all(&bytes).await.is_err() {
            return;
        }
        figures.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
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
            Ok(Some(Arrival::Packet(packet))) => {
                send_event(news, Event::Received { link, packet }).await;
            }
            Ok(Some(Arrival::Ignored(why))) => log_warning!(server.log, "{why}"),
            Err(why) => {
                log_warning!(server.log, "{why}");
                return false;
            }
        }
    }
}
