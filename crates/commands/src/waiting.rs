//! What blocking commands share: until when they wait, and what is run once a key is ready.
//!
//! Invariant: a request that is run later has no time in it; its own wait would be endless.

use crate::errors::{NEGATIVE_TIMEOUT, TIMEOUT_OUT_OF_RANGE};
use base::long_double::LongDouble;
use base::number::{parse_f64, parse_f64_of_any_range};
use base::time::UnixMillis;
use keyspace::{BlockingKeys, EmptyReply, Refusal, Wait};

const NOT_A_TIMEOUT: Refusal = Refusal::error("ERR timeout is not a float or out of range");

/// What stands in the place of a timeout: there is none.
pub const ENDLESS: &[u8] = b"0";

/// When a timeout in seconds is over; never if it is 0.
pub fn deadline(seconds: &[u8], now: UnixMillis) -> Result<Option<UnixMillis>, Refusal> {
    LongDouble::parse(seconds).ok_or(NOT_A_TIMEOUT)?;
    // What only a longer float can tell is too long, or next to nothing.
    let of_any_range = || match parse_f64_of_any_range(seconds) {
        Some(0.0) if seconds.starts_with(b"-") => -f64::MIN_POSITIVE,
        Some(0.0) => f64::MIN_POSITIVE,
        Some(infinity) => infinity,
        None => f64::INFINITY,
    };
    let millis = (parse_f64(seconds).unwrap_or_else(of_any_range) * 1000.0).ceil();
    match millis {
        0.0 => Ok(None),
        ..0.0 => Err(NEGATIVE_TIMEOUT),
        // From here on a double is no i64 any more.
        9_223_372_036_854_775_808.0.. => Err(TIMEOUT_OUT_OF_RANGE),
        _ => now.checked_add(millis as i64).map(Some).ok_or(TIMEOUT_OUT_OF_RANGE),
    }
}

/// The refusal of a command that waits for keys.
#[must_use]
pub fn wait(awaited: BlockingKeys, deadline: Option<UnixMillis>) -> Refusal {
    let at_once = EmptyReply::NullArray;
    Refusal::Wait(Box::new(Wait {
        awaited,
        deadline,
        again: None,
        wakes_on_deletion: false,
        at_once,
    }))
}

/// The refusal of a command that waits for one element of one key.
#[must_use]
pub fn wait_for_element(awaited: BlockingKeys, deadline: Option<UnixMillis>) -> Refusal {
    let at_once = EmptyReply::Null;
    Refusal::Wait(Box::new(Wait {
        awaited,
        deadline,
        again: None,
        wakes_on_deletion: false,
        at_once,
    }))
}

#[cfg(test)]
mod tests {
    use super::{NEGATIVE_TIMEOUT, NOT_A_TIMEOUT, TIMEOUT_OUT_OF_RANGE, deadline};

    #[test]
    fn timeouts_are_seconds_with_fractions() {
        let now = 1_700_000_000_000;
        let table: &[(&str, _)] = &[
            ("0", Ok(None)),
            ("-0", Ok(None)),
            ("-0.0001", Ok(None)),
            ("0.0000001", Ok(Some(now + 1))),
            // Less than a double can say.
            ("1e-400", Ok(Some(now + 1))),
            ("-1e-400", Ok(None)),
            ("0.01", Ok(Some(now + 10))),
            ("1.5", Ok(Some(now + 1500))),
            ("0x10", Ok(Some(now + 16_000))),
            ("1e15", Ok(Some(now + 1_000_000_000_000_000_000))),
            ("9223372036854774", Err(TIMEOUT_OUT_OF_RANGE)),
            ("9223372036854776", Err(TIMEOUT_OUT_OF_RANGE)),
            ("1e17", Err(TIMEOUT_OUT_OF_RANGE)),
            ("1e400", Err(TIMEOUT_OUT_OF_RANGE)),
            ("inf", Err(TIMEOUT_OUT_OF_RANGE)),
            ("-1", Err(NEGATIVE_TIMEOUT)),
            ("-inf", Err(NEGATIVE_TIMEOUT)),
            ("-1e400", Err(NEGATIVE_TIMEOUT)),
            ("nan", Err(NOT_A_TIMEOUT)),
            ("", Err(NOT_A_TIMEOUT)),
            ("x", Err(NOT_A_TIMEOUT)),
            (" 1", Err(NOT_A_TIMEOUT)),
        ];
        for (text, expected) in table {
            assert_eq!(deadline(text.as_bytes(), now), *expected, "{text}");
        }
    }
}
