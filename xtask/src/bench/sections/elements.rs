//! Memory of elements: of a million in one container, and of small hashes. Measured once on a
//! fresh server each: memory does not vary as time does.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::Workers;
use super::super::pipe;
use super::{Bench, Finding};

const ELEMENTS: u64 = 1_000_000;

/// What is filled: its name, its most memory times that of the best peer, and the words of the
/// request about its n-th part.
type Filling = (&'static str, f64, fn(u64) -> Vec<String>);

const FILLINGS: &[Filling] = &[
    ("element of a hash of a million", 0.70, |part| {
        command("HSET", part, |number| vec![member(number), value(number)])
    }),
    ("element of a set of a million", 0.70, |part| {
        command("SADD", part, |number| vec![member(number)])
    }),
    ("element of a sorted set of a million", 0.70, |part| {
        command("ZADD", part, |number| vec![score(number), member(number)])
    }),
    ("element of a list of a million", 0.70, |part| {
        command("RPUSH", part, |number| vec![member(number)])
    }),
    ("hash of five fields", 0.80, |part| {
        let mut words = vec!["HSET".to_owned(), format!("hash:{part:011}")];
        let pair = |field: u64| [format!("field:{field}"), value(part * 5 + field)];
        words.extend((0..5).flat_map(pair));
        words
    }),
];

/// Elements of one request to a large container.
const EACH: u64 = 50;

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let (names, count) = (bench.names(), bench.plan.scaled(ELEMENTS));
    let mut figures = Vec::new();
    for (name, bound, request) in FILLINGS {
        let mut figure = Figure::new(*name, "B", names.len());
        for (index, peer) in bench.peers.iter().enumerate() {
            println!("  {name}, {}", peer.name);
            let server = peer.start(&bench.cores.server(), Workers::Exactly(1), &[])?;
            let empty = server.resident()?;
            let requests = if *name == FILLINGS[4].0 { count } else { count / EACH };
            pipe::feed(server.port, (0..requests).map(request))?;
            bench.settle();
            figure.values[index].push((server.resident()? - empty) / count as f64);
        }
        let table = Table { names: names.clone(), figures: vec![figure] };
        let what = format!("memory per {name}, times the best peer");
        finding.goals.push(Goal::new(what, Bound::AtMost(*bound), table.best(&table.figures[0])));
        figures.extend(table.figures);
    }
    finding.tables.push(Table { names, figures });
    finding.method = format!(
        "Growth of RSS of an empty server by {count} elements (members of 16 bytes, values of 8) \
         or small hashes (keys of 16 bytes, fields of 7, values of 8), per element, their bytes \
         included; {} s after the last.",
        super::SETTLE.as_secs(),
    );
    Ok(())
}

fn command(name: &str, part: u64, each: impl Fn(u64) -> Vec<String>) -> Vec<String> {
    let mut words = vec![name.to_owned(), "container".to_owned()];
    words.extend((part * EACH..(part + 1) * EACH).flat_map(each));
    words
}

fn member(number: u64) -> String {
    format!("m:{number:014}")
}

/// Eight bytes that are no integer.
fn value(number: u64) -> String {
    format!("v{number:07}")
}

/// In no order.
fn score(number: u64) -> String {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_string()
}
