//! The stream family, line by line as Redis 8.2 answers.

use super::talk;
use crate::testing::Session;

#[test]
fn entries_are_added_and_trimmed() {
    talk(&mut Session::new(), ADDED);
}

#[test]
fn entries_are_read_by_their_ids() {
    talk(&mut Session::new(), READ);
}

#[test]
fn entries_go_with_and_without_their_references() {
    talk(&mut Session::new(), DELETED);
}

#[test]
fn maps_are_maps_in_resp3() {
    talk(&mut Session::new().resp3(), MAPS);
}

const ADDED: &str = r#"
    XADD => -ERR wrong number of arguments for 'xadd' command
    XADD s * a => -ERR wrong number of arguments for 'xadd' command
    XADD s * a b c => -ERR wrong number of arguments for 'xadd' command
    XADD s 0-0 a b => -ERR The ID specified in XADD must be greater than 0-0
    XADD s 0 a b => -ERR The ID specified in XADD must be greater than 0-0
    XADD s 0-* a b => "0-1"
    XADD s 0-* a b c d => "0-2"
    XADD s 1-1-1 a b => -ERR Invalid stream ID specified as stream command argument
    XADD s foo a b => -ERR Invalid stream ID specified as stream command argument
    XADD s - a b => -ERR Invalid stream ID specified as stream command argument
    XADD s + a b => -ERR Invalid stream ID specified as stream command argument
    XADD s 0-2 a b => -ERR The ID specified in XADD is equal or smaller than the target \
        stream top item
    XADD s MAXLEN a b => -ERR value is not an integer or out of range
    XADD s MAXLEN x * a b => -ERR value is not an integer or out of range
    XADD s MAXLEN -1 * a b => -ERR The MAXLEN argument must be >= 0.
    XADD s MAXLEN = 10 LIMIT 5 * a b => -ERR syntax error, LIMIT cannot be used without the \
        special ~ option
    XADD s MAXLEN ~ 10 LIMIT -5 * a b => -ERR The LIMIT argument must be >= 0.
    XADD s MAXLEN ~ 10 LIMIT x * a b => -ERR value is not an integer or out of range
    XADD s MINID ~ x * a b => -ERR Invalid stream ID specified as stream command argument
    XADD s MINID ~ 1-1 MAXLEN ~ 10 * a b => -ERR syntax error, MAXLEN and MINID options at \
        the same time are not compatible
    XADD s LIMIT 10 * a b => -ERR syntax error, LIMIT cannot be used without specifying a \
        trimming strategy
    XADD s LIMIT 0 1-0 a b => -ERR syntax error, LIMIT cannot be used without the special ~ \
        option
    XADD s MAXLEN ~ 10 LIMIT 0 5-5 a b => "5-5"
    XADD s NOMKSTREAM NOMKSTREAM 5-6 a b => "5-6"
    XADD t NOMKSTREAM * a b => nil
    XADD s MAXLEN => -ERR wrong number of arguments for 'xadd' command
    XADD s MAXLEN ~ => -ERR wrong number of arguments for 'xadd' command
    XADD s MAXLEN ~ 10 LIMIT => -ERR Invalid stream ID specified as stream command argument
    XADD s NOMKSTREAM MAXLEN 5 LIMIT 0 => -ERR syntax error, LIMIT cannot be used without \
        the special ~ option
    XADD s maxlen 10 6-1 a b => "6-1"
    XADD s KEEPREF 7-1 a b => "7-1"
    XADD s DELREF ACKED 7-2 a b => -ERR Invalid stream ID specified as stream command argument
    XADD s delref maxlen 3 7-2 12 -7 => "7-2"
    XRANGE s - + => [["6-1" ["a" "b"]] ["7-1" ["a" "b"]] ["7-2" ["12" "-7"]]]
    XADD s MINID = 7 8-0 x y => "8-0"
    XLEN s => :3
    XADD s 8-18446744073709551615 a b => "8-18446744073709551615"
    XADD s 8-* a b => -ERR The ID specified in XADD is equal or smaller than the target \
        stream top item
    XADD s 18446744073709551615-18446744073709551615 a b => \
        "18446744073709551615-18446744073709551615"
    XADD s * a b => -ERR The stream has exhausted the last possible ID, unable to add more \
        items
    XADD s 18446744073709551615-* a b => -ERR The stream has exhausted the last possible ID, \
        unable to add more items
    XADD s 1-1 a b => -ERR The stream has exhausted the last possible ID, unable to add more \
        items
    XLEN s => :5
    XLEN t => :0
    XLEN => -ERR wrong number of arguments for 'xlen' command
    SET str x => +OK
    XLEN str => -WRONGTYPE Operation against a key holding the wrong kind of value
    XADD str * a b => -WRONGTYPE Operation against a key holding the wrong kind of value
    XADD str foo a b => -ERR Invalid stream ID specified as stream command argument
    TYPE s => +stream
    OBJECT ENCODING s => "stream"
    XTRIM s => -ERR wrong number of arguments for 'xtrim' command
    XTRIM s MAXLEN => -ERR wrong number of arguments for 'xtrim' command
    XTRIM s FOO 5 => -ERR syntax error
    XTRIM s MAXLEN 5 6 => -ERR syntax error
    XTRIM s MAXLEN 5 MINID 6 => -ERR syntax error, MAXLEN and MINID options at the same time \
        are not compatible
    XTRIM s LIMIT 0 => -ERR syntax error, XTRIM must be called with a trimming strategy
    XTRIM s KEEPREF LIMIT 0 => -ERR syntax error, XTRIM must be called with a trimming \
        strategy
    XTRIM t MAXLEN 5 => :0
    XTRIM str MAXLEN 5 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XTRIM s MAXLEN 2 => :3
    XTRIM s MINID 6 => :0
    XTRIM s MAXLEN 0 => :2
    XTRIM s MAXLEN 5 LIMIT 6 => -ERR syntax error, LIMIT cannot be used without the special \
        ~ option
    XTRIM s NOMKSTREAM MAXLEN 5 => -ERR syntax error
    XTRIM s MAXLEN 5 KEEPREF => :0
    XTRIM s ACKED => -ERR wrong number of arguments for 'xtrim' command
    XTRIM s ~ 5 => -ERR syntax error
    EXISTS s => :1
    XINFO STREAM s => ["length" :0 "radix-tree-keys" :0 "radix-tree-nodes" :1 \
        "last-generated-id" "18446744073709551615-18446744073709551615" \
        "max-deleted-entry-id" "0-0" "entries-added" :10 "recorded-first-entry-id" "0-0" \
        "groups" :0 "first-entry" nil "last-entry" nil]
    XDEL s => -ERR wrong number of arguments for 'xdel' command
    XDEL s x => -ERR Invalid stream ID specified as stream command argument
    XDEL s 1 => :0
    XDEL s - => -ERR Invalid stream ID specified as stream command argument
    XDEL t x => :0
    XDEL str 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XSETID s => -ERR wrong number of arguments for 'xsetid' command
    XSETID s x => -ERR Invalid stream ID specified as stream command argument
    XSETID s 1-1 => +OK
    XSETID t 1-1 => -ERR no such key
    XSETID s 5 ENTRIESADDED => -ERR syntax error
    XSETID s 5 ENTRIESADDED x MAXDELETEDID 1 => -ERR value is not an integer or out of range
    XSETID s 5 ENTRIESADDED -1 MAXDELETEDID 1 => -ERR entries_added must be positive
    XSETID s 5 ENTRIESADDED 1 MAXDELETEDID x => -ERR Invalid stream ID specified as stream \
        command argument
    XSETID s 5 ENTRIESADDED 1 => +OK
    XSETID s 5 MAXDELETEDID 5 ENTRIESADDED 1 => +OK
    XSETID s 5 MAXDELETEDID 6 ENTRIESADDED 1 => -ERR The ID specified in XSETID is smaller \
        than the provided max_deleted_entry_id
    XSETID s 5 FOO 1 => -ERR syntax error
    XSETID str 5 => -WRONGTYPE Operation against a key holding the wrong kind of value
    DEL s => :1
    XADD s 5-5 a b => "5-5"
    XADD s 6-5 a b => "6-5"
    XSETID s 5 ENTRIESADDED 1 MAXDELETEDID 1 => -ERR The ID specified in XSETID is smaller \
        than the target stream top item
    XSETID s 6-4 ENTRIESADDED 1 MAXDELETEDID 1 => -ERR The ID specified in XSETID is smaller \
        than the target stream top item
    XSETID s 6-5 ENTRIESADDED 1 MAXDELETEDID 1 => -ERR The entries_added specified in XSETID \
        is smaller than the target stream length
    XSETID s 6-5 ENTRIESADDED 2 MAXDELETEDID 7 => -ERR The ID specified in XSETID is smaller \
        than the provided max_deleted_entry_id
    XSETID s 6-5 ENTRIESADDED 2 MAXDELETEDID 6-5 => +OK
    XINFO STREAM s => ["length" :2 "radix-tree-keys" :1 "radix-tree-nodes" :2 \
        "last-generated-id" "6-5" "max-deleted-entry-id" "6-5" "entries-added" :2 \
        "recorded-first-entry-id" "5-5" "groups" :0 "first-entry" ["5-5" ["a" "b"]] \
        "last-entry" ["6-5" ["a" "b"]]]
    XSETID s 6-4 => -ERR The ID specified in XSETID is smaller than current \
        max_deleted_entry_id
"#;

const READ: &str = r#"
    XADD s 1-1 a 1 => "1-1"
    XADD s 1-2 a 2 b 3 => "1-2"
    XADD s 3-0 c "" => "3-0"
    XADD s 4-4 c -17 => "4-4"
    XDEL s 3-0 9-9 => :1
    XRANGE s - + => [["1-1" ["a" "1"]] ["1-2" ["a" "2" "b" "3"]] ["4-4" ["c" "-17"]]]
    XRANGE s 1 1 => [["1-1" ["a" "1"]] ["1-2" ["a" "2" "b" "3"]]]
    XRANGE s (1-1 (4-4 => [["1-2" ["a" "2" "b" "3"]]]
    XRANGE s 1-2 + => [["1-2" ["a" "2" "b" "3"]] ["4-4" ["c" "-17"]]]
    XRANGE s + - => []
    XRANGE s - + COUNT 2 => [["1-1" ["a" "1"]] ["1-2" ["a" "2" "b" "3"]]]
    XREVRANGE s + - => [["4-4" ["c" "-17"]] ["1-2" ["a" "2" "b" "3"]] ["1-1" ["a" "1"]]]
    XREVRANGE s + - COUNT 1 => [["4-4" ["c" "-17"]]]
    XREVRANGE s (4-4 (1-1 => [["1-2" ["a" "2" "b" "3"]]]
    XREVRANGE s 1 1 => [["1-2" ["a" "2" "b" "3"]] ["1-1" ["a" "1"]]]
    XRANGE s => -ERR wrong number of arguments for 'xrange' command
    XRANGE s 1 => -ERR wrong number of arguments for 'xrange' command
    XRANGE s x y => -ERR Invalid stream ID specified as stream command argument
    XRANGE s - + COUNT => -ERR syntax error
    XRANGE s - + COUNT x => -ERR value is not an integer or out of range
    XRANGE s - + COUNT 0 => nil-array
    XRANGE s - + COUNT -1 => nil-array
    XRANGE s - + FOO 5 => -ERR syntax error
    XRANGE s (- + => -ERR Invalid stream ID specified as stream command argument
    XRANGE s - (+ => -ERR Invalid stream ID specified as stream command argument
    XRANGE s (x + => -ERR Invalid stream ID specified as stream command argument
    XRANGE s (18446744073709551615-18446744073709551615 + => -ERR invalid start ID for the \
        interval
    XRANGE s - (0-0 => -ERR invalid end ID for the interval
    XREVRANGE s + - COUNT 0 => nil-array
    XREVRANGE s - (+ => -ERR Invalid stream ID specified as stream command argument
    XREVRANGE s (0-0 - => -ERR invalid end ID for the interval
    XREVRANGE s + (18446744073709551615-18446744073709551615 => -ERR invalid start ID for \
        the interval
    XRANGE t - + COUNT 0 => []
    XRANGE t - + => []
    XRANGE s - + COUNT 1 COUNT 2 => [["1-1" ["a" "1"]] ["1-2" ["a" "2" "b" "3"]]]
    SET str x => +OK
    XRANGE str - + => -WRONGTYPE Operation against a key holding the wrong kind of value
    XRANGE str x + => -ERR Invalid stream ID specified as stream command argument
    XREAD => -ERR wrong number of arguments for 'xread' command
    XREAD STREAMS s => -ERR wrong number of arguments for 'xread' command
    XREAD STREAMS s 0 1 => -ERR Unbalanced 'xread' list of streams: for each stream key an \
        ID, '+', or '$' must be specified.
    XREAD STREAMS s t 0 => -ERR Unbalanced 'xread' list of streams: for each stream key an \
        ID, '+', or '$' must be specified.
    XREAD COUNT x STREAMS s 0 => -ERR value is not an integer or out of range
    XREAD COUNT 0 STREAMS s 1-1 => [["s" [["1-2" ["a" "2" "b" "3"]] ["4-4" ["c" "-17"]]]]]
    XREAD COUNT -1 STREAMS s 1-1 => [["s" [["1-2" ["a" "2" "b" "3"]] ["4-4" ["c" "-17"]]]]]
    XREAD COUNT 1 STREAMS s 0 => [["s" [["1-1" ["a" "1"]]]]]
    XREAD BLOCK x STREAMS s 0 => -ERR timeout is not an integer or out of range
    XREAD BLOCK -1 STREAMS s 0 => -ERR timeout is negative
    XREAD BLOCK 1.5 STREAMS s 0 => -ERR timeout is not an integer or out of range
    XREAD BLOCK STREAMS s 0 => -ERR timeout is not an integer or out of range
    XREAD BLOCK 9223372036854775807 STREAMS s 0 => -ERR timeout is out of range
    XREAD BLOCK 0 COUNT => -ERR syntax error
    XREAD STREAMS s $ => nil-array
    XREAD STREAMS s + => [["s" [["4-4" ["c" "-17"]]]]]
    XREAD STREAMS t + => nil-array
    XREAD STREAMS s > => -ERR The > ID can be specified only when calling XREADGROUP using \
        the GROUP <group> <consumer> option.
    XREAD STREAMS s x => -ERR Invalid stream ID specified as stream command argument
    XREAD STREAMS str 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XREAD STREAMS str $ => -WRONGTYPE Operation against a key holding the wrong kind of value
    XREAD STREAMS str + => -WRONGTYPE Operation against a key holding the wrong kind of value
    XREAD STREAMS t 0 => nil-array
    XREAD STREAMS s t 0 0 => [["s" [["1-1" ["a" "1"]] ["1-2" ["a" "2" "b" "3"]] ["4-4" ["c" \
        "-17"]]]]]
    XREAD STREAMS s s 1-2 1 => [["s" [["4-4" ["c" "-17"]]]] ["s" [["1-1" ["a" "1"]] ["1-2" \
        ["a" "2" "b" "3"]] ["4-4" ["c" "-17"]]]]]
    XREAD STREAMS s 18446744073709551615-18446744073709551615 => nil-array
    XREAD COUNT 2 FOO STREAMS s 0 => -ERR syntax error
    XREAD GROUP g c STREAMS s > => -ERR The GROUP option is only supported by XREADGROUP. \
        You called XREAD instead.
    XREAD NOACK STREAMS s 0 => -ERR The NOACK option is only supported by XREADGROUP. You \
        called XREAD instead.
    XREAD count 1 block 0 streams s 0 => [["s" [["1-1" ["a" "1"]]]]]
    XREAD COUNT 5 s 0 => -ERR syntax error
    XREAD COUNT STREAMS s 0 => -ERR value is not an integer or out of range
"#;

const DELETED: &str = r#"
    XADD s 1-1 a 1 => "1-1"
    XADD s 2-1 a 2 => "2-1"
    XADD s 3-1 a 3 => "3-1"
    XADD s 4-1 a 4 => "4-1"
    XADD s 5-1 a 5 => "5-1"
    XADD s 6-1 a 6 => "6-1"
    XADD s 7-1 a 7 => "7-1"
    XADD s 8-1 a 8 => "8-1"
    XADD s 9-1 a 9 => "9-1"
    XADD s 10-1 a 10 => "10-1"
    XADD s 11-1 a 11 => "11-1"
    XADD s 12-1 a 12 => "12-1"
    XGROUP CREATE s g 0 => +OK
    XREADGROUP GROUP g c COUNT 10 STREAMS s > => [["s" [["1-1" ["a" "1"]] ["2-1" ["a" "2"]] \
        ["3-1" ["a" "3"]] ["4-1" ["a" "4"]] ["5-1" ["a" "5"]] ["6-1" ["a" "6"]] ["7-1" ["a" \
        "7"]] ["8-1" ["a" "8"]] ["9-1" ["a" "9"]] ["10-1" ["a" "10"]]]]]
    XACK s g 1-1 2-1 3-1 4-1 5-1 7-1 9-1 => :7
    COPY s s1 => :1
    COPY s s2 => :1
    COPY s s3 => :1
    COPY s s4 => :1
    XTRIM s1 MAXLEN 5 ACKED => :7
    XRANGE s1 - + => [["6-1" ["a" "6"]] ["8-1" ["a" "8"]] ["10-1" ["a" "10"]] ["11-1" ["a" \
        "11"]] ["12-1" ["a" "12"]]]
    XTRIM s2 MAXLEN 10 ACKED => :2
    XRANGE s2 - + => [["3-1" ["a" "3"]] ["4-1" ["a" "4"]] ["5-1" ["a" "5"]] ["6-1" ["a" \
        "6"]] ["7-1" ["a" "7"]] ["8-1" ["a" "8"]] ["9-1" ["a" "9"]] ["10-1" ["a" "10"]] \
        ["11-1" ["a" "11"]] ["12-1" ["a" "12"]]]
    XTRIM s3 MINID 10 ACKED => :7
    XRANGE s3 - + => [["6-1" ["a" "6"]] ["8-1" ["a" "8"]] ["10-1" ["a" "10"]] ["11-1" ["a" \
        "11"]] ["12-1" ["a" "12"]]]
    XTRIM s4 MAXLEN 5 DELREF => :7
    XRANGE s4 - + => [["8-1" ["a" "8"]] ["9-1" ["a" "9"]] ["10-1" ["a" "10"]] ["11-1" ["a" \
        "11"]] ["12-1" ["a" "12"]]]
    XPENDING s4 g => [:2 "8-1" "10-1" [["c" "2"]]]
    XTRIM s4 MAXLEN 0 ACKED => :1
    XTRIM s4 MAXLEN 0 DELREF => :4
    XINFO STREAM s4 => ["length" :0 "radix-tree-keys" :0 "radix-tree-nodes" :1 \
        "last-generated-id" "12-1" "max-deleted-entry-id" "0-0" "entries-added" :12 \
        "recorded-first-entry-id" "0-0" "groups" :1 "first-entry" nil "last-entry" nil]
    XPENDING s4 g => [:0 nil nil nil-array]
    XPENDING s g => [:3 "6-1" "10-1" [["c" "3"]]]
    XDELEX s IDS 1 1-1 => [:1]
    XDELEX s KEEPREF IDS 2 2-1 6-1 => [:1 :1]
    XDELEX s ACKED IDS 4 3-1 8-1 12-1 99-1 => [:1 :2 :2 :2]
    XDELEX s DELREF IDS 2 6-1 8-1 => [:-1 :1]
    XPENDING s g => [:1 "10-1" "10-1" [["c" "1"]]]
    XDELEX s IDS 1 => -ERR wrong number of arguments for 'xdelex' command
    XDELEX s IDS 0 1 => -ERR Number of IDs must be a positive integer
    XDELEX s IDS x 1 => -ERR Number of IDs must be a positive integer
    XDELEX s IDS 2 1 => -ERR The `numids` parameter must match the number of arguments
    XDELEX s IDS 1 1 2 => -ERR syntax error
    XDELEX s IDS 1 x => -ERR Invalid stream ID specified as stream command argument
    XDELEX s FOO IDS 1 1 => -ERR syntax error
    XDELEX s KEEPREF ACKED IDS 1 1 => -ERR syntax error
    XDELEX s IDS 1 1 ACKED => [:-1]
    XDELEX s ACKED 1 => -ERR wrong number of arguments for 'xdelex' command
    XDELEX s ACKED KEEPREF 1 => -ERR syntax error
    XDELEX t IDS 2 1 2 => [:-1 :-1]
    XDELEX t IDS 2 1 x => [:-1 :-1]
    XDELEX s IDS 1 1 IDS 1 2 => [:-1]
    XACKDEL s g IDS 2 9-1 10-1 => [:-1 :1]
    XACKDEL s g ACKED IDS 2 11-1 1-1 => [:-1 :-1]
    XACKDEL s g DELREF IDS 3 11-1 1-1 13-1 => [:-1 :-1 :-1]
    XACKDEL s nog IDS 1 1 => [:-1]
    XACKDEL t g IDS 1 1 => [:-1]
    XACKDEL s g IDS 1 => -ERR wrong number of arguments for 'xackdel' command
    XACKDEL s g FOO IDS 1 1 => -ERR syntax error
    XACKDEL s g IDS x 1 => -ERR Number of IDs must be a positive integer
    XACKDEL s g IDS 3 1 2 => -ERR The `numids` parameter must match the number of arguments
    XREADGROUP GROUP g c STREAMS s > => [["s" [["11-1" ["a" "11"]] ["12-1" ["a" "12"]]]]]
    XGROUP CREATE s h 11-1 => +OK
    XACKDEL s g ACKED IDS 2 11-1 12-1 => [:1 :2]
    XINFO GROUPS s => [["name" "g" "consumers" :1 "pending" :0 "last-delivered-id" "12-1" \
        "entries-read" :12 "lag" :0] ["name" "h" "consumers" :0 "pending" :0 \
        "last-delivered-id" "11-1" "entries-read" nil "lag" nil]]
    XRANGE s - + => [["4-1" ["a" "4"]] ["5-1" ["a" "5"]] ["7-1" ["a" "7"]] ["9-1" ["a" "9"]] \
        ["12-1" ["a" "12"]]]
    SET str x => +OK
    XDELEX str IDS 1 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XACKDEL str g IDS 1 1 => -WRONGTYPE Operation against a key holding the wrong kind of \
        value
"#;

const MAPS: &str = r#"
    XADD s 1-1 a 1 => "1-1"
    XGROUP CREATE s g 0 => +OK
    XREAD STREAMS s 0 => {"s": [["1-1" ["a" "1"]]]}
    XREAD STREAMS s s 0 0 => {"s": [["1-1" ["a" "1"]]], "s": [["1-1" ["a" "1"]]]}
    XREAD STREAMS s 9 => nil
    XREADGROUP GROUP g c STREAMS s > => {"s": [["1-1" ["a" "1"]]]}
    XREADGROUP GROUP g c STREAMS s 0 => {"s": [["1-1" ["a" "1"]]]}
    XREADGROUP GROUP g c STREAMS s > => nil
    XDEL s 1-1 => :1
    XREADGROUP GROUP g c STREAMS s 0 => {"s": [["1-1" nil]]}
    XRANGE s - + COUNT 0 => nil
    XADD t NOMKSTREAM * a b => nil
    XPENDING s g => [:1 "1-1" "1-1" [["c" "1"]]]
    XINFO STREAM s => {"length": :0, "radix-tree-keys": :0, "radix-tree-nodes": :1, \
        "last-generated-id": "1-1", "max-deleted-entry-id": "1-1", "entries-added": :1, \
        "recorded-first-entry-id": "0-0", "groups": :1, "first-entry": nil, "last-entry": nil}
    XINFO STREAM s FULL => {"length": :0, "radix-tree-keys": :0, "radix-tree-nodes": :1, \
        "last-generated-id": "1-1", "max-deleted-entry-id": "1-1", "entries-added": :1, \
        "recorded-first-entry-id": "0-0", "entries": [], "groups": [{"name": "g", \
        "last-delivered-id": "1-1", "entries-read": :1, "lag": :0, "pel-count": :1, \
        "nacked-count": :0, "pending": [["1-1" "c" :1700000000000 :2]], "consumers": \
        [{"name": "c", "seen-time": :1700000000000, "active-time": :1700000000000, \
        "pel-count": :1, "pending": [["1-1" :1700000000000 :2]]}]}]}
    XINFO GROUPS s => [{"name": "g", "consumers": :1, "pending": :1, "last-delivered-id": \
        "1-1", "entries-read": :1, "lag": :0}]
    XINFO CONSUMERS s g => [{"name": "c", "pending": :1, "idle": :0, "inactive": :0}]
    XGROUP CREATE e g $ MKSTREAM => +OK
    XPENDING e g => [:0 nil nil nil]
    XINFO STREAM e => {"length": :0, "radix-tree-keys": :0, "radix-tree-nodes": :1, \
        "last-generated-id": "0-0", "max-deleted-entry-id": "0-0", "entries-added": :0, \
        "recorded-first-entry-id": "0-0", "groups": :1, "first-entry": nil, "last-entry": nil}
    XINFO GROUPS e => [{"name": "g", "consumers": :0, "pending": :0, "last-delivered-id": \
        "0-0", "entries-read": nil, "lag": :0}]
"#;
