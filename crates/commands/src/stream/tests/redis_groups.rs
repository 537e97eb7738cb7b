//! Consumer groups as a real Redis server answered for them.

use super::talk;
use crate::testing::Session;

#[test]
fn groups_share_out_entries() {
    talk(&mut Session::new(), SHARED);
}

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
