//! Lists that commands tell: the clients, and the slow commands.
//!
//! Invariant: each is told by its command, with the rights that the command asks for.

use proto::value::Value;

use super::super::command_session::Caller;
use super::super::json::{array, object, quoted, reply};
use super::super::response::Failure;
use super::{run, words};

/// How many slow commands are told.
const SLOW_MOST: &[u8] = b"128";

/// `/api/clients`: CLIENT LIST, an object for each client.
pub(super) async fn clients(caller: &Caller) -> Result<String, Failure> {
    let list = run(caller, words(caller.server, [b"CLIENT", b"LIST"])?).await?;
    let text = String::from_utf8_lossy(list.as_bytes().unwrap_or_default()).into_owned();
    Ok(array(text.lines().map(client)))
}

fn client(line: &str) -> String {
    let pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    object(pairs.map(|(name, value)| (name, quoted(value))))
}

/// `/api/slow`: SLOWLOG GET, an object for each command, the newest first.
pub(super) async fn slow(caller: &Caller) -> Result<String, Failure> {
    let list = run(caller, words(caller.server, [b"SLOWLOG", b"GET", SLOW_MOST])?).await?;
    let Value::Array(entries) = list else { return Ok(array([])) };
    const NAMES: [&str; 6] = ["id", "time", "micros", "words", "addr", "name"];
    Ok(array(entries.iter().map(|entry| {
        let Value::Array(parts) = entry else { return object([]) };
        object(NAMES.into_iter().zip(parts.iter().map(reply)))
    })))
}

#[cfg(test)]
mod tests {
    use super::client;

    #[test]
    fn a_client_is_an_object_of_its_fields() {
        let told = client("id=3 addr=127.0.0.1:1 name= cmd=client|list");
        let expected = r#"{"id":"3","addr":"127.0.0.1:1","name":"","cmd":"client|list"}"#;
        assert_eq!(told, expected);
    }
}
