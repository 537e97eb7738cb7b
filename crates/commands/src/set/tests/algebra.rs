//! Sessions of unions, intersections and differences, and of counting them.

use std::collections::BTreeSet;

use base::Random;

use super::{fill, members_of, told};
use crate::testing::{Session, check};

#[test]
fn algebra_over_a_few_sets() {
    let mut session = Session::new();
    session.call("SADD a 1 2 3 x");
    session.call("SADD b 2 3 4");
    session.call("SADD c 3 4 x y");
    for (request, expected) in [
        ("SINTER a", "1 2 3 x"),
        ("SINTER a b", "2 3"),
        ("SINTER a b c", "3"),
        ("SINTER a none", ""),
        ("SINTER none a", ""),
        ("SUNION a b", "1 2 3 4 x"),
        ("SUNION a b c none", "1 2 3 4 x y"),
        ("SUNION a b c a b c", "1 2 3 4 x y"),
        ("SUNION none", ""),
        ("SDIFF a", "1 2 3 x"),
        ("SDIFF a b", "1 x"),
        ("SDIFF a b c", "1"),
        ("SDIFF a none", "1 2 3 x"),
        ("SDIFF none a", ""),
        ("SDIFF a a", ""),
    ] {
        let expected: Vec<&str> = expected.split(' ').filter(|word| !word.is_empty()).collect();
        assert_eq!(members_of(&mut session, request), expected, "{request}");
        let (command, keys) = request.split_once(' ').unwrap();
        let stored = session.call(&format!("{command}STORE result {keys}"));
        assert_eq!(stored, format!(":{}", expected.len()), "{request}");
        assert_eq!(members_of(&mut session, "SMEMBERS result"), expected, "{request}");
        let numkeys = keys.split(' ').count();
        for limit in 0..4 {
            let counted = session.call(&format!("{command}CARD {numkeys} {keys} LIMIT {limit}"));
            let most = if limit == 0 { usize::MAX } else { limit };
            assert_eq!(counted, format!(":{}", expected.len().min(most)), "{request}");
        }
    }
    for command in ["SINTER", "SUNION", "SDIFF"] {
        let refusal = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
        let lower = command.to_ascii_lowercase();
        assert_eq!(session.call(command), refusal(&lower));
        assert_eq!(session.call(&format!("{command}STORE d")), refusal(&format!("{lower}store")));
    }
}

#[test]
fn results_are_stored_as_one_change() {
    let mut session = Session::new();
    session.call("SADD a 1 2 3");
    session.call("SADD b 2 3 4");
    assert_eq!(session.call("SINTERSTORE d a b"), ":2");
    told(&session, &["SINTERSTORE d a b"], &["new d", "sinterstore d"]);
    assert_eq!(session.call("SUNIONSTORE d a b"), ":4");
    told(&session, &["SUNIONSTORE d a b"], &["overwritten d", "sunionstore d"]);
    session.call("SET str v PX 100");
    assert_eq!(session.call("SDIFFSTORE str a b"), ":1");
    let events = ["overwritten str", "type_changed str", "sdiffstore str"];
    told(&session, &["SDIFFSTORE str a b"], &events);
    assert_eq!(session.call("PTTL str"), ":-1");
    assert_eq!(session.call("SINTERSTORE d a none"), ":0");
    told(&session, &["SINTERSTORE d a none"], &["del d"]);
    assert_eq!(session.call("SINTERSTORE d a none"), ":0");
    told(&session, &[], &[]);
    assert_eq!(session.call("SUNIONSTORE a a b"), ":4");
    assert_eq!(members_of(&mut session, "SMEMBERS a"), ["1", "2", "3", "4"]);
}

/// As Redis 8.2 and Valkey 9.1 name them.
#[test]
fn results_have_the_encoding_of_their_members() {
    let mut session = Session::new();
    fill(&mut session, "ints", 0..300, "");
    fill(&mut session, "others", 250..600, "");
    fill(&mut session, "texts", 0..100, "a");
    fill(&mut session, "mixed", 0..400, "");
    fill(&mut session, "mixed", 0..200, "a");
    fill(&mut session, "many", 150..400, "a");
    session.call("SADD many 1 2");
    session.call("SADD few 1 2 x");
    for (request, encoding) in [
        ("SUNIONSTORE d ints others", "hashtable"),
        ("SUNIONSTORE d ints", "intset"),
        ("SUNIONSTORE d ints few", "hashtable"),
        ("SUNIONSTORE d texts few", "listpack"),
        ("SUNIONSTORE d few few few few few few", "listpack"),
        ("SINTERSTORE d ints others", "intset"),
        ("SINTERSTORE d mixed many", "listpack"),
        ("SINTERSTORE d mixed few", "intset"),
        ("SINTERSTORE d mixed ints", "intset"),
        ("SDIFFSTORE d ints few", "intset"),
        ("SDIFFSTORE d few mixed", "listpack"),
        ("SDIFFSTORE d mixed many", "hashtable"),
        ("SDIFFSTORE d mixed ints texts few few few few few", "hashtable"),
    ] {
        session.call(request);
        assert_eq!(session.call("OBJECT ENCODING d"), format!("{encoding:?}"), "{request}");
    }
}

/// As Redis 8.2 names them: where it takes the others out of a copy of the first, the copy's form
/// stays.
#[test]
fn a_difference_by_removal_has_the_encoding_of_the_first() {
    let mut session = Session::new();
    fill(&mut session, "texts", 0..150, "a");
    fill(&mut session, "some", 0..30, "a");
    fill(&mut session, "ints", 0..40, "");
    session.call("SADD mixed 1 2 3 4 5 x");
    session.call(&format!("SADD long 1 2 3 4 5 {}", "x".repeat(65)));
    session.call("SADD x x");
    session.call(&format!("SADD xs {}", "x".repeat(65)));
    for (request, encoding) in [
        ("SDIFFSTORE d texts some", "listpack"),
        ("SDIFFSTORE d texts some none", "listpack"),
        ("SDIFFSTORE d texts some some", "hashtable"),
        ("SDIFFSTORE d mixed x", "intset"),
        ("SDIFFSTORE d mixed x x", "listpack"),
        ("SDIFFSTORE d long xs", "intset"),
        ("SDIFFSTORE d long xs xs", "hashtable"),
        ("SDIFFSTORE d ints x x", "intset"),
    ] {
        session.call(request);
        assert_eq!(session.call("OBJECT ENCODING d"), format!("{encoding:?}"), "{request}");
    }
}

#[test]
fn a_result_beyond_the_limits_is_called_a_hash_table_whatever_its_sources_are_called() {
    let mut session = Session::new();
    session.keyspace().settings().containers.set_entries.set(5000);
    let text = "x".repeat(60);
    fill(&mut session, "big", 1000..3000, &text);
    fill(&mut session, "others", 1000..1010, &text);
    assert_eq!(session.call("OBJECT ENCODING big"), "\"listpack\"");
    session.keyspace().settings().containers.set_entries.set(128);
    for request in [
        "SDIFFSTORE d big others",
        "SDIFFSTORE d big others others others others others others others others",
        "SINTERSTORE d big big",
        "SUNIONSTORE d big",
        "SUNIONSTORE d big others",
        "SUNIONSTORE d big big",
        "SUNIONSTORE d big others x1 x2 x3 x4 x5",
    ] {
        session.call(request);
        assert_eq!(session.call("OBJECT ENCODING d"), "\"hashtable\"", "{request}");
    }
}

#[test]
fn counting_reads_its_options() {
    check(
        "SADD s a b c
         SINTERCARD 0 s
         SINTERCARD -1 s
         SINTERCARD x s
         SINTERCARD 2 s
         SINTERCARD 9223372036854775807 s
         SINTERCARD 9223372036854775808 s
         SINTERCARD 1 s LIMIT
         SINTERCARD 1 s LIMIT x
         SINTERCARD 1 s LIMIT -1
         SINTERCARD 1 s LIMIT 9223372036854775808
         SINTERCARD 1 s LIMIT 9223372036854775807
         SINTERCARD 1 s LIMIT 1 LIMIT 2
         SINTERCARD 1 s FOO
         SINTERCARD 1 s APPROX
         SDIFFCARD 1 s APPROX
         SUNIONCARD 1 s APPROX
         SUNIONCARD 1 s APPROX LIMIT 2
         SUNIONCARD 2 s none LIMIT 2 APPROX
         SUNIONCARD 1 none APPROX
         SUNIONCARD 1 s LIMIT
         SUNIONCARD 0 s
         SUNIONCARD 3 s
         SDIFFCARD 1 s LIMIT -1
         SINTERCARD 1",
        ":3
         -ERR numkeys should be greater than 0
         -ERR numkeys should be greater than 0
         -ERR numkeys should be greater than 0
         -ERR Number of keys can't be greater than number of args
         -ERR Number of keys can't be greater than number of args
         -ERR numkeys should be greater than 0
         -ERR syntax error
         -ERR LIMIT can't be negative
         -ERR LIMIT can't be negative
         -ERR LIMIT can't be negative
         :3
         :2
         -ERR syntax error
         -ERR syntax error
         -ERR syntax error
         :3
         :2
         :2
         :0
         -ERR syntax error
         -ERR numkeys should be greater than 0
         -ERR Number of keys can't be greater than number of args
         -ERR LIMIT can't be negative
         -ERR wrong number of arguments for 'sintercard' command",
    );
}

#[test]
fn an_estimate_is_near() {
    let mut session = Session::new();
    fill(&mut session, "a", 0..20_000, "m");
    fill(&mut session, "b", 10_000..30_000, "m");
    let estimate = session.call("SUNIONCARD 2 a b APPROX");
    let estimate: f64 = estimate[1..].parse().unwrap();
    assert!((estimate / 30_000.0 - 1.0).abs() < 0.05, "{estimate}");
    assert_eq!(session.call("SUNIONCARD 2 a b"), ":30000");
}

#[test]
fn algebra_agrees_with_a_model() {
    let mut random = Random::from_seed(11);
    for round in 0..60 {
        let mut session = Session::new();
        let count = 1 + random.below(8) as usize;
        let mut models = Vec::new();
        for index in 0..count {
            let size = [0, 5, 100, 700, 3000][random.below(5) as usize];
            let prefix = ["", "m"][random.below(2) as usize];
            let model: BTreeSet<String> =
                (0..size).map(|_| format!("{prefix}{}", random.below(2000))).collect();
            for members in model.iter().map(String::as_str).collect::<Vec<_>>().chunks(1000) {
                session.call(&format!("SADD k{index} {}", members.join(" ")));
            }
            models.push(model);
        }
        let keys: Vec<String> = (0..count).map(|index| format!("k{index}")).collect();
        let keys = keys.join(" ");
        let others: BTreeSet<&String> = models[1..].iter().flatten().collect();
        let is_everywhere = |member: &&String| models.iter().all(|model| model.contains(*member));
        let expected: [BTreeSet<&String>; 3] = [
            models[0].iter().filter(is_everywhere).collect(),
            models.iter().flatten().collect(),
            models[0].iter().filter(|member| !others.contains(member)).collect(),
        ];
        for (command, expected) in ["SINTER", "SUNION", "SDIFF"].into_iter().zip(expected) {
            let expected: Vec<String> = expected.into_iter().cloned().collect();
            let found = members_of(&mut session, &format!("{command} {keys}"));
            assert_eq!(found, expected, "{command}, round {round}");
            let stored = session.call(&format!("{command}STORE d {keys}"));
            assert_eq!(stored, format!(":{}", expected.len()));
            assert_eq!(members_of(&mut session, "SMEMBERS d"), expected);
            let counted = session.call(&format!("{command}CARD {count} {keys}"));
            assert_eq!(counted, format!(":{}", expected.len()));
        }
    }
}

/// On both sides of each limit, whatever the members are and in whatever order they come.
#[test]
fn a_result_has_the_form_of_its_members_added_one_by_one() {
    let mut session = Session::new();
    let integers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    for count in [1, 127, 128, 129, 130, 511, 512, 513, 514, 700] {
        let all = integers(count);
        let strings: Vec<_> = all.iter().map(|number| format!("m{number}")).collect();
        let (mut last, mut first, mut long) = (all.clone(), all.clone(), all.clone());
        "x".clone_into(&mut last[count - 1]);
        "x".clone_into(&mut first[0]);
        long[count / 2] = "x".repeat(65);
        for members in [all, strings, last, first, long] {
            session.call("DEL source added stored");
            session.call(&format!("SADD source {}", members.join(" ")));
            for member in members_of(&mut session, "SMEMBERS source") {
                session.call(&format!("SADD added {member}"));
            }
            assert_eq!(session.call("SUNIONSTORE stored source none"), format!(":{count}"));
            let forms = ["stored", "added"].map(|key| {
                let form = session.call(&format!("OBJECT ENCODING {key}"));
                (form, members_of(&mut session, &format!("SMEMBERS {key}")))
            });
            assert_eq!(forms[0], forms[1], "{count}: {}", members[0]);
        }
    }
}
