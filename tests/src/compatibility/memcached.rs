//! The part of the page about memcached's protocols. Invariant: a command is called done where a
//! test sent it to Apus in its protocol, and a word or flag where one came with it.

use std::fmt::Write;

use super::lists::Line;
use super::records::Records;

const HEAD: &str = "
## memcached

The commands of memcached 1.6 by protocol. **done**: a test sends it to Apus in that protocol;
random requests are compared with the answers of memcached 1.6.18 (`tests/tests/memcached_duel.rs`).
What differs on purpose is in [memcached.md](docs/decisions/memcached.md).
";

const PROTOCOLS: [(&str, &str); 3] = [("T", "text"), ("M", "meta"), ("B", "binary")];

/// Writes the chapter.
pub(crate) fn write(commands: &[Line], records: &Records) -> String {
    let mut text = HEAD.to_owned();
    for (letter, protocol) in PROTOCOLS {
        let third = if letter == "B" { "name" } else { "words done | words untested" };
        let columns = third.matches('|').count() + 4;
        write!(text, "\n### {protocol} protocol\n\n| command | state | {third} | remark |\n|")
            .expect(ENDLESS);
        writeln!(text, "{}", "---|".repeat(columns)).expect(ENDLESS);
        for [command, words, remark] in commands {
            let Some((own, name)) = command.split_once(' ').filter(|(own, _)| *own == letter)
            else {
                continue;
            };
            let state =
                |word: &str| if records.is_noted(own, name, word) { "done" } else { "untested" };
            let remark = if remark == "-" { "" } else { remark };
            let third = match letter {
                "B" => words.clone(),
                _ => ["done", "untested"].map(|wanted| chosen(words, wanted, state)).join(" | "),
            };
            writeln!(text, "| {name} | {} | {third} | {remark} |", state("-")).expect(ENDLESS);
        }
    }
    text
}

const ENDLESS: &str = "a string can always be written to";

/// The words in a state.
fn chosen(words: &str, wanted: &str, state: impl Fn(&str) -> &'static str) -> String {
    let chosen = words.split(' ').filter(|word| *word != "-" && state(word) == wanted);
    chosen.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
}
