//! `--scan`: the names of all keys, a line each.
//!
//! Invariant: the server is asked for no more at a time than SCAN gives.

use std::process::ExitCode;

use base::quote::quote;
use proto::value::Value;

use crate::client::{Client, print};
use crate::options::Output;

/// Prints names until SCAN is through.
pub(crate) fn scan(client: &mut Client) -> Result<ExitCode, String> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut request = vec![b"SCAN".to_vec(), cursor];
        if let Some(pattern) = &client.options.pattern {
            request.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = client.options.scan_count {
            request.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        let reply = client.ask(&request).map_err(|why| format!("ERROR: {why}"))?;
        let Value::Array(parts) = reply else { return Err(STRANGE.to_owned()) };
        let [next, Value::Array(keys)] = parts.as_slice() else { return Err(STRANGE.to_owned()) };
        let mut text = Vec::new();
        for key in keys.iter().filter_map(Value::as_bytes) {
            match client.formatter.output {
                Output::Standard => text.extend_from_slice(quote(key).as_bytes()),
                _ => text.extend_from_slice(key),
            }
            text.push(b'\n');
        }
        print(&text);
        cursor = next.as_bytes().ok_or(STRANGE)?.to_vec();
        if cursor == b"0" {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(interval) = client.options.interval {
            std::thread::sleep(interval);
        }
    }
}

const STRANGE: &str = "Non ARRAY response from SCAN!";
