//! What is in a snapshot: files that each real server loads.

use tests::{Oracle, Server, check};

#[test]
fn real_servers_load_all_types_and_libraries() {
    let server = Server::start(&["--save", ""]);
    let script = r##"
        > SET int 12345
        OK
        > SET text "a text that is long enough to be packed, packed, packed, packed"
        OK
        > RPUSH list a b 3
        (integer) 3
        > SADD ints 1 2 3
        (integer) 3
        > SADD set a b c
        (integer) 3
        > HSET hash f v g w
        (integer) 2
        > ZADD zset 1 a 2.5 b
        (integer) 2
        > XADD stream 1-1 f v
        "1-1"
        > SET timed v PXAT 99999999999999
        OK
        > FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function() return 7 end)"
        "lib"
        > SELECT 9
        OK
        > SET elsewhere v
        OK
        > SAVE
        OK
    "##;
    check(&mut server.client(), script);
    let first_bytes = std::fs::read(server.folder().join("dump.rdb")).unwrap()[..9].to_vec();
    assert_eq!(first_bytes, b"REDIS0010", "the lowest version that holds the data");
    for oracle in Oracle::ALL {
        let restored = oracle.start_prepared(server.snapshot(), &[]);
        let mut theirs = restored.client();
        let script = r##"
            > DBSIZE
            (integer) 9
            > MGET int text
            1) "12345"
            2) "a text that is long enough to be packed, packed, packed, packed"
            > LRANGE list 0 -1
            1) "a"
            2) "b"
            3) "3"
            > SCARD ints
            (integer) 3
            > SISMEMBER set c
            (integer) 1
            > HMGET hash f g
            1) "v"
            2) "w"
            > ZSCORE zset b
            "2.5"
            > XLEN stream
            (integer) 1
            > PEXPIRETIME timed
            (integer) 99999999999999
            > FCALL f 0
            (integer) 7
            > SELECT 9
            OK
            > GET elsewhere
            "v"
        "##;
        check(&mut theirs, script);
    }
}

#[test]
fn valkey_loads_fields_with_deadlines_from_a_file_that_is_for_it() {
    let server = Server::start(&["--save", "", "--rdb-write-version", "80"]);
    let mut client = server.client();
    for (key, fields) in [("small", 3), ("large", 700)] {
        let pairs = (0..fields).flat_map(|number| [format!("f{number}"), number.to_string()]);
        let words = ["HSET".to_owned(), key.to_owned()].into_iter().chain(pairs);
        client.call(&words.collect::<Vec<_>>());
        client.call(&["HPEXPIREAT", key, "4102444800999", "FIELDS", "1", "f1"]);
    }
    check(&mut client, "> SAVE\nOK\n");
    let theirs = Oracle::Valkey91.start_prepared(server.snapshot(), &[]);
    for (key, fields) in [("small", 3), ("large", 700)] {
        check(
            &mut theirs.client(),
            &format!(
                "
                > HLEN {key}
                (integer) {fields}
                > HGET {key} f2
                \"2\"
                > HPEXPIRETIME {key} FIELDS 2 f1 f2
                1) (integer) 4102444800999
                2) (integer) -1
                "
            ),
        );
    }
}
