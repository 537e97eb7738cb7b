//! XADD and XTRIM: which IDs there are, and how streams are trimmed.

pub(crate) const SCRIPT: &str = r#"
    # redis.io/commands/xadd: IDs
    > XADD s NOMKSTREAM 1-1 a b
    (nil)
    > XADD s 0-0 a b
    (error) ERR The ID specified in XADD must be greater than 0-0
    > XADD s 0 a b
    (error) ERR The ID specified in XADD must be greater than 0-0
    > XADD s 0-* a b
    "0-1"
    > XADD s 5 a b
    "5-0"
    > XADD s 5-* a b
    "5-1"
    > XADD s 5-1 a b
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    > XADD s 4-* a b
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    > XADD s nomkstream 5-18446744073709551615 a b
    "5-18446744073709551615"
    > XADD s 5-* a b
    (error) ERR The ID specified in XADD is equal or smaller than the target stream top item
    > XADD s x a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s 6-x a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s -1-1 a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s 6-1-1 a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s 6-1 a
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s 6-1 a b c
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s 6-1
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s NOMKSTREAM MAXLEN 5
    (error) ERR wrong number of arguments for 'xadd' command
    # redis.io/commands/xadd: trimming
    > XADD s MAXLEN = 2 6-1 a b c d
    "6-1"
    > XRANGE s - +
    1) 1) "5-18446744073709551615"
       2) 1) "a"
          2) "b"
    2) 1) "6-1"
       2) 1) "a"
          2) "b"
          3) "c"
          4) "d"
    > XADD s MAXLEN 0 7-1 a b
    "7-1"
    > XLEN s
    (integer) 0
    > XADD s 8-1 a b
    "8-1"
    > XADD s 9-1 a b
    "9-1"
    > XADD s MINID = 9 10-1 a b
    "10-1"
    > XRANGE s - +
    1) 1) "9-1"
       2) 1) "a"
          2) "b"
    2) 1) "10-1"
       2) 1) "a"
          2) "b"
    > XADD s MINID 10-1 11-1 a b
    "11-1"
    > XLEN s
    (integer) 2
    > XADD s MAXLEN ~ 0 LIMIT 0 12-1 a b
    "12-1"
    > XLEN s
    (integer) 0
    > XADD s MINID ~ 13 LIMIT 10 13-1 a b
    "13-1"
    > XADD s MAXLEN x 99-1 a b
    (error) ERR value is not an integer or out of range
    > XADD s MAXLEN -1 99-1 a b
    (error) ERR The MAXLEN argument must be >= 0.
    > XADD s MAXLEN ~ -1 99-1 a b
    (error) ERR The MAXLEN argument must be >= 0.
    > XADD s MINID x 99-1 a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s MAXLEN 5 MINID 1 99-1 a b
    (error) ERR syntax error, MAXLEN and MINID options at the same time are not compatible
    > XADD s MAXLEN 5 MAXLEN 1 99-1 a b
    (error) ERR syntax error, MAXLEN and MINID options at the same time are not compatible
    > XADD s MAXLEN 5 LIMIT 5 99-1 a b
    (error) ERR syntax error, LIMIT cannot be used without the special ~ option
    > XADD s MAXLEN = 5 LIMIT 5 99-1 a b
    (error) ERR syntax error, LIMIT cannot be used without the special ~ option
    > XADD s LIMIT 5 99-1 a b
    (error) ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
    > XADD s MAXLEN ~ 5 LIMIT -1 99-1 a b
    (error) ERR The LIMIT argument must be >= 0.
    > XADD s MAXLEN ~ 5 LIMIT x 99-1 a b
    (error) ERR value is not an integer or out of range
    > XADD s KEEPREF 14-1 a b
    "14-1"
    > XADD s DELREF 15-1 a b
    "15-1"
    > XADD s ACKED 16-1 a b
    "16-1"
    > XADD s KEEPREF DELREF MAXLEN 5 99-1 a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s 18446744073709551615-18446744073709551614 a b
    "18446744073709551615-18446744073709551614"
    > XADD s 18446744073709551615-* a b
    "18446744073709551615-18446744073709551615"
    > XADD s * a b
    (error) ERR The stream has exhausted the last possible ID, unable to add more items
    > XADD s 18446744073709551615-* a b
    (error) ERR The stream has exhausted the last possible ID, unable to add more items
    > SET text x
    OK
    > XADD text * a b
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XADD text NOMKSTREAM * a b
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XADD
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s *
    (error) ERR wrong number of arguments for 'xadd' command
    # redis.io/commands/xtrim
    > XADD t 1-1 a 1
    "1-1"
    > XADD t 2-1 a 2
    "2-1"
    > XADD t 3-1 a 3
    "3-1"
    > XADD t 4-1 a 4
    "4-1"
    > XTRIM t MAXLEN 4
    (integer) 0
    > XTRIM t MAXLEN = 3
    (integer) 1
    > XTRIM t MAXLEN ~ 0 LIMIT 1
    (integer) 0
    > XTRIM t MINID 3-1
    (integer) 1
    > XTRIM t MINID = 4
    (integer) 1
    > XTRIM t MINID ~ 99
    (integer) 1
    > XTRIM t MAXLEN 0
    (integer) 0
    > EXISTS t
    (integer) 1
    > XTRIM none MAXLEN 0
    (integer) 0
    > XTRIM none MINID 0
    (integer) 0
    > XTRIM t
    (error) ERR wrong number of arguments for 'xtrim' command
    > XTRIM t MAXLEN
    (error) ERR wrong number of arguments for 'xtrim' command
    > XTRIM t MAXLEN x
    (error) ERR value is not an integer or out of range
    > XTRIM t MAXLEN -1
    (error) ERR The MAXLEN argument must be >= 0.
    > XTRIM t MINID x
    (error) ERR Invalid stream ID specified as stream command argument
    > XTRIM t FOO 1
    (error) ERR syntax error
    > XTRIM t MAXLEN 1 FOO
    (error) ERR syntax error
    > XTRIM t MAXLEN 1 MINID 1
    (error) ERR syntax error, MAXLEN and MINID options at the same time are not compatible
    > XTRIM t MAXLEN 1 LIMIT 1
    (error) ERR syntax error, LIMIT cannot be used without the special ~ option
    > XTRIM t MAXLEN ~ 1 LIMIT -1
    (error) ERR The LIMIT argument must be >= 0.
    > XTRIM t LIMIT 1
    (error) ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
    > XTRIM t LIMIT 1 KEEPREF
    (error) ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
    > XTRIM t KEEPREF ACKED
    (error) ERR syntax error
    > XTRIM text MAXLEN 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xtrim: what becomes of the references of groups
    > XADD r 1-1 a 1
    "1-1"
    > XADD r 2-1 a 2
    "2-1"
    > XADD r 3-1 a 3
    "3-1"
    > XADD r 4-1 a 4
    "4-1"
    > XADD r 5-1 a 5
    "5-1"
    > XGROUP CREATE r g 0
    OK
    > XGROUP CREATE r h 0
    OK
    > XREADGROUP GROUP g c NOACK COUNT 1 STREAMS none >
    (error) NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
    > XREADGROUP GROUP g c COUNT 4 STREAMS r >
    ...
    > XREADGROUP GROUP h c COUNT 2 STREAMS r >
    ...
    > XTRIM r MAXLEN 4 KEEPREF
    (integer) 1
    > XPENDING r g
    1) (integer) 4
    2) "1-1"
    3) "4-1"
    4) 1) 1) "c"
          2) "4"
    > XTRIM r MAXLEN 3 DELREF
    (integer) 1
    > XPENDING r g
    1) (integer) 3
    2) "1-1"
    3) "4-1"
    4) 1) 1) "c"
          2) "3"
    > XPENDING r h
    1) (integer) 1
    2) "1-1"
    3) "1-1"
    4) 1) 1) "c"
          2) "1"
    > XTRIM r MAXLEN 0 ACKED
    (integer) 0
    > XLEN r
    (integer) 3
    > XACK r g 3-1
    (integer) 1
    > XTRIM r MAXLEN 0 ACKED
    (integer) 0
    > XADD r ACKED MAXLEN 0 6-1 a 6
    "6-1"
    > XADD r DELREF MAXLEN 1 7-1 a 7
    "7-1"
    > XPENDING r g
    1) (integer) 1
    2) "1-1"
    3) "1-1"
    4) 1) 1) "c"
          2) "1"
    > XRANGE r - +
    1) 1) "7-1"
       2) 1) "a"
          2) "7"
"#;
