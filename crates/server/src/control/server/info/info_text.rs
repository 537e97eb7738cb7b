//! The text of INFO as its sections write it.
//!
//! Invariant: each line ends in CRLF, and a field is `name:value`.

use std::fmt::{Display, Write};

/// The text as it grows.
#[derive(Default)]
pub(super) struct InfoText {
    pub(super) text: String,
    /// By database, in milliseconds; only for the section of the keyspace.
    pub(super) mean_ttls: Vec<i64>,
}

impl InfoText {
    /// A line of the form `name:value`.
    pub(super) fn field(&mut self, name: &str, value: impl Display) {
        // INFO is asked for often: a format within a format takes twice as long.
        self.text.push_str(name);
        self.text.push(':');
        self.line(value);
    }

    /// Many fields of the same value.
    pub(super) fn fields(&mut self, names: &[&str], value: impl Display) {
        names.iter().for_each(|name| self.field(name, &value));
    }

    /// A share or a ratio, with two digits.
    pub(super) fn ratio(&mut self, name: &str, value: f64) {
        self.field(name, format_args!("{value:.2}"));
    }

    pub(super) fn line(&mut self, line: impl Display) {
        write!(self.text, "{line}").expect("a string takes everything");
        self.text.push_str("\r\n");
    }
}
