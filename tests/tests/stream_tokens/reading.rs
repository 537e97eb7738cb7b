//! XRANGE, XREVRANGE, XLEN, XREAD, XREADGROUP and XSETID.

pub(crate) const SCRIPT: &str = r#"
    > XADD s 1-1 a 1
    "1-1"
    > XADD s 1-2 b 2
    "1-2"
    > XADD s 2-1 c 3
    "2-1"
    > SET text x
    OK
    # redis.io/commands/xrange and xrevrange
    > XRANGE s 1 1
    1) 1) "1-1"
       2) 1) "a"
          2) "1"
    2) 1) "1-2"
       2) 1) "b"
          2) "2"
    > XRANGE s (1-1 (2-1
    1) 1) "1-2"
       2) 1) "b"
          2) "2"
    > XRANGE s 2 + COUNT 0
    (nil)
    > XRANGE s - + COUNT -5
    (nil)
    > XRANGE s + -
    (empty array)
    > XRANGE s - + COUNT 1
    1) 1) "1-1"
       2) 1) "a"
          2) "1"
    > XRANGE s (18446744073709551615-18446744073709551615 +
    (error) ERR invalid start ID for the interval
    > XRANGE s - (0-0
    (error) ERR invalid end ID for the interval
    > XRANGE s x +
    (error) ERR Invalid stream ID specified as stream command argument
    > XRANGE s - x
    (error) ERR Invalid stream ID specified as stream command argument
    > XRANGE s ( +
    (error) ERR Invalid stream ID specified as stream command argument
    > XRANGE s - + COUNT
    (error) ERR syntax error
    > XRANGE s - + COUNT x
    (error) ERR value is not an integer or out of range
    > XRANGE s - + FOO 1
    (error) ERR syntax error
    > XRANGE s -
    (error) ERR wrong number of arguments for 'xrange' command
    > XRANGE none - +
    (empty array)
    > XRANGE text - +
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XREVRANGE s 1 1
    1) 1) "1-2"
       2) 1) "b"
          2) "2"
    2) 1) "1-1"
       2) 1) "a"
          2) "1"
    > XREVRANGE s (2-1 (1-1
    1) 1) "1-2"
       2) 1) "b"
          2) "2"
    > XREVRANGE s + - COUNT 1
    1) 1) "2-1"
       2) 1) "c"
          2) "3"
    > XREVRANGE s - +
    (empty array)
    > XREVRANGE s x -
    (error) ERR Invalid stream ID specified as stream command argument
    > XREVRANGE s + x
    (error) ERR Invalid stream ID specified as stream command argument
    > XREVRANGE s + - FOO 1
    (error) ERR syntax error
    > XREVRANGE none + -
    (empty array)
    > XREVRANGE text + -
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xlen
    > XLEN s
    (integer) 3
    > XLEN none
    (integer) 0
    > XLEN text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XLEN
    (error) ERR wrong number of arguments for 'xlen' command
    # redis.io/commands/xread
    > XREAD STREAMS s 2-1
    (nil)
    > XREAD STREAMS none 0
    (nil)
    > XREAD STREAMS s $
    (nil)
    > XREAD BLOCK 1 STREAMS s none $ 0
    (nil)
    > XREAD COUNT -1 STREAMS s 2
    ...
    > XREAD COUNT x STREAMS s 0
    (error) ERR value is not an integer or out of range
    > XREAD BLOCK x STREAMS s 0
    (error) ERR timeout is not an integer or out of range
    > XREAD BLOCK -1 STREAMS s 0
    (error) ERR timeout is negative
    > XREAD BLOCK 9223372036854775807 STREAMS s 0
    (error) ERR timeout is out of range
    > XREAD STREAMS s
    (error) ERR wrong number of arguments for 'xread' command
    > XREAD STREAMS s t 0
    ~ (error) ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' m*
    > XREAD STREAMS s x
    (error) ERR Invalid stream ID specified as stream command argument
    > XREAD STREAMS s >
    ~ (error) ERR The > ID can be specified only when calling XREADGROUP using the GROUP <grou*
    > XREAD STREAMS text 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XREAD STREAMS s text $ 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XREAD FOO STREAMS s 0
    (error) ERR syntax error
    > XREAD COUNT 1
    (error) ERR wrong number of arguments for 'xread' command
    > XREAD COUNT 1 BLOCK 1
    (error) ERR syntax error
    > XREAD NOACK STREAMS s 0
    (error) ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.
    > XREAD GROUP g c STREAMS s 0
    (error) ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.
    > XREAD STREAMS
    (error) ERR wrong number of arguments for 'xread' command
    # redis.io/commands/xreadgroup
    > XGROUP CREATE s g 2-1
    OK
    > XREADGROUP GROUP g c STREAMS s >
    (nil)
    > XREADGROUP GROUP g c BLOCK 1 COUNT 1 NOACK STREAMS s >
    (nil)
    > XREADGROUP GROUP g c STREAMS s $
    ~ (error) ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the h*
    > XREADGROUP GROUP g c STREAMS s +
    ~ (error) ERR The + ID is meaningless in the context of XREADGROUP: you want to read the h*
    > XREADGROUP GROUP g c STREAMS s x
    (error) ERR Invalid stream ID specified as stream command argument
    > XREADGROUP GROUP g c STREAMS s
    (error) ERR wrong number of arguments for 'xreadgroup' command
    > XREADGROUP GROUP g c STREAMS s t >
    ~ (error) ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' mu*
    > XREADGROUP GROUP g c COUNT x STREAMS s >
    (error) ERR value is not an integer or out of range
    > XREADGROUP GROUP g c BLOCK x STREAMS s >
    (error) ERR timeout is not an integer or out of range
    > XREADGROUP GROUP g c BLOCK -1 STREAMS s >
    (error) ERR timeout is negative
    > XREADGROUP GROUP g c FOO STREAMS s >
    (error) ERR syntax error
    > XREADGROUP GROUP g STREAMS s >
    (error) ERR wrong number of arguments for 'xreadgroup' command
    > XREADGROUP GROUP g c COUNT 1 NOACK
    (error) ERR syntax error
    > XREADGROUP COUNT 1 BLOCK 1 STREAMS s >
    (error) ERR Missing GROUP option for XREADGROUP
    > XREADGROUP GROUP none c STREAMS s >
    (error) NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option
    > XREADGROUP GROUP g c STREAMS none >
    (error) NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
    > XREADGROUP GROUP g c STREAMS text >
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XREADGROUP GROUP g c STREAMS s none > >
    (error) NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
    > XREADGROUP GROUP g
    (error) ERR wrong number of arguments for 'xreadgroup' command
    # redis.io/commands/xsetid
    > XSETID s 2-1
    OK
    > XSETID s 9-9 ENTRIESADDED 10
    OK
    > XSETID s 9-9 MAXDELETEDID 3-3
    OK
    > XSETID s 9-9 ENTRIESADDED 3 MAXDELETEDID 4-4
    OK
    > XSETID s 2-1 MAXDELETEDID 2-2
    (error) ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
    > XSETID s 4-3
    (error) ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
    > XSETID s 9-9 ENTRIESADDED 2
    (error) ERR The entries_added specified in XSETID is smaller than the target stream length
    > XSETID s 9-9 ENTRIESADDED -1
    (error) ERR entries_added must be positive
    > XSETID s 9-9 ENTRIESADDED x
    (error) ERR value is not an integer or out of range
    > XSETID s 9-9 ENTRIESADDED
    (error) ERR syntax error
    > XSETID s 9-9 MAXDELETEDID x
    (error) ERR Invalid stream ID specified as stream command argument
    > XSETID s x
    (error) ERR Invalid stream ID specified as stream command argument
    > XSETID s 9-9 FOO 1
    (error) ERR syntax error
    > XSETID none 1-1
    (error) ERR no such key
    > XSETID text 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XADD u 5-5 a b
    "5-5"
    > XSETID u 5-4
    (error) ERR The ID specified in XSETID is smaller than the target stream top item
    > XSETID u
    (error) ERR wrong number of arguments for 'xsetid' command
"#;
