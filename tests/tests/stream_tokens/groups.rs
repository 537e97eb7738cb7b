//! XGROUP and XINFO with their subcommands.

pub(crate) const SCRIPT: &str = r#"
    # redis.io/commands/xgroup-create
    > XGROUP CREATE s g 0
    ~ (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you ma*
    > XGROUP CREATE s g $ MKSTREAM
    OK
    > XGROUP CREATE s g 0 mkstream
    (error) BUSYGROUP Consumer Group name already exists
    > XGROUP CREATE s h 0 ENTRIESREAD 5
    OK
    > XGROUP CREATE s i 0 ENTRIESREAD -1 MKSTREAM
    OK
    > XGROUP CREATE s j 0 ENTRIESREAD -2
    (error) ERR value for ENTRIESREAD must be positive or -1
    > XGROUP CREATE s j 0 ENTRIESREAD x
    (error) ERR value is not an integer or out of range
    > XGROUP CREATE s j x
    (error) ERR Invalid stream ID specified as stream command argument
    > XGROUP CREATE s j 0 FOO
    (error) ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
    > XGROUP CREATE s j 0 MKSTREAM MKSTREAM MKSTREAM MKSTREAM
    (error) ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
    > XGROUP CREATE s j 0 ENTRIESREAD
    (error) ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
    > XGROUP CREATE s j
    (error) ERR wrong number of arguments for 'xgroup|create' command
    > XGROUP CREATE s j -
    (error) ERR Invalid stream ID specified as stream command argument
    > SET text x
    OK
    > XGROUP CREATE text g 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XGROUP CREATE text g 0 MKSTREAM
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XINFO GROUPS none
    (error) ERR no such key
    > XADD s 1-1 a 1
    "1-1"
    > XADD s 2-1 a 2
    "2-1"
    > XADD s 3-1 a 3
    "3-1"
    > XGROUP CREATE s last $
    OK
    > XGROUP CREATE s read 2-1 ENTRIESREAD 2
    OK
    > XGROUP CREATE s many 2-1 ENTRIESREAD 99
    OK
    > XGROUP CREATE s partly 1-5
    OK
    # redis.io/commands/xgroup-setid
    > XGROUP SETID s g 2-1
    OK
    > XGROUP SETID s g $ ENTRIESREAD 3
    OK
    > XGROUP SETID s g - ENTRIESREAD 0
    OK
    > XGROUP SETID s g + ENTRIESREAD -1
    OK
    > XGROUP SETID s g 2 ENTRIESREAD 1
    OK
    > XGROUP SETID s g x
    (error) ERR Invalid stream ID specified as stream command argument
    > XGROUP SETID s g 0 ENTRIESREAD -2
    (error) ERR value for ENTRIESREAD must be positive or -1
    > XGROUP SETID s g 0 ENTRIESREAD x
    (error) ERR value is not an integer or out of range
    > XGROUP SETID s g 0 FOO
    (error) ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.
    > XGROUP SETID s g 0 MKSTREAM
    (error) ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.
    > XGROUP SETID s none 0
    (error) NOGROUP No such consumer group 'none' for key name 's'
    > XGROUP SETID none g 0
    ~ (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you ma*
    > XGROUP SETID text g 0
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XGROUP SETID s g
    (error) ERR wrong number of arguments for 'xgroup|setid' command
    # redis.io/commands/xgroup-createconsumer and xgroup-delconsumer
    > XGROUP CREATECONSUMER s g c
    (integer) 1
    > XGROUP CREATECONSUMER s g c
    (integer) 0
    > XGROUP CREATECONSUMER s none c
    (error) NOGROUP No such consumer group 'none' for key name 's'
    > XGROUP CREATECONSUMER none g c
    ~ (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you ma*
    > XGROUP CREATECONSUMER text g c
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XGROUP CREATECONSUMER s g
    (error) ERR wrong number of arguments for 'xgroup|createconsumer' command
    > XGROUP DELCONSUMER s g nobody
    (integer) 0
    > XGROUP SETID s g 0
    OK
    > XREADGROUP GROUP g c COUNT 2 STREAMS s >
    ...
    > XGROUP DELCONSUMER s g c
    (integer) 2
    > XPENDING s g
    1) (integer) 0
    2) (nil)
    3) (nil)
    4) (nil)
    > XGROUP DELCONSUMER s none c
    (error) NOGROUP No such consumer group 'none' for key name 's'
    > XGROUP DELCONSUMER none g c
    ~ (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you ma*
    > XGROUP DELCONSUMER text g c
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XGROUP DELCONSUMER s g
    (error) ERR wrong number of arguments for 'xgroup|delconsumer' command
    # redis.io/commands/xgroup-destroy
    > XGROUP DESTROY s g
    (integer) 1
    > XGROUP DESTROY s g
    (integer) 0
    > XGROUP DESTROY none g
    ~ (error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you ma*
    > XGROUP DESTROY text g
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XGROUP DESTROY s
    (error) ERR wrong number of arguments for 'xgroup|destroy' command
    > XGROUP
    (error) ERR wrong number of arguments for 'xgroup' command
    > XGROUP HELP x
    (error) ERR wrong number of arguments for 'xgroup|help' command
    > XGROUP FOO s
    (error) ERR unknown subcommand 'FOO'. Try XGROUP HELP.
    # redis.io/commands/xinfo-stream, xinfo-groups, xinfo-consumers
    > XINFO STREAM none
    (error) ERR no such key
    > XINFO STREAM s FULL COUNT
    (error) ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
    > XINFO STREAM s FULL COUNT x
    (error) ERR value is not an integer or out of range
    > XINFO STREAM s COUNT 1
    (error) ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
    > XINFO STREAM s FULL FOO 1
    (error) ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
    > XINFO STREAM s FULL COUNT 1 x
    (error) ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
    > XINFO STREAM text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XINFO STREAM
    (error) ERR wrong number of arguments for 'xinfo|stream' command
    > XINFO GROUPS s x
    (error) ERR wrong number of arguments for 'xinfo|groups' command
    > XINFO GROUPS text
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XINFO CONSUMERS s none
    (error) NOGROUP No such consumer group 'none' for key name 's'
    > XINFO CONSUMERS none g
    (error) ERR no such key
    > XINFO CONSUMERS text g
    (error) WRONGTYPE Operation against a key holding the wrong kind of value
    > XINFO CONSUMERS s
    (error) ERR wrong number of arguments for 'xinfo|consumers' command
    > XINFO
    (error) ERR wrong number of arguments for 'xinfo' command
    > XINFO HELP x
    (error) ERR wrong number of arguments for 'xinfo|help' command
"#;
