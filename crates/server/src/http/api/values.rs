//! A key: what it is, and a page of its value.
//!
//! Invariant: a page is asked for by a range or a cursor, so no value is read whole.

use proto::value::Value;

use super::super::command_session::{Caller, Words};
use super::super::json::{object, quoted, reply};
use super::super::query::Query;
use super::super::response::Failure;
use super::{accepted, json, open, or_null, words};
use crate::http::HttpState;

/// The elements of a page, and the bytes of a page of a string.
const ELEMENTS: u64 = 100;
const BYTES: u64 = 4096;

/// How the pages of a type follow each other.
enum Paging {
    /// By positions, so many on a page.
    Positions(u64),
    /// By the cursor that a reply begins with.
    Cursor,
    /// By the id of the last element.
    Ids,
}

/// The commands for a type's length and for a page.
struct Page {
    length: Words,
    items: Words,
    paging: Paging,
}

/// `/api/key`.
pub(super) async fn show(caller: &Caller, query: &Query) -> Result<String, Failure> {
    let server = caller.server;
    let name = query.get("name").ok_or_else(|| Failure::of_caller("'name' is missing"))?;
    let mut session = open(caller, query).await?;
    let questions = [
        words(server, [b"TYPE", name])?,
        words(server, [b"PTTL", name])?,
        words(server, [b"OBJECT", b"ENCODING", name])?,
        words(server, [b"MEMORY", b"USAGE", name])?,
    ];
    let told = session.run(&questions).await?;
    let kind = accepted(told[0].clone())?;
    let kind = kind.as_bytes().unwrap_or_default();
    let mut members = vec![
        ("name", json::bytes(name)),
        ("type", json::bytes(kind)),
        ("ttl_ms", or_null(&told[1])),
        ("encoding", or_null(&told[2])),
        ("bytes", or_null(&told[3])),
    ];
    let at = query.get("at").unwrap_or_default();
    if let Some(page) = page_of(server, kind, name, at)? {
        let mut replies = session.run(&[page.length, page.items]).await?.into_iter();
        let length = accepted(replies.next().unwrap_or(Value::Null))?;
        let items = accepted(replies.next().unwrap_or(Value::Null))?;
        let (next, items) = turn(&page.paging, at, &length, items);
        members.push(("length", reply(&length)));
        members.push(("next", next.map_or("null".to_owned(), |next| quoted(&next))));
        members.push(("items", items));
    }
    Ok(object(members))
}

/// The commands for a page; none for a type of which only the key is shown.
fn page_of(
    server: &HttpState,
    kind: &[u8],
    name: &[u8],
    at: &[u8],
) -> Result<Option<Page>, Failure> {
    let text = std::str::from_utf8(at).unwrap_or("?");
    let begin = match text {
        "" => Some(0),
        text => text.parse::<u64>().ok(),
    };
    let wrong = || Failure::of_caller("'at' is not what a page before said.");
    let number = |begin: Option<u64>| begin.ok_or_else(wrong);
    let range = |size: u64| -> Result<[Vec<u8>; 2], Failure> {
        let first = number(begin)?;
        let last = first.saturating_add(size - 1);
        Ok([first, last].map(|it| it.min(i64::MAX as u64).to_string().into_bytes()))
    };
    let count = ELEMENTS.to_string();
    let count = count.as_bytes();
    let page = |length: [&[u8]; 2], items: Result<Words, Failure>, paging| {
        Ok(Some(Page { length: words(server, length)?, items: items?, paging }))
    };
    let scan = |command: &[u8]| {
        let cursor = number(begin)?.to_string();
        words(server, [command, name, cursor.as_bytes(), b"COUNT", count])
    };
    match kind {
        b"string" => {
            let [first, last] = range(BYTES)?;
            let items = words(server, [b"GETRANGE", name, &first, &last]);
            page([b"STRLEN", name], items, Paging::Positions(BYTES))
        }
        b"list" => {
            let [first, last] = range(ELEMENTS)?;
            let items = words(server, [b"LRANGE", name, &first, &last]);
            page([b"LLEN", name], items, Paging::Positions(ELEMENTS))
        }
        b"zset" => {
            let [first, last] = range(ELEMENTS)?;
            let items = words(server, [b"ZRANGE", name, &first, &last, b"WITHSCORES"]);
            page([b"ZCARD", name], items, Paging::Positions(ELEMENTS))
        }
        b"hash" => page([b"HLEN", name], scan(b"HSCAN"), Paging::Cursor),
        b"set" => page([b"SCARD", name], scan(b"SSCAN"), Paging::Cursor),
        b"stream" => {
            let first = if at.is_empty() { b"-".to_vec() } else { [b"(", at].concat() };
            let items = words(server, [b"XRANGE", name, &first, b"+", b"COUNT", count]);
            page([b"XLEN", name], items, Paging::Ids)
        }
        b"array" => {
            let [first, _] = range(ELEMENTS)?;
            let last = (u64::MAX - 1).to_string();
            let items = [b"ARSCAN", name, &first, last.as_bytes(), b"LIMIT", count];
            page([b"ARCOUNT", name], words(server, items), Paging::Ids)
        }
        _ => Ok(None),
    }
}

/// Where the next page begins, if there is one, and the items of this one.
fn turn(paging: &Paging, at: &[u8], length: &Value, items: Value) -> (Option<String>, String) {
    match (paging, items) {
        (Paging::Positions(size), items) => {
            let at = std::str::from_utf8(at).ok().and_then(|at| at.parse().ok()).unwrap_or(0_u64);
            let next = at.saturating_add(*size);
            let length = if let Value::Integer(length) = length { *length } else { 0 };
            let is_more = i64::try_from(next).is_ok_and(|next| next < length);
            (is_more.then(|| next.to_string()), reply(&items))
        }
        (Paging::Cursor, Value::Array(parts)) if parts.len() == 2 => {
            let cursor = parts[0].as_bytes().map(|it| String::from_utf8_lossy(it).into_owned());
            (cursor.filter(|cursor| cursor != "0"), reply(&parts[1]))
        }
        (Paging::Ids, Value::Array(entries)) => {
            let is_full = entries.len() as u64 == ELEMENTS;
            let last = entries.last().filter(|_| is_full).and_then(|entry| match entry {
                Value::Array(parts) => match parts.first()? {
                    Value::Integer(index) => Some((index + 1).to_string()),
                    id => id.as_bytes().map(|id| String::from_utf8_lossy(id).into_owned()),
                },
                _ => None,
            });
            (last, reply(&Value::Array(entries)))
        }
        (_, items) => (None, reply(&items)),
    }
}
