//! Prints COMPATIBILITY.md: what Apus has of the commands, options and directives of the others,
//! and what of that a test calls; with the word `limits`, docs/limits.md. `cargo xtask docs` runs
//! it.
//!
//! Invariant: the page follows from the servers, the static lists in `docs/compatibility` and the
//! notes of the last full test run; it holds no dates and no counts that vary between runs.
#![forbid(unsafe_code)]

mod catalogue;
mod directives;
mod inventory;
mod limits;
mod lists;
mod memcached;
mod page;
mod records;

use std::io::Write;

use catalogue::Catalogue;
use inventory::Inventory;
use lists::Lists;
use records::Records;
use tests::sentinel::SentinelProgram;
use tests::{Oracle, Server};

fn main() {
    let page = match std::env::args().nth(1).as_deref() {
        Some("limits") => limits::page(&mut Server::start(&[]).client()),
        _ => compatibility(),
    };
    std::io::stdout().write_all(page.as_bytes()).expect("standard output can be written to");
}

fn compatibility() -> String {
    let lists = Lists::read();
    let records = Records::read();
    let oracles = Oracle::ALL.map(|oracle| oracle.start(&[]));
    let known = oracles.each_ref().map(|server| Inventory::of(&mut server.client3()));
    let mut ours = Inventory::of(&mut Server::start(&[]).client3());
    let program = SentinelProgram::Apus.start("");
    let mut sentinel = program.client();
    sentinel.call(&["HELLO", "3"]);
    ours.add_group("sentinel", Inventory::of(&mut sentinel));
    let catalogue = Catalogue::new(&ours, &known, &lists, &records);
    let directives = directives::all(&oracles);
    let memcached = memcached::write(&lists.memcached, &records);
    page::write(&catalogue, &directives, &memcached, &lists)
}
