//! Encrypted connections as bytes: certificates and keys from files, what is spoken, and sessions
//! that turn ciphertext into plaintext and back, without any socket.
//!
//! Knows nothing of sockets, clients or directives' effects. Invariants: what is refused is refused
//! by the name of its directive, before anybody uses it; memory grows with bytes that arrived.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod certificate;
pub mod contexts;
mod der;
mod files;
mod policy;
mod private_key;
mod session_cache;
pub mod sessions;
mod verifiers;

pub use contexts::{Contexts, NamedContext, Refusal, Settings};
pub use sessions::{Fault, Session};
