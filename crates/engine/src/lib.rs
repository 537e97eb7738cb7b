//! The engine: what runs commands on the keyspace, wherever they were read from.
//!
//! Its rooms from below: `runtime`, `table`, `clients`, `journal`, `observe`, `limits`, `shared`,
//! `session`, `commit`, `admission`, `reclaim`, `transaction`, `execute`, `scripting`
//! (docs/decisions/rooms.md).
//!
//! Invariant: nothing here knows a socket, a file of the data or an event loop; imports run down.
#![forbid(unsafe_code)]

pub mod admission;
pub mod clients;
pub mod commit;
pub mod execute;
pub mod journal;
pub mod keyspace_settings;
pub mod lane;
pub mod limits;
pub mod observe;
pub mod reclaim;
pub mod runtime;
pub mod scripting;
pub mod session;
pub mod shared;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transaction;
