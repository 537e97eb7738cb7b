//! What commands and options that came late write here every real server that follows has,
//! too; or its link has ended, with a line, where it cannot hold what was written.
//!
//! Invariant: each line is run on an empty world that all of them have, and is no error.

use base::quote::split_arguments;
use proto::value::Value;
use tests::render::render;
use tests::replication::{NodeKind, follow, has_all};
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// What the primary says where a replica cannot hold something.
const UNHOLDABLE: &str = "cannot hold what was written";

/// A primary of ours and a replica of each real server.
struct Group {
    primary: Server,
    replicas: Vec<(Oracle, Server)>,
}

impl Group {
    fn start() -> Self {
        let primary = NodeKind::Apus.start(&["--repl-ping-replica-period", "3600"]);
        let start = |oracle| {
            let replica = NodeKind::Genuine(oracle).start(&[]);
            follow(&replica, primary.port());
            (oracle, replica)
        };
        let replicas = Oracle::ALL.into_iter().map(start).collect();
        Self { primary, replicas }
    }

    /// An empty world that all have.
    fn clear(&self) {
        self.primary.client().call(&["FLUSHALL"]);
        for (oracle, replica) in &self.replicas {
            let (mut ours, mut theirs) = (self.primary.client(), replica.client());
            eventually(&format!("{oracle:?} follows"), || has_all(&mut ours, &mut theirs));
        }
    }

    /// Each replica has what the primary has, or its link has ended for a reason that was told
    /// behind this many bytes of the log.
    fn compare(&self, told: usize, what: &str) {
        let expected = contents(&mut self.primary.client());
        for (oracle, replica) in &self.replicas {
            let (mut ours, mut theirs) = (self.primary.client(), replica.client());
            let name = format!(":{} {UNHOLDABLE}", replica.port());
            eventually(&format!("{what}: {oracle:?} has all or is told of"), || {
                has_all(&mut ours, &mut theirs) || self.primary.log()[told..].contains(&name)
            });
            if self.primary.log()[told..].contains(&name) {
                continue;
            }
            let errors = theirs.figure("unexpected_error_replies");
            assert_eq!(errors, 0, "{what}: {oracle:?}\n{}", replica.log());
            let found = contents(&mut theirs);
            let differs = expected.iter().zip(&found).find(|(ours, theirs)| ours != theirs);
            assert!(
                differs.is_none() && expected.len() == found.len(),
                "{what}: {oracle:?}: {differs:?}"
            );
        }
    }
}

/// What is in the databases that requests are drawn for, as every server tells it.
fn contents(client: &mut Client) -> Vec<String> {
    let mut told = Vec::new();
    for database in ["0", "1"] {
        client.call(&["SELECT", database]);
        let Value::Array(mut keys) = client.call(&["KEYS", "*"]) else { panic!("keys are listed") };
        keys.sort_by_key(render);
        for key in keys {
            let key = key.as_bytes().expect("a key").to_vec();
            let mut ask = |words: &[&[u8]]| client.call(words);
            let kind = render(&ask(&[b"TYPE", &key]));
            let value = match kind.as_str() {
                "string" => vec![ask(&[b"GET", &key])],
                "list" => vec![ask(&[b"LRANGE", &key, b"0", b"-1"])],
                "set" => vec![ask(&[b"SORT_RO", &key, b"ALPHA"])],
                "zset" => scores(ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"])),
                "hash" => vec![sorted_fields(ask(&[b"HGETALL", &key]))],
                "stream" => stream(&key, &mut ask),
                _ => Vec::new(),
            };
            let deadline = ask(&[b"PEXPIRETIME", &key]);
            let value: Vec<String> = value.iter().chain([&deadline]).map(render).collect();
            told.push(format!("{database} {} {kind} {value:?}", key.escape_ascii()));
        }
    }
    client.call(&["SELECT", "0"]);
    told
}

/// Members and scores, whose digits are not the same on all servers.
fn scores(reply: Value) -> Vec<Value> {
    let Value::Array(words) = reply else { return vec![reply] };
    let number = |score: &Value| {
        let digits = String::from_utf8_lossy(score.as_bytes().expect("a score")).into_owned();
        Value::Double(digits.parse().expect("a number"))
    };
    words.chunks(2).flat_map(|pair| [pair[0].clone(), number(&pair[1])]).collect()
}

fn sorted_fields(reply: Value) -> Value {
    let Value::Array(words) = reply else { return reply };
    let mut pairs: Vec<Value> = words.chunks(2).map(|pair| Value::Array(pair.to_vec())).collect();
    pairs.sort_by_key(render);
    Value::Array(pairs)
}

/// A stream's entries, and what each group has pending.
fn stream(key: &[u8], ask: &mut impl FnMut(&[&[u8]]) -> Value) -> Vec<Value> {
    let mut told = vec![ask(&[b"XRANGE", key, b"-", b"+"])];
    let Value::Array(groups) = ask(&[b"XINFO", b"GROUPS", key]) else {
        panic!("groups are listed")
    };
    for group in groups {
        let Value::Array(fields) = group else { panic!("a group has fields") };
        let name = fields[1].as_bytes().expect("its name").to_vec();
        told.push(ask(&[b"XPENDING", key, &name]));
    }
    told
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::Error(_))
}

/// What there is before each of the lines below.
const SCENE: &[&str] = &[
    "FLUSHALL",
    "MSET s hello t world n 5 f 1.5",
    "RPUSH l a b c d e f",
    "SADD set a b c",
    "ZADD z 1 a 2 b 3 c",
    "HSET h f v g w n 1",
    "GEOADD places 1 1 a 2 2 b 30 30 c",
    "XADD x 1-1 a b",
    "XADD x 2-1 a b",
    "XADD x 3-1 a b",
    "XADD x 4-1 a b",
    "XADD x 5-1 a b",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x other 0",
    "XREADGROUP GROUP g c COUNT 5 STREAMS x >",
    "XREADGROUP GROUP other c COUNT 5 STREAMS x >",
    "XACK x g 1-1 2-1 4-1",
    "XACK x other 1-1 2-1 4-1",
];

/// Each is run behind the scene.
const LINES: &[&str] = &[
    "CAD s hello",
    "CAS s hello world",
    "DELEX s IFEQ hello",
    "DELEX s IFNE other",
    "DELIFEQ s hello",
    "SET s v IFEQ hello",
    "SET s v IFNE x",
    "SET s v IFEQ hello GET PX 100000000",
    "MSETEX 2 s 1 t 2 XX EX 10000000",
    "INCREX n BYINT 3 EX 10000000",
    "PREPEND s abc",
    "LMOVEM l o LEFT RIGHT COUNT 2 OBO",
    "LMOVEM l o LEFT LEFT EXACTLY 3 BULK",
    "LMOVEM l l LEFT RIGHT COUNT 10 OBO",
    "LMOVEM l o RIGHT LEFT",
    "BLMOVEM l o RIGHT LEFT 0 COUNT 2 BULK",
    "HSETEX h FIELDS 2 f x new y",
    "HSETEX h FXX KEEPTTL FIELDS 1 f x",
    "HGETDEL h FIELDS 1 f",
    "HEXPIRE h 0 FIELDS 1 f",
    "HEXPIRE h 10000000 FIELDS 1 f",
    "HGETEX h EX 10000000 FIELDS 1 f",
    "BITOP DIFF o s t",
    "BITOP DIFF1 o s t",
    "BITOP ANDOR o s t",
    "BITOP ONE o s t",
    "BITOP DIFF s none none",
    "ZUNIONSTORE o 2 z set AGGREGATE COUNT",
    "ZUNIONSTORE o 2 z set WEIGHTS 0x2 3 AGGREGATE COUNT",
    "ZINTERSTORE o 2 z set AGGREGATE COUNT",
    "ZINTERSTORE z 2 z none AGGREGATE COUNT",
    "GEOSEARCHSTORE o places BYPOLYGON 4 0 0 0 5 5 5 5 0",
    "GEOSEARCHSTORE o places BYPOLYGON 4 0 0 0 5 5 5 5 0 STOREDIST",
    "XDELEX x IDS 2 2-1 3-1",
    "XDELEX x DELREF IDS 2 2-1 3-1",
    "XDELEX x ACKED IDS 2 2-1 3-1",
    "XACKDEL x g IDS 2 3-1 5-1",
    "XACKDEL x g DELREF IDS 2 3-1 5-1",
    "XACKDEL x g ACKED IDS 2 3-1 5-1",
    "XTRIM x MAXLEN 1 KEEPREF",
    "XTRIM x MAXLEN 1 DELREF",
    "XTRIM x MAXLEN 1 ACKED",
    "XTRIM x MINID 5-1 ACKED",
    "XADD x KEEPREF MAXLEN 2 9-9 a b",
    "XADD x DELREF MAXLEN 2 9-9 a b",
    "XADD x ACKED MAXLEN 2 9-9 a b",
    "XADD x ACKED MAXLEN 2 * a b",
    "XADD x IDMP p i * a b",
    "XCFGSET x IDMP-DURATION 10",
    "XNACK x g FAIL IDS 1 3-1",
    "XREADGROUP GROUP g d CLAIM 0 STREAMS x >",
    "SADDEX set 10000000 d",
    "EXPIREMEMBER set a 10000000",
    "EXPIREMEMBER h f 10000000",
    "PEXPIREMEMBERAT h f 4102444800000",
    "FIELDEXPIRE h 10000000 f g",
    "ARSET array 1 v",
    "EVAL \"redis.call('XTRIM', KEYS[1], 'MAXLEN', 1, 'DELREF') \
     return redis.call('BITOP', 'ONE', KEYS[2], KEYS[3])\" 3 x o s",
];

#[test]
fn what_takes_effect_just_so_reaches_every_replica_or_ends_its_link() {
    let group = Group::start();
    let mut client = group.primary.client();
    for line in LINES {
        group.clear();
        let told = group.primary.log().len();
        for words in SCENE.iter().chain([line]) {
            let words = split_arguments(words.as_bytes()).expect("its quotes are even");
            let reply = client.call(&words);
            assert!(!is_error(&reply), "{line}: {reply:?}");
        }
        group.compare(told, line);
    }
}
