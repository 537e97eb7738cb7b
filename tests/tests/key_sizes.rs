//! `INFO keysizes`: keys by type and size, as a real server counts them, after every way in which
//! a size changes.

use base::quote::split_arguments;
use proto::value::Value;
use tests::render::text;
use tests::server::eventually;
use tests::{Client, Oracle, Server, samples};

/// Each line is a request; the sections are compared after each. `~` stands for 3,000 bytes,
/// `@` for forty members.
const REQUESTS: &str = r#"
    SET s ""
    SET s x
    SET s 12
    INCRBY s 88
    DECRBY s 1000
    SET s 2
    APPEND s 3456
    SETRANGE s 100 x
    SETRANGE s 3 y
    SETRANGE s 70000 z
    APPEND s ~
    SETBIT s 9000000 1
    GETSET s 1
    GETDEL s
    SETEX s 100000 12345678
    GETEX s PERSIST
    INCRBYFLOAT s 0.5
    SET o abc EX 100000
    SET o abcdefgh KEEPTTL
    MSET a 1 b 22 c 333 d ~
    COPY d e
    RENAME d e
    RENAME a b
    MOVE e 3
    RENAMENX c f
    BITOP NOT n o
    BITFIELD n SET u8 #40 255
    PFADD h a b c
    PFMERGE h2 h
    RPUSH l a
    RPUSH l @
    LPOP l 3
    LTRIM l 0 4
    LINSERT l BEFORE m2 x
    LREM l 0 x
    LMOVE l k LEFT RIGHT
    RPOPLPUSH l k
    RPUSH l ~ ~ ~
    LSET l 0 ~
    BLPOP l 0
    SADD set 1 2 3
    SADD set @
    SMOVE set other m1
    SPOP set 5
    SDIFFSTORE third set other
    SINTERSTORE third set other
    SUNIONSTORE third set other
    SREM set m10 m11 m12 m13
    ZADD z 1 a 2 b 3 c
    ZPOPMIN z
    ZRANGESTORE y z 0 -1
    ZUNIONSTORE y 2 z set
    ZREMRANGEBYRANK y 3 -1
    ZADD z 5 ~
    ZADD z GT 4 b
    ZINTERSTORE y 2 z y
    GEOADD g 1 1 here 2 2 there
    GEOSEARCHSTORE found g FROMLONLAT 1 1 BYRADIUS 1 km
    HSET hash a 1
    HSET hash b 2 c 3 d 4
    HSET hash b ~
    HINCRBY hash n 4
    HDEL hash a b
    HPEXPIRE hash 100000000 FIELDS 1 c
    HSETEX hash PX 100000000 FIELDS 2 i 1 j 2
    HGETDEL hash FIELDS 1 i
    HDEL hash c d j n
    XADD stream * a 1
    SORT set ALPHA STORE sorted
    EVAL "for i = 1, 40 do redis.call('RPUSH', KEYS[1], i) end redis.call('DEL', KEYS[2])" 2 l b
    EVAL "redis.call('SET', KEYS[1], 'abc') return redis.call('GET', KEYS[2])" 2 fresh absent
    SWAPDB 0 3
    SWAPDB 3 0
    DUMP set
    UNLINK set
    DEL s o n
    SELECT 3
    FLUSHDB
    SELECT 0
    SET l s
    SET short 1 PX 100000000
    PEXPIRE short -1
    GETEX fresh EXAT 1
    FLUSHALL
"#;

fn sizes(client: &mut Client) -> String {
    text(&client.call(&["INFO", "keysizes"]))
}

fn words(line: &str) -> Vec<Vec<u8>> {
    let words = split_arguments(line.as_bytes()).expect("quotes are balanced");
    let fill = |word: Vec<u8>| match &word[..] {
        b"~" => vec![vec![b'v'; 3000]],
        b"@" => (0..40).map(|number| format!("m{number}").into_bytes()).collect(),
        _ => vec![word],
    };
    words.into_iter().flat_map(fill).collect()
}

#[test]
fn every_change_of_a_size_counts_as_in_the_real_server() {
    let servers = [Server::start(&["--save", ""]), Oracle::redis82()];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
    for line in REQUESTS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for client in [&mut ours, &mut theirs] {
            let reply = client.call(&words(line));
            assert!(!matches!(reply, Value::Error(_)), "{line}: {}", text(&reply));
        }
        assert_eq!(sizes(&mut ours), sizes(&mut theirs), "{line}");
    }
    assert_eq!(sizes(&mut ours), "# Keysizes\r\n");
}

#[test]
fn large_and_small_values_of_every_type_are_counted_where_info_is_asked_for_all() {
    let servers = [Server::start(&["--save", ""]), Oracle::redis82()];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
    for client in [&mut ours, &mut theirs] {
        samples::fill(client, true);
    }
    assert_eq!(sizes(&mut ours), sizes(&mut theirs));
    let told = sizes(&mut ours);
    for sections in [&[][..], &["default"], &["all"], &["everything"], &["server", "KeySizes"]] {
        let report = text(&ours.call(&[&["INFO"], sections].concat()));
        assert!(report.ends_with(&told), "{sections:?}");
    }
}

#[test]
fn what_goes_by_itself_and_what_comes_back_from_a_file_is_counted() {
    let mut server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    samples::fill(&mut client, true);
    let told = sizes(&mut client);
    samples::run(&mut client, &["DEBUG", "RELOAD"]);
    assert_eq!(sizes(&mut client), told);
    samples::run(&mut client, &["SET", "gone", "a-value-of-its-own-size-among-all", "PX", "1"]);
    samples::run(&mut client, &["HSET", "shrinks", "a", "1", "b", "2"]);
    samples::run(&mut client, &["HPEXPIRE", "shrinks", "1", "FIELDS", "2", "a", "b"]);
    eventually("what is over is not counted", || sizes(&mut client) == told);
    samples::run(&mut client, &["SAVE"]);
    server.kill();
    server.restart();
    assert_eq!(sizes(&mut server.client()), told);
}
