//! Expressions against tables, against a naive matcher, and against those that mean harm.

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert_eq, proptest};

use super::{Matcher, Regex, RegexError};

fn is_match(pattern: &str, text: &str, ignore_case: bool) -> bool {
    let regex = Regex::new(pattern.as_bytes(), ignore_case).expect(pattern);
    regex.is_match(text.as_bytes(), &mut Matcher::default())
}

#[test]
fn expressions_match_what_the_table_says() {
    // The pattern, texts that have a match, texts that have none.
    let table: [(&str, &[&str], &[&str]); 34] = [
        ("", &["", "a"], &[]),
        ("abc", &["abc", "xabcx"], &["", "ab", "ABC"]),
        ("^abc$", &["abc"], &["abcd", "xabc", "abc\n"]),
        ("a|b|", &["a", "x", ""], &[]),
        ("^(a|bc)$", &["a", "bc"], &["b", "abc"]),
        ("^a*$", &["", "aaa"], &["ab"]),
        ("^a+$", &["a", "aa"], &["", "b"]),
        ("^a?b$", &["b", "ab"], &["aab"]),
        ("^a{2}$", &["aa"], &["a", "aaa"]),
        ("^a{2,}$", &["aa", "aaaa"], &["a"]),
        ("^a{1,3}$", &["a", "aaa"], &["", "aaaa"]),
        ("^a{,2}$", &["", "aa"], &["aaa"]),
        ("^(ab){2}c$", &["ababc"], &["abc"]),
        ("^(a|b)*c$", &["c", "abbac"], &["abx"]),
        ("^(a*)*$", &["", "aa"], &["b"]),
        ("^(|a)+b$", &["b", "aab"], &["c"]),
        ("^a+?b$", &["ab", "aab", "b"], &["c"]),
        ("a.c", &["abc", "a\nc"], &["ac"]),
        ("^[abc]$", &["a", "c"], &["d", ""]),
        ("^[^abc]$", &["d", "\n"], &["a", ""]),
        ("^[a-cx-z]+$", &["abcxyz"], &["d"]),
        ("^[]a]+$", &["]a"], &["b"]),
        ("^[^]a]$", &["b"], &["]", "a"]),
        ("^[a-]$", &["a", "-"], &["b"]),
        ("^[[:digit:]_]+$", &["12_"], &["a"]),
        ("^[^[:space:]]+$", &["ab"], &["a b", "\t"]),
        ("^[[.a.][=b=]]+$", &["ab"], &["c"]),
        (r"^[\n]$", &["n", "\\"], &["\n"]),
        (r"^\d+\.\d+$", &["3.14"], &["3x14"]),
        (r"^\w+\s\W\S\D$", &["ab !xx"], &["ab xxx"]),
        (r"\bcat\b", &["cat", "a cat."], &["concat", "cats"]),
        (r"\<cat\>", &["the cat sat"], &["catalog"]),
        (r"\Bcat", &["concat"], &["cat"]),
        (r"^\x41\t\(\{$", &["A\t({"], &["B"]),
    ];
    for (pattern, matches, others) in table {
        matches
            .iter()
            .for_each(|text| assert!(is_match(pattern, text, false), "{pattern} {text:?}"));
        others
            .iter()
            .for_each(|text| assert!(!is_match(pattern, text, false), "{pattern} {text:?}"));
    }
}

#[test]
fn case_may_not_count() {
    for pattern in ["^foo[0-9]+$", "^[f]oo9$", "^[e-g]oo9$", "^[[:lower:]]+9$", r"^\x66oo9"] {
        assert!(is_match(pattern, "FOO9", true), "{pattern}");
        assert!(!is_match(pattern, "FOO9", false), "{pattern}");
    }
    assert!(!is_match("^[^f]$", "F", true));
}

#[test]
fn what_is_no_expression() {
    let table = [
        ("(a", RegexError::Group),
        ("a)", RegexError::Group),
        ("[a", RegexError::Bracket),
        ("[]", RegexError::Bracket),
        ("[[:nosuch:]]", RegexError::ClassName),
        ("[[:alpha]]", RegexError::ClassName),
        ("[[.space.]]", RegexError::ClassName),
        ("[b-a]", RegexError::Range),
        ("a{", RegexError::Repetition),
        ("a{,}", RegexError::Repetition),
        ("a{x}", RegexError::Repetition),
        ("a{2,1}", RegexError::Repetition),
        ("a{256}", RegexError::Repetition),
        ("a{99999999999999999999}", RegexError::Repetition),
        ("*a", RegexError::NothingToRepeat),
        ("(+)", RegexError::NothingToRepeat),
        ("a|?", RegexError::NothingToRepeat),
        ("{1}", RegexError::NothingToRepeat),
        ("a\\", RegexError::Escape),
        (r"\x4", RegexError::Escape),
        (r"\xzz", RegexError::Escape),
        (r"\q", RegexError::Escape),
        (r"(a)\1", RegexError::BackReference),
        ("((a{255}){255}){255}", RegexError::TooLarge),
        ("((((){255}){255}){255}){255}", RegexError::TooLarge),
    ];
    for (pattern, expected) in table {
        let error = Regex::new(pattern.as_bytes(), false).err();
        assert_eq!(error, Some(expected), "{pattern}");
    }
    assert_eq!(Regex::new(&b"(".repeat(2000), false).err(), Some(RegexError::Group));
    assert_eq!(
        Regex::new(&[b"a", &b"*".repeat(2000)[..]].concat(), false).err(),
        Some(RegexError::TooLarge)
    );
}

/// What takes others exponential time: this ends, so nothing has to be measured.
#[test]
fn harm_is_bounded() {
    let patterns = ["^(a+)+$", "^(a|a)*$", "^(a*)*b", "(a?){60}a{60}", "(x+x+)+y"];
    let text = "a".repeat(5000) + "!";
    for pattern in patterns {
        let regex = Regex::new(pattern.as_bytes(), false).unwrap();
        let _ = regex.is_match(text.as_bytes(), &mut Matcher::default());
    }
}

/// A tree of few operators with its own matcher: the ends that a match may have.
#[derive(Clone, Debug)]
enum Naive {
    Byte(u8),
    Any,
    Then(Box<Naive>, Box<Naive>),
    Or(Box<Naive>, Box<Naive>),
    Star(Box<Naive>),
    Start,
    End,
}

impl Naive {
    fn pattern(&self) -> String {
        match self {
            Naive::Byte(byte) => char::from(*byte).to_string(),
            Naive::Any => ".".to_owned(),
            Naive::Then(one, other) => one.pattern() + &other.pattern(),
            Naive::Or(one, other) => format!("({}|{})", one.pattern(), other.pattern()),
            Naive::Star(one) => format!("({})*", one.pattern()),
            Naive::Start => "^".to_owned(),
            Naive::End => "$".to_owned(),
        }
    }

    fn ends(&self, text: &[u8], at: usize) -> Vec<usize> {
        let mut ends = match self {
            Naive::Byte(byte) => {
                if text.get(at) == Some(byte) {
                    vec![at + 1]
                } else {
                    vec![]
                }
            }
            Naive::Any => {
                if at < text.len() {
                    vec![at + 1]
                } else {
                    vec![]
                }
            }
            Naive::Then(one, other) => {
                one.ends(text, at).into_iter().flat_map(|end| other.ends(text, end)).collect()
            }
            Naive::Or(one, other) => [one.ends(text, at), other.ends(text, at)].concat(),
            Naive::Star(one) => {
                let mut all = vec![at];
                let mut index = 0;
                while index < all.len() {
                    for end in one.ends(text, all[index]) {
                        if !all.contains(&end) {
                            all.push(end);
                        }
                    }
                    index += 1;
                }
                all
            }
            Naive::Start => {
                if at == 0 {
                    vec![at]
                } else {
                    vec![]
                }
            }
            Naive::End => {
                if at == text.len() {
                    vec![at]
                } else {
                    vec![]
                }
            }
        };
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

fn naive() -> impl Strategy<Value = Naive> {
    let leaf = prop_oneof![
        6 => (b'a'..=b'c').prop_map(Naive::Byte),
        1 => Just(Naive::Any),
        1 => Just(Naive::Start),
        1 => Just(Naive::End),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(one, other)| Naive::Then(Box::new(one), Box::new(other))),
            pair.prop_map(|(one, other)| Naive::Or(Box::new(one), Box::new(other))),
            inner.prop_map(|one| Naive::Star(Box::new(one))),
        ]
    })
}

proptest! {
    #[test]
    fn the_naive_matcher_agrees(naive in naive(), texts in collection::vec("[a-c]{0,8}", 1..8)) {
        let regex = Regex::new(naive.pattern().as_bytes(), false).unwrap();
        let mut matcher = Matcher::default();
        for text in texts {
            let text = text.as_bytes();
            let expected = (0..=text.len()).any(|at| !naive.ends(text, at).is_empty());
            prop_assert_eq!(regex.is_match(text, &mut matcher), expected, "{}", naive.pattern());
        }
    }

    #[test]
    fn any_bytes_are_a_pattern_or_refused(pattern in collection::vec(0..128_u8, 0..60)) {
        if let Ok(regex) = Regex::new(&pattern, true) {
            let _ = regex.is_match(b"some text 123", &mut Matcher::default());
        }
    }
}
