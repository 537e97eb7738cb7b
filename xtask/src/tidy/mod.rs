//! `tidy`: the style numbers, banned words and borders which neither rustfmt, clippy nor the
//! compiler hold. Invariant: a rule is one function that names every violation as `path:line:
//! rule: message`.

mod calls;
mod documents;
mod edges;
mod rooms;
mod shape;
pub(crate) mod source;
mod text;
mod unsafe_rules;

use crate::{hostile, shell};
use source::Source;

/// A rule over one file: the lines that break it, and why.
type Rule = fn(&Source) -> Vec<(usize, String)>;

const RULES: &[(&str, Rule)] = &[
    ("head-doc", text::head_doc),
    ("columns", text::columns),
    ("ascii", text::ascii),
    ("unfinished", text::unfinished),
    ("subject", text::subjects),
    ("file-length", shape::file_length),
    ("function-length", shape::function_length),
    ("tests-last", shape::tests_last),
    ("glob-import", shape::glob_imports),
    ("suppression", calls::suppressions),
    ("stub", calls::stubs),
    ("unsafe", unsafe_rules::unsafe_code),
    ("clock", calls::clocks),
    ("thread", calls::threads),
    ("file-system", calls::file_system),
    ("event-loop", calls::event_loop),
];

/// Checks every Rust file and document that is tracked or could be, the import edges, and the rows
/// that tests carry.
pub(crate) fn run() -> Result<(), String> {
    let mut problems = edges::check()?;
    let (sources, unread) = sources()?;
    problems.extend(unread);
    for source in &sources {
        problems.extend(violations(source));
    }
    problems.extend(unsafe_rules::crate_roots(&sources));
    problems.extend(rooms::check(&sources));
    problems.extend(documents::check(&sources)?);
    problems.extend(hostile::check(&sources));
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} files, {} problems", sources.len(), problems.len());
    if problems.is_empty() { Ok(()) } else { Err("style".to_owned()) }
}

/// The Rust files, and what is wrong with those that cannot be read.
pub(crate) fn sources() -> Result<(Vec<Source>, Vec<String>), String> {
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for path in paths()? {
        match Source::read(&path) {
            Ok(source) => sources.push(source),
            Err(message) => problems.push(message),
        }
    }
    Ok((sources, problems))
}

fn violations(source: &Source) -> Vec<String> {
    let found = RULES.iter().flat_map(|(name, rule)| {
        rule(source).into_iter().map(move |(line, message)| (line, *name, message))
    });
    found
        .map(|(line, name, message)| format!("{}:{line}: {name}: {message}", source.path))
        .collect()
}

/// The Rust files of the repository, those not yet added included, those deleted left out.
fn paths() -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let list = shell::output(&mut shell::command("git", &arguments))?;
    let there = list.lines().filter(|path| shell::root().join(path).exists());
    Ok(there.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::source::Source;
    use super::violations;

    /// The rules that a file at `path` breaks, with their lines.
    fn broken(path: &str, body: &str) -> Vec<String> {
        let text = format!("//! Head.\n{body}");
        let source = Source::parse(path, text).expect("the snippet is Rust");
        let found = violations(&source);
        let rules = found.iter().map(|line| line.strip_prefix(path).unwrap().splitn(4, ':'));
        rules.map(|parts| parts.skip(1).take(2).collect::<String>()).collect()
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let long_body = "    work();\n".repeat(69);
        let words = [concat!("TO", "DO"), concat!("FIX", "ME")];
        for (body, rule) in [
            (format!("const A: &str = \"{}\";", "x".repeat(90)), "2 columns"),
            ("const A: char = '\u{e9}';".to_owned(), "2 ascii"),
            (format!("// {} later", words[0]), "2 unfinished"),
            (format!("// {}", words[1]), "2 unfinished"),
            (format!("/// {} is over.\nfn f() {{}}", concat!("I", "t")), "2 subject"),
            (format!("/// A lock. {}.\nfn f() {{}}", concat!("I", "t waits")), "2 subject"),
            ("//\n".repeat(600), "1 file-length"),
            (format!("fn f() {{\n{long_body}}}"), "2 function-length"),
            (format!("impl A {{\nfn f() {{\n{long_body}}}\n}}"), "3 function-length"),
            (format!("m! {{\nfn f(a in b()) {{\n{long_body}}}\n}}"), "3 function-length"),
            ("#[cfg(test)]\nmod tests {}\nfn f() {}".to_owned(), "4 tests-last"),
            ("use a::{b, c::*};".to_owned(), "2 glob-import"),
            ("#[allow(dead_code)]\nfn f() {}".to_owned(), "2 suppression"),
            ("m! { #[ignore = \"slow\"] fn f() {} }".to_owned(), "2 suppression"),
            ("fn f() { todo!() }".to_owned(), "2 stub"),
            ("fn f() { m!(unsafe { g() }) }".to_owned(), "2 unsafe"),
            ("fn f() { std::time::Instant::now(); }".to_owned(), "2 clock"),
            ("fn f() { thread::spawn(g); }".to_owned(), "2 thread"),
            ("use std::{fs, io};".to_owned(), "2 file-system"),
            ("fn f() { std::fs::read(a); }".to_owned(), "2 file-system"),
        ] {
            assert_eq!(broken("crates/keyspace/src/a.rs", &body), [rule], "{body}");
        }
        let timer = "fn f() { tokio::time::sleep(a); }";
        assert_eq!(broken("crates/engine/src/a.rs", timer), ["2 event-loop"]);
        let headless = Source::parse("a.rs", "fn f() {}\n".to_owned()).unwrap();
        assert_eq!(violations(&headless), ["a.rs:1: head-doc: begin with a `//!` line"]);
    }

    #[test]
    fn a_room_may_do_what_is_its_own() {
        for (path, body) in [
            ("crates/keyspace/src/entry/header.rs", "fn f() { unsafe { g() } }"),
            ("crates/structs/src/a.rs", "unsafe impl Send for A {}"),
            ("crates/server/src/ffi.rs", "unsafe extern \"C\" {}"),
            ("crates/base/src/time.rs", "fn f() { Instant::now(); }"),
            ("crates/server/src/a.rs", "use std::fs;\nfn f() { thread::spawn(g); }"),
            ("crates/engine/src/a.rs", "use tokio::sync::oneshot;"),
            ("tests/tests/a.rs", "fn f() { Instant::now(); std::fs::read(a); thread::spawn(g); }"),
            ("crates/base/src/a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}"),
        ] {
            assert!(broken(path, body).is_empty(), "{path}");
        }
        assert!(broken("tests/tests/a.rs", &"//\n".repeat(900)).is_empty());
        assert!(
            broken(
                "crates/base/src/a.rs",
                &format!(
                    "{}\n{}",
                    "//\n".repeat(500),
                    "#[cfg(test)]\nmod tests {}\n//\n".replace("//\n", &"//\n".repeat(300))
                )
            )
            .is_empty()
        );
    }
}
