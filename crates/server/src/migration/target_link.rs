//! A connection to the target of a MIGRATE: commands out, one line in for each.
//!
//! Invariants: nothing but a line that begins with `+` is an acknowledgement; what the target sends
//! takes no more memory than the longest line that is read; a connection on which anything was not
//! as expected is not used again.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Waker};
use std::time::Duration;

use base::number::format_i64;
use proto::args::encode_command;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::fault::{Cause, Fault};
use super::request::{Credentials, MigrateRequest, MigrateTarget};
use crate::net::connection::Stream;
use crate::net::network::Network;
use crate::net::outgoing;

/// What is written at a time, with all patience for each.
const STEP: usize = 64 * 1024;

/// No answer is longer.
const LINE_MAX: usize = 64 * 1024;

/// So much is read at a time.
const CHUNK: usize = 4096;

/// The connection.
pub(super) struct TargetLink {
    stream: Stream,
    /// What came and is not read yet.
    input: Vec<u8>,
    /// Up to where it is read.
    read: usize,
    /// The database that was selected last.
    database: Option<i64>,
    /// Whether the present order has introduced itself.
    is_greeted: bool,
}

/// What a target says to a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TargetAnswer {
    /// The target has done it.
    Done,
    /// The target has not; its line without the `-`.
    Error(Vec<u8>),
}

impl TargetLink {
    /// Connects, in secret where the target is spoken to so.
    pub(super) async fn connect(
        server: &Network,
        target: &MigrateTarget,
        patience: Duration,
    ) -> Result<Self, Fault> {
        let connected = timeout(patience, connect(server, target)).await;
        let stream = connected.map_err(|_| Fault::Unreachable)??;
        Ok(Self { stream, input: Vec::new(), read: 0, database: None, is_greeted: false })
    }

    /// Whether nothing has come that nobody asked for, nor the end.
    pub(super) fn is_quiet(&mut self) -> bool {
        let pending = self
            .stream
            .poll_read_more(&mut Context::from_waker(Waker::noop()), &mut Vec::with_capacity(1));
        self.read == self.input.len() && pending.is_pending()
    }

    /// The order is over.
    pub(super) fn end_order(&mut self) {
        self.is_greeted = false;
    }

    /// Introduces itself and turns to the order's database; what the target says against it. No
    /// key is sent before: where SELECT fails it would come into another database.
    pub(super) async fn greet(&mut self, order: &MigrateRequest) -> Result<Option<Vec<u8>>, Fault> {
        if self.is_greeted {
            return Ok(None);
        }
        let mut hello = Vec::new();
        let login = order.target.credentials.as_ref();
        if let Some(Credentials { user, password }) = login {
            let words = [Some(&b"AUTH"[..]), user.as_deref(), Some(password)];
            encode(words.into_iter().flatten(), &mut hello);
        }
        let selects = self.database != Some(order.database);
        if selects {
            let index = &mut [0; 20];
            encode([b"SELECT", format_i64(order.database, index)].into_iter(), &mut hello);
        }
        self.write(&hello, order.patience).await?;
        self.database = None;
        let mut refused = None;
        for _ in 0..usize::from(login.is_some()) + usize::from(selects) {
            if let TargetAnswer::Error(line) = self.answer(order.patience).await? {
                refused = refused.or(Some(line));
            }
        }
        if refused.is_none() {
            (self.database, self.is_greeted) = (Some(order.database), true);
        }
        Ok(refused)
    }

    /// Writes all of it.
    pub(super) async fn write(&mut self, bytes: &[u8], patience: Duration) -> Result<(), Fault> {
        for step in bytes.chunks(STEP) {
            match timeout(patience, self.write_all(step)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Fault::Unwritable(Cause::Closed)),
                Err(_) => return Err(Fault::Unwritable(Cause::Timeout)),
            }
        }
        Ok(())
    }

    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let slices = [IoSlice::new(bytes)];
            match poll_fn(|cx| self.stream.poll_write(cx, &slices)).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Reads the answer to the next command.
    pub(super) async fn answer(&mut self, patience: Duration) -> Result<TargetAnswer, Fault> {
        let read = match timeout(patience, self.line()).await {
            Ok(read) => read,
            Err(_) => Err(Cause::Timeout),
        };
        let line = read.map_err(Fault::Unreadable)?;
        match line.split_first() {
            Some((b'+', _)) => Ok(TargetAnswer::Done),
            Some((b'-', error)) => Ok(TargetAnswer::Error(error.to_vec())),
            _ => Err(Fault::Unreadable(Cause::Nonsense)),
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<Vec<u8>, Cause> {
        let mut seen = self.read;
        loop {
            if let Some(at) = self.input[seen..].iter().position(|&byte| byte == b'\n') {
                let line = &self.input[self.read..seen + at];
                let line = line.strip_suffix(b"\r").ok_or(Cause::Nonsense)?.to_vec();
                self.read = seen + at + 1;
                return Ok(line);
            }
            self.input.drain(..std::mem::take(&mut self.read));
            seen = self.input.len();
            if seen >= LINE_MAX {
                return Err(Cause::Nonsense);
            }
            self.input.reserve_exact(CHUNK.min(LINE_MAX - seen));
            let Self { stream, input, .. } = self;
            if !matches!(poll_fn(|cx| stream.poll_read_more(cx, input)).await, Ok(1..)) {
                return Err(Cause::Closed);
            }
        }
    }
}

async fn connect(server: &Network, target: &MigrateTarget) -> Result<Stream, Fault> {
    let socket = open_socket(server, &target.host, target.port).await?;
    // Without this option the exchange is slower, and no less right.
    let _ = socket.set_nodelay(true);
    if !target.is_encrypted {
        return Ok(Stream::Tcp(socket));
    }
    let agreed = server.tls.connect(socket).await;
    agreed.map(Stream::Tls).map_err(|_| Fault::Unreachable)
}

async fn open_socket(server: &Network, host: &str, port: u16) -> Result<TcpStream, Fault> {
    let found = lookup_host((host, port)).await.map_err(|_| Fault::Unreachable)?;
    let mut fault = Fault::Unreachable;
    for address in found {
        match outgoing::connect(&server.config, address).await {
            Ok(stream) => return Ok(stream),
            // In Redis the first write notices that.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fault = Fault::Unwritable(Cause::Refused);
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                fault = Fault::Unwritable(Cause::Closed);
            }
            Err(_) => {}
        }
    }
    Err(fault)
}

fn encode<'a>(words: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    encode_command(words.collect::<Vec<_>>().into_iter(), out);
}
