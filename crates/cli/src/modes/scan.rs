//! `--scan`: the names of all keys, a line each.
//!
//! Invariant: a page is printed before the server is asked for the next one.

use std::process::ExitCode;

use base::quote::quote;

use super::walk::Walk;
use crate::client::{Client, print};
use crate::options::Output;

/// Prints names until SCAN is through.
pub(crate) fn scan(client: &mut Client) -> Result<ExitCode, String> {
    let mut walk = Walk::from(client.options.cursor);
    while let Some(keys) = walk.next(client).map_err(|why| format!("ERROR: {why}"))? {
        let mut text = Vec::new();
        for key in &keys {
            match client.formatter.output {
                Output::Standard => text.extend_from_slice(quote(key).as_bytes()),
                _ => text.extend_from_slice(key),
            }
            text.push(b'\n');
        }
        print(&text);
        if let Some(interval) = client.options.interval.filter(|_| !walk.is_over()) {
            std::thread::sleep(interval);
        }
    }
    Ok(ExitCode::SUCCESS)
}
