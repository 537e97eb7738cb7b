//! What the API says, as JSON.
//!
//! Invariant: a string of a client's is a JSON string where it is UTF-8, and else an object with
//! its base64; so every name comes back as it was.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::value::Value;

/// A string of JSON.
pub(super) fn quoted(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..b' ' => "\\u00",
            _ => continue,
        };
        quoted.push_str(&text[plain_from..at]);
        quoted.push_str(escape);
        if escape.len() > 2 {
            quoted.extend([byte >> 4, byte & 15].map(|it| char::from(DIGITS[usize::from(it)])));
        }
        plain_from = at + 1;
    }
    quoted.push_str(&text[plain_from..]);
    quoted.push('"');
    quoted
}

/// How many bytes of JSON these bytes of a reply become, about.
pub(super) fn bytes_for(reply: &[u8]) -> usize {
    let more = reply.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..b' ' => 5,
        _ => 0,
    });
    reply.len() + more.sum::<usize>()
}

/// Bytes of a client's.
pub(super) fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => quoted(text),
        Err(_) => format!("{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)),
    }
}

/// An object of these members, whose values are JSON already.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members = members.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
    format!("{{{}}}", joined(members))
}

/// An array of what is JSON already.
pub(super) fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", joined(items))
}

/// A reply. What JSON has no word for is an object of one member, named by its type.
pub(super) fn reply(value: &Value) -> String {
    match value {
        Value::Simple(text) => object([("status", bytes(text))]),
        Value::Error(text) => object([("error", bytes(text))]),
        Value::Integer(number) => integer(*number),
        Value::Bulk(text) | Value::Verbatim(_, text) => bytes(text),
        Value::BigNumber(digits) => object([("integer", bytes(digits))]),
        Value::Null | Value::NullArray => "null".to_owned(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            array(items.iter().map(reply))
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| array([reply(key), reply(value)]));
            object([("map", array(pairs))])
        }
        Value::Double(number) => double(*number),
        Value::DoubleText(text) => object([("double", bytes(text))]),
        Value::Boolean(truth) => truth.to_string(),
        Value::Attributed(_, value) => reply(value),
    }
}

/// A reply whose maps have names of members for keys.
pub(super) fn record(value: &Value) -> String {
    match value {
        Value::Array(items) => array(items.iter().map(record)),
        Value::Map(pairs) => {
            let name = |key: &Value| {
                String::from_utf8_lossy(key.as_bytes().unwrap_or_default()).into_owned()
            };
            let members: Vec<(String, String)> =
                pairs.iter().map(|(key, value)| (name(key), record(value))).collect();
            object(members.iter().map(|(name, value)| (name.as_str(), value.clone())))
        }
        other => reply(other),
    }
}

/// A number that readers which have doubles only still read right.
pub(super) fn integer(number: i64) -> String {
    const EXACT: u64 = 1 << 53;
    match number.unsigned_abs() <= EXACT {
        true => number.to_string(),
        false => object([("integer", quoted(&number.to_string()))]),
    }
}

fn double(number: f64) -> String {
    match number.is_finite() {
        true => number.to_string(),
        false => object([("double", quoted(&number.to_string().to_lowercase()))]),
    }
}

fn joined(items: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(text, "{comma}{item}").expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use proto::value::Value;

    use super::{bytes, bytes_for, quoted, record, reply};

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("a\"\\\n\u{1}\u{1f}\u{e9}"), "\"a\\\"\\\\\\n\\u0001\\u001f\u{e9}\"");
        assert_eq!(bytes(b"</script>"), "\"</script>\"");
        assert_eq!(bytes(b"\xff\x00"), "{\"base64\":\"/wA=\"}");
        for text in ["", "a\"\\\n\r\t\u{1}", "\u{1}\u{1f}", "\u{e9}"] {
            assert_eq!(quoted(text).len(), bytes_for(text.as_bytes()) + 2, "{text:?}");
        }
    }

    #[test]
    fn a_map_with_names_is_an_object() {
        let text = |text: &str| Value::Bulk(text.into());
        let inner = Value::Map(vec![(text("key"), text("a")), (text("db"), Value::Integer(1))]);
        assert_eq!(record(&Value::Array(vec![inner])), r#"[{"key":"a","db":1}]"#);
    }

    #[test]
    fn every_kind_of_reply_is_json() {
        let text = |text: &str| Value::Bulk(text.into());
        let table = [
            (Value::Simple(b"OK".to_vec()), r#"{"status":"OK"}"#),
            (Value::Error(b"ERR x".to_vec()), r#"{"error":"ERR x"}"#),
            (Value::Integer(-7), "-7"),
            (Value::Integer(i64::MAX), r#"{"integer":"9223372036854775807"}"#),
            (Value::Integer(i64::MIN), r#"{"integer":"-9223372036854775808"}"#),
            (text("a"), r#""a""#),
            (Value::Null, "null"),
            (Value::NullArray, "null"),
            (Value::Array(vec![]), "[]"),
            (Value::Set(vec![text("a"), Value::Integer(1)]), r#"["a",1]"#),
            (Value::Map(vec![(text("a"), Value::Boolean(true))]), r#"{"map":[["a",true]]}"#),
            (Value::Double(1.5), "1.5"),
            (Value::Double(f64::NEG_INFINITY), r#"{"double":"-inf"}"#),
            (Value::BigNumber(b"123".to_vec()), r#"{"integer":"123"}"#),
            (Value::Verbatim(*b"txt", b"hi".to_vec()), r#""hi""#),
            (Value::Attributed(vec![], Box::new(text("x"))), r#""x""#),
        ];
        for (value, expected) in table {
            assert_eq!(reply(&value), expected, "{value:?}");
        }
    }
}
