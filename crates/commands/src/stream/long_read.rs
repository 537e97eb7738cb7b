//! What XREAD replies of so many entries that they are told while the reply is sent.
//!
//! Invariant: the reply is that of the moment of the command, and what is counted beforehand is
//! what is told: the streams are clones that share their pages.

use std::collections::VecDeque;
use std::ops::Range;

use keyspace::{Refusal, Tx};
use proto::{Reply, Resp};
use structs::stream::{EntryId, Stream};

use super::read::{ReadRequest, begin_stream};
use super::reply_entry;
use crate::long_reply::reply_in_pieces;

/// The entries of one stream that are not told yet.
struct Unread {
    key: Vec<u8>,
    stream: Stream,
    from: EntryId,
    left: u64,
    is_begun: bool,
}

/// Replies all that comes behind these IDs; whether there is anything.
pub(super) fn reply_unread(
    tx: &Tx,
    request: &ReadRequest<'_>,
    behind: &[EntryId],
    reply: &mut Reply<'_>,
) -> Result<bool, Refusal> {
    let mut streams = VecDeque::new();
    for (key, after) in request.keys.iter().zip(behind) {
        let Some(stream) = tx.view::<Stream>(key)? else { continue };
        let Some(from) = after.next() else { continue };
        let left = stream.count_between(from, EntryId::MAX).min(request.count as u64);
        if left > 0 {
            let (key, stream) = (key.to_vec(), stream.clone());
            streams.push_back(Unread { key, stream, from, left, is_begun: false });
        }
    }
    if streams.is_empty() {
        return Ok(false);
    }
    match reply.resp() {
        Resp::Two => reply.array(streams.len()),
        Resp::Three => reply.map(streams.len()),
    }
    let total = streams.iter().map(|stream| stream.left).sum();
    reply_in_pieces(tx, reply, total, move |places, reply| write(&mut streams, places, reply));
    Ok(true)
}

/// Replies the next entries, as many as there are places.
fn write(streams: &mut VecDeque<Unread>, places: Range<u64>, reply: &mut Reply<'_>) {
    let mut wanted = places.end - places.start;
    while wanted > 0
        && let Some(unread) = streams.front_mut()
    {
        if !unread.is_begun {
            begin_stream(&unread.key, reply);
            reply.array(unread.left as usize);
            unread.is_begun = true;
        }
        let count = wanted.min(unread.left);
        let mut last = unread.from;
        for item in unread.stream.range(unread.from, EntryId::MAX).take(count as usize) {
            reply_entry(&item, reply);
            last = item.id;
        }
        unread.from = last.next().unwrap_or(EntryId::MAX);
        unread.left -= count;
        wanted -= count;
        if unread.left == 0 {
            streams.pop_front();
        }
    }
}
