//! Neighbours that disturb: threads of this process that take processors or the disk, wherever the
//! system lets this process run. Invariant: they end with the value, and with the process at the
//! latest; what they take is told, so that it is never counted as the generator's.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a hog takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoiseKind {
    /// A thread per processor that computes.
    Cpu,
    /// A thread that writes and syncs a file of the folder for temporary files.
    Disk,
}

/// Blocks of this size, synced after `SYNC_BLOCKS`, over a file of `FILE_BLOCKS`.
const BLOCK: usize = 1 << 20;
const SYNC_BLOCKS: u32 = 8;
const FILE_BLOCKS: u32 = 128;

/// Hogs at work.
pub(super) struct Noise {
    ends: Arc<AtomicBool>,
    hogs: Vec<(Arc<AtomicU64>, JoinHandle<()>)>,
    file: Option<PathBuf>,
}

impl NoiseKind {
    /// The kind of this name.
    pub(super) fn of(name: &str) -> Option<NoiseKind> {
        match name {
            "cpu" => Some(NoiseKind::Cpu),
            "disk" => Some(NoiseKind::Disk),
            _ => None,
        }
    }
}

impl Noise {
    /// Sets hogs of these kinds to work.
    pub(super) fn start(kinds: &[NoiseKind]) -> Result<Noise, String> {
        let mut noise = Noise { ends: Arc::default(), hogs: Vec::new(), file: None };
        if kinds.contains(&NoiseKind::Cpu) {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                noise.hog("noise-cpu", compute)?;
            }
        }
        if kinds.contains(&NoiseKind::Disk) {
            let path = std::env::temp_dir().join(format!("bench-noise-{}", std::process::id()));
            let file = File::create(&path);
            let mut file = file.map_err(|error| format!("{}: {error}", path.display()))?;
            noise.file = Some(path);
            let (block, mut written) = (vec![0x5a; BLOCK], 0);
            noise.hog("noise-disk", move || {
                // A full disk is no reason to end: asking for more of it disturbs as well.
                let _ = file.write_all(&block);
                written += 1;
                if written % SYNC_BLOCKS == 0 {
                    let _ = file.sync_data();
                }
                if written % FILE_BLOCKS == 0 {
                    let _ = file.rewind();
                }
            })?;
        }
        Ok(noise)
    }

    /// Processor time that all hogs have taken.
    pub(super) fn used(&self) -> Duration {
        let nanos = self.hogs.iter().map(|(used, _)| used.load(Ordering::Relaxed)).sum();
        Duration::from_nanos(nanos)
    }

    fn hog(&mut self, name: &str, mut work: impl FnMut() + Send + 'static) -> Result<(), String> {
        let used = Arc::new(AtomicU64::new(0));
        let (ends, tells) = (Arc::clone(&self.ends), Arc::clone(&used));
        let body = move || {
            while !ends.load(Ordering::Relaxed) {
                work();
                let time = clock_gettime(ClockId::ThreadCPUTime);
                let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                tells.store(nanos, Ordering::Relaxed);
            }
        };
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.hogs.push((used, thread));
        Ok(())
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for (_, thread) in self.hogs.drain(..) {
            // A hog that panicked has ended as well.
            let _ = thread.join();
        }
        if let Some(path) = &self.file {
            let _ = fs::remove_file(path);
        }
    }
}

fn compute() {
    let mut number = 1_u64;
    for _ in 0..100_000 {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Noise, NoiseKind};

    #[test]
    fn hogs_work_until_they_are_dropped_and_leave_nothing() {
        let noise = Noise::start(&[NoiseKind::Cpu, NoiseKind::Disk]).expect("threads and a file");
        let file = noise.file.clone().expect("the disk is written");
        while noise.used() < Duration::from_millis(20)
            || file.metadata().is_ok_and(|file| file.len() == 0)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(noise);
        assert!(!file.exists());
        assert_eq!(NoiseKind::of("network"), None);
    }
}
