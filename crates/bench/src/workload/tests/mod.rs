//! What must be true of the requests.

mod distribution;

use std::collections::{HashMap, HashSet};

use proptest::prelude::{ProptestConfig, any};

use super::keys;
use super::{ReplyKind, Sent, Stream, Workload};
use crate::options::{Options, Request};

fn options(words: &[&str]) -> Options {
    match Options::parse(&words.iter().copied().map(String::from).collect::<Vec<_>>()) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn workload(line: &str) -> Workload {
    Workload::new(&options(&line.split_whitespace().collect::<Vec<_>>()))
}

/// A request as words. What is left over, or any length that is not true, is a failure.
fn words(bytes: &[u8]) -> Vec<Vec<u8>> {
    fn number(bytes: &[u8], sigil: u8) -> (usize, &[u8]) {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line");
        assert_eq!(bytes[0], sigil);
        let digits = std::str::from_utf8(&bytes[1..end]).expect("digits");
        (digits.parse().expect("a number"), &bytes[end + 2..])
    }
    let (count, mut rest) = number(bytes, b'*');
    let mut words = Vec::new();
    for _ in 0..count {
        let (len, word) = number(rest, b'$');
        assert_eq!(&word[len..len + 2], b"\r\n");
        words.push(word[..len].to_vec());
        rest = &word[len + 2..];
    }
    assert_eq!(rest, b"");
    words
}

fn next(stream: &mut Stream) -> Option<(Sent, Vec<Vec<u8>>)> {
    // What is in the buffer already must stay.
    let mut out = b"before".to_vec();
    let sent = stream.next(&mut out)?;
    assert!(out.starts_with(b"before"));
    Some((sent, words(&out[6..])))
}

fn shown(words: &[Vec<u8>]) -> String {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

/// The first requests of the first connection.
fn lines(workload: &Workload, count: usize) -> Vec<String> {
    let mut stream = workload.stream(0, 0);
    (0..count).map_while(|_| next(&mut stream)).map(|(_, words)| shown(&words)).collect()
}

fn keys_of(stream: &mut Stream, count: usize) -> Vec<u64> {
    (0..count).map_while(|_| next(stream)).map(|(sent, _)| sent.key).collect()
}

#[test]
fn requests_are_these_bytes() {
    let table: &[(&str, &str)] = &[
        (
            "--ratio 1:0 -d 3 --key-pattern S:S --key-minimum 9",
            "*3\r\n$3\r\nSET\r\n$9\r\nmemtier-9\r\n$3\r\nxxx\r\n\
             *3\r\n$3\r\nSET\r\n$10\r\nmemtier-10\r\n$3\r\nxxx\r\n",
        ),
        (
            "--ratio 0:1 --key-pattern S:S --key-prefix k --key-minimum 99",
            "*2\r\n$3\r\nGET\r\n$3\r\nk99\r\n*2\r\n$3\r\nGET\r\n$4\r\nk100\r\n",
        ),
        (
            "--ratio 1:1 -d 2 --key-pattern S:S --expiry-range 20-20",
            "*4\r\n$5\r\nSETEX\r\n$9\r\nmemtier-0\r\n$2\r\n20\r\n$2\r\nxx\r\n\
             *2\r\n$3\r\nGET\r\n$9\r\nmemtier-0\r\n",
        ),
        (
            "--ratio 1:1 -d 2 --key-pattern S:S --data-offset 7",
            "*4\r\n$8\r\nSETRANGE\r\n$9\r\nmemtier-0\r\n$1\r\n7\r\n$2\r\nxx\r\n\
             *4\r\n$8\r\nGETRANGE\r\n$9\r\nmemtier-0\r\n$1\r\n7\r\n$1\r\n8\r\n",
        ),
        (
            "--ratio 0:5 --key-pattern S:S --multi-key-get 3",
            "*4\r\n$4\r\nMGET\r\n$9\r\nmemtier-0\r\n$9\r\nmemtier-1\r\n$9\r\nmemtier-2\r\n\
             *3\r\n$4\r\nMGET\r\n$9\r\nmemtier-3\r\n$9\r\nmemtier-4\r\n",
        ),
        (
            "--ratio 0:1 --key-pattern S:S --multi-key-get 1",
            "*2\r\n$4\r\nMGET\r\n$9\r\nmemtier-0\r\n*2\r\n$4\r\nMGET\r\n$9\r\nmemtier-1\r\n",
        ),
    ];
    for (line, expected) in table {
        let mut stream = workload(line).stream(0, 0);
        let mut out = Vec::new();
        stream.next(&mut out).expect("endless");
        stream.next(&mut out).expect("endless");
        assert_eq!(String::from_utf8_lossy(&out), *expected, "{line}");
    }
}

#[test]
fn placeholders_are_filled_in_wherever_they_stand() {
    let line = |command: &str| {
        let options = options(&[
            "--command",
            command,
            "--command-key-pattern=S",
            "-d",
            "3",
            "--key-prefix=k",
        ]);
        lines(&Workload::new(&options), 2).join("|")
    };
    for (command, expected) in [
        ("PING", "PING|PING"),
        ("get __key__", "get k0|get k1"),
        ("SET __key__ __data__ EX 20", "SET k0 xxx EX 20|SET k1 xxx EX 20"),
        (
            "HSET {T:__key__}:h f-__data__ <__data__>",
            "HSET {T:k0}:h f-xxx <xxx>|HSET {T:k1}:h f-xxx <xxx>",
        ),
        ("SET __data__ __data__ __key__ ok", "SET xxx xxx k0 ok|SET xxx xxx k1 ok"),
        ("MSET __key__a 1 __key__b __key____data__", "MSET k0a 1 k0b k0xxx|MSET k1a 1 k1b k1xxx"),
        (
            "ECHO \"a b\" \"\" __value__ __key_",
            "ECHO a b  __value__ __key_|ECHO a b  __value__ __key_",
        ),
    ] {
        assert_eq!(line(command), expected);
    }
}

#[test]
fn kinds_take_turns_by_their_ratios() {
    let mut stream = workload("--ratio 2:3").stream(0, 0);
    let turns: Vec<usize> =
        (0..10).filter_map(|_| next(&mut stream)).map(|(sent, _)| sent.command).collect();
    assert_eq!(turns, [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]);
    let commands = options(&[
        "--command=a",
        "--command-ratio=2",
        "--command=b",
        "--command=A __key__",
        "--command-ratio=3",
    ]);
    let workload = Workload::new(&commands);
    assert_eq!(lines(&workload, 7)[..3], ["a", "a", "b"]);
    let mut stream = workload.stream(0, 0);
    let turns: Vec<usize> =
        (0..7).filter_map(|_| next(&mut stream)).map(|(sent, _)| sent.command).collect();
    assert_eq!(turns, [0, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn sections_have_memtiers_names() {
    for line in ["", "--ratio 1:0", "--wait-ratio 1:1"] {
        assert_eq!(workload(line).commands(), ["Sets", "Gets", "Waits"]);
    }
    let commands =
        options(&["--command=HSET a", "--command=get b", "--command=GET c", "--command=ft.search"]);
    assert_eq!(Workload::new(&commands).commands(), ["Hsets", "Gets", "Ft.searchs"]);
}

#[test]
fn replies_are_read_as_what_they_are() {
    for (words, reply) in [
        (["--ratio=1:0", ""], ReplyKind::Plain),
        (["--ratio=0:1", ""], ReplyKind::Read),
        (["--ratio=0:1", "--multi-key-get=2"], ReplyKind::MultiRead),
        (["--ratio=0:1", "--data-offset=1"], ReplyKind::ReadPart),
        (["--command=getrange __key__ 0 1", ""], ReplyKind::ReadPart),
        (["--command=hget __key__ f", ""], ReplyKind::Read),
        (["--command=MGET __key__ k", ""], ReplyKind::MultiRead),
        (["--command=INCR __key__", ""], ReplyKind::Plain),
    ] {
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let mut stream = Workload::new(&options(&words)).stream(0, 0);
        assert_eq!(next(&mut stream).expect("endless").0.reply, reply, "{words:?}");
    }
}

#[test]
fn waits_come_after_their_sets() {
    let line = "--ratio 1:0 -d 1 --wait-ratio 3:2 --num-slaves 1-2 --wait-timeout 50-150";
    let workload = workload(line);
    let lines = lines(&workload, 1_000);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line.starts_with("WAIT"), index % 5 == 2 || index % 5 == 4, "{index}");
    }
    let waits = lines.iter().filter_map(|line| line.strip_prefix("WAIT "));
    let waits: Vec<(u64, u64)> = waits
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)))
        .collect();
    assert_eq!(waits.len(), 400);
    let replicas: HashSet<u64> = waits.iter().map(|(replicas, _)| *replicas).collect();
    assert_eq!(replicas, HashSet::from([1, 2]));
    assert!(waits.iter().all(|(_, timeout)| (50..=150).contains(timeout)));
    let middle = waits.iter().filter(|(_, timeout)| (75..=125).contains(timeout)).count();
    assert!(middle > 300, "{middle} of 400 within a quarter of the middle");
    let mut stream = workload.stream(0, 0);
    let waits = (0..10).filter_map(|_| next(&mut stream)).filter(|(sent, _)| sent.command == 2);
    assert!(waits.into_iter().all(|(sent, _)| sent.reply == ReplyKind::Plain));
}

#[test]
fn a_sequential_walk_begins_again_after_the_last_key() {
    let workload = workload("--ratio 1:1 --key-pattern S:S --key-minimum 3 --key-maximum 5");
    let keys = keys_of(&mut workload.stream(1, 2), 8);
    assert_eq!(keys, [3, 3, 4, 4, 5, 5, 3, 3], "SETs and GETs walk by themselves");
}

#[test]
fn parallel_walks_cover_the_range_exactly_once() {
    for (threads, clients, least, most) in
        [(1, 1, 0, 9), (2, 3, 5, 30), (4, 7, 1, 28), (3, 5, 0, 999)]
    {
        let workload = workload(&format!(
            "-t {threads} -c {clients} --key-minimum {least} --key-maximum {most} \
             --key-pattern P:P --ratio 1:0 -n allkeys"
        ));
        let mut seen = Vec::new();
        for thread in 0..threads {
            for client in 0..clients {
                let keys = keys_of(&mut workload.stream(thread, client), usize::MAX);
                let (fair, count) = ((most - least + 1) / u64::from(threads * clients), keys.len());
                assert!(count as u64 == fair || count as u64 == fair + 1, "{count}, not {fair}");
                seen.extend(keys);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (least..=most).collect::<Vec<_>>());
    }
}

#[test]
fn all_keys_ends_the_stream_when_each_was_written() {
    let keys = |line: &str| {
        let mut stream = workload(line).stream(0, 0);
        let sent: Vec<Sent> =
            std::iter::from_fn(|| next(&mut stream)).map(|(sent, _)| sent).collect();
        assert_eq!(stream.next(&mut Vec::new()), None, "the end stays");
        let of = |command| sent.iter().filter(move |sent| sent.command == command);
        (of(0).count(), of(0).map(|sent| sent.key).collect::<HashSet<_>>().len(), of(1).count())
    };
    let range = "--key-maximum 9 -n allkeys";
    assert_eq!(keys(&format!("{range} --ratio 1:0 --key-pattern S:S")), (10, 10, 0));
    assert_eq!(keys(&format!("{range} --ratio 3:2 --key-pattern S:S")), (10, 10, 6));
    assert_eq!(keys(&format!("{range} --ratio 1:0 --key-pattern R:R")).0, 10);
    assert_eq!(keys(&format!("{range} --ratio 0:4 --key-pattern R:S")).2, 10);
    // Ten keys by MGETs of 4, 3, and what is left of it.
    assert_eq!(keys(&format!("{range} --ratio 0:7 --multi-key-get 4 --key-pattern R:S")).2, 3);
    let commands = options(&[
        "--command=SET __key__ 1",
        "--command-ratio=3",
        "--command-key-pattern=S",
        "--command=PING",
        "-n",
        "allkeys",
        "--key-maximum=9",
    ]);
    let lines = lines(&Workload::new(&commands), 100);
    assert_eq!(lines.iter().filter(|line| line.starts_with("SET")).count(), 10);
    assert_eq!(lines.last().map(String::as_str), Some("SET memtier-9 1"));
}

#[test]
fn the_same_seed_gives_the_same_stream_and_other_seeds_others() {
    let first = |line: &str, thread, client| {
        let mut stream = workload(line).stream(thread, client);
        let mut out = Vec::new();
        for _ in 0..50 {
            stream.next(&mut out).expect("endless");
        }
        out
    };
    let line = "--random-data --data-size-range 1-99 --expiry-range 1-1000 --ratio 1:1";
    assert_eq!(first(line, 0, 0), first(line, 0, 0));
    assert_eq!(first(line, 0, 0), first(line, 3, 49), "clients share a seed");
    let distinct = format!("{line} --distinct-client-seed");
    assert_eq!(first(&distinct, 1, 2), first(&distinct, 1, 2));
    let streams: HashSet<Vec<u8>> = (0..4)
        .flat_map(|thread| (0..50).map(move |client| (thread, client)))
        .map(|(thread, client)| first(&distinct, thread, client))
        .collect();
    assert_eq!(streams.len(), 200);
    let random = format!("{line} --randomize");
    assert_ne!(first(&random, 0, 0), first(&random, 0, 0), "each run draws a seed");
}

#[test]
fn sizes_follow_what_was_asked_for() {
    let sizes = |line: &str, count: usize| -> Vec<(u64, usize)> {
        let mut stream = workload(&format!("--ratio 1:0 {line}")).stream(0, 0);
        let requests = (0..count).map_while(|_| next(&mut stream));
        requests.map(|(sent, words)| (sent.key, words[2].len())).collect()
    };
    assert!(sizes("-d 256", 10).iter().all(|(_, len)| *len == 256));
    assert!(sizes("-d 256 -R", 10).iter().all(|(_, len)| *len == 256));
    let drawn: HashSet<usize> =
        sizes("--data-size-range 5-8", 200).into_iter().map(|(_, len)| len).collect();
    assert_eq!(drawn, HashSet::from([5, 6, 7, 8]));
    let by_key = "--data-size-range 5-8 --data-size-pattern S --key-pattern S:S \
                  --key-minimum 100 --key-maximum 107";
    let grown: Vec<usize> = sizes(by_key, 8).into_iter().map(|(_, len)| len).collect();
    assert_eq!(grown, [5, 5, 6, 6, 7, 7, 8, 8]);
    let mut counts: HashMap<usize, f64> = HashMap::new();
    for (_, len) in sizes("--data-size-list 10:1,20:3,30:6", 10_000) {
        *counts.entry(len).or_default() += 1.0;
    }
    assert_eq!(counts.len(), 3);
    for (len, expected) in [(10, 1_000.0), (20, 3_000.0), (30, 6_000.0)] {
        let count = counts[&len];
        assert!((count - expected).abs() < 200.0, "{count} of {len} bytes, not {expected}");
    }
}

#[test]
fn times_to_live_span_their_range() {
    let mut stream = workload("--ratio 1:0 --expiry-range 7-9").stream(0, 0);
    let drawn: HashSet<String> =
        (0..100).map_while(|_| next(&mut stream)).map(|(_, words)| shown(&words[2..3])).collect();
    assert_eq!(drawn, ["7", "8", "9"].map(String::from).into());
}

#[test]
fn random_values_are_random_and_others_are_not() {
    let values = |line: &str| {
        let mut stream = workload(line).stream(0, 0);
        let requests = (0..100).map_while(|_| next(&mut stream));
        requests.map(|(_, mut words)| words.remove(2)).collect::<HashSet<_>>()
    };
    assert_eq!(values("--ratio 1:0 -d 9"), HashSet::from([b"xxxxxxxxx".to_vec()]));
    assert!(values("--ratio 1:0 -d 9 -R").len() > 95);
}

#[test]
fn what_was_written_is_what_verification_expects() {
    for line in [
        "-d 32",
        "-d 3",
        "-R -d 100 --randomize",
        "--data-size-range 1-64 -R",
        "--data-size-range 1-64 --data-size-pattern S",
        "--data-size-list 8:1,100:2",
        "--expiry-range 5-9",
    ] {
        let keys = "-t 2 -c 2 --key-minimum 10 --key-maximum 29 --ratio 1:1 --key-pattern R:R";
        let writer = workload(&format!("{line} {keys} --data-verify"));
        let reader = workload(&format!("{line} {keys} --verify-only"));
        let mut stored: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        let mut stream = writer.stream(1, 1);
        for _ in 0..1_000 {
            let (sent, mut words) = next(&mut stream).expect("endless");
            if sent.command == 0 {
                stored.insert(words.remove(1), words.pop().expect("a value"));
            }
        }
        assert_eq!(stored.len(), 20);
        let mut asked = Vec::new();
        for (thread, client) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut stream = reader.verify_stream(thread, client);
            while let Some((sent, words)) = next(&mut stream) {
                assert_eq!((sent.command, sent.reply), (1, ReplyKind::Read));
                assert_eq!((words.len(), words[0].as_slice()), (2, &b"GET"[..]));
                let value = &stored[&words[1]];
                assert!(stream.check(sent.key, value), "{line}: key {}", sent.key);
                let mut wrong = value.clone();
                *wrong.last_mut().expect("no value is empty") ^= 1;
                assert!(!stream.check(sent.key, &wrong), "{line}: a changed last byte");
                wrong.pop();
                assert!(!stream.check(sent.key, &wrong), "{line}: a lost last byte");
                asked.push(sent.key);
            }
        }
        asked.sort_unstable();
        assert_eq!(asked, (10..=29).collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn verified_values_of_different_keys_differ() {
    let workload = workload("--data-verify -d 8 --ratio 1:0 --key-pattern S:S");
    let mut stream = workload.stream(0, 0);
    let values: HashSet<Vec<u8>> = (0..20_000)
        .map_while(|_| next(&mut stream))
        .map(|(_, mut words)| words.remove(2))
        .collect();
    assert_eq!(values.len(), 20_000);
}

#[test]
fn verification_reads_at_the_offset_of_writing() {
    let workload = workload("--data-verify --data-offset 5 -d 10 -c 1 -t 1 --ratio 1:0");
    let (_, words) = next(&mut workload.verify_stream(0, 0)).expect("keys");
    assert_eq!(shown(&words), "GETRANGE memtier-0 5 14");
}

#[test]
fn verification_reads_key_by_key_whatever_the_load_does() {
    let workload = workload("--data-verify --multi-key-get 5");
    let (sent, words) = next(&mut workload.verify_stream(0, 0)).expect("keys");
    assert_eq!((sent.reply, shown(&words)), (ReplyKind::Read, "GET memtier-0".into()));
}

#[test]
fn long_fixed_parts_stay_what_they_are() {
    let options =
        options(&["-d", "5000", "--command=SET __data__:__key__ __data__ __key__ __data__"]);
    let mut stream = Workload::new(&options).stream(0, 0);
    let (sent, words) = next(&mut stream).expect("endless");
    let (key, data) = (format!("memtier-{}", sent.key), "x".repeat(5_000));
    assert_eq!(shown(&words), format!("SET {data}:{key} {data} {key} {data}"));
}

#[test]
fn slots_are_those_of_a_cluster() {
    for (key, slot) in [
        ("foo", 12_182),
        ("bar", 5_061),
        ("hello", 866),
        ("123456789", 12_739),
        ("", 0),
        ("{foo}.a", 12_182),
        ("a{foo}{bar}", 12_182),
        ("a{foo}b}", 12_182),
    ] {
        assert_eq!(keys::slot(key.as_bytes()), slot, "{key}");
    }
    assert_ne!(keys::slot(b"{}foo"), 0, "an empty tag is none");
    assert_ne!(keys::slot(b"{}foo"), keys::slot(b"foo"));
}

#[test]
fn cluster_mode_tells_the_slot_of_the_key() {
    let slot_of = |words: &[&str]| {
        let mut stream = Workload::new(&options(words)).stream(0, 0);
        next(&mut stream).expect("endless").0.slot
    };
    let one = ["--cluster-mode", "--key-minimum=7", "--key-maximum=7"];
    let with = |more: &[&'static str]| slot_of(&[&one, more].concat());
    assert_eq!(with(&["--ratio=1:0"]), keys::slot(b"memtier-7"));
    assert_eq!(with(&["--ratio=0:1", "--key-prefix={foo}"]), 12_182);
    assert_eq!(with(&["--command=GET a__key__b"]), keys::slot(b"amemtier-7b"));
    assert_eq!(with(&["--command=X __key____key__"]), keys::slot(b"memtier-7memtier-7"));
    assert_eq!(with(&["--command=SET foo __data__"]), 12_182);
    assert_eq!(with(&["--command=PING"]), 0);
    assert_eq!(slot_of(&["--ratio=1:0"]), 0, "nobody asked");
    assert_eq!(slot_of(&["--command=GET foo"]), 0, "nobody asked");
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_the_command_requests_are_well_formed(
        pieces in proptest::collection::vec("(__key__|__data__|[a-z{}_]{0,4}| ){1,5}", 1..6),
        random in any::<bool>(),
        verb in "[A-Z]{1,8}",
    ) {
        let command = format!("{verb} {}", pieces.concat());
        let mut line = vec!["--command", &command, "--data-size-range=1-300", "--cluster-mode"];
        if random {
            line.push("-R");
        }
        let expected = command.split_whitespace().count();
        if let Ok(Request::Run(options)) = Options::parse(
            &line.iter().copied().map(String::from).collect::<Vec<_>>(),
        ) {
            let mut stream = Workload::new(&options).stream(0, 0);
            for _ in 0..20 {
                let (sent, words) = next(&mut stream).expect("endless");
                proptest::prop_assert_eq!(words.len(), expected);
                let key = format!("memtier-{}", sent.key).into_bytes();
                let with_key = words.iter().find(|word| {
                    word.windows(key.len()).any(|part| part == key)
                });
                if let Some(word) = with_key {
                    proptest::prop_assert_eq!(sent.slot, keys::slot(word));
                }
            }
        }
    }
}

/// A packet to store or to read, as its parts.
fn packet(bytes: &[u8]) -> (u8, Vec<u8>, Vec<u8>, Vec<u8>) {
    let short = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (key, extras) = (short(2), usize::from(bytes[4]));
    assert_eq!((bytes[0], short(8)), (0x80, 0));
    assert_eq!(bytes.len(), 24 + short(10), "the body is as long as its header says");
    let part = |from: usize, to: usize| bytes[24 + from..24 + to].to_vec();
    let whole = bytes.len() - 24;
    (bytes[1], part(0, extras), part(extras, extras + key), part(extras + key, whole))
}

#[test]
fn memcached_is_asked_in_its_own_words() {
    let next = |line: &str| {
        let mut stream = workload(line).stream(0, 0);
        let mut bytes = Vec::new();
        stream.next(&mut bytes).expect("no end is asked for");
        bytes
    };
    let key = "--key-minimum 7 --key-maximum 7 -d 3";
    let text = |more: &str| {
        let bytes = next(&format!("-P memcache_text {key} {more}"));
        String::from_utf8(bytes).expect("it is text")
    };
    assert_eq!(text("--ratio 1:0"), "set memtier-7 0 0 3\r\nxxx\r\n");
    assert_eq!(text("--ratio 0:1"), "get memtier-7\r\n");
    let expiring = "--ratio 1:0 --expiry-range 9-9";
    assert_eq!(text(expiring), "set memtier-7 0 9 3\r\nxxx\r\n");
    let varied = next("-P memcache_text --key-maximum 0 -R -d 500 --ratio 1:0");
    assert!(varied.starts_with(b"set memtier-0 0 0 500\r\n") && varied.ends_with(b"\r\n"));
    assert_eq!(varied.len(), "set memtier-0 0 0 500\r\n".len() + 502);
    let binary = |more: &str| packet(&next(&format!("-P memcache_binary {key} {more}")));
    let (memtier_7, value) = (b"memtier-7".to_vec(), b"xxx".to_vec());
    assert_eq!(binary("--ratio 0:1"), (0, vec![], memtier_7.clone(), vec![]));
    assert_eq!(binary("--ratio 1:0"), (1, vec![0; 8], memtier_7.clone(), value.clone()));
    assert_eq!(binary(expiring), (1, vec![0, 0, 0, 0, 0, 0, 0, 9], memtier_7, value));
}
