//! The hot keys, the big keys and the prefixes, as KEYSTATS tells them.
//!
//! Invariant: each is told by its command, with the rights that the command asks for.

use proto::value::Value;

use super::super::command_session::Caller;
use super::super::json::{array, object, reply};
use super::super::query::Query;
use super::super::response::Failure;
use super::{run, words};

/// How many rows are told.
const MOST: &[u8] = b"100";

/// `/api/hotkeys`, by requests, bytes or time.
pub(super) async fn hot(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let by = query.get("by").unwrap_or(b"requests");
    let request = words(caller.server, [b"KEYSTATS", b"HOT", b"BY", by, b"COUNT", MOST])?;
    Ok(row(&run(caller, request).await?))
}

/// `/api/bigkeys`, by memory or elements.
pub(super) async fn big(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let by = query.get("by").unwrap_or(b"memory");
    let request = words(caller.server, [b"KEYSTATS", b"BIG", b"BY", by, b"COUNT", MOST])?;
    Ok(row(&run(caller, request).await?))
}

/// `/api/prefixes`: counts all keys.
pub(super) async fn prefixes(caller: &Caller) -> Result<String, Failure> {
    let request = words(caller.server, [b"KEYSTATS", b"PREFIXES", b"COUNT", MOST])?;
    Ok(row(&run(caller, request).await?))
}

/// A reply whose maps have names of members for keys.
fn row(value: &Value) -> String {
    match value {
        Value::Array(items) => array(items.iter().map(row)),
        Value::Map(pairs) => {
            let name = |key: &Value| {
                String::from_utf8_lossy(key.as_bytes().unwrap_or_default()).into_owned()
            };
            let members: Vec<(String, String)> =
                pairs.iter().map(|(key, value)| (name(key), row(value))).collect();
            object(members.iter().map(|(name, value)| (name.as_str(), value.clone())))
        }
        other => reply(other),
    }
}

#[cfg(test)]
mod tests {
    use proto::value::Value;

    use super::row;

    #[test]
    fn a_map_is_an_object() {
        let text = |text: &str| Value::Bulk(text.into());
        let inner = Value::Map(vec![(text("key"), text("a")), (text("db"), Value::Integer(1))]);
        assert_eq!(row(&Value::Array(vec![inner])), r#"[{"key":"a","db":1}]"#);
    }
}
