//! Loading: what is on disk becomes the data set, before anyone may ask for it.
//!
//! While it goes on, commands that need data are refused, and all others answered; INFO and the log
//! tell how far it has come.
//!
//! Invariant: a data set that could not be loaded whole is never served, nor written over what it
//! was loaded from: the process ends.

mod insert;
pub(crate) mod snapshot;

use std::ffi::OsStr;
use std::future::poll_fn;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::Poll;

use keyspace::Refusal;
use persist::storage::{File, How};
use tokio::sync::oneshot;

pub(crate) use insert::{Inside, Twice};

use crate::aof;
use crate::config::settings::{APPENDONLY, DBFILENAME, PRELOAD_FILE};
use crate::log::log_notice;
use crate::reception::plain;
use crate::scripts::STACK_BYTES;
use crate::server::Server;

/// What a client gets that comes too early.
pub(crate) const LOADING: Refusal =
    Refusal::error("LOADING Redis is loading the dataset in memory");

/// Between two lines in the log, in microseconds.
const REPORT_US: i64 = 5_000_000;

/// The most threads that load side by side.
const THREADS_MAX: usize = 8;

/// How many threads load side by side, beside the one that reads.
pub(crate) fn threads(server: &Server) -> usize {
    server.cores.count().clamp(1, THREADS_MAX)
}

/// Whether data are loaded, and how far that is.
#[derive(Default)]
pub(crate) struct Loading {
    is_on: AtomicBool,
    /// Whether that is the start's: then it goes on beside commands, without the world.
    is_of_start: AtomicBool,
    /// In Unix milliseconds.
    started: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    /// Memory that the data took where the file was written.
    used_memory: AtomicU64,
    /// Keys of the last snapshot that were loaded, and that were over by then.
    keys: AtomicU64,
    expired: AtomicU64,
    /// When the log was told last, on the monotonic clock.
    reported_us: AtomicI64,
}

/// How far loading is.
pub(crate) struct Progress {
    pub(crate) started: i64,
    pub(crate) total_bytes: u64,
    pub(crate) used_memory: u64,
    pub(crate) loaded_bytes: u64,
    pub(crate) percent: f64,
    pub(crate) seconds_left: u64,
}

impl Loading {
    /// Whether data are loaded now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether the server is still loading what it starts with. No command may put other data in
    /// their place, nor write what is there over a file: it is a part.
    pub(crate) fn is_of_start(&self) -> bool {
        self.is_of_start.load(Ordering::Acquire)
    }

    /// Keys of the last snapshot that were loaded, and how many were not as their time was over.
    pub(crate) fn last(&self) -> (u64, u64) {
        (self.keys.load(Ordering::Relaxed), self.expired.load(Ordering::Relaxed))
    }

    /// How far it is, while it goes on.
    pub(crate) fn progress(&self, server: &Server) -> Option<Progress> {
        if !self.is_on() {
            return None;
        }
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (total_bytes, loaded_bytes) = (load(&self.total_bytes), load(&self.loaded_bytes));
        let started = self.started.load(Ordering::Relaxed);
        let elapsed = server.keyspace.clock().now_ms().abs_diff(started);
        let left = total_bytes.saturating_sub(loaded_bytes);
        let millis_left = u128::from(elapsed) * u128::from(left) / u128::from(loaded_bytes.max(1));
        Some(Progress {
            started: started / 1000,
            total_bytes,
            used_memory: load(&self.used_memory),
            loaded_bytes,
            percent: loaded_bytes as f64 * 100.0 / total_bytes.max(1) as f64,
            seconds_left: u64::try_from(millis_left / 1000).unwrap_or(u64::MAX),
        })
    }

    fn begin_start(&self, server: &Server, total_bytes: u64) {
        self.is_of_start.store(true, Ordering::Release);
        self.begin(server, total_bytes);
    }

    /// Commands that need data are refused from now on.
    pub(crate) fn begin(&self, server: &Server, total_bytes: u64) {
        let clock = server.keyspace.clock();
        self.started.store(clock.now_ms(), Ordering::Relaxed);
        self.reported_us.store(clock.monotonic_us(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
    }

    /// So many bytes are loaded.
    pub(crate) fn advance_to(&self, server: &Server, offset: u64) {
        self.loaded_bytes.store(offset, Ordering::Relaxed);
        let now_us = server.keyspace.clock().monotonic_us();
        if now_us - self.reported_us.load(Ordering::Relaxed) < REPORT_US {
            return;
        }
        self.reported_us.store(now_us, Ordering::Relaxed);
        if let Some(Progress { percent, seconds_left, .. }) = self.progress(server) {
            log_notice!(server.log, "Loading: {percent:.1}%, about {seconds_left} seconds left");
        }
    }

    /// All commands are served from now on.
    pub(crate) fn end(&self) {
        self.is_of_start.store(false, Ordering::Release);
        self.is_on.store(false, Ordering::Release);
    }
}

/// What is there to be loaded.
pub(crate) enum Found {
    /// A snapshot, with its name.
    Snapshot(Box<dyn File>, String),
    /// An append-only file.
    Log(aof::Stock),
    /// One that is not our own.
    ForeignLog(aof::Stock),
}

/// Looks for what is to be loaded at the start; if there is anything, commands are refused until
/// [`run`] is done with it.
pub(crate) fn find(server: &'static Server) -> Result<Option<Found>, String> {
    let preload = server.config.get(PRELOAD_FILE);
    if let Some((kind, path)) = preload.split_at_checked(PRELOAD_KIND_LEN) {
        return preloaded(server, kind, Path::new(OsStr::from_bytes(path))).map(Some);
    }
    if server.config.get(APPENDONLY) {
        let stock = aof::find(server)?;
        server.loading.begin_start(server, stock.total_bytes());
        return Ok(Some(Found::Log(stock)));
    }
    let path = PathBuf::from(OsStr::from_bytes(&server.config.get(DBFILENAME)));
    let name = path.display().to_string();
    let failed = |error: io::Error| format!("Can't read {name}: {}. Exiting.", plain(&error));
    match server.storage.open(&path, How::Read) {
        Ok(file) => {
            server.loading.begin_start(server, file.length().map_err(failed)?);
            Ok(Some(Found::Snapshot(file, name)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The length of `rdb:` and `aof:`.
const PRELOAD_KIND_LEN: usize = 4;

/// What `preload-file` names, which must be there.
fn preloaded(server: &'static Server, kind: &[u8], path: &Path) -> Result<Found, String> {
    if kind == b"aof:" {
        let stock = aof::find_foreign(server, path)?;
        server.loading.begin_start(server, stock.total_bytes());
        return Ok(Found::ForeignLog(stock));
    }
    let name = path.display().to_string();
    let opened = server.storage.open(path, How::Read).and_then(|file| Ok((file.length()?, file)));
    let failed = |error: io::Error| format!("Can't read {name}: {}. Exiting.", plain(&error));
    let (length, file) = opened.map_err(failed)?;
    server.loading.begin_start(server, length);
    Ok(Found::Snapshot(file, name))
}

/// Loads what was found, on a thread of its own; the error is for the operator. Ends early when the
/// server is to end, and then goes on refusing commands.
pub(crate) async fn run(server: &'static Server, found: Found) -> Result<(), String> {
    let (sender, mut receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("loader".into()).stack_size(STACK_BYTES);
    let thread = thread.spawn(move || {
        // Who waited may have given up.
        let _ = sender.send(load(server, found));
    });
    let begun = thread.map_err(|error| format!("Cannot start the loader: {}", plain(&error)));
    begun.inspect_err(|line| server.log.write_last(line))?;
    let mut asked = pin!(server.shutdown.asked());
    let loaded = poll_fn(|context| match Pin::new(&mut receiver).poll(context) {
        Poll::Ready(loaded) => Poll::Ready(Some(loaded)),
        Poll::Pending => asked.as_mut().poll(context).map(|()| None),
    });
    if let Some(loaded) = loaded.await {
        loaded.unwrap_or_else(|_| Err("The loader panicked. Exiting.".to_owned()))?;
    }
    Ok(())
}

fn load(server: &'static Server, found: Found) -> Result<(), String> {
    let loaded = match found {
        Found::Snapshot(mut file, name) => load_snapshot(server, &mut *file, &name),
        Found::Log(stock) => stock.load(server),
        Found::ForeignLog(stock) => stock.read(server),
    };
    loaded.inspect_err(|line| server.log.write_last(line))?;
    if server.shutdown.is_asked() {
        return Ok(());
    }
    // Nobody turns the log on or off between the end and the look.
    let _turn = server.take_config_turn();
    // Where something else was loaded than our log, it begins with that; and somebody may have
    // changed his mind meanwhile. Who sees that loading is over sees that, too.
    aof::follow_config(server).inspect_err(|line| server.log.write_last(line))?;
    server.loading.end();
    if server.aof.phase() == aof::Phase::Starting {
        aof::begin_rewrite(server);
    }
    Ok(())
}

fn load_snapshot(server: &'static Server, file: &mut dyn File, name: &str) -> Result<(), String> {
    let started = server.keyspace.clock().monotonic_us();
    let loaded = snapshot::load(server, file, Twice::Refused);
    loaded.map_err(|error| format!("Fatal error loading the DB from {name}, {error}. Exiting."))?;
    let seconds = (server.keyspace.clock().monotonic_us() - started) as f64 / 1e6;
    log_notice!(server.log, "DB loaded from disk: {seconds:.3} seconds");
    server.saves.note_loaded(server);
    Ok(())
}
