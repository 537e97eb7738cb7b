//! The server's configuration: every directive of Redis, Valkey and KeyDB, one block each.
//!
//! A block ([`ConfigOption`]) says all there is to know about a directive; from the list of blocks
//! ([`ALL`]) come the configuration file's and the command line's parser ([`Startup`]), CONFIG GET,
//! SET and REWRITE, and the compatibility page. The values live in one [`Config`], typed and shared
//! by all threads: numbers in atomics, so that reading one is a relaxed load, texts behind locks.
//!
//! Invariant: a stored value has passed its option's parser, so readers never check it again.

#![forbid(unsafe_code)]

mod arguments;
mod choices;
mod kind;
mod load;
mod networks;
mod option;
mod options;
mod profile;
mod quota_rules;
mod rewrite;
mod save_schedule;
pub mod settings;
mod special;
mod store;
mod value_types;

pub use arguments::without_secrets;
pub use choices::{
    AclPubsubDefault, AofLoadErrors, AppendFsync, AutoRebalance, BusyScope, DebugAccess,
    DisklessLoad, EndpointType, HttpCommands, LogFormat, LogLevel, LogTimestampFormat,
    MaxmemoryPolicy, MemcachedProtocol, OomScoreAdj, PropagationErrorBehavior, RdbVersionCheck,
    SaveBehavior, Supervised, SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
pub use kind::{Kind, PreviousValue, Special, TextCheck, Unit, Value, ValueError, parse_bytes};
pub use load::{ConfigLine, DeferredDirective, LoadError, Rename, Source, Startup, StartupAction};
pub use networks::Networks;
pub use option::{ConfigOption, Mutability, Status};
pub use options::{ALL, GROUPS, OptionGroup};
pub use profile::Profile;
pub use quota_rules::{MEMORY_LIMITED_DATABASES, QuotaLimit, QuotaRule};
pub use rewrite::{Replace, RewriteError, UserLine};
pub use save_schedule::Schedule;
pub use store::{Config, Draft, DraftedOption, Readable, SetError, Setting, Shape};
pub use value_types::{
    BindAddress, KeyEvents, OutputBufferLimit, OutputBufferLimits, SavePoint, ShutdownFlags,
};

#[cfg(test)]
mod tests;
