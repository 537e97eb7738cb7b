//! memcached by UDP: one datagram asks, one answers.
//!
//! A datagram is served as a connection that ends behind it, through the same gates, so it is
//! accepted and executed as any other client's. Invariants: a request that needs more than one
//! datagram is refused and nothing of it kept; an answer is one datagram of at most `ANSWER_MAX`
//! bytes, so a sender that names another's address has no more sent there than that; what comes
//! while too many datagrams are served already is dropped, as UDP allows.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream as Pipe;
use std::sync::Arc;
use std::time::Duration;

use engine::clients::registry::Peer;
use proto::memcached::datagram::{FRAME_LENGTH, Frame};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UdpSocket, UnixStream};
use tokio::sync::Semaphore;

use crate::net::connection::RawStream;
use crate::net::listeners::{Protocol, accept};
use crate::net::network::Network;

/// No answer is longer, frame and all: so an answer fits one packet on any network.
const ANSWER_MAX: usize = 1400;

/// No datagram is longer.
const DATAGRAM_MAX: usize = 64 * 1024;

/// Datagrams that are served at a time.
const IN_FLIGHT: usize = 64;

/// A client that has no answer after so long has asked again.
const PATIENCE: Duration = Duration::from_secs(1);

const IN_PIECES: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const TOO_LONG: &[u8] = b"SERVER_ERROR the answer is too large for UDP\r\n";

/// Serves the datagrams that come in at an address; where that is, and by which descriptor. Called
/// within the main thread's runtime.
pub(crate) fn listen(
    server: &'static Network,
    address: SocketAddr,
) -> io::Result<(SocketAddr, RawFd)> {
    let socket =
        Socket::new(Domain::for_address(address), Type::DGRAM, Some(socket2::Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from_std(socket.into())?;
    let (address, descriptor) = (socket.local_addr()?, socket.as_raw_fd());
    tokio::spawn(serve(server, Arc::new(socket), address));
    Ok((address, descriptor))
}

async fn serve(server: &'static Network, socket: Arc<UdpSocket>, local: SocketAddr) {
    let turns = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        // An error is about a datagram that left, whose receiver is gone.
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        let Some((frame, request)) = Frame::split(&buffer[..length]) else { continue };
        let Ok(turn) = Arc::clone(&turns).try_acquire_owned() else { continue };
        let (socket, request) = (Arc::clone(&socket), request.to_vec());
        tokio::spawn(async move {
            let _turn = turn;
            let answer = match frame.is_whole() {
                true => ask(server, &request, peer, local).await,
                false => IN_PIECES.to_vec(),
            };
            if !answer.is_empty() {
                let frame = Frame { request: frame.request, sequence: 0, count: 1 };
                let datagram = [&frame.to_bytes()[..], &answer].concat();
                // A client that is gone needs no answer.
                let _ = socket.send_to(&datagram, peer).await;
            }
        });
    }
}

/// Has a request executed; its answer, if there is one in time.
async fn ask(
    server: &'static Network,
    request: &[u8],
    peer: SocketAddr,
    local: SocketAddr,
) -> Vec<u8> {
    let asked = tokio::time::timeout(PATIENCE, connect(server, request, peer, local));
    let answer = asked.await.ok().and_then(Result::ok).unwrap_or_default();
    if answer.len() > ANSWER_MAX - FRAME_LENGTH { TOO_LONG.to_vec() } else { answer }
}

async fn connect(
    server: &'static Network,
    request: &[u8],
    peer: SocketAddr,
    local: SocketAddr,
) -> io::Result<Vec<u8>> {
    let (ours, theirs) = Pipe::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let ends = (Peer::Tcp(peer.into()), Peer::Tcp(local.into()));
    accept(server, Protocol::Memcached, RawStream::Unix(theirs), ends);
    let mut ours = UnixStream::from_std(ours)?;
    ours.write_all(request).await?;
    ours.shutdown().await?;
    let mut answer = Vec::new();
    // One byte too many tells that it is too long.
    ours.take(ANSWER_MAX as u64).read_to_end(&mut answer).await?;
    Ok(answer)
}
