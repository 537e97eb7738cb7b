//! Options: the process and how it lives and ends.

use std::sync::Arc;

use super::super::choices::{OomScoreAdj, Supervised};
use super::super::kind::{Kind, TEXT, integer};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;
use super::super::special;
use super::super::value_types::ShutdownFlags;

/// The process and how it lives and ends.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "daemonize",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Runs in the background.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "pidfile",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The file that says the process id.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "supervised",
        kind: Kind::Choice(Supervised::WORDS),
        default: "no",
        mutability: Mutability::Startup,
        doc: "Who watches over the process.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "run-as-user",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The user whose rights the process has instead of those of root. Of root's it keeps \
              the one to ports below 1024, where one is configured.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "sandbox",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Confines the process to the files and folders that its configuration names, and to \
              the system calls that it needs, as far as the kernel can. `dir` stays as it is.",
        cost: "Some nanoseconds for each system call.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "databases",
        kind: integer(1, i32::MAX as i64),
        default: "16",
        mutability: Mutability::Startup,
        doc: "How many databases there are.",
        cost: "An empty one costs nothing; one that is used costs what it holds.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "set-proc-title",
        default: "yes",
        mutability: Mutability::Startup,
        doc: "Shows what the server does in its process title.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "proc-title-template",
        kind: special::TITLE_TEMPLATE,
        default: "{title} {listen-addr} {server-mode}",
        doc: "What the process title says.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "reported-redis-version",
        kind: special::VERSION,
        default: "8.2.3",
        mutability: Mutability::Startup,
        doc: "The version of Redis that clients are told, by which they know what is there.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "oom-score-adj",
        kind: Kind::Choice(OomScoreAdj::WORDS),
        default: "no",
        doc: "Whether the kernel's out-of-memory scores are set.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "oom-score-adj-values",
        kind: special::OOM_SCORES,
        default: "0 200 800",
        doc: "The out-of-memory scores of a primary, of a replica and of a child; there are no \
              children here.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "shutdown-timeout",
        kind: integer(0, i32::MAX as i64),
        default: "10",
        doc: "Seconds that a shutdown waits for replicas.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "shutdown-on-sigint",
        kind: special::SHUTDOWN,
        default: "default",
        doc: "How an interrupt shuts the server down.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "shutdown-on-sigterm",
        kind: special::SHUTDOWN,
        default: "default",
        doc: "How a SIGTERM shuts the server down.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "ignore-warnings",
        kind: TEXT,
        doc: "Warnings of the system's state that do not stop the start.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "extended-redis-compatibility",
        default: "no",
        doc: "Makes Valkey say it is Redis; here hello-server-name and INFO do.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "locale-collate",
        kind: special::LOCALE,
        doc: "The locale that SORT compares text by; text is compared by its bytes here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "watchdog-period",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        hidden: true,
        doc: "Milliseconds after which a stuck event loop reports itself.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "debug-context",
        kind: TEXT,
        hidden: true,
        doc: "A text for crash reports.",
        ..LIVE_OPTION
    },
];

settings! {
    DAEMONIZE: bool = "daemonize";
    DATABASES: u32 = "databases";
    DEBUG_CONTEXT: Arc<[u8]> = "debug-context";
    OOM_SCORE_ADJ: OomScoreAdj = "oom-score-adj";
    OOM_SCORE_ADJ_VALUES: [i64; 3] = "oom-score-adj-values";
    PIDFILE: Arc<[u8]> = "pidfile";
    PROC_TITLE_TEMPLATE: Arc<[u8]> = "proc-title-template";
    REPORTED_REDIS_VERSION: Arc<[u8]> = "reported-redis-version";
    RUN_AS_USER: Arc<[u8]> = "run-as-user";
    SANDBOX: bool = "sandbox";
    SET_PROC_TITLE: bool = "set-proc-title";
    SHUTDOWN_ON_SIGINT: ShutdownFlags = "shutdown-on-sigint";
    SHUTDOWN_ON_SIGTERM: ShutdownFlags = "shutdown-on-sigterm";
    SHUTDOWN_TIMEOUT: u64 = "shutdown-timeout";
    SUPERVISED: Supervised = "supervised";
    WATCHDOG_PERIOD: u32 = "watchdog-period";
}
