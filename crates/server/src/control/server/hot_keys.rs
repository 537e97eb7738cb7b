//! HOTKEYS of Redis 8.6: a session that finds the keys that take most time or most of the network.
//!
//! Invariant: words and errors are those of Redis 8.6; what is noted, and what that costs, is the
//! observer's (`engine::observe::hot_keys`).

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use base::number::parse_i64;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use engine::observe::hot_keys::{HotKeyReport, HotKeySettings};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{ControlCommand, ControlOutcome};
use crate::control::help::{self, container};

/// Keys that are told of each metric unless the request says otherwise, and at most.
const DEFAULT_COUNT: usize = 10;
const MAX_COUNT: i64 = 64;

/// The longest session, in seconds.
const MAX_DURATION_S: i64 = 1_000_000;

/// Without a cluster every slot is one's own.
const LAST_SLOT: u16 = 16383;

/// What the subcommands share.
const BASE: Spec = Spec {
    since: "8.6.0",
    group: Group::Server,
    complexity: "O(1)",
    flags: Flags::ADMIN.and(Flags::NOSCRIPT),
    tips: &["request_policy:special", "response_policy:special", "nondeterministic_output"],
    ..Spec::BASE
};

pub(super) const HOTKEYS: ControlCommand = Command {
    spec: Spec {
        name: "HOTKEYS",
        since: "8.6.0",
        group: Group::Server,
        summary: "A container for hotkeys tracking commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[GET, HELP, RESET, START, STOP],
    run: container,
};

const START: ControlCommand = Command {
    spec: Spec {
        name: "START",
        syntax: "METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] \
                 [SLOTS count slot [slot ...]]",
        summary: "Starts hotkeys tracking.",
        arity: at_least(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        let settings = settings(args)?;
        if !context.server.observed.hot_keys.start(context.server.usage(), settings) {
            return Err(IN_PROGRESS);
        }
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const STOP: ControlCommand = Command {
    spec: Spec { name: "STOP", summary: "Stops hotkeys tracking.", arity: exactly(2), ..BASE },
    subcommands: &[],
    run: |context, _, reply| {
        match context.server.observed.hot_keys.stop(context.server.usage()) {
            true => reply.ok(),
            false => reply.null(),
        }
        Ok(ControlOutcome::Done)
    },
};

const RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        summary: "Releases the resources used for hotkeys tracking.",
        arity: exactly(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        if !context.server.observed.hot_keys.reset(context.server.usage()) {
            return Err(STOP_FIRST);
        }
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const GET: ControlCommand = Command {
    spec: Spec {
        name: "GET",
        summary: "Returns lists of top K hotkeys depending on metrics chosen in HOTKEYS START \
                  command.",
        complexity: "O(K) where K is the number of hotkeys returned.",
        arity: exactly(2),
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        match context.server.observed.hot_keys.report(context.server.usage()) {
            Some(report) => show(&report, reply),
            None => reply.null_array(),
        }
        Ok(ControlOutcome::Done)
    },
};

const HELP: ControlCommand = help::subcommand(Group::Server, "8.6.0", |_, _, reply| {
    help::help(reply, "HOTKEYS", LINES);
    Ok(ControlOutcome::Done)
});

const LINES: &[&str] = &[
    "START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] \
     [SLOTS count slot...]",
    "    Starts hotkeys tracking with specified metrics.",
    "    * METRICS count [CPU] [NET]",
    "        Specify count of metrics and choose amongst:",
    "        - CPU: Track hotkeys by CPU time percentage",
    "        - NET: Track hotkeys by network bytes percentage",
    "    * COUNT k",
    "        Specifies the value of K for the top-K hotkeys tracking. Default: 10",
    "    * DURATION duration",
    "        Specifies tracking duration in seconds. 0 means tracking will continue until \
     manually stopped. Default: 0",
    "    * SAMPLE ratio",
    "        Keys are tracked with probability 1/ratio. Default: 1 (tracks every key)",
    "    * SLOTS count slot...",
    "        Specify which slots to track keys from. Only available in cluster mode. Default: \
     empty (track all slots)",
    "STOP",
    "    Stop hotkeys tracking. Results are still available via GET",
    "GET",
    "    Get results from hotkeys tracking.",
    "RESET",
    "    Reset memory used for hotkeys tracking. Tracking must have been stopped.",
    "    Results will no longer be available after this command.",
];

const IN_PROGRESS: Refusal = Refusal::error("ERR hotkey tracking session already in progress");
const STOP_FIRST: Refusal =
    Refusal::error("ERR hotkey tracking session in progress, stop tracking first");
const NO_METRICS: Refusal = Refusal::error("ERR METRICS parameter is required");
const METRICS_COUNT: Refusal = Refusal::error("ERR METRICS count must be > 0 and <= 2");
const METRICS_MISSING: Refusal =
    Refusal::error("ERR METRICS count does not match number of metric types provided");
const METRICS_UNKNOWN: Refusal =
    Refusal::error("ERR METRICS no valid metrics passed. Supported: CPU|NET");
const CPU_TWICE: Refusal = Refusal::error("ERR METRICS CPU defined more than once!");
const NET_TWICE: Refusal = Refusal::error("ERR METRICS NET defined more than once!");
const COUNT_RANGE: Refusal = Refusal::error("ERR COUNT must be between 1 and 64");
const DURATION_RANGE: Refusal = Refusal::error("ERR DURATION must be between 1 and 1000000");
const SAMPLE_RANGE: Refusal = Refusal::error("ERR SAMPLE ratio must be positive");
const NO_SLOTS: Refusal = Refusal::error("ERR SLOTS parameter cannot be used in non-cluster mode");

/// The words behind START.
fn settings(args: Args<'_>) -> Result<HotKeySettings, Refusal> {
    let word = |index: usize| args.get(index).ok_or(SYNTAX);
    let number = |index: usize, range: RangeInclusive<i64>, refusal: Refusal| {
        let number = parse_i64(word(index)?).filter(|it| range.contains(it));
        number.ok_or(refusal)
    };
    if !args.get(2).is_some_and(|it| is(it, "METRICS")) || args.len() < 4 {
        return Err(NO_METRICS);
    }
    let metrics = number(3, 1..=2, METRICS_COUNT)?;
    let mut index = 4 + usize::try_from(metrics).expect("it is one or two");
    let (cpu, net) = metrics_of(args, 4..index)?;
    let mut settings = HotKeySettings { cpu, net, count: DEFAULT_COUNT, duration_ms: 0, sample: 1 };
    while let Some(option) = args.get(index) {
        match option {
            _ if is(option, "COUNT") => {
                let count = number(index + 1, 1..=MAX_COUNT, COUNT_RANGE)?;
                settings.count = usize::try_from(count).expect("it is small");
            }
            _ if is(option, "DURATION") => {
                let seconds = number(index + 1, 1..=MAX_DURATION_S, DURATION_RANGE)?;
                settings.duration_ms = seconds * 1000;
            }
            _ if is(option, "SAMPLE") => {
                let ratio = number(index + 1, 1..=i64::from(i32::MAX), SAMPLE_RANGE)?;
                settings.sample = ratio.unsigned_abs();
            }
            _ if is(option, "SLOTS") => return Err(NO_SLOTS),
            _ => return Err(SYNTAX),
        }
        index += 2;
    }
    Ok(settings)
}

/// Which metrics these words name; a word that names none is one of a later version.
fn metrics_of(args: Args<'_>, range: Range<usize>) -> Result<(bool, bool), Refusal> {
    let (mut cpu, mut net) = (false, false);
    for index in range {
        match args.get(index).ok_or(METRICS_MISSING)? {
            word if is(word, "CPU") && cpu => return Err(CPU_TWICE),
            word if is(word, "NET") && net => return Err(NET_TWICE),
            word if is(word, "CPU") => cpu = true,
            word if is(word, "NET") => net = true,
            _ => {}
        }
    }
    if !cpu && !net {
        return Err(METRICS_UNKNOWN);
    }
    Ok((cpu, net))
}

/// One map within an array, as Redis has it.
fn show(report: &HotKeyReport, reply: &mut Reply<'_>) {
    let (cpu, net) = (report.settings.cpu, report.settings.net);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    reply.array(1);
    reply.map(7 + if cpu { 3 } else { 0 } + if net { 2 } else { 0 });
    reply.integer_field("tracking-active", u64::from(report.is_active));
    reply.integer_field("sample-ratio", report.settings.sample);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(LAST_SLOT));
    reply.integer_field("all-commands-all-slots-us", report.commands_us);
    reply.integer_field("net-bytes-all-commands-all-slots", report.command_bytes);
    reply.integer_field("collection-start-time-unix-ms", report.started_ms.unsigned_abs());
    reply.integer_field("collection-duration-ms", report.duration_ms.unsigned_abs());
    if cpu {
        reply.integer_field("total-cpu-time-user-ms", millis(report.cpu.user));
        reply.integer_field("total-cpu-time-sys-ms", millis(report.cpu.system));
    }
    if net {
        reply.integer_field("total-net-bytes", report.net_bytes);
    }
    if cpu {
        list(reply, "by-cpu-time-us", &report.by_cpu);
    }
    if net {
        list(reply, "by-net-bytes", &report.by_net);
    }
}

/// Keys and what each took, one behind the other, in both protocols.
fn list(reply: &mut Reply<'_>, name: &str, keys: &[(Vec<u8>, u64)]) {
    reply.bulk(name.as_bytes());
    reply.array(keys.len() * 2);
    for (key, value) in keys {
        reply.bulk(key);
        reply.integer(i64::try_from(*value).unwrap_or(i64::MAX));
    }
}
