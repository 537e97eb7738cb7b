//! `--rdb` and `--functions-rdb`: a snapshot of the server's data, in a file here.
//!
//! Invariant: success means that the file holds all of the snapshot.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use base::io_error_text::strerror;

use super::bulk_transfer::{BulkEnd, announce, head, receive};
use crate::client::Client;
use crate::options::SnapshotContent;

/// Fetches a snapshot.
pub(crate) fn snapshot(
    client: &mut Client,
    path: &Path,
    content: SnapshotContent,
) -> Result<ExitCode, String> {
    client.connect()?;
    let connection = client.connection()?;
    announce(connection, ["capa", "eof"])?;
    announce(connection, ["rdb-only", "1"])?;
    if content == SnapshotContent::Functions
        && !announce(connection, ["rdb-filter-only", "functions"])?
    {
        return Err("Failed requesting functions only RDB from server, aborting".to_owned());
    }
    connection.send_bytes(b"SYNC\r\n").map_err(|failure| format!("Error: {failure}"))?;
    let end = head(connection)?;
    let name = path.display();
    match &end {
        BulkEnd::After(length) => {
            eprintln!("SYNC sent to master, writing {length} bytes to '{name}'");
        }
        BulkEnd::Mark(_) | BulkEnd::Nothing => {
            eprintln!(
                "SYNC sent to master, writing bytes of bulk transfer until EOF marker to '{name}'"
            );
        }
    }
    let mut out: Box<dyn Write> = match path.to_str() {
        Some("-") => Box::new(std::io::stdout().lock()),
        _ => {
            let file = File::create(path);
            Box::new(file.map_err(|it| format!("Error opening '{name}': {}", strerror(&it)))?)
        }
    };
    let failed =
        |error: std::io::Error| format!("Error writing data to file: {}", strerror(&error));
    let count = receive(connection, &end, |bytes| out.write_all(bytes).map_err(failed))?;
    out.flush().map_err(failed)?;
    if path.to_str() != Some("-") {
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.map_err(|error| format!("Fail to fsync '{name}': {}", strerror(&error)))?;
    }
    match end {
        BulkEnd::After(_) => eprintln!("Transfer finished with success."),
        BulkEnd::Mark(_) | BulkEnd::Nothing => {
            eprintln!("Transfer finished with success after {count} bytes");
        }
    }
    Ok(ExitCode::SUCCESS)
}
