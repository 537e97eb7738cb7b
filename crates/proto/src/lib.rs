//! The protocols of Redis and of memcached as bytes: requests in, replies out, both without any
//! input or output.
//!
//! Knows nothing of keys, sockets or time. Invariants: input is read once, whatever the pieces it
//! arrives in; memory grows with bytes that arrived, never with a length that was declared.
#![forbid(unsafe_code)]

pub mod args;
pub mod framing;
pub mod memcached;
pub mod output;
pub mod reply;
pub mod reply_scan;
pub mod request;
pub mod source;
pub mod value;

pub use args::{ArgSpans, Args, ArgsBuffer, OwnedArgs};
pub use framing::Framing;
pub use output::{Block, Mark, Output};
pub use reply::{Reply, Resp};
pub use reply_scan::{ReplyScanner, Scanned};
pub use request::{Limits, Progress, ProtocolError, RequestParser};
pub use source::Source;
