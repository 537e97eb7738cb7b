//! Strings on their way to the client.
//!
//! Invariant: a long string is pinned, not copied: its tree's root goes into the reply.

use keyspace::Text;
use proto::Reply;

/// Replies a string value.
#[inline]
pub fn reply_text(text: Text<'_>, reply: &mut Reply<'_>) {
    match text {
        Text::Integer(number) => reply.bulk_integer(number),
        Text::Inline(bytes) => reply.bulk(bytes),
        Text::Large(blob) => reply.bulk_shared(Box::new(blob.clone())),
    }
}
