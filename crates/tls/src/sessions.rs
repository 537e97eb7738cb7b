//! One encrypted connection as a machine without a socket: ciphertext in, plaintext out, and back.
//!
//! Invariants: what has come is taken in to the last complete record, so only a part of one is ever
//! left; plaintext is given out only once it is known to be the peer's; a fault leaves behind what
//! the peer is to be told of it.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedConnectionCommon,
    UnbufferedStatus,
};
use rustls::{ClientConfig, CommonState, HandshakeKind, ProtocolVersion, ServerConfig};

use crate::certificate::Certificate;
use crate::policy;

/// The most plaintext of one record.
pub const RECORD_MAX: usize = 16 << 10;

/// What a record takes beside its plaintext, and what may stand before it, is no more than this.
pub const OVERHEAD_MAX: usize = 256;

/// The most that a record takes as it comes.
pub const SEALED_RECORD_MAX: usize = RECORD_MAX + 2048 + 5;

/// A connection's keys and where it stands.
pub struct Session {
    side: Side,
    /// Whether the peer has said that it sends nothing more.
    has_ended: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Why a session cannot go on.
#[derive(Debug)]
pub struct Fault(rustls::Error);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl From<rustls::Error> for Fault {
    fn from(error: rustls::Error) -> Self {
        Self(error)
    }
}

impl Session {
    /// One with a client that has connected.
    pub fn serve(context: &Arc<ServerConfig>) -> Result<Self, Fault> {
        let side = UnbufferedServerConnection::new(Arc::clone(context))?;
        Ok(Self { side: Side::Server(side), has_ended: false })
    }

    /// One with a server that was connected to.
    pub fn connect(context: &Arc<ClientConfig>) -> Result<Self, Fault> {
        // Sessions are resumed by it, and nothing else: names are not sent.
        let name = ServerName::try_from("peer").map_err(|_| rustls::Error::HandshakeNotComplete)?;
        let side = UnbufferedClientConnection::new(Arc::clone(context), name)?;
        Ok(Self { side: Side::Client(side), has_ended: false })
    }

    /// Takes in what has come: plaintext goes to `open`, and what is to be sent behind `sealed`.
    /// Returns how much of it is done; the rest is to come again with what follows it.
    pub fn take_in(
        &mut self,
        incoming: &mut [u8],
        sealed: &mut Vec<u8>,
        open: impl FnMut(&[u8]),
    ) -> Result<usize, Fault> {
        let ended = &mut self.has_ended;
        let taken = match &mut self.side {
            Side::Server(side) => take_in(
                side,
                UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records,
                (incoming, sealed, ended),
                open,
            ),
            Side::Client(side) => take_in(
                side,
                UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records,
                (incoming, sealed, ended),
                open,
            ),
        };
        Ok(taken?)
    }

    /// Encrypts plaintext of one record at most into a buffer that has room for its overhead.
    pub fn seal(&mut self, plain: &[u8], into: &mut [u8]) -> Result<usize, Fault> {
        let sealed = match &mut self.side {
            Side::Server(side) => seal(side.process_tls_records(&mut []), plain, into),
            Side::Client(side) => seal(side.process_tls_records(&mut []), plain, into),
        };
        Ok(sealed?)
    }

    /// What tells the peer that nothing more comes.
    pub fn close(&mut self, into: &mut [u8]) -> usize {
        let closed = match &mut self.side {
            Side::Server(side) => close(side.process_tls_records(&mut []), into),
            Side::Client(side) => close(side.process_tls_records(&mut []), into),
        };
        closed.unwrap_or(0)
    }

    /// Whether the peers have not agreed yet.
    pub fn is_handshaking(&self) -> bool {
        self.state().is_handshaking()
    }

    /// Whether the peer has said that it sends nothing more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether an earlier session went on.
    pub fn is_resumed(&self) -> bool {
        self.state().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Which version of TLS 1 is spoken; 0 before that is known.
    pub fn minor_version(&self) -> u8 {
        match self.state().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => 2,
            Some(ProtocolVersion::TLSv1_3) => 3,
            _ => 0,
        }
    }

    /// The cipher, by OpenSSL's name.
    pub fn cipher(&self) -> &'static str {
        self.state().negotiated_cipher_suite().map_or("unknown", policy::name_of)
    }

    /// What stands in the certificate that the peer has shown, if it has.
    pub fn peer_certificate(&self) -> Option<Certificate> {
        Certificate::read(self.state().peer_certificates()?.first()?)
    }

    fn state(&self) -> &CommonState {
        match &self.side {
            Side::Server(side) => side,
            Side::Client(side) => side,
        }
    }
}

/// The server's and the client's machine are of different types and the same otherwise.
fn take_in<Machine, Data>(
    machine: &mut Machine,
    process: impl for<'c, 'i> Fn(
        &'c mut UnbufferedConnectionCommon<Data>,
        &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Data>,
    (incoming, sealed, has_ended): (&mut [u8], &mut Vec<u8>, &mut bool),
    mut open: impl FnMut(&[u8]),
) -> Result<usize, rustls::Error>
where
    Machine: DerefMut<Target = UnbufferedConnectionCommon<Data>>,
{
    let mut done = 0;
    let mut fault = None;
    loop {
        // Behind a fault nothing is read any more, but the peer is told what is ready to be told.
        if fault.is_some() && !machine.wants_write() {
            return fault.map_or(Ok(done), Err);
        }
        let UnbufferedStatus { mut discard, state } = process(machine, &mut incoming[done..]);
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    open(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, sealed),
            // The rest stands behind what is to be sent.
            Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
            Ok(ConnectionState::PeerClosed) => *has_ended = true,
            Ok(_) => return fault.map_or(Ok(done + discard), Err),
            Err(error) => _ = fault.get_or_insert(error),
        }
        done += discard;
    }
}

fn encode<Data>(message: &mut EncodeTlsData<'_, Data>, sealed: &mut Vec<u8>) {
    let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        message.encode(&mut [])
    else {
        return;
    };
    let begin = sealed.len();
    sealed.resize(begin + required_size, 0);
    let encoded = message.encode(&mut sealed[begin..]);
    debug_assert!(encoded.is_ok(), "it has the room that it asked for");
}

fn seal<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &[u8],
    into: &mut [u8],
) -> Result<usize, rustls::Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => {
            traffic.encrypt(plain, into).map_err(|error| rustls::Error::General(error.to_string()))
        }
        _ => Err(rustls::Error::HandshakeNotComplete),
    }
}

fn close<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    into: &mut [u8],
) -> Result<usize, rustls::Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => traffic
            .queue_close_notify(into)
            .map_err(|error| rustls::Error::General(error.to_string())),
        _ => Ok(0),
    }
}
