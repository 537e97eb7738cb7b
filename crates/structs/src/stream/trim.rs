//! Taking the oldest entries out of a stream.
//!
//! Invariant: what is taken out is what Redis would, node by node: its nodes hold the same entries.

use super::Stream;
use super::id::EntryId;
use super::log::Removed;
use super::node::Verdict;

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
    /// They stay.
    #[default]
    Keep,
    /// They are forgotten too.
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
}

impl Stream {
    /// Takes the oldest entries out.
    pub fn trim(&mut self, trim: &Trim) -> Trimmed {
        let by_reference = trim.references != References::Keep && !self.groups.is_empty();
        let (mut deleted, removed) = match by_reference {
            true => (0, self.log.remove_nodes(0..0)),
            false => self.trim_nodes(trim),
        };
        let (here, reach) = self.trim_entries(trim, by_reference, deleted);
        deleted += here;
        if deleted > 0 {
            self.find_first();
        }
        Trimmed { deleted, removed, reach }
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

    /// Goes through the nodes entry by entry: through one where entries are deleted just so. How
    /// many went, and before which ID it has looked.
    fn trim_entries(&mut self, trim: &Trim, by_reference: bool, before: u64) -> (u64, EntryId) {
        let (mut deleted, mut rank) = (0, 0);
        while let Some(node) = self.log.node_at(rank) {
            let (live, len) = (node.live() as u64, self.log.len());
            let (goes, done) = match trim.threshold {
                Threshold::Length(most) => (len.saturating_sub(live) >= most, len <= most),
                Threshold::Id(least) => (node.last_id() < least, node.master() >= least),
            };
            if done || trim.is_beyond(before + deleted + live) || (trim.approximate && !goes) {
                return (deleted, node.master());
            }
            let here = self.trim_node(trim, rank, len);
            deleted += here;
            rank += live - here;
            if !by_reference {
                break;
            }
        }
        (deleted, self.last_id().next().unwrap_or(EntryId::MAX))
    }

    /// Deletes entries of the node at a rank, as far as the threshold and the references allow.
    fn trim_node(&mut self, trim: &Trim, rank: u64, len: u64) -> u64 {
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
            if references == References::Acknowledged && groups.refer_to(id) {
                return Verdict::Keep;
            }
            left -= 1;
            gone.push(id);
            Verdict::Delete
        });
        if references == References::Delete {
            gone.iter().for_each(|id| _ = self.forget(*id));
        }
        here as u64
    }
}

impl Trim {
    fn is_beyond(&self, entries: u64) -> bool {
        self.limit != 0 && entries > self.limit
    }
}
