//! LOLWUT: swifts over the roofs, and who we are.
//!
//! Invariant: whatever size is asked for, the drawing stays within `MOST_COLUMNS` by `MOST_ROWS`.

use base::number::parse_i64;
use base::random::Random;
use commands::arguments::{integer, is};
use commands::declare::{Command, Flags, Group, Spec, at_least};
use engine::runtime::version::{self, APUS_VERSION};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

const MOST_COLUMNS: usize = 160;
const MOST_ROWS: usize = 40;

/// Swifts, as one sees them from below.
const SWIFTS: [&str; 4] = ["~v~", "'v'", ",^,", "\\v/"];

pub(super) const LOLWUT: ControlCommand = Command {
    spec: Spec {
        name: "LOLWUT",
        since: "5.0.0",
        group: Group::Server,
        syntax: "[VERSION version]",
        summary: "Displays computer art and the Redis version.",
        arity: at_least(1),
        flags: Flags::READONLY.and(Flags::FAST).and(Flags::IDEMPOTENT),
        ..Spec::BASE
    },
    subcommands: &[],
    run: lolwut,
};

fn lolwut(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let mut sizes = args.skip(1);
    if sizes.len() >= 2 && is(&sizes[0], "VERSION") {
        // One drawing serves all versions.
        integer(sizes, 1)?;
        sizes = sizes.skip(2);
    }
    let size = |index: usize, default: usize, most: usize| {
        let asked = sizes
            .get(index)
            .and_then(parse_i64)
            .map_or(default, |size| usize::try_from(size).unwrap_or(0));
        asked.min(most)
    };
    let (columns, rows) = (size(0, 66, MOST_COLUMNS), size(1, 12, MOST_ROWS));
    let mut text = drawing(columns, rows, &mut Random::from_entropy());
    text.push_str(&format!(
        "\nSwifts (Apus apus) sleep in flight. Redis ver. {}, Apus ver. {APUS_VERSION}\n",
        version::of_redis(&context.server.config)
    ));
    reply.verbatim(b"txt", text.as_bytes());
    Ok(ControlOutcome::Done)
}

/// A sky with some birds in it above a row of roofs.
fn drawing(columns: usize, rows: usize, random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..rows {
        let mut line = String::new();
        while line.len() + 3 <= columns {
            match random.below(14) {
                0 => line.push_str(SWIFTS[random.below(SWIFTS.len() as u64) as usize]),
                _ => line.push_str("   "),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let roofs = "  /\\____".repeat(columns / 8);
    text.push_str(&roofs);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::drawing;
    use base::random::Random;

    #[test]
    fn a_drawing_keeps_to_its_size() {
        for (columns, rows) in [(0, 0), (1, 1), (66, 12), (160, 40)] {
            let text = drawing(columns, rows, &mut Random::from_seed(7));
            assert_eq!(text.lines().count(), rows + 1);
            assert!(text.lines().all(|line| line.len() <= columns));
        }
    }
}
