//! What the answer to an export means.
//!
//! Invariant: an answer of any content has a meaning, and what cannot be read of it counts as not
//! said.

use std::time::Duration;

use crate::protobuf::{Field, Fields};

/// More of an answer's body is not read.
pub const BODY_MAX: usize = 64 << 10;

/// What an answer means for what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The batch was taken, but for so many points or spans.
    Accepted {
        /// How many were not.
        rejected: u64,
    },
    /// The batch may be sent again.
    TryAgain {
        /// Not before so long, if the receiver said so.
        after: Option<Duration>,
    },
    /// The batch will never be taken.
    Refused,
}

impl Verdict {
    /// The meaning of this status, this header `Retry-After` and this body, at this second since
    /// 1970.
    pub fn of(status: u16, retry_after: Option<&str>, body: &[u8], now_s: u64) -> Self {
        match status {
            200..300 => Self::Accepted { rejected: rejected(body) },
            429 | 502 | 503 | 504 => {
                Self::TryAgain { after: retry_after.and_then(|text| pause(text, now_s)) }
            }
            _ => Self::Refused,
        }
    }
}

/// How many points or spans a body says were not taken.
fn rejected(body: &[u8]) -> u64 {
    let partial = Fields(body).find_map(|field| match field {
        (1, Field::Blob(partial)) => Some(partial),
        _ => None,
    });
    let number = Fields(partial.unwrap_or_default()).find_map(|field| match field {
        (1, Field::Number(number)) => Some(number),
        _ => None,
    });
    // The number is signed in the protocol.
    number.filter(|number| i64::try_from(*number).is_ok()).unwrap_or(0)
}

/// The pause that `Retry-After` asks for: seconds, or a date.
fn pause(text: &str, now_s: u64) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let date_s = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(date_s.saturating_sub(now_s)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry_proto::tonic::collector::metrics::v1::{
        ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
    };
    use prost::Message;

    use super::Verdict;

    /// 1994-11-06 08:49:37, the date of the examples in the standard of HTTP.
    const NOW_S: u64 = 784_111_777;

    fn verdict(status: u16) -> Verdict {
        Verdict::of(status, None, b"", NOW_S)
    }

    #[test]
    fn only_what_the_specification_names_is_sent_again() {
        for status in 100..600 {
            let expected = match status {
                200..300 => Verdict::Accepted { rejected: 0 },
                429 | 502 | 503 | 504 => Verdict::TryAgain { after: None },
                _ => Verdict::Refused,
            };
            assert_eq!(verdict(status), expected, "{status}");
        }
    }

    #[test]
    fn a_receiver_says_when_to_try_again() {
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some(23)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let after = seconds.map(Duration::from_secs);
            let told = Verdict::of(503, Some(text), b"", NOW_S);
            assert_eq!(told, Verdict::TryAgain { after }, "{text}");
        }
        assert_eq!(Verdict::of(500, Some("1"), b"", NOW_S), Verdict::Refused);
    }

    #[test]
    fn what_was_rejected_in_part_is_counted() {
        let answer = |rejected_data_points| {
            let partial = ExportMetricsPartialSuccess {
                rejected_data_points,
                error_message: "no".to_owned(),
            };
            ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        for (body, rejected) in [
            (answer(7), 7),
            (answer(0), 0),
            (answer(-1), 0),
            (b"{\"partialSuccess\":{}}".to_vec(), 0),
            (vec![0x0a, 0xff], 0),
        ] {
            let told = Verdict::of(200, None, &body, NOW_S);
            assert_eq!(told, Verdict::Accepted { rejected }, "{body:?}");
        }
    }
}
