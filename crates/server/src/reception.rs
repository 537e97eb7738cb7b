//! The reception: sockets that listen, connections that come in, signals, and the slow clock.
//!
//! Invariant: it runs on the main thread and never executes a command; a new connection is in a
//! worker's hands microseconds after it was accepted.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::clients::Peer;
use crate::config::BindAddress;
use crate::config::settings::{
    BIND, MAXCLIENTS, PORT, PROTECTED_MODE, REQUIREPASS, TCP_BACKLOG, TCP_KEEPALIVE, UNIXSOCKET,
    UNIXSOCKETPERM,
};
use crate::log::{log_notice, log_warning};
use crate::server::Server;
use crate::session::{Moving, RawStream, Session};

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is \
enabled and no password is set for the default user. In this mode connections are only accepted \
from the loopback interface. If you want to connect from external computers to Redis you may adopt \
one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET \
protected-mode no' from the loopback interface by connecting to Redis from the same host the server \
is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use \
CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected \
mode by editing the Redis configuration file, and setting the protected mode option to 'no', and \
then restarting the server. 3) If you started the server manually just for testing, restart it with \
the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: \
You only need to do one of the above things in order for the server to start accepting connections \
from the outside.\r\n";

/// The sockets that listen.
pub(crate) struct Listeners {
    tcp: Vec<std::net::TcpListener>,
    unix: Option<std::os::unix::net::UnixListener>,
}

impl Listeners {
    /// Opens all sockets that the configuration names; the error is for the operator.
    pub(crate) fn open(server: &Server) -> Result<Self, String> {
        let port = server.config.get(PORT);
        let mut tcp = Vec::new();
        let mut chosen = port;
        for bind in server.config.get(BIND) {
            let address = SocketAddr::new(ip_of(&bind)?, chosen);
            match listen_tcp(address, server.config.get(TCP_BACKLOG)) {
                Ok(listener) => {
                    if chosen == 0 {
                        chosen = listener.local_addr().map_or(0, |bound| bound.port());
                    }
                    tcp.push(listener);
                }
                Err(error) if bind.optional && is_unavailable(&error) => {}
                Err(error) => {
                    return Err(format!(
                        "Warning: Could not create server TCP listening socket {}:{}: bind: {}",
                        bind.address,
                        address.port(),
                        plain(&error)
                    ));
                }
            }
        }
        let unix = open_unix(server)?;
        if tcp.is_empty() && unix.is_none() {
            return Err("Configured to not listen anywhere, exiting.".to_owned());
        }
        let port = i64::from(chosen);
        server.port.store(port, std::sync::atomic::Ordering::Relaxed);
        Ok(Self { tcp, unix })
    }

    /// Says in the log where we listen.
    pub(crate) fn announce(&self, server: &Server) {
        for address in self.tcp.iter().filter_map(|listener| listener.local_addr().ok()) {
            log_notice!(server.log, "Listening on {address}");
        }
        if self.unix.is_some() {
            let path = server.config.get(UNIXSOCKET);
            let path = String::from_utf8_lossy(&path);
            log_notice!(server.log, "The server is now ready to accept connections at {path}");
        }
    }

    /// Accepts on all sockets for ever.
    pub(crate) fn serve(self, server: &'static Server) -> io::Result<()> {
        for listener in self.tcp {
            tokio::spawn(accept_tcp(server, TcpListener::from_std(listener)?));
        }
        if let Some(listener) = self.unix {
            tokio::spawn(accept_unix(server, UnixListener::from_std(listener)?));
        }
        Ok(())
    }
}

fn ip_of(bind: &BindAddress) -> Result<IpAddr, String> {
    match bind.address.as_str() {
        "*" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "::*" => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        other => other.parse().map_err(|_| {
            format!("Warning: Could not create server TCP listening socket {other}: invalid address")
        }),
    }
}

fn listen_tcp(address: SocketAddr, backlog: i32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

fn open_unix(server: &Server) -> Result<Option<std::os::unix::net::UnixListener>, String> {
    let path = server.config.get(UNIXSOCKET);
    if path.is_empty() {
        return Ok(None);
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(&path));
    let fail = |error: io::Error| {
        format!("Failed opening Unix socket: bind: {}: {}", path.display(), plain(&error))
    };
    // A socket that a former process left behind.
    let _ = std::fs::remove_file(path);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail)?;
    socket.set_nonblocking(true).map_err(fail)?;
    let address = socket2::SockAddr::unix(path).map_err(fail)?;
    socket.bind(&address).map_err(fail)?;
    let mode = server.config.get(UNIXSOCKETPERM);
    if mode != 0 {
        // Set before `listen`, so nobody gets in under the umask's rights.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(fail)?;
    }
    socket.listen(server.config.get(TCP_BACKLOG)).map_err(fail)?;
    Ok(Some(socket.into()))
}

async fn accept_tcp(server: &'static Server, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let Ok(stream) = stream.into_std() else { continue };
                prepare(&stream, server);
                let ends = (Peer::Tcp(peer), Peer::Tcp(local));
                let is_local = peer.ip().to_canonical().is_loopback();
                welcome(server, RawStream::Tcp(stream), ends, is_local);
            }
            Err(error) => pause_after(server, &error).await,
        }
    }
}

async fn accept_unix(server: &'static Server, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(stream) = stream.into_std() else { continue };
                welcome(server, RawStream::Unix(stream), (Peer::Unix, Peer::Unix), true);
            }
            Err(error) => pause_after(server, &error).await,
        }
    }
}

/// A client that hung up before we looked is no reason to wait; a lack of descriptors is.
async fn pause_after(server: &Server, error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        log_warning!(server.log, "Accepting client connection: {}", plain(error));
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn prepare(stream: &std::net::TcpStream, server: &Server) {
    let socket = SockRef::from(stream);
    // Neither failing keeps the client from being served.
    let _ = socket.set_tcp_nodelay(true);
    let seconds = u64::from(server.config.get(TCP_KEEPALIVE));
    if seconds > 0 {
        let interval = Duration::from_secs((seconds / 3).max(1));
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(interval)
            .with_retries(3);
        let _ = socket.set_tcp_keepalive(&keepalive);
    }
}

/// Registers a connection and gives it to a worker, or turns it away.
fn welcome(server: &'static Server, stream: RawStream, ends: (Peer, Peer), is_local: bool) {
    use std::sync::atomic::Ordering;
    if server.clients.len() >= server.config.get(MAXCLIENTS) as usize {
        server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        turn_away(&stream, TOO_MANY);
        return;
    }
    let has_password = !server.config.get(REQUIREPASS).is_empty();
    if server.config.get(PROTECTED_MODE) && !has_password && !is_local {
        server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        turn_away(&stream, PROTECTED);
        return;
    }
    server.stats.connections.fetch_add(1, Ordering::Relaxed);
    let descriptor = match &stream {
        RawStream::Tcp(stream) => stream.as_raw_fd(),
        RawStream::Unix(stream) => stream.as_raw_fd(),
    };
    let now = server.keyspace.clock().now_ms();
    let client = server.clients.register(ends.0, ends.1, descriptor, now);
    let session = Session::new(client, !has_password, is_local);
    server.crew.hand_over(server, Box::new(Moving::fresh(stream, session)));
}

fn turn_away(stream: &RawStream, line: &[u8]) {
    let socket = match stream {
        RawStream::Tcp(stream) => SockRef::from(stream),
        RawStream::Unix(stream) => SockRef::from(stream),
    };
    // The client is on its way out whether or not it reads why.
    let _ = socket.send(line);
}

fn is_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

/// An error's text without the number that std appends.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
