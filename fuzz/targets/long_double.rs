//! Numbers: what is printed is read again, sums do not depend on the order, and doubles agree
//! with std.
#![no_main]

use base::LongDouble;
use base::number::{format_f64, parse_f64};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut words = data.splitn(2, |byte| *byte == b' ');
    let (left, right) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if let Some(number) = parse_f64(left) {
        assert_eq!(parse_f64(&format_f64(number)), Some(number));
        let plain = std::str::from_utf8(left).ok().and_then(|text| text.parse::<f64>().ok());
        assert!(plain.is_none_or(|plain| plain == number));
    }
    let (Some(left), Some(right)) = (LongDouble::parse(left), LongDouble::parse(right)) else {
        return;
    };
    let sum = left + right;
    let text = sum.format_human();
    assert_eq!(text, (right + left).format_human());
    if sum.is_finite() {
        let again = LongDouble::parse(text.as_bytes()).expect("what is printed can be read");
        assert_eq!(again.format_human(), text);
    }
});
