//! `--replica`, SYNC and PSYNC: the commands that a primary sends to its replicas, a line each.
//!
//! Invariant: lines are comma-separated values, whatever form replies have otherwise.

use std::process::ExitCode;

use super::bulk_transfer::{BulkEnd, announce, head, receive};
use crate::client::{Client, print};
use crate::connection::Connection;
use crate::format::Formatter;
use crate::options::{Options, Output};

/// Acts as a replica until the connection or the process ends.
pub(crate) fn replica(client: &mut Client) -> Result<ExitCode, String> {
    client.connect()?;
    let connection = client.connection()?;
    announce(connection, ["capa", "eof"])?;
    announce(connection, ["rdb-filter-only", ""])?;
    connection.send_bytes(b"SYNC\r\n").map_err(|failure| format!("Error: {failure}"))?;
    follow(connection).map(|()| ExitCode::SUCCESS)
}

/// Shows what follows SYNC or PSYNC, which has been sent.
pub(crate) fn follow(connection: &mut Connection) -> Result<(), String> {
    let end = head(connection)?;
    match &end {
        BulkEnd::After(length) => {
            eprintln!("SYNC with master, discarding {length} bytes of bulk transfer...");
        }
        BulkEnd::Mark(_) => {
            eprintln!("SYNC with master, discarding bytes of bulk transfer until EOF marker...");
        }
        BulkEnd::Nothing => {}
    }
    let count = receive(connection, &end, |_| Ok(()))?;
    let failed = |failure| format!("Error: {failure}");
    match &end {
        BulkEnd::Mark(_) => {
            eprintln!("SYNC done after {count} bytes. Logging commands from master.");
            eprintln!("sending REPLCONF ACK 0");
            connection.send(&["REPLCONF", "ACK", "0"]).map_err(failed)?;
        }
        BulkEnd::After(_) | BulkEnd::Nothing => {
            eprintln!("SYNC done. Logging commands from master.");
        }
    }
    let options = Options { output: Some(Output::Csv), ..Options::default() };
    let formatter = Formatter::of(&options, false);
    loop {
        let command = connection.receive().map_err(failed)?;
        print(&formatter.format(&command));
    }
}
