//! Prints the pages that are generated: without a word COMPATIBILITY.md, which tells what Apus has
//! of the commands, options and directives of the others, and what of that a test calls; with one
//! the page that it names. `cargo xtask docs` runs it.
//!
//! Invariant: a page follows from the servers, the static lists in `docs/compatibility` and the
//! notes of the last full test run; no page holds dates or counts that vary between runs.
#![forbid(unsafe_code)]

mod catalogue;
mod commands;
mod directives;
mod inventory;
mod limits;
mod lists;
mod manual;
mod memcached;
mod metrics;
mod page;
mod records;
mod reference;

use std::io::Write;

use catalogue::Catalogue;
use inventory::Inventory;
use lists::Lists;
use records::Records;
use tests::sentinel::SentinelProgram;
use tests::{Oracle, Server};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let page = match words[..] {
        [] => compatibility(),
        ["limits"] => limits::page(&mut Server::start(&[]).client()),
        ["metrics"] => metrics::page(),
        ["directives"] => {
            reference::page(&directives::all(&Oracle::ALL.map(|oracle| oracle.start(&[]))))
        }
        ["man", name] => manual::page(name),
        ["completion", shell] => manual::completion(shell),
        ["apus.conf"] => reference::file(),
        ["groups"] => commands::groups(),
        ["commands"] => commands::index(),
        ["commands", group] => commands::page(group, &Lists::read()),
        _ => panic!("there is no page {words:?}"),
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
