//! A connection to an instance: a task that writes what the Sentinel sends and a task that reads
//! what comes.
//!
//! The instance may be hostile. Invariants: what waits to be sent and what has come of a reply that
//! is not complete are bounded; of a connection that is closed nothing more is told.

use std::net::SocketAddr;
use std::time::Duration;

use config::settings::TLS_REPLICATION;
use proto::OwnedArgs;
use proto::value::ReplyParser;
use sentinel::{ConnectionId, Event, REPLY_LIMITS};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::net::network::Network;
use crate::net::outgoing;

/// What comes by a connection, and what leaves.
type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long the system may refuse to take what is sent.
const SEND_PATIENCE: Duration = Duration::from_secs(10);

/// How many commands may wait to be sent: the Sentinel itself lets no more be without a reply than
/// a hundred.
const COMMANDS_MAX: usize = 256;

/// How many bytes of a reply may come before it is complete.
const REPLY_MAX: usize = 2 << 20;

/// How much is read at once.
const CHUNK: usize = 16 << 10;

/// The driver's end of a connection; when it is dropped, what was sent leaves, and that is all.
pub(super) type Outbound = mpsc::Sender<OwnedArgs>;

/// Connects, and tells what becomes of it.
pub(super) fn connect(
    server: &'static Network,
    connection: ConnectionId,
    to: SocketAddr,
    news: mpsc::Sender<Event>,
) -> Outbound {
    let (outbound, commands) = mpsc::channel(COMMANDS_MAX);
    tokio::spawn(async move {
        if run(server, connection, to, (&news, commands)).await.is_none() {
            // The driver listens no more when the process is about to end.
            let _ = news.send(Event::Disconnected { connection }).await;
        }
    });
    outbound
}

/// Lives as long as the connection; nothing is returned when that was lost.
async fn run(
    server: &'static Network,
    connection: ConnectionId,
    to: SocketAddr,
    (news, mut commands): (&mpsc::Sender<Event>, mpsc::Receiver<OwnedArgs>),
) -> Option<()> {
    let connecting = outgoing::connect(&server.config, to);
    let stream = timeout(CONNECT_PATIENCE, connecting).await.ok()?.ok()?;
    // What is sent is short and awaited; the kernel's default would do, only slower.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok()?.ip();
    let (input, mut output): (Input, Output) = match server.config.get(TLS_REPLICATION) {
        true => {
            let stream = timeout(CONNECT_PATIENCE, server.tls.connect(stream)).await.ok()?.ok()?;
            let (input, output) = tokio::io::split(stream);
            (Box::new(input), Box::new(output))
        }
        false => {
            let (input, output) = stream.into_split();
            (Box::new(input), Box::new(output))
        }
    };
    news.send(Event::Connected { connection, local }).await.ok()?;
    let told = news.clone();
    let reader = tokio::spawn(async move {
        read(connection, input, &told).await;
        let _ = told.send(Event::Disconnected { connection }).await;
    });
    let written = write(&mut output, &mut commands).await;
    reader.abort();
    written
}

/// Writes until the driver lets go of the connection.
async fn write(output: &mut Output, commands: &mut mpsc::Receiver<OwnedArgs>) -> Option<()> {
    let mut bytes = Vec::new();
    while let Some(command) = commands.recv().await {
        command.as_args().encode(&mut bytes);
        while let Ok(command) = commands.try_recv() {
            command.as_args().encode(&mut bytes);
        }
        timeout(SEND_PATIENCE, output.write_all(&bytes)).await.ok()?.ok()?;
        bytes.clear();
    }
    Some(())
}

/// Reads until the stream ends or makes no sense.
async fn read(connection: ConnectionId, mut input: Input, news: &mpsc::Sender<Event>) {
    let mut parser = ReplyParser::new(REPLY_LIMITS);
    let mut chunk = vec![0; CHUNK];
    let mut incomplete = 0;
    loop {
        let count = match input.read(&mut chunk).await {
            Ok(count) if count > 0 => count,
            _ => return,
        };
        parser.feed(&chunk[..count]);
        incomplete += count;
        loop {
            match parser.next_reply() {
                Ok(Some(value)) => {
                    incomplete = 0;
                    if news.send(Event::Received { connection, value }).await.is_err() {
                        return;
                    }
                }
                Ok(None) if incomplete <= REPLY_MAX => break,
                Ok(None) | Err(_) => return,
            }
        }
    }
}
