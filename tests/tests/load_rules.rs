//! The directives that say which files are loaded all the same: of a version that is not known, and
//! with a corrupt end.

use std::ops::Range;

use base::crc::crc64;
use proto::value::Value;
use tests::{Oracle, Server, check};

/// Where the end of the version is, which stands behind REDIS or VALKEY.
const VERSION: Range<usize> = 7..9;
/// What a snapshot ends with: its checksum.
const SEAL: usize = 8;

#[test]
fn a_snapshot_of_an_unknown_version_is_loaded_if_versions_are_not_checked() {
    let arguments = ["--enable-debug-command", "yes", "--save", ""];
    for server in Oracle::Valkey91.beside(&arguments) {
        let mut client = server.client();
        check(&mut client, "> SET a 1\nOK\n> SAVE\nOK\n> SET a 2\nOK\n");
        let path = server.folder().join("dump.rdb");
        let mut bytes = std::fs::read(&path).expect("it was saved");
        bytes[VERSION].copy_from_slice(b"99");
        let end = bytes.len() - SEAL;
        let seal = crc64(0, &bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&seal);
        std::fs::write(&path, bytes).expect("the folder is ours");
        let refused = client.call(&["DEBUG", "RELOAD", "NOSAVE"]);
        assert!(matches!(&refused, Value::Error(_)), "{refused:?}");
        check(
            &mut client,
            "> CONFIG SET rdb-version-check relaxed\nOK\n> DEBUG RELOAD NOSAVE\nOK\n\
             > GET a\n\"1\"\n",
        );
    }
}

#[test]
fn a_corrupt_end_of_the_log_is_cut_off_up_to_a_length() {
    const CORRUPT: &[u8] = b"no command\r\n";
    let own = ["--appendonly", "yes", "--aof-load-truncated", "no"];
    let mut server = Server::start(&own);
    check(&mut server.client(), "> SET a 1\nOK\n> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0\n");
    server.kill();
    let path = server.folder().join("appendonlydir/appendonly.aof.1.incr.aof");
    let sound = std::fs::read(&path).expect("the log is there");
    std::fs::write(&path, [&sound, CORRUPT].concat()).expect("the folder is ours");
    let folder = server.folder().to_str().expect("a temporary folder has a simple name");
    let allow = |length: usize| length.to_string();
    for allowed in ["0", &allow(CORRUPT.len() - 1)] {
        let arguments = [
            "--listen-on-any-port",
            "yes",
            "--port",
            "0",
            "--dir",
            folder,
            "--aof-load-corrupt-tail-max-size",
        ];
        let arguments = [&own[..], &arguments, &[allowed]].concat();
        let (status, log) = Server::refuses(&arguments);
        assert!(!status.success(), "{allowed}: {log}");
        assert!(log.contains("Bad file format"), "{allowed}: {log}");
    }
    let whole = |folder: &std::path::Path| {
        let from = server.folder().join("appendonlydir");
        std::fs::rename(from, folder.join("appendonlydir")).expect("both are of one disk");
    };
    let arguments = ["--aof-load-corrupt-tail-max-size", &allow(CORRUPT.len())];
    let successor = Server::start_prepared(whole, &[&own[..], &arguments].concat());
    check(&mut successor.client(), "> GET a\n\"1\"\n");
    let log = successor.log();
    assert!(log.contains("because aof-load-corrupt-tail-max-size is enabled"), "{log}");
    let path = successor.folder().join("appendonlydir/appendonly.aof.1.incr.aof");
    let mended = std::fs::read(path).expect("the log is there");
    assert!(!mended.windows(CORRUPT.len()).any(|window| window == CORRUPT));
}
