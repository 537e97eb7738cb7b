//! Requests that were tampered with: words that change places, come twice or make way for other
//! words.
//!
//! Invariant: whatever a request looks like, its handler uses no key beyond those that its
//! declaration finds in it, which are all that is locked and all that rights are asked for. The
//! session of these tests holds that.

use base::Random;

use crate::complexity::every_command::{everything, requests};
use crate::testing::{Session, render};

/// Rounds over all requests.
const ROUNDS: usize = 12;

/// Words that mean something in some place, and are names in another.
const WORDS: &[&str] = &[
    "STREAMS",
    "GROUP",
    "COUNT",
    "BLOCK",
    "CLAIM",
    "NOACK",
    "MAXCOUNT",
    "STORE",
    "STOREDIST",
    "LIMIT",
    "BY",
    "GET",
    "KEYS",
    "WEIGHTS",
    "AGGREGATE",
    "FIELDS",
    "MEMBERS",
    "IDS",
    "MATCH",
    "REV",
    "REPLACE",
    "DB",
    "EX",
    "NX",
    "x",
    "z",
    "s",
    "h",
    "0",
    "1",
    "2",
    "3",
    "-1",
    ">",
    "",
];

fn below(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("it is below a size")
}

/// Tampers with a request once, behind its name.
fn tamper(words: &mut Vec<String>, random: &mut Random) {
    if words.len() < 2 {
        return;
    }
    let one = 1 + below(random, words.len() - 1);
    let other = 1 + below(random, words.len() - 1);
    match random.below(5) {
        0 => words.swap(one, other),
        1 => words[one] = WORDS[below(random, WORDS.len())].to_owned(),
        2 => words.insert(one, WORDS[below(random, WORDS.len())].to_owned()),
        3 => {
            let part = words[one.min(other)..=one.max(other)].to_vec();
            let at = 1 + below(random, words.len());
            words.splice(at..at, part);
        }
        _ => _ = words.remove(one),
    }
}

fn call(session: &mut Session, words: &[String]) -> String {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    render(&session.value_of(&words))
}

#[test]
fn handlers_use_the_keys_that_are_declared_whatever_the_request() {
    let mut random = Random::from_seed(7);
    let (mut held, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut session = Session::new();
        everything(&mut session, 8);
        for request in requests(8).split(';') {
            let mut words: Vec<String> = request.split_whitespace().map(str::to_owned).collect();
            (0..=random.below(3)).for_each(|_| tamper(&mut words, &mut random));
            let reply = call(&mut session, &words);
            *if reply.starts_with('-') { &mut refused } else { &mut held } += 1;
        }
        assert!(held > 0 && refused > 0, "round {round} tries both");
    }
}

#[test]
fn the_names_of_readers_are_no_keywords() {
    let names = ["STREAMS", "GROUP", "COUNT", "g"];
    let options: &[&[&str]] =
        &[&[], &["COUNT", "1"], &["NOACK"], &["CLAIM", "0"], &["MAXCOUNT", "9"], &["BLOCK", "0"]];
    let mut session = Session::new();
    for group in names {
        session.call(&format!("XGROUP CREATE s {group} 0 MKSTREAM"));
        session.call("XADD s * f v");
        for (consumer, ahead) in
            names.iter().flat_map(|it| options.iter().map(move |all| (it, all)))
        {
            for behind in options {
                let reader = ["GROUP", group, consumer];
                let words = [&["XREADGROUP"], *ahead, &reader, behind, &["STREAMS", "s", "0"]];
                let words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
                let reply = call(&mut session, &words);
                assert!(reply.starts_with("[[\"s\""), "{words:?}: {reply}");
            }
        }
    }
}
