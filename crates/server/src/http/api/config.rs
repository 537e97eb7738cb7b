//! The configuration: each directive with its value and what it does.
//!
//! Invariant: values are those that CONFIG GET tells this user; a secret is never told.

use config::{Config, ConfigOption, Mutability, Status};
use proto::value::Value;

use super::super::command_session::Caller;
use super::super::json::{array, bytes, object, quoted};
use super::super::response::Failure;
use super::{run, words};

/// `/api/config`.
pub(super) async fn list(caller: &Caller) -> Result<String, Failure> {
    let told = run(caller, words(caller.server, [b"CONFIG", b"GET", b"*"])?).await?;
    let Value::Map(pairs) = told else { return Ok(array([])) };
    let pairs = pairs
        .iter()
        .filter_map(|(name, value)| Some((name.as_bytes()?, value.as_bytes().unwrap_or_default())));
    let defaults = Config::new();
    Ok(array(pairs.map(|(name, value)| directive(&defaults, name, value))))
}

fn directive(defaults: &Config, name: &[u8], value: &[u8]) -> String {
    let Some(option) = ConfigOption::named(name) else {
        return object([("name", bytes(name)), ("value", bytes(value))]);
    };
    let is_secret = option.sensitive && !value.is_empty();
    let access = match option.mutability {
        Mutability::Live => "live",
        Mutability::Startup => "startup",
        Mutability::Protected => "protected",
    };
    let status = match option.status {
        Status::Works => "works",
        Status::Accepted => "accepted",
        Status::NotYet | Status::Missing => "not yet",
    };
    object([
        ("name", bytes(name)),
        ("value", if is_secret { quoted("(secret)") } else { bytes(value) }),
        ("default", bytes(&defaults.show(name).unwrap_or_default())),
        ("access", quoted(access)),
        ("status", quoted(status)),
        ("doc", quoted(option.doc)),
        ("cost", quoted(option.cost)),
    ])
}
