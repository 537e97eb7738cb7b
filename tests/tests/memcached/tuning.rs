//! What steers memcached's insides, and clients that want no answer, beside the real one.
//!
//! Invariant: whatever was asked and however, the answers are the same to the letter.

use tests::memcached::{Connection, Memcached, Packet};

/// Commands that steer what is not here, right and wrong.
const STEERING: &[&str] = &[
    "lru",
    "lru noreply",
    "lru x noreply",
    "lru mode",
    "lru mode flat",
    "lru mode segmented noreply",
    "lru mode flat x y",
    "lru mode x",
    "lru mode x noreply",
    "lru tune 10 20 0.2",
    "lru tune 10 20 0.2 2",
    "lru tune 10 20 0.2 2 5",
    "lru tune 40 41 .2 2",
    "lru tune 90 20 0 0",
    "lru tune 90 20 x 0",
    "lru tune 10 20 0 2",
    "lru tune 10 20 2 -1",
    "lru tune -1 20 .2 2",
    "lru tune 1.5 2 .2 2",
    "lru tune 99999999999 1 1 1",
    "lru temp_ttl",
    "lru temp_ttl 60 5",
    "lru temp_ttl -1",
    "lru temp_ttl x",
    "slabs",
    "slabs noreply",
    "slabs x noreply",
    "slabs reassign 1",
    "slabs reassign 1 2",
    "slabs reassign 1 2 3",
    "slabs reassign 1 2 noreply",
    "slabs reassign 1 1",
    "slabs reassign -1 2",
    "slabs reassign 40 41",
    "slabs reassign 1 x",
    "slabs automove",
    "slabs automove noreply",
    "slabs automove 1 2",
    "slabs automove 3",
    "slabs automove -1",
    "slabs automove x",
    "slabs automove 1 noreply",
    "slabs automove ratio",
    "slabs automove ratio 0.5",
    "slabs automove ratio x",
    "lru_crawler",
    "lru_crawler disable noreply",
    "lru_crawler sleep 1000000",
    "lru_crawler sleep 1000001",
    "lru_crawler sleep x",
    "lru_crawler sleep 100 noreply",
    "lru_crawler tocrawl 5",
    "lru_crawler tocrawl x",
    "lru_crawler crawl",
    "lru_crawler crawl x",
    "lru_crawler crawl 0",
    "lru_crawler crawl 64",
    "lru_crawler crawl 1,x",
    "lru_crawler crawl noreply",
    "lru_crawler metadump",
    "lru_crawler metadump x",
    "lru_crawler metadump 0",
    "lru_crawler metadump all noreply",
    "extstore",
    "extstore noreply",
    "extstore x 1 noreply",
    "extstore item_size",
    "extstore item_size 1",
    "extstore item_size x",
    "extstore item_age 5 noreply",
    "extstore low_ttl 5 6",
    "extstore recache_rate 5",
    "extstore compact_under 5",
    "extstore drop_under 5",
    "extstore max_sleep 5",
    "extstore drop_unread 1",
    "extstore max_frag 0.5",
    "extstore max_frag x",
    "extstore free_memchunks 1",
    "extstore free_memchunks 1 2",
    "extstore free_memchunks 99 2",
];

/// Commands with a meaning, and reports.
const OTHERS: &[&str] = &[
    "cache_memlimit",
    "cache_memlimit noreply",
    "cache_memlimit x",
    "cache_memlimit 7",
    "cache_memlimit 7 noreply",
    "cache_memlimit 64 noreply",
    "cache_memlimit 64 x",
    "cache_memlimit 64 x y",
    "stats sizes",
    "stats sizes_disable",
    "stats proxy",
    "stats extstore",
    "stats nonsense noreply",
    "stats reset noreply",
    "stats detail",
    "stats detail noreply",
    "stats detail dump",
    "stats cachedump",
    "stats cachedump 1",
    "stats cachedump 1 0",
    "stats cachedump 1 1 noreply",
    "stats cachedump 2 0",
    "stats cachedump 64 0",
    "stats cachedump x 0",
    "stats cachedump 1 -1",
    "refresh_certs noreply",
    "shutdown noreply",
    "version noreply",
    "verbosity noreply",
    "verbosity 99999999999",
    "verbosity 1 2 3",
    "watch noreply",
    "watch fetchers noreply",
    "bget k",
    "bget k absent",
    "bget",
    "delete noreply",
    "delete k noreply",
    "delete k x noreply",
    "incr noreply",
    "incr k noreply",
    "incr k x noreply",
    "touch k noreply",
    "touch k x noreply",
    "flush_all x noreply",
    "set k 0 noreply",
    "set k 0 0 noreply",
    "set k x 0 1 noreply",
    "set k 0 0 -1 noreply",
    "set k 0 0 1 noreply noreply",
    "cas k 0 0 1 noreply",
    "cas k 0 0 1 x noreply",
];

#[test]
fn requests_that_steer_or_want_no_answer_are_answered_as_by_memcached() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    for line in STEERING.iter().chain(OTHERS) {
        let answers = [&ours, &theirs].map(|server| {
            let mut connection = server.connect();
            assert_eq!(connection.line("set k 5 0 2\r\n10\r\n"), "STORED\r\n");
            connection.line(&format!("{line}\r\n"))
        });
        assert_eq!(answers[0], answers[1], "{line}");
    }
}

#[test]
fn reports_that_the_binary_protocol_does_not_have_are_not_found() {
    let (ours, theirs) = (Memcached::start_ours(&[]), Memcached::start(&[]));
    for report in ["nonsense", "conns", "cachedump 1 0", "detail", "detail x", "extstore", "proxy"]
    {
        let request = Packet::new(0x10, b"", report.as_bytes(), b"").request();
        let told = [&ours, &theirs].map(|server| server.connect().packets(&request));
        assert_eq!(told[0], told[1], "{report}");
        assert_eq!(told[0][0].status, 1, "{report}");
    }
}

/// All items, or some, with the lengths of their values and when they expire.
#[test]
fn a_class_can_be_dumped() {
    let ours = Memcached::start_ours(&[]);
    let mut connection = ours.connect();
    for number in 0..100 {
        connection.line(&format!("set user:{number} 0 0 3 noreply\r\nabc\r\n"));
    }
    // A key that no line can hold is left out.
    assert_eq!(connection.line("ms YSBi 1 b\r\nx\r\n"), "HD\r\n");
    let dump = |connection: &mut Connection, limit: usize| {
        let text = connection.line(&format!("stats cachedump 1 {limit}\r\n"));
        let items = text.strip_suffix("END\r\n").expect("an end").lines();
        items.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = dump(&mut connection, 0);
    all.sort();
    let mut expected: Vec<String> =
        (0..100).map(|number| format!("ITEM user:{number} [3 b; 0 s]")).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(dump(&mut connection, 7).len(), 7);
    connection.line("flush_all\r\nset k 0 2000000000 1\r\nx\r\n");
    assert_eq!(dump(&mut connection, 0), ["ITEM k [1 b; 2000000000 s]"]);
}

/// What the command line forbids is refused in memcached's words, and the report says so.
#[test]
fn what_is_forbidden_is_refused_and_what_is_set_is_told() {
    let arguments = ["-X", "-F", "-W", "-B", "ascii", "-vv", "-o", "idle_timeout=50"];
    let (ours, theirs) = (Memcached::start_ours(&arguments), Memcached::start(&arguments));
    for line in ["stats cachedump 1 1", "flush_all", "watch", "lru_crawler metadump all"] {
        let answers = [&ours, &theirs].map(|server| server.connect().line(&format!("{line}\r\n")));
        assert_eq!(answers[0], answers[1], "{line}");
    }
    let settings = [&ours, &theirs].map(|server| server.connect().line("stats settings\r\n"));
    for name in ["verbosity", "binding_protocol", "idle_timeout", "dump_enabled"] {
        let setting = settings.each_ref().map(|report| {
            let prefix = format!("STAT {name} ");
            report.lines().find(|line| line.starts_with(&prefix)).map(str::to_owned)
        });
        assert_eq!(setting[0], setting[1], "{name}");
    }
}
