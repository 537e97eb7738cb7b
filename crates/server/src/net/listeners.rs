//! The listeners: sockets that listen, and the connections that come in by them.
//!
//! Invariant: they run on the main thread and never execute a command; a new connection is in a
//! worker's hands microseconds after it was accepted.

mod certificate_user;
mod memcached_sockets;
mod refusal;
mod tcp;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use base::account_lines::numbers_of;
use base::io_error_text::strerror;
use config::settings::{
    BIND, LISTEN_ON_ANY_PORT, MAXCLIENTS, MAXCLIENTS_RESERVED, MEMCACHED_DATABASE,
    MEMCACHED_UNIXSOCKET, MEMCACHED_UNIXSOCKETPERM, MPTCP, PORT, PROTECTED_MODE, SOCKET_MARK_ID,
    TCP_BACKLOG, TCP_KEEPALIVE, TLS_PORT, UNIXSOCKET, UNIXSOCKETGROUP, UNIXSOCKETPERM,
};
use config::{BindAddress, Config, LogLevel};
use engine::clients::registry::Peer;
use engine::runtime::log::{log_notice, log_warning};
use engine::session::MemcachedState;
use engine::session::Session;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tcp::TcpListeners;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::memcached;
use crate::net::connection::{MovingSession, RawStream};
use crate::net::network::Network;
use crate::net::tls::{Arrival, Handshaken};

/// A pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Where groups stand, a line each.
const GROUPS: &str = "/etc/group";

/// The sockets that listen.
pub(crate) struct Listeners {
    redis: TcpListeners,
    has_unix: bool,
    /// Where clients of memcached come in, for the log.
    memcached: Vec<String>,
}

/// What the clients of a listener speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Redis,
    Memcached,
}

/// What comes in by a socket of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerKind {
    protocol: Protocol,
    is_encrypted: bool,
}

/// Where other threads find the listeners, and have them change.
pub(crate) struct ListenerHandle {
    orders: mpsc::UnboundedSender<ListenerOrder>,
}

/// What the main thread is asked to do, with where it answers. The thread that asks waits, so one
/// asks at a time; the main thread waits for nobody.
enum ListenerOrder {
    /// Bind the sockets that a configuration asks for, and accept nobody by them yet.
    Reserve { ports: Ports, binds: Vec<BindAddress>, answer: SyncSender<Result<(), ()>> },
    /// Listen on what was reserved, and on nothing else; or go on as before.
    Finish { keeps: bool, answer: SyncSender<()> },
}

/// The ports of clients of Redis, as they are configured; 0 is none, or one that the system chose.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    encrypted: u16,
}

impl Ports {
    fn of(config: &Config) -> Self {
        Self { plain: config.get(PORT), encrypted: config.get(TLS_PORT) }
    }
}

/// Binds what `config` asks for; `finish` comes behind. The reason is in the log.
pub(crate) fn reserve(server: &Network, config: &Config) -> Result<(), ()> {
    let (answer, answered) = sync_channel(1);
    let (ports, binds) = (Ports::of(config), config.get(BIND));
    let handle = server.listeners.get().ok_or(())?;
    handle.orders.send(ListenerOrder::Reserve { ports, binds, answer }).map_err(|_| ())?;
    answered.recv().map_err(|_| ())?
}

/// Ends what `reserve` began.
pub(crate) fn finish(server: &Network, keeps: bool) {
    let (answer, answered) = sync_channel(1);
    let sent = server
        .listeners
        .get()
        .map(|handle| handle.orders.send(ListenerOrder::Finish { keeps, answer }));
    if sent.is_some_and(|sent| sent.is_ok()) {
        // A main thread that has ended accepts nobody.
        let _ = answered.recv();
    }
}

impl Listeners {
    /// Opens all sockets that the configuration names; the error is for the operator. Called
    /// within the main thread's runtime, which accepts once it runs.
    pub(crate) fn open(server: &'static Network) -> Result<Self, String> {
        let has_unix = open_unix(server, Protocol::Redis)?.is_some();
        let memcached = memcached_sockets::open(server)?;
        let ports = Ports::of(&server.config);
        let has_others = has_unix || !memcached.is_empty();
        let mut listeners = Self { has_unix, memcached, redis: TcpListeners::at(ports) };
        let plain =
            (ports.plain != 0 || server.config.get(LISTEN_ON_ANY_PORT)).then_some(ports.plain);
        let wanted = wanted_by_redis(&server.config.get(BIND), plain, ports.encrypted)?;
        listeners.redis.listening = open_all(server, &wanted)?;
        if listeners.redis.listening.is_empty() && !has_others {
            return Err("Configured to not listen anywhere".to_owned());
        }
        listeners.redis.publish_port(server);
        Ok(listeners)
    }

    /// Whether clients of Redis have no port in clear, but one of TLS.
    pub(crate) fn is_encrypted_only(&self) -> bool {
        self.redis.port().is_some() && self.redis.plain_port().is_none()
    }

    /// The port of clients of Redis, the one in clear where there is one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.redis.port()
    }

    /// Says in the log where we listen.
    pub(crate) fn announce(&self, server: &Network) {
        for ListenerTask { address, kind, .. } in &self.redis.listening {
            let how = if kind.is_encrypted { " for TLS" } else { "" };
            log_notice!(server.log, "Listening on {address}{how}");
        }
        if self.has_unix {
            let path = server.config.get(UNIXSOCKET);
            let path = String::from_utf8_lossy(&path);
            log_notice!(server.log, "The server is now ready to accept connections at {path}");
        }
        for place in &self.memcached {
            log_notice!(server.log, "Listening on {place} for memcached");
        }
    }

    /// Follows changes of where to listen from now on.
    pub(crate) fn serve(self, server: &'static Network) {
        let (orders, receiver) = mpsc::unbounded_channel();
        let first = server.listeners.set(ListenerHandle { orders }).is_ok();
        assert!(first, "there is one main thread");
        tokio::spawn(self.redis.run(server, receiver));
    }
}

/// An address to listen on.
#[derive(Clone, Copy)]
pub(crate) struct RequestedSocket {
    address: SocketAddr,
    kind: ListenerKind,
    /// Whether we do without it where the machine does not have it.
    optional: bool,
}

/// The addresses that `bind` names.
fn addresses(
    binds: &[BindAddress],
    port: u16,
    kind: ListenerKind,
) -> Result<Vec<RequestedSocket>, String> {
    let wanted = |bind: &BindAddress| {
        let address = SocketAddr::new(ip_of(bind)?, port);
        Ok(RequestedSocket { address, kind, optional: bind.optional })
    };
    binds.iter().map(wanted).collect()
}

/// Where clients of Redis come in: by the plain port, if there is one, and by that of TLS.
fn wanted_by_redis(
    binds: &[BindAddress],
    plain: Option<u16>,
    encrypted: u16,
) -> Result<Vec<RequestedSocket>, String> {
    let plain = plain.map(|port| (port, false));
    let ports = plain.into_iter().chain((encrypted != 0).then_some((encrypted, true)));
    let mut all = Vec::new();
    for (port, is_encrypted) in ports {
        let kind = ListenerKind { protocol: Protocol::Redis, is_encrypted };
        all.extend(addresses(binds, port, kind)?);
    }
    Ok(all)
}

/// Opens sockets and accepts clients by them, all or none.
fn open_all(
    server: &'static Network,
    wanted: &[RequestedSocket],
) -> Result<Vec<ListenerTask>, String> {
    let bound = bind_all(server, wanted).map_err(|(why, _)| why)?;
    Ok(bound.into_iter().map(|bound| start_accepting(server, bound)).collect())
}

/// A socket that is bound and accepts nobody yet.
struct BoundSocket {
    address: SocketAddr,
    kind: ListenerKind,
    listener: TcpListener,
}

/// A socket with the task that accepts clients by it.
struct ListenerTask {
    address: SocketAddr,
    kind: ListenerKind,
    task: JoinHandle<()>,
}

fn start_accepting(server: &'static Network, bound: BoundSocket) -> ListenerTask {
    let BoundSocket { address, kind, listener } = bound;
    ListenerTask { address, kind, task: tokio::spawn(accept_tcp(server, listener, kind)) }
}

/// Binds sockets, all or none; where the port is 0, all get the one that the first was given. The
/// error says whether somebody listens there.
fn bind_all(
    server: &Network,
    wanted: &[RequestedSocket],
) -> Result<Vec<BoundSocket>, (String, bool)> {
    let listening = |(RequestedSocket { address, kind, .. }, socket)| {
        Ok(BoundSocket { address, kind, listener: TcpListener::from_std(socket)? })
    };
    let bound: io::Result<_> = bind_sockets(server, wanted)?.into_iter().map(listening).collect();
    bound.map_err(|error| (strerror(&error), false))
}

/// Binds the sockets of a port that another thread serves.
pub(crate) fn bind_for(
    server: &Network,
    binds: &[BindAddress],
    port: u16,
) -> Result<Vec<(SocketAddr, std::net::TcpListener)>, String> {
    let kind = ListenerKind { protocol: Protocol::Redis, is_encrypted: false };
    let bound = bind_sockets(server, &addresses(binds, port, kind)?).map_err(|(why, _)| why)?;
    Ok(bound.into_iter().map(|(wanted, socket)| (wanted.address, socket)).collect())
}

/// As `bind_all`, with sockets that no reactor watches, and the addresses that they got.
fn bind_sockets(
    server: &Network,
    wanted: &[RequestedSocket],
) -> Result<Vec<(RequestedSocket, std::net::TcpListener)>, (String, bool)> {
    let mut bound: Vec<(RequestedSocket, std::net::TcpListener)> = Vec::new();
    for &RequestedSocket { mut address, kind, optional } in wanted {
        if let (0, Some((first, _))) = (address.port(), bound.first()) {
            address.set_port(first.address.port());
        }
        match listen_tcp(&server.config, address) {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                bound.push((RequestedSocket { address, kind, optional }, listener));
            }
            Err(error) if optional && is_unavailable(&error) => {}
            Err(error) => {
                let line = format!(
                    "Warning: Could not create server TCP listening socket {address}: bind: {}",
                    strerror(&error)
                );
                return Err((line, error.kind() == io::ErrorKind::AddrInUse));
            }
        }
    }
    Ok(bound)
}

fn ip_of(bind: &BindAddress) -> Result<IpAddr, String> {
    match bind.address.as_str() {
        "*" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "::*" => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        other => other.parse().map_err(|_| {
            format!(
                "Warning: Could not create server TCP listening socket {other}: invalid address"
            )
        }),
    }
}

fn listen_tcp(config: &Config, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let protocol =
        if config.get(MPTCP) { socket2::Protocol::MPTCP } else { socket2::Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    let mark = config.get(SOCKET_MARK_ID);
    if mark != 0 {
        // As in Redis, a process without the right to mark listens without it.
        let _ = socket.set_mark(mark);
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(config.get(TCP_BACKLOG))?;
    Ok(socket.into())
}

/// Opens a Unix socket, if the configuration names one; its descriptor.
fn open_unix(server: &'static Network, protocol: Protocol) -> Result<Option<RawFd>, String> {
    let (path, mode) = match protocol {
        Protocol::Redis => (UNIXSOCKET, UNIXSOCKETPERM),
        Protocol::Memcached => (MEMCACHED_UNIXSOCKET, MEMCACHED_UNIXSOCKETPERM),
    };
    let (path, mode) = (server.config.get(path), server.config.get(mode));
    if path.is_empty() {
        return Ok(None);
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(&path));
    let fail = |error: io::Error| {
        format!("Failed opening Unix socket: bind: {}: {}", path.display(), strerror(&error))
    };
    // A socket that a former process left behind.
    let _ = std::fs::remove_file(path);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail)?;
    socket.set_nonblocking(true).map_err(fail)?;
    let address = socket2::SockAddr::unix(path).map_err(fail)?;
    socket.bind(&address).map_err(fail)?;
    let group = server.config.get(UNIXSOCKETGROUP);
    if protocol == Protocol::Redis && !group.is_empty() {
        let [group] = find_group(&group)?;
        std::os::unix::fs::chown(path, None, Some(group)).map_err(fail)?;
    }
    if mode != 0 {
        // Set before `listen`, so nobody gets in under the umask's rights.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(fail)?;
    }
    socket.listen(server.config.get(TCP_BACKLOG)).map_err(fail)?;
    let listener = UnixListener::from_std(socket.into()).map_err(fail)?;
    let descriptor = listener.as_raw_fd();
    tokio::spawn(accept_unix(server, listener, protocol));
    Ok(Some(descriptor))
}

/// The number of a group.
fn find_group(name: &[u8]) -> Result<[u32; 1], String> {
    let groups = std::fs::read(GROUPS).map_err(|why| format!("Can't read {GROUPS}: {why}"))?;
    let shown = String::from_utf8_lossy(name);
    numbers_of(&groups, name).ok_or_else(|| format!("Can't find the group {shown} in {GROUPS}"))
}

async fn accept_tcp(server: &'static Network, listener: TcpListener, kind: ListenerKind) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let Ok(stream) = stream.into_std() else { continue };
                prepare(&stream, server);
                let ends = (Peer::Tcp(peer.into()), Peer::Tcp(local.into()));
                match kind.is_encrypted {
                    true => begin_handshake(server, kind.protocol, stream, ends),
                    false => accept(server, kind.protocol, RawStream::Tcp(stream), ends),
                }
            }
            Err(error) => pause_after(server, &error).await,
        }
    }
}

async fn accept_unix(server: &'static Network, listener: UnixListener, protocol: Protocol) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(stream) = stream.into_std() else { continue };
                let ends = (Peer::Unix, Peer::Unix);
                accept(server, protocol, RawStream::Unix(stream), ends);
            }
            Err(error) => pause_after(server, &error).await,
        }
    }
}

/// A client that hung up before we looked is no reason to wait, nor is a signal; a lack of
/// descriptors is.
async fn pause_after(server: &Network, error: &io::Error) {
    let kind = error.kind();
    if kind != io::ErrorKind::ConnectionAborted && kind != io::ErrorKind::Interrupted {
        log_warning!(server.log, "Accepting client connection: {}", strerror(error));
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

fn prepare(stream: &std::net::TcpStream, server: &Network) {
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

/// Has a connection agree on keys before it is accepted.
fn begin_handshake(
    server: &'static Network,
    protocol: Protocol,
    socket: std::net::TcpStream,
    ends: (Peer, Peer),
) {
    let room = (server.config.get(MAXCLIENTS) as usize).saturating_sub(server.clients.count());
    let Some(contexts) = server.tls.contexts().filter(|_| room > 0) else {
        server.observed.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let done = move |handshaken: Handshaken| match handshaken {
        Ok(stream) => accept(server, protocol, RawStream::Tls(stream), ends),
        Err(why) => server.log.write(
            LogLevel::Verbose,
            format_args!(
                "Error accepting a client connection: {why} (addr={} laddr={})",
                ends.0, ends.1
            ),
        ),
    };
    let arrival = Arrival { socket, contexts, room, done: Box::new(done) };
    if !server.tls.begin_handshake(arrival) {
        server.observed.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
    }
}

/// Registers a connection and gives it to a worker, or rejects it.
pub(crate) fn accept(
    server: &'static Network,
    protocol: Protocol,
    mut stream: RawStream,
    ends: (Peer, Peer),
) {
    let is_local = ends.0.is_local();
    if !has_room(server, is_local) {
        server.observed.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        refusal::too_many(&mut stream, protocol);
        return;
    }
    let has_password = match protocol {
        Protocol::Redis => engine::session::needs_password(server),
        Protocol::Memcached => memcached::needs_login(server),
    };
    if server.config.get(PROTECTED_MODE) && !has_password && !is_local {
        server.observed.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        refusal::protected(&mut stream, protocol);
        return;
    }
    server.observed.stats.connections.fetch_add(1, Ordering::Relaxed);
    let descriptor = match &stream {
        RawStream::Tcp(stream) => stream.as_raw_fd(),
        RawStream::Unix(stream) => stream.as_raw_fd(),
        RawStream::Tls(stream) => stream.socket().as_raw_fd(),
    };
    let now = server.keyspace.clock().now_ms();
    let client = server.clients.register(ends.0, ends.1, descriptor, now);
    if protocol == Protocol::Memcached {
        memcached::watch::notify_arrival(server, &client);
    }
    let user = Some(server.access.users.default_user()).filter(|_| !has_password);
    let mut session = Session::new(client, user, is_local);
    if let RawStream::Tls(stream) = &stream {
        certificate_user::introduce(server, &mut session, stream.session());
    }
    if protocol == Protocol::Memcached {
        session.memcached = Some(MemcachedState::new(server));
        session.select(server.config.get(MEMCACHED_DATABASE) as usize);
    }
    server.worker_pool.hand_over(server, Box::new(MovingSession::fresh(stream, session)));
}

/// Whether one more client may come in.
pub(crate) fn has_room(server: &Network, is_local: bool) -> bool {
    let most = server.config.get(MAXCLIENTS) as usize;
    let reserved = if is_local { 0 } else { server.config.get(MAXCLIENTS_RESERVED) };
    server.clients.count() < most - reserved.min(most / 2)
}

fn is_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use config::Config;
    use socket2::{Domain, SockRef, Socket, Type};

    use super::listen_tcp;

    #[test]
    fn a_listening_socket_is_marked_where_the_process_may_mark() {
        let config = Config::new();
        config.put(b"socket-mark-id", b"7");
        let listener = listen_tcp(&config, ([127, 0, 0, 1], 0).into()).expect("a socket");
        let another = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let expected = if another.set_mark(7).is_ok() { 7 } else { 0 };
        assert_eq!(SockRef::from(&listener).mark().expect("a mark"), expected);
    }
}
