//! XNACK of Redis 8.8; MAXCOUNT, MAXSIZE and CLAIM of XREAD and XREADGROUP.

pub(crate) const SCRIPT: &str = r#"
    > XADD s 1-1 a 1
    "1-1"
    > XADD s 2-1 a 2
    "2-1"
    > XADD s 3-1 a 3
    "3-1"
    > XADD s 4-1 a 4
    "4-1"
    > XADD s 5-1 a 5
    "5-1"
    > XGROUP CREATE s g 0
    OK
    > XREADGROUP GROUP g c COUNT 3 STREAMS s >
    ...
    # redis.io/commands/xnack: what becomes of the counter
    > XNACK s g FAIL IDS 2 1-1 2-1
    (integer) 2
    > XPENDING s g - 2-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 1
    2) 1) "2-1"
       2) ""
       3) (integer) -1
       4) (integer) 1
    > XPENDING s g
    1) (integer) 3
    2) "1-1"
    3) "3-1"
    4) 1) 1) "c"
          2) "1"
    > XPENDING s g - + 10 ""
    (empty array)
    > XNACK s g SILENT IDS 1 1-1
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 0
    > XNACK s g silent ids 1 1-1
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 0
    > XNACK s g FATAL IDS 1 1-1
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 9223372036854775807
    > XNACK s g FAIL IDS 1 1-1 RETRYCOUNT 5
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 5
    > XNACK s g FATAL RETRYCOUNT 6 IDS 1 1-1
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 6
    > XNACK s g SILENT IDS 1 1-1 RETRYCOUNT 0
    (integer) 1
    > XPENDING s g - 1-1 10
    1) 1) "1-1"
       2) ""
       3) (integer) -1
       4) (integer) 0
    # redis.io/commands/xnack: FORCE
    > XNACK s g FAIL IDS 3 4-1 9-9 1-1
    (integer) 1
    > XNACK s g FAIL IDS 2 4-1 9-9 FORCE
    (integer) 1
    > XPENDING s g 4-1 4-1 10
    1) 1) "4-1"
       2) ""
       3) (integer) -1
       4) (integer) 0
    > XNACK s g SILENT FORCE IDS 1 5-1 RETRYCOUNT 3
    (integer) 1
    > XPENDING s g 5-1 5-1 10
    1) 1) "5-1"
       2) ""
       3) (integer) -1
       4) (integer) 3
    > XACK s g 4-1 5-1
    (integer) 2
    > XNACK s g FATAL IDS 1 4-1 FORCE
    (integer) 1
    > XPENDING s g 4-1 4-1 10
    1) 1) "4-1"
       2) ""
       3) (integer) -1
       4) (integer) 9223372036854775807
    > XACK s g 4-1
    (integer) 1
    # redis.io/commands/xnack: who gives back, and who may claim
    > XCLAIM s g d 1000000000 1-1 JUSTID
    1) "1-1"
    > XPENDING s g 1-1 1-1 10
    1) 1) "1-1"
       2) "d"
    ~    3) (integer) *
       4) (integer) 0
    > XNACK s g FAIL IDS 1 1-1
    (integer) 1
    > XAUTOCLAIM s g d 1000000000 0 JUSTID
    1) "0-0"
    2) 1) "1-1"
       2) "2-1"
    3) (empty array)
    > XNACK s g FAIL IDS 1 2-1
    (integer) 1
    > XCLAIM s g d 1000000000 3-1 JUSTID
    (empty array)
    > XNACK s g FAIL IDS 1 2-1
    (integer) 1
    > XACK s g 1-1 2-1 3-1
    (integer) 3
    > XPENDING s g
    1) (integer) 0
    2) (nil)
    3) (nil)
    4) (nil)
    # redis.io/commands/xnack: errors
    > XNACK s g MAYBE IDS 1 1-1
    (error) ERR mode must be SILENT, FAIL, or FATAL
    > XNACK s g FAIL 1 1-1 2-1
    (error) ERR syntax error
    > XNACK s g FAIL IDS 0 1-1
    (error) ERR Number of IDs must be a positive integer
    > XNACK s g FAIL IDS -1 1-1
    (error) ERR Number of IDs must be a positive integer
    > XNACK s g FAIL IDS x 1-1
    (error) ERR Number of IDs must be a positive integer
    > XNACK s g FAIL IDS 2 1-1
    (error) ERR The `numids` parameter must match the number of arguments
    > XNACK s g FAIL IDS 1 1-1 2-1
    (error) ERR syntax error
    > XNACK s g FAIL IDS 1 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XNACK s g FAIL IDS 1 1-1 RETRYCOUNT
    (error) ERR syntax error
    > XNACK s g FAIL IDS 1 1-1 RETRYCOUNT x
    (error) ERR Invalid RETRYCOUNT option argument for XNACK
    > XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1
    (error) ERR Invalid RETRYCOUNT option argument for XNACK
    > XNACK s g FAIL IDS 1 1-1 FOO
    (error) ERR syntax error
    > XNACK s g FAIL RETRYCOUNT 1 FORCE
    (error) ERR syntax error
    > XNACK s none FAIL IDS 1 1-1
    (error) NOGROUP No such key 's' or consumer group 'none'
    > XNACK none g FAIL IDS 1 1-1
    (error) NOGROUP No such key 'none' or consumer group 'g'
    > SET text x
    OK
    > XNACK text g FAIL IDS 1 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XNACK s g FAIL IDS 1
    (error) ERR wrong number of arguments for 'xnack' command
    # redis.io/commands/xread: MAXCOUNT and MAXSIZE
    > XREAD MAXCOUNT 0 STREAMS s 0
    (error) ERR MAXCOUNT must be a positive integer
    > XREAD MAXCOUNT -1 STREAMS s 0
    (error) ERR MAXCOUNT must be a positive integer
    > XREAD MAXCOUNT x STREAMS s 0
    (error) ERR MAXCOUNT must be a positive integer
    > XREAD MAXCOUNT STREAMS s 0
    (error) ERR MAXCOUNT must be a positive integer
    > XREAD MAXSIZE 0 STREAMS s 0
    (error) ERR MAXSIZE must be a positive integer
    > XREAD MAXSIZE -1 STREAMS s 0
    (error) ERR MAXSIZE must be a positive integer
    > XREAD MAXSIZE x STREAMS s 0
    (error) ERR MAXSIZE must be a positive integer
    > XREAD COUNT 2 MAXCOUNT 1 STREAMS s 0
    (error) ERR MAXCOUNT must be greater than or equal to COUNT
    > XREAD MAXCOUNT 1 COUNT 2 STREAMS s 0
    (error) ERR MAXCOUNT must be greater than or equal to COUNT
    > XREAD MAXCOUNT 1 MAXSIZE 1 BLOCK 1 STREAMS s $
    (nil)
    > XREAD CLAIM 0 STREAMS s 0
    (error) ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.
    # redis.io/commands/xreadgroup: MAXCOUNT, MAXSIZE and CLAIM
    > XREADGROUP GROUP g c MAXCOUNT 0 STREAMS s >
    (error) ERR MAXCOUNT must be a positive integer
    > XREADGROUP GROUP g c MAXSIZE 0 STREAMS s >
    (error) ERR MAXSIZE must be a positive integer
    > XREADGROUP GROUP g c COUNT 2 MAXCOUNT 1 STREAMS s >
    (error) ERR MAXCOUNT must be greater than or equal to COUNT
    > XREADGROUP GROUP g c CLAIM -1 STREAMS s >
    (error) ERR min-idle-time must be a positive integer
    > XREADGROUP GROUP g c CLAIM x STREAMS s >
    (error) ERR min-idle-time must be a positive integer
    > XREADGROUP GROUP g c CLAIM STREAMS s >
    (error) ERR min-idle-time must be a positive integer
    > XREADGROUP GROUP none c CLAIM 0 STREAMS s >
    (error) NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option
"#;
