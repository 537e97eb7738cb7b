//! Log lines for syslog, by its socket.
//!
//! Invariant: a syslog that does not listen loses its lines and holds up nobody.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use config::settings::{SYSLOG_FACILITY, SYSLOG_IDENT};
use config::{Config, LogLevel, SyslogFacility};

const SOCKET: &str = "/dev/log";

/// A connection to the local syslog.
pub(crate) struct Syslog {
    socket: UnixDatagram,
    facility: u8,
    ident: String,
}

impl Syslog {
    /// Connects, if somebody listens.
    pub(crate) fn connect(config: &Config) -> Option<Self> {
        Self::connect_at(Path::new(SOCKET), config)
    }

    fn connect_at(path: &Path, config: &Config) -> Option<Self> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(path).ok()?;
        // A full queue is no reason to wait with a lock in hand.
        socket.set_nonblocking(true).ok()?;
        let facility = number(config.get(SYSLOG_FACILITY));
        let ident = String::from_utf8_lossy(&config.get(SYSLOG_IDENT)).into_owned();
        Some(Self { socket, facility, ident })
    }

    /// Sends a line.
    pub(crate) fn write(&self, level: LogLevel, text: &str) {
        let line = line(self.facility, level, &self.ident, text);
        let _ = self.socket.send(line.as_bytes());
    }
}

/// The form of RFC 3164 without a time: the receiver stamps what comes from its own machine.
fn line(facility: u8, level: LogLevel, ident: &str, text: &str) -> String {
    let severity = match level {
        LogLevel::Debug => 7,
        LogLevel::Verbose => 6,
        LogLevel::Notice => 5,
        LogLevel::Warning | LogLevel::Nothing => 4,
    };
    format!("<{}>{ident}[{}]: {text}", facility * 8 + severity, std::process::id())
}

/// The number of RFC 3164.
fn number(facility: SyslogFacility) -> u8 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use config::{Config, LogLevel};

    use super::{Syslog, line};

    #[test]
    fn lines_reach_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let config = Config::new();
        assert!(Syslog::connect_at(&path, &config).is_none(), "nobody listens");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let syslog = Syslog::connect_at(&path, &config).unwrap();
        syslog.write(LogLevel::Warning, "one");
        syslog.write(LogLevel::Debug, "two\nlines");
        for (level, text) in [(LogLevel::Warning, "one"), (LogLevel::Debug, "two\nlines")] {
            let expected = line(16, level, "redis", text);
            let mut bytes = [0; 100];
            let length = receiver.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..length], *expected.as_bytes());
        }
        // A full queue loses lines and holds up nobody.
        for _ in 0..100_000 {
            syslog.write(LogLevel::Notice, "more than the queue holds");
        }
        drop(receiver);
        syslog.write(LogLevel::Notice, "to nobody");
    }

    #[test]
    fn facility_and_level_make_the_priority() {
        let pid = std::process::id();
        assert_eq!(line(16, LogLevel::Notice, "redis", "hi"), format!("<133>redis[{pid}]: hi"));
        assert_eq!(line(1, LogLevel::Warning, "x", "y"), format!("<12>x[{pid}]: y"));
    }
}
