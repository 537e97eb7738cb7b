//! The book, and the README: every command and configuration in them, run as it stands there with
//! other ports (`tests::book` says how).

use std::collections::BTreeSet;
use std::path::Path;

use tests::book::{page, stage};
use tests::{Server, environment};

macro_rules! pages {
    ($($name:ident $file:literal;)*) => {
        const PAGES: &[&str] = &[$($file),*];

        $(#[test]
        fn $name() {
            stage::play($file);
        })*
    };
}

pages! {
    introduction "introduction.md";
    quick_start "quick-start.md";
    install "install.md";
    configure "configure/README.md";
    monitor "operate/monitor.md";
    dashboard "operate/dashboard.md";
    back_up "operate/back-up.md";
    upgrade "operate/upgrade.md";
    capacity "operate/capacity.md";
    cores "operate/cores.md";
    troubleshooting "operate/troubleshooting.md";
    secure "secure.md";
    persist "persist.md";
    replicate "replicate.md";
    cache "cache.md";
    migrate "migrate.md";
    clients "clients.md";
    compatibility "compatibility.md";
    benchmark "benchmark.md";
}

#[test]
fn readme() {
    stage::play_file(&environment::repository().join("README.md"));
}

/// Adds the pages of a folder that have blocks.
fn add_pages(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the book is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_pages(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a page can be read");
        if !page::blocks(&text).is_empty() {
            let name = path.strip_prefix(page::folder()).expect("it lies in the book");
            found.insert(name.display().to_string());
        }
    }
}

#[test]
fn no_page_is_left_out() {
    let mut found = BTreeSet::new();
    add_pages(&page::folder(), &mut found);
    found.remove("design.md");
    let listed: BTreeSet<String> = PAGES.iter().map(|name| (*name).to_owned()).collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(missing.is_empty(), "no test plays {missing:?}");
}

/// The file of packages, with each default as if an operator had taken the `#` away.
#[test]
fn every_line_of_the_packaged_configuration_is_taken() {
    let file = environment::repository().join("packaging/apus.conf");
    let text = std::fs::read_to_string(file).expect("it is generated");
    let defaults = text.lines().filter_map(|line| line.strip_prefix('#'));
    let lines: Vec<&str> = defaults.filter(|line| !line.starts_with([' ', '#'])).collect();
    assert!(lines.len() > 150, "{lines:?}");
    let own = ["port ", "bind ", "dir ", "pidfile ", "logfile "];
    let kept = lines.iter().filter(|line| !own.iter().any(|name| line.starts_with(name)));
    let taken: String = kept.map(|line| format!("{line}\n")).collect();
    drop(Server::start_with_config(&taken, &[]));
}
