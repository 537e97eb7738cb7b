//! Options: the log.

use std::sync::Arc;

use super::super::choices::{LogFormat, LogLevel, LogTimestampFormat, SyslogFacility};
use super::super::kind::{Kind, TEXT};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;

/// The log.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "loglevel",
        kind: Kind::Choice(LogLevel::WORDS),
        default: "notice",
        doc: "How much the log says.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "logfile",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The log's file; the standard output by default.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "log-format",
        kind: Kind::Choice(LogFormat::WORDS),
        default: "legacy",
        doc: "How a line of the log is written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "log-timestamp-format",
        kind: Kind::Choice(LogTimestampFormat::WORDS),
        default: "legacy",
        doc: "How the log writes the time.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "syslog-enabled",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Sends the log to syslog, too.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "syslog-ident",
        kind: TEXT,
        default: "redis",
        mutability: Mutability::Startup,
        doc: "The name in syslog.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "syslog-facility",
        kind: Kind::Choice(SyslogFacility::WORDS),
        default: "local0",
        mutability: Mutability::Startup,
        doc: "The facility in syslog.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "always-show-logo",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Shows the logo even where nobody looks.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "crash-log-enabled",
        default: "yes",
        doc: "Writes a report when the server crashes.",
        ..LIVE_OPTION
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
