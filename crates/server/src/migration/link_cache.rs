//! Connections to targets that stay for the next MIGRATE.
//!
//! Invariant: each is quiet and was idle for less than ten seconds; there are 64 at most.

use std::collections::VecDeque;

use super::request::MigrateTarget;
use super::target_link::TargetLink;

/// So long one stays that nobody uses.
const IDLE_MAX_US: i64 = 10_000_000;

/// So many stay.
const LINKS_MAX: usize = 64;

/// The connections, from the one that was used first to the one that was used last.
#[derive(Default)]
pub(super) struct LinkCache(VecDeque<CachedLink>);

struct CachedLink {
    target: MigrateTarget,
    /// When the link was used last, on the monotonic clock.
    since_us: i64,
    link: TargetLink,
}

impl LinkCache {
    /// One to this target, if there is one on which nothing happened.
    pub(super) fn take(&mut self, target: &MigrateTarget) -> Option<TargetLink> {
        while let Some(place) = self.0.iter().rposition(|cached| cached.target == *target) {
            let mut cached = self.0.remove(place)?;
            if cached.link.is_quiet() {
                return Some(cached.link);
            }
        }
        None
    }

    /// Keeps one that was used until now.
    pub(super) fn put(&mut self, target: &MigrateTarget, link: TargetLink, now_us: i64) {
        if self.0.len() == LINKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(CachedLink { target: target.clone(), since_us: now_us, link });
    }

    /// Closes what was idle for long.
    pub(super) fn close_idle(&mut self, now_us: i64) {
        let is_idle = |cached: &mut CachedLink| now_us - cached.since_us >= IDLE_MAX_US;
        while self.0.pop_front_if(is_idle).is_some() {}
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
