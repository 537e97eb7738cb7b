//! The words of openraft as bytes, in the log and in messages alike.
//!
//! Invariant: numbers are bounded, so that what openraft counts on from them does not overflow.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{CommittedLeaderId, EmptyNode, EntryPayload, LeaderId};
use quorum::MapEntry;
use quorum::wire::{Fields, WireError, put_id, put_ids, put_option, put_u64};

use crate::types::{Entry, LogId, Membership, PeerId, SnapshotMeta, StoredMembership, Vote};

/// Terms and places of the log are below.
const NUMBER_MAX: u64 = 1 << 62;

/// So many sets of voters are there while they change.
const JOINT_MAX: u8 = 2;

/// What has a form of bytes.
pub(crate) trait Coded: Sized {
    /// Writes it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    fn read(fields: &mut Fields<'_>) -> Result<Self, WireError>;
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_option(out, self.as_ref(), |out, value| value.put(out));
    }

    fn read(fields: &mut Fields<'_>) -> Result<Option<T>, WireError> {
        fields.option(T::read)
    }
}

impl Coded for PeerId {
    fn put(&self, out: &mut Vec<u8>) {
        put_id(out, self.0);
    }

    fn read(fields: &mut Fields<'_>) -> Result<PeerId, WireError> {
        fields.id().map(PeerId)
    }
}

impl Coded for LogId {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.leader_id.term);
        self.leader_id.node_id.put(out);
        put_u64(out, self.index);
    }

    fn read(fields: &mut Fields<'_>) -> Result<LogId, WireError> {
        let leader = CommittedLeaderId::new(number(fields)?, PeerId::read(fields)?);
        Ok(LogId::new(leader, number(fields)?))
    }
}

impl Coded for Vote {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.leader_id.term);
        self.leader_id.node_id.put(out);
        out.push(u8::from(self.committed));
    }

    fn read(fields: &mut Fields<'_>) -> Result<Vote, WireError> {
        let leader_id = LeaderId::new(number(fields)?, PeerId::read(fields)?);
        Ok(Vote { leader_id, committed: fields.flag()? })
    }
}

impl Coded for Membership {
    fn put(&self, out: &mut Vec<u8>) {
        let configs = self.get_joint_config();
        out.push(configs.len() as u8);
        for voters in configs {
            put_ids(out, voters.iter().map(|voter| voter.0));
        }
        let nodes: Vec<_> = self.nodes().map(|(node, _)| node.0).collect();
        put_ids(out, nodes.into_iter());
    }

    fn read(fields: &mut Fields<'_>) -> Result<Membership, WireError> {
        const WRONG: WireError = WireError::Value("set of voters");
        let count = fields.u8()?;
        if count > JOINT_MAX {
            return Err(WRONG);
        }
        let configs = (0..count).map(|_| peers(fields)).collect::<Result<Vec<_>, _>>()?;
        let nodes = peers(fields)?;
        let is_right = |voters: &BTreeSet<PeerId>| !voters.is_empty() && voters.is_subset(&nodes);
        if !configs.iter().all(is_right) {
            return Err(WRONG);
        }
        let nodes: BTreeMap<_, _> = nodes.into_iter().map(|node| (node, EmptyNode {})).collect();
        Ok(Membership::new(configs, nodes))
    }
}

impl Coded for StoredMembership {
    fn put(&self, out: &mut Vec<u8>) {
        self.log_id().put(out);
        self.membership().put(out);
    }

    fn read(fields: &mut Fields<'_>) -> Result<StoredMembership, WireError> {
        Ok(StoredMembership::new(Option::read(fields)?, Membership::read(fields)?))
    }
}

impl Coded for SnapshotMeta {
    fn put(&self, out: &mut Vec<u8>) {
        self.last_log_id.put(out);
        self.last_membership.put(out);
    }

    fn read(fields: &mut Fields<'_>) -> Result<SnapshotMeta, WireError> {
        Ok(snapshot_meta(Option::read(fields)?, StoredMembership::read(fields)?))
    }
}

/// What is said of a snapshot. Two of one place of the log are the same, so that is the name.
pub(crate) fn snapshot_meta(
    last_log_id: Option<LogId>,
    last_membership: StoredMembership,
) -> SnapshotMeta {
    let snapshot_id = last_log_id.map_or_else(String::new, |last| last.to_string());
    SnapshotMeta { last_log_id, last_membership, snapshot_id }
}

impl Coded for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        self.log_id.put(out);
        match &self.payload {
            EntryPayload::Blank => out.push(0),
            EntryPayload::Normal(entry) => {
                out.push(1);
                entry.encode(out);
            }
            EntryPayload::Membership(membership) => {
                out.push(2);
                membership.put(out);
            }
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Entry, WireError> {
        let log_id = LogId::read(fields)?;
        let payload = match fields.u8()? {
            0 => EntryPayload::Blank,
            1 => EntryPayload::Normal(MapEntry::decode(fields)?),
            2 => EntryPayload::Membership(Membership::read(fields)?),
            _ => return Err(WireError::Value("kind of entry")),
        };
        Ok(Entry { log_id, payload })
    }
}

fn peers(fields: &mut Fields<'_>) -> Result<BTreeSet<PeerId>, WireError> {
    Ok(fields.ids::<Vec<_>>()?.into_iter().map(PeerId).collect())
}

/// A term, or a place.
pub(crate) fn number(fields: &mut Fields<'_>) -> Result<u64, WireError> {
    let number = fields.u64()?;
    if number < NUMBER_MAX { Ok(number) } else { Err(WireError::Value("number")) }
}
