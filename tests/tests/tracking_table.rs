//! The table of tracked keys: keys that expire leave it, it keeps to its limit, and INFO counts
//! what is in it.

use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// What INFO says of tracking: clients, keys, items, prefixes.
fn figures(client: &mut Client) -> [u64; 4] {
    let info = text(&client.call(&["INFO", "everything"]));
    ["clients", "total_keys", "total_items", "total_prefixes"].map(|name| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("tracking_{name}:")));
        line.expect("INFO has all of them").trim().parse().expect("a number")
    })
}

#[test]
fn keys_that_expire_are_told_of_and_the_table_has_its_limit() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let (mut writer, mut one, mut other) =
            (server.client(), server.client3(), server.client3());
        assert_eq!(figures(&mut writer), [0; 4]);
        check(&mut one, "> CLIENT TRACKING ON\nOK\n> SET brief x PX 20\nOK\n> EXISTS brief\n...");
        check(&mut one, "<\n1> \"invalidate\"\n2> 1) \"brief\"");
        check(&mut other, "> CLIENT TRACKING ON\nOK\n> MGET k0 k1\n...");
        for number in 0..10 {
            one.call(&["GET", &format!("k{number}")]);
        }
        assert_eq!(figures(&mut writer), [2, 10, 12, 0]);
        writer.call(&["SET", "k0", "1"]);
        check(&mut one, "<\n1> \"invalidate\"\n2> 1) \"k0\"");
        assert_eq!(figures(&mut writer), [2, 9, 10, 0]);
        writer.call(&["CONFIG", "SET", "tracking-table-max-keys", "3"]);
        eventually("there is room", || figures(&mut writer)[1] == 3);
        for _ in 0..6 {
            assert!(render(&one.receive()).contains("invalidate"));
        }
        check(&mut one, "> CLIENT TRACKING OFF\nOK\n> CLIENT TRACKING ON BCAST PREFIX a\nOK");
        assert_eq!(figures(&mut writer)[3], 1);
        drop((one, other));
        eventually("nobody is left", || {
            let [clients, .., prefixes] = figures(&mut writer);
            (clients, prefixes) == (0, 0)
        });
    }
}

/// A table that is to be much smaller is emptied by and by: its keys are told in many messages, and
/// no client is owed all of them at once.
#[test]
fn a_table_that_is_far_too_large_is_emptied_by_and_by() {
    const KEYS: usize = 20_000;
    let server = Server::start(&[]);
    let (mut writer, mut reader) = (server.client(), server.client3());
    check(&mut reader, "> CLIENT TRACKING ON\nOK");
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    reader.call(&words);
    assert_eq!(figures(&mut writer)[1], KEYS as u64);
    let told = writer
        .pipeline(&[vec!["CONFIG", "SET", "tracking-table-max-keys", "1"], vec!["INFO", "stats"]]);
    let left = text(&told[1]);
    let left = left.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
    let left: usize = left.and_then(|left| left.trim().parse().ok()).expect("a number");
    assert!(left > 1, "all are told at once");
    eventually("one is left", || figures(&mut writer)[1] == 1);
}
