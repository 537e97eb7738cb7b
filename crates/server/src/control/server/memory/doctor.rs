//! MEMORY DOCTOR.
//!
//! Invariant: texts are those of Redis.

use super::stats::{MemoryStats, ratio};

/// Below this there is nothing to judge.
const LEAST: usize = 5 << 20;

/// Waste below this is none.
const LEAST_WASTE: usize = 10 << 20;

const EMPTY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues \
detector can't be used in these conditions. Please, leave for your mission on Earth and fill it \
with some data. The new Sam and I will be back to our programming as soon as I finished \
rebooting.\n";

const HEALTHY: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account \
for what occurs on this base.\n";

const PEAK: &str = " * Peak memory: In the past this instance used more than 150% the memory that \
is currently using. The allocator is normally not able to release memory after a peak, so you can \
expect to see a big fragmentation ratio, however this is actually harmless and is only due to the \
memory peak, and if the Redis instance Resident Set Size (RSS) is currently bigger than expected, \
the memory will be used as soon as you fill the Redis instance with more data. If the memory peak \
was only occasional and you want to try to reclaim memory, please try the MEMORY PURGE command, \
otherwise the only other option is to shutdown and restart the instance.\n\n";

const HIGH_RSS: &str = " * High total RSS: This instance has a memory fragmentation and RSS \
overhead greater than 1.4 (this means that the Resident Set Size of the Redis process is much \
larger than the sum of the logical allocations Redis performed). This problem is usually due \
either to a large peak memory (check if there is a peak memory entry above in the report) or may \
result from a workload that causes the allocator to fragment memory a lot. If the problem is a \
large peak memory, then there is no issue. Otherwise, make sure you are using the Jemalloc \
allocator and not the default libc malloc. Note: The currently used allocator is \"mimalloc\".\n\n";

const HIGH_FRAGMENTATION: &str = " * High allocator fragmentation: This instance has an \
allocator external fragmentation greater than 1.1. This problem is usually due either to a large \
peak memory (check if there is a peak memory entry above in the report) or may result from a \
workload that causes the allocator to fragment memory a lot. You can try enabling 'activedefrag' \
config option.\n\n";

const HIGH_ALLOCATOR_RSS: &str = " * High allocator RSS overhead: This instance has an RSS memory \
overhead is greater than 1.1 (this means that the Resident Set Size of the allocator is much \
larger than the sum what the allocator actually holds). This problem is usually due to a large \
peak memory (check if there is a peak memory entry above in the report), you can try the MEMORY \
PURGE command to reclaim it.\n\n";

/// What MEMORY DOCTOR says.
pub(super) fn report(stats: &MemoryStats) -> String {
    if stats.used < LEAST {
        return EMPTY.to_owned();
    }
    let exceeds = |larger: usize, smaller: usize, bound: f64| {
        ratio(larger, smaller) > bound && larger - smaller > LEAST_WASTE
    };
    let findings: String = [
        (ratio(stats.peak, stats.used) > 1.5, PEAK),
        (exceeds(stats.anonymous, stats.used, 1.4), HIGH_RSS),
        (exceeds(stats.active, stats.used, 1.1), HIGH_FRAGMENTATION),
        (exceeds(stats.anonymous, stats.active, 1.1), HIGH_ALLOCATOR_RSS),
    ]
    .into_iter()
    .filter_map(|(found, text)| found.then_some(text))
    .collect();
    if findings.is_empty() {
        return HEALTHY.to_owned();
    }
    format!(
        "Sam, I detected a few issues in this Redis instance memory implants:\n\n{findings}I'm \
         here to keep you safe, Sam. I want to help you.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::MemoryStats;
    use super::{EMPTY, HEALTHY, HIGH_FRAGMENTATION, HIGH_RSS, LEAST, PEAK, report};

    fn stats(used: usize, peak: usize, resident: usize) -> MemoryStats {
        let (startup, clients, overhead, keys, tables) = (0, 0, 0, 0, Vec::new());
        MemoryStats {
            used,
            peak,
            startup,
            clients,
            overhead,
            keys,
            tables,
            active: used,
            resident,
            anonymous: resident,
        }
    }

    #[test]
    fn a_report_names_what_is_wrong() {
        assert_eq!(report(&stats(LEAST - 1, LEAST, LEAST)), EMPTY);
        assert_eq!(report(&stats(LEAST, LEAST, LEAST)), HEALTHY);
        assert!(report(&stats(LEAST, 2 * LEAST, LEAST)).contains(PEAK));
        let wasteful = report(&stats(LEAST, LEAST, 4 * LEAST));
        assert!(wasteful.contains(HIGH_RSS) && !wasteful.contains(PEAK));
        assert!(!wasteful.contains(HIGH_FRAGMENTATION));
        let sparse = MemoryStats { active: 4 * LEAST, ..stats(LEAST, LEAST, 4 * LEAST) };
        assert!(report(&sparse).contains(HIGH_FRAGMENTATION));
    }
}
