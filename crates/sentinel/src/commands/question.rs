//! What others ask of a Sentinel: where a primary is, whether it is down, for which Sentinel it
//! votes.
//!
//! Invariant: a vote is a promise, whose reply goes when it is on disk.

use base::number::{parse_i64, parse_u64};
use proto::{Args, Reply};

use super::{Answer, NO_SUCH_MASTER, refuse, text};
use crate::address::Address;
use crate::engine::Sentinel;
use crate::hello::EPOCH_MAX;
use crate::info::{is_run_id, port};
use crate::primary::Peer;

/// SENTINEL MYID
pub(super) fn myid(sentinel: &mut Sentinel, _: Args<'_>, mut reply: Reply<'_>) -> Answer {
    reply.bulk(sentinel.context.my_id.as_bytes());
    Answer::Ready
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME name
pub(super) fn get_master_addr_by_name(
    sentinel: &mut Sentinel,
    args: Args<'_>,
    mut reply: Reply<'_>,
) -> Answer {
    match sentinel.primaries.get(text(args, 2)) {
        None => reply.null_array(),
        Some(primary) => {
            let address = primary.current_address();
            reply.array(2);
            reply.bulk(sentinel.context.shown(address).as_bytes());
            reply.bulk_integer(i64::from(address.port));
        }
    }
    Answer::Ready
}

/// SENTINEL IS-MASTER-DOWN-BY-ADDR ip port current-epoch runid
///
/// With an id instead of `*` it asks for a vote, too.
pub(super) fn is_master_down_by_addr(
    sentinel: &mut Sentinel,
    args: Args<'_>,
    mut reply: Reply<'_>,
) -> Answer {
    let (Some(_), Some(epoch)) = (parse_i64(&args[3]), parse_i64(&args[4])) else {
        return refuse(reply, "ERR value is not an integer or out of range");
    };
    let (host, number, candidate) = (text(args, 2), text(args, 3), text(args, 5));
    let context = &mut sentinel.context;
    let ip = context.hosts.known(host);
    let at = |port: u16, address: &Address| address.port == port && address.is_at(host, ip);
    let primary = port(number).and_then(|port| {
        let mut all = sentinel.primaries.values_mut();
        all.find(|primary| at(port, &primary.head.instance.address))
    });
    let (mut is_down, mut leader, mut leader_epoch, mut answer) = (false, None, 0, Answer::Ready);
    if let Some(primary) = primary {
        is_down = context.tilt.since.is_none() && primary.head.instance.is_down();
        let epoch = u64::try_from(epoch).ok().filter(|epoch| *epoch <= EPOCH_MAX);
        // Without a disk that remembers there are no votes.
        if let Some(epoch) = epoch.filter(|_| is_run_id(candidate) && context.is_disk_trusted()) {
            let vote = primary.head.vote(context, epoch, candidate);
            (leader, leader_epoch, answer) = (vote.leader, vote.epoch, Answer::Promise);
        }
    }
    reply.array(3);
    reply.integer(i64::from(is_down));
    reply.bulk(leader.as_deref().unwrap_or("*").as_bytes());
    reply.integer(leader_epoch as i64);
    answer
}

/// SENTINEL CKQUORUM name
pub(super) fn ckquorum(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.get(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    let context = &sentinel.context;
    let is_usable = |peer: &&Peer| {
        !peer.instance.is_down() && !context.links.get(peer.instance.link).is_disconnected()
    };
    let usable = primary.peers.values().filter(is_usable).count() + 1;
    let has_quorum = usable >= primary.head.settings.quorum as usize;
    let has_majority = usable >= primary.majority();
    if has_quorum && has_majority {
        reply.simple(format!(
            "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
        ));
        return Answer::Ready;
    }
    let mut text = format!("NOQUORUM {usable} usable Sentinels. ");
    if !has_quorum {
        text += "Not enough available Sentinels to reach the specified quorum for this master";
    }
    if !has_majority {
        if !has_quorum {
            text += ". ";
        }
        text += "Not enough available Sentinels to reach the majority and authorize a failover";
    }
    refuse(reply, text)
}

/// A number of a client that is at least 1.
pub(super) fn positive(word: &[u8]) -> Option<u32> {
    parse_u64(word).and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
}
