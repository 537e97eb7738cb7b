//! All flags: names, what they set, what `--help` says of them. Invariant: a flag is one row.

use std::time::Duration;

use super::draft::Draft;
use super::encryption::ENCRYPTION;
use super::{DataSize, Family, Protocol, Request, Verify, texts};

/// One flag.
pub(super) struct Flag {
    pub(super) short: Option<char>,
    pub(super) long: &'static str,
    pub(super) setter: Setter,
    /// Lines of `--help`.
    pub(super) help: &'static str,
}

/// What giving a flag does. A value's setter is told the flag's name, for its error.
pub(super) enum Setter {
    /// The flag takes a value, called so in `--help`.
    Value(&'static str, fn(&mut Draft, &str, &str) -> Result<(), String>),
    /// The flag takes no value.
    Switch(fn(&mut Draft)),
    /// The flag asks for this instead of a run.
    Ask(fn() -> Request),
}

/// Flags under a heading of `--help`.
pub(super) struct FlagGroup {
    pub(super) title: &'static str,
    pub(super) flags: &'static [Flag],
}

/// All of them, in the order of `--help`.
pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    FLAG_GROUPS.iter().flat_map(|group| group.flags)
}

/// In the order of `--help`.
pub(super) static FLAG_GROUPS: &[FlagGroup] = &[
    FlagGroup { title: "Connection and General Options", flags: CONNECTION },
    FlagGroup { title: "TLS Options", flags: ENCRYPTION },
    FlagGroup { title: "Results Output Options", flags: OUTPUT },
    FlagGroup { title: "Test Options", flags: TEST },
    FlagGroup { title: "Arbitrary Command Options", flags: COMMAND },
    FlagGroup { title: "Object Options", flags: OBJECT },
    FlagGroup { title: "Data Verification Options", flags: VERIFICATION },
    FlagGroup { title: "Key Options", flags: KEY },
    FlagGroup { title: "WAIT Options", flags: WAIT },
];

/// What memtier_benchmark has and this does not.
pub(super) static UNSUPPORTED: &[&str] = &[
    "transaction",
    "realtime-latencies",
    "command-stats-breakdown",
    "command-miss-tracking",
    "miss-rate-threshold",
    "graphite-port",
    "prometheus-port",
    "prometheus-bind-addr",
    "prometheus-run-label",
    "prometheus-latency-buckets",
    "reconnect-on-error",
    "max-reconnect-attempts",
    "reconnect-backoff-factor",
    "retry-on-error",
    "max-retries",
    "retry-backoff-ms",
    "retry-backoff-factor",
    "retry-on",
    "max-retry-queue",
    "failed-keys-file",
    "connection-timeout",
    "connection-stage-timeout",
    "thread-conn-start-min-jitter-micros",
    "thread-conn-start-max-jitter-micros",
    "monitor-input",
    "monitor-pattern",
    "scan-incremental-iteration",
    "scan-incremental-max-iterations",
    "command-is-read",
    "read-preference",
    "read-server",
    "replica-clients",
    "replicas-per-shard",
    "read-preference-fallback",
    "data-import",
    "generate-keys",
];

type SetValue = fn(&mut Draft, &str, &str) -> Result<(), String>;

pub(super) const fn value(
    short: Option<char>,
    long: &'static str,
    operand: &'static str,
    help: &'static str,
    set: SetValue,
) -> Flag {
    Flag { short, long, setter: Setter::Value(operand, set), help }
}

pub(super) const fn switch(
    short: Option<char>,
    long: &'static str,
    help: &'static str,
    set: fn(&mut Draft),
) -> Flag {
    Flag { short, long, setter: Setter::Switch(set), help }
}

const fn ask(
    short: Option<char>,
    long: &'static str,
    help: &'static str,
    request: fn() -> Request,
) -> Flag {
    Flag { short, long, setter: Setter::Ask(request), help }
}

const CONNECTION: &[Flag] = &[
    value(Some('s'), "server", "ADDR", "Server address (default: 127.0.0.1)", |draft, _, text| {
        text.clone_into(&mut draft.options.server);
        Ok(())
    }),
    value(Some('h'), "host", "ADDR", "Same as --server; -h alone is --help", |draft, _, text| {
        text.clone_into(&mut draft.options.server);
        Ok(())
    }),
    value(Some('p'), "port", "PORT", "Server port (default: 6379)", |draft, flag, text| {
        texts::port(flag, text).map(|port| draft.options.port = port)
    }),
    value(Some('S'), "unix-socket", "SOCKET", "Unix socket instead", |draft, _, text| {
        draft.options.unix_socket = Some(text.into());
        Ok(())
    }),
    switch(Some('4'), "ipv4", "Resolve to IPv4 addresses only", |draft| {
        draft.options.family = Some(Family::Ipv4);
    }),
    switch(Some('6'), "ipv6", "Resolve to IPv6 addresses only", |draft| {
        draft.options.family = Some(Family::Ipv6);
    }),
    value(
        Some('P'),
        "protocol",
        "PROTOCOL",
        "redis (default), resp2 or resp3 (begin with HELLO),\nmemcache_text or memcache_binary",
        |draft, _, text| {
            draft.options.protocol = match text {
                "redis" => Protocol::Redis,
                "resp2" => Protocol::Resp2,
                "resp3" => Protocol::Resp3,
                "memcache_text" => Protocol::MemcacheText,
                "memcache_binary" => Protocol::MemcacheBinary,
                other => return Err(format!("error: protocol '{other}' is not supported.")),
            };
            Ok(())
        },
    ),
    value(
        Some('a'),
        "authenticate",
        "CREDENTIALS",
        "PASSWORD or USER:PASSWORD",
        |draft, _, text| {
            draft.options.authenticate = Some(texts::credentials(text));
            Ok(())
        },
    ),
    value(
        Some('u'),
        "uri",
        "URI",
        "redis://user:password@host:port/db; all but the\n\
         host may be left out. Overrides the flags above",
        |draft, flag, text| texts::uri(flag, text).map(|address| draft.address = Some(address)),
    ),
    switch(None, "cluster-mode", "The server is a cluster", |draft| draft.options.cluster = true),
    value(Some('x'), "run-count", "NUMBER", "Runs to perform (default: 1)", |draft, flag, text| {
        texts::positive(flag, text).map(|count| draft.options.run_count = count)
    }),
    value(
        None,
        "against",
        "HOST:PORT",
        "The same load on this server too, in turn, and one page\n\
         of both; may be repeated",
        |draft, flag, text| {
            draft.options.against.push(texts::rival(flag, text)?);
            Ok(())
        },
    ),
    value(
        None,
        "preset",
        "NAME",
        "A series of runs; the other words are its own",
        // Found before any flag is read: `parse` never comes here.
        |_, flag, text| Err(format!("error: {flag} '{text}' must be read first.")),
    ),
    switch(Some('D'), "debug", "Print debug output", |draft| draft.options.output.debug = true),
    ask(None, "help", "Display this help", || Request::Help),
    ask(Some('v'), "version", "Display version information", || Request::Version),
];

const OUTPUT: &[Flag] = &[
    value(
        Some('o'),
        "out-file",
        "FILE",
        "Name of the report (default: stdout)",
        |draft, _, text| {
            draft.options.output.file = Some(text.into());
            Ok(())
        },
    ),
    value(None, "json-out-file", "FILE", "The results as JSON", |draft, _, text| {
        draft.options.output.json = Some(text.into());
        Ok(())
    }),
    value(None, "html-out-file", "FILE", "The results as one page with plots", |draft, _, text| {
        draft.options.output.html = Some(text.into());
        Ok(())
    }),
    value(None, "client-stats", "FILE", "Prefix of a file for each client", |draft, _, text| {
        draft.options.output.client_stats = Some(text.into());
        Ok(())
    }),
    value(None, "hdr-file-prefix", "FILE", "Prefix of the HDR histograms", |draft, _, text| {
        draft.options.output.hdr_prefix = Some(text.into());
        Ok(())
    }),
    switch(None, "show-config", "Print all settings before running", |draft| {
        draft.options.output.show_config = true;
    }),
    switch(None, "hide-histogram", "Leave out the latency histogram", |draft| {
        draft.options.output.hide_histogram = true;
    }),
    value(
        None,
        "print-percentiles",
        "LIST",
        "Percentiles of the table (default: 50,99,99.9)",
        |draft, flag, text| {
            texts::percentiles(flag, text).map(|list| draft.options.output.percentiles = list)
        },
    ),
    switch(None, "print-all-runs", "Print every run, not the summary alone", |draft| {
        draft.options.output.all_runs = true;
    }),
    value(None, "statsd-host", "HOST", "Send live figures there", |draft, _, text| {
        text.clone_into(&mut draft.statsd.host);
        Ok(())
    }),
    value(None, "statsd-port", "PORT", "UDP port (default: 8125)", |draft, flag, text| {
        texts::port(flag, text).map(|port| draft.statsd.port = port)
    }),
    value(None, "statsd-prefix", "PREFIX", "Of the names (default: memtier)", |draft, _, text| {
        text.clone_into(&mut draft.statsd.prefix);
        Ok(())
    }),
    value(None, "statsd-run-label", "LABEL", "Of the run (default: default)", |draft, _, text| {
        text.clone_into(&mut draft.statsd.label);
        Ok(())
    }),
];

const TEST: &[Flag] = &[
    value(
        Some('n'),
        "requests",
        "NUMBER",
        "Requests per client (default: 10000);\n'allkeys' goes once through the key range",
        |draft, flag, text| {
            draft.requests = Some(match text {
                "allkeys" => super::Until::AllKeys,
                _ => super::Until::Requests(texts::positive(flag, text)?),
            });
            Ok(())
        },
    ),
    value(
        None,
        "rate-limiting",
        "NUMBER",
        "At most so many requests per second and connection",
        |draft, flag, text| {
            texts::positive(flag, text).map(|rate| draft.options.rate_limit = Some(rate))
        },
    ),
    value(
        None,
        "open-loop",
        "RATE",
        "Requests per second of all connections together, sent\n\
         by the clock and timed from when each was due",
        |draft, flag, text| {
            texts::decimal(flag, text).map(|rate| draft.options.open_loop = Some(rate))
        },
    ),
    value(
        None,
        "silence-limit",
        "SECS",
        "Give a run of so many requests up after so long without\n\
         any reply (default: 60; 0 waits for ever)",
        |draft, flag, text| {
            let seconds = texts::number::<u32>(flag, text)?;
            draft.options.silence_limit = Duration::from_secs(u64::from(seconds));
            Ok(())
        },
    ),
    value(
        Some('c'),
        "clients",
        "NUMBER",
        "Clients per thread (default: 50)",
        |draft, flag, text| {
            texts::positive(flag, text).map(|clients| draft.options.clients = clients)
        },
    ),
    value(Some('t'), "threads", "NUMBER", "Threads (default: 4)", |draft, flag, text| {
        texts::positive(flag, text).map(|threads| draft.options.threads = threads)
    }),
    value(None, "test-time", "SECS", "Seconds to run", |draft, flag, text| {
        let seconds = texts::positive::<u32>(flag, text)?;
        draft.test_time = Some(Duration::from_secs(u64::from(seconds)));
        Ok(())
    }),
    value(
        None,
        "clients-start",
        "NUMBER",
        "Begin with so many clients per thread, and grow",
        |draft, flag, text| {
            texts::positive(flag, text).map(|clients| draft.clients_start = clients)
        },
    ),
    value(None, "clients-step", "NUMBER", "Grow by so many clients", |draft, flag, text| {
        texts::positive(flag, text).map(|clients| draft.clients_step = clients)
    }),
    value(None, "step-duration", "SECS", "Seconds until the next step", |draft, flag, text| {
        let seconds = texts::positive::<u32>(flag, text)?;
        draft.step_duration = Duration::from_secs(u64::from(seconds));
        Ok(())
    }),
    value(None, "ratio", "RATIO", "SETs to GETs (default: 1:10)", |draft, flag, text| {
        let (set, get) = texts::ratio(flag, text)?;
        draft.options.load.mix = super::Mix::Ratio { set, get };
        Ok(())
    }),
    value(
        None,
        "pipeline",
        "NUMBER",
        "Requests under way per connection (default: 1)",
        |draft, flag, text| texts::positive(flag, text).map(|depth| draft.options.pipeline = depth),
    ),
    value(
        None,
        "reconnect-interval",
        "NUM",
        "Connect anew after so many requests",
        |draft, flag, text| {
            let interval = texts::number::<u64>(flag, text)?;
            draft.options.reconnect_interval = Some(interval).filter(|requests| *requests > 0);
            Ok(())
        },
    ),
    value(
        None,
        "multi-key-get",
        "NUM",
        "Read by MGET, up to so many keys at once",
        |draft, flag, text| {
            texts::number(flag, text).map(|keys| draft.options.load.multi_key_get = keys)
        },
    ),
    value(None, "select-db", "DB", "Number of the database", |draft, flag, text| {
        texts::number(flag, text).map(|database| draft.options.database = database)
    }),
    switch(None, "distinct-client-seed", "Another seed for each client", |draft| {
        draft.options.load.distinct_client_seed = true;
    }),
    switch(None, "randomize", "Another seed in each run", |draft| {
        draft.options.load.randomize = true;
    }),
];

const COMMAND: &[Flag] = &[
    value(
        None,
        "command",
        "COMMAND",
        "A command to send, in quotes; may be repeated.\n\
         In it, __key__ is a key and __data__ a value",
        |draft, flag, text| texts::command(flag, text).map(|command| draft.commands.push(command)),
    ),
    value(
        None,
        "command-ratio",
        "NUMBER",
        "Times the last --command is sent in turn (default: 1)",
        |draft, flag, text| {
            draft.last_command(flag)?.ratio = texts::positive(flag, text)?;
            Ok(())
        },
    ),
    value(
        None,
        "command-key-pattern",
        "R|S|P|G|Z",
        "Key pattern of the last --command (default: R)",
        |draft, flag, text| {
            let form = || format!("error: {flag} must be in the format of [S/R/G/P/Z].");
            draft.last_command(flag)?.key_pattern = texts::pattern(text).ok_or_else(form)?;
            Ok(())
        },
    ),
];

const OBJECT: &[Flag] = &[
    value(Some('d'), "data-size", "SIZE", "Bytes of a value (default: 32)", |draft, flag, text| {
        texts::size(flag, text).map(|size| draft.sizes.push(DataSize::Fixed(size)))
    }),
    value(
        None,
        "data-offset",
        "OFFSET",
        "Write and read from there, by SETRANGE and GETRANGE",
        |draft, flag, text| {
            texts::number(flag, text).map(|offset| draft.options.load.values.offset = offset)
        },
    ),
    switch(Some('R'), "random-data", "Random bytes instead of 'x'", |draft| {
        draft.options.load.values.random = true;
    }),
    value(None, "data-size-range", "MIN-MAX", "Sizes from this range", |draft, flag, text| {
        texts::size_range(flag, text).map(|range| draft.sizes.push(range))
    }),
    value(
        None,
        "data-size-list",
        "LIST",
        "Sizes by weight: size1:weight1,...sizeN:weightN",
        |draft, flag, text| texts::size_list(flag, text).map(|list| draft.sizes.push(list)),
    ),
    value(
        None,
        "data-size-pattern",
        "R|S",
        "Of --data-size-range: random, or growing evenly\nover the key range (default: R)",
        |draft, flag, text| {
            draft.sizes_by_key = match text {
                "R" => false,
                "S" => true,
                _ => return Err(format!("error: {flag} must be either R or S.")),
            };
            Ok(())
        },
    ),
    value(None, "expiry-range", "MIN-MAX", "Seconds to live", |draft, flag, text| {
        texts::range(flag, text).map(|range| draft.options.load.values.expiry = Some(range))
    }),
];

const VERIFICATION: &[Flag] = &[
    switch(None, "data-verify", "Read and compare all values after the run", |draft| {
        if draft.options.load.verify == Verify::No {
            draft.options.load.verify = Verify::AfterWriting;
        }
    }),
    switch(None, "verify-only", "Compare what an earlier run has written", |draft| {
        draft.options.load.verify = Verify::Only;
    }),
    switch(None, "no-expiry", "Ignore --expiry-range", |draft| draft.no_expiry = true),
];

const KEY: &[Flag] = &[
    value(
        None,
        "key-prefix",
        "PREFIX",
        "Before the number of the key (default: memtier-)",
        |draft, _, text| {
            draft.options.load.keys.prefix = text.into();
            Ok(())
        },
    ),
    value(None, "key-minimum", "NUMBER", "Least number (default: 0)", |draft, flag, text| {
        texts::key(flag, text).map(|key| draft.options.load.keys.minimum = key)
    }),
    value(
        None,
        "key-maximum",
        "NUMBER",
        "Largest number (default: 10000000)",
        |draft, flag, text| texts::key(flag, text).map(|key| draft.options.load.keys.maximum = key),
    ),
    value(
        None,
        "key-pattern",
        "SET:GET",
        "R: uniformly random (default: R:R)\n\
         S: one after the other, each client by itself\n\
         P: the same, each client through its own part\n\
         G: normal distribution\n\
         Z: Zipf distribution; key 1 is the most frequent",
        |draft, flag, text| {
            texts::patterns(flag, text).map(|pair| draft.options.load.keys.patterns = pair)
        },
    ),
    value(
        None,
        "key-stddev",
        "NUMBER",
        "Deviation of pattern G (default: key range / 6)",
        |draft, flag, text| {
            texts::decimal(flag, text).map(|stddev| draft.options.load.keys.stddev = Some(stddev))
        },
    ),
    value(
        None,
        "key-median",
        "NUMBER",
        "Center of pattern G (default: that of the key range)",
        |draft, flag, text| {
            texts::number(flag, text).map(|median| draft.options.load.keys.median = Some(median))
        },
    ),
    value(
        None,
        "key-zipf-exp",
        "NUMBER",
        "Exponent of pattern Z, between 0 and 5 (default: 1)",
        |draft, flag, text| {
            let exponent = texts::decimal(flag, text)?;
            if exponent >= 5.0 {
                return Err(format!("error: {flag} must be within the interval (0, 5)."));
            }
            draft.options.load.keys.zipf_exponent = exponent;
            Ok(())
        },
    ),
];

const WAIT: &[Flag] = &[
    value(None, "wait-ratio", "RATIO", "SETs to WAITs (default: 1:0)", |draft, flag, text| {
        texts::ratio(flag, text).map(|ratio| draft.wait_ratio = ratio)
    }),
    value(None, "num-slaves", "MIN-MAX", "Replicas to wait for", |draft, flag, text| {
        texts::range(flag, text).map(|range| draft.wait_replicas = range)
    }),
    value(
        None,
        "wait-timeout",
        "MIN-MAX",
        "Milliseconds, mostly in the middle of the range",
        |draft, flag, text| texts::range(flag, text).map(|range| draft.wait_timeout_ms = range),
    ),
];
