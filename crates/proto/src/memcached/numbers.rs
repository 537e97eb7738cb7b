//! Numbers as the memcached protocols have them: laxer than Redis', with plus signs and leading
//! zeros.
//!
//! Invariant: what does not fit into its type is no number, and nothing wraps, but where memcached
//! has it so: times and client flags are the low bits of what was sent, and a minus sign is that of
//! C's `strtoull`, of which memcached refuses what has the highest bit set.

/// A number of up to 64 bits without a sign.
#[inline]
pub(super) fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'-', digits @ ..] => {
            let wrapped = parse_digits(digits)?.wrapping_neg();
            (wrapped <= i64::MAX as u64).then_some(wrapped)
        }
        [b'+', digits @ ..] => parse_digits(digits),
        digits => parse_digits(digits),
    }
}

#[inline]
fn parse_digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A client's flags: the low 32 bits of a number without a sign.
#[inline]
pub(super) fn parse_flags(text: &[u8]) -> Option<u32> {
    parse_u64(text).map(|number| number as u32)
}

/// A number of 64 bits with a sign.
#[inline]
pub(super) fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => 0_i64.checked_sub_unsigned(parse_digits(digits)?),
        digits => parse_u64(digits)?.try_into().ok(),
    }
}

/// A time: the low 32 bits of a number, with a sign.
#[inline]
pub(super) fn parse_time(text: &[u8]) -> Option<i64> {
    parse_i64(text).map(|number| i64::from(number as i32))
}

/// A number of 32 bits with a sign.
#[inline]
pub(super) fn parse_i32(text: &[u8]) -> Option<i32> {
    parse_i64(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_flags, parse_i32, parse_i64, parse_time, parse_u64};

    #[test]
    fn numbers_fit_or_are_none() {
        let table: [(&str, Option<u64>); 18] = [
            ("0", Some(0)),
            ("007", Some(7)),
            ("+7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999999", None),
            ("-0", Some(0)),
            ("-1", None),
            ("-9223372036854775808", None),
            ("-9223372036854775809", Some(i64::MAX as u64)),
            ("-18446744073709551615", Some(1)),
            ("-18446744073709551616", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("1x", None),
            ("++1", None),
            ("-+1", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_u64(text.as_bytes()), expected, "{text:?}");
        }
        let flags = [
            ("4294967295", Some(u32::MAX)),
            ("4294967296", Some(0)),
            ("4294967297", Some(1)),
            ("18446744073709551615", Some(u32::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
        ];
        for (text, expected) in flags {
            assert_eq!(parse_flags(text.as_bytes()), expected, "{text}");
        }
        let times = [
            ("2147483647", Some(i64::from(i32::MAX))),
            ("2147483648", Some(i64::from(i32::MIN))),
            ("4294967295", Some(-1)),
            ("4294967296", Some(0)),
            ("4294967297", Some(1)),
            ("-4294967295", Some(1)),
            ("9223372036854775807", Some(-1)),
            ("-9223372036854775808", Some(0)),
            ("9223372036854775808", None),
        ];
        for (text, expected) in times {
            assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(parse_i32(b"-2147483649"), None);
        assert_eq!(parse_i32(b"2147483648"), None);
        for text in ["-", "-+1", "--1", "+-1"] {
            assert_eq!(parse_i32(text.as_bytes()), None, "{text:?}");
        }
    }
}
