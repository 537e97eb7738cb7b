//! kill -9 in the midst of writes: with `always` what was acknowledged is there after the next
//! start, whole units only, and nobody was ever shown what the crash undid; with `everysec` what
//! had been handed to the system.
//!
//! `APUS_KILLS=10000` asks for so many kills, of a fresh seed.

use std::path::Path;
use std::time::{Duration, Instant};

use base::random::Random;
use proto::value::Value;
use tests::ledger::{ACCOUNTS, TOTAL, Told, Writer};
use tests::render::text;
use tests::server::eventually;
use tests::witnesses::{Seen, WITNESSES, look_on};
use tests::{Client, Server};

/// How often the server is killed with `always`.
const KILLS: u64 = 200;

/// How often it is killed with `everysec`.
const KILLS_EVERYSEC: u64 = 20;

const WRITERS: usize = 8;

/// A kill in so many also kills the start after it.
const HASTE: u64 = 4;

/// Steps of each writer that `everysec` has to keep, before those that it may lose.
const KEPT: u64 = 20;

fn asked() -> Option<u64> {
    let asked = std::env::var("APUS_KILLS").ok();
    asked.map(|number| number.parse().expect("APUS_KILLS is a number"))
}

/// The numbers of a run: as ever in a test, new ones where more is asked for.
fn random() -> Random {
    let seed = if asked().is_some() { Random::from_entropy().next_u64() } else { 1 };
    println!("seed {seed}");
    Random::from_seed(seed)
}

/// How often it is killed while its log moves.
const KILLS_MOVING: u64 = 12;

fn start(policy: &str) -> Server {
    Server::start(&[
        "--enable-protected-configs",
        "yes",
        "--worker-threads",
        "2",
        "--appendonly",
        "yes",
        "--appendfsync",
        policy,
        "--auto-aof-rewrite-percentage",
        "20",
        "--auto-aof-rewrite-min-size",
        "64kb",
        "--notify-keyspace-events",
        "K$",
        "--enable-debug-command",
        "local",
    ])
}

fn writers() -> Vec<Writer> {
    (0..WRITERS).map(|number| Writer::new(&format!("w{number}"))).collect()
}

/// Starts the server again, now and then after one more kill in the midst of its start.
fn restart(server: &mut Server, random: &mut Random) {
    if random.below(HASTE) == 0 {
        server.restart_hastily();
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        server.kill();
    }
    server.restart();
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let mut random = random();
    let mut server = start("always");
    let mut writers = writers();
    for kill in 0..asked().unwrap_or(KILLS) {
        let (told, seen) = live_and_die(&mut server, &writers, &mut random);
        restart(&mut server, &mut random);
        let mut client = server.client();
        for ((writer, told), seen) in writers.iter_mut().zip(&told).zip(seen) {
            let units = writer.units();
            writer.recover(&mut client, told);
            let (step, since) = (writer.done(), writer.units() - units);
            assert!(step >= seen.step, "kill {kill}: step {} was seen and undone", seen.step);
            assert!(since >= seen.units, "kill {kill}: {} units were told of", seen.units);
        }
        check_sums(&mut client, &writers);
    }
    let steps: u64 = writers.iter().map(Writer::done).sum();
    println!("{steps} steps survived");
    assert!(steps > 0, "the writers wrote");
}

/// One life of the server under writers and witnesses, with what goes on in the background, to its
/// kill. What each writer was told, and what was seen of each.
fn live_and_die(
    server: &mut Server,
    writers: &[Writer],
    random: &mut Random,
) -> (Vec<Told>, Vec<Seen>) {
    let port = server.port();
    let background: &[&str] = match random.below(5) {
        0 => &["BGREWRITEAOF"],
        1 => &["BGSAVE"],
        2 => &["DEBUG", "JUMP-CLOCK", "3600000"],
        3 => &["DEBUG", "JUMP-CLOCK", "-3600000"],
        _ => &["PING"],
    };
    let lifetime = Duration::from_millis(20 + random.below(100));
    std::thread::scope(|scope| {
        let writing: Vec<_> = writers
            .iter()
            .map(|writer| scope.spawn(move || writer.write(port, u64::MAX / 2)))
            .collect();
        let witnesses =
            WITNESSES.map(|witness| scope.spawn(move || look_on(port, writers, witness)));
        std::thread::sleep(lifetime / 2);
        let reply = server.client().call(background);
        std::thread::sleep(lifetime / 2);
        // Before anything is asserted: the writers go on until then.
        server.kill();
        // One may be under way by itself.
        let refused = |text: &[u8]| {
            text.starts_with(b"ERR Background") || text.starts_with(b"ERR Another child process")
        };
        let is_fine = !matches!(&reply, Value::Error(text) if !refused(text));
        assert!(is_fine, "{background:?}: {reply:?}");
        let told = writing.into_iter().map(|thread| thread.join().expect("a writer ends well"));
        let told = told.collect();
        let mut all = vec![Seen::default(); writers.len()];
        for witness in witnesses {
            let seen = witness.join().expect("a witness ends well");
            all.iter_mut().zip(seen).for_each(|(all, seen)| *all = all.and(seen));
        }
        (told, all)
    })
}

/// What the system had taken over is there; what is lost are the last moments, of all alike.
#[test]
fn with_everysec_what_the_system_has_survives_kill_9() {
    let mut random = random();
    let mut server = start("everysec");
    let mut writers = writers();
    let (mut longest, mut most) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..asked().unwrap_or(KILLS_EVERYSEC) {
        let told = write_all(server.port(), &writers, KEPT, || ());
        let mut client = server.client();
        eventually("the system has all of it", || buffered(&mut client) == 0);
        writers.iter_mut().zip(&told).for_each(|(writer, told)| writer.recover(&mut client, told));
        let mut killed = Instant::now();
        let told = write_all(server.port(), &writers, u64::MAX / 2, || {
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            server.kill();
            killed = Instant::now();
        });
        restart(&mut server, &mut random);
        let mut client = server.client();
        for (writer, mut told) in writers.iter_mut().zip(told) {
            let kept = writer.done();
            told.acknowledged = kept;
            writer.recover(&mut client, &told);
            let lost = told.times.get((writer.done() - kept) as usize..).unwrap_or_default();
            if let [first, ..] = *lost {
                longest = longest.max(killed - first);
                most = most.max(lost[lost.len() - 1] - first);
            }
        }
        check_sums(&mut client, &writers);
    }
    println!("what was lost had been acknowledged {longest:?} before at most, within {most:?}");
}

/// `CONFIG SET dir` has the next base put elsewhere, and the log behind it. Until the manifest is
/// there all that was acknowledged is in the old directory, from then on in the new one.
#[test]
fn what_was_acknowledged_survives_kill_9_while_the_log_moves() {
    let mut random = random();
    let mut server = start("always");
    let mut writers = writers();
    let mut moves = 0;
    for kill in 0..asked().unwrap_or(KILLS_MOVING) {
        let elsewhere = server.folder().join("elsewhere").join("appendonlydir");
        let old = server.folder().join("appendonlydir");
        std::fs::create_dir_all(elsewhere.parent().expect("it has one")).expect("it can be made");
        // In every other life the move is over for sure.
        let is_awaited = kill % 2 == 0;
        let lifetime = Duration::from_micros(random.below(60_000));
        let (port, mut client) = (server.port(), server.client());
        let told = write_all(port, &writers, u64::MAX / 2, || {
            let path = elsewhere.parent().and_then(Path::to_str).expect("a simple name");
            client.call(&["CONFIG", "SET", "dir", path]);
            // One may be under way, whose base stays where it was begun.
            eventually("a base is begun", || {
                let reply = client.call(&["BGREWRITEAOF"]);
                !matches!(reply, Value::Error(_))
            });
            if is_awaited {
                eventually("the log has moved", || has_manifest(&elsewhere));
            }
            std::thread::sleep(lifetime);
            server.kill();
        });
        let has_moved = has_manifest(&elsewhere);
        assert!(has_moved || !is_awaited);
        if has_moved {
            moves += 1;
            std::fs::remove_dir_all(&old).expect("it was there");
            std::fs::rename(&elsewhere, &old).expect("both are on one disk");
        }
        std::fs::remove_dir_all(server.folder().join("elsewhere")).expect("it was there");
        server.restart();
        let mut client = server.client();
        writers.iter_mut().zip(&told).for_each(|(writer, told)| writer.recover(&mut client, told));
        check_sums(&mut client, &writers);
    }
    println!("{moves} of the lives ended in the new directory");
}

/// Whether a start finds a log in this directory.
fn has_manifest(directory: &Path) -> bool {
    directory.join("appendonly.aof.manifest").exists()
}

/// Has all write until they sent so many steps each or are stopped.
fn write_all(port: u16, writers: &[Writer], limit: u64, meanwhile: impl FnOnce()) -> Vec<Told> {
    std::thread::scope(|scope| {
        let write = |writer| scope.spawn(move || Writer::write(writer, port, limit));
        let threads: Vec<_> = writers.iter().map(write).collect();
        meanwhile();
        threads.into_iter().map(|thread| thread.join().expect("a writer ends well")).collect()
    })
}

/// Bytes of the log that the system does not have yet.
fn buffered(client: &mut Client) -> u64 {
    let report = text(&client.call(&["INFO", "persistence"]));
    let field = report.lines().find_map(|line| line.strip_prefix("aof_buffer_length:"));
    field.and_then(|number| number.trim().parse().ok()).expect("INFO tells")
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
