//! Which program this is, and which Redis it says it is.
//!
//! Invariant: `v=` of the version's line, and the first number in it, is the version of Redis, by
//! which client libraries' test suites tell what they can ask for.

use std::sync::OnceLock;

use config::settings::{CLUSTER_ENABLED, REPORTED_REDIS_VERSION};
use config::{Config, Profile};

/// Our own version.
pub const APUS_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the program was built from.
#[derive(Clone, Copy, Debug)]
pub struct BuildCommit {
    /// Its short hash.
    pub hash: &'static str,
    /// Its day.
    pub date: &'static str,
    /// Whether files differed from it.
    pub is_altered: bool,
}

static COMMIT: OnceLock<BuildCommit> = OnceLock::new();

/// Says what the program was built from; without it nobody knows.
pub fn built_from(commit: BuildCommit) {
    // Said again, it is the same.
    let _ = COMMIT.set(commit);
}

/// What the program was built from.
pub fn commit() -> BuildCommit {
    const UNKNOWN: BuildCommit =
        BuildCommit { hash: "00000000", date: "unknown", is_altered: false };
    COMMIT.get().copied().unwrap_or(UNKNOWN)
}

/// Our version with its commit, for people.
pub fn full() -> String {
    let BuildCommit { hash, date, is_altered } = commit();
    let altered = if is_altered { ", altered" } else { "" };
    format!("{APUS_VERSION} ({hash}{altered}, {date})")
}

/// The line that `--version` prints, in the form of Redis' own.
pub fn line(config: &Config) -> String {
    let BuildCommit { hash, date, is_altered } = commit();
    format!(
        "Apus server v={} sha={hash}:{} malloc=mimalloc bits={} build={date} apus={APUS_VERSION}",
        of_redis(config),
        u8::from(is_altered),
        usize::BITS
    )
}

/// The version of Redis that clients are told.
pub fn of_redis(config: &Config) -> String {
    // Its parser lets nothing but ASCII through.
    String::from_utf8_lossy(&config.get(REPORTED_REDIS_VERSION)).into_owned()
}

/// The mode that clients are told, as Redis calls it.
pub fn mode(config: &Config) -> &'static str {
    match config.profile() {
        Profile::Server if config.get(CLUSTER_ENABLED) => "cluster",
        Profile::Server => "standalone",
        Profile::Sentinel => "sentinel",
    }
}

/// The version of Redis as scripts read it, a byte for each part.
pub(crate) fn number_of_redis(config: &Config) -> u32 {
    let parts = of_redis(config);
    let part = |part: &str| part.parse::<u8>().map_or(0, u32::from);
    parts.split('.').map(part).fold(0, |number, part| number << 8 | part)
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::{line, number_of_redis, of_redis};

    #[test]
    fn suites_find_the_version_of_redis_in_the_line() {
        let config = Config::new();
        let line = line(&config);
        let behind = line.split_once("v=").and_then(|(_, rest)| rest.split_once(' '));
        assert_eq!(behind.map(|(version, _)| version), Some(&*of_redis(&config)), "{line}");
        let first = line.split(|letter: char| !letter.is_ascii_digit()).find(|it| !it.is_empty());
        assert_eq!(first, Some("8"), "{line}");
        assert_eq!(number_of_redis(&config), 0x0008_0203);
    }
}
