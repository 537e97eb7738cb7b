//! Guessing of passwords: attempts from an address that fails often wait before their password is
//! looked at.
//!
//! The verdict is late, not only the answer: until the wait is over the server itself does not know
//! it, so nothing that others see tells a right guess from a wrong one. All attempts from an
//! address are late then, as those of others behind the same one, but by no more than
//! `failed-auth-delay`: no client is shut out. A right password that was answered at once would
//! tell a guesser not to wait for the others.
//!
//! Invariant: what is kept is bounded, whatever addresses attempts come from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use config::Config;
use config::settings::FAILED_AUTH_DELAY;

use crate::clients::registry::Peer;

/// So many failures are forgiven: people mistype.
const FORGIVEN: i64 = 10;

/// With each failure more the delay grows by this part of the longest.
const STEPS: i64 = 10;

/// After so long one failure is forgotten.
const FORGOTTEN_US: i64 = 5_000_000;

/// No more failures count: an address that stops guessing is soon as any other.
const MOST: i64 = FORGIVEN + 2 * STEPS;

/// Of so many addresses at once it is known that attempts failed.
const ADDRESSES: usize = 4096;

/// Failures by address.
#[derive(Default)]
pub struct AuthFailures(Mutex<BTreeMap<u128, Failures>>);

#[derive(Clone, Copy)]
struct Failures {
    count: i64,
    at_us: i64,
}

impl Failures {
    /// How many still count.
    fn left(self, now_us: i64) -> i64 {
        (self.count - (now_us - self.at_us).max(0) / FORGOTTEN_US).max(0)
    }
}

impl AuthFailures {
    /// An attempt from there has failed.
    pub fn note_failure(&self, peer: Peer, now_us: i64) {
        let Some(origin) = origin_of(peer) else { return };
        let mut all = self.0.lock().expect("nothing here panics");
        let before = all.get(&origin).map_or(0, |failures| failures.left(now_us));
        if all.len() >= ADDRESSES && !all.contains_key(&origin) {
            all.retain(|_, failures| failures.left(now_us) > 0);
            let least = all.iter().min_by_key(|(_, failures)| failures.left(now_us));
            if let Some((&least, _)) = least.filter(|_| all.len() >= ADDRESSES) {
                all.remove(&least);
            }
        }
        all.insert(origin, Failures { count: (before + 1).min(MOST), at_us: now_us });
    }

    /// How long an attempt from there waits still that has waited so long by now. What fails
    /// meanwhile counts: many attempts at once are no way past the failures of each other.
    pub fn time_left(
        &self,
        config: &Config,
        peer: Peer,
        (waited, now_us): (Duration, i64),
    ) -> Option<Duration> {
        let left = self.delay(config, peer, now_us)?.saturating_sub(waited);
        Some(left).filter(|left| !left.is_zero())
    }

    /// How long an attempt from there waits in all.
    fn delay(&self, config: &Config, peer: Peer, now_us: i64) -> Option<Duration> {
        let longest = Duration::from_millis(config.get(FAILED_AUTH_DELAY).into());
        let origin = origin_of(peer).filter(|_| !longest.is_zero())?;
        let all = self.0.lock().expect("nothing here panics");
        let beyond = all.get(&origin)?.left(now_us) - FORGIVEN;
        let steps = u32::try_from(beyond.min(STEPS)).ok().filter(|steps| *steps > 0)?;
        Some(longest * steps / STEPS as u32)
    }
}

/// Where a client comes from: of IPv6 the network, whose owner has all of its addresses; a Unix
/// socket is no address.
fn origin_of(peer: Peer) -> Option<u128> {
    match peer {
        Peer::Unix => None,
        Peer::Tcp(address) => Some(match address.ip.to_canonical() {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use config::Config;

    use super::{ADDRESSES, AuthFailures, FORGIVEN, FORGOTTEN_US, MOST};
    use crate::clients::registry::Peer;

    fn peer(address: &str) -> Peer {
        Peer::Tcp(address.parse::<SocketAddr>().expect("an address").into())
    }

    #[test]
    fn an_address_is_slowed_alone_up_to_a_bound_and_forgiven_again() {
        let (auth_failures, config) = (AuthFailures::default(), Config::new());
        let (guesser, other) = (peer("192.0.2.1:5"), peer("192.0.2.2:5"));
        let delay = |peer, now| auth_failures.delay(&config, peer, now);
        for _ in 0..FORGIVEN {
            assert_eq!(delay(guesser, 0), None);
            auth_failures.note_failure(guesser, 0);
        }
        assert_eq!(delay(guesser, 0), None, "people mistype");
        auth_failures.note_failure(guesser, 0);
        assert_eq!(delay(guesser, 0), Some(Duration::from_millis(100)));
        (0..1000).for_each(|_| auth_failures.note_failure(guesser, 0));
        assert_eq!(delay(guesser, 0), Some(Duration::from_secs(1)), "nobody is shut out");
        assert_eq!(delay(peer("192.0.2.1:6"), 0), Some(Duration::from_secs(1)), "another port");
        assert_eq!(delay(other, 0), None);
        assert_eq!(delay(guesser, MOST * FORGOTTEN_US), None, "it is forgiven");
        config.put(b"failed-auth-delay", b"0");
        assert_eq!(auth_failures.delay(&config, guesser, 0), None);
    }

    #[test]
    fn attempts_at_once_wait_for_the_failures_of_each_other() {
        let (auth_failures, config) = (AuthFailures::default(), Config::new());
        let guesser = peer("192.0.2.1:5");
        (0..=FORGIVEN).for_each(|_| auth_failures.note_failure(guesser, 0));
        let left = |now_us: i64| {
            let waited = Duration::from_micros(now_us.unsigned_abs());
            auth_failures.time_left(&config, guesser, (waited, now_us))
        };
        assert_eq!(left(0), Some(Duration::from_millis(100)));
        assert_eq!(left(40_000), Some(Duration::from_millis(60)));
        assert_eq!(left(100_000), None);
        // Another one came first.
        auth_failures.note_failure(guesser, 100_000);
        assert_eq!(left(100_000), Some(Duration::from_millis(100)));
        (0..MOST).for_each(|_| auth_failures.note_failure(guesser, 100_000));
        assert_eq!(left(200_000), Some(Duration::from_millis(800)));
        assert_eq!(left(1_000_000), None, "nobody waits for longer than the longest delay");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_and_those_of_ipv4_within_are_theirs() {
        let (auth_failures, config) = (AuthFailures::default(), Config::new());
        (0..MOST).for_each(|_| auth_failures.note_failure(peer("[2001:db8::1]:5"), 0));
        (0..MOST).for_each(|_| auth_failures.note_failure(peer("192.0.2.1:5"), 0));
        let is_slow = |of: &str| auth_failures.delay(&config, peer(of), 0).is_some();
        assert!(is_slow("[2001:db8::ffff]:9") && is_slow("[::ffff:192.0.2.1]:9"));
        assert!(!is_slow("[2001:db8:0:1::1]:9") && !is_slow("[::ffff:192.0.2.2]:9"));
        (0..MOST).for_each(|_| auth_failures.note_failure(Peer::Unix, 0));
        assert_eq!(auth_failures.delay(&config, Peer::Unix, 0), None);
    }

    #[test]
    fn what_is_kept_is_bounded_and_keeps_who_fails_most() {
        let (auth_failures, config) = (AuthFailures::default(), Config::new());
        let guesser = peer("203.0.113.1:1");
        (0..MOST).for_each(|_| auth_failures.note_failure(guesser, 0));
        for number in 0..2 * ADDRESSES {
            let address = format!("10.0.{}.{}:1", number / 256, number % 256);
            auth_failures.note_failure(peer(&address), 0);
        }
        assert_eq!(auth_failures.0.lock().expect("nobody panics").len(), ADDRESSES);
        assert!(auth_failures.delay(&config, guesser, 0).is_some());
    }
}
