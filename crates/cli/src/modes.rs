//! What is done instead of sending one command, a file each.

mod big_keys;
mod bulk_transfer;
mod debugger;
mod eval;
mod hot_keys;
mod intrinsic_latency;
mod key_stats;
mod latency;
mod latency_spectrum;
mod lru_test;
mod pipe;
mod replica;
mod scan;
mod size_histogram;
mod snapshot;
mod stat;
mod walk;

use std::process::ExitCode;

pub(crate) use debugger::{DebugSession, run_line as debug_line};
pub(crate) use replica::follow;

use crate::client::Client;
use crate::options::Mode;
use latency::Span;
use walk::Measure;

/// Does what a mode does; `words` are what follows the flags. Nothing for the mode of commands.
pub(crate) fn run(
    client: &mut Client,
    mode: &Mode,
    words: &[Vec<u8>],
) -> Option<Result<ExitCode, String>> {
    Some(match mode {
        Mode::Commands => return None,
        Mode::Scan => scan::scan(client),
        Mode::Eval(script) => eval::eval(client, script, words),
        Mode::Debug(script, how) => eval::request_of(script, words)
            .and_then(|request| debugger::debug(client, request, *how)),
        Mode::Latency => latency::latency(client, Span::Once),
        Mode::LatencyHistory => latency::latency(client, Span::Repeated),
        Mode::LatencySpectrum => latency_spectrum::latency_spectrum(client),
        Mode::IntrinsicLatency(time) => Ok(intrinsic_latency::intrinsic_latency(client, *time)),
        Mode::LruTest(keys) => lru_test::lru_test(client, *keys),
        Mode::Stat => stat::stat(client),
        Mode::Pipe => pipe::pipe(client),
        Mode::BigKeys => big_keys::big_keys(client, Measure::Length),
        Mode::MemoryKeys => big_keys::big_keys(client, Measure::Memory),
        Mode::KeyStats => key_stats::key_stats(client),
        Mode::HotKeys => hot_keys::hot_keys(client),
        Mode::Snapshot(path, content) => snapshot::snapshot(client, path, *content),
        Mode::Replica => replica::replica(client),
    })
}
