//! XPENDING, XCLAIM and XAUTOCLAIM.

pub(crate) const SCRIPT: &str = r#"
    > XADD s 1-1 a 1
    "1-1"
    > XADD s 2-1 a 2
    "2-1"
    > XADD s 3-1 a 3
    "3-1"
    > XADD s 4-1 a 4
    "4-1"
    > XGROUP CREATE s g 0
    OK
    > XGROUP CREATE s idle 0
    OK
    # redis.io/commands/xpending
    > XPENDING s g
    1) (integer) 0
    2) (nil)
    3) (nil)
    4) (nil)
    > XPENDING s g - + 10
    (empty array)
    > XREADGROUP GROUP g c COUNT 2 STREAMS s >
    ...
    > XREADGROUP GROUP g d COUNT 1 STREAMS s >
    ...
    > XPENDING s g
    1) (integer) 3
    2) "1-1"
    3) "3-1"
    4) 1) 1) "c"
          2) "2"
       2) 1) "d"
          2) "1"
    > XCLAIM s g c 0 1-1 2-1 TIME 1 RETRYCOUNT 7 JUSTID
    1) "1-1"
    2) "2-1"
    > XCLAIM s g d 0 3-1 TIME 1 RETRYCOUNT 1 JUSTID
    1) "3-1"
    > XPENDING s g IDLE 1000 (1-1 + 10 c
    1) 1) "2-1"
       2) "c"
    ~    3) (integer) *
       4) (integer) 7
    > XPENDING s g IDLE 0 - (1-1 10
    (empty array)
    > XPENDING s g - + 10 nobody
    (empty array)
    > XPENDING s g - + -1
    (empty array)
    > XPENDING s g - + 0
    (empty array)
    > XPENDING s g - 1-0 10
    (empty array)
    > XPENDING s g IDLE 9000000000000000 - + 10
    (empty array)
    > XPENDING s g -
    (error) ERR syntax error
    > XPENDING s g - +
    (error) ERR syntax error
    > XPENDING s g - + x
    (error) ERR value is not an integer or out of range
    > XPENDING s g x + 10
    (error) ERR Invalid stream ID specified as stream command argument
    > XPENDING s g - x 10
    (error) ERR Invalid stream ID specified as stream command argument
    > XPENDING s g IDLE x - + 10
    (error) ERR value is not an integer or out of range
    > XPENDING s g IDLE -1 - + 0
    (empty array)
    > XPENDING s g IDLE 5
    (error) ERR syntax error
    > XPENDING s g FOO 5 - + 10
    (error) ERR value is not an integer or out of range
    > XPENDING s g - + 10 c d
    1) 1) "1-1"
       2) "c"
    ~    3) (integer) *
       4) (integer) 7
    2) 1) "2-1"
       2) "c"
    ~    3) (integer) *
       4) (integer) 7
    > XPENDING s g (18446744073709551615-18446744073709551615 + 10
    (error) ERR invalid start ID for the interval
    > XPENDING s g - (0-0 10
    (error) ERR invalid end ID for the interval
    > XPENDING s none
    (error) NOGROUP No such key 's' or consumer group 'none'
    > XPENDING none g
    (error) NOGROUP No such key 'none' or consumer group 'g'
    > XPENDING s
    (error) ERR wrong number of arguments for 'xpending' command
    > SET text x
    OK
    > XPENDING text g
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xclaim
    > XCLAIM s g e 0 1-1 JUSTID
    1) "1-1"
    > XCLAIM s g e 0 1-1
    1) 1) "1-1"
       2) 1) "a"
          2) "1"
    > XPENDING s g - 1-1 1 nobody
    (empty array)
    > XCLAIM s g e 9000000000000000 1-1
    (empty array)
    > XCLAIM s g e 0 4-1
    (empty array)
    > XCLAIM s g e 0 4-1 FORCE JUSTID
    1) "4-1"
    > XCLAIM s g e 0 9-9 FORCE JUSTID
    (empty array)
    > XCLAIM s g e -5 4-1 JUSTID
    1) "4-1"
    > XCLAIM s g e 0 1-1 2-1 IDLE 0 TIME 5 RETRYCOUNT 3 FORCE JUSTID LASTID 2-2
    1) "1-1"
    2) "2-1"
    > XCLAIM s g e 0 1-1 IDLE x
    (error) ERR Invalid IDLE option argument for XCLAIM
    > XCLAIM s g e 0 1-1 IDLE
    (error) ERR Unrecognized XCLAIM option 'IDLE'
    > XCLAIM s g e 0 1-1 TIME x
    (error) ERR Invalid TIME option argument for XCLAIM
    > XCLAIM s g e 0 1-1 RETRYCOUNT x
    (error) ERR Invalid RETRYCOUNT option argument for XCLAIM
    > XCLAIM s g e 0 1-1 RETRYCOUNT -1 JUSTID
    1) "1-1"
    > XCLAIM s g e 0 1-1 LASTID x
    (error) ERR Invalid stream ID specified as stream command argument
    > XCLAIM s g e 0 1-1 FOO
    (error) ERR Unrecognized XCLAIM option 'FOO'
    > XCLAIM s g e x 1-1
    (error) ERR Invalid min-idle-time argument for XCLAIM
    > XCLAIM s g e 0 x
    (error) ERR Unrecognized XCLAIM option 'x'
    > XCLAIM s g e 0
    (error) ERR wrong number of arguments for 'xclaim' command
    > XCLAIM s none e 0 1-1
    (error) NOGROUP No such key 's' or consumer group 'none'
    > XCLAIM none g e 0 1-1
    (error) NOGROUP No such key 'none' or consumer group 'g'
    > XCLAIM text g e 0 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XADD s 5-1 a 5
    "5-1"
    > XCLAIM s g e 0 5-1 FORCE LASTID 5-1 JUSTID
    1) "5-1"
    > XDEL s 5-1
    (integer) 1
    > XCLAIM s g e 0 5-1
    (empty array)
    > XPENDING s g 5-1 5-1 1
    (empty array)
    # redis.io/commands/xautoclaim
    > XAUTOCLAIM s g f 0 - COUNT 2 JUSTID
    1) "3-1"
    2) 1) "1-1"
       2) "2-1"
    3) (empty array)
    > XAUTOCLAIM s g f 0 (2-1 COUNT 1
    1) "4-1"
    2) 1) 1) "3-1"
          2) 1) "a"
             2) "3"
    3) (empty array)
    > XAUTOCLAIM s g f 9000000000000000 0
    1) "0-0"
    2) (empty array)
    3) (empty array)
    > XDEL s 2-1
    (integer) 1
    > XAUTOCLAIM s g f 0 0 JUSTID
    1) "0-0"
    2) 1) "1-1"
       2) "3-1"
       3) "4-1"
    3) 1) "2-1"
    > XAUTOCLAIM s g f 0 +
    1) "0-0"
    2) (empty array)
    3) (empty array)
    > XAUTOCLAIM s g f 0 0 COUNT 0
    (error) ERR COUNT must be > 0
    > XAUTOCLAIM s g f 0 0 COUNT -1
    (error) ERR COUNT must be > 0
    > XAUTOCLAIM s g f 0 0 COUNT x
    (error) ERR COUNT must be > 0
    > XAUTOCLAIM s g f 0 0 COUNT
    (error) ERR syntax error
    > XAUTOCLAIM s g f 0 0 FOO
    (error) ERR syntax error
    > XAUTOCLAIM s g f x 0
    (error) ERR Invalid min-idle-time argument for XAUTOCLAIM
    > XAUTOCLAIM s g f 0 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XAUTOCLAIM s g f 0 (18446744073709551615-18446744073709551615
    (error) ERR invalid start ID for the interval
    > XAUTOCLAIM s g f 0
    (error) ERR wrong number of arguments for 'xautoclaim' command
    > XAUTOCLAIM s none f 0 0
    (error) NOGROUP No such key 's' or consumer group 'none'
    > XAUTOCLAIM none g f 0 0
    (error) NOGROUP No such key 'none' or consumer group 'g'
    > XAUTOCLAIM text g f 0 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
"#;
