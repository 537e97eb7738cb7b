//! A connection to the server that waits for what it reads: TCP, a Unix socket, or encrypted.
//!
//! Invariant: a connection that `open` gives out is signed in, speaks the protocol that was asked
//! for and is in the right database, or the reason why not is said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::io_text::plain;
use base::time::Clock;
use proto::value::{ReplyLimits, ReplyParser, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::contexts::{IdentityFiles, Settings, client_context};

use crate::options::{Encryption, Options};

/// Bytes to and from the server.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to the server.
pub(crate) struct Connection {
    stream: Stream,
    parser: ReplyParser,
}

/// What a wait was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Bytes of the server, or the end of the connection.
    Ready,
    /// The other input.
    Other,
    /// The time that was given.
    TooLong,
}

/// Why no reply came.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server has closed the connection.
    Closed,
    /// The system says so.
    Io(io::Error),
    /// The server does not speak the protocol.
    Protocol(String),
    /// A signal came first.
    Interrupted,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Closed => formatter.write_str("Server closed the connection"),
            Failure::Io(error) => formatter.write_str(&plain(error)),
            Failure::Protocol(why) => write!(formatter, "Protocol error, {why}"),
            Failure::Interrupted => formatter.write_str("Interrupted"),
        }
    }
}

impl Failure {
    fn of(error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::Interrupted => Failure::Interrupted,
            ErrorKind::UnexpectedEof => Failure::Closed,
            _ => Failure::Io(error),
        }
    }
}

impl Connection {
    /// Connects; does not say who the client is.
    pub(crate) fn dial(options: &Options) -> Result<Connection, String> {
        let failed = |error: &io::Error| {
            format!("Could not connect to Redis at {}: {}", options.server(), plain(error))
        };
        let stream = match &options.socket {
            Some(path) => Stream::Unix(UnixStream::connect(path).map_err(|it| failed(&it))?),
            None => {
                let socket = connect(options).map_err(|it| failed(&it))?;
                if options.is_encrypted {
                    Stream::Tls(encrypt(socket, options)?)
                } else {
                    Stream::Tcp(socket)
                }
            }
        };
        let parser = ReplyParser::new(ReplyLimits::default()).keeping_double_text();
        Ok(Connection { stream, parser })
    }

    /// Sends a request of these words.
    pub(crate) fn send(&mut self, words: &[impl AsRef<[u8]>]) -> Result<(), Failure> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.send_bytes(&request)
    }

    /// Sends these bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).map_err(Failure::of)
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Result<Value, Failure> {
        loop {
            if let Some(reply) = self.parsed()? {
                return Ok(reply);
            }
            self.take_in()?;
        }
    }

    /// A reply that has come already.
    pub(crate) fn parsed(&mut self) -> Result<Option<Value>, Failure> {
        self.parser.next_reply().map_err(|error| Failure::Protocol(error.to_string()))
    }

    /// Waits for bytes, and takes in what comes. A signal ends the wait.
    pub(crate) fn take_in(&mut self) -> Result<(), Failure> {
        self.wait(None, None)?;
        let mut buffer = [0; 16 << 10];
        let count = self.read(&mut buffer)?;
        self.parser.feed(&buffer[..count]);
        Ok(())
    }

    /// Bytes as they come, for what is no reply: only while no reply is under way.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        match self.stream.read(buffer).map_err(Failure::of)? {
            0 => Err(Failure::Closed),
            count => Ok(count),
        }
    }

    /// Waits until there are bytes, at most for some time. With another input, its bytes end the
    /// wait, too.
    pub(crate) fn wait(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        time: Option<Duration>,
    ) -> Result<Waited, Failure> {
        if self.stream.has_plaintext()? {
            return Ok(Waited::Ready);
        }
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut watched = vec![PollFd::new(self, PollFlags::IN)];
        watched.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        poll(&mut watched, time.as_ref()).map_err(|error| Failure::of(error.into()))?;
        let is_ready = |at: usize| watched.get(at).is_some_and(|it| !it.revents().is_empty());
        Ok(match (is_ready(0), is_ready(1)) {
            (true, _) => Waited::Ready,
            (false, true) => Waited::Other,
            (false, false) => Waited::TooLong,
        })
    }

    /// The reply to a request.
    pub(crate) fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value, Failure> {
        self.send(words)?;
        loop {
            match self.receive()? {
                Value::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(socket) => socket.as_fd(),
            Stream::Unix(socket) => socket.as_fd(),
            Stream::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Stream {
    /// Whether bytes have come that the socket does not know of any more.
    fn has_plaintext(&mut self) -> Result<bool, Failure> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(false),
            Stream::Tls(stream) => {
                let state = stream.conn.process_new_packets();
                let state = state.map_err(|error| Failure::Protocol(error.to_string()))?;
                Ok(state.plaintext_bytes_to_read() > 0)
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(buffer),
            Stream::Unix(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// Tries each address that the host's name has.
fn connect(options: &Options) -> io::Result<TcpStream> {
    let addresses = (options.host.as_str(), options.port).to_socket_addrs().map_err(|error| {
        // The library's own words, without the standard library's before them.
        let text = error.to_string();
        let text = text.rsplit_once(": ").map_or(text.as_str(), |(_, why)| why).to_owned();
        io::Error::other(text)
    })?;
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        let socket = match options.connect_timeout {
            Some(time) => TcpStream::connect_timeout(&address, time),
            None => TcpStream::connect(address),
        };
        match socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The authorities of the system, where none are named.
const SYSTEM_AUTHORITIES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

fn encrypt(
    mut socket: TcpStream,
    options: &Options,
) -> Result<Box<StreamOwned<ClientConnection, TcpStream>>, String> {
    let encryption = &options.encryption;
    let failed =
        |why: &dyn std::fmt::Display| format!("Could not negotiate a TLS connection: {why}");
    let context = client_context(&settings(encryption), &Clock::system(), encryption.trusts_all)
        .map_err(|refusal| failed(&refusal))?;
    let mut config = ClientConfig::clone(&context);
    config.enable_sni = encryption.sni.is_some();
    let name = match &encryption.sni {
        Some(sni) => ServerName::try_from(sni.clone()).map_err(|error| failed(&error))?,
        // Certificates are not compared with the name, as redis-cli does not.
        None => ServerName::from(IpAddr::from([127, 0, 0, 1])),
    };
    let session = ClientConnection::new(Arc::new(config), name);
    let mut session = session.map_err(|error| failed(&error))?;
    while session.is_handshaking() {
        session.complete_io(&mut socket).map_err(|error| failed(&error))?;
    }
    Ok(Box::new(StreamOwned::new(session, socket)))
}

fn settings(encryption: &Encryption) -> Settings {
    let is_named = encryption.authorities.is_some() || encryption.authorities_folder.is_some();
    let system = || SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
    let ca_file = match &encryption.authorities {
        None if !is_named && !encryption.trusts_all => system(),
        named => named.clone(),
    };
    let mut settings = Settings {
        identity: IdentityFiles {
            certificate: encryption.certificate.clone(),
            key: encryption.key.clone(),
            password: Vec::new(),
        },
        ca_file,
        ca_folder: encryption.authorities_folder.clone(),
        ..Settings::default()
    };
    if let Some(ciphers) = &encryption.ciphers {
        settings.policy.ciphers.clone_from(ciphers);
    }
    if let Some(suites) = &encryption.suites {
        settings.policy.ciphersuites.clone_from(suites);
    }
    settings
}
