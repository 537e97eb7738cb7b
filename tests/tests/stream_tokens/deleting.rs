//! XDEL, XDELEX, XACKDEL and XACK.

pub(crate) const SCRIPT: &str = r#"
    # redis.io/commands/xdel
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
    > XADD s 6-1 a 6
    "6-1"
    > XDEL s 1-1 1-1 9
    (integer) 1
    > XDEL none 1-1
    (integer) 0
    > XDEL s x
    (error) ERR Invalid stream ID specified as stream command argument
    > XDEL s 2-1 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XLEN s
    (integer) 5
    > XDEL s
    (error) ERR wrong number of arguments for 'xdel' command
    > SET text x
    OK
    > XDEL text 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xdelex
    > XGROUP CREATE s g 0
    OK
    > XGROUP CREATE s h 0
    OK
    > XREADGROUP GROUP g c STREAMS s >
    ...
    > XDELEX s IDS 1 2-1
    1) (integer) 1
    > XPENDING s g - + 1
    1) 1) "2-1"
       2) "c"
    ~    3) (integer) *
       4) (integer) 1
    > XDELEX s KEEPREF IDS 2 2-1 9-9
    1) (integer) -1
    2) (integer) -1
    > XDELEX s DELREF IDS 1 2-1
    1) (integer) -1
    > XPENDING s g - + 1
    1) 1) "3-1"
       2) "c"
    ~    3) (integer) *
       4) (integer) 1
    > XDELEX s ACKED IDS 1 3-1
    1) (integer) 2
    > XACK s g 3-1
    (integer) 1
    > XDELEX s ACKED IDS 1 3-1
    1) (integer) 2
    > XGROUP SETID s h 3-1
    OK
    > XDELEX s IDS 1 3-1 ACKED
    1) (integer) 1
    > XDELEX s acked ids 1 3-1
    1) (integer) -1
    > XDELEX s IDS 2 4-1 4-1 KEEPREF
    1) (integer) 1
    2) (integer) -1
    > XDELEX none IDS 2 1-1 2-1
    1) (integer) -1
    2) (integer) -1
    > XDELEX none IDS 1 x
    1) (integer) -1
    > XDELEX s IDS 1 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XDELEX s IDS 0 1-1
    (error) ERR Number of IDs must be a positive integer
    > XDELEX s IDS -1 1-1
    (error) ERR Number of IDs must be a positive integer
    > XDELEX s IDS x 1-1
    (error) ERR Number of IDs must be a positive integer
    > XDELEX s IDS 2 1-1
    (error) ERR The `numids` parameter must match the number of arguments
    > XDELEX s IDS 1 1-1 2-1
    (error) ERR syntax error
    > XDELEX s FOO IDS 1 1-1
    (error) ERR syntax error
    > XDELEX s KEEPREF DELREF IDS 1 1-1
    (error) ERR syntax error
    > XDELEX s KEEPREF ACKED 1
    (error) ERR syntax error
    > XDELEX s IDS 1
    (error) ERR wrong number of arguments for 'xdelex' command
    > XDELEX s
    (error) ERR wrong number of arguments for 'xdelex' command
    > XDELEX text IDS 1 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xackdel
    > XGROUP SETID s h 0
    OK
    > XREADGROUP GROUP h c STREAMS s >
    ...
    > XPENDING s h
    1) (integer) 2
    2) "5-1"
    3) "6-1"
    4) 1) 1) "c"
          2) "2"
    > XACKDEL s g ACKED IDS 1 5-1
    1) (integer) 2
    > XACKDEL s g ACKED IDS 1 5-1
    1) (integer) -1
    > XACKDEL s h ACKED IDS 1 5-1
    1) (integer) 1
    > XACKDEL s g DELREF IDS 2 6-1 9-9
    1) (integer) 1
    2) (integer) -1
    > XPENDING s h
    1) (integer) 0
    2) (nil)
    3) (nil)
    4) (nil)
    > XADD s 7-1 a 7
    "7-1"
    > XREADGROUP GROUP g c STREAMS s >
    ...
    > XREADGROUP GROUP h c STREAMS s >
    ...
    > XACKDEL s g IDS 1 7-1
    1) (integer) 1
    > XPENDING s h
    1) (integer) 1
    2) "7-1"
    3) "7-1"
    4) 1) 1) "c"
          2) "1"
    > XACKDEL s h KEEPREF IDS 2 7-1 7-1
    1) (integer) 1
    2) (integer) -1
    > XACKDEL none g IDS 2 1-1 2-1
    1) (integer) -1
    2) (integer) -1
    > XACKDEL s none IDS 2 1-1 2-1
    1) (integer) -1
    2) (integer) -1
    > XACKDEL s g IDS 1 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XACKDEL s g IDS 0 1-1
    (error) ERR Number of IDs must be a positive integer
    > XACKDEL s g IDS 2 1-1
    (error) ERR The `numids` parameter must match the number of arguments
    > XACKDEL s g IDS 1 1-1 2-1
    (error) ERR syntax error
    > XACKDEL s g FOO IDS 1 1-1
    (error) ERR syntax error
    > XACKDEL s g DELREF ACKED IDS 1 1-1
    (error) ERR syntax error
    > XACKDEL s g IDS 1
    (error) ERR wrong number of arguments for 'xackdel' command
    > XACKDEL text g IDS 1 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xack
    > XADD s 8-1 a 8
    "8-1"
    > XREADGROUP GROUP g c STREAMS s >
    ...
    > XACK s g 8-1 8-1 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XACK s g 8-1 8-1 9-9
    (integer) 1
    > XACK none g 1-1
    (integer) 0
    > XACK s none 1-1
    (integer) 0
    > XACK none g x
    (integer) 0
    > XACK s g
    (error) ERR wrong number of arguments for 'xack' command
    > XACK text g 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
"#;
