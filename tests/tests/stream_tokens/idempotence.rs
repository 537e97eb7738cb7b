//! XADD with IDMP and IDMPAUTO, XCFGSET and XIDMPRECORD of Redis 8.6 and 8.8.

pub(crate) const SCRIPT: &str = r#"
    # redis.io/commands/xadd: IDMP and IDMPAUTO
    > XADD none NOMKSTREAM IDMP p 1 * a b
    (nil)
    > XADD none NOMKSTREAM IDMPAUTO p * a b
    (nil)
    > XADD s IDMP p 1 * a b
    ~ "*-*"
    > XADD s IDMP p 1 * c d
    ~ "*-*"
    > XLEN s
    (integer) 1
    > XADD s IDMP q 1 * a b
    ~ "*-*"
    > XADD s idmp p 2 * a b
    ~ "*-*"
    > XLEN s
    (integer) 3
    > XADD s IDMPAUTO p * x 1 y 2
    ~ "*-*"
    > XADD s IDMPAUTO p * y 2 x 1
    ~ "*-*"
    > XADD s IDMPAUTO p * x 2 y 1
    ~ "*-*"
    > XADD s IDMPAUTO q * x 1 y 2
    ~ "*-*"
    > XLEN s
    (integer) 6
    > XADD s KEEPREF MAXLEN = 4 IDMP p 3 * a b
    ~ "*-*"
    > XADD s NOMKSTREAM IDMP p 3 MAXLEN ~ 4 * a b
    ~ "*-*"
    > XLEN s
    (integer) 4
    > XADD s IDMP p 1 * a b
    ~ "*-*"
    > XLEN s
    (integer) 4
    > XADD s IDMP p 9 1-1 a b
    (error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
    > XADD s IDMP p 9 1-* a b
    (error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
    > XADD s IDMPAUTO p 1-1 a b
    (error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs
    > XADD s IDMP p 9 IDMP p 10 * a b
    (error) ERR IDMP/IDMPAUTO specified multiple times
    > XADD s IDMP p 9 IDMPAUTO p * a b
    (error) ERR IDMP/IDMPAUTO specified multiple times
    > XADD s IDMP "" 9 * a b
    (error) ERR IDMP/IDMPAUTO producer and idempotent IDs must not be empty
    > XADD s IDMP p "" * a b
    (error) ERR IDMP/IDMPAUTO producer and idempotent IDs must not be empty
    > XADD s IDMPAUTO "" * a b
    (error) ERR IDMP/IDMPAUTO producer and idempotent IDs must not be empty
    > XADD s IDMP p * a b
    (error) ERR Invalid stream ID specified as stream command argument
    > XADD s IDMP p 9 *
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s IDMP p 9 * a
    (error) ERR wrong number of arguments for 'xadd' command
    > XADD s IDMP p
    (error) ERR wrong number of arguments for 'xadd' command
    # redis.io/commands/xcfgset
    > XCFGSET s IDMP-MAXSIZE 2
    OK
    > XADD s IDMP p 1 * a b
    ~ "*-*"
    > XADD s IDMP p 2 * a b
    ~ "*-*"
    > XADD s IDMP p 3 * a b
    ~ "*-*"
    > XLEN s
    (integer) 7
    > XADD s IDMP p 2 * a b
    ~ "*-*"
    > XADD s IDMP p 3 * a b
    ~ "*-*"
    > XLEN s
    (integer) 7
    > XADD s IDMP p 1 * a b
    ~ "*-*"
    > XLEN s
    (integer) 8
    > XCFGSET s idmp-duration 300
    OK
    > XADD s IDMP p 1 * a b
    ~ "*-*"
    > XLEN s
    (integer) 9
    > XCFGSET s IDMP-DURATION 600 IDMP-MAXSIZE 500
    OK
    > XCFGSET s IDMP-MAXSIZE 10000 IDMP-DURATION 86400
    OK
    > XCFGSET s IDMP-DURATION 1 IDMP-MAXSIZE 1
    OK
    > XCFGSET s IDMP-DURATION 0
    (error) ERR invalid duration
    > XCFGSET s IDMP-DURATION 86401
    (error) ERR invalid duration
    > XCFGSET s IDMP-DURATION -1
    (error) ERR invalid duration
    > XCFGSET s IDMP-DURATION x
    (error) ERR value is not an integer or out of range
    > XCFGSET s IDMP-DURATION
    (error) ERR syntax error
    > XCFGSET s IDMP-MAXSIZE 0
    (error) ERR invalid maxsize
    > XCFGSET s IDMP-MAXSIZE 10001
    (error) ERR invalid maxsize
    > XCFGSET s IDMP-MAXSIZE -1
    (error) ERR invalid maxsize
    > XCFGSET s IDMP-MAXSIZE x
    (error) ERR value is not an integer or out of range
    > XCFGSET s IDMP-MAXSIZE
    (error) ERR syntax error
    > XCFGSET s
    (error) ERR syntax error
    > XCFGSET s FOO 1
    (error) ERR syntax error
    > XCFGSET s IDMP-MAXSIZE 1 FOO
    (error) ERR syntax error
    > XCFGSET none IDMP-MAXSIZE 1
    (error) ERR no such key
    > XCFGSET none
    (error) ERR syntax error
    > XCFGSET
    (error) ERR wrong number of arguments for 'xcfgset' command
    > SET text x
    OK
    > XCFGSET text IDMP-MAXSIZE 1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XADD text IDMP p 1 * a b
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    # redis.io/commands/xidmprecord
    > XADD t 9999999999999-1 a b
    "9999999999999-1"
    > XADD t 9999999999999-2 a b
    "9999999999999-2"
    > XADD t 9999999999999-3 a b
    "9999999999999-3"
    > XDEL t 9999999999999-3
    (integer) 1
    > XIDMPRECORD t p 1 9999999999999-1
    OK
    > XIDMPRECORD t p 1 9999999999999-1
    OK
    > XIDMPRECORD t p 1 9999999999999-2
    (error) ERR the iid belongs to another entry
    > XIDMPRECORD t q 1 9999999999999-2
    OK
    > XADD t IDMP p 1 * x y
    "9999999999999-1"
    > XADD t IDMP q 1 * x y
    "9999999999999-2"
    > XLEN t
    (integer) 2
    > XIDMPRECORD t p 2 9999999999999-3
    (error) ERR no such entry in the stream
    > XIDMPRECORD t p 2 9-9
    (error) ERR no such entry in the stream
    > XIDMPRECORD t p 2 x
    (error) ERR Invalid stream ID specified as stream command argument
    > XIDMPRECORD t "" 2 9999999999999-1
    (error) ERR pid and iid must not be empty
    > XIDMPRECORD t p "" 9999999999999-1
    (error) ERR pid and iid must not be empty
    > XIDMPRECORD none p 2 1-1
    (error) ERR no such key
    > XIDMPRECORD text p 2 1-1
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XIDMPRECORD t p 2
    (error) ERR wrong number of arguments for 'xidmprecord' command
    > XIDMPRECORD t p 2 1-1 x
    (error) ERR wrong number of arguments for 'xidmprecord' command
"#;
