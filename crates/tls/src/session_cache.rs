//! Sessions that clients may resume, up to a number and a time.
//!
//! Invariant: what is taken is there no more; beyond the number the oldest go first.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use base::time::Clock;
use rustls::server::StoresServerSessions;

/// The cache.
pub(crate) struct SessionCache {
    /// How many there may be; 0 is no limit.
    entries_max: usize,
    timeout_us: i64,
    clock: Clock,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_key: HashMap<Vec<u8>, Stored>,
    /// All keys as they came, with the number of their entry; some may be gone.
    order: VecDeque<(u64, Vec<u8>)>,
    numbered: u64,
}

struct Stored {
    number: u64,
    since_us: i64,
    value: Vec<u8>,
}

impl SessionCache {
    pub(crate) fn new(entries_max: usize, timeout_seconds: u32, clock: Clock) -> Self {
        let timeout_us = i64::from(timeout_seconds) * 1_000_000;
        Self { entries_max, timeout_us, clock, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("no critical section here panics")
    }

    fn is_over(&self, stored: &Stored, now_us: i64) -> bool {
        now_us - stored.since_us >= self.timeout_us
    }
}

impl Sessions {
    /// Removes the oldest for as long as there are too many, or their time is over.
    fn trim(&mut self, cache: &SessionCache, now_us: i64) {
        while let Some((number, key)) = self.order.front() {
            let stored = self.by_key.get(key).filter(|stored| stored.number == *number);
            let is_full = cache.entries_max > 0 && self.by_key.len() > cache.entries_max;
            match stored {
                Some(stored) if !is_full && !cache.is_over(stored, now_us) => return,
                Some(_) => _ = self.by_key.remove(key),
                None => {}
            }
            self.order.pop_front();
        }
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let now_us = self.clock.monotonic_us();
        let mut sessions = self.sessions();
        sessions.numbered += 1;
        let number = sessions.numbered;
        sessions.order.push_back((number, key.clone()));
        sessions.by_key.insert(key, Stored { number, since_us: now_us, value });
        sessions.trim(self, now_us);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now_us = self.clock.monotonic_us();
        let sessions = self.sessions();
        let stored = sessions.by_key.get(key).filter(|stored| !self.is_over(stored, now_us));
        stored.map(|stored| stored.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now_us = self.clock.monotonic_us();
        let stored = self.sessions().by_key.remove(key);
        stored.filter(|stored| !self.is_over(stored, now_us)).map(|stored| stored.value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base::time::Clock;
    use rustls::server::StoresServerSessions;

    use super::SessionCache;

    fn has(cache: &SessionCache, key: u8) -> bool {
        cache.get(&[key]).is_some()
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let cache = SessionCache::new(2, 300, Clock::manual(0));
        (1..=3).for_each(|key| _ = cache.put(vec![key], vec![key]));
        assert!(!has(&cache, 1) && has(&cache, 2) && has(&cache, 3));
        // One that came anew is the youngest.
        cache.put(vec![2], vec![2]);
        cache.put(vec![4], vec![4]);
        assert!(has(&cache, 2) && !has(&cache, 3) && has(&cache, 4));
    }

    #[test]
    fn what_is_taken_is_gone_and_leaves_room() {
        let cache = SessionCache::new(2, 300, Clock::manual(0));
        (1..=2).for_each(|key| _ = cache.put(vec![key], vec![key]));
        assert_eq!(cache.take(&[1]), Some(vec![1]));
        assert_eq!(cache.take(&[1]), None);
        cache.put(vec![3], vec![3]);
        assert!(has(&cache, 2) && has(&cache, 3));
    }

    #[test]
    fn sessions_end_with_their_time() {
        let clock = Clock::manual(0);
        let cache = SessionCache::new(0, 10, clock.clone());
        cache.put(vec![1], vec![1]);
        clock.advance(9_999);
        assert!(has(&cache, 1));
        clock.advance(1);
        assert!(!has(&cache, 1) && cache.take(&[1]).is_none());
    }

    /// What is taken leaves its place in the line, which must not grow with them.
    #[test]
    fn the_line_of_keys_stays_as_short_as_the_cache() {
        let clock = Clock::manual(0);
        let cache = SessionCache::new(2, 10, clock.clone());
        for round in 0..100_u8 {
            cache.put(vec![round], vec![]);
            cache.take(&[round]);
        }
        assert!(cache.sessions().order.len() <= 3);
    }
}
