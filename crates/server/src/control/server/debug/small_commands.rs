//! The small words of DEBUG: a wait, an error, a line in the log, and switches that tests throw.
//!
//! Invariant: a switch without a meaning here answers as Redis' does and changes nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::glob;
use base::random::Random;
use commands::errors::NOT_AN_INTEGER;
use config::parse_bytes;
use config::settings::MAXMEMORY_CLIENTS;
use engine::clients::registry::Client;
use engine::runtime::log::{log_notice, log_warning};
use engine::runtime::replace_file;
use engine::session::Session;
use engine::session::patience;
use engine::session::timer::after;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};
use crate::control::delayed_command::run_later;
use crate::control::users;
use crate::server::Server;

/// Accepts and does nothing.
pub(super) fn nothing(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// Keeps the client waiting, and nobody else: in Redis all clients wait. The time counts as the
/// command's own.
pub(super) fn sleep(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let time = seconds(&args[2]);
    if context.unit.is_some() {
        // What holds locks keeps them, as a command that takes so long would.
        return Ok(ControlOutcome::offload(move |_, _, reply| {
            std::thread::sleep(time);
            reply.ok();
            Ok(())
        }));
    }
    let until_us = after(context.server.keyspace.clock().monotonic_us(), time);
    let time_left = Box::new(move |server: &Server| {
        let left = until_us.saturating_sub(server.keyspace.clock().monotonic_us());
        (left > 0).then(|| Duration::from_micros(left.unsigned_abs()))
    });
    Ok(run_later(context, args, (time, time_left), |_, _, reply| {
        reply.ok();
        Ok(ControlOutcome::Done)
    }))
}

/// Has the wall clock jump, for tests of what depends on it.
pub(super) fn jump_clock(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let millis = base::number::parse_i64(&args[2]).ok_or(NOT_AN_INTEGER)?;
    context.server.keyspace.clock().advance(millis);
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// Stops the world as a world operation of that length would.
pub(super) fn stop_world(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (keyspace, time) = (context.server.keyspace, seconds(&args[2]));
    Ok(ControlOutcome::offload_with_locks(move |_, _, reply| {
        patience::stop_world(keyspace, time)?;
        reply.ok();
        Ok(())
    }))
}

/// A time in seconds; none at all where Redis' `strtod` would find none.
fn seconds(argument: &[u8]) -> Duration {
    let seconds = base::number::parse_f64(argument).unwrap_or(0.0).max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Answers with an error of the client's own.
pub(super) fn error(
    _: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    // Line ends at the end of other errors are cut off; here they are spaces too.
    let shown = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    Err(Refusal::owned(args[2].iter().map(shown).collect::<Vec<u8>>()))
}

/// Writes a line to the log.
pub(super) fn log(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    // A line of the log stays one line.
    let text = args[2].escape_ascii();
    log_warning!(context.server.log, "DEBUG LOG: {text}");
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) fn set_active_expire(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let on = base::number::parse_i64(&args[2]).is_some_and(|number| number != 0);
    context.server.memory.set_active_expiry(on);
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// Lets scripts call what they may not otherwise, DEBUG above all, or no longer.
pub(super) fn let_scripts_call(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let on = base::number::parse_i64(&args[2]).is_some_and(|number| number != 0);
    context.server.scripts.may_call_denied.store(on, Ordering::Relaxed);
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) fn change_replication_id(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    log_notice!(
        context.server.log,
        "Changing replication IDs after receiving DEBUG change-repl-id"
    );
    context.server.links.change_id(context.server);
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// CONFIG REWRITE with all options, also those at their default.
pub(super) fn rewrite_all(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let _turn = server.take_config_turn();
        let failed = |error| {
            let error = format!("{error}");
            let error = error.strip_prefix("ERR ").unwrap_or(&error);
            Refusal::owned(format!("ERR CONFIG-REWRITE-FORCE-ALL failed: {error}"))
        };
        server
            .config
            .rewrite_all(users::lines(server).as_deref(), replace_file::replace_atomically)
            .map_err(failed)?;
        reply.ok();
        Ok(())
    }))
}

pub(super) fn client_eviction(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if context.server.config.get(MAXMEMORY_CLIENTS) == 0 {
        return Err(Refusal::error("ERR maxmemory-clients is disabled."));
    }
    reply.bulk(b"No eviction pools: clients are compared when one must go.\n");
    Ok(ControlOutcome::Done)
}

/// Patterns and texts that the fuzzer below tries.
const TRIALS: usize = 100_000;

/// Matches random patterns with random texts; the test is that it ends.
pub(super) fn test_patterns(
    _: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const LETTERS: &[u8] = b"ab*?[]^-\\";
    Ok(ControlOutcome::offload(|_, _, reply| {
        let mut random = Random::from_entropy();
        let mut text = |longest: u64| -> Vec<u8> {
            let length = random.below(longest);
            let letter = |_| LETTERS[random.below(LETTERS.len() as u64) as usize];
            (0..length).map(letter).collect()
        };
        for _ in 0..TRIALS {
            let (pattern, candidate) = (text(32), text(256));
            std::hint::black_box(glob::matches(&pattern, &candidate, false));
        }
        reply.simple("Apparently Redis did not crash: test passed");
        Ok(())
    }))
}

pub(super) fn struct_sizes(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let sizes = format!(
        "bits:{} client:{} session:{} entryref:{} bucket:64 ",
        usize::BITS,
        size_of::<Client>(),
        size_of::<Session>(),
        size_of::<keyspace::EntryRef<'_>>(),
    );
    reply.bulk(sizes.as_bytes());
    Ok(ControlOutcome::Done)
}

pub(super) fn packed_threshold(
    _: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const FOUR_GB: u64 = 4 << 30;
    if parse_bytes(&args[2]).is_none_or(|size| size > FOUR_GB) {
        return Err(Refusal::error(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
        ));
    }
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) fn reply_buffer(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let known = ["PEAK-RESET-TIME", "RESIZING"];
    if known.iter().any(|word| args[2].eq_ignore_ascii_case(word.as_bytes())) {
        return nothing(context, args, reply);
    }
    Err(super::misused("DEBUG", &args[1]))
}
