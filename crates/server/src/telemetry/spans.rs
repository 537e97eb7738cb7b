//! What took long as spans, under the names of OpenTelemetry's conventions for databases.
//!
//! Invariant: keys and arguments are in a span only where its queue kept them.

use base::quote::quote;
use base::random::Random;
use engine::clients::peer::Peer;
use engine::observe::span_queue::{FinishedSpan, SlowCommand, SpanSubject};
use otlp::attributes::Attribute;
use otlp::traces::{Span, SpanKind};

/// The span of what has ended: a trace of its own.
pub(super) fn span_of(finished: &FinishedSpan, random: &mut Random) -> Span {
    let (name, kind, attributes, has_failed) = match &finished.subject {
        SpanSubject::Command(command) => {
            let name = name_of(command);
            let attributes = attributes_of(command, &name);
            (name, SpanKind::Server, attributes, false)
        }
        SpanSubject::Task(name, has_failed) => {
            let system = Attribute::text("db.system.name", "redis");
            ((*name).to_owned(), SpanKind::Internal, vec![system], *has_failed)
        }
    };
    let ended_ns = u64::try_from(finished.ended_us).unwrap_or(0).saturating_mul(1000);
    let mut trace_id = [0; 16];
    trace_id[..8].copy_from_slice(&identifier(random));
    trace_id[8..].copy_from_slice(&identifier(random));
    Span {
        trace_id,
        span_id: identifier(random),
        name,
        kind,
        started_ns: ended_ns.saturating_sub(finished.micros.saturating_mul(1000)),
        ended_ns,
        attributes,
        has_failed,
    }
}

/// A random number that is not 0, which would be none.
fn identifier(random: &mut Random) -> [u8; 8] {
    random.next_u64().max(1).to_be_bytes()
}

/// The name as clients send it, in upper case: `CONFIG SET`.
fn name_of(command: &SlowCommand) -> String {
    command.entry.full_name.replace('|', " ").to_ascii_uppercase()
}

fn attributes_of(command: &SlowCommand, name: &str) -> Vec<Attribute> {
    let mut attributes = vec![
        Attribute::text("db.system.name", "redis"),
        Attribute::text("db.operation.name", name),
        Attribute::text("db.namespace", command.database.to_string()),
    ];
    if let Some((client, server)) = command.ends {
        attributes.extend(end(client, "client.address", "client.port"));
        attributes.extend(end(server, "server.address", "server.port"));
        let transport = if client == Peer::Unix { "unix" } else { "tcp" };
        attributes.push(Attribute::text("network.transport", transport));
    }
    if !command.arguments.is_empty() {
        let words: Vec<String> = command.arguments.iter().map(|word| shown(word)).collect();
        attributes.push(Attribute::text("db.query.text", words.join(" ")));
    }
    attributes
}

fn end(end: Peer, address: &'static str, port: &'static str) -> Vec<Attribute> {
    match end {
        Peer::Tcp(at) => vec![
            Attribute::text(address, at.ip.to_string()),
            Attribute::integer(port, at.port.into()),
        ],
        Peer::Unix => Vec::new(),
    }
}

/// A word as it is, or in quotes where it would not be one.
fn shown(word: &[u8]) -> String {
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && word.iter().all(u8::is_ascii_graphic) => text.to_owned(),
        _ => quote(word),
    }
}
