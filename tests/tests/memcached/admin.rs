//! What administrators and exporters ask.

use proto::value::Value;
use tests::server::eventually;

use super::{Talk, start};

#[test]
fn figures_follow_what_is_done() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("set a 0 0 1\r\n1\r\nget a b\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    talk.ask("incr a 1\r\ndecr a 1\r\nincr b 1\r\n", "2\r\n1\r\nNOT_FOUND\r\n");
    talk.ask("touch a 0\r\ntouch b 0\r\n", "TOUCHED\r\nNOT_FOUND\r\n");
    talk.ask("cas b 0 0 1 5\r\nx\r\ncas a 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\nEXISTS\r\n");
    talk.ask("delete b\r\n", "NOT_FOUND\r\n");
    for (name, count) in [
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "1"),
        ("cmd_set", "3"),
        ("incr_hits", "1"),
        ("decr_hits", "1"),
        ("incr_misses", "1"),
        ("cmd_touch", "2"),
        ("touch_hits", "1"),
        ("touch_misses", "1"),
        ("cas_misses", "1"),
        ("cas_badval", "1"),
        ("delete_misses", "1"),
        ("curr_items", "1"),
        ("version", "1.6.18"),
    ] {
        assert_eq!(talk.figure(name), count, "{name}");
    }
    talk.ask("stats reset\r\n", "RESET\r\n");
    assert_eq!(talk.figure("cmd_set"), "0");
    talk.ask("delete a\r\n", "DELETED\r\n");
    assert_eq!(talk.figure("delete_hits"), "1");
}

/// What memcached counts for a request, and only that, is counted here: a `gat` is no get, an item
/// that is made for the client that asks for it is a hit, and what was not stored is no item.
#[test]
fn requests_count_as_in_memcached() {
    let server = start(&[]);
    let theirs = tests::memcached::Memcached::start(&[]);
    let large = format!("set a 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    let requests = [
        "set a 0 0 1\r\n9\r\n",
        "add a 0 0 1\r\nx\r\n",
        "add b 0 0 1\r\nx\r\n",
        "replace none 0 0 1\r\nx\r\n",
        "append none 0 0 1\r\nx\r\n",
        "append b 0 0 1\r\nx\r\n",
        "cas a 0 0 1 7777\r\nx\r\n",
        "cas none 0 0 1 7777\r\nx\r\n",
        "get a\r\n",
        "get none\r\n",
        "ms s 1\r\nx\r\n",
        "md s I\r\n",
        "md s\r\n",
        "md s I\r\n",
        "gat 0 a\r\n",
        "gat 0 none\r\n",
        "mg a T0\r\n",
        "mg made N30 v\r\n",
        "incr a 1\r\n",
        "incr none 1\r\n",
        "ma number N0 J5\r\n",
        "touch none 0\r\n",
        "set gone 0 -1 1\r\nx\r\n",
        &large,
    ];
    let names = [
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "get_hits",
        "get_misses",
        "touch_hits",
        "touch_misses",
        "incr_hits",
        "incr_misses",
        "cas_misses",
        "cas_badval",
        "total_items",
        "delete_hits",
        "delete_misses",
        "store_too_large",
    ];
    let mut talk = Talk::to(&server);
    for request in requests {
        let answer = theirs.connect().line(request);
        talk.ask(request, &answer);
        let shown = request.chars().take(30).collect::<String>();
        let their_report = theirs.connect().line("stats\r\n");
        for name in names {
            let prefix = format!("STAT {name} ");
            let count = their_report.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
            assert_eq!(Some(talk.figure(name).as_str()), count, "{name} after {shown:?}");
        }
    }
}

/// A reader of memcached's reports finds each name, but for those of flash storage and TLS.
#[test]
fn reports_tell_what_memcached_tells() {
    let theirs = tests::memcached::Memcached::start(&[]);
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    theirs.connect().line("set a 0 0 1\r\n1\r\n");
    talk.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    for report in ["stats", "stats settings", "stats items", "stats slabs", "stats sizes"] {
        let names: Vec<String> = talk.report(report).into_iter().map(|(name, _)| name).collect();
        let their_report = theirs.connect().line(&format!("{report}\r\n"));
        let missing: Vec<&str> = their_report
            .lines()
            .filter_map(|line| line.strip_prefix("STAT ")?.split(' ').next())
            .filter(|name| !names.iter().any(|own| own == name))
            .filter(|name| {
                let is_of_what_is_not_built_in =
                    name.starts_with("ext_") || name.starts_with("ssl_") && *name != "ssl_enabled";
                !is_of_what_is_not_built_in
            })
            .collect();
        assert!(missing.is_empty(), "{report} does not tell {missing:?}");
    }
}

#[test]
fn what_expires_is_counted_by_whether_it_was_read() {
    let server = start(&["--enable-debug-command", "yes"]);
    let mut talk = Talk::to(&server);
    server.client().call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    talk.ask("set unread 0 1 1\r\nx\r\nset read 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
    talk.ask("get read\r\ntouch read 1\r\n", "VALUE read 0 1\r\nx\r\nEND\r\nTOUCHED\r\n");
    eventually("the later one has expired", || {
        talk.send("get read\r\n");
        talk.read_to("END") == "END\r\n"
    });
    talk.ask("get unread\r\n", "END\r\n");
    assert_eq!(talk.figure("get_expired"), "2");
    assert_eq!(talk.figure("reclaimed"), "2");
    assert_eq!(talk.figure("expired_unfetched"), "1");
}

#[test]
fn reports() {
    let server = start(&["--memcached-item-size-max", "2mb"]);
    let mut talk = Talk::to(&server);
    let settings = talk.report("stats settings");
    let setting =
        |name: &str| settings.iter().find(|(it, _)| it == name).map(|(_, is)| is.as_str());
    assert_eq!(setting("item_size_max"), Some("2097152"));
    assert_eq!(setting("flush_enabled"), Some("yes"));
    assert!(talk.report("stats items").is_empty());
    talk.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    let items = talk.report("stats items");
    assert_eq!(items[0], ("items:1:number".to_owned(), "1".to_owned()));
    assert!(talk.report("stats slabs").iter().any(|(name, _)| name == "active_slabs"));
    assert!(talk.report("stats conns").iter().any(|(name, _)| name.ends_with(":state")));
    assert!(!talk.report("stats sizes").is_empty());
    talk.ask("stats detail on\r\nstats nonsense\r\n", "OK\r\nERROR\r\n");
}

#[test]
fn what_steers_slabs_is_answered() {
    let server = start(&[]);
    Talk::to(&server).play(&[
        ("version\r\n", "VERSION 1.6.18\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("lru\r\n", "ERROR\r\n"),
        ("lru mode flat\r\n", "OK\r\n"),
        ("lru_crawler enable\r\n", "OK\r\n"),
        ("lru_crawler\r\n", "ERROR\r\n"),
        ("slabs automove 1\r\n", "OK\r\n"),
        ("slabs\r\n", "ERROR\r\n"),
        ("shutdown\r\n", "ERROR: shutdown not enabled\r\n"),
        ("cache_memlimit\r\n", "ERROR\r\n"),
    ]);
}

#[test]
fn the_memory_limit_is_one_limit() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("cache_memlimit 64\r\n", "OK\r\n");
    talk.ask("cache_memlimit 1\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n");
    assert_eq!(talk.figure("limit_maxbytes"), (64 << 20).to_string());
    let reply = server.client().call(&["CONFIG", "GET", "maxmemory"]);
    let Value::Array(words) = reply else { panic!("{reply:?}") };
    assert_eq!(words[1].as_bytes(), Some((64 << 20).to_string().as_bytes()));
}

#[test]
fn all_items_are_forgotten_now_or_later() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    talk.ask("set a 0 0 1\r\n1\r\nflush_all\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\n");
    let mut other = server.client();
    other.call(&["SELECT", "1"]);
    other.call(&["SET", "kept", "1"]);
    talk.ask("set a 0 0 1\r\n1\r\nflush_all 1\r\n", "STORED\r\nOK\r\n");
    eventually("the items are forgotten", || {
        talk.send("get a\r\n");
        talk.read_to("END") == "END\r\n"
    });
    assert_eq!(other.call(&["EXISTS", "kept"]), Value::Integer(1), "another database");
    // A client that says another moment takes back the former one, and now is a moment too.
    talk.ask("flush_all 2\r\nflush_all\r\nset a 0 0 1\r\n1\r\n", "OK\r\nOK\r\nSTORED\r\n");
    talk.ask("set marker 0 4 1\r\n1\r\n", "STORED\r\n");
    eventually("the marker expires after the moment", || {
        talk.send("get marker\r\n");
        talk.read_to("END") == "END\r\n"
    });
    talk.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    let forbidden = start(&["--memcached-flush", "no"]);
    Talk::to(&forbidden).ask("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
}

#[test]
fn all_items_are_named() {
    let server = start(&[]);
    let mut talk = Talk::to(&server);
    let mut redis = server.client();
    redis.call(&["RPUSH", "list", "no item"]);
    redis.call(&["SET", "a key\r\n", "v"]);
    for number in 0..500 {
        talk.ask(format!("set key{number} 0 1000 1\r\nv\r\n"), "STORED\r\n");
    }
    talk.send("lru_crawler metadump all\r\n");
    let dump = talk.read_to("END");
    let lines: Vec<&str> = dump.lines().filter(|line| line.starts_with("key=")).collect();
    assert_eq!(lines.len(), 501);
    let odd = lines.iter().find(|line| line.starts_with("key=a%20key%0D%0A exp=-1 la="));
    assert!(odd.is_some_and(|line| line.contains(" cls=1 size=")), "{dump}");
    talk.send("lru_crawler mgdump all\r\n");
    let dump = talk.read_to("EN");
    let commands: Vec<&str> = dump.lines().filter(|line| line.starts_with("mg ")).collect();
    assert_eq!(commands.len(), 501);
    // The commands that the dump names can be sent back.
    for command in commands {
        talk.ask(format!("{command}\r\n"), "HD");
        talk.read_to("");
    }
    talk.ask("lru_crawler metadump x\r\n", "BADCLASS invalid class id\r\n");
    talk.is_in_step();
    let silent = start(&["--memcached-dump", "no"]);
    let refusal = "ERROR metadump not allowed\r\n";
    Talk::to(&silent).ask("lru_crawler metadump all\r\n", refusal);
}

#[test]
fn the_server_ends_at_shutdown_where_that_is_allowed() {
    let server = start(&["--memcached-shutdown", "yes"]);
    let mut talk = Talk::to(&server);
    talk.send("shutdown\r\n");
    assert!(talk.is_closed());
    assert!(server.wait().success());
}
