//! The snapshots of full syncs: what form they have, and where they go.
//!
//! Invariant: a snapshot's end is told once, however it ends.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base::io_error_text::strerror;
use config::Config;
use config::settings::RDB_WRITE_VERSION;
use durability::snapshot::{
    FileSink, Snapshot, SnapshotPurpose, SnapshotSink, SnapshotTarget, SyncFormat,
};
use engine::runtime::log::log_warning;
use keyspace::FeatureLevel;
use persist::rdb;
use persist::rdb::file::ByteSink;
use replication::primary::{RdbReader, Requirements, RoundId, SnapshotTarget as Whither};

use super::feed::{FeedReader, SnapshotFeed};
use super::replication_state::SnapshotOrder;
use crate::net::network::Network;

/// A snapshot for replicas, from its start until its bytes are in their links' hands.
pub(super) struct Round {
    snapshot: Arc<Snapshot>,
    body: Body,
    /// When it began, by the monotonic clock.
    pub(super) began_us: i64,
}

/// Where the snapshot goes.
pub(super) enum Body {
    /// To the replicas, as it is made; what each of them is to get, until its link has it.
    Feed(Vec<(u64, FeedReader)>),
    /// To this file.
    File(PathBuf),
}

/// How a snapshot ended: its length, or the error.
pub(super) type SnapshotEnd = Result<u64, String>;

/// Begins a snapshot. `at_cut` runs with the world stopped.
pub(super) fn begin(
    server: &'static Network,
    order: &SnapshotOrder,
    at_cut: impl FnOnce() + Send + 'static,
    done: impl FnOnce(SnapshotEnd) + Send + 'static,
) -> Result<Round, String> {
    let form = form_of(order.requirements, order.target, server.config.get(RDB_WRITE_VERSION));
    let snapshot = Snapshot::new(server, SnapshotPurpose::Sync(form), false, false);
    let (sink, body): (Box<dyn SnapshotSink>, Body) = match order.target {
        Whither::Socket => {
            let feed = SnapshotFeed::new(&*server.storage);
            let readers = order.replicas.iter().map(|replica| (replica.0, feed.reader())).collect();
            (Box::new(FeedSink { server, feed }), Body::Feed(readers))
        }
        Whither::Disk => {
            let path = path_of(order.round);
            (Box::new(FileSink::new(&*server.storage, path.clone())), Body::File(path))
        }
    };
    let target = SnapshotTarget { sink, at_cut: Box::new(move |_| at_cut()) };
    let done = move |end: Result<durability::snapshot::Finished, String>| {
        done(end.map(|finished| finished.bytes));
    };
    let began_us = server.keyspace.clock().monotonic_us();
    snapshot.start(target, Box::new(done))?;
    Ok(Round { snapshot, body, began_us })
}

impl Round {
    /// What the replicas are to get, once.
    pub(super) fn take_readers(&mut self) -> Vec<(u64, FeedReader)> {
        match &mut self.body {
            Body::Feed(readers) => std::mem::take(readers),
            Body::File(_) => Vec::new(),
        }
    }

    /// The file that it was written to.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match &self.body {
            Body::Feed(_) => None,
            Body::File(path) => Some(path),
        }
    }

    /// The snapshot is wanted no more.
    pub(super) fn cancel(&self) {
        self.snapshot.cancel();
    }

    /// Looks whether it keeps writers waiting for nothing.
    pub(super) fn abort_if_stuck(&self) {
        self.snapshot.abort_if_stuck();
    }
}

/// A name that says of which process it is, so that it is removed when that is gone.
/// The working directory may be another one when the file is sent.
fn path_of(round: RoundId) -> PathBuf {
    let name = format!("temp-{}-repl-{round}.rdb", std::process::id());
    std::env::current_dir().unwrap_or_default().join(name)
}

/// What a snapshot has to be like. A replica that meets a value which it does not know ends its
/// process, so it is sent none: what needs a newer version ends the sync here, with a line. A
/// replica that says nothing may be Redis 7.0; `rdb-write-version` says otherwise.
fn form_of(requirements: Requirements, target: Whither, asked: u16) -> SyncFormat {
    let Requirements { keys, functions, compressed, checksum, reader, .. } = requirements;
    let version = match reader {
        // One of ours has all that is stored, whatever is written for others.
        RdbReader::Apus => 0,
        _ if asked != 0 => asked,
        // A file's head says what is in it, and a loader that cannot read that says so.
        RdbReader::Unknown if target == Whither::Disk => 0,
        reader => version_of(reader),
    };
    SyncFormat { keys, functions, compresses: compressed, sums: checksum, version }
}

/// The newest version that a replica reads; 0 where it reads all that we write.
fn version_of(reader: RdbReader) -> u16 {
    match reader {
        RdbReader::Apus => 0,
        RdbReader::Unknown => rdb::REDIS_7_0,
        RdbReader::Redis8 => rdb::REDIS_7_4,
        RdbReader::Valkey8 => rdb::REDIS_7_2,
        RdbReader::Valkey9 => *rdb::VALKEY.start(),
    }
}

/// What a replica can hold: what a snapshot for it may have in it. The stream brings nothing else.
pub(super) fn met_by(reader: RdbReader, config: &Config) -> FeatureLevel {
    match config.get(RDB_WRITE_VERSION) {
        version if version != 0 && reader != RdbReader::Apus => rdb::met_by(version),
        _ => match version_of(reader) {
            0 => FeatureLevel::Own,
            version => rdb::met_by(version),
        },
    }
}

/// Feeds replicas.
struct FeedSink {
    server: &'static Network,
    feed: Arc<SnapshotFeed>,
}

impl ByteSink for FeedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.feed.push(bytes) {
            log_warning!(
                self.server.log,
                "What a slow replica has not taken yet can't be kept in a file, so that the \
                 snapshot waits for replicas: {}",
                strerror(&error)
            );
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn keeps_head(&self) -> bool {
        false
    }

    fn rewrite_head(&mut self, _: &[u8]) -> io::Result<()> {
        unreachable!("the first bytes are gone")
    }
}

impl SnapshotSink for FeedSink {
    fn open(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// What replicas cannot take now waits in the feed, as far as there is room.
    fn wait_for_room(&mut self, bytes: usize, is_wanted: &dyn Fn() -> bool) {
        self.feed.wait_for_room(bytes, is_wanted);
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        self.feed.end();
        Ok(())
    }

    fn fault(&self) -> String {
        "Write error sending DB to replicas".to_owned()
    }
}
