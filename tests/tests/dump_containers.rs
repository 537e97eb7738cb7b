//! DUMP and RESTORE of lists, sets, sorted sets and hashes, in every encoding, between Apus and the
//! real servers; and payloads from strangers.

use base::crc::crc64;
use base::random::Random;
use proto::value::Value;
use tests::{Client, Oracle, Server};

/// A value, how it is made, and what its encoding is called here.
struct Sample {
    encoding: &'static str,
    commands: Vec<Vec<Vec<u8>>>,
    /// Whether only a server with deadlines of fields can hold it.
    is_timed: bool,
}

/// Late enough.
const DEADLINE: &str = "4102444800000";

fn sample(encoding: &'static str, command: &str, arguments: Vec<Vec<u8>>) -> Sample {
    let start = [command.as_bytes().to_vec(), b"from".to_vec()];
    let commands = vec![start.into_iter().chain(arguments).collect()];
    Sample { encoding, commands, is_timed: false }
}

fn timed(mut sample: Sample, fields: &[&str]) -> Sample {
    for (index, field) in fields.iter().enumerate() {
        let deadline = DEADLINE.parse::<u64>().expect("a number") + index as u64;
        let deadline = deadline.to_string();
        let words = ["HPEXPIREAT", "from", &deadline, "FIELDS", "1", field];
        sample.commands.push(words.iter().map(|word| word.as_bytes().to_vec()).collect());
    }
    Sample { is_timed: true, ..sample }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn numbered(count: u32, element: impl Fn(u32) -> String) -> Vec<Vec<u8>> {
    (0..count).flat_map(|number| words(&element(number))).collect()
}

/// Every type in every encoding, small and large.
fn samples() -> Vec<Sample> {
    let long = |letter: &str, len: usize| letter.repeat(len).into_bytes();
    vec![
        sample("listpack", "RPUSH", words("a 1 -5000000000 b")),
        sample("listpack", "RPUSH", vec![Vec::new()]),
        sample("listpack", "RPUSH", vec![long("x", 5000), long("y", 3)]),
        sample("quicklist", "RPUSH", vec![long("x", 9000), long("y", 3), long("z", 100_000)]),
        sample("quicklist", "RPUSH", numbered(5000, |number| format!("element:{number} {number}"))),
        sample("intset", "SADD", words("3 -1 70000")),
        sample("intset", "SADD", words("9223372036854775807 -9223372036854775808")),
        sample("listpack", "SADD", words("a 1 b -2")),
        sample("hashtable", "SADD", vec![long("x", 65), b"1".to_vec()]),
        sample("hashtable", "SADD", numbered(2000, |number| number.to_string())),
        sample("hashtable", "SADD", numbered(2000, |number| format!("member:{number}"))),
        sample("listpack", "ZADD", words("1 a 1 b 1.5 c inf d -inf e 0.1 f 1e300 g")),
        sample("skiplist", "ZADD", [words("2 a 3"), vec![long("x", 65)]].concat()),
        sample("skiplist", "ZADD", numbered(2000, |number| format!("{} m:{number}", number % 7))),
        sample("skiplist", "ZADD", numbered(900, |number| format!("{}.25 {number}", number * 3))),
        sample("listpack", "HSET", words("a 1 b x 7 -1")),
        sample("hashtable", "HSET", vec![b"a".to_vec(), long("x", 65), b"b".to_vec(), Vec::new()]),
        sample("hashtable", "HSET", numbered(2000, |number| format!("field:{number} {number}"))),
        sample("hashtable", "HSET", vec![b"a".to_vec(), long("v", 300_000)]),
        timed(sample("listpackex", "HSET", words("a 1 b x c 2")), &["b", "a"]),
        timed(sample("hashtable", "HSET", vec![long("x", 65), b"1".to_vec()]), &[&"x".repeat(65)]),
        timed(
            sample("hashtable", "HSET", numbered(2000, |number| format!("f{number} {number}"))),
            &["f7", "f1999"],
        ),
    ]
}

#[track_caller]
fn items(client: &mut Client, command: &[&str]) -> Vec<Value> {
    match client.call(command) {
        Value::Array(items) => items,
        other => panic!("{command:?}: {other:?}"),
    }
}

/// What a key holds, as a real server tells it.
fn contents(client: &mut Client, key: &str) -> Vec<Vec<Value>> {
    let Value::Simple(name) = client.call(&["TYPE", key]) else { panic!("a simple string") };
    let chunked = |items: Vec<Value>, size| items.chunks(size).map(<[Value]>::to_vec).collect();
    let mut contents: Vec<Vec<Value>> = match name.as_slice() {
        b"list" => return chunked(items(client, &["LRANGE", key, "0", "-1"]), 1),
        b"zset" => {
            let mut elements = items(client, &["ZRANGE", key, "0", "-1", "WITHSCORES"]);
            elements.iter_mut().skip(1).step_by(2).for_each(|score| *score = double(score));
            return chunked(elements, 2);
        }
        b"set" => chunked(items(client, &["SMEMBERS", key]), 1),
        b"hash" => chunked(items(client, &["HGETALL", key]), 2),
        other => panic!("{}", String::from_utf8_lossy(other)),
    };
    if name == b"hash" {
        for field in &mut contents {
            let Value::Bulk(bytes) = &field[0] else { panic!("a bulk string") };
            let command = [b"HPEXPIRETIME", key.as_bytes(), b"FIELDS", b"1", bytes];
            // Redis 7.0 has no such command, and no such deadlines.
            if let Value::Array(deadline) = client.call(&command) {
                field.extend(deadline);
            }
        }
    }
    contents.sort_by_key(|element| format!("{element:?}"));
    contents
}

/// A score as a number: Redis 7.0 writes more digits than the others.
fn double(score: &Value) -> Value {
    let Value::Bulk(text) = score else { panic!("a bulk string: {score:?}") };
    Value::Double(base::number::parse_f64(text).expect("a score"))
}

#[track_caller]
fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    match client.call(&["DUMP", key]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> Value {
    client.call(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"])
}

#[track_caller]
fn make(client: &mut Client, sample: &Sample) {
    client.call(&["DEL", "from"]);
    for command in &sample.commands {
        let reply = client.call(command);
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    }
}

fn is_ok(reply: &Value) -> bool {
    matches!(reply, Value::Simple(text) if text == b"OK")
}

#[test]
fn containers_travel_between_all_servers_through_apus() {
    let apus = Server::start(&[]);
    let mut ours = apus.client();
    let servers = Oracle::ALL.map(|oracle| oracle.start(&["--sanitize-dump-payload", "yes"]));
    for (number, source) in servers.iter().enumerate() {
        let mut theirs = source.client();
        let has_deadlines = number > 0;
        for sample in samples().iter().filter(|sample| has_deadlines || !sample.is_timed) {
            make(&mut theirs, sample);
            let expected = contents(&mut theirs, "from");
            let reply = restore(&mut ours, "key", &dump(&mut theirs, "from"));
            assert!(is_ok(&reply), "{reply:?}: {:?}", sample.commands[0].first());
            let encoding = ours.call(&["OBJECT", "ENCODING", "key"]);
            assert_eq!(encoding, Value::Bulk(sample.encoding.into()), "{:?}", expected.first());
            assert_eq!(ours.call(&["TYPE", "key"]), theirs.call(&["TYPE", "from"]));
            let payload = dump(&mut ours, "key");
            for (number, target) in servers.iter().enumerate() {
                let mut target = target.client();
                let reply = restore(&mut target, "to", &payload);
                if sample.is_timed && number != 1 {
                    let text = b"ERR DUMP payload version or checksum are wrong".to_vec();
                    assert_eq!(reply, Value::Error(text), "no place for deadlines");
                    continue;
                }
                assert!(is_ok(&reply), "{reply:?}: {:?}", expected.first());
                let mut arrived = contents(&mut target, "to");
                let mut expected = expected.clone();
                if !has_deadlines || number == 0 {
                    // Either does not tell deadlines of fields.
                    let is_hash = sample.commands[0][0] == b"HSET";
                    let each = arrived.iter_mut().chain(&mut expected);
                    each.filter(|_| is_hash).for_each(|element| element.truncate(2));
                }
                assert_eq!(arrived, expected);
            }
        }
    }
}

#[test]
fn a_copy_is_told_in_the_same_way() {
    let (apus, redis) = (Server::start(&["--enable-debug-command", "yes"]), Oracle::redis82());
    let (mut ours, mut theirs) = (apus.client(), redis.client());
    for sample in samples() {
        make(&mut theirs, &sample);
        let payload = dump(&mut theirs, "from");
        assert!(is_ok(&restore(&mut ours, "from", &payload)));
        assert_eq!(ours.call(&["COPY", "from", "to", "REPLACE"]), Value::Integer(1));
        for name in ["ENCODING", "REFCOUNT"] {
            let reply = ours.call(&["OBJECT", name, "to"]);
            assert_eq!(reply, ours.call(&["OBJECT", name, "from"]));
        }
        let size = |client: &mut Client, key| match client.call(&["MEMORY", "USAGE", key]) {
            Value::Integer(size) => size,
            other => panic!("{other:?}"),
        };
        assert!(size(&mut ours, "to") as usize > payload.len() / 100, "{:?}", sample.encoding);
        let Value::Simple(line) = ours.call(&["DEBUG", "OBJECT", "to"]) else { panic!("a line") };
        let length = dump(&mut ours, "to").len() - 11;
        let words = format!("encoding:{} serializedlength:{length} ", sample.encoding);
        assert!(String::from_utf8_lossy(&line).contains(&words), "{words}");
        let digests = items(&mut ours, &["DEBUG", "DIGEST-VALUE", "from", "to"]);
        assert_eq!(digests[0], digests[1]);
        let payload = dump(&mut ours, "to");
        assert!(is_ok(&restore(&mut ours, "again", &payload)));
        let again = items(&mut ours, &["DEBUG", "DIGEST-VALUE", "again"]);
        assert_eq!(digests[0], again[0]);
    }
}

/// Elements as they come: integers, short and long texts, some of them equal.
fn element(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0..3 => random.below(300).to_string().into_bytes(),
        3 => (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes(),
        4..7 => (0..random.below(30)).map(|_| random.next_u64() as u8).collect(),
        _ => vec![random.next_u64() as u8; 1 << random.below(15)],
    }
}

fn random_sample(random: &mut Random) -> Sample {
    let command = ["RPUSH", "SADD", "ZADD", "HSET"][random.below(4) as usize];
    let most = 1 << random.below(12);
    let mut arguments = Vec::new();
    for _ in 0..=random.below(most) {
        if command == "ZADD" {
            let score = match random.below(3) {
                0 => (random.below(9) as f64).to_string(),
                1 => f64::from_bits(random.next_u64()).max(-1e300).to_string(),
                _ => (random.below(1000) as f64 / 8.0).to_string(),
            };
            arguments.push(score.into_bytes());
        }
        arguments.push(element(random));
        if command == "HSET" {
            arguments.push(element(random));
        }
    }
    sample("", command, arguments)
}

#[test]
fn random_containers_travel_to_every_server_and_back() {
    let apus = Server::start(&[]);
    let mut ours = apus.client();
    for oracle in Oracle::ALL {
        let server = oracle.start(&["--sanitize-dump-payload", "yes"]);
        let mut theirs = server.client();
        let mut random = Random::from_seed(17);
        for round in 0..150 {
            make(&mut theirs, &random_sample(&mut random));
            let expected = contents(&mut theirs, "from");
            assert!(is_ok(&restore(&mut ours, "key", &dump(&mut theirs, "from"))), "{round}");
            assert!(is_ok(&restore(&mut theirs, "to", &dump(&mut ours, "key"))), "{round}");
            assert_eq!(contents(&mut theirs, "to"), expected, "{round}");
        }
    }
}

fn sealed(content: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [content, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&crc64(0, &payload).to_le_bytes());
    payload
}

/// H51 and H52 for containers: Redis that looks closely gives the same answer to each of these.
#[test]
fn hostile_containers_are_refused_as_redis_refuses_them() {
    let contents: &[&[u8]] = &[
        b"\x01\0",
        b"\x02\0",
        b"\x04\0",
        b"\x05\0",
        b"\x12\0",
        b"\x02\x02\x01a\x01a",
        b"\x02\x02\xc0\x05\x015",
        b"\x04\x02\x01a\x01x\x01a\x01y",
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
        b"\x04\x81\0\0\0\0\x01\0\0\0\x01a\x01b",
        b"\x12\x01\x03\x01a",
        b"\x12\x01\x02\x07\x07\0\0\0\0\0\xff",
        b"\x12\x01\x02\x09\x09\0\0\0\x01\0\x81aX",
        b"\x10\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
        b"\x10\x10\x10\0\0\0\x04\0\x81a\x02\x01\x01\x81a\x02\x01\x01\xff",
        b"\x0b\x0a\x02\0\0\0\x02\0\0\0\x05\0",
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\x05\0",
        b"\x0d\x0e\x0e\0\0\0\x0a\0\0\0\x01\0\0\x01a\xff",
        b"\x09\x0b\x02\x01a\x01\0x\x01a\x01\0y\xff",
    ];
    let apus = Server::start(&[]);
    let redis = Oracle::Redis82.start(&["--sanitize-dump-payload", "yes"]);
    for mut client in [apus.client(), redis.client()] {
        for content in contents {
            let reply = restore(&mut client, "key", &sealed(content, 10));
            let expected = Value::Error(b"ERR Bad data format".to_vec());
            assert_eq!(reply, expected, "{content:02x?}");
        }
        assert_eq!(client.call(&["EXISTS", "key"]), Value::Integer(0));
    }
}

/// What changed payloads still restore here is sound: Redis that looks closely takes it from us.
#[test]
fn changed_payloads_leave_sound_values_or_none() {
    let apus = Server::start(&[]);
    let redis = Oracle::Redis82.start(&["--sanitize-dump-payload", "yes"]);
    let (mut ours, mut theirs) = (apus.client(), redis.client());
    let mut random = Random::from_seed(23);
    let mut payloads = Vec::new();
    for sample in samples() {
        make(&mut theirs, &sample);
        payloads.push(dump(&mut theirs, "from"));
    }
    payloads.retain(|payload| payload.len() < 500);
    let (mut restored, mut refused) = (0, 0);
    for _ in 0..4000 {
        let payload = &payloads[random.below(payloads.len() as u64) as usize];
        let mut content = payload[..payload.len() - 10].to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(content.len() as u64) as usize;
            content[at] ^= 1 << random.below(8);
        }
        ours.call(&["DEL", "key"]);
        if is_ok(&restore(&mut ours, "key", &sealed(&content, 12))) {
            let reply = restore(&mut theirs, "to", &dump(&mut ours, "key"));
            assert!(is_ok(&reply), "{reply:?}: {content:02x?}");
            restored += 1;
        } else {
            assert_eq!(ours.call(&["EXISTS", "key"]), Value::Integer(0), "{content:02x?}");
            refused += 1;
        }
    }
    assert!(restored > 100 && refused > 100, "{restored} restored, {refused} refused");
}
