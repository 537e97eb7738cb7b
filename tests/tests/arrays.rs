//! Arrays, every option word of every command, in both protocols. No server of the tests has them:
//! the pages redis.io/commands/arset and so on say what is replied; where they are silent, the
//! tests that redis-py and go-redis carry for them.

use tests::render::render;
use tests::{Client, Server, check};

/// The same in both protocols. The examples of the pages, and what surrounds them.
const COMMON: &str = r#"
    # redis.io/commands/arset
    > ARSET myarray 0 hello
    (integer) 1
    > ARGET myarray 0
    "hello"
    > ARSET myarray 2 a b c
    (integer) 3
    > ARGET myarray 4
    "c"
    > ARSET myarray 18446744073709551614 a b
    (error) ERR invalid array index
    # redis.io/commands/armset
    > ARMSET other 0 alpha 5 beta 100 gamma
    (integer) 3
    > ARMSET other 0 alpha 5
    (error) ERR wrong number of arguments for 'armset' command
    # redis.io/commands/arget
    > ARGET other 100
    "gamma"
    > ARGET other 1
    (nil)
    > ARGET none 1
    (nil)
    > ARGET other -1
    (error) ERR invalid array index
    # redis.io/commands/armget
    > ARMGET other 0 1 5 3
    1) "alpha"
    2) (nil)
    3) "beta"
    4) (nil)
    # redis.io/commands/argetrange
    > ARGETRANGE myarray 0 3
    1) "hello"
    2) (nil)
    3) "a"
    4) "b"
    > ARGETRANGE myarray 3 2
    1) "b"
    2) "a"
    > ARGETRANGE myarray 0 1000000
    (error) ERR range exceeds maximum of 1000000 items
    # redis.io/commands/arlen and arcount
    > ARLEN myarray
    (integer) 5
    > ARCOUNT myarray
    (integer) 4
    > ARLEN none
    (integer) 0
    > ARCOUNT none
    (integer) 0
    # redis.io/commands/ardel
    > ARDEL myarray 2 2 1
    (integer) 1
    # redis.io/commands/ardelrange
    > ARDELRANGE myarray 4 3 0 0
    (integer) 3
    > EXISTS myarray
    (integer) 0
    > ARDELRANGE other 6 18446744073709551614
    (integer) 1
    > ARDELRANGE other 0
    (error) ERR wrong number of arguments for 'ardelrange' command
    # redis.io/commands/arscan
    > ARMSET scanned 0 a 5 b 9 c
    (integer) 3
    > ARSCAN scanned 0 10
    1) 1) (integer) 0
       2) "a"
    2) 1) (integer) 5
       2) "b"
    3) 1) (integer) 9
       2) "c"
    > ARSCAN scanned 10 0 LIMIT 1
    1) 1) (integer) 9
       2) "c"
    > ARSCAN scanned 0 10 LIMIT 0
    (error) ERR value is out of range, must be positive
    > ARSCAN none 0 10
    (empty array)
    # redis.io/commands/argrep
    > ARMSET log 0 "boot: ok" 1 "warn: disk" 2 "ERROR: cpu" 3 "info: ready" 4 "error: net"
    (integer) 5
    > ARGREP log - + MATCH error NOCASE
    1) (integer) 2
    2) (integer) 4
    > ARGREP log - + MATCH error NOCASE WITHVALUES
    1) 1) (integer) 2
       2) "ERROR: cpu"
    2) 1) (integer) 4
       2) "error: net"
    > ARGREP log 0 4 GLOB warn:* OR GLOB error:*
    1) (integer) 1
    2) (integer) 4
    > ARGREP log 0 4 RE "^[A-Za-z]+: (cpu|net)$" NOCASE WITHVALUES
    1) 1) (integer) 2
       2) "ERROR: cpu"
    2) 1) (integer) 4
       2) "error: net"
    > ARGREP log 0 4 EXACT "info: ready"
    1) (integer) 3
    > ARGREP log - + MATCH error NOCASE LIMIT 1
    1) (integer) 2
    > ARGREP log 4 0 MATCH : MATCH r AND
    1) (integer) 4
    2) (integer) 3
    3) (integer) 1
    > ARGREP log - + RE "(unclosed"
    (error) ERR invalid regular expression: unbalanced parentheses, or too many in each other
    > ARGREP log - + NOCASE AND
    (error) ERR syntax error
    > ARGREP none - + EXACT x
    (empty array)
    # redis.io/commands: arinsert, arnext, arseek
    > ARNEXT inserted
    (integer) 0
    > ARSEEK inserted 10
    (integer) 0
    > ARINSERT inserted a
    (integer) 0
    > ARINSERT inserted b
    (integer) 1
    > ARNEXT inserted
    (integer) 2
    > ARSEEK inserted 10
    (integer) 1
    > ARINSERT inserted c d
    (integer) 11
    > ARNEXT inserted
    (integer) 12
    > ARSEEK inserted 18446744073709551615
    (integer) 1
    > ARNEXT inserted
    (nil)
    > ARINSERT inserted e
    (error) ERR insert index overflow
    # redis.io/commands/arlastitems
    > ARINSERT latest first second third
    (integer) 2
    > ARLASTITEMS latest 2
    1) "second"
    2) "third"
    > ARLASTITEMS latest 2 REV
    1) "third"
    2) "second"
    > ARLASTITEMS latest 2 BACK
    (error) ERR syntax error
    > ARLASTITEMS none 2
    (empty array)
    # redis.io/commands/arring
    > ARRING readings 3 v0
    (integer) 0
    > ARRING readings 3 v1
    (integer) 1
    > ARRING readings 3 v2
    (integer) 2
    > ARRING readings 3 v3
    (integer) 0
    > ARGET readings 0
    "v3"
    > ARCOUNT readings
    (integer) 3
    > ARLASTITEMS readings 3
    1) "v1"
    2) "v2"
    3) "v3"
    > ARRING readings 0 x
    (error) ERR value is out of range, must be positive
    # redis.io/commands/arop
    > ARMSET numbers 0 10 1 20 2 30
    (integer) 3
    > AROP numbers 0 2 SUM
    "60"
    > AROP numbers 2 0 MIN
    "10"
    > AROP numbers 0 2 MAX
    "30"
    > AROP numbers 0 2 MATCH 10
    (integer) 1
    > AROP numbers 0 2 USED
    (integer) 3
    > ARMSET flags 0 255 1 15 2 240
    (integer) 3
    > AROP flags 0 2 AND
    (integer) 0
    > AROP flags 0 2 OR
    (integer) 255
    > AROP flags 0 2 XOR
    (integer) 0
    > AROP flags 3 9 SUM
    (nil)
    > AROP flags 0 2 MEAN
    (error) ERR syntax error
    # redis.io/commands/arinfo
    > ARINFO none
    (error) ERR no such key
    > ARINFO flags EVERYTHING
    (error) ERR syntax error
    # Every command asks for an array.
    > SET string x
    OK
    > ARSET string 0 x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARLEN string
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > LPUSH flags x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # What all types have.
    > TYPE flags
    array
    > OBJECT ENCODING flags
    "sliced-array"
    > COPY flags copied
    (integer) 1
    > ARSET copied 0 other
    (integer) 0
    > ARGET flags 0
    "255"
    > RENAME copied renamed
    OK
    > SCAN 0 MATCH ren* TYPE array COUNT 1000
    1) "0"
    2) 1) "renamed"
    > DEL renamed flags
    (integer) 2
    > ACL CAT array
    ...
"#;

const IN_RESP2: &str = r#"
    > ARMSET a 0 a 1 b 100 c
    (integer) 3
    > ARINSERT a d
    (integer) 0
    > ARINFO a
     1) "count"
     2) (integer) 3
     3) "len"
     4) (integer) 101
     5) "next-insert-index"
     6) (integer) 1
     7) "slices"
     8) (integer) 1
     9) "directory-size"
    10) (integer) 1
    11) "super-dir-entries"
    12) (integer) 0
    13) "slice-size"
    14) (integer) 4096
    > ARSET a 9223372036854775808 x
    (integer) 1
    > ARLEN a
    "9223372036854775809"
"#;

const IN_RESP3: &str = r#"
    > ARMSET a 0 a 1 b 100 c
    (integer) 3
    > ARINFO a FULL
     1# "count" => (integer) 3
     2# "len" => (integer) 101
     3# "next-insert-index" => (integer) 0
     4# "slices" => (integer) 1
     5# "directory-size" => (integer) 1
     6# "super-dir-entries" => (integer) 0
     7# "slice-size" => (integer) 4096
     8# "dense-slices" => (integer) 0
     9# "sparse-slices" => (integer) 1
    10# "avg-dense-size" => (double) 0
    11# "avg-dense-fill" => (double) 0
    12# "avg-sparse-size" => (double) 3
    > ARSET a 9223372036854775808 x
    (integer) 1
    > ARLEN a
    (big number) 9223372036854775809
"#;

#[test]
fn arrays_answer_as_documented() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    for mut client in [server.client(), server.client3()] {
        check(&mut client, COMMON);
        client.call(&["FLUSHALL"]);
    }
    check(&mut server.client(), IN_RESP2);
    server.client().call(&["FLUSHALL"]);
    check(&mut server.client3(), IN_RESP3);
}

fn text(client: &mut Client, words: &[&str]) -> String {
    render(&client.call(words))
}

/// Small and large, with its cursor, by DUMP and by DEBUG DIGEST-VALUE.
#[test]
fn a_payload_restores_the_array() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    for count in [3, 5000] {
        client.call(&["FLUSHALL"]);
        for number in 0..count {
            client.call(&["ARRING", "a", "4000", &format!("value {number}")]);
        }
        client.call(&["ARSET", "a", "1152921504606846976", &"x".repeat(3000)]);
        let payload = client.call(&["DUMP", "a"]);
        let payload = payload.as_bytes().expect("a payload").to_vec();
        let restored = client.call(&[&b"RESTORE"[..], b"b", b"0", &payload]);
        assert_eq!(render(&restored), "OK");
        let digest = |client: &mut Client, key| text(client, &["DEBUG", "DIGEST-VALUE", key]);
        assert_eq!(digest(&mut client, "a"), digest(&mut client, "b"));
        assert_eq!(text(&mut client, &["ARNEXT", "b"]), text(&mut client, &["ARNEXT", "a"]));
        client.call(&["ARSEEK", "b", "7"]);
        assert_ne!(digest(&mut client, "a"), digest(&mut client, "b"), "the cursor counts");
    }
}

/// A client can name any index; only elements cost.
#[test]
fn distance_costs_nothing() {
    let server = Server::start(&[]);
    for mut client in [server.client(), server.client3()] {
        client.call(&["ARMSET", "far", "0", "a", "1152921504606846976", "b"]);
        let usage = text(&mut client, &["MEMORY", "USAGE", "far"]);
        let usage: u64 = usage.trim_start_matches("(integer) ").parse().expect("a number");
        assert!(usage < 200, "{usage}");
        check(
            &mut client,
            r#"
            > ARLEN far
            (integer) 1152921504606846977
            > ARSCAN far 0 18446744073709551614 LIMIT 9
            1) 1) (integer) 0
               2) "a"
            2) 1) (integer) 1152921504606846976
               2) "b"
            > AROP far 18446744073709551614 0 USED
            (integer) 2
            > ARGREP far + - GLOB ?
            1) (integer) 1152921504606846976
            2) (integer) 0
            > ARLASTITEMS far 18446744073709551615
            1) (nil)
            2) "b"
            > ARRING far 1 c
            (integer) 0
            > ARDELRANGE far 0 18446744073709551614
            (integer) 1
            "#,
        );
    }
}

/// A million elements are read, searched and removed while others are served.
#[test]
fn many_elements() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let values: Vec<String> = (0..1000).map(|number| format!("value-{number:010}")).collect();
    let mut words = vec!["ARINSERT", "many"];
    words.extend(values.iter().map(String::as_str));
    for _ in 0..300 {
        client.call(&words);
    }
    check(
        &mut client,
        r#"
        > ARCOUNT many
        (integer) 300000
        > ARGREP many 0 2000 EXACT value-0000000007
        1) (integer) 7
        2) (integer) 1007
        > AROP many 0 299999 MATCH value-0000000007
        (integer) 300
        > ARGREP many + - RE "7$" LIMIT 1
        1) (integer) 299997
        > ARDELRANGE many 100 299899
        (integer) 299800
        > ARLEN many
        (integer) 300000
        > ARLASTITEMS many 1
        1) "value-0000000999"
        "#,
    );
}
