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

use base::io_error_text::strerror;
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

/// What can be done without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// The server has sent something, or the connection has ended.
    pub(crate) has_bytes: bool,
    pub(crate) may_send: bool,
    /// The other input has bytes, or has ended.
    pub(crate) has_input: bool,
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
            Failure::Io(error) => formatter.write_str(&strerror(error)),
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
    /// Connects; does not log in.
    pub(crate) fn dial(options: &Options) -> Result<Connection, String> {
        let failed = |error: &io::Error| {
            format!("Could not connect to Redis at {}: {}", options.server(), strerror(error))
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
        let mut request = Vec::new();
        encode(&mut request, words);
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

    /// Waits until something can be done: until there are bytes, or, where that is wanted, until
    /// some can be sent, or until the other input has some.
    pub(crate) fn wait_for_any(
        &mut self,
        wants_to_send: bool,
        other: Option<BorrowedFd<'_>>,
        time: Option<Duration>,
    ) -> Result<Readiness, Failure> {
        if self.stream.has_plaintext()? {
            return Ok(Readiness { has_bytes: true, ..Readiness::default() });
        }
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let wanted = if wants_to_send { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut watched = vec![PollFd::new(self, wanted)];
        watched.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        poll(&mut watched, time.as_ref()).map_err(|error| Failure::of(error.into()))?;
        let seen = watched[0].revents();
        Ok(Readiness {
            has_bytes: seen.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            may_send: seen.contains(PollFlags::OUT),
            has_input: watched.get(1).is_some_and(|it| !it.revents().is_empty()),
        })
    }

    /// The reply to a request.
    pub(crate) fn call(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value, Failure> {
        self.send(words)?;
        self.receive_asked()
    }

    /// The replies to requests that are sent together.
    pub(crate) fn call_all(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, Failure> {
        let mut replies = Vec::with_capacity(requests.len());
        for together in requests.chunks(TOGETHER_MAX) {
            let mut bytes = Vec::new();
            together.iter().for_each(|words| encode(&mut bytes, words));
            self.send_bytes(&bytes)?;
            for _ in together {
                replies.push(self.receive_asked()?);
            }
        }
        Ok(replies)
    }

    /// The next reply that was asked for.
    fn receive_asked(&mut self) -> Result<Value, Failure> {
        loop {
            match self.receive()? {
                Value::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// From here on what would wait does nothing, or always waits.
    pub(crate) fn set_waiting(&mut self, waits: bool) -> Result<(), Failure> {
        let set = match &self.stream {
            Stream::Tcp(socket) => socket.set_nonblocking(!waits),
            Stream::Unix(socket) => socket.set_nonblocking(!waits),
            Stream::Tls(stream) => stream.sock.set_nonblocking(!waits),
        };
        set.map_err(Failure::of)
    }

    /// How many of these bytes are sent without waiting, and whether all before them have left.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let sent = if bytes.is_empty() { Ok(0) } else { self.stream.write(bytes) };
        let sent = unless_waiting(sent)?.unwrap_or(0);
        Ok((sent, unless_waiting(self.stream.flush())?.is_some()))
    }

    /// Takes in what has come, without waiting.
    pub(crate) fn try_take_in(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; 16 << 10];
        match unless_waiting(self.stream.read(&mut buffer))? {
            Some(0) => Err(Failure::Closed),
            Some(count) => {
                self.parser.feed(&buffer[..count]);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// How many requests are sent before their replies are read. Replies to so many fit the buffers
/// between two programs as long as each is a number or a short text.
const TOGETHER_MAX: usize = 64;

/// Appends a request of these words.
pub(crate) fn encode(request: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

/// What was done; nothing where it would have had to wait.
fn unless_waiting<Done>(result: io::Result<Done>) -> Result<Option<Done>, Failure> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(Failure::of(error)),
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
