//! What the list commands cost, and which requests are too much for a worker.

use crate::testing::Session;

#[test]
fn what_is_much_is_done_elsewhere() {
    let mut session = Session::new();
    let element = b"element".as_slice();
    for _ in 0..20 {
        let words: Vec<_> =
            [b"RPUSH".as_slice(), b"l"].into_iter().chain([element; 1000]).collect();
        session.call_words(&words);
        assert!(!session.ran_heavy());
    }
    let table: &[(&str, bool)] = &[
        ("LRANGE l 0 100", false),
        ("LRANGE l 0 -1", false),
        ("LPOS l none MAXLEN 1000", false),
        ("LPOS l none", true),
        ("LREM l 0 none", true),
        ("LINSERT l BEFORE none x", true),
        ("LPOP l 10", false),
        ("LMOVEM l m LEFT RIGHT COUNT 5000 BULK", true),
        ("LPOP l 10000", true),
        ("LTRIM l 1 0", false),
    ];
    for (line, heavy) in table {
        session.call(line);
        assert_eq!(session.ran_heavy(), *heavy, "{line}");
        assert_eq!(session.streamed(), *line == "LRANGE l 0 -1", "{line}");
    }
    assert_eq!(session.call("LLEN m"), ":5000");
}

#[test]
fn a_search_is_charged_by_the_bytes_it_compares() {
    let mut session = Session::new();
    let (common, long) = ("x".repeat(1000), "y".repeat(10_000));
    for number in 0..2000 {
        session.call(&format!("RPUSH alike {common}{number:04}"));
        session.call(&format!("RPUSH short {number}"));
    }
    let alike = format!("{common}none");
    for (request, is_heavy) in [
        (format!("LPOS alike {alike}"), true),
        (format!("LPOS alike {alike} MAXLEN 100"), false),
        (format!("LREM alike 0 {alike}"), true),
        (format!("LINSERT alike BEFORE {alike} 1"), true),
        ("LPOS alike none".to_owned(), false),
        ("LREM alike 0 none".to_owned(), false),
        ("LINSERT alike AFTER none 1".to_owned(), false),
        (format!("LPOS short {long}"), false),
        (format!("LREM short 0 {long}"), false),
        (format!("LINSERT short AFTER {long} 1"), false),
    ] {
        session.call(&request);
        let head = &request[..request.len().min(20)];
        assert_eq!(session.ran_heavy(), is_heavy, "{head}");
    }
}
