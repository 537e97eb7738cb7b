//! kill -9 in the midst of writes: what was acknowledged is there after the next start, whole units
//! only, and nobody was ever shown what the crash undid.
//!
//! `APUS_KILLS=10000` asks for so many kills, of a fresh seed.

use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::ledger::{ACCOUNTS, TOTAL, Told, Writer, watch};
use tests::{Client, Server};

/// How often the server is killed.
const KILLS: u64 = 200;

const WRITERS: usize = 8;

/// A kill in so many also kills the start after it.
const HASTE: u64 = 4;

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let asked = std::env::var("APUS_KILLS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_KILLS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { 1 };
    println!("seed {seed}");
    let mut random = Random::from_seed(seed);
    let mut server = Server::start(&[
        "--worker-threads",
        "2",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--auto-aof-rewrite-percentage",
        "20",
        "--auto-aof-rewrite-min-size",
        "64kb",
    ]);
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(&format!("w{number}"))).collect();
    for kill in 0..asked.unwrap_or(KILLS) {
        let (told, seen) = live_and_die(&mut server, &writers, &mut random);
        if random.below(HASTE) == 0 {
            server.restart_hastily();
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            server.kill();
        }
        server.restart();
        let mut client = server.client();
        for ((writer, told), seen) in writers.iter_mut().zip(&told).zip(seen) {
            writer.recover(&mut client, told);
            assert!(writer.done() >= seen, "kill {kill}: step {seen} was seen and undone");
        }
        check_sums(&mut client, &writers);
    }
    let steps: u64 = writers.iter().map(Writer::done).sum();
    println!("{steps} steps survived");
    assert!(steps > 0, "the writers wrote");
}

/// One life of the server under writers and a reader, with what goes on in the background, to its
/// kill. What each writer was told, and the highest number that a reader saw of each.
fn live_and_die(
    server: &mut Server,
    writers: &[Writer],
    random: &mut Random,
) -> (Vec<Told>, Vec<u64>) {
    let port = server.port();
    let background = ["BGREWRITEAOF", "BGSAVE", "PING"][random.below(3) as usize];
    let lifetime = Duration::from_millis(20 + random.below(100));
    std::thread::scope(|scope| {
        let writing: Vec<_> = writers
            .iter()
            .map(|writer| scope.spawn(move || writer.write(port, u64::MAX / 2)))
            .collect();
        let reading = scope.spawn(|| watch(port, writers));
        std::thread::sleep(lifetime / 2);
        let reply = server.client().call(&[background]);
        // One may be under way by itself.
        let refused = |text: &[u8]| text.starts_with(b"ERR Background");
        let is_fine = !matches!(&reply, Value::Error(text) if !refused(text));
        assert!(is_fine, "{background}: {reply:?}");
        std::thread::sleep(lifetime / 2);
        server.kill();
        let told = writing.into_iter().map(|thread| thread.join().expect("a writer ends well"));
        (told.collect(), reading.join().expect("a reader ends well"))
    })
}

/// What all writers change together.
fn check_sums(client: &mut Client, writers: &[Writer]) {
    let units: u64 = writers.iter().map(Writer::units).sum();
    let [total, accounts @ ..] = number_of(client);
    assert_eq!(total, units as i64, "units of all writers");
    assert_eq!(accounts.iter().sum::<i64>(), 0, "accounts {accounts:?}");
}

fn number_of(client: &mut Client) -> [i64; 4] {
    let [first, second, third] = ACCOUNTS;
    let reply = client.call(&["MGET", TOTAL, first, second, third]);
    let Value::Array(values) = reply else { panic!("MGET: {reply:?}") };
    let numbers = values.iter().map(|value| {
        let Some(bytes) = value.as_bytes() else { return 0 };
        str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a number")
    });
    numbers.collect::<Vec<_>>().try_into().expect("four keys have four values")
}
