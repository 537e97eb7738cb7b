//! Arrays token by token: of each page at redis.io/commands/ar* every option, by itself and beside
//! others, and every error, in both protocols. No server of the tests has them; where the pages
//! tell no text, the tests that redis-py and go-redis carry do.

use tests::Server;
use tests::script::afresh;

const SCRIPT: &str = r#"
    > SET text x
    OK
    > ARMSET a 0 a 1 b 3 d
    (integer) 3
    # redis.io/commands/arset
    > ARSET a 3 x y
    (integer) 1
    > ARSET a 18446744073709551614 last
    (integer) 1
    > ARSET a 18446744073709551615 x
    (error) ERR invalid array index
    > ARSET a -1 x
    (error) ERR invalid array index
    > ARSET a x x
    (error) ERR invalid array index
    > ARSET a 1.5 x
    (error) ERR invalid array index
    > ARSET a "" x
    (error) ERR invalid array index
    > ARSET a 18446744073709551614 x y
    (error) ERR invalid array index
    > ARSET a 0
    (error) ERR wrong number of arguments for 'arset' command
    > ARSET text 0 x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARSET a 0 a
    (integer) 0
    > ARDEL a 18446744073709551614 4
    (integer) 2
    # redis.io/commands/armset
    > ARMSET a 3 d 3 e 3 d
    (integer) 0
    > ARMSET a 0
    (error) ERR wrong number of arguments for 'armset' command
    > ARMSET a 0 a 1
    (error) ERR wrong number of arguments for 'armset' command
    > ARMSET a 0 a x b
    (error) ERR invalid array index
    > ARMSET a 0 a 18446744073709551615 b
    (error) ERR invalid array index
    > ARMSET text 0 a
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARCOUNT a
    (integer) 3
    # redis.io/commands/arget and armget
    > ARGET a 3
    "d"
    > ARGET a 2
    (nil)
    > ARGET a 18446744073709551614
    (nil)
    > ARGET a 18446744073709551615
    (error) ERR invalid array index
    > ARGET a x
    (error) ERR invalid array index
    > ARGET text 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARGET a
    (error) ERR wrong number of arguments for 'arget' command
    > ARGET a 0 1
    (error) ERR wrong number of arguments for 'arget' command
    > ARMGET a 3 3 2
    1) "d"
    2) "d"
    3) (nil)
    > ARMGET none 0 1
    1) (nil)
    2) (nil)
    > ARMGET a 0 x
    (error) ERR invalid array index
    > ARMGET text 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARMGET a
    (error) ERR wrong number of arguments for 'armget' command
    # redis.io/commands/argetrange
    > ARGETRANGE a 0 3
    1) "a"
    2) "b"
    3) (nil)
    4) "d"
    > ARGETRANGE a 3 0
    1) "d"
    2) (nil)
    3) "b"
    4) "a"
    > ARGETRANGE a 2 2
    1) (nil)
    > ARGETRANGE none 0 1
    1) (nil)
    2) (nil)
    > ARGETRANGE a 0 1000000
    (error) ERR range exceeds maximum of 1000000 items
    > ARGETRANGE a 18446744073709551614 0
    (error) ERR range exceeds maximum of 1000000 items
    > ARGETRANGE a x 1
    (error) ERR invalid array index
    > ARGETRANGE a 0 -1
    (error) ERR invalid array index
    > ARGETRANGE text 0 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARGETRANGE a 0
    (error) ERR wrong number of arguments for 'argetrange' command
    # redis.io/commands/arlen and arcount
    > ARLEN a
    (integer) 4
    > ARCOUNT a
    (integer) 3
    > ARLEN none
    (integer) 0
    > ARCOUNT none
    (integer) 0
    > ARLEN text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARCOUNT text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARLEN
    (error) ERR wrong number of arguments for 'arlen' command
    > ARCOUNT a b
    (error) ERR wrong number of arguments for 'arcount' command
    # redis.io/commands/arscan
    > ARMSET scanned 0 a 5 b 9 c
    (integer) 3
    > ARSCAN scanned 0 10 LIMIT 2
    1) 1) (integer) 0
       2) "a"
    2) 1) (integer) 5
       2) "b"
    > ARSCAN scanned 10 0 LIMIT 2
    1) 1) (integer) 9
       2) "c"
    2) 1) (integer) 5
       2) "b"
    > ARSCAN scanned 5 5 limit 9
    1) 1) (integer) 5
       2) "b"
    > ARSCAN scanned 1 4
    (empty array)
    > ARSCAN scanned 0 10 LIMIT 0
    (error) ERR value is out of range, must be positive
    > ARSCAN scanned 0 10 LIMIT -1
    (error) ERR value is out of range, must be positive
    > ARSCAN scanned 0 10 LIMIT x
    (error) ERR value is not an integer or out of range
    > ARSCAN scanned 0 10 LIMIT
    (error) ERR syntax error
    > ARSCAN scanned 0 10 FOO 1
    (error) ERR syntax error
    > ARSCAN scanned x 10
    (error) ERR invalid array index
    > ARSCAN scanned 0 x
    (error) ERR invalid array index
    > ARSCAN scanned - +
    (error) ERR invalid array index
    > ARSCAN none 0 10 LIMIT 1
    (empty array)
    > ARSCAN text 0 10
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARSCAN scanned 0
    (error) ERR wrong number of arguments for 'arscan' command
    # redis.io/commands/argrep
    > ARMSET log 0 "boot: ok" 1 "warn: disk" 2 "ERROR: cpu" 3 "info: ready" 4 "error: net"
    (integer) 5
    > ARGREP log - + EXACT "INFO: READY" NOCASE
    1) (integer) 3
    > ARGREP log - + EXACT "INFO: READY"
    (empty array)
    > ARGREP log + - MATCH "error"
    1) (integer) 4
    > ARGREP log 4 1 MATCH r AND WITHVALUES LIMIT 2
    1) 1) (integer) 4
       2) "error: net"
    2) 1) (integer) 3
       2) "info: ready"
    > ARGREP log - + glob "*: ?e*" glob "*t" and
    1) (integer) 4
    > ARGREP log - + GLOB "ERROR*" NOCASE
    1) (integer) 2
    2) (integer) 4
    > ARGREP log - + GLOB "[ew]*" OR EXACT "boot: ok"
    1) (integer) 0
    2) (integer) 1
    3) (integer) 4
    > ARGREP log - + RE "^(boot|warn): " RE "k$" AND
    1) (integer) 0
    2) (integer) 1
    > ARGREP log - + RE "^ERROR" NOCASE LIMIT 9
    1) (integer) 2
    2) (integer) 4
    > ARGREP log - + AND EXACT "boot: ok" OR MATCH disk
    1) (integer) 0
    2) (integer) 1
    > ARGREP log 2 2 MATCH :
    1) (integer) 2
    > ARGREP log - + MATCH ""
    1) (integer) 0
    2) (integer) 1
    3) (integer) 2
    4) (integer) 3
    5) (integer) 4
    > ARGREP log - + MATCH nothing WITHVALUES
    (empty array)
    > ARGREP none - + MATCH x
    (empty array)
    > ARGREP log - + MATCH
    (error) ERR wrong number of arguments for 'argrep' command
    > ARGREP log - + MATCH x LIMIT
    (error) ERR syntax error
    > ARGREP log - + MATCH x LIMIT 0
    (error) ERR value is out of range, must be positive
    > ARGREP log - + MATCH x LIMIT -1
    (error) ERR value is out of range, must be positive
    > ARGREP log - + MATCH x LIMIT x
    (error) ERR value is not an integer or out of range
    > ARGREP log - + MATCH x FOO
    (error) ERR syntax error
    > ARGREP log - + WITHVALUES NOCASE
    (error) ERR syntax error
    > ARGREP log - + RE "[a"
    (error) ERR invalid regular expression: missing ']'
    > ARGREP log - + RE "*a"
    (error) ERR invalid regular expression: nothing to repeat
    > ARGREP log x + MATCH x
    (error) ERR invalid array index
    > ARGREP log - -1 MATCH x
    (error) ERR invalid array index
    > ARGREP text - + MATCH x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARGREP log - + MATCH
    (error) ERR wrong number of arguments for 'argrep' command
    > ARGREP log - +
    (error) ERR wrong number of arguments for 'argrep' command
    # redis.io/commands/arop
    > ARMSET n 0 10 1 2.5 2 -3 3 text 5 10
    (integer) 5
    > AROP n 0 9 SUM
    "19.5"
    > AROP n 9 0 sum
    "19.5"
    > AROP n 0 9 MIN
    "-3"
    > AROP n 0 9 MAX
    "10"
    > AROP n 0 9 AND
    (integer) 0
    > AROP n 0 9 OR
    (integer) -1
    > AROP n 0 9 XOR
    (integer) -1
    > AROP n 0 1 XOR
    (integer) 8
    > AROP n 0 9 MATCH 10
    (integer) 2
    > AROP n 0 9 MATCH text
    (integer) 1
    > AROP n 0 9 MATCH nothing
    (integer) 0
    > AROP n 0 9 USED
    (integer) 5
    > AROP n 3 4 SUM
    (nil)
    > AROP n 3 4 MIN
    (nil)
    > AROP n 3 4 MAX
    (nil)
    > AROP n 6 9 AND
    (nil)
    > AROP n 6 9 USED
    (integer) 0
    > AROP n 6 9 MATCH x
    (integer) 0
    > AROP none 0 9 SUM
    (nil)
    > AROP none 0 9 MAX
    (nil)
    > AROP none 0 9 XOR
    (nil)
    > AROP none 0 9 MATCH x
    (integer) 0
    > AROP none 0 9 USED
    (integer) 0
    > AROP n 0 9 MATCH
    (error) ERR syntax error
    > AROP n 0 9 MATCH a b
    (error) ERR syntax error
    > AROP n 0 9 SUM 1
    (error) ERR syntax error
    > AROP n 0 9 FOO
    (error) ERR syntax error
    > AROP n x 9 SUM
    (error) ERR invalid array index
    > AROP n 0 -1 SUM
    (error) ERR invalid array index
    > AROP text 0 9 SUM
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > AROP n 0 9
    (error) ERR wrong number of arguments for 'arop' command
    # redis.io/commands/ardel and ardelrange
    > ARMSET d 0 a 1 b 2 c 3 d 4 e
    (integer) 5
    > ARDEL d 0 0 9
    (integer) 1
    > ARDEL d x
    (error) ERR invalid array index
    > ARDEL d 1 x
    (error) ERR invalid array index
    > ARDEL none 0
    (integer) 0
    > ARDEL text 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARDEL d
    (error) ERR wrong number of arguments for 'ardel' command
    > ARDELRANGE d 3 1 2 3
    (integer) 3
    > ARCOUNT d
    (integer) 1
    > ARDELRANGE d 0 9 0
    (error) ERR wrong number of arguments for 'ardelrange' command
    > ARDELRANGE d x 9
    (error) ERR invalid array index
    > ARDELRANGE d 0 18446744073709551615
    (error) ERR invalid array index
    > ARDELRANGE none 0 9
    (integer) 0
    > ARDELRANGE text 0 9
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARDELRANGE d 0 9
    (integer) 1
    > EXISTS d
    (integer) 0
    # redis.io/commands/arinsert, arnext and arseek
    > ARNEXT i
    (integer) 0
    > ARSET i 7 x
    (integer) 1
    > ARNEXT i
    (integer) 0
    > ARINSERT i a b
    (integer) 1
    > ARNEXT i
    (integer) 2
    > ARSEEK i 0
    (integer) 1
    > ARINSERT i c
    (integer) 0
    > ARGETRANGE i 0 1
    1) "c"
    2) "b"
    > ARSEEK i 18446744073709551614
    (integer) 1
    > ARNEXT i
    ~ *18446744073709551614*
    > ARINSERT i x y
    (error) ERR insert index overflow
    > ARINSERT i x
    ~ *18446744073709551614*
    > ARNEXT i
    (nil)
    > ARINSERT i x
    (error) ERR insert index overflow
    > ARSEEK i -1
    (error) ERR invalid array index
    > ARSEEK i x
    (error) ERR invalid array index
    > ARSEEK i 18446744073709551616
    (error) ERR invalid array index
    > ARSEEK none 5
    (integer) 0
    > ARSEEK text 5
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARSEEK i
    (error) ERR wrong number of arguments for 'arseek' command
    > ARINSERT text x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARINSERT i
    (error) ERR wrong number of arguments for 'arinsert' command
    > ARNEXT text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARNEXT
    (error) ERR wrong number of arguments for 'arnext' command
    # redis.io/commands/arring
    > ARRING r 3 a b c d
    (integer) 0
    > ARGETRANGE r 0 2
    1) "d"
    2) "b"
    3) "c"
    > ARRING r 5 e
    (integer) 3
    > ARLASTITEMS r 5
    1) "b"
    2) "c"
    3) "d"
    4) "e"
    > ARRING r 2 f
    (integer) 0
    > ARLEN r
    (integer) 2
    > ARLASTITEMS r 5
    1) "e"
    2) "f"
    > ARRING r 1 g h
    (integer) 0
    > ARGETRANGE r 0 1
    1) "h"
    2) (nil)
    > ARRING r 0 x
    (error) ERR value is out of range, must be positive
    > ARRING r -1 x
    (error) ERR value is out of range, must be positive
    > ARRING r x x
    (error) ERR value is not an integer or out of range
    > ARRING text 3 x
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARRING r 3
    (error) ERR wrong number of arguments for 'arring' command
    # redis.io/commands/arlastitems
    > ARINSERT l a b c
    (integer) 2
    > ARLASTITEMS l 0
    (empty array)
    > ARLASTITEMS l 2 REV
    1) "c"
    2) "b"
    > ARLASTITEMS l 9 rev
    1) "c"
    2) "b"
    3) "a"
    > ARLASTITEMS l -1
    (error) ERR value is out of range, must be positive
    > ARLASTITEMS l x
    (error) ERR value is not an integer or out of range
    > ARLASTITEMS l 2 FOO
    (error) ERR syntax error
    > ARLASTITEMS l 2 REV REV
    1) "c"
    2) "b"
    > ARLASTITEMS none 2 REV
    (empty array)
    > ARLASTITEMS text 2
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARLASTITEMS l
    (error) ERR wrong number of arguments for 'arlastitems' command
    # redis.io/commands/arinfo
    > ARINFO none
    (error) ERR no such key
    > ARINFO text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > ARINFO l FULL x
    (error) ERR syntax error
    > ARINFO l FOO
    (error) ERR syntax error
    > ARINFO
    (error) ERR wrong number of arguments for 'arinfo' command
"#;

#[test]
fn array_options_answer_as_documented() {
    let server = Server::start(&[]);
    for protocol in ["2", "3"] {
        afresh(&server, protocol, SCRIPT);
    }
}
