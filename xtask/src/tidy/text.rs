//! Rules over a file's lines as text, comments included.

use super::source::Source;

const COLUMNS: usize = 100;

/// With what no sentence of a comment or a document begins.
const PRONOUNS: [&str; 7] = ["Anybody", "It", "Nobody", "Somebody", "They", "Who", "Whoever"];

/// A reader that opens a file must learn at once what it is and what it keeps.
pub(super) fn head_doc(source: &Source) -> Vec<(usize, String)> {
    if source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![(1, "begin with a `//!` line".to_owned())]
}

/// Two files fit side by side; rustfmt leaves long texts and comments alone.
pub(super) fn columns(source: &Source) -> Vec<(usize, String)> {
    find(source, |line| {
        let length = line.chars().count();
        (length > COLUMNS).then(|| format!("{length} columns, at most {COLUMNS}"))
    })
}

/// What one cannot type one cannot search; look-alikes and marks without width deceive the reader.
pub(super) fn ascii(source: &Source) -> Vec<(usize, String)> {
    find(source, |line| {
        let odd = line.chars().find(|c| !c.is_ascii());
        odd.map(|c| format!("U+{:04X}: write an escape", u32::from(c)))
    })
}

/// Open work belongs to an issue, where somebody sees it.
pub(super) fn unfinished(source: &Source) -> Vec<(usize, String)> {
    // Written apart, so that this file keeps its own rule.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME")];
    find(source, |line| {
        let word = words.iter().find(|word| line.contains(**word));
        word.map(|word| format!("{word}: do it now or open an issue"))
    })
}

/// The reader of one comment, or of the name of a test that failed, learns nothing from a pronoun.
pub(super) fn subjects(source: &Source) -> Vec<(usize, String)> {
    find(source, |line| {
        if let Some(name) = line.trim_start().strip_prefix("fn ")
            && let Some((first, _)) = name.split_once('_')
            && let Some(word) = PRONOUNS.iter().find(|word| word.eq_ignore_ascii_case(first))
        {
            return Some(no_subject(word));
        }
        let comment = line.trim_start().strip_prefix("//")?;
        pronoun(comment.trim_start_matches(['/', '!'])).map(no_subject)
    })
}

/// Why a sentence that begins so is none.
pub(super) fn no_subject(pronoun: &str) -> String {
    format!("{pronoun}: begin with a noun")
}

/// The pronoun that a sentence of a line begins with, if one does.
pub(super) fn pronoun(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let begins = line.match_indices(['.', '!', '?', ':']).map(|(at, _)| at + 1);
    let behind = begins.filter_map(|at| line[at..].strip_prefix(' '));
    let sentences = std::iter::once(line).chain(behind);
    let first = |sentence: &'_ str| -> usize {
        sentence.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sentence.len())
    };
    let mut words = sentences.map(|sentence| &sentence[..first(sentence)]);
    words.find(|word| PRONOUNS.contains(word))
}

fn find(source: &Source, check: impl Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let lines = source.text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, check(line)?))).collect()
}
