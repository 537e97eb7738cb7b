//! What is sent: an endless stream of requests for each connection, as bytes, drawn from the
//! options. Invariant: the same options and seeds give the same stream, whoever sends it.
//!
//! The engine's side of it, in this order: `Workload::new` once; `stream(thread, client)` for each
//! connection; `Stream::next` for each request, which appends its bytes and tells what was asked;
//! `Stream::check` for each value read under `--data-verify`.

/// One request that `Stream::next` appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its kind: an index into `Workload::commands`, and so into `Outcome::commands`.
    pub command: usize,
    /// How its reply is read.
    pub reply: ReplyKind,
    /// The number of its (first) key, for `Stream::check`.
    pub key: u64,
    /// Hash slot of its first key where cluster mode asked for it, else 0.
    pub slot: u16,
}

/// How a reply counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Neither hit nor miss.
    Plain,
    /// A null is a miss, anything else a hit.
    Read,
    /// An array (MGET): each element a hit or a miss.
    MultiRead,
}
