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
fn groups_share_out_entries() {
    talk(&mut Session::new(), SHARED);
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

const SHARED: &str = r#"
    XADD s 1-1 a 1 => "1-1"
    XADD s 2-1 b 2 => "2-1"
    XADD s 3-1 c 3 => "3-1"
    XADD s 4-1 d 4 => "4-1"
    SET str x => +OK
    XREADGROUP GROUP g c STREAMS s > => -NOGROUP No such key 's' or consumer group 'g' in \
        XREADGROUP with GROUP option
    XREADGROUP GROUP g c STREAMS t > => -NOGROUP No such key 't' or consumer group 'g' in \
        XREADGROUP with GROUP option
    XREADGROUP STREAMS s > => -ERR wrong number of arguments for 'xreadgroup' command
    XREADGROUP COUNT 1 STREAMS a b c > => -ERR Missing GROUP option for XREADGROUP
    XREADGROUP GROUP g c STREAMS s => -ERR wrong number of arguments for 'xreadgroup' command
    XREADGROUP GROUP g c STREAMS s s > => -ERR Unbalanced 'xreadgroup' list of streams: for \
        each stream key an ID or '>' must be specified.
    XREADGROUP GROUP g c COUNT 1 STREAMS s $ => -NOGROUP No such key 's' or consumer group \
        'g' in XREADGROUP with GROUP option
    XGROUP CREATE s g => -ERR wrong number of arguments for 'xgroup|create' command
    XGROUP CREATE s g x => -ERR Invalid stream ID specified as stream command argument
    XGROUP CREATE t g 0 => -ERR The XGROUP subcommand requires the key to exist. Note that \
        for CREATE you may want to use the MKSTREAM option to create an empty stream \
        automatically.
    XGROUP CREATE t g x => -ERR The XGROUP subcommand requires the key to exist. Note that \
        for CREATE you may want to use the MKSTREAM option to create an empty stream \
        automatically.
    XGROUP CREATE str g 0 => -WRONGTYPE Operation against a key holding the wrong kind of \
        value
    XGROUP CREATE s g 0 FOO => -ERR unknown subcommand or wrong number of arguments for \
        'CREATE'. Try XGROUP HELP.
    XGROUP CREATE s g 0 ENTRIESREAD => -ERR unknown subcommand or wrong number of arguments \
        for 'CREATE'. Try XGROUP HELP.
    XGROUP CREATE s g 0 ENTRIESREAD x => -ERR value is not an integer or out of range
    XGROUP CREATE s g 0 ENTRIESREAD -2 => -ERR value for ENTRIESREAD must be positive or -1
    XGROUP CREATE s g 0 ENTRIESREAD -1 MKSTREAM => +OK
    XGROUP CREATE s g 0 => -BUSYGROUP Consumer Group name already exists
    XGROUP CREATE s g2 $ ENTRIESREAD 9 => +OK
    XGROUP CREATE s g3 - MKSTREAM => -ERR Invalid stream ID specified as stream command \
        argument
    XGROUP CREATE m g $ MKSTREAM => +OK
    XGROUP FOO s g => -ERR unknown subcommand 'FOO'. Try XGROUP HELP.
    XGROUP => -ERR wrong number of arguments for 'xgroup' command
    XGROUP CREATE => -ERR wrong number of arguments for 'xgroup|create' command
    XGROUP HELP => [+XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +CREATE \
        <key> <groupname> <id|$> [option] +    Create a new consumer group. Options are: \
        +    * MKSTREAM +      Create the empty stream if it does not exist. +    * \
        ENTRIESREAD entries_read +      Set the group's entries_read counter (internal use). \
        +CREATECONSUMER <key> <groupname> <consumer> +    Create a new consumer in the \
        specified group. +DELCONSUMER <key> <groupname> <consumer> +    Remove the specified \
        consumer. +DESTROY <key> <groupname> +    Remove the specified group. +SETID <key> \
        <groupname> <id|$> [ENTRIESREAD entries_read] +    Set the current group ID and \
        entries_read counter. +HELP +    Print this help.]
    XGROUP SETID s g => -ERR wrong number of arguments for 'xgroup|setid' command
    XGROUP SETID s nog 0 => -NOGROUP No such consumer group 'nog' for key name 's'
    XGROUP SETID t g 0 => -ERR The XGROUP subcommand requires the key to exist. Note that \
        for CREATE you may want to use the MKSTREAM option to create an empty stream \
        automatically.
    XGROUP SETID s g x => -ERR Invalid stream ID specified as stream command argument
    XGROUP SETID s g 0 ENTRIESREAD 2 => +OK
    XGROUP SETID s g 0 MKSTREAM => -ERR unknown subcommand or wrong number of arguments for \
        'SETID'. Try XGROUP HELP.
    XGROUP SETID s g $ ENTRIESREAD -5 => -ERR value for ENTRIESREAD must be positive or -1
    XGROUP SETID s g + => +OK
    XGROUP SETID s g - => +OK
    XGROUP SETID s g ( => -ERR Invalid stream ID specified as stream command argument
    XGROUP SETID s g 0 => +OK
    XGROUP DESTROY s nog => :0
    XGROUP DESTROY t g => -ERR The XGROUP subcommand requires the key to exist. Note that \
        for CREATE you may want to use the MKSTREAM option to create an empty stream \
        automatically.
    XGROUP DESTROY str g => -WRONGTYPE Operation against a key holding the wrong kind of value
    XGROUP DESTROY s g3 => :0
    XGROUP CREATECONSUMER s g c1 => :1
    XGROUP CREATECONSUMER s g c1 => :0
    XGROUP CREATECONSUMER s nog c1 => -NOGROUP No such consumer group 'nog' for key name 's'
    XGROUP CREATECONSUMER t g c1 => -ERR The XGROUP subcommand requires the key to exist. \
        Note that for CREATE you may want to use the MKSTREAM option to create an empty \
        stream automatically.
    XGROUP DELCONSUMER s g c1 => :0
    XGROUP DELCONSUMER s g c1 => :0
    XGROUP DELCONSUMER s nog c1 => -NOGROUP No such consumer group 'nog' for key name 's'
    XREADGROUP GROUP g c STREAMS s $ => -ERR The $ ID is meaningless in the context of \
        XREADGROUP: you want to read the history of this consumer by specifying a proper ID, \
        or use the > ID to get new messages. The $ ID would just return an empty result set.
    XREADGROUP GROUP g c STREAMS s + => -ERR The + ID is meaningless in the context of \
        XREADGROUP: you want to read the history of this consumer by specifying a proper ID, \
        or use the > ID to get new messages. The + ID would just return an empty result set.
    XREADGROUP GROUP g c STREAMS s x => -ERR Invalid stream ID specified as stream command \
        argument
    XREADGROUP GROUP g c STREAMS str > => -WRONGTYPE Operation against a key holding the \
        wrong kind of value
    XREADGROUP GROUP g c STREAMS s s > > => [["s" [["1-1" ["a" "1"]] ["2-1" ["b" "2"]] \
        ["3-1" ["c" "3"]] ["4-1" ["d" "4"]]]]]
    XREADGROUP GROUP g c COUNT 2 STREAMS s 0 => [["s" [["1-1" ["a" "1"]] ["2-1" ["b" "2"]]]]]
    XREADGROUP GROUP g c COUNT 2 STREAMS s 4 => [["s" [["4-1" ["d" "4"]]]]]
    XREADGROUP GROUP g c STREAMS s > => nil-array
    XREADGROUP GROUP g c GROUP g d STREAMS s 0 => [["s" []]]
    XREADGROUP GROUP g c NOACK COUNT 1 STREAMS s 0 => [["s" [["1-1" ["a" "1"]]]]]
    XDEL s 2-1 => :1
    XREADGROUP GROUP g c STREAMS s 0 => [["s" [["1-1" ["a" "1"]] ["2-1" nil-array] ["3-1" \
        ["c" "3"]] ["4-1" ["d" "4"]]]]]
    XACK s g => -ERR wrong number of arguments for 'xack' command
    XACK s g x => -ERR Invalid stream ID specified as stream command argument
    XACK s nog 1-1 => :0
    XACK t g x => :0
    XACK s g 1-1 1-1 9-9 => :1
    XACK str g 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XPENDING s => -ERR wrong number of arguments for 'xpending' command
    XPENDING s g => [:3 "2-1" "4-1" [["c" "3"]]]
    XPENDING s nog => -NOGROUP No such key 's' or consumer group 'nog'
    XPENDING t g => -NOGROUP No such key 't' or consumer group 'g'
    XPENDING str g => -WRONGTYPE Operation against a key holding the wrong kind of value
    XPENDING s g - => -ERR syntax error
    XPENDING s g - + => -ERR syntax error
    XPENDING s g - + x => -ERR value is not an integer or out of range
    XPENDING s g - + 0 => []
    XPENDING s g - + -5 => []
    XPENDING s g - + 1 nobody => []
    XPENDING s g - + 2 c => [["2-1" "c" :0 :2] ["3-1" "c" :0 :2]]
    XPENDING s g IDLE => -ERR syntax error
    XPENDING s g IDLE x - + 10 => -ERR value is not an integer or out of range
    XPENDING s g IDLE 1000000 - + 10 => []
    XPENDING s g IDLE 1000000 - + 10 c => []
    XPENDING s g IDLE 1000000 - + => -ERR syntax error
    XPENDING s g x + 10 => -ERR Invalid stream ID specified as stream command argument
    XPENDING s g (- + 10 => -ERR Invalid stream ID specified as stream command argument
    XPENDING s g - + 10 c extra => [["2-1" "c" :0 :2] ["3-1" "c" :0 :2] ["4-1" "c" :0 :3]]
    XPENDING s g IDLE 0 - + 10 c extra => -ERR syntax error
    XPENDING s g (2-1 (4-1 10 => [["3-1" "c" :0 :2]]
    XPENDING s g (18446744073709551615-18446744073709551615 + 10 => -ERR invalid start ID \
        for the interval
    XPENDING s g2 => [:0 nil nil nil-array]
    XCLAIM s g c => -ERR wrong number of arguments for 'xclaim' command
    XCLAIM s g c x 1-1 => -ERR Invalid min-idle-time argument for XCLAIM
    XCLAIM s nog c 0 1-1 => -NOGROUP No such key 's' or consumer group 'nog'
    XCLAIM t g c 0 1-1 => -NOGROUP No such key 't' or consumer group 'g'
    XCLAIM s g c 0 x => -ERR Unrecognized XCLAIM option 'x'
    XCLAIM s g c 0 3-1 FOO => -ERR Unrecognized XCLAIM option 'FOO'
    XCLAIM s g c 0 3-1 IDLE => -ERR Unrecognized XCLAIM option 'IDLE'
    XCLAIM s g c 0 3-1 IDLE x => -ERR Invalid IDLE option argument for XCLAIM
    XCLAIM s g c 0 3-1 TIME x => -ERR Invalid TIME option argument for XCLAIM
    XCLAIM s g c 0 3-1 RETRYCOUNT x => -ERR Invalid RETRYCOUNT option argument for XCLAIM
    XCLAIM s g c 0 3-1 RETRYCOUNT -1 => [["3-1" ["c" "3"]]]
    XCLAIM s g c 0 3-1 LASTID x => -ERR Invalid stream ID specified as stream command argument
    XCLAIM s g d -1 3-1 => [["3-1" ["c" "3"]]]
    XCLAIM s g d 0 2-1 3-1 9-1 JUSTID => ["3-1"]
    XCLAIM s g d 0 3-1 1-1 FORCE => [["3-1" ["c" "3"]] ["1-1" ["a" "1"]]]
    XCLAIM s g d 0 9-9 FORCE => []
    XCLAIM s g d 10000000 3-1 => []
    XCLAIM s g d 0 3-1 LASTID 8-8 RETRYCOUNT 7 JUSTID => ["3-1"]
    XPENDING s g - + 10 d => [["1-1" "d" :0 :2] ["3-1" "d" :0 :7]]
    XCLAIM str g d 0 3-1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XAUTOCLAIM s g => -ERR wrong number of arguments for 'xautoclaim' command
    XAUTOCLAIM s g c x 0 => -ERR Invalid min-idle-time argument for XAUTOCLAIM
    XAUTOCLAIM s g c 0 x => -ERR Invalid stream ID specified as stream command argument
    XAUTOCLAIM s g c -5 0 COUNT 0 => -ERR COUNT must be > 0
    XAUTOCLAIM s g c -5 0 COUNT x => -ERR COUNT must be > 0
    XAUTOCLAIM s g c -5 0 COUNT -1 => -ERR COUNT must be > 0
    XAUTOCLAIM s g c -5 0 COUNT 9223372036854775807 => -ERR COUNT must be > 0
    XAUTOCLAIM s g c 0 0 FOO => -ERR syntax error
    XAUTOCLAIM s nog c 0 0 => -NOGROUP No such key 's' or consumer group 'nog'
    XAUTOCLAIM t g c 0 0 => -NOGROUP No such key 't' or consumer group 'g'
    XAUTOCLAIM s g c 0 (18446744073709551615-18446744073709551615 => -ERR invalid start ID \
        for the interval
    XAUTOCLAIM s g c 0 - COUNT 1 JUSTID => ["3-1" ["1-1"] []]
    XAUTOCLAIM s g c 0 (3-1 => ["0-0" [["4-1" ["d" "4"]]] []]
    XAUTOCLAIM s g c 0 - COUNT => -ERR syntax error
    XDEL s 3-1 => :1
    XAUTOCLAIM s g c 0 0 => ["0-0" [["1-1" ["a" "1"]] ["4-1" ["d" "4"]]] ["3-1"]]
    XAUTOCLAIM s g e 1000000 0 => ["0-0" [] []]
    XINFO => -ERR wrong number of arguments for 'xinfo' command
    XINFO FOO => -ERR unknown subcommand 'FOO'. Try XINFO HELP.
    XINFO STREAM => -ERR wrong number of arguments for 'xinfo|stream' command
    XINFO STREAM t => -ERR no such key
    XINFO STREAM str => -WRONGTYPE Operation against a key holding the wrong kind of value
    XINFO STREAM t FOO => -ERR no such key
    XINFO STREAM str FULL COUNT x => -WRONGTYPE Operation against a key holding the wrong kind \
      of value
    XDELEX str IDS 0 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XACKDEL str g IDS 2 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
    XINFO STREAM s FOO => -ERR unknown subcommand or wrong number of arguments for 'STREAM'. \
        Try XINFO HELP.
    XINFO STREAM s FULL FOO => -ERR unknown subcommand or wrong number of arguments for \
        'STREAM'. Try XINFO HELP.
    XINFO STREAM s FULL COUNT => -ERR unknown subcommand or wrong number of arguments for \
        'STREAM'. Try XINFO HELP.
    XINFO STREAM s FULL COUNT x => -ERR value is not an integer or out of range
    XINFO STREAM s => ["length" :2 "radix-tree-keys" :1 "radix-tree-nodes" :2 \
        "last-generated-id" "4-1" "max-deleted-entry-id" "3-1" "entries-added" :4 \
        "recorded-first-entry-id" "1-1" "groups" :2 "first-entry" ["1-1" ["a" "1"]] \
        "last-entry" ["4-1" ["d" "4"]]]
    XINFO STREAM s FULL COUNT 1 => ["length" :2 "radix-tree-keys" :1 "radix-tree-nodes" :2 \
        "last-generated-id" "4-1" "max-deleted-entry-id" "3-1" "entries-added" :4 \
        "recorded-first-entry-id" "1-1" "entries" [["1-1" ["a" "1"]]] "groups" [["name" "g" \
        "last-delivered-id" "8-8" "entries-read" :4 "lag" :0 "pel-count" :2 "nacked-count" \
        :0 "pending" [["1-1" "c" :1700000000000 :3]] "consumers" [["name" "c" "seen-time" \
        :1700000000000 "active-time" :1700000000000 "pel-count" :2 "pending" [["1-1" \
        :1700000000000 :3]]] ["name" "d" "seen-time" :1700000000000 "active-time" \
        :1700000000000 "pel-count" :0 "pending" []] ["name" "e" "seen-time" :1700000000000 \
        "active-time" :-1 "pel-count" :0 "pending" []]]] ["name" "g2" "last-delivered-id" \
        "4-1" "entries-read" :4 "lag" :0 "pel-count" :0 "nacked-count" :0 "pending" [] \
        "consumers" []]]]
    XINFO STREAM s FULL COUNT -1 => ["length" :2 "radix-tree-keys" :1 "radix-tree-nodes" :2 \
        "last-generated-id" "4-1" "max-deleted-entry-id" "3-1" "entries-added" :4 \
        "recorded-first-entry-id" "1-1" "entries" [["1-1" ["a" "1"]] ["4-1" ["d" "4"]]] \
        "groups" [["name" "g" "last-delivered-id" "8-8" "entries-read" :4 "lag" :0 \
        "pel-count" :2 "nacked-count" :0 "pending" [["1-1" "c" :1700000000000 :3] ["4-1" "c" \
        :1700000000000 :5]] "consumers" [["name" "c" "seen-time" :1700000000000 \
        "active-time" :1700000000000 "pel-count" :2 "pending" [["1-1" :1700000000000 :3] \
        ["4-1" :1700000000000 :5]]] ["name" "d" "seen-time" :1700000000000 "active-time" \
        :1700000000000 "pel-count" :0 "pending" []] ["name" "e" "seen-time" :1700000000000 \
        "active-time" :-1 "pel-count" :0 "pending" []]]] ["name" "g2" "last-delivered-id" \
        "4-1" "entries-read" :4 "lag" :0 "pel-count" :0 "nacked-count" :0 "pending" [] \
        "consumers" []]]]
    XINFO GROUPS s => [["name" "g" "consumers" :3 "pending" :2 "last-delivered-id" "8-8" \
        "entries-read" :4 "lag" :0] ["name" "g2" "consumers" :0 "pending" :0 \
        "last-delivered-id" "4-1" "entries-read" :4 "lag" :0]]
    XINFO GROUPS t => -ERR no such key
    XINFO CONSUMERS s g => [["name" "c" "pending" :2 "idle" :0 "inactive" :0] ["name" "d" \
        "pending" :0 "idle" :0 "inactive" :0] ["name" "e" "pending" :0 "idle" :0 "inactive" \
        :-1]]
    XINFO CONSUMERS s nog => -NOGROUP No such consumer group 'nog' for key name 's'
    XINFO CONSUMERS t g => -ERR no such key
    XINFO HELP => [+XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are: \
        +CONSUMERS <key> <groupname> +    Show consumers of <groupname>. +GROUPS <key> +    \
        Show the stream consumer groups. +STREAM <key> [FULL [COUNT <count>] +    Show \
        information about the stream. +HELP +    Print this help.]
    XINFO GROUPS m => [["name" "g" "consumers" :0 "pending" :0 "last-delivered-id" "0-0" \
        "entries-read" nil "lag" :0]]
    XINFO STREAM m => ["length" :0 "radix-tree-keys" :0 "radix-tree-nodes" :1 \
        "last-generated-id" "0-0" "max-deleted-entry-id" "0-0" "entries-added" :0 \
        "recorded-first-entry-id" "0-0" "groups" :1 "first-entry" nil "last-entry" nil]
    XINFO STREAM m FULL => ["length" :0 "radix-tree-keys" :0 "radix-tree-nodes" :1 \
        "last-generated-id" "0-0" "max-deleted-entry-id" "0-0" "entries-added" :0 \
        "recorded-first-entry-id" "0-0" "entries" [] "groups" [["name" "g" \
        "last-delivered-id" "0-0" "entries-read" nil "lag" :0 "pel-count" :0 "nacked-count" \
        :0 "pending" [] "consumers" []]]]
    XGROUP DESTROY m g => :1
    XLEN m => :0
    EXISTS m => :1
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
