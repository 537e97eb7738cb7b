//! What `--help` and `--version` print, made from the table of flags.

use std::fmt::Write;

use super::flags::{FLAG_GROUPS, Flag, Setter};

/// Where the explanations stand.
const COLUMN: usize = 34;

/// The text of `--help`.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "Usage: apus bench [options]\n\
         A load generator for Redis-compatible servers. It takes memtier_benchmark's options.\n",
    );
    for group in FLAG_GROUPS {
        write!(text, "\n{}:\n", group.title).expect("writing to a String cannot fail");
        for flag in group.flags {
            push_flag(flag, &mut text);
        }
    }
    text
}

/// The text of `--version`.
#[must_use]
pub fn version() -> String {
    format!("apus bench {}\n", env!("CARGO_PKG_VERSION"))
}

fn push_flag(flag: &Flag, text: &mut String) {
    let short = flag.short.map_or_else(|| "    ".into(), |letter| format!("-{letter}, "));
    let operand = match &flag.setter {
        Setter::Value(operand, _) => format!("={operand}"),
        Setter::Switch(_) | Setter::Ask(_) => String::new(),
    };
    let names = format!("  {short}--{}{operand}", flag.long);
    let mut column = names.len();
    text.push_str(&names);
    // Names that reach into the explanations get a line of their own.
    if column + 1 >= COLUMN {
        text.push('\n');
        column = 0;
    }
    for line in flag.help.lines() {
        let line = line.trim_start();
        writeln!(text, "{:1$}{line}", "", COLUMN - column).expect("a String takes everything");
        column = 0;
    }
}
