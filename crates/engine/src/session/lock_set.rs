//! What a program locks, and where its keys belong.
//!
//! Invariant: key counts that lie add nothing: the command will be refused in its own words.

use commands::arguments::is;
use commands::{Flags, LockPlan};
use keyspace::{Keyspace, LocatedKeys, Location, PartitionSet};
use proto::Args;

use crate::shared::Shared;
use crate::table::command_table::{CommandEntry, Run};

/// The locks.
#[derive(Default)]
pub struct LockSet {
    pub(crate) partitions: PartitionSet,
    /// The keys of commands with several, for the handlers: their bytes stay until the program
    /// has run or has moved to another thread.
    pub(crate) located: LocatedKeys,
    pub(crate) world: bool,
    /// Whether it may meet keys that nobody declared.
    pub(crate) undoable: bool,
}

impl LockSet {
    /// Adds what one of its commands needs. Key counts that lie add nothing: the command will be
    /// refused in its own words.
    pub(crate) fn add(&mut self, server: &Shared, entry: &CommandEntry, args: Args<'_>) {
        if matches!(entry.run, Run::Control) {
            self.world |= match entry.spec.plan {
                LockPlan::World => true,
                LockPlan::OfWords(words) => {
                    args.get(1).is_some_and(|it| words.iter().any(|word| is(it, word)))
                }
                LockPlan::Keys | LockPlan::Visits => false,
            };
            return;
        }
        self.undoable |=
            matches!(entry.run, Run::Unit) || entry.spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS);
        match entry.spec.plan {
            LockPlan::World | LockPlan::Visits | LockPlan::OfWords(_) => self.world = true,
            LockPlan::Keys => {
                let before = (self.partitions.len(), self.located.len());
                let visited = entry.spec.visit_keys(args, |index| {
                    self.add_key(server.keyspace, &args[index], None);
                });
                if visited.is_err() {
                    self.partitions.truncate(before.0);
                    self.located.truncate(before.1);
                }
            }
        }
    }

    /// Adds a key that is locked, which may be located already.
    pub(crate) fn add_key(&mut self, keyspace: &Keyspace, key: &[u8], known: Option<&Location>) {
        let location = keyspace.locate_unless_known(key, known);
        self.partitions.push(location.partition());
        self.located.push(key, location);
    }
}
