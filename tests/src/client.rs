//! A small blocking RESP client. Invariant: no call waits longer than its patience.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::value::{ReplyParser, Value};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::calls::Recorder;
use crate::process::PATIENCE;

/// Commands sent before their replies are read: more could fill the buffers of both sides.
pub(crate) const PIPELINE_PIECE: usize = 256;

/// A connection.
pub struct Client {
    stream: Stream,
    parser: ReplyParser,
    recorder: Recorder,
}

enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// What came, or not, within some time.
#[derive(Debug, PartialEq)]
pub enum Arrival {
    /// A reply or a push message.
    Reply(Value),
    /// Nothing yet.
    Silence,
    /// The end of the connection.
    Closed,
}

impl Client {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> Self {
        Self::try_connect(port).unwrap_or_else(|error| panic!("port {port}: {error}"))
    }

    /// Connects where nobody may listen.
    pub fn try_connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let recorder = Recorder::of_port(port);
        Ok(Self { stream: Stream::Tcp(stream), parser: ReplyParser::default(), recorder })
    }

    /// Connects to a port of Apus that is encrypted.
    pub fn try_connect_tls(port: u16, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = "localhost".try_into().expect("a name");
        let connection = ClientConnection::new(Arc::clone(config), name).expect("a configuration");
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let recorder = Recorder::of_apus();
        let stream = Stream::Tls(Box::new(stream));
        Ok(Self { stream, parser: ReplyParser::default(), recorder })
    }

    /// The certificate that the server has shown, as bytes.
    pub fn server_certificate(&self) -> Vec<u8> {
        let Stream::Tls(stream) = &self.stream else { panic!("nothing is encrypted") };
        stream.conn.peer_certificates().expect("it has shown one")[0].to_vec()
    }

    /// Connects to a Unix socket of Apus.
    pub fn connect_unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path);
        let stream = stream.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout above zero is valid");
        let recorder = Recorder::of_apus();
        Self { stream: Stream::Unix(stream), parser: ReplyParser::default(), recorder }
    }

    /// Sends a command and waits for its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        self.try_call(arguments).unwrap_or_else(|error| panic!("{}: {error}", line(arguments)))
    }

    /// Sends a command to a server that may close instead of replying.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Value> {
        self.write(&encode(arguments))?;
        match self.arrival(PATIENCE)? {
            Arrival::Reply(value) => Ok(value),
            Arrival::Silence => Err(io::ErrorKind::TimedOut.into()),
            Arrival::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Its number, as CLIENT ID tells it.
    pub fn id(&mut self) -> String {
        let Value::Integer(id) = self.call(&["CLIENT", "ID"]) else { panic!("a number") };
        id.to_string()
    }

    /// A field of INFO.
    #[track_caller]
    pub fn info(&mut self, field: &str) -> String {
        let reply = self.call(&["INFO", "everything"]);
        let info = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has no {field}")).to_owned()
    }

    /// A field of INFO that is a whole number.
    #[track_caller]
    pub fn figure(&mut self, field: &str) -> i64 {
        let value = self.info(field);
        value.parse().unwrap_or_else(|_| panic!("{field}:{value} is no number"))
    }

    /// Tells the server that no more will be sent; what it still answers can be received.
    pub fn end_sending(&mut self) {
        let ended = match &mut self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.conn.complete_io(&mut stream.sock).map(|_| ())
            }
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        ended.expect("the connection is there");
    }

    /// Whether nothing has come by now.
    pub fn is_silent(&mut self) -> bool {
        self.arrival(Duration::ZERO).is_ok_and(|arrival| arrival == Arrival::Silence)
    }

    /// Whether the server closes it before anything else comes.
    pub fn is_closed(&mut self) -> bool {
        match self.arrival(PATIENCE) {
            Ok(arrival) => arrival == Arrival::Closed,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends all commands and collects their replies, in order.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Value> {
        let mut replies = Vec::with_capacity(commands.len());
        for piece in commands.chunks(PIPELINE_PIECE) {
            let bytes: Vec<u8> = piece.iter().flat_map(|command| encode(command)).collect();
            self.send_raw(&bytes);
            replies.extend(piece.iter().map(|_| self.receive()));
        }
        replies
    }

    /// Sends a command and leaves its reply to [`Client::receive`].
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        self.send_raw(&encode(arguments));
    }

    /// Waits for the next reply or push message.
    pub fn receive(&mut self) -> Value {
        match self.arrival(PATIENCE).expect("the stream is readable and well-formed") {
            Arrival::Reply(value) => value,
            other => panic!("expected a reply, got {other:?}"),
        }
    }

    /// Waits for the next reply at most this long.
    pub fn arrival(&mut self, patience: Duration) -> io::Result<Arrival> {
        let deadline = Instant::now() + patience;
        let mut buffer = [0; 16 * 1024];
        loop {
            let parsed = self.parser.next_reply();
            let parsed = parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            if let Some(value) = parsed? {
                self.recorder.received(&value);
                return Ok(Arrival::Reply(value));
            }
            match self.stream.read_until(deadline, &mut buffer)? {
                None => return Ok(Arrival::Silence),
                Some(0) => return Ok(Arrival::Closed),
                Some(length) => self.parser.feed(&buffer[..length]),
            }
        }
    }

    /// Sends bytes to a server that may be gone.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.write(bytes).expect("the server reads on");
    }

    /// What leaves by here is what the compatibility page calls tested.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.recorder.sent(bytes);
        self.stream.write_all(bytes)
    }

    /// Reads exactly so many bytes; not to be mixed with parsed replies still under way.
    pub fn receive_raw(&mut self, length: usize) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.stream.read_until(deadline, &mut bytes[filled..]) {
                Ok(Some(more)) if more > 0 => filled += more,
                other => panic!("{other:?} after {:?}", bytes[..filled].escape_ascii().to_string()),
            }
        }
        bytes
    }

    /// Reads until the server closes the connection.
    pub fn receive_to_close(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read_until(deadline, &mut buffer) {
                Ok(Some(0)) => return bytes,
                Ok(Some(length)) => bytes.extend_from_slice(&buffer[..length]),
                // A server that closes with our bytes unread resets the connection.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return bytes,
                other => {
                    panic!("still open ({other:?}) after {:?}", bytes.escape_ascii().to_string())
                }
            }
        }
    }
}

impl Stream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Reads what is there; `None` when nothing comes before the deadline.
    fn read_until(&mut self, deadline: Instant, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // A timeout of zero would mean none.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let result = match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.read(buffer)
            }
            Self::Tls(stream) => {
                stream.sock.set_read_timeout(Some(left))?;
                stream.read(buffer)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.read(buffer)
            }
        };
        match result {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // A process that stood still is told so where a read has a timeout.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.read_until(deadline, buffer)
            }
            // The end, without a word before.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }
}

/// A command as RESP.
pub fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What a line of CLIENT LIST says behind `name=`.
#[track_caller]
pub fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let pair = line.split_whitespace().find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    pair.unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// A command as one would type it, with quotes where they are needed.
pub fn line<A: AsRef<[u8]>>(arguments: &[A]) -> String {
    let word = |bytes: &[u8]| {
        let is_plain = !bytes.is_empty()
            && bytes.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
        if is_plain { bytes.escape_ascii().to_string() } else { base::quote::quote(bytes) }
    };
    let words: Vec<String> = arguments.iter().map(|argument| word(argument.as_ref())).collect();
    words.join(" ")
}
