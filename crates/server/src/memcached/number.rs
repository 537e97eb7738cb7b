//! The number in an item, as memcached's arithmetic finds it.
//!
//! Invariant: what memcached takes for a number is one, with the same value, and nothing else is.

use keyspace::Text;

/// The number that an item begins with: digits, with spaces and a sign before them at most, and
/// what stands behind them apart from them. A minus turns a number around 64 bits, and where that
/// is a negative one of 63 bits there is none.
pub(super) fn number_of(text: Text<'_>) -> Option<u64> {
    match text {
        Text::Integer(number) => u64::try_from(number).ok(),
        Text::Inline(bytes) => {
            let text = bytes.trim_ascii_start();
            let minus = text.strip_prefix(b"-");
            let text = minus.or(text.strip_prefix(b"+")).unwrap_or(text);
            let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
            // What stands behind the number is apart from it.
            let (digits, behind) = text.split_at(end);
            let is_apart =
                behind.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0);
            let number: u64 = str::from_utf8(digits).ok().filter(|_| is_apart)?.parse().ok()?;
            match minus {
                None => Some(number),
                Some(_) => i64::try_from(number.wrapping_neg()).ok().map(i64::cast_unsigned),
            }
        }
        Text::Large(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Text;

    use super::number_of;

    #[test]
    fn numbers_are_digits_that_stand_apart() {
        let number = |text: &'static [u8]| number_of(Text::Inline(text));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"9 "), Some(9));
        assert_eq!(number(b" +1"), Some(1));
        assert_eq!(number(b"1 2"), Some(1));
        assert_eq!(number(b"-0"), Some(0));
        assert_eq!(number(b" -00 5"), Some(0));
        assert_eq!(number(b"-9223372036854775809"), Some(i64::MAX.cast_unsigned()));
        assert_eq!(number(b"-18446744073709551615"), Some(1));
        assert_eq!(number(b"-9223372036854775808"), None);
        for none in [&b""[..], b" ", b"-1", b"+", b"-", b"+-1", b"++1", b"1x", b"0-", b"x"] {
            assert_eq!(number(none), None, "{}", none.escape_ascii());
        }
        for none in [&b"18446744073709551616"[..], b"-18446744073709551616"] {
            assert_eq!(number(none), None, "{}", none.escape_ascii());
        }
        assert_eq!(number_of(Text::Integer(-1)), None);
    }
}
