//! Where the servers are and what each connection says first. Invariant: a connection that has
//! finished its greeting is signed in, speaks the protocol asked for and is in the right database.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use super::encrypted::{EncryptedSocket, Encryptor};
use crate::options::{Family, Options, Protocol};
use crate::workload::packet_header;

/// A server: every address that its name has, or its socket file.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// Host and port as given, and what they mean.
    Tcp(String, Vec<SocketAddr>),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The server that the options name.
    pub(super) fn of(options: &Options) -> Result<Self, String> {
        match &options.unix_socket {
            Some(path) => Ok(Self::Unix(path.clone())),
            None => Self::resolve(&options.server, options.port, options.family),
        }
    }

    /// Looks a name up; with `family`, only its addresses of that family.
    pub(super) fn resolve(host: &str, port: u16, family: Option<Family>) -> Result<Self, String> {
        let name = format!("{host}:{port}");
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|error| format!("cannot resolve {host}: {error}"))?;
        let fits = |address: &SocketAddr| family.is_none_or(|family| family.holds(address.ip()));
        let addresses: Vec<SocketAddr> = found.filter(fits).collect();
        if addresses.is_empty() {
            return Err(format!("{host} has no address of the family asked for"));
        }
        Ok(Self::Tcp(name, addresses))
    }

    /// How many addresses there are to try.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Tcp(_, addresses) => addresses.len(),
            Self::Unix(_) => 1,
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Tcp(name, _) => name.clone(),
            Self::Unix(path) => path.display().to_string(),
        }
    }

    /// Begins to connect to one of the addresses; which one goes round with `attempt`.
    pub(super) fn connect(
        &self,
        attempt: usize,
        encryptor: Option<&Encryptor>,
    ) -> io::Result<Socket> {
        match self {
            Self::Tcp(_, addresses) => {
                let socket = TcpStream::connect(addresses[attempt % addresses.len()])?;
                socket.set_nodelay(true)?;
                Ok(match encryptor {
                    Some(encryptor) => Socket::Tls(Box::new(encryptor.encrypt(socket)?)),
                    None => Socket::Tcp(socket),
                })
            }
            Self::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        }
    }
}

/// What every connection sends before its first request.
#[derive(Clone, Debug, Default)]
pub(super) struct Greeting {
    /// The requests.
    pub(super) bytes: Vec<u8>,
    /// What each of them is, for messages.
    pub(super) steps: Vec<&'static str>,
}

impl Greeting {
    /// AUTH, HELLO and SELECT, as far as the options need them; to memcached what stands for AUTH.
    pub(super) fn of(options: &Options) -> Self {
        match options.protocol {
            Protocol::Redis | Protocol::Resp2 | Protocol::Resp3 => Self::of_redis(options),
            Protocol::MemcacheText | Protocol::MemcacheBinary => Self::of_memcached(options),
        }
    }

    fn of_redis(options: &Options) -> Self {
        let mut greeting = Self::default();
        match &options.authenticate {
            Some((Some(user), password)) => greeting.push("AUTH", &[user, password]),
            Some((None, password)) => greeting.push("AUTH", &[password]),
            None => {}
        }
        match options.protocol {
            Protocol::Resp2 => greeting.push("HELLO", &["2"]),
            Protocol::Resp3 => greeting.push("HELLO", &["3"]),
            Protocol::Redis | Protocol::MemcacheText | Protocol::MemcacheBinary => {}
        }
        if options.database != 0 {
            greeting.push("SELECT", &[&options.database.to_string()]);
        }
        greeting
    }

    fn of_memcached(options: &Options) -> Self {
        let Some((user, password)) = &options.authenticate else { return Self::default() };
        let user = user.as_deref().unwrap_or(DEFAULT_USER);
        let bytes = match options.protocol {
            Protocol::MemcacheBinary => {
                let proof = format!("\0{user}\0{password}");
                let header = packet_header(SASL_AUTHENTICATE, 0, PLAIN.len(), proof.len());
                [&header, PLAIN, proof.as_bytes()].concat()
            }
            _ => {
                let length = user.len() + 1 + password.len();
                format!("set auth 0 0 {length}\r\n{user} {password}\r\n").into_bytes()
            }
        };
        Self { bytes, steps: vec!["authentication"] }
    }

    fn push(&mut self, step: &'static str, words: &[&str]) {
        self.steps.push(step);
        let words = [&[step], words].concat();
        append_request(&mut self.bytes, &words);
    }
}

const SASL_AUTHENTICATE: u8 = 0x21;
const PLAIN: &[u8] = b"PLAIN";

/// The user of a password without a name.
const DEFAULT_USER: &str = "default";

/// Appends a request of these words.
pub(super) fn append_request(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// A stream socket that never blocks.
#[derive(Debug)]
pub(super) enum Socket {
    /// Over TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Encrypted, over TCP.
    Tls(Box<EncryptedSocket>),
}

impl Socket {
    /// Goes on with what makes the connection; whether it stands.
    pub(super) fn go_on(&mut self) -> io::Result<bool> {
        let of_tcp = |socket: &TcpStream| {
            io::Result::Ok((socket.take_error()?, socket.peer_addr().map(drop)))
        };
        let (error, peer) = match self {
            Self::Tcp(socket) => of_tcp(socket)?,
            Self::Tls(encrypted) => of_tcp(&encrypted.socket)?,
            Self::Unix(socket) => (socket.take_error()?, socket.peer_addr().map(drop)),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => match self {
                Self::Tls(encrypted) => encrypted.handshake(),
                Self::Tcp(_) | Self::Unix(_) => Ok(true),
            },
            (None, Err(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }

    /// Tells the server that the connection is over.
    pub(super) fn close(self) {
        // A connection that the server has already closed is what was wanted.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tls(mut encrypted) => encrypted.close(),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Unix(socket) => socket.read(buffer),
            Self::Tls(encrypted) => encrypted.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Unix(socket) => socket.write(bytes),
            Self::Tls(encrypted) => encrypted.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(encrypted) => encrypted.flush(),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.register(to, token, interest),
            Self::Unix(socket) => socket.register(to, token, interest),
            Self::Tls(encrypted) => encrypted.socket.register(to, token, interest),
        }
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.reregister(to, token, interest),
            Self::Unix(socket) => socket.reregister(to, token, interest),
            Self::Tls(encrypted) => encrypted.socket.reregister(to, token, interest),
        }
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.deregister(from),
            Self::Unix(socket) => socket.deregister(from),
            Self::Tls(encrypted) => encrypted.socket.deregister(from),
        }
    }
}
