//! The hot keys, the big keys and the prefixes, as KEYSTATS tells them.
//!
//! Invariant: each is told by its command, with the rights that the command asks for.

use super::super::command_session::Caller;
use super::super::json::record;
use super::super::query::Query;
use super::super::response::Failure;
use super::{run, words};

/// How many rows are told.
const MOST: &[u8] = b"100";

/// `/api/hotkeys`, by requests, bytes or time.
pub(super) async fn hot(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let by = query.get("by").unwrap_or(b"requests");
    let request = words(caller.server, [b"KEYSTATS", b"HOT", b"BY", by, b"COUNT", MOST])?;
    Ok(record(&run(caller, request).await?))
}

/// `/api/bigkeys`, by memory or elements.
pub(super) async fn big(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let by = query.get("by").unwrap_or(b"memory");
    let request = words(caller.server, [b"KEYSTATS", b"BIG", b"BY", by, b"COUNT", MOST])?;
    Ok(record(&run(caller, request).await?))
}

/// `/api/prefixes`: counts all keys.
pub(super) async fn prefixes(caller: &Caller) -> Result<String, Failure> {
    let request = words(caller.server, [b"KEYSTATS", b"PREFIXES", b"COUNT", MOST])?;
    Ok(record(&run(caller, request).await?))
}
