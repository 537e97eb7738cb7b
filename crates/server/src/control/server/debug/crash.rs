//! DEBUG SEGFAULT, PANIC and ASSERT: the process ends, in three ways.
//!
//! Invariant: none of them returns, and each leaves a crash report unless that is turned off.

use engine::runtime::log::log_warning;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};

const LINE: &str = "------------------------------------------------";

/// Reads what may not be read.
pub(super) fn segfault(
    _: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    crash::fault()
}

/// Ends as a bug that was noticed ends it.
pub(super) fn panic(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let log = &context.server.log;
    for line in [LINE, "!!! Software Failure. Press left mouse button to continue"] {
        log_warning!(log, "{line}");
    }
    log_warning!(log, "Guru Meditation: called by Unit test #{}:{}", file!(), line!());
    context.server.keyspace.abort("DEBUG PANIC")
}

/// Ends as an assertion that fails ends it.
pub(super) fn assert(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let log = &context.server.log;
    log_warning!(log, "=== ASSERTION FAILED ===");
    log_warning!(log, "==> {}:{} '1 == 2' is not true", file!(), line!());
    context.server.keyspace.abort("DEBUG ASSERT")
}
