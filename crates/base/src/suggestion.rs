//! Words that somebody may have meant.
//!
//! Invariant: a word is only suggested if less than half of it would have to be changed.

/// The candidate that is nearest to a word, if one is near.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    let near = candidates.map(|candidate| (edits(word, candidate), candidate));
    near.filter(|(edits, _)| *edits <= allowed).min_by_key(|(edits, _)| *edits).map(|it| it.1)
}

/// How many letters must be added, dropped, changed, or exchanged with their neighbours.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in to.iter().enumerate() {
            let changed = rows[i][j] + usize::from(letter != other);
            let mut best = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *other && *letter == to[j - 1] {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("abc", "xabc", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(from, to), count, "{from} {to}");
            assert_eq!(edits(to, from), count, "{to} {from}");
        }
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["maxmemory", "maxmemory-policy", "port"];
        assert_eq!(nearest("maxmemroy", known.into_iter()), Some("maxmemory"));
        assert_eq!(nearest("prot", known.into_iter()), Some("port"));
        assert_eq!(nearest("appendonly", known.into_iter()), None);
        assert_eq!(nearest("", known.into_iter()), None);
    }
}
