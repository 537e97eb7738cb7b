//! The file `nodes.conf`.
//!
//! Invariant: the file is replaced as a whole and is on disk when that is over; two processes never
//! have it, which a lock on a file beside it sees to: the file itself is another one each time.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::io_error_text::strerror;
use cluster::NodesFile;
use config::Config;
use config::settings::{CLUSTER_CONFIG_FILE, TLS_CLUSTER};
use engine::runtime::replace_file;
use rustix::fs::{FlockOperation, flock};

/// The file of this node, which no other process has.
#[derive(Debug)]
pub(super) struct NodesConfFile {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl NodesConfFile {
    /// Locks the file, and reads it if there is one with something in it.
    pub(super) fn open(config: &Config) -> Result<(NodesConfFile, Option<NodesFile>), String> {
        let name = config.get(CLUSTER_CONFIG_FILE);
        let path = Path::new(OsStr::from_bytes(&name)).to_owned();
        let shown = path.display();
        let mut beside = path.clone().into_os_string();
        beside.push(".lock");
        let lock = File::options().create(true).append(true).open(&beside);
        let lock = lock.map_err(|why| {
            format!("Can't open {} in order to acquire a lock: {}", shown, strerror(&why))
        })?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(format!(
                "Sorry, the cluster configuration file {shown} is already used by a different \
                 Redis Cluster node. Please make sure that different nodes use different cluster \
                 configuration files."
            ));
        }
        let read = match fs::read(&path) {
            Ok(text) if text.is_empty() => None,
            Ok(text) => {
                let read = NodesFile::parse(&text, config.get(TLS_CLUSTER));
                Some(read.map_err(|why| {
                    format!(
                        "Unrecoverable error: corrupted cluster config file \"{shown}\": {why}."
                    )
                })?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(format!(
                    "Loading the cluster node config from {shown}: {}",
                    strerror(&error)
                ));
            }
        };
        Ok((NodesConfFile { path, _lock: lock }, read))
    }

    /// Puts this text in the place of the file.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        replace_file::replace_atomically(&self.path, text.as_bytes())
    }
}
