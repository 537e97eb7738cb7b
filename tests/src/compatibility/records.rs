//! What the tests sent to Apus, as `tests::calls` noted it, in each of the protocols.

use std::collections::HashSet;

use ::tests::{calls, environment};

/// All notes: `PROTOCOL COMMAND SECOND WORD`, with `*` in place of SECOND for any.
pub(crate) struct Records {
    notes: HashSet<String>,
}

/// In which protocols something was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// In both.
    Both,
    /// In one; the other is missing.
    Without(char),
    /// In none.
    Never,
}

impl Records {
    /// The notes of the last full test run, and of what ran since.
    pub(crate) fn read() -> Self {
        let folder = environment::folder().join(calls::FOLDER);
        let absent = format!("{} is absent: run `cargo xtask test`", folder.display());
        let files = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{absent}"));
        let texts = files.map(|file| {
            let path = file.expect("a folder can be listed").path();
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        });
        Self::of(texts)
    }

    fn of(texts: impl Iterator<Item = String>) -> Self {
        let mut notes = HashSet::new();
        for text in texts {
            for line in text.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let [protocol, command, _, word] = words[..] else { panic!("a note {line:?}") };
                notes.insert(format!("{protocol} {command} * {word}"));
                notes.insert(line.to_owned());
            }
        }
        Self { notes }
    }

    /// Whether a command was called, with an option word if one is given. A container counts as
    /// called where no subcommand was.
    pub(crate) fn called(&self, command: &str, is_container: bool, token: Option<&str>) -> Called {
        let (name, second) = match command.split_once(' ') {
            Some(both) => both,
            None => (command, if is_container { "-" } else { "*" }),
        };
        let is_noted = |protocol: char| {
            let mut words = token.unwrap_or("-").split(' ');
            words.all(|word| self.notes.contains(&format!("{protocol} {name} {second} {word}")))
        };
        match (is_noted('2'), is_noted('3')) {
            (true, true) => Called::Both,
            (false, true) => Called::Without('2'),
            (true, false) => Called::Without('3'),
            (false, false) => Called::Never,
        }
    }

    /// Whether a command was sent in a protocol of memcached's, with a word of its line.
    pub(crate) fn is_noted(&self, protocol: &str, command: &str, word: &str) -> bool {
        self.notes.contains(&format!("{protocol} {command} - {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Called, Records};

    #[test]
    fn a_word_belongs_to_its_subcommand() {
        let text = "2 CLIENT KILL ID\n3 CLIENT KILL ID\n2 SET K NX\n3 SET - NX\n2 ROLE NO -\n";
        let records = Records::of([text.to_owned()].into_iter());
        assert_eq!(records.called("CLIENT KILL", false, Some("ID")), Called::Both);
        assert_eq!(records.called("CLIENT LIST", false, Some("ID")), Called::Never);
        assert_eq!(records.called("SET", false, Some("NX")), Called::Both);
        assert_eq!(records.called("SET", false, Some("NX XX")), Called::Never);
        assert_eq!(records.called("ROLE", false, None), Called::Without('3'));
        assert_eq!(records.called("ROLE", true, None), Called::Never);
    }
}
