//! JSON values whose members stay in the order in which they were given: readers of memtier's
//! time series plot it in the order of the file.
//! Invariant: what is written parses; a number that is none (a rate over no time) is zero.

use std::fmt::{Display, Formatter, Result};

/// A JSON value.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    /// The text of a number, as it shall stand there.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A number with so many decimals.
    pub(super) fn decimal(value: f64, decimals: usize) -> Json {
        let value = if value.is_finite() { value } else { 0.0 };
        Json::Number(format!("{value:.decimals$}"))
    }

    /// A whole number.
    pub(super) fn whole(value: impl Into<u64>) -> Json {
        Json::Number(value.into().to_string())
    }

    pub(super) fn text(value: impl Into<String>) -> Json {
        Json::Text(value.into())
    }

    /// memtier writes truth as a string.
    pub(super) fn flag(value: bool) -> Json {
        Json::text(if value { "true" } else { "false" })
    }

    /// An object with these members.
    pub(super) fn object<N: Into<String>>(members: impl IntoIterator<Item = (N, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    fn write(&self, to: &mut Formatter<'_>, depth: usize) -> Result {
        match self {
            Json::Null => to.write_str("null"),
            Json::Number(number) => to.write_str(number),
            Json::Text(text) => quote(to, text),
            Json::Array(values) => {
                list(to, depth, ['[', ']'], values, |to, value| value.write(to, depth + 1))
            }
            Json::Object(members) => list(to, depth, ['{', '}'], members, |to, (name, value)| {
                quote(to, name)?;
                to.write_str(": ")?;
                value.write(to, depth + 1)
            }),
        }
    }
}

impl Display for Json {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        self.write(to, 0)
    }
}

fn list<T>(
    to: &mut Formatter<'_>,
    depth: usize,
    [open, close]: [char; 2],
    items: &[T],
    each: impl Fn(&mut Formatter<'_>, &T) -> Result,
) -> Result {
    write!(to, "{open}")?;
    for (index, item) in items.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(to, "{comma}\n{:width$}", "", width = 2 * (depth + 1))?;
        each(to, item)?;
    }
    if !items.is_empty() {
        write!(to, "\n{:width$}", "", width = 2 * depth)?;
    }
    write!(to, "{close}")
}

fn quote(to: &mut Formatter<'_>, text: &str) -> Result {
    let quoted = serde_json::to_string(text).expect("any string is valid JSON");
    to.write_str(&quoted)
}
