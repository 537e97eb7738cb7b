//! Memory of the stream's buffers with one replica that does not read, and with ten.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::super::super::figure::{Figure, Table};
use super::super::super::goal::{Bound, Goal};
use super::super::super::peer::{Peer, Workers};
use super::super::super::pipe;
use super::super::{Bench, Finding};
use super::{names, start, two, until};

/// Writes of a kilobyte that no replica reads.
const WRITES: u64 = 100_000;

pub(in super::super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let mut figures = vec![
        Figure::new("one replica", "MB", 2),
        Figure::new("ten replicas", "MB", 2),
        Figure::new("the second over the first", "", 2),
    ];
    bench.rounds(2, |_, index| {
        let one = added(bench, peers[index], 1)?;
        let ten = added(bench, peers[index], 10)?;
        for (figure, value) in figures.iter_mut().zip([one, ten, ten / one]) {
            figure.values[index].push(value);
        }
        Ok(())
    })?;
    let table = Table { names: names(peers), figures };
    let what = "memory of the stream with ten replicas that do not read, times one";
    let goal = Goal::new(what, Bound::AtMost(1.1), Some(table.figures[2].median(0)));
    finding.goals.push(goal);
    finding.tables.push(table);
    finding.method = format!(
        "Connections that asked for a full sync of an empty server and then read nothing; {} SETs \
         of one key with 1 KB each; what resident memory grew by, the replicas attached before.",
        bench.plan.scaled(WRITES)
    );
    Ok(())
}

/// Megabytes that the writes add with so many replicas.
fn added(bench: &Bench<'_>, peer: &Peer, replicas: usize) -> Result<f64, String> {
    let server = start(peer, &bench.cores.all(), Workers::Default)?;
    let links: Vec<TcpStream> =
        (0..replicas).map(|_| silent_replica(server.port)).collect::<Result<_, _>>()?;
    until("all are online", || {
        let text = pipe::text(server.port, &["INFO", "replication"])?;
        Ok(text.matches("state=online").count() == replicas)
    })?;
    let before = server.resident()?;
    let value = "v".repeat(1024);
    let writes = (0..bench.plan.scaled(WRITES))
        .map(|_| vec!["SET".to_owned(), "key".to_owned(), value.clone()]);
    pipe::feed(server.port, writes)?;
    let grown = server.resident()? - before;
    drop(links);
    Ok(grown / 1e6)
}

/// A replica that has its data, and reads no more.
fn silent_replica(port: u16) -> Result<TcpStream, String> {
    let mut stream = pipe::connect(port)?;
    pipe::line(&stream, &["REPLCONF", "capa", "eof", "capa", "psync2"])?;
    let failed = |error: std::io::Error| error.to_string();
    stream.write_all(&pipe::encode(&["PSYNC", "?", "-1"])).map_err(failed)?;
    // The data of an empty server come in less than this long.
    stream.set_read_timeout(Some(Duration::from_secs(1))).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err("the link was closed".to_owned()),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(_) if bytes.is_empty() => return Err("no sync begins".to_owned()),
            Err(_) => break,
        }
    }
    stream.write_all(&pipe::encode(&["REPLCONF", "ACK", "0"])).map_err(failed)?;
    Ok(stream)
}
