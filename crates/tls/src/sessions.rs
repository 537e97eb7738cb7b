//! One encrypted connection as a machine without a socket: ciphertext in, plaintext out, and back.
//!
//! Invariants: what has come is taken in to the last complete record, so only a part of one is ever
//! left; plaintext is given out only once it is known to be the peer's; a fault leaves behind what
//! the peer is to be told of it, and is the answer to whatever else the session is asked.

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
use crate::contexts::NamedContext;
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
    /// Whether the peer was told so.
    has_closed: bool,
    /// What the session cannot go on from: the library reads past its buffer if it is asked again.
    fault: Option<Fault>,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Why a session cannot go on.
#[derive(Clone, Debug)]
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
        Ok(Self { side: Side::Server(side), has_ended: false, has_closed: false, fault: None })
    }

    /// One with a server that was connected to.
    pub fn connect(context: &Arc<ClientConfig>) -> Result<Self, Fault> {
        let side = UnbufferedClientConnection::new(Arc::clone(context), peer_name()?)?;
        Ok(Self { side: Side::Client(side), has_ended: false, has_closed: false, fault: None })
    }

    /// One with the server of this name, or this address.
    pub fn connect_to(context: &NamedContext, host: &str) -> Result<Self, Fault> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| rustls::Error::General("no name of a host".to_owned()))?;
        let side = UnbufferedClientConnection::new(Arc::clone(&context.0), name)?;
        Ok(Self { side: Side::Client(side), has_ended: false, has_closed: false, fault: None })
    }

    /// Takes in what has come: plaintext goes to `open`, and what is to be sent behind `sealed`.
    /// Returns how much of it is done; the rest is to come again with what follows it. Behind
    /// `close` nothing is looked at any more.
    pub fn take_in(
        &mut self,
        incoming: &mut [u8],
        sealed: &mut Vec<u8>,
        open: impl FnMut(&[u8]),
    ) -> Result<usize, Fault> {
        self.check_fault()?;
        if self.has_closed {
            return Ok(incoming.len());
        }
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
        taken.map_err(|error| self.fault.insert(error.into()).clone())
    }

    /// Encrypts plaintext of one record at most into a buffer that has room for its overhead.
    /// `rest` is what `take_in` has left: the library looks there for parts of a message that it
    /// has seen.
    pub fn seal(&mut self, rest: &mut [u8], plain: &[u8], into: &mut [u8]) -> Result<usize, Fault> {
        self.check_fault()?;
        Ok(match &mut self.side {
            Side::Server(side) => seal(side.process_tls_records(rest), plain, into),
            Side::Client(side) => seal(side.process_tls_records(rest), plain, into),
        }?)
    }

    /// What tells the peer that nothing more comes; `rest` as for `seal`.
    pub fn close(&mut self, rest: &mut [u8], into: &mut [u8]) -> usize {
        if self.check_fault().is_err() {
            return 0;
        }
        let closed = match &mut self.side {
            Side::Server(side) => close(side.process_tls_records(rest), into),
            Side::Client(side) => close(side.process_tls_records(rest), into),
        };
        let length = closed.unwrap_or(0);
        self.has_closed |= length > 0;
        length
    }

    fn check_fault(&self) -> Result<(), Fault> {
        self.fault.clone().map_or(Ok(()), Err)
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

/// What a peer is called: sessions are resumed by it, and nothing else, as names are not sent.
pub(crate) fn peer_name() -> Result<ServerName<'static>, rustls::Error> {
    ServerName::try_from("peer").map_err(|_| rustls::Error::HandshakeNotComplete)
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

#[cfg(test)]
mod tests {
    use base::time::Clock;
    use rcgen::{CertificateParams, KeyPair};

    use super::{OVERHEAD_MAX, Session};
    use crate::contexts::{Contexts, IdentityFiles, Settings, client_context};

    /// Of a server, and of clients that trust whatever it shows.
    fn contexts() -> Contexts {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
        let [certificate_file, key_file] = ["certificate", "key"].map(|it| folder.path().join(it));
        std::fs::write(&certificate_file, certificate.pem()).expect("a file");
        std::fs::write(&key_file, key.serialize_pem()).expect("a file");
        let identity = IdentityFiles {
            certificate: Some(certificate_file),
            key: Some(key_file),
            password: Vec::new(),
        };
        let settings = Settings { identity, ..Settings::default() };
        let client = client_context(&settings, &Clock::system(), true).expect("they are sound");
        Contexts { client, ..Contexts::build(&settings, &Clock::system()).expect("as before") }
    }

    /// What a client sends first.
    fn hello(contexts: &Contexts) -> Vec<u8> {
        let mut client = Session::connect(&contexts.client).expect("a session");
        let mut hello = Vec::new();
        client.take_in(&mut [], &mut hello, |_| ()).expect("nothing has come");
        assert!(hello.len() > 100, "{} bytes", hello.len());
        hello
    }

    #[test]
    fn half_a_message_is_left_where_it_is_and_gone_on_with() {
        let contexts = contexts();
        let hello = hello(&contexts);
        let message = &hello[5..];
        for cut in [1, 3, 4, 50, message.len() - 1] {
            let mut server = Session::serve(&contexts.server).expect("a session");
            let record = |part: &[u8]| {
                let length = u16::try_from(part.len()).expect("it is short").to_be_bytes();
                [&hello[..3], &length, part].concat()
            };
            let (mut come, mut sealed) = (record(&message[..cut]), Vec::new());
            let done = server.take_in(&mut come, &mut sealed, |_| ()).expect("half a message");
            come.drain(..done);
            let mut room = [0; 4 * OVERHEAD_MAX];
            assert!(server.seal(&mut come, b"too early", &mut room).is_err(), "{cut}");
            assert_eq!(server.close(&mut come, &mut room), 0, "{cut}");
            come.extend(record(&message[cut..]));
            let done = server.take_in(&mut come, &mut sealed, |_| ()).expect("the other half");
            assert!(done == come.len() && !sealed.is_empty(), "{cut}: it is answered");
        }
    }

    #[test]
    fn a_fault_is_the_answer_from_there_on() {
        let contexts = contexts();
        let hello = hello(&contexts);
        let message = &hello[5..];
        for cut in [1, 4, 50] {
            let mut server = Session::serve(&contexts.server).expect("a session");
            // Half a message in a record, and then one of a kind that there is not.
            let length = u16::try_from(cut).expect("it is short").to_be_bytes();
            let half = [&hello[..3], &length, &message[..cut]].concat();
            let mut come = [&half[..], &[99, 3, 3, 0, 1, 0]].concat();
            let mut sealed = Vec::new();
            let fault = server.take_in(&mut come, &mut sealed, |_| ()).expect_err("no such kind");
            let mut room = [0; 4 * OVERHEAD_MAX];
            for come in [&mut [][..], &mut [0], &mut hello.clone()] {
                let again = server.take_in(come, &mut sealed, |_| ()).expect_err("it is over");
                assert_eq!(again.to_string(), fault.to_string());
                assert!(server.seal(come, b"x", &mut room).is_err());
                assert_eq!(server.close(come, &mut room), 0);
            }
        }
    }

    #[test]
    fn peers_agree_and_talk_byte_by_byte() {
        let contexts = contexts();
        let mut client = Session::connect(&contexts.client).expect("a session");
        let mut server = Session::serve(&contexts.server).expect("a session");
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
        client.take_in(&mut [], &mut to_server, |_| ()).expect("nothing has come");
        for _ in 0..10 {
            for byte in std::mem::take(&mut to_server) {
                at_server.push(byte);
                let done = server.take_in(&mut at_server, &mut to_client, |_| ()).expect("sound");
                at_server.drain(..done);
            }
            for byte in std::mem::take(&mut to_client) {
                at_client.push(byte);
                let done = client.take_in(&mut at_client, &mut to_server, |_| ());
                at_client.drain(..done.expect("nothing of it was changed"));
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        let mut record = vec![0; 5 + OVERHEAD_MAX];
        let length = client.seal(&mut at_client, b"hello", &mut record).expect("they have agreed");
        let mut heard = Vec::new();
        let done = server.take_in(&mut record[..length], &mut to_client, |it| heard.extend(it));
        assert_eq!((done.ok(), &*heard), (Some(length), &b"hello"[..]));
        // A session that has said goodbye takes whatever comes for nothing.
        assert!(server.close(&mut [], &mut record) > 0);
        let mut garbage = [0xff; 40];
        assert_eq!(server.take_in(&mut garbage, &mut to_client, |_| ()).ok(), Some(40));
        assert!(to_client.is_empty());
    }
}
