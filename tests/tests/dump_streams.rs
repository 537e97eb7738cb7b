//! DUMP and RESTORE of streams between Apus and the real servers, with their groups and what is
//! pending; COPY; and payloads of strangers.

use base::crc::crc64;
use base::random::Random;
use proto::value::Value;
use tests::render::render;
use tests::{Client, Oracle, Server};

/// Streams, each as the requests that make the key `from`.
const SAMPLES: &[&str] = &[
    "XADD from 1-1 a 1",
    "XADD from 1-1 a 1 b x; XADD from 1-2 a 2 b y; XADD from 2-0 c z; XDEL from 1-2",
    "XADD from 1-1 a 1; XDEL from 1-1",
    "XGROUP CREATE from g $ MKSTREAM",
    "XADD from 5-1 a 1; XADD from 6-1 a 1; XGROUP CREATE from g 0; XGROUP CREATE from h 5-1; \
     XREADGROUP GROUP g c COUNT 1 STREAMS from >; XREADGROUP GROUP g d STREAMS from >; \
     XREADGROUP GROUP h c STREAMS from >; XACK from h 6-1; XDEL from 5-1",
    "XADD from 5-1 a 1; XGROUP CREATE from g 0; XREADGROUP GROUP g c STREAMS from >; \
     XCLAIM from g d 0 5-1 TIME 5 RETRYCOUNT 9; XGROUP CREATECONSUMER from g e",
    "XADD from 5-1 a 1; XSETID from 99-9 ENTRIESADDED 77 MAXDELETEDID 7-7",
    "XADD from 18446744073709551615-1 a 1",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[track_caller]
fn make(client: &mut Client, sample: &str) {
    client.call(&["DEL", "from"]);
    for line in sample.split("; ") {
        let reply = client.call(&words(line));
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
    }
}

/// A long stream of several nodes, with gaps and a group.
fn make_long(client: &mut Client, random: &mut Random) {
    client.call(&["DEL", "from"]);
    for number in 1..=random.below(700) + 1 {
        let id = format!("{number}-{}", random.below(3));
        let value = "v".repeat(random.below(200) as usize);
        let field = format!("field{}", random.below(20) / 18);
        client.call(&["XADD", "from", &id, &field, &value]);
        if random.below(5) == 0 {
            client.call(&["XDEL", "from", &id]);
        }
    }
    client.call(&["XGROUP", "CREATE", "from", "g", "0"]);
    for consumer in ["a", "b", "c"] {
        let count = (random.below(40) + 1).to_string();
        let group = ["XREADGROUP", "GROUP", "g", consumer, "COUNT", &count];
        client.call(&[&group[..], &["STREAMS", "from", ">"]].concat());
    }
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

fn is_ok(reply: &Value) -> bool {
    matches!(reply, Value::Simple(text) if text == b"OK")
}

/// All that every server tells of a stream and that does not follow from its clock or its memory.
fn contents(client: &mut Client, key: &str) -> String {
    let full = client.call(&["XINFO", "STREAM", key, "FULL", "COUNT", "0"]);
    let mut told = String::new();
    let has_own_fields = ["radix-tree-keys", "radix-tree-nodes"];
    for pair in elements(&full).chunks(2) {
        let name = String::from_utf8_lossy(pair[0].as_bytes().unwrap_or_default()).into_owned();
        if name == "groups" {
            elements(&pair[1]).iter().for_each(|group| told += &group_of(group));
        } else if !has_own_fields.contains(&&*name)
            && !name.starts_with("i")
            && name != "pids-tracked"
        {
            told += &format!("{name}: {}\n", render(&pair[1]));
        }
    }
    told
}

/// A group without the fields that only some servers have.
fn group_of(group: &Value) -> String {
    let mut told = String::new();
    for pair in elements(group).chunks(2) {
        match pair[0].as_bytes() {
            Some(b"consumers") => {
                for consumer in elements(&pair[1]) {
                    for pair in elements(consumer).chunks(2) {
                        if pair[0].as_bytes() != Some(b"active-time") {
                            told += &format!("{}\n", render(&pair[1]));
                        }
                    }
                }
            }
            Some(b"nacked-count") => {}
            _ => told += &format!("{}\n", render(&pair[1])),
        }
    }
    told
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        other => panic!("an array, not {other:?}"),
    }
}

/// From its server to us, and from us to every server.
fn travel(source: &mut Client, ours: &mut Client, targets: &mut [Client]) {
    let expected = contents(source, "from");
    let reply = restore(ours, "key", &dump(source, "from"));
    assert!(is_ok(&reply), "{reply:?}");
    assert_eq!(contents(ours, "key"), expected);
    assert_eq!(ours.call(&["COPY", "key", "copy", "REPLACE"]), Value::Integer(1));
    assert_eq!(contents(ours, "copy"), expected);
    let payload = dump(ours, "copy");
    for (number, target) in targets.iter_mut().enumerate() {
        let reply = restore(target, "to", &payload);
        if number == 0 && payload[0] == 21 {
            // A consumer that was never active is more than Redis 7.0 can know.
            assert!(matches!(reply, Value::Error(_)), "{reply:?}");
            continue;
        }
        assert!(is_ok(&reply), "{reply:?}");
        assert_eq!(contents(target, "to"), expected);
    }
    assert!(is_ok(&restore(ours, "again", &payload)));
    let digests = ours.call(&["DEBUG", "DIGEST-VALUE", "key", "again"]);
    assert_eq!(elements(&digests)[0], elements(&digests)[1]);
}

#[test]
fn streams_travel_between_all_servers_through_apus() {
    let apus = Server::start(&["--enable-debug-command", "yes"]);
    let mut ours = apus.client();
    let servers = Oracle::ALL.map(|oracle| oracle.start(&["--sanitize-dump-payload", "yes"]));
    let mut targets = servers.each_ref().map(Server::client);
    let mut random = Random::from_seed(31);
    for server in servers.iter().chain([&apus]) {
        let mut source = server.client();
        for sample in SAMPLES {
            make(&mut source, sample);
            travel(&mut source, &mut ours, &mut targets);
        }
        for _ in 0..10 {
            make_long(&mut source, &mut random);
            travel(&mut source, &mut ours, &mut targets);
        }
    }
}

#[test]
fn what_only_newer_servers_know_comes_back_here() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    for line in [
        "XADD from 1-1 f v",
        "XCFGSET from IDMP-DURATION 300 IDMP-MAXSIZE 7",
        "XADD from IDMP p x * f v",
        "XADD from IDMP q x * f v",
        "XADD from IDMP q x * f v",
        "XGROUP CREATE from g 0",
        "XREADGROUP GROUP g c STREAMS from >",
        "XNACK from g FAIL IDS 1 1-1",
    ] {
        let reply = client.call(&words(line));
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
    }
    let payload = dump(&mut client, "from");
    assert!(is_ok(&restore(&mut client, "to", &payload)));
    for request in [&["XINFO", "STREAM"][..], &["XINFO", "GROUPS"], &["XINFO", "CONSUMERS"]] {
        let mut told = ["from", "to"].map(|key| {
            let request = [request, &[key]].concat();
            let request =
                if request[1] == "CONSUMERS" { [&request[..], &["g"]].concat() } else { request };
            render(&client.call(&request))
        });
        if request[1] == "CONSUMERS" {
            // Idle times go on.
            told = told.map(|text| text.lines().take(2).collect());
        }
        assert_eq!(told[0], told[1]);
    }
    let digests = client.call(&["DEBUG", "DIGEST-VALUE", "from", "to"]);
    assert_eq!(elements(&digests)[0], elements(&digests)[1]);
    assert_eq!(payload, dump(&mut client, "to"));
}

/// H51: what changed payloads still restore here is sound: Redis that looks closely takes it from
/// us.
#[test]
fn changed_payloads_leave_sound_streams_or_none() {
    let apus = Server::start(&[]);
    let redis = Oracle::Redis82.start(&["--sanitize-dump-payload", "yes"]);
    let (mut ours, mut theirs) = (apus.client(), redis.client());
    let payloads: Vec<Vec<u8>> = SAMPLES
        .iter()
        .map(|sample| {
            make(&mut theirs, sample);
            dump(&mut theirs, "from")
        })
        .collect();
    let mut random = Random::from_seed(37);
    let (mut restored, mut refused) = (0, 0);
    for _ in 0..4000 {
        let payload = &payloads[random.below(payloads.len() as u64) as usize];
        let mut content = payload[..payload.len() - 10].to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(content.len() as u64) as usize;
            content[at] ^= 1 << random.below(8);
        }
        let mut sealed = [&content[..], &12_u16.to_le_bytes()].concat();
        sealed.extend_from_slice(&crc64(0, &sealed).to_le_bytes());
        ours.call(&["DEL", "key"]);
        if is_ok(&restore(&mut ours, "key", &sealed)) {
            // Whatever the value is, it can be read and told.
            contents(&mut ours, "key");
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
