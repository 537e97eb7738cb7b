//! What real servers do otherwise on purpose, where programs show it.

use proto::value::Value;

use crate::differential::Exception;

/// For Redis 7.0.
pub const PROGRAMS_REDIS70: &[Exception] = &[ENCODED];

/// For Valkey 9.1.
pub const PROGRAMS_VALKEY91: &[Exception] = &[NAMELESS, TABLE_ORDER, ENCODED];

/// What Redis says of an argument that is neither a string nor a number, and what Valkey does.
const REDIS_WORDS: &str = "lua redis lib command arguments";
const VALKEY_WORDS: &str = "command arguments";

const NAMELESS: Exception = Exception {
    reason: "Valkey's errors do not name the script, and one is worded anew",
    applies: |_, ours, theirs| {
        let (ours, theirs) = (texts(ours), texts(theirs));
        // A program may have put it into a form in which its length shows.
        let say = |text: &str, words| text.to_ascii_lowercase().contains(words);
        say(&ours, REDIS_WORDS) && say(&theirs, VALKEY_WORDS) || nameless(&ours) == theirs
    },
};

const TABLE_ORDER: Exception = Exception {
    reason: "Valkey hashes strings in another way, so the fields of a table come in another order",
    applies: |_, ours, theirs| {
        let letters = |value: &Value| {
            let mut letters = nameless(&texts(value)).into_bytes();
            letters.sort_unstable();
            letters
        };
        letters(ours) == letters(theirs)
    },
};

const ENCODED: Exception = Exception {
    reason: "real servers keep a value as text that a script set from an argument they hold on to",
    applies: |command, ours, theirs| {
        command[0] == b"OBJECT"
            && ours.as_bytes() == Some(b"int")
            && matches!(theirs.as_bytes(), Some(b"embstr" | b"raw"))
    },
};

/// All of a reply as one text, each byte a character.
fn texts(value: &Value) -> String {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let list = |values: &[Value]| values.iter().map(texts).collect::<Vec<_>>().join(", ");
    match value {
        Value::Array(values) => format!("[{}]", list(values)),
        Value::Set(values) => format!("{{{}}}", list(values)),
        Value::Map(pairs) => {
            let pair = |(key, value)| format!("{}: {}, ", texts(key), texts(value));
            let pairs = pairs.iter().map(|(key, value)| pair((key, value)));
            format!("{{{}}}", pairs.collect::<String>())
        }
        Value::Error(bytes) => format!("-{}", text(bytes)),
        other => match other.as_bytes() {
            Some(bytes) => text(bytes),
            None => format!("{other:?}"),
        },
    }
}

/// Without the name of the script.
fn nameless(text: &str) -> String {
    const BEFORE: &str = " script: ";
    let Some((message, place)) = text.rsplit_once(BEFORE) else { return text.to_owned() };
    match place.split_once(", on ") {
        Some((_, line)) => format!("{message}{BEFORE}on {line}"),
        None => text.to_owned(),
    }
}
