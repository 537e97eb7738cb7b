//! The supervisor of the process: systemd by its notification socket, upstart by SIGSTOP.
//!
//! Invariant: telling them never keeps the server from serving.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use base::io_error_text::strerror;
use config::settings::SUPERVISED;
use config::{Config, Supervised};
use engine::runtime::log::{Log, log_warning};

/// The supervisor that is told of our state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Supervisor {
    Nobody,
    /// systemd, at this socket.
    Systemd(Box<[u8]>),
    Upstart,
}

impl Supervisor {
    /// The one that the configuration names and the environment shows.
    pub(crate) fn find(config: &Config) -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let systemd = socket.map(|path| Self::Systemd(path.as_bytes().into()));
        let upstart = std::env::var_os("UPSTART_JOB").map(|_| Self::Upstart);
        let found = match config.get(SUPERVISED) {
            Supervised::No => None,
            Supervised::Systemd => systemd,
            Supervised::Upstart => upstart,
            Supervised::Auto => upstart.or(systemd),
        };
        found.unwrap_or(Self::Nobody)
    }

    /// Says that we serve.
    pub(crate) fn ready(&self, log: &Log) {
        match self {
            Self::Nobody => {}
            Self::Systemd(socket) => {
                notify(socket, "STATUS=Ready to accept connections\nREADY=1\n", log);
            }
            Self::Upstart => {
                let pid = rustix::process::getpid();
                // Upstart waits for us to stop and lets us go on.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
            }
        }
    }

    /// Says that we end.
    pub(crate) fn stopping(&self, log: &Log) {
        if let Self::Systemd(socket) = self {
            notify(socket, "STATUS=Shutting down\nSTOPPING=1\n", log);
        }
    }
}

fn notify(socket: &[u8], state: &str, log: &Log) {
    let address = match socket {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        log_warning!(log, "Cannot notify systemd: {}", strerror(&error));
    }
}
