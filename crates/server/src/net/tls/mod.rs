//! Encrypted connections: what new ones begin with, handshakes, and streams.
//!
//! Workers and links know of it by a stream that reads and writes as others do. Invariant: a worker
//! gets a connection only once its handshake is over.

mod handshakes;
mod incoming;
mod outgoing;
mod settings;
mod state;
mod stream;

pub(crate) use handshakes::{Arrival, Handshaken};
pub(crate) use settings::{is_wanted, settings_of};
pub(crate) use state::Tls;
pub(crate) use stream::{RawTlsStream, TlsStream};
