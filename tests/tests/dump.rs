//! DUMP and RESTORE between Apus and the real servers, and payloads from strangers.

use base::crc::crc64;
use base::random::Random;
use proto::value::Value;
use tests::{Client, Oracle, Server, check};

const TEXT: &str = r#"
    > DUMP missing
    (nil)
    > SET a 1
    OK
    > DUMP a
    "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc"
    > RESTORE b 0 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc"
    OK
    > GET b
    "1"
    > RESTORE b 0
    (error) ERR wrong number of arguments for 'restore' command
    > RESTORE b x x
    (error) BUSYKEY Target key name already exists.
    > RESTORE c x x
    (error) ERR value is not an integer or out of range
    > RESTORE c -1 x
    (error) ERR Invalid TTL value, must be >= 0
    > RESTORE c 0 x
    (error) ERR DUMP payload version or checksum are wrong
    > RESTORE c 0 ""
    (error) ERR DUMP payload version or checksum are wrong
    > RESTORE c 0 x foo
    (error) ERR syntax error
    > RESTORE c 0 x IDLETIME
    (error) ERR syntax error
    > RESTORE c 0 x IDLETIME x
    (error) ERR value is not an integer or out of range
    > RESTORE c 0 x IDLETIME -1 foo
    (error) ERR Invalid IDLETIME value, must be >= 0
    > RESTORE c 0 x FREQ 256
    (error) ERR Invalid FREQ value, must be >= 0 and <= 255
    > RESTORE c 0 x FREQ 1 IDLETIME 1
    (error) ERR syntax error
    > RESTORE c 0 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" IDLETIME 50
    OK
    > OBJECT IDLETIME c
    (integer) 50
    > RESTORE c 5000000 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" REPLACE FREQ 9
    OK
    > PTTL c
    ~ (integer) [45]??????
    > RESTORE c 4102444800999 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" ABSTTL REPLACE
    OK
    > PEXPIRETIME c
    (integer) 4102444800999
    > RESTORE c 1 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" REPLACE ABSTTL
    OK
    > EXISTS c
    (integer) 0
    > RESTORE-ASKING c 0 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc"
    OK
    > OBJECT FREQ c
    ~ (error) ERR An LFU maxmemory policy is not selected, access frequency not tracked. *
"#;

const BY_FREQUENCY: &str = r#"
    > RESTORE c 0 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" FREQ 77
    OK
    > OBJECT FREQ c
    (integer) 77
    > RESTORE c 0 "\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc" REPLACE IDLETIME 77
    OK
    > OBJECT FREQ c
    (integer) 5
    > OBJECT IDLETIME c
    ~ (error) ERR An LFU maxmemory policy is selected, idle time not tracked. *
"#;

#[test]
fn restore_sets_the_frequency_under_an_lfu_policy() {
    let policy = ["--maxmemory-policy", "allkeys-lfu"];
    check(&mut Server::start(&policy).client(), BY_FREQUENCY);
    check(&mut Oracle::Redis82.start(&policy).client(), BY_FREQUENCY);
}

#[test]
fn payloads_and_their_errors_are_as_written() {
    let apus = Server::start(&[]);
    check(&mut apus.client(), TEXT);
    apus.client().call(&["FLUSHALL"]);
    check(&mut apus.client3(), TEXT);
}

#[test]
fn redis_writes_the_same() {
    check(&mut Oracle::redis70().client(), TEXT);
}

/// Strings of every encoding and of many lengths.
fn value(random: &mut Random) -> Vec<u8> {
    let length = 1 << random.below(18);
    let length = random.below(length) as usize;
    match random.below(6) {
        0 => (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes(),
        1 => (0..length.min(500)).map(|_| random.next_u64() as u8).collect(),
        2 => {
            let letters = 1 + random.below(4);
            (0..length).map(|_| b'a' + random.below(letters) as u8).collect()
        }
        3 => {
            let piece: Vec<u8> = (0..=random.below(40)).map(|_| random.next_u64() as u8).collect();
            piece.repeat(length / piece.len())
        }
        4 => {
            let mut bytes = vec![0; length];
            for _ in 0..length / 100 {
                bytes[random.below(length as u64) as usize] = random.next_u64() as u8;
            }
            bytes
        }
        _ => (0..random.below(30)).map(|_| b'0' + random.below(10) as u8).collect(),
    }
}

/// Moves a value by DUMP and RESTORE.
#[track_caller]
fn moves(from: &mut Client, to: &mut Client, value: &[u8]) {
    assert_eq!(from.call(&[b"SET", &b"from"[..], value]), Value::Simple(b"OK".to_vec()));
    let Value::Bulk(payload) = from.call(&["DUMP", "from"]) else { panic!("a bulk string") };
    let reply = to.call(&[b"RESTORE", &b"to"[..], b"0", &payload, b"REPLACE"]);
    assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{payload:02x?}");
    assert_eq!(to.call(&["GET", "to"]), Value::Bulk(value.to_vec()), "{payload:02x?}");
}

#[test]
fn values_travel_to_every_server_and_back() {
    let apus = Server::start(&[]);
    let mut ours = apus.client();
    for oracle in Oracle::ALL {
        let server = oracle.start(&[]);
        let mut theirs = server.client();
        let mut random = Random::from_seed(7);
        for _ in 0..300 {
            let value = value(&mut random);
            moves(&mut theirs, &mut ours, &value);
            moves(&mut ours, &mut theirs, &value);
        }
        let big = vec![b'x'; 3_000_000];
        moves(&mut theirs, &mut ours, &big);
        moves(&mut ours, &mut theirs, &big);
    }
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let mut payload = [content, &10_u16.to_le_bytes()].concat();
    payload.extend_from_slice(&crc64(0, &payload).to_le_bytes());
    payload
}

/// H51 and H52, as far as strings go: Redis gives the same answer to each of these.
#[test]
fn hostile_payloads_are_refused_as_redis_refuses_them() {
    let contents: &[&[u8]] = &[
        b"",
        b"\xc8\x03abc",
        b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\0\x81\0\0\x01\0\0\0\0\0",
        b"\0\x82\0\0\0\x03abc",
        b"\0\xc4abc",
        b"\0\xc3\0\x05",
        b"\0\xc3\xc0\x05",
        b"\0\xc3\x03\x03\x20\0\0",
        b"\0\xc3\x06\x14\x01aa\xe0\x0a\0",
        b"\0\xc3\x06\x16\x01aa\xe0\x0a\0",
        b"\0\xc3\x06\x81\0\0\0\x7f\xff\xff\xff\xff\x01aa\xe0\x0a\0",
    ];
    let (apus, redis) = (Server::start(&[]), Oracle::redis82());
    for mut client in [apus.client(), redis.client()] {
        for content in contents {
            let reply = client.call(&[b"RESTORE", &b"k"[..], b"0", &sealed(content)]);
            let expected = Value::Error(b"ERR Bad data format".to_vec());
            assert_eq!(reply, expected, "{content:02x?}");
        }
    }
}

#[test]
fn random_payloads_leave_the_server_whole() {
    let apus = Server::start(&[]);
    let mut client = apus.client();
    let mut random = Random::from_seed(11);
    for _ in 0..5000 {
        let mut content: Vec<u8> = (0..random.below(60)).map(|_| random.next_u64() as u8).collect();
        if random.below(2) == 0 && content.len() > 1 {
            // Most content is refused by its first byte or its second.
            content[0] = 0;
            content[1] = [0xc3, 0x80, 0x81, content[1]][random.below(4) as usize];
        }
        client.call(&[b"RESTORE", &b"k"[..], b"0", &sealed(&content), b"REPLACE"]);
    }
    assert_eq!(client.call(&["PING"]), Value::Simple(b"PONG".to_vec()));
}
