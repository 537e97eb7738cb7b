//! What a process is, and what its directives are unless a file says otherwise.
//!
//! Invariant: a Sentinel keeps and copies no data and serves no memcached, whatever its file says,
//! which may have been a server's; its clients send little, so less than a server's is allowed to
//! them.

/// What a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// A server of data.
    #[default]
    Server,
    /// A Sentinel, which watches over servers.
    Sentinel,
}

/// A directive and its value, as a file would say it.
type Line = (&'static str, &'static str);

impl Profile {
    /// What holds unless the configuration says otherwise, where that is not the directive's own
    /// default.
    pub(super) fn usual(self) -> &'static [Line] {
        match self {
            Profile::Server => &[],
            Profile::Sentinel => &[
                ("port", "26379"),
                ("protected-mode", "no"),
                ("worker-threads", "1"),
                ("proto-max-bulk-len", "1mb"),
                ("client-query-buffer-limit", "4mb"),
                ("maxmemory-clients", "64mb"),
            ],
        }
    }

    /// What holds whatever the configuration says.
    pub(super) fn fixed(self) -> &'static [Line] {
        match self {
            Profile::Server => &[],
            Profile::Sentinel => &[
                ("save", ""),
                ("replicaof", "no one"),
                ("appendonly", "no"),
                ("memcached-port", "0"),
                ("memcached-udp-port", "0"),
                ("memcached-unixsocket", ""),
            ],
        }
    }
}
