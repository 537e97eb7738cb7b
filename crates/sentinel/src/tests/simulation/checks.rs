//! What must be true in every history.

use std::collections::BTreeMap;

use crate::Sentinel;
use crate::failover::FailoverKind;
use crate::notice::Notice;

/// An epoch of a primary.
type Term = (String, u64);

/// What was seen, against which the next is held.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Each vote: the voter and its candidate.
    votes: BTreeMap<Term, BTreeMap<String, String>>,
    /// The epochs that a Sentinel has written.
    epochs: BTreeMap<(usize, String), u64>,
    /// The Sentinels that were elected.
    leaders: BTreeMap<Term, String>,
    pub(super) elections: u64,
    pub(super) switches: u64,
    pub(super) failures: Vec<String>,
}

impl Checks {
    /// The votes of a Sentinel are on disk now.
    pub(super) fn persisted(&mut self, guard: usize, engine: &Sentinel) {
        let mut epochs = vec![("current".to_owned(), engine.context.current_epoch)];
        for (name, primary) in &engine.primaries {
            epochs.push((format!("leader {name}"), primary.head.leader_epoch));
            epochs.push((format!("config {name}"), primary.head.config_epoch));
        }
        for (name, epoch) in epochs {
            let before = self.epochs.insert((guard, name.clone()), epoch);
            if before > Some(epoch) {
                self.failures.push(format!("the {name} epoch of s{guard} falls to {epoch}"));
            }
        }
        for primary in engine.primaries.values() {
            let (head, id) = (&primary.head, &engine.context.my_id);
            let Some(leader) = &head.leader else { continue };
            let term = (head.name.clone(), head.leader_epoch);
            let votes = self.votes.entry(term).or_default();
            let before = votes.insert(id.clone(), leader.clone());
            if before.is_some_and(|before| before != *leader) {
                let epoch = head.leader_epoch;
                self.failures.push(format!("s{guard} has voted twice in {epoch}"));
            }
        }
    }

    /// An event of a Sentinel.
    pub(super) fn notice(
        &mut self,
        guard: usize,
        engine: &Sentinel,
        notice: &Notice,
        quorum: usize,
    ) {
        let words: Vec<&str> = notice.text.split(' ').collect();
        match notice.event {
            "+elected-leader" => self.elected(guard, engine, words[1], quorum),
            "+switch-master" => self.switches += 1,
            _ => {}
        }
    }

    fn elected(&mut self, guard: usize, engine: &Sentinel, name: &str, quorum: usize) {
        let primary = &engine.primaries[name];
        let id = &engine.context.my_id;
        if primary.head.failover.kind == FailoverKind::Forced {
            return;
        }
        self.elections += 1;
        let term = (name.to_owned(), primary.head.failover.epoch);
        let votes = self.votes.get(&term).into_iter().flat_map(BTreeMap::values);
        let count = votes.filter(|candidate| *candidate == id).count();
        let known = primary.peers.len() + 1;
        let majority = known / 2 + 1;
        if count < quorum.max(majority) {
            self.failures.push(format!("s{guard} leads {term:?} by {count} votes of {known}"));
        }
        let before = self.leaders.insert(term.clone(), id.clone());
        if before.is_some_and(|before| before != *id) {
            self.failures.push(format!("s{guard} is the second leader of {term:?}"));
        }
    }

    /// A reply of a Sentinel, with the disk as it is when it goes.
    pub(super) fn reply(&mut self, bytes: &[u8], disk: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> = text.split("\r\n").collect();
        let ["*3", _, "$40", leader, epoch, ""] = lines[..] else { return };
        let epoch: u64 = epoch[1..].parse().unwrap();
        let disk = String::from_utf8_lossy(disk);
        let written = disk.lines().filter_map(|line| {
            let epoch = line.strip_prefix("sentinel leader-epoch ")?.split(' ').nth(1)?;
            epoch.parse::<u64>().ok()
        });
        if written.max() < Some(epoch) {
            self.failures.push(format!("the vote for {leader} in {epoch} is not written"));
        }
    }
}
