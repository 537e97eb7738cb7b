//! The flags of commands that begin and end a connection.
//!
//! Invariant: no state of the client or the server keeps such a command from running.

use commands::declare::Flags;

/// Of commands that begin and end a connection: they run whatever state client and server are in.
pub(super) const AT_ANY_TIME: Flags = Flags::NOSCRIPT
    .and(Flags::LOADING)
    .and(Flags::STALE)
    .and(Flags::FAST)
    .and(Flags::NO_AUTH)
    .and(Flags::ALLOW_BUSY);
