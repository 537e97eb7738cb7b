//! Snapshots whose bytes were changed, under a checksum that is right again: they are refused, or
//! what they hold can be read, changed and saved as any other data (H50 to H52).
//!
//! `APUS_MUTATIONS=100000` asks for so many, of a fresh seed.

use std::process;

use base::crc::crc64;
use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::Command;
use tests::environment::binary;
use tests::generator::{Generator, prologue, shared};
use tests::render::text;
use tests::{Client, Server};

/// Changed snapshots.
const MUTATIONS: usize = 150;
/// Snapshots that they are made of.
const ORIGINALS: usize = 5;
/// Random requests that fill a server before it is saved.
const FILLED_BY: usize = 400;
/// Random requests on what was loaded.
const REQUESTS: usize = 60;

/// What a snapshot ends with: its checksum.
const SEAL: usize = 8;
/// The bytes that a file begins with, and is known by.
const HEAD: usize = 9;

/// H51, H52: what is loaded from a changed file can be used and saved.
#[test]
fn a_changed_snapshot_is_refused_or_holds_sound_values() {
    let (mutations, seed) = match std::env::var("APUS_MUTATIONS") {
        Ok(number) => (number.parse().expect("a number"), Random::from_entropy().next_u64()),
        Err(_) => (MUTATIONS, 1),
    };
    println!("seed {seed}");
    let server = Server::start(&["--save", "", "--enable-debug-command", "yes"]);
    let declared = shared(&mut server.client(), &mut server.client());
    server.client().call(&["SET", "p", "1"]);
    let payload = server.client().call(&["DUMP", "p"]);
    let payloads = [payload.as_bytes().expect("it is there").to_vec()];
    let mut generator = Generator::new(seed, &declared, &payloads);
    let mut random = Random::from_seed(seed);
    let file = server.folder().join("dump.rdb");
    let mut loaded = 0;
    for number in 0..mutations {
        let mut client = server.client();
        if number % mutations.div_ceil(ORIGINALS) == 0 {
            client.call(&["FLUSHALL"]);
            client.pipeline(&prologue(number, true));
            client.pipeline(&draw(&mut generator, FILLED_BY));
            assert_eq!(client.call(&["SAVE"]), Value::Simple(b"OK".to_vec()));
            std::fs::rename(&file, server.folder().join("original")).unwrap();
        }
        let original = std::fs::read(server.folder().join("original")).unwrap();
        let (changed, told) = change(original, &mut random);
        std::fs::write(&file, changed).unwrap();
        if client.call(&["DEBUG", "RELOAD", "NOSAVE"]) != Value::Simple(b"OK".to_vec()) {
            continue;
        }
        loaded += 1;
        let commands = draw(&mut generator, REQUESTS);
        let is_alive = use_it(&mut client, &commands);
        let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
        assert!(is_alive, "seed {seed}, number {number}, {told}\n{}", lines.join("\n"));
    }
    println!("{loaded} of {mutations} were loaded");
    assert!(loaded > 0 && loaded < mutations, "{loaded} of {mutations} were loaded");
}

/// H14: paths that no system takes, on the command line and in a manifest, are told as such.
#[test]
fn h14_paths_that_are_too_long() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = folder.path().join("a.manifest");
    for length in [255, 256, 1024, 4095, 4096, 65_536] {
        let long = "x".repeat(length);
        std::fs::write(&manifest, format!("file {long} seq 1 type b\n")).expect("a file");
        let of_manifest = manifest.to_str().expect("a simple path");
        for arguments in [["rdb", &long], ["aof", &long], ["aof", of_manifest]] {
            let mut check = process::Command::new(binary());
            let output = check.arg("check").args(arguments).output().expect("it can be run");
            assert_eq!(output.status.code(), Some(1), "{length}: {output:?}");
            let told = [output.stdout, output.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            assert!(!told.is_empty() && !told.contains("panicked"), "{length}: {told}");
        }
    }
}

fn draw(generator: &mut Generator, count: usize) -> Vec<Command> {
    (0..count).map(|_| generator.draw().step.command).collect()
}

/// Changes some bytes between the head and the seal, and seals it again.
fn change(mut bytes: Vec<u8>, random: &mut Random) -> (Vec<u8>, String) {
    let end = bytes.len() - SEAL;
    let mut told = String::new();
    for _ in 0..=random.below(3) {
        let at = HEAD + random.below((end - HEAD) as u64) as usize;
        let old = bytes[at];
        bytes[at] = match random.below(4) {
            0 => old ^ 1 << random.below(8),
            1 => [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6) as usize],
            2 => old.wrapping_add(1),
            _ => random.next_u64() as u8,
        };
        told += &format!("byte {at}: {old} is {}; ", bytes[at]);
    }
    let seal = crc64(0, &bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&seal);
    (bytes, told)
}

/// Has commands run on what was loaded, and all of it looked at and saved; whether the server is
/// whole after it.
fn use_it(client: &mut Client, commands: &[Command]) -> bool {
    client.pipeline(commands);
    let digest = text(&client.call(&["DEBUG", "DIGEST"]));
    let reloaded = client.call(&["DEBUG", "RELOAD"]);
    let panics = text(&client.call(&["INFO", "everything"]));
    digest.len() == 40
        && reloaded == Value::Simple(b"OK".to_vec())
        && panics.lines().all(|line| !line.starts_with("panics:") || line == "panics:0")
}
