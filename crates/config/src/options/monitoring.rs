//! Options: what the server tells of its work.

use std::sync::Arc;

use super::super::choices::{BusyScope, HttpCommands};
use super::super::kind::{Kind, TEXT, integer};
use super::super::option::{ConfigOption, LIVE_OPTION, Mutability, NOT_YET};
use super::super::settings::settings;
use super::super::special;
use super::super::value_types::{BindAddress, KeyEvents};

/// What the server tells of its work.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "http-port",
        kind: integer(0, 65_535),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The port of HTTP: the dashboard at /, its data at /api, /metrics for Prometheus, \
              /healthz and /readyz; 0 listens on none.",
        cost: "One thread; each scrape reads what INFO reads, off the workers.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "http-tls-port",
        kind: integer(0, 65_535),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The same over TLS, with the certificates of tls-cert-file and what belongs to it; 0 \
              listens on none.",
        cost: "Handshakes are on the thread of HTTP.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "http-bind",
        kind: special::BIND,
        default: "127.0.0.1 -::1",
        mutability: Mutability::Startup,
        doc: "The addresses on which http-port and http-tls-port are opened.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "http-commands",
        kind: Kind::Choice(HttpCommands::WORDS),
        default: "read",
        doc: "Which commands the console of the dashboard runs, beside the rights of the user who \
              asks: none, those that change nothing, or all.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "http-metrics-on-port",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Whether `GET /metrics` of HTTP is answered on port and tls-port, too, to those \
              who may run INFO, if it is the first that a connection says.",
        cost: "The thread of HTTP.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-endpoint",
        kind: TEXT,
        default: "",
        doc: "The URL of an OpenTelemetry collector, as http://127.0.0.1:4318, that is sent the \
              metrics of /metrics by OTLP over HTTP; an empty one exports nothing. https trusts \
              the authorities of tls-ca-cert-file and tls-ca-cert-dir, and asks for the name of \
              the host.",
        cost: "One thread, which reads what INFO reads at each otlp-interval.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-headers",
        kind: TEXT,
        default: "",
        sensitive: true,
        doc: "Headers of each export, as name=value with commas between them; %2C in a value is a \
              comma.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-interval",
        kind: integer(1, 3600),
        default: "60",
        doc: "Seconds from one export of the metrics to the next.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-traces",
        default: "no",
        doc: "Whether otlp-endpoint is sent spans, too: of the commands that SLOWLOG takes, of \
              snapshots, rewrites of the append-only file, full syncs and FAILOVERs.",
        cost: "An entry of a bounded list for each command that is slow.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-arguments",
        default: "no",
        doc: "Whether what is exported holds data: the arguments of slow commands, as SLOWLOG has \
              them, and the names of keys in the metrics of hot and big ones.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-service-name",
        kind: TEXT,
        default: "apus",
        doc: "service.name of what is exported.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "otlp-service-instance-id",
        kind: TEXT,
        default: "",
        doc: "service.instance.id of what is exported; if empty, run_id of INFO, which is another \
              one after a restart.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hot-keys-sample",
        kind: integer(0, 65_536),
        default: "512",
        doc: "One of so many requests is looked at, by chance, for KEYSTATS HOT and the requests \
              of prefixes; 0 looks at none.",
        cost: "A few instructions a command; a sample is some thousand.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "big-keys",
        default: "yes",
        doc: "Whether keys are noted that grow to be among the biggest, for KEYSTATS BIG; those \
              with names beyond 1 KB are not.",
        cost: "A comparison for each value that is made anew or grows.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "key-prefixes",
        kind: TEXT,
        default: "",
        doc: "The prefixes that KEYSTATS PREFIXES counts keys by, with blanks between them; if \
              there are none, what stands up to the first colon is one.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "key-prefixes-interval",
        kind: integer(0, 31_536_000),
        default: "0",
        doc: "Seconds from one count of all keys by their prefixes to the next, for /metrics and \
              the dashboard; 0 counts only when KEYSTATS PREFIXES asks.",
        cost: "A look at each key, on a background thread.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "prefix-index",
        kind: TEXT,
        default: "",
        mutability: Mutability::Startup,
        doc: "The prefixes, with blanks between them, whose keys are indexed: SCAN and RM with a \
              MATCH that begins so, and DELPREFIX, look at no other key.",
        cost: "About 16 bytes a key of each prefix, and 250 for each of the 16,384 partitions \
              that has one; a comparison for each key that comes or goes.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "latency-baseline-window",
        kind: integer(0, 86_400),
        default: "10",
        doc: "Seconds after which each command's latency is compared with the best that it has \
              shown; one that strays is told in the log, by LATENCY and in /metrics. 0 compares \
              none.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "slowlog-log-slower-than",
        aliases: &["commandlog-execution-slower-than"],
        kind: integer(-1, i64::MAX),
        default: "10000",
        doc: "Microseconds from which a command is slow; below 0 none is.",
        cost: "0 notes every command, and copies its arguments.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "slowlog-max-len",
        aliases: &["commandlog-slow-execution-max-len"],
        kind: integer(0, i64::MAX),
        default: "128",
        doc: "How many slow commands are remembered.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "slowlog-entry-max-argc",
        kind: integer(2, i32::MAX as i64),
        default: "32",
        doc: "How many arguments of a slow command are remembered.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "slowlog-entry-max-string-len",
        kind: integer(1, i32::MAX as i64),
        default: "128",
        doc: "How many bytes of an argument of a slow command are remembered.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "commandlog-request-larger-than",
        kind: integer(-1, i64::MAX),
        default: "1048576",
        doc: "Bytes from which a request is large; below 0 none is.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "commandlog-large-request-max-len",
        kind: integer(0, i64::MAX),
        default: "128",
        doc: "How many large requests are remembered.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "commandlog-reply-larger-than",
        kind: integer(-1, i64::MAX),
        default: "1048576",
        doc: "Bytes from which a reply is large; below 0 none is.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "commandlog-large-reply-max-len",
        kind: integer(0, i64::MAX),
        default: "128",
        doc: "How many large replies are remembered.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "latency-monitor-threshold",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Milliseconds from which an event is remembered by LATENCY; 0 remembers none.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "latency-tracking",
        default: "yes",
        doc: "Keeps a histogram of each command's latency.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "latency-tracking-info-percentiles",
        kind: special::PERCENTILES,
        default: "50 99 99.9",
        doc: "The percentiles that INFO shows.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "notify-keyspace-events",
        kind: special::KEY_EVENTS,
        doc: "Which changes of keys are published.",
        cost: "Each change of a class that is on publishes one message or two.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "busy-reply-threshold",
        aliases: &["lua-time-limit"],
        kind: integer(0, i64::MAX),
        default: "5000",
        doc: "Milliseconds after which a command that holds everything up makes others answer \
              BUSY.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "busy-scope",
        kind: Kind::Choice(BusyScope::WORDS),
        default: "keys",
        doc: "Whom a script that has run for `busy-reply-threshold` makes answer BUSY: those who \
              want a key that it holds, or the whole server, as in Redis.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "lua-enable-deprecated-api",
        aliases: &["lua-enable-insecure-api"],
        default: "no",
        hidden: true,
        doc: "Gives scripts functions that are no longer safe.",
        ..NOT_YET
    },
];

settings! {
    BIG_KEYS: bool = "big-keys";
    BUSY_REPLY_THRESHOLD: u64 = "busy-reply-threshold";
    BUSY_SCOPE: BusyScope = "busy-scope";
    COMMANDLOG_LARGE_REPLY_MAX_LEN: usize = "commandlog-large-reply-max-len";
    COMMANDLOG_LARGE_REQUEST_MAX_LEN: usize = "commandlog-large-request-max-len";
    COMMANDLOG_REPLY_LARGER_THAN: i64 = "commandlog-reply-larger-than";
    COMMANDLOG_REQUEST_LARGER_THAN: i64 = "commandlog-request-larger-than";
    HOT_KEYS_SAMPLE: u32 = "hot-keys-sample";
    HTTP_BIND: Vec<BindAddress> = "http-bind";
    HTTP_COMMANDS: HttpCommands = "http-commands";
    HTTP_METRICS_ON_PORT: bool = "http-metrics-on-port";
    HTTP_PORT: u16 = "http-port";
    HTTP_TLS_PORT: u16 = "http-tls-port";
    KEY_PREFIXES: Arc<[u8]> = "key-prefixes";
    KEY_PREFIXES_INTERVAL: u32 = "key-prefixes-interval";
    LATENCY_BASELINE_WINDOW: u32 = "latency-baseline-window";
    LATENCY_MONITOR_THRESHOLD: u64 = "latency-monitor-threshold";
    LATENCY_TRACKING: bool = "latency-tracking";
    LATENCY_TRACKING_INFO_PERCENTILES: Vec<f64> = "latency-tracking-info-percentiles";
    NOTIFY_KEYSPACE_EVENTS: KeyEvents = "notify-keyspace-events";
    OTLP_ARGUMENTS: bool = "otlp-arguments";
    OTLP_ENDPOINT: Arc<[u8]> = "otlp-endpoint";
    OTLP_HEADERS: Arc<[u8]> = "otlp-headers";
    OTLP_INTERVAL: u32 = "otlp-interval";
    OTLP_SERVICE_INSTANCE_ID: Arc<[u8]> = "otlp-service-instance-id";
    OTLP_SERVICE_NAME: Arc<[u8]> = "otlp-service-name";
    OTLP_TRACES: bool = "otlp-traces";
    PREFIX_INDEX: Arc<[u8]> = "prefix-index";
    SLOWLOG_ENTRY_MAX_ARGC: usize = "slowlog-entry-max-argc";
    SLOWLOG_ENTRY_MAX_STRING_LEN: usize = "slowlog-entry-max-string-len";
    SLOWLOG_LOG_SLOWER_THAN: i64 = "slowlog-log-slower-than";
    SLOWLOG_MAX_LEN: usize = "slowlog-max-len";
}
