//! The flags that name what is done instead of sending commands, and the flags that only such a
//! mode heeds. Invariant: of two modes the last one counts.

use std::time::Duration;

use super::flags::{Flag, number, seconds, switch, value};
use super::parse::unquoted;
use super::{Debugging, Mode, Options, SnapshotContent};

/// Sets the mode.
fn run(options: &mut Options, mode: Mode) -> Result<(), String> {
    options.mode = mode;
    Ok(())
}

fn debug(options: &mut Options, how: Debugging) -> Result<(), String> {
    options.debugging = Some(how);
    Ok(())
}

/// The modes that read or write data.
pub(super) const DATA: &[Flag] = &[
    switch(&["--scan"], "Names of all keys.", |options| run(options, Mode::Scan)),
    value(&["--pattern"], "GLOB", "Only keys that match.", |options, text| {
        options.pattern = Some(text.as_bytes().to_vec());
        Ok(())
    }),
    value(&["--quoted-pattern"], "GLOB", "The same, as quoted text.", |options, text| {
        options.pattern = Some(unquoted(text.as_bytes())?);
        Ok(())
    }),
    value(&["--count"], "COUNT", "Keys that one SCAN looks at.", |options, text| {
        options.scan_count = Some(number(text)?);
        Ok(())
    }),
    switch(&["--bigkeys"], "Keys with many elements; -i pauses per 100 SCANs.", |options| {
        run(options, Mode::BigKeys)
    }),
    switch(&["--memkeys"], "Keys that take much memory.", |options| run(options, Mode::MemoryKeys)),
    value(
        &["--memkeys-samples"],
        "COUNT",
        "The same; elements of a key that are looked at (0: all).",
        |options, text| {
            options.memory_samples = Some(number(text)?);
            run(options, Mode::MemoryKeys)
        },
    ),
    switch(&["--keystats"], "Both, and how sizes are distributed.", |options| {
        run(options, Mode::KeyStats)
    }),
    value(
        &["--keystats-samples"],
        "COUNT",
        "The same; elements of a key that are looked at (0: all).",
        |options, text| {
            options.memory_samples = Some(number(text)?);
            run(options, Mode::KeyStats)
        },
    ),
    value(&["--cursor"], "CURSOR", "Where --keystats begins.", |options, text| {
        options.cursor = number(text)?;
        Ok(())
    }),
    value(&["--top"], "COUNT", "Keys that --keystats tells (default: 10).", |options, text| {
        options.top = number(text)?;
        Ok(())
    }),
    switch(&["--hotkeys"], "Keys that are often used, under an LFU policy.", |options| {
        run(options, Mode::HotKeys)
    }),
    value(&["--eval"], "FILE", "Run a Lua script: keys, a comma, arguments.", |options, text| {
        run(options, Mode::Eval(text.into()))
    }),
    switch(&["--ldb"], "Debug the script of --eval.", |options| debug(options, Debugging::Forked)),
    switch(&["--ldb-sync-mode"], "The same, where the server waits and changes stay.", |options| {
        debug(options, Debugging::Synchronous)
    }),
    switch(&["--pipe"], "Send the protocol on the standard input.", |options| {
        run(options, Mode::Pipe)
    }),
    value(
        &["--pipe-timeout"],
        "SECONDS",
        "How long --pipe waits for replies (default: 30; 0: for ever).",
        |options, text| {
            options.pipe_timeout =
                Some(Duration::from_secs(number(text)?)).filter(|time| !time.is_zero());
            Ok(())
        },
    ),
    value(
        &["--rdb"],
        "FILE",
        "Fetch a snapshot of all data; - for the output.",
        |options, text| run(options, Mode::Snapshot(text.into(), SnapshotContent::Everything)),
    ),
    value(&["--functions-rdb"], "FILE", "The same, of functions alone.", |options, text| {
        run(options, Mode::Snapshot(text.into(), SnapshotContent::Functions))
    }),
    switch(&["--replica"], "The commands that a replica is sent.", |options| {
        run(options, Mode::Replica)
    }),
];

/// The modes that measure.
pub(super) const MEASURES: &[Flag] = &[
    switch(&["--stat"], "A line of statistics each second, or each -i.", |options| {
        run(options, Mode::Stat)
    }),
    switch(&["--latency"], "How long the server takes to answer.", |options| {
        run(options, Mode::Latency)
    }),
    switch(&["--latency-history"], "The same, anew each 15 seconds, or each -i.", |options| {
        run(options, Mode::LatencyHistory)
    }),
    switch(&["--latency-dist"], "The same in colours, a line each second.", |options| {
        run(options, Mode::LatencySpectrum)
    }),
    value(
        &["--intrinsic-latency"],
        "SECONDS",
        "How long this machine keeps a process waiting.",
        |options, text| {
            let time = seconds(text)?;
            run(options, Mode::IntrinsicLatency(time))
        },
    ),
    value(
        &["--lru-test"],
        "KEYS",
        "Act as users of a cache: 80% of requests for 20% of keys.
         It writes.",
        |options, text| {
            let keys = number(text)?;
            run(options, Mode::LruTest(keys))
        },
    ),
];
