//! Options: passwords, users and what they may do.

use std::sync::Arc;

use super::super::choices::{AclPubsubDefault, DebugAccess};
use super::super::kind::{Kind, TEXT, integer};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::quota_rules::{OF_DATABASES, OF_USERS, QuotaRule};
use super::super::settings::settings;

/// Passwords, users and what they may do.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "requirepass",
        kind: TEXT,
        sensitive: true,
        doc: "The default user's password.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aclfile",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The file of users.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "acllog-max-len",
        kind: integer(0, i64::MAX),
        default: "128",
        doc: "How many refusals ACL LOG remembers.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "acl-pubsub-default",
        kind: Kind::Choice(AclPubsubDefault::WORDS),
        default: "resetchannels",
        doc: "Which channels a new user may use.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "usage-accounting",
        default: "no",
        doc: "Whether requests, their bytes, those of replies and the time of commands are counted \
              for each user and each database, for QUOTA, INFO quotas and /metrics; a quota does \
              that, too.",
        cost: "Some additions for each request.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "user-quota",
        kind: OF_USERS,
        default: "",
        doc: "What users may take: a name, then requests, bytes-in, bytes-out or \
              cpu-microseconds, then how much, as 1000 a second or 1000/60 in sixty seconds. \
              Several may follow, on one line or on several.",
        cost: "As usage-accounting; a user with a quota sends no requests that share locks.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "db-quota",
        kind: OF_DATABASES,
        default: "",
        doc: "The same for databases by their numbers; `memory`, too, is a limit of theirs, beyond \
              which what takes memory is refused.",
        cost: "As user-quota, for whoever uses the database.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "enable-protected-configs",
        kind: Kind::Choice(DebugAccess::WORDS),
        default: "no",
        mutability: Mutability::Startup,
        doc: "Who may set protected options.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "enable-debug-command",
        kind: Kind::Choice(DebugAccess::WORDS),
        default: "no",
        mutability: Mutability::Startup,
        doc: "Who may call DEBUG.",
        cost: "Whoever may call DEBUG can end the server.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "enable-module-command",
        kind: Kind::Choice(DebugAccess::WORDS),
        default: "no",
        mutability: Mutability::Startup,
        doc: "Who may call MODULE.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hide-user-data-from-log",
        default: "yes",
        doc: "Keeps keys and values out of the log.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hash-seed",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "What seeds the hash of keys; ours is always random.",
        ..ACCEPTED
    },
];

settings! {
    USAGE_ACCOUNTING: bool = "usage-accounting";
    ACLFILE: Arc<[u8]> = "aclfile";
    ACLLOG_MAX_LEN: usize = "acllog-max-len";
    ACL_PUBSUB_DEFAULT: AclPubsubDefault = "acl-pubsub-default";
    DB_QUOTA: Vec<QuotaRule> = "db-quota";
    ENABLE_DEBUG_COMMAND: DebugAccess = "enable-debug-command";
    ENABLE_MODULE_COMMAND: DebugAccess = "enable-module-command";
    ENABLE_PROTECTED_CONFIGS: DebugAccess = "enable-protected-configs";
    HIDE_USER_DATA_FROM_LOG: bool = "hide-user-data-from-log";
    REQUIREPASS: Arc<[u8]> = "requirepass";
    USER_QUOTA: Vec<QuotaRule> = "user-quota";
}
