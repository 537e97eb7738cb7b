//! Taking the oldest entries out of a stream.
//!
//! Invariant: what is taken out is what Redis would, node by node: its nodes hold the same entries.

use std::sync::Arc;

use base::step_count;

use super::group::{ConsumerGroup, Name};
use super::id::EntryId;
use super::log::Removed;
use super::node::Verdict;
use super::{ConsumerGroups, Stream};

/// Up to where a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// So many entries are left.
    Length(u64),
    /// No entry below this ID is left.
    Id(EntryId),
}

/// What becomes of the pending entries of groups when the stream's own entries are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// The references stay.
    #[default]
    Keep,
    /// The references are forgotten too.
    Delete,
    /// Only entries that every group has read and acknowledged are deleted at all.
    Acknowledged,
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Up to where.
    pub threshold: Threshold,
    /// Whether whole nodes go only.
    pub approximate: bool,
    /// How many entries go at most; 0 for any number.
    pub limit: u64,
    /// What becomes of references.
    pub references: References,
}

/// What a trim came to.
pub struct Trimmed {
    /// How many entries went.
    pub deleted: u64,
    /// Those that went node by node: to drop them takes time in proportion.
    pub removed: Removed,
    /// The entries before this ID were looked at, and no others.
    pub reach: EntryId,
    /// Where references decided what went: those that went, rising.
    pub gone: Vec<EntryId>,
    /// The groups that forgot what they had pending, and what that was, in that order.
    pub forgotten: Vec<(Arc<[u8]>, EntryId)>,
}

/// What a trim by references came to so far.
#[derive(Default)]
struct Swept {
    gone: Vec<EntryId>,
    forgotten: Vec<(Name, EntryId)>,
}

impl Stream {
    /// Takes the oldest entries out.
    pub fn trim(&mut self, trim: &Trim) -> Trimmed {
        if trim.references == References::Acknowledged && self.is_wholly_unread() {
            return Trimmed {
                deleted: 0,
                removed: self.log.remove_nodes(0..0),
                reach: self.first_id,
                gone: Vec::new(),
                forgotten: Vec::new(),
            };
        }
        let by_reference = trim.references != References::Keep && !self.groups.is_empty();
        let (mut deleted, removed) = match by_reference {
            true => (0, self.log.remove_nodes(0..0)),
            false => self.trim_nodes(trim),
        };
        let mut swept = Swept::default();
        let (here, reach) = self.trim_entries(trim, by_reference.then_some(&mut swept), deleted);
        deleted += here;
        if deleted > 0 {
            self.find_first();
        }
        let Swept { gone, forgotten } = swept;
        Trimmed { deleted, removed, reach, gone, forgotten }
    }

    /// Whether a group has read no entry that is there, so that all have acknowledged none.
    pub fn is_wholly_unread(&self) -> bool {
        self.groups.by_name.values().any(|group| {
            step_count::step();
            group.last_id < self.first_id
        })
    }

    /// Takes out whole nodes while that is right.
    fn trim_nodes(&mut self, trim: &Trim) -> (u64, Removed) {
        let mut gone = 0;
        let len = self.log.len();
        for node in self.log.nodes() {
            let live = node.live() as u64;
            let goes = match trim.threshold {
                Threshold::Length(most) => len - gone > most && len - gone - live >= most,
                Threshold::Id(least) => node.last_id() < least,
            };
            if !goes || trim.is_beyond(gone + live) {
                break;
            }
            gone += live;
        }
        (gone, self.log.remove_nodes(0..gone))
    }

    /// Goes through the nodes entry by entry, up to the one in which the threshold lies: through
    /// one where entries are deleted just so. How many went, and before which ID it has looked.
    fn trim_entries(
        &mut self,
        trim: &Trim,
        mut by_reference: Option<&mut Swept>,
        before: u64,
    ) -> (u64, EntryId) {
        let (mut deleted, mut rank) = (0, 0);
        let mut referrers = None;
        while let Some(node) = self.log.node_at(rank) {
            let (live, len) = (node.live() as u64, self.log.len());
            let (goes, done) = match trim.threshold {
                Threshold::Length(most) => (len.saturating_sub(live) >= most, len <= most),
                Threshold::Id(least) => (node.last_id() < least, node.master() >= least),
            };
            if done || trim.is_beyond(before + deleted + live) || (trim.approximate && !goes) {
                return (deleted, node.master());
            }
            if by_reference.is_some() && referrers.is_none() {
                referrers = Some(self.groups.referrers());
            }
            let by = referrers.as_mut().zip(by_reference.as_deref_mut());
            let here = self.trim_node(trim, rank, len, by);
            deleted += here;
            rank += live - here;
            if by_reference.is_none() || !goes {
                break;
            }
        }
        (deleted, self.last_id().next().unwrap_or(EntryId::MAX))
    }

    /// Deletes entries of the node at a rank, as far as the threshold and the references allow.
    fn trim_node(
        &mut self,
        trim: &Trim,
        rank: u64,
        len: u64,
        by_reference: Option<(&mut Referrers, &mut Swept)>,
    ) -> u64 {
        let (mut referrers, swept) = by_reference.unzip();
        let mut left = len;
        let mut gone = Vec::new();
        let (groups, references) = (&self.groups, trim.references);
        let here = self.log.sweep(rank, |id| {
            let is_past = match trim.threshold {
                Threshold::Length(most) => left <= most,
                Threshold::Id(least) => id >= least,
            };
            if is_past {
                return Verdict::Stop;
            }
            if references == References::Acknowledged
                && referrers.as_mut().is_some_and(|referrers| referrers.refer_to(id, groups))
            {
                return Verdict::Keep;
            }
            left -= 1;
            gone.push(id);
            Verdict::Delete
        });
        let Some((referrers, swept)) = referrers.zip(swept) else { return here as u64 };
        if references == References::Delete {
            for id in &gone {
                for name in referrers.up_to(*id, &self.groups) {
                    if self.forget_in(name, *id) {
                        swept.forgotten.push((Arc::clone(name), *id));
                    }
                }
            }
        }
        swept.gone.append(&mut gone);
        here as u64
    }
}

impl Trim {
    fn is_beyond(&self, entries: u64) -> bool {
        self.limit != 0 && entries > self.limit
    }
}

/// The groups that may refer to entries of a stream, seen once for all entries of a trim.
///
/// Invariant: whatever is acknowledged meanwhile, a group is among those up to its first pending
/// entry's ID and above.
pub(super) struct Referrers {
    /// What one of the groups has not read yet lies above this.
    least_read: EntryId,
    /// The first pending entry of each group that has any, rising; once somebody asked.
    pending: Option<Vec<(EntryId, Name)>>,
    /// Which of them referred to an entry last: the next one is likely pending there, too.
    last: usize,
}

impl ConsumerGroups {
    fn referrers(&self) -> Referrers {
        let read = self.by_name.values().map(|group| group.last_id);
        Referrers { least_read: read.min().unwrap_or(EntryId::MAX), pending: None, last: 0 }
    }

    /// The first pending entry of each group that has any, rising.
    fn first_pending(&self) -> Vec<(EntryId, Name)> {
        let first = |(name, group): (&Name, &Arc<ConsumerGroup>)| {
            group.pending_bounds().map(|(first, _)| (first, Arc::clone(name)))
        };
        let mut pending: Vec<(EntryId, Name)> = self.by_name.iter().filter_map(first).collect();
        pending.sort_unstable();
        pending
    }
}

impl Referrers {
    /// Whether a group has not read an entry, or has it pending.
    fn refer_to(&mut self, id: EntryId, groups: &ConsumerGroups) -> bool {
        if id > self.least_read {
            return true;
        }
        let pending = self.pending.get_or_insert_with(|| groups.first_pending());
        let candidates = pending.partition_point(|(first, _)| *first <= id);
        let has = |place: &usize| {
            let group = groups.by_name.get(&pending[*place].1);
            group.is_some_and(|group| group.pending(id).is_some())
        };
        let likely = Some(self.last).filter(|last| *last < candidates && has(last));
        let found = likely.or_else(|| (0..candidates).find(has));
        self.last = found.unwrap_or(self.last);
        found.is_some()
    }

    /// The groups that may have an entry pending.
    fn up_to(
        &mut self,
        id: EntryId,
        groups: &ConsumerGroups,
    ) -> impl Iterator<Item = &Name> + use<'_> {
        let pending = self.pending.get_or_insert_with(|| groups.first_pending());
        let candidates = pending.partition_point(|(first, _)| *first <= id);
        pending[..candidates].iter().map(|(_, name)| name)
    }
}
