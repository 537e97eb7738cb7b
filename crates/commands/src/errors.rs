//! The error texts that several commands share, word for word Redis'.
//!
//! Invariant: a text stands here once; one that a single command uses stands beside it.

use base::quote::shown;
use keyspace::Refusal;

/// A word the command does not know, or words that exclude each other.
pub const SYNTAX: Refusal = Refusal::error("ERR syntax error");
/// An argument that should be a whole number.
pub const NOT_AN_INTEGER: Refusal = Refusal::error("ERR value is not an integer or out of range");
/// An argument that should be a number.
pub const NOT_A_FLOAT: Refusal = Refusal::error("ERR value is not a valid float");
/// A key that must exist.
pub const NO_SUCH_KEY: Refusal = Refusal::error("ERR no such key");
/// An index or offset outside the value.
pub const OUT_OF_RANGE: Refusal = Refusal::error("ERR index out of range");
/// A whole number that may not be negative, or not zero.
pub const NOT_POSITIVE: Refusal = Refusal::error("ERR value is out of range, must be positive");
/// A whole number that fits 64 bits but not the 32 that are asked for.
pub const NOT_IN_32_BITS: Refusal =
    Refusal::error("ERR value is out of range, value must between -2147483648 and 2147483647");
/// A whole number whose negative does not fit 64 bits.
pub const NOT_SYMMETRIC: Refusal = Refusal::error(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
/// A database that does not exist.
pub const DB_OUT_OF_RANGE: Refusal = Refusal::error("ERR DB index is out of range");
/// A whole number that would leave its 64 bits.
pub const INCREMENT_OVERFLOW: Refusal = Refusal::error("ERR increment or decrement would overflow");
/// A count of more elements than are drawn at a time.
pub const VALUE_OUT_OF_RANGE: Refusal = Refusal::error("ERR value is out of range");
/// A `numkeys` that is not positive.
pub const NO_KEYS: Refusal = Refusal::error("ERR numkeys should be greater than 0");
/// A `numkeys` beyond the arguments.
pub const TOO_MANY_KEYS: Refusal =
    Refusal::error("ERR Number of keys can't be greater than number of args");
/// A `LIMIT` below zero.
pub const NEGATIVE_LIMIT: Refusal = Refusal::error("ERR LIMIT can't be negative");
/// A time to wait that should be whole milliseconds.
pub const NOT_A_WHOLE_TIMEOUT: Refusal =
    Refusal::error("ERR timeout is not an integer or out of range");
/// A time to wait below zero.
pub const NEGATIVE_TIMEOUT: Refusal = Refusal::error("ERR timeout is negative");
/// A time to wait beyond the end of time.
pub const TIMEOUT_OUT_OF_RANGE: Refusal = Refusal::error("ERR timeout is out of range");
/// A count of elements to take that is not positive.
pub const NOTHING_TO_TAKE: Refusal = Refusal::error("ERR count should be greater than 0");
/// A member of a set of places that is not there.
pub const NO_SUCH_PLACE: Refusal = Refusal::error("ERR could not decode requested zset member");
/// Arguments whose key counts lie.
pub const INVALID_ARGUMENTS: Refusal =
    Refusal::error("ERR Invalid arguments specified for command");
/// EXEC behind a request that was refused.
pub const TRANSACTION_DISCARDED: Refusal =
    Refusal::error("EXECABORT Transaction discarded because of previous errors.");
/// A string that would become too long.
pub const TOO_LONG: Refusal =
    Refusal::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// A time to live that is not positive or too large.
#[must_use]
pub fn invalid_expire(command: &str) -> Refusal {
    Refusal::owned(format!("ERR invalid expire time in '{command}' command"))
}

/// The wrong number of arguments.
#[must_use]
pub fn wrong_arity(command: &str) -> Refusal {
    Refusal::owned(format!("ERR wrong number of arguments for '{command}' command"))
}

/// A word that no subcommand of a container has.
#[must_use]
pub fn unknown_subcommand(container: &str, word: &[u8]) -> Refusal {
    let after = format!("'. Try {container} HELP.");
    showing("ERR unknown subcommand '", shown(word, 128), &after)
}

/// An error that has a client's word, as far as it is [`shown`], between its halves.
#[must_use]
pub fn showing(before: &str, shown: &[u8], after: &str) -> Refusal {
    Refusal::owned([before.as_bytes(), shown, after.as_bytes()].concat())
}
