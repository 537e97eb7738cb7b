//! Options: the log.

use std::sync::Arc;

use super::super::choices::{LogFormat, LogLevel, LogTimestampFormat, SyslogFacility};
use super::super::kind::{Kind, TEXT};
use super::super::option::{ACCEPTED, ConfigOption, Mutability, WORKS};
use super::super::settings::settings;

/// The log.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "loglevel",
        kind: Kind::Choice(LogLevel::WORDS),
        default: "notice",
        doc: "How much the log says.",
        ..WORKS
    },
    ConfigOption {
        name: "logfile",
        kind: TEXT,
        access: Mutability::Startup,
        doc: "The log's file; the standard output by default.",
        ..WORKS
    },
    ConfigOption {
        name: "log-format",
        kind: Kind::Choice(LogFormat::WORDS),
        default: "legacy",
        doc: "How a line of the log is written.",
        ..WORKS
    },
    ConfigOption {
        name: "log-timestamp-format",
        kind: Kind::Choice(LogTimestampFormat::WORDS),
        default: "legacy",
        doc: "How the log writes the time.",
        ..WORKS
    },
    ConfigOption {
        name: "syslog-enabled",
        default: "no",
        access: Mutability::Startup,
        doc: "Sends the log to syslog, too.",
        ..WORKS
    },
    ConfigOption {
        name: "syslog-ident",
        kind: TEXT,
        default: "redis",
        access: Mutability::Startup,
        doc: "The name in syslog.",
        ..WORKS
    },
    ConfigOption {
        name: "syslog-facility",
        kind: Kind::Choice(SyslogFacility::WORDS),
        default: "local0",
        access: Mutability::Startup,
        doc: "The facility in syslog.",
        ..WORKS
    },
    ConfigOption {
        name: "always-show-logo",
        default: "no",
        access: Mutability::Startup,
        doc: "Shows the logo even where nobody looks.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "crash-log-enabled",
        default: "yes",
        doc: "Writes a report when the server crashes.",
        ..WORKS
    },
    ConfigOption {
        name: "crash-memcheck-enabled",
        default: "yes",
        doc: "Tests the memory when the server crashes; it is not tested here.",
        ..ACCEPTED
    },
];

settings! {
    CRASH_LOG_ENABLED: bool = "crash-log-enabled";
    LOGFILE: Arc<[u8]> = "logfile";
    LOGLEVEL: LogLevel = "loglevel";
    LOG_FORMAT: LogFormat = "log-format";
    LOG_TIMESTAMP_FORMAT: LogTimestampFormat = "log-timestamp-format";
    SYSLOG_ENABLED: bool = "syslog-enabled";
    SYSLOG_FACILITY: SyslogFacility = "syslog-facility";
    SYSLOG_IDENT: Arc<[u8]> = "syslog-ident";
}
