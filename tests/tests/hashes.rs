//! Hashes, every option word of every command, in both protocols. The tables are proven on the
//! real servers that have the commands.

use base::quote::split_arguments;
use tests::render::render;
use tests::script::afresh;
use tests::server::eventually;
use tests::{Client, Oracle, Server, play};

/// Known to every real server, and the same in both protocols.
const COMMON: &str = r#"
    HSET h a 1 b 2 a 3 => (integer) 2
    HSET h a => (error) ERR wrong number of arguments for 'hset' command
    HMSET h a 1 c 4 => OK
    HSETNX h a 9 => (integer) 0
    HSETNX h d 1 => (integer) 1
    HGET h a => "1"
    HGET none a => (nil)
    HMGET h a x b => 1) "1" 2) (nil) 3) "2"
    HKEYS h => 1) "a" 2) "b" 3) "c" 4) "d"
    HVALS h => 1) "1" 2) "2" 3) "4" 4) "1"
    HKEYS none => (empty array)
    HLEN h => (integer) 4
    HSTRLEN h a => (integer) 1
    HEXISTS h a => (integer) 1
    HEXISTS h zz => (integer) 0
    HINCRBY h a 41 => (integer) 42
    HINCRBY h a x => (error) ERR value is not an integer or out of range
    HINCRBYFLOAT h a 0.5 => "42.5"
    HINCRBY h a 1 => (error) ERR hash value is not an integer
    HINCRBYFLOAT h a x => (error) ERR value is not a valid float
    HINCRBYFLOAT h a inf => (error) ERR value is NaN or Infinity
    HDEL h b c d zz => (integer) 3
    HSCAN h 0 => 1) "0" 2) 1) "a" 2) "42.5"
    HSCAN h 0 MATCH b* COUNT 10 => 1) "0" 2) (empty array)
    HSCAN h x => (error) ERR invalid cursor
    HSCAN h 0 COUNT 0 => (error) ERR syntax error
    HRANDFIELD h => "a"
    HRANDFIELD h -2 => 1) "a" 2) "a"
    HRANDFIELD h 1 FOO => (error) ERR syntax error
    HRANDFIELD none => (nil)
    HRANDFIELD none 1 WITHVALUES => (empty array)
    HRANDFIELD h -9223372036854775807 WITHVALUES => (error) ERR value is out of range
    HDEL h a => (integer) 1
    EXISTS h => (integer) 0
    SET s 1 => OK
    HGET s a => (error) WRONGTYPE Operation against a key holding the wrong kind of value
    HSET s a 1 => (error) WRONGTYPE Operation against a key holding the wrong kind of value
"#;

const IN_RESP2: &str = r#"
    HSET h a 1 => (integer) 1
    HGETALL h => 1) "a" 2) "1"
    HGETALL none => (empty array)
    HRANDFIELD h 1 WITHVALUES => 1) "a" 2) "1"
"#;

const IN_RESP3: &str = r#"
    HSET h a 1 => (integer) 1
    HGETALL h => 1# "a" => "1"
    HGETALL none => (empty hash)
    HRANDFIELD h 1 WITHVALUES => 1) 1) "a" 2) "1"
"#;

/// Known to Redis 8.2 and Valkey 9.1, which agree on it.
const TIMED: &str = r#"
    HSET h a 1 b 2 c 3 => (integer) 3
    HSCAN h 0 NOVALUES => 1) "0" 2) 1) "a" 2) "b" 3) "c"
    HEXPIRE h 100 FIELDS 1 a => 1) (integer) 1
    HEXPIRE h 100 NX FIELDS 2 a b => 1) (integer) 0 2) (integer) 1
    HEXPIRE h 200 XX FIELDS 3 a c zz => 1) (integer) 1 2) (integer) 0 3) (integer) -2
    HEXPIRE h 300 GT FIELDS 2 a c => 1) (integer) 1 2) (integer) 0
    HEXPIRE h 100 LT FIELDS 2 a c => 1) (integer) 1 2) (integer) 1
    HTTL h FIELDS 2 a zz => 1) (integer) 100 2) (integer) -2
    HPEXPIREAT h 9999999999000 FIELDS 1 a => 1) (integer) 1
    HPEXPIREAT h 9999999998000 NX FIELDS 1 a => 1) (integer) 0
    HPEXPIREAT h 9999999998000 GT FIELDS 1 a => 1) (integer) 0
    HPEXPIREAT h 9999999998000 LT FIELDS 1 a => 1) (integer) 1
    HPEXPIREAT h 9999999999000 XX FIELDS 1 a => 1) (integer) 1
    HEXPIRETIME h FIELDS 1 a => 1) (integer) 9999999999
    HPEXPIRETIME h FIELDS 1 a => 1) (integer) 9999999999000
    HEXPIREAT h 2000000000 FIELDS 1 a => 1) (integer) 1
    HEXPIREAT h 2000000001 NX FIELDS 1 a => 1) (integer) 0
    HEXPIREAT h 2000000001 XX FIELDS 1 a => 1) (integer) 1
    HEXPIREAT h 2000000002 GT FIELDS 1 a => 1) (integer) 1
    HEXPIREAT h 2000000003 LT FIELDS 1 a => 1) (integer) 0
    HPEXPIRE h 100000 FIELDS 1 b => 1) (integer) 1
    HPEXPIRE h 100000 NX FIELDS 1 b => 1) (integer) 0
    HPEXPIRE h 200000 XX FIELDS 1 b => 1) (integer) 1
    HPEXPIRE h 300000 GT FIELDS 1 b => 1) (integer) 1
    HPEXPIRE h 400000 LT FIELDS 1 b => 1) (integer) 0
    HPERSIST h FIELDS 3 a b zz => 1) (integer) 1 2) (integer) 1 3) (integer) -2
    HPERSIST h FIELDS 1 a => 1) (integer) -1
    HPTTL h FIELDS 2 a none => 1) (integer) -1 2) (integer) -2
    HSETEX h EX 100 FIELDS 1 a 1 => (integer) 1
    HSETEX h KEEPTTL FIELDS 1 a 2 => (integer) 1
    HTTL h FIELDS 1 a => 1) (integer) 100
    HSETEX h PX 100000 FIELDS 1 a 1 => (integer) 1
    HSETEX h EXAT 2000000000 FIELDS 1 a 1 => (integer) 1
    HSETEX h PXAT 2000000000000 FIELDS 1 a 1 => (integer) 1
    HEXPIRETIME h FIELDS 1 a => 1) (integer) 2000000000
    HSETEX h FNX FIELDS 1 a 1 => (integer) 0
    HSETEX h FXX FIELDS 2 a 1 new 2 => (integer) 0
    HSETEX h FXX FIELDS 1 a 1 => (integer) 1
    HTTL h FIELDS 1 a => 1) (integer) -1
    HGETEX h FIELDS 2 a zz => 1) "1" 2) (nil)
    HGETEX h EX 100 FIELDS 1 a => 1) "1"
    HGETEX h PX 100000 FIELDS 1 a => 1) "1"
    HTTL h FIELDS 1 a => 1) (integer) 100
    HGETEX h EXAT 2000000000 FIELDS 1 a => 1) "1"
    HGETEX h PXAT 2000000001000 FIELDS 1 a => 1) "1"
    HEXPIRETIME h FIELDS 1 a => 1) (integer) 2000000001
    HGETEX h PERSIST FIELDS 1 a => 1) "1"
    HTTL h FIELDS 1 a => 1) (integer) -1
    HGETEX h EX 0 FIELDS 1 a => 1) "1"
    HEXISTS h a => (integer) 0
    HGETDEL h FIELDS 3 b b zz => 1) "2" 2) (nil) 3) (nil)
    HEXPIRE h 0 FIELDS 2 c c => 1) (integer) 2 2) (integer) -2
    EXISTS h => (integer) 0
"#;

/// Redis 8.2's words; Valkey has others.
const REFUSED: &str = r#"
    HSET h a 1 => (integer) 1
    HEXPIRE h 100 FIELDS 2 a
        => (error) ERR The `numfields` parameter must match the number of arguments
    HEXPIRE h 100 FIELDS 0 a => (error) ERR Parameter `numFields` should be greater than 0
    HEXPIRE h 100 FOO 1 a
        => (error) ERR Mandatory argument FIELDS is missing or not at the right position
    HEXPIRE h -1 FIELDS 1 a => (error) ERR invalid expire time, must be >= 0
    HPEXPIREAT h 70368744177664 FIELDS 1 a
        => (error) ERR invalid expire time in 'hpexpireat' command
    HTTL h FIELDS 0 a => (error) ERR Number of fields must be a positive integer
    HSETEX h FNX FXX FIELDS 1 a 1 => (error) ERR Only one of FXX or FNX arguments can be specified
    HSETEX h EX 1 PX 1 FIELDS 1 a 1
        => (error) ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
    HSETEX h FOO FIELDS 1 a 1 => (error) ERR unknown argument: FOO
    HSETEX h FIELDS 0 a 1 => (error) ERR invalid number of fields
    HSETEX h PX 1300 FIELDS 1 a 1 => (integer) 1
    HTTL h FIELDS 1 a => 1) (integer) 2
    OBJECT ENCODING h => "listpackex"
"#;

/// Valkey's own words.
const VALKEYS: &str = r#"
    HSETEX h XX FIELDS 1 a 1 => (integer) 0
    HSETEX h NX FIELDS 1 a 1 => (integer) 1
    HSETEX h NX FIELDS 1 b 1 => (integer) 0
    HSETEX h XX FXX FIELDS 1 a 2 => (integer) 1
"#;

/// A script without indentation, and with long replies, which have lines of their own, behind
/// their requests.
fn unfolded(script: &str) -> String {
    script.lines().map(str::trim).collect::<Vec<_>>().join("\n").replace("\n=> ", " => ")
}

#[track_caller]
fn talk(client: &mut Client, table: &str) {
    client.call(&["FLUSHALL"]);
    for line in unfolded(table).lines().filter(|line| !line.is_empty()) {
        let (request, reply) = line.split_once(" => ").expect("a line has a reply");
        let words = split_arguments(request.as_bytes()).expect("quotes are balanced");
        let said = render(&client.call(&words));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said, reply, "{request}");
    }
}

fn talk_in_both(server: &Server, table: &str) {
    talk(&mut server.client(), table);
    talk(&mut server.client3(), table);
}

#[test]
fn hashes_answer_as_written() {
    let server = Server::start(&[]);
    for table in [COMMON, TIMED, REFUSED, VALKEYS] {
        talk_in_both(&server, table);
    }
    talk(&mut server.client(), IN_RESP2);
    talk(&mut server.client3(), IN_RESP3);
}

#[test]
fn the_real_servers_write_the_same() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        talk_in_both(&server, COMMON);
        talk(&mut server.client(), IN_RESP2);
        talk(&mut server.client3(), IN_RESP3);
    }
    let (redis82, valkey91) = (Oracle::redis82(), Oracle::valkey91());
    talk_in_both(&redis82, TIMED);
    talk_in_both(&redis82, REFUSED);
    talk_in_both(&valkey91, TIMED);
    talk_in_both(&valkey91, VALKEYS);
}

/// What follows `name` in a section of INFO, up to a comma or the line's end.
fn figure(client: &mut Client, section: &str, name: &str) -> String {
    let info = render(&client.call(&["INFO", section]));
    let after = info.split_once(name).map_or("", |(_, after)| after);
    after.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or("").to_owned()
}

#[test]
fn fields_vanish_without_being_touched() {
    for server in [Server::start(&[]), Oracle::redis82()] {
        let mut client = server.client();
        client.call(&["HSETEX", "stays", "EX", "1000", "FIELDS", "1", "f", "v"]);
        assert_eq!(figure(&mut client, "keyspace", "subexpiry="), "1");
        for number in 0..1000 {
            let field = format!("f{number}");
            client.call(&["HSETEX", "goes", "PX", "20", "FIELDS", "1", &field, "v"]);
        }
        client.call(&["HSETEX", "small", "PX", "20", "FIELDS", "2", "a", "1", "b", "2"]);
        eventually("the keys are gone", || render(&client.call(&["DBSIZE"])) == "(integer) 1");
        assert_eq!(figure(&mut client, "keyspace", "subexpiry="), "1");
        assert_eq!(figure(&mut client, "stats", "expired_subkeys:"), "1002");
    }
}

/// Fields of a hash that is small by the thresholds that are there at first come in their order,
/// however long they are: by insertion, and with deadlines as in the real server.
#[test]
fn a_small_hash_keeps_the_order_of_its_fields_up_to_the_thresholds() {
    for size in [8, 60, 62, 64] {
        let ask = |server: &Server, words: &[&str]| render(&server.client().call(words));
        let servers = [Server::start(&["--save", ""]), Oracle::redis82()];
        let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
        let order: Vec<String> = (0..512).map(|number| format!("{:0size$}", number * 7)).collect();
        let value = "v".repeat(size);
        for client in [&mut ours, &mut theirs] {
            for (number, field) in order.iter().enumerate() {
                client.call(&["HSET", "h", field, &value]);
                client.call(&["HSET", "timed", field, &value]);
                let at = (4_102_444_800_000_u64 + (number as u64 * 131 % 97) * 1000).to_string();
                client.call(&["HPEXPIREAT", "timed", &at, "FIELDS", "1", field]);
            }
            client.call(&["HDEL", "h", &order[3]]);
            client.call(&["HSET", "h", &order[3], "again"]);
            client.call(&["HSET", "h", &order[5], "other"]);
        }
        let requests: [&[&str]; 8] = [
            &["OBJECT", "ENCODING", "h"],
            &["OBJECT", "ENCODING", "timed"],
            &["HKEYS", "h"],
            &["HVALS", "h"],
            &["HGETALL", "h"],
            &["HKEYS", "timed"],
            &["HSCAN", "h", "0"],
            &["HGETALL", "timed"],
        ];
        for request in requests {
            let [ours, theirs] = servers.each_ref().map(|server| ask(server, request));
            assert!(ours == theirs, "{request:?} of {size} bytes: {ours} {theirs}");
        }
    }
}

/// docs/decisions/published.md: here no reader removes what is over, and the next writer all of it.
#[test]
fn readers_leave_fields_whose_time_is_over_to_writers() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    let mut ask = |line: &str| render(&client.call(&line.split(' ').collect::<Vec<_>>()));
    ask("DEBUG SET-ACTIVE-EXPIRE 0");
    ask("HSET h a 1 b 2 c 3");
    ask("HPEXPIRE h 1 FIELDS 2 a b");
    eventually("the time is over", || ask("HGET h a") == "(nil)" && ask("HGET h b") == "(nil)");
    for reader in ["HMGET h a b", "HEXISTS h a", "HSTRLEN h b", "HTTL h FIELDS 1 a"] {
        assert!(!ask(reader).contains("(error)"), "{reader}");
    }
    assert_eq!(ask("HGETALL h"), "1) \"c\"\n2) \"3\"");
    assert_eq!(ask("HLEN h"), "(integer) 3");
    assert_eq!(ask("HSET h c 4"), "(integer) 0");
    assert_eq!(ask("HLEN h"), "(integer) 1");
    ask("HSET once a 1");
    ask("HPEXPIRE once 1 FIELDS 1 a");
    eventually("the time is over", || ask("HGET once a") == "(nil)");
    assert_eq!(ask("EXISTS once"), "(integer) 1");
    ask("DEBUG SET-ACTIVE-EXPIRE 1");
    eventually("the worker removes it", || ask("EXISTS once") == "(integer) 0");
}

/// HIMPORT of Redis 8.10: the pages at redis.io/commands/himport-prepare and its kin.
const IMPORTS: &str = r#"
    > HIMPORT PREPARE u name email age
    OK
    > HIMPORT SET user:1 u alice a@b.c 30
    OK
    > HMGET user:1 name email age
    1) "alice"
    2) "a@b.c"
    3) "30"
    > EXPIRE user:1 100
    (integer) 1
    > HSET user:1 more x
    (integer) 1
    > HIMPORT SET user:1 u bob b@b.c 25
    OK
    > HLEN user:1
    (integer) 3
    > TTL user:1
    (integer) -1
    > HIMPORT PREPARE u name
    OK
    > HIMPORT SET user:2 u bob b@b.c 25
    (error) ERR value count does not match fieldset field count
    > HIMPORT SET user:2 u ""
    OK
    > HGET user:2 name
    ""
    > HIMPORT PREPARE "" "" x
    OK
    > HIMPORT SET k "" 1 2
    OK
    > HMGET k "" x
    1) "1"
    2) "2"
    > HIMPORT PREPARE d a b a
    (error) ERR duplicate field name in fieldset
    > HIMPORT SET k d 1 2 3
    (error) ERR no such fieldset
    > SET s v
    OK
    > HIMPORT SET s u x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > HIMPORT DISCARD nothing
    (integer) 0
    > HIMPORT DISCARD u
    (integer) 1
    > HIMPORT SET k u 1
    (error) ERR no such fieldset
    > HGET k x
    "2"
    > HIMPORT PREPARE v a
    OK
    > HIMPORT DISCARDALL
    (integer) 2
    > HIMPORT DISCARDALL
    (integer) 0
    > HIMPORT PREPARE v
    (error) ERR wrong number of arguments for 'himport|prepare' command
    > HIMPORT SET k v
    (error) ERR wrong number of arguments for 'himport|set' command
    > HIMPORT DISCARDALL x
    (error) ERR wrong number of arguments for 'himport|discardall' command
    > HIMPORT NOSUCH
    (error) ERR unknown subcommand 'NOSUCH'. Try HIMPORT HELP.
    > COMMAND GETKEYS HIMPORT SET k v 1
    1) "k"
"#;

#[test]
fn hashes_are_imported_by_fieldsets() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, IMPORTS);
    }
    let script = r#"
        a> HIMPORT PREPARE u name
        OK
        b> HIMPORT SET k u x
        (error) ERR no such fieldset
        a> RESET
        RESET
        a> HIMPORT SET k u x
        (error) ERR no such fieldset
    "#;
    play(&server, script);
}

/// The fields of a large import are put before its values on a background thread.
#[test]
fn large_imports_are_done_elsewhere() {
    const FIELDS: usize = 100;
    let server = Server::start(&["--worker-threads", "1"]);
    let (mut client, mut watcher) = (server.client(), server.client());
    let words = |head: &[&str], letter: &str| -> Vec<String> {
        let words = (0..FIELDS).map(|number| format!("{number}{}", letter.repeat(1000)));
        head.iter().map(ToString::to_string).chain(words).collect()
    };
    let mut elsewhere = || -> u64 {
        let line = watcher.info("worker_0");
        let count = line.split(',').find_map(|part| part.strip_prefix("elsewhere="));
        count.and_then(|count| count.parse().ok()).expect("it is a number")
    };
    assert_eq!(render(&client.call(&words(&["HIMPORT", "PREPARE", "u"], "f"))), "OK");
    let import = words(&["HIMPORT", "SET", "k", "u"], "v");
    let before = elsewhere();
    assert_eq!(render(&client.call(&import)), "OK");
    assert_eq!(elsewhere(), before + 1);
    client.call(&["MULTI"]);
    client.call(&import);
    assert_eq!(render(&client.call(&["EXEC"])), "1) OK");
    assert_eq!(elsewhere(), before + 2);
    let (field, value) = ("f".repeat(1000), "v".repeat(1000));
    assert_eq!(render(&client.call(&["HLEN", "k"])), format!("(integer) {FIELDS}"));
    let told = render(&client.call(&["HGET", "k", &format!("7{field}")]));
    assert_eq!(told, format!("\"7{value}\""));
}

#[test]
fn a_session_keeps_fieldsets_of_16_megabytes_at_most() {
    const FULL: &str = "(error) ERR fieldsets of this connection take too much memory";
    let server = Server::start(&[]);
    let mut client = server.client();
    let (half, more) = ("h".repeat(8 << 20), "m".repeat(9 << 20));
    let mut ask = |words: &[&str]| render(&client.call(words));
    assert_eq!(ask(&["HIMPORT", "PREPARE", "a", &half]), "OK");
    assert_eq!(ask(&["HIMPORT", "PREPARE", "b", &half]), FULL);
    assert_eq!(ask(&["HIMPORT", "SET", "k", "b", "v"]), "(error) ERR no such fieldset");
    // One that takes another's place counts alone.
    assert_eq!(ask(&["HIMPORT", "PREPARE", "a", &more]), "OK");
    assert_eq!(ask(&["HIMPORT", "DISCARD", "a"]), "(integer) 1");
    assert_eq!(ask(&["HIMPORT", "PREPARE", "b", &half]), "OK");
    assert_eq!(ask(&["HIMPORT", "PREPARE", "c", &more]), FULL);
    assert_eq!(ask(&["HIMPORT", "DISCARDALL"]), "(integer) 1");
    assert_eq!(ask(&["HIMPORT", "PREPARE", "c", &more]), "OK");
}
