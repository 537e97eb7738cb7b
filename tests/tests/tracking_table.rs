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
