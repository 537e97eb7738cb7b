//! A page of the keys: their names by SCAN, and of each its type, deadline and memory.
//!
//! Invariant: one request looks at a bounded number of keys, however few of them match.

use proto::value::Value;

use super::super::command_session::{Caller, Words};
use super::super::json::{self, array, object, reply};
use super::super::query::Query;
use super::super::response::Failure;
use super::{accepted, open, or_null, words};

/// How many keys a request looks at: unless told otherwise, and at most.
const COUNT: u64 = 200;
const COUNT_MOST: u64 = 1000;

/// What is asked of each key.
const QUESTIONS: usize = 3;

/// `/api/keys`.
pub(super) async fn list(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let mut session = open(caller, query).await?;
    let scan = scan(caller, query)?;
    let found = session.run(&[scan]).await?.pop().unwrap_or(Value::Null);
    let Value::Array(parts) = accepted(found)? else { return Err(strange()) };
    let [cursor, Value::Array(names)] = &parts[..] else { return Err(strange()) };
    let names: Vec<&[u8]> = names.iter().filter_map(Value::as_bytes).collect();
    let mut questions = Vec::with_capacity(names.len() * QUESTIONS);
    for name in &names {
        questions.push(words(caller.server, [b"TYPE", name])?);
        questions.push(words(caller.server, [b"PTTL", name])?);
        questions.push(words(caller.server, [b"MEMORY", b"USAGE", name])?);
    }
    let replies = session.run(&questions).await?;
    let rows = names.iter().zip(replies.chunks(QUESTIONS)).map(|(name, told)| {
        object([
            ("name", json::bytes(name)),
            ("type", or_null(&told[0])),
            ("ttl_ms", or_null(&told[1])),
            ("bytes", or_null(&told[2])),
        ])
    });
    Ok(object([("cursor", reply(cursor)), ("keys", array(rows))]))
}

fn scan(caller: &Caller, query: &Query) -> Result<Words, Failure> {
    let cursor = query.number("cursor", 0).map_err(Failure::of_caller)?.to_string();
    let count = query.number("count", COUNT).map_err(Failure::of_caller)?;
    let count = count.clamp(1, COUNT_MOST).to_string();
    let mut scan = words(caller.server, [b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()])?;
    let mut push = |name: &[u8], value: Vec<u8>| scan.extend([name.to_vec(), value]);
    match (query.get("match"), query.get("prefix")) {
        (Some(pattern), _) if !pattern.is_empty() => push(b"MATCH", pattern.to_vec()),
        (_, Some(prefix)) if !prefix.is_empty() => push(b"MATCH", begins_with(prefix)),
        _ => (),
    }
    if let Some(kind) = query.get("type").filter(|kind| !kind.is_empty()) {
        push(b"TYPE", kind.to_vec());
    }
    Ok(scan)
}

/// The pattern of what begins so.
fn begins_with(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for byte in prefix {
        if b"*?[]\\^".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

fn strange() -> Failure {
    Failure::of_caller("SCAN did not answer as it should.")
}

#[cfg(test)]
mod tests {
    use base::glob;

    use super::begins_with;

    #[test]
    fn a_prefix_means_itself() {
        for prefix in [&b"a*b"[..], b"[x]", b"\\", b"?^-", b"\xff\x00"] {
            let pattern = begins_with(prefix);
            assert!(glob::matches(&pattern, &[prefix, b"..."].concat(), false), "{prefix:?}");
            assert!(!glob::matches(&pattern, &[b"x", prefix].concat(), false), "{prefix:?}");
        }
        assert!(!glob::matches(&begins_with(b"a*b"), b"axb", false));
    }
}
