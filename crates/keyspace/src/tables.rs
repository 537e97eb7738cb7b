//! The tables of a partition: one for each physical database that has keys there.
//!
//! Invariant: only database 0 has a table without keys; the others come with their first key and
//! go with their last, so a partition holds, and a walk visits, what there is, whatever the number
//! of databases.

use smallvec::SmallVec;

use crate::entry::EntryTable;

/// A partition's tables by physical database.
pub(crate) struct Tables {
    /// Of database 0.
    first: EntryTable,
    others: Option<Box<OtherDatabases>>,
}

/// Databases in rising order; most partitions that have one have no second.
type OtherDatabases = SmallVec<[(u32, EntryTable); 1]>;

impl Tables {
    pub(crate) const fn new() -> Self {
        Self { first: EntryTable::new(), others: None }
    }

    /// The table of a database, if there is one.
    #[inline]
    pub(crate) fn get(&self, database: usize) -> Option<&EntryTable> {
        if database == 0 { Some(&self.first) } else { self.other(database) }
    }

    fn other(&self, database: usize) -> Option<&EntryTable> {
        let others = self.others.as_deref()?;
        let at = place(others, database).ok()?;
        Some(&others[at].1)
    }

    /// As `get`, to be changed; the code that takes its last entry calls `prune`.
    #[inline]
    pub(crate) fn get_mut(&mut self, database: usize) -> Option<&mut EntryTable> {
        if database == 0 { Some(&mut self.first) } else { self.other_mut(database) }
    }

    fn other_mut(&mut self, database: usize) -> Option<&mut EntryTable> {
        let others = self.others.as_deref_mut()?;
        let at = place(others, database).ok()?;
        Some(&mut others[at].1)
    }

    /// The table of a database, which is about to get an entry.
    #[inline]
    pub(crate) fn get_or_add(&mut self, database: usize) -> &mut EntryTable {
        if database == 0 { &mut self.first } else { self.other_or_new(database) }
    }

    fn other_or_new(&mut self, database: usize) -> &mut EntryTable {
        let others = self.others.get_or_insert_default();
        let at = place(others, database).unwrap_or_else(|at| {
            others.insert(at, (database as u32, EntryTable::new()));
            at
        });
        &mut others[at].1
    }

    /// Forgets the table of a database if it has no entries.
    #[inline]
    pub(crate) fn prune(&mut self, database: usize) {
        if database != 0 {
            self.prune_other(database);
        }
    }

    fn prune_other(&mut self, database: usize) {
        let Some(others) = self.others.as_deref_mut() else { return };
        let Ok(at) = place(others, database) else { return };
        if others[at].1.len() > 0 {
            return;
        }
        others.remove(at);
        match others.len() {
            0 => self.others = None,
            // Half and more of what was spilled is unused.
            len if others.spilled() && len <= others.capacity() / 4 => others.shrink_to_fit(),
            _ => {}
        }
    }

    /// Takes the table of a database out, if it has entries.
    pub(crate) fn take(&mut self, database: usize) -> Option<EntryTable> {
        let table = self.get_mut(database).filter(|table| table.len() > 0)?;
        let table = std::mem::take(table);
        self.prune(database);
        Some(table)
    }

    /// How many tables there are.
    pub(crate) fn count(&self) -> usize {
        1 + self.others.as_deref().map_or(0, OtherDatabases::len)
    }

    /// The table with this number among them, and its database.
    pub(crate) fn nth(&self, number: usize) -> (usize, &EntryTable) {
        match (number, self.others.as_deref()) {
            (1.., Some(others)) => {
                let (database, table) = &others[number - 1];
                (*database as usize, table)
            }
            _ => (0, &self.first),
        }
    }

    /// The next database that has a table.
    pub(crate) fn behind(&self, database: usize) -> Option<usize> {
        let others = self.others.as_deref()?;
        let at = others.partition_point(|(other, _)| *other as usize <= database);
        others.get(at).map(|(other, _)| *other as usize)
    }

    /// Where a walk over all tables goes on that came to `next` in a database's table.
    pub(crate) fn next_of_walk(&self, database: usize, next: Option<u64>) -> Option<(usize, u64)> {
        match next {
            Some(position) => Some((database, position)),
            None => self.behind(database).map(|database| (database, 0)),
        }
    }
}

fn place(others: &OtherDatabases, database: usize) -> Result<usize, usize> {
    others.binary_search_by_key(&(database as u32), |(other, _)| *other)
}
