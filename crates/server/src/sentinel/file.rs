//! The configuration file, which is a Sentinel's memory.
//!
//! Invariant: the file is replaced as a whole, and is on disk when that is over.

use std::fs;
use std::io;
use std::path::Path;

use base::io_error_text::strerror;
use config::Config;
use engine::runtime::replace_file;
use rustix::fs::{Access, access};
use sentinel::Sentinel;

use crate::control::users;
use crate::net::network::Network;

/// The one option that a Sentinel changes while it runs.
const CHANGED: &[u8] = b"loglevel";

/// Whether there is a file that can be written.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    let Some(path) = config.path() else {
        return Err("Sentinel needs config file on disk to save state. Exiting...".to_owned());
    };
    access(path, Access::WRITE_OK).map_err(|why| {
        let (path, why) = (path.display(), strerror(&why.into()));
        format!("Sentinel config file {path} is not writable: {why}. Exiting...")
    })
}

/// The text of the file.
pub(super) fn read(server: &Network) -> io::Result<Vec<u8>> {
    fs::read(path(server))
}

/// Brings the file up to date, and waits until it is on disk.
pub(super) fn write(server: &Network, sentinel: &Sentinel) -> io::Result<()> {
    let old = match read(server) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let text = sentinel.rewritten(&old);
    let text = server.config.rewritten_for(CHANGED, &text, users::lines(server).as_deref());
    replace_file::replace_atomically(path(server), &text)
}

fn path(server: &Network) -> &Path {
    server.config.path().expect("the file was checked at the start")
}
