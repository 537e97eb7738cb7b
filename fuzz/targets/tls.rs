//! Encrypted sessions, fed any bytes: those of a stranger, and those of a peer with changes on the
//! way. A fault is the answer to all that comes behind it, and what is left is a part of a record.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use base::time::Clock;
use libfuzzer_sys::fuzz_target;
use rcgen::{CertificateParams, KeyPair};
use tls::contexts::{Contexts, IdentityFiles, Settings, client_context};
use tls::sessions::{OVERHEAD_MAX, SEALED_RECORD_MAX, Session};

/// More of messages that come in parts is not gathered: see crate `server`, `net::tls::stream`.
const GATHERED_MAX: usize = SEALED_RECORD_MAX;

/// A server, and clients that trust whatever it shows.
static CONTEXTS: LazyLock<Contexts> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("apus-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
    let file = |name: &str, text: String| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let identity = IdentityFiles {
        certificate: Some(file("certificate", certificate.pem())),
        key: Some(file("key", key.serialize_pem())),
        password: Vec::new(),
    };
    let settings = Settings { identity, ..Settings::default() };
    let client = client_context(&settings, &Clock::system(), true).expect("they are sound");
    let contexts = Contexts::build(&settings, &Clock::system()).expect("they are sound");
    std::fs::remove_dir_all(&folder).expect("it is ours");
    Contexts { client, ..contexts }
});

/// A session, what of a record has come to it, and what it sends.
struct Peer {
    session: Session,
    come: Vec<u8>,
    sent: Vec<u8>,
    is_broken: bool,
}

impl Peer {
    fn new(session: Session) -> Self {
        Self { session, come: Vec::new(), sent: Vec::new(), is_broken: false }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        if self.come.len() > GATHERED_MAX {
            return;
        }
        self.come.extend_from_slice(bytes);
        match self.session.take_in(&mut self.come, &mut self.sent, |_| ()) {
            Ok(done) => {
                assert!(!self.is_broken, "a fault is for good");
                self.come.drain(..done);
            }
            Err(_) => self.is_broken = true,
        }
    }

    /// Has the peer say something, and perhaps that this was all.
    fn speak(&mut self, is_last: bool) {
        let mut room = [0; 4 * OVERHEAD_MAX];
        if let Ok(length) = self.session.seal(&mut self.come, b"+OK\r\n", &mut room) {
            self.sent.extend_from_slice(&room[..length]);
        }
        if is_last {
            let length = self.session.close(&mut self.come, &mut room);
            self.sent.extend_from_slice(&room[..length]);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    let server = Peer::new(Session::serve(&CONTEXTS.server).expect("a session"));
    match kind % 2 {
        0 => stranger(server, data),
        _ => peers(server, data),
    }
});

/// Pieces, each behind its length.
fn stranger(mut server: Peer, mut data: &[u8]) {
    while let Some((length, rest)) = data.split_first() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        server.take_in(piece);
        server.speak(*length == 0);
        data = rest;
    }
}

/// Two peers; the bytes on their way are changed as the data say: three of those are where, in
/// which way, and to what.
fn peers(server: Peer, data: &[u8]) {
    let client = Peer::new(Session::connect(&CONTEXTS.client).expect("a session"));
    let mut ends = [client, server];
    ends[0].take_in(b"");
    let mut changes = data.chunks_exact(3);
    for turn in 0..2 * changes.len() + 12 {
        let [from, to] = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut bytes = std::mem::take(&mut ends[from].sent);
        if let Some([place, way, value]) = changes.next() {
            let place = usize::from(*place) * bytes.len() / 256;
            match way % 8 {
                0 if place < bytes.len() => bytes[place] ^= value | 1,
                1 => bytes.truncate(place),
                2 => bytes.insert(place, *value),
                3 => bytes.extend_from_within(place..),
                4 => ends[from].speak(value % 4 == 0),
                5 => bytes.splice(place..place, [*value; 40]).for_each(drop),
                _ => {}
            }
        }
        let step = changes.len() % 3 * 50 + 1;
        for piece in bytes.chunks(if step == 1 { bytes.len().max(1) } else { step }) {
            ends[to].take_in(piece);
        }
        if !ends[to].session.is_handshaking() {
            ends[to].speak(false);
        }
    }
}
