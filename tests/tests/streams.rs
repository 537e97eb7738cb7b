//! Streams, every option word of every command, in both protocols. The scripts are proven on
//! Redis 8.2; for what it lacks, the pages of xadd, xcfgset, xidmprecord, xnack, xread, xreadgroup
//! at redis.io/commands say so.

use tests::{Client, Oracle, Server, check};

/// Redis 8.2 in RESP2.
const RESP2: &str = r#"
    > XADD s 1-1 a 1
    "1-1"
    > XADD s NOMKSTREAM 2-1 b 2 c 3
    "2-1"
    > XADD none NOMKSTREAM * a b
    (nil)
    > XADD s MAXLEN = 9 3-* d 4
    "3-0"
    > XADD s MAXLEN ~ 9 LIMIT 5 4-1 e 5
    "4-1"
    > XADD s KEEPREF MINID = 1 5-1 f 6
    "5-1"
    > XADD s DELREF MINID ~ 1 6-1 g 7
    "6-1"
    > XADD s ACKED MAXLEN 9 7-1 h 8
    "7-1"
    > XADD s 7-1 x y
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    > XLEN s
    (integer) 7
    > XRANGE s - + COUNT 2
    1) 1) "1-1"
       2) 1) "a"
          2) "1"
    2) 1) "2-1"
       2) 1) "b"
          2) "2"
          3) "c"
          4) "3"
    > XREVRANGE s + - COUNT 1
    1) 1) "7-1"
       2) 1) "h"
          2) "8"
    > XRANGE s (2-1 4
    1) 1) "3-0"
       2) 1) "d"
          2) "4"
    2) 1) "4-1"
       2) 1) "e"
          2) "5"
    > XREAD COUNT 1 STREAMS s 0
    1) 1) "s"
       2) 1) 1) "1-1"
             2) 1) "a"
                2) "1"
    > XREAD BLOCK 5 STREAMS s $
    (nil)
    > XREAD STREAMS s +
    1) 1) "s"
       2) 1) 1) "7-1"
             2) 1) "h"
                2) "8"
    > XREAD STREAMS s >
    ~ (error) ERR The > ID can be specified only when calling XREADGROUP using the GRO*
    > XTRIM s MAXLEN ~ 100 LIMIT 7
    (integer) 0
    > XTRIM s MAXLEN = 6 KEEPREF
    (integer) 1
    > XTRIM s MINID = 3 DELREF
    (integer) 1
    > XTRIM s MINID ~ 1 ACKED
    (integer) 0
    > XDEL s 3-0 9-9
    (integer) 1
    > XGROUP CREATE s g 0 ENTRIESREAD 2
    OK
    > XGROUP CREATE m g $ MKSTREAM
    OK
    > XGROUP CREATE s g 0
    (error) BUSYGROUP Consumer Group name already exists
    > XGROUP CREATECONSUMER s g b
    (integer) 1
    > XGROUP SETID s g 4-1 ENTRIESREAD 4
    OK
    > XGROUP SETID s g $
    OK
    > XGROUP SETID s g 4-1
    OK
    > XREADGROUP GROUP g c COUNT 2 STREAMS s >
    1) 1) "s"
       2) 1) 1) "5-1"
             2) 1) "f"
                2) "6"
          2) 1) "6-1"
             2) 1) "g"
                2) "7"
    > XREADGROUP GROUP g c NOACK STREAMS s >
    1) 1) "s"
       2) 1) 1) "7-1"
             2) 1) "h"
                2) "8"
    > XREADGROUP GROUP g c BLOCK 5 STREAMS s >
    (nil)
    > XREADGROUP GROUP g c STREAMS s 0
    1) 1) "s"
       2) 1) 1) "5-1"
             2) 1) "f"
                2) "6"
          2) 1) "6-1"
             2) 1) "g"
                2) "7"
    > XREADGROUP GROUP nog c STREAMS s 0
    (error) NOGROUP No such key 's' or consumer group 'nog' in XREADGROUP with GROUP option
    > XPENDING s g
    1) (integer) 2
    2) "5-1"
    3) "6-1"
    4) 1) 1) "c"
          2) "2"
    > XPENDING s g IDLE 100000 - + 10 c
    (empty array)
    > XPENDING s g - + 0
    (empty array)
    > XCLAIM s g d 0 5-1 IDLE 5 RETRYCOUNT 9 JUSTID
    1) "5-1"
    > XCLAIM s g d 0 5-1 TIME 5 FORCE LASTID 7-1
    1) 1) "5-1"
       2) 1) "f"
          2) "6"
    > XCLAIM s g d 0 5-1 FOO
    (error) ERR Unrecognized XCLAIM option 'FOO'
    > XAUTOCLAIM s g e 0 0 COUNT 1 JUSTID
    1) "6-1"
    2) 1) "5-1"
    3) (empty array)
    > XAUTOCLAIM s g e 0 (5-1
    1) "0-0"
    2) 1) 1) "6-1"
          2) 1) "g"
             2) "7"
    3) (empty array)
    > XACK s g 5-1 9-9
    (integer) 1
    > XACKDEL s g KEEPREF IDS 1 6-1
    1) (integer) 1
    > XACKDEL s g DELREF IDS 1 6-1
    1) (integer) -1
    > XACKDEL s g ACKED IDS 1 6-1
    1) (integer) -1
    > XDELEX s KEEPREF IDS 1 7-1
    1) (integer) 1
    > XDELEX s DELREF IDS 2 5-1 7-1
    1) (integer) 1
    2) (integer) -1
    > XDELEX s ACKED IDS 1 4-1
    1) (integer) 1
    > XSETID s 8-8 ENTRIESADDED 9 MAXDELETEDID 7-7
    OK
    > XSETID s 1-1
    (error) ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
    > XINFO STREAM s
     1) "length"
     2) (integer) 0
     3) "radix-tree-keys"
     4) (integer) 0
     5) "radix-tree-nodes"
     6) (integer) 1
     7) "last-generated-id"
     8) "8-8"
     9) "max-deleted-entry-id"
    10) "7-7"
    11) "entries-added"
    12) (integer) 9
    13) "recorded-first-entry-id"
    14) "0-0"
    15) "groups"
    16) (integer) 1
    17) "first-entry"
    18) (nil)
    19) "last-entry"
    20) (nil)
    > XINFO STREAM m FULL COUNT 1
     1) "length"
     2) (integer) 0
    ...
    > XINFO GROUPS s
    1)  1) "name"
        2) "g"
        3) "consumers"
        4) (integer) 4
        5) "pending"
        6) (integer) 0
        7) "last-delivered-id"
        8) "7-1"
        9) "entries-read"
       10) (integer) 7
       11) "lag"
       12) (integer) 0
    > XINFO CONSUMERS m g
    (empty array)
    > XINFO HELP
    1) XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
    ...
    > XGROUP HELP
     1) XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
    ...
    > XGROUP DELCONSUMER s g c
    (integer) 0
    > XGROUP DESTROY s g
    (integer) 1
    > XGROUP FOO
    (error) ERR unknown subcommand 'FOO'. Try XGROUP HELP.
    > XINFO FOO
    (error) ERR unknown subcommand 'FOO'. Try XINFO HELP.
    > XREADGROUP GROUP g c STREAMS s >
    (error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
"#;

/// Redis 8.2 in RESP3.
const RESP3: &str = r#"
    > XADD s 1-1 a 1
    "1-1"
    > XADD s NOMKSTREAM 2-1 b 2 c 3
    "2-1"
    > XADD none NOMKSTREAM * a b
    (nil)
    > XADD s MAXLEN = 9 3-* d 4
    "3-0"
    > XADD s MAXLEN ~ 9 LIMIT 5 4-1 e 5
    "4-1"
    > XADD s KEEPREF MINID = 1 5-1 f 6
    "5-1"
    > XADD s DELREF MINID ~ 1 6-1 g 7
    "6-1"
    > XADD s ACKED MAXLEN 9 7-1 h 8
    "7-1"
    > XADD s 7-1 x y
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    > XLEN s
    (integer) 7
    > XRANGE s - + COUNT 2
    1) 1) "1-1"
       2) 1) "a"
          2) "1"
    2) 1) "2-1"
       2) 1) "b"
          2) "2"
          3) "c"
          4) "3"
    > XREVRANGE s + - COUNT 1
    1) 1) "7-1"
       2) 1) "h"
          2) "8"
    > XRANGE s (2-1 4
    1) 1) "3-0"
       2) 1) "d"
          2) "4"
    2) 1) "4-1"
       2) 1) "e"
          2) "5"
    > XREAD COUNT 1 STREAMS s 0
    1# "s" =>
       1) 1) "1-1"
          2) 1) "a"
             2) "1"
    > XREAD BLOCK 5 STREAMS s $
    (nil)
    > XREAD STREAMS s +
    1# "s" =>
       1) 1) "7-1"
          2) 1) "h"
             2) "8"
    > XREAD STREAMS s >
    ~ (error) ERR The > ID can be specified only when calling XREADGROUP using the GRO*
    > XTRIM s MAXLEN ~ 100 LIMIT 7
    (integer) 0
    > XTRIM s MAXLEN = 6 KEEPREF
    (integer) 1
    > XTRIM s MINID = 3 DELREF
    (integer) 1
    > XTRIM s MINID ~ 1 ACKED
    (integer) 0
    > XDEL s 3-0 9-9
    (integer) 1
    > XGROUP CREATE s g 0 ENTRIESREAD 2
    OK
    > XGROUP CREATE m g $ MKSTREAM
    OK
    > XGROUP CREATE s g 0
    (error) BUSYGROUP Consumer Group name already exists
    > XGROUP CREATECONSUMER s g b
    (integer) 1
    > XGROUP SETID s g 4-1 ENTRIESREAD 4
    OK
    > XGROUP SETID s g $
    OK
    > XGROUP SETID s g 4-1
    OK
    > XREADGROUP GROUP g c COUNT 2 STREAMS s >
    1# "s" =>
       1) 1) "5-1"
          2) 1) "f"
             2) "6"
       2) 1) "6-1"
          2) 1) "g"
             2) "7"
    > XREADGROUP GROUP g c NOACK STREAMS s >
    1# "s" =>
       1) 1) "7-1"
          2) 1) "h"
             2) "8"
    > XREADGROUP GROUP g c BLOCK 5 STREAMS s >
    (nil)
    > XREADGROUP GROUP g c STREAMS s 0
    1# "s" =>
       1) 1) "5-1"
          2) 1) "f"
             2) "6"
       2) 1) "6-1"
          2) 1) "g"
             2) "7"
    > XREADGROUP GROUP nog c STREAMS s 0
    (error) NOGROUP No such key 's' or consumer group 'nog' in XREADGROUP with GROUP option
    > XPENDING s g
    1) (integer) 2
    2) "5-1"
    3) "6-1"
    4) 1) 1) "c"
          2) "2"
    > XPENDING s g IDLE 100000 - + 10 c
    (empty array)
    > XPENDING s g - + 0
    (empty array)
    > XCLAIM s g d 0 5-1 IDLE 5 RETRYCOUNT 9 JUSTID
    1) "5-1"
    > XCLAIM s g d 0 5-1 TIME 5 FORCE LASTID 7-1
    1) 1) "5-1"
       2) 1) "f"
          2) "6"
    > XCLAIM s g d 0 5-1 FOO
    (error) ERR Unrecognized XCLAIM option 'FOO'
    > XAUTOCLAIM s g e 0 0 COUNT 1 JUSTID
    1) "6-1"
    2) 1) "5-1"
    3) (empty array)
    > XAUTOCLAIM s g e 0 (5-1
    1) "0-0"
    2) 1) 1) "6-1"
          2) 1) "g"
             2) "7"
    3) (empty array)
    > XACK s g 5-1 9-9
    (integer) 1
    > XACKDEL s g KEEPREF IDS 1 6-1
    1) (integer) 1
    > XACKDEL s g DELREF IDS 1 6-1
    1) (integer) -1
    > XACKDEL s g ACKED IDS 1 6-1
    1) (integer) -1
    > XDELEX s KEEPREF IDS 1 7-1
    1) (integer) 1
    > XDELEX s DELREF IDS 2 5-1 7-1
    1) (integer) 1
    2) (integer) -1
    > XDELEX s ACKED IDS 1 4-1
    1) (integer) 1
    > XSETID s 8-8 ENTRIESADDED 9 MAXDELETEDID 7-7
    OK
    > XSETID s 1-1
    (error) ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
    > XINFO STREAM s
     1# "length" => (integer) 0
     2# "radix-tree-keys" => (integer) 0
     3# "radix-tree-nodes" => (integer) 1
     4# "last-generated-id" => "8-8"
     5# "max-deleted-entry-id" => "7-7"
     6# "entries-added" => (integer) 9
     7# "recorded-first-entry-id" => "0-0"
     8# "groups" => (integer) 1
     9# "first-entry" => (nil)
    10# "last-entry" => (nil)
    > XINFO STREAM m FULL COUNT 1
    1# "length" => (integer) 0
    2# "radix-tree-keys" => (integer) 0
    ...
    > XINFO GROUPS s
    1) 1# "name" => "g"
       2# "consumers" => (integer) 4
       3# "pending" => (integer) 0
       4# "last-delivered-id" => "7-1"
       5# "entries-read" => (integer) 7
       6# "lag" => (integer) 0
    > XINFO CONSUMERS m g
    (empty array)
    > XINFO HELP
    1) XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
    ...
    > XGROUP HELP
     1) XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
    ...
    > XGROUP DELCONSUMER s g c
    (integer) 0
    > XGROUP DESTROY s g
    (integer) 1
    > XGROUP FOO
    (error) ERR unknown subcommand 'FOO'. Try XGROUP HELP.
    > XINFO FOO
    (error) ERR unknown subcommand 'FOO'. Try XINFO HELP.
    > XREADGROUP GROUP g c STREAMS s >
    (error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option
"#;

/// Redis 8.4 and later.
const NEWER: &str = r#"
    > XADD s IDMP p 1 * a b
    ~ "*-0"
    > XADD s IDMPAUTO p * a b
    ~ "*-*"
    > XADD s IDMP p 1 1-1 a b
    (error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
    > XLEN s
    (integer) 2
    > XADD s IDMP p 1 * x y
    ~ "*-0"
    > XLEN s
    (integer) 2
    > XCFGSET s IDMP-DURATION 5 IDMP-MAXSIZE 7
    OK
    > XCFGSET s
    (error) ERR syntax error
    > CONFIG SET stream-idmp-duration 60 stream-idmp-maxsize 9
    OK
    > XCFGSET new IDMP-MAXSIZE 3
    (error) ERR no such key
    > XADD new IDMP p 1 1-* a b
    (error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
    > XADD new IDMP p 1 * a b
    ~ "*-0"
    > CONFIG SET stream-idmp-duration 100 stream-idmp-maxsize 100
    OK
    > CONFIG SET stream-idmp-duration 86401
    ~ (error) ERR CONFIG SET failed*
    > CONFIG SET stream-idmp-maxsize 10001
    ~ (error) ERR CONFIG SET failed*
    > XADD t 1-1 a b
    "1-1"
    > XADD t 2-1 a b
    "2-1"
    > XIDMPRECORD t p 1 2-1
    OK
    > XIDMPRECORD t p 1 9-9
    (error) ERR no such entry in the stream
    > XREAD COUNT 1 MAXCOUNT 1 STREAMS s t 0 0
    ...
    > XREAD MAXSIZE 1 STREAMS t 1
    ...
    > XREAD MAXCOUNT 5 MAXSIZE 5 STREAMS t 2-1
    (nil)
    > XGROUP CREATE t g 0
    OK
    > XREADGROUP GROUP g c COUNT 1 MAXCOUNT 1 MAXSIZE 99 STREAMS t >
    ...
    > XREADGROUP GROUP g d CLAIM 1000000 STREAMS t >
    ...
    > XPENDING t g
    1) (integer) 2
    2) "1-1"
    3) "2-1"
    4) 1) 1) "c"
          2) "1"
       2) 1) "d"
          2) "1"
    > XNACK t g SILENT IDS 1 1-1
    (integer) 1
    > XNACK t g FAIL IDS 2 2-1 9-9 RETRYCOUNT 3
    (integer) 1
    > XACK t g 1-1
    (integer) 1
    > XNACK t g FATAL IDS 1 1-1 FORCE
    (integer) 1
    > XPENDING t g - + 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 9223372036854775807
    2) 1) "2-1"
       2) ""
       3) (integer) -1
       4) (integer) 3
"#;

fn afresh(mut client: Client, script: &str) {
    check(&mut client, "> FLUSHALL\nOK\n");
    check(&mut client, script);
}

#[test]
fn streams_answer_as_written() {
    let server = Server::start(&[]);
    afresh(server.client(), RESP2);
    afresh(server.client3(), RESP3);
    afresh(server.client(), NEWER);
    afresh(server.client3(), NEWER);
}

#[test]
fn redis_writes_the_same() {
    let server = Oracle::Redis82.start(&[]);
    afresh(server.client(), RESP2);
    afresh(server.client3(), RESP3);
}
