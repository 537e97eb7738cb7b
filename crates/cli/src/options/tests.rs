//! Command lines and what they mean.

use std::ffi::OsString;
use std::time::Duration;

use super::{Debugging, FromStdin, Mode, Options, Output, Request, SnapshotContent, flags};

fn parse(line: &[&str]) -> Result<Request, String> {
    Options::parse(&line.iter().map(OsString::from).collect::<Vec<_>>())
}

fn options(line: &[&str]) -> Options {
    match parse(line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn refusal(line: &[&str]) -> String {
    parse(line).expect_err("it is refused")
}

#[test]
fn flags_end_at_the_command() {
    let read = options(&["-p", "7", "-n", "3", "-r", "-1", "-i", "0.5", "SET", "-p", "--raw"]);
    assert_eq!((read.port, read.database, read.repeat), (7, 3, None));
    assert_eq!(read.interval, Some(Duration::from_millis(500)));
    assert_eq!(read.words, [&b"SET"[..], b"-p", b"--raw"]);
    assert_eq!(read.output, None);
    assert_eq!(options(&["--no-raw", "--csv"]).output, Some(Output::Csv));
    assert_eq!(options(&["-X", "t", "SET", "a", "t"]).from_stdin, FromStdin::Tag("t".into()));
}

#[test]
fn addresses_name_server_user_and_database() {
    let read = options(&["-u", "rediss://us%40er:pass%3aword@[::1]:7000/5?x=1"]);
    assert_eq!((read.host.as_str(), read.port, read.database), ("::1", 7000, 5));
    assert_eq!(read.login.user.as_deref(), Some("us@er"));
    assert_eq!(read.login.password.as_deref(), Some("pass:word"));
    assert!(read.is_encrypted && read.shows_password);
    let read = options(&["-u", "redis://secret@example.org"]);
    assert_eq!((read.host.as_str(), read.port), ("example.org", 6379));
    assert_eq!((read.login.user, read.login.password.as_deref()), (None, Some("secret")));
    assert!(!read.is_encrypted);
    for (address, why) in [
        ("http://x", "Invalid URI scheme"),
        ("redis://x:y", "Invalid port in URI: 'y'"),
        ("redis://%4", "Incomplete URI encoding"),
        ("redis://x/y", "Invalid database: 'y'"),
    ] {
        assert_eq!(refusal(&["-u", address]), why);
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let unknown = "Unrecognized option or bad number of args for: ";
    for (line, why) in [
        (&["--foo"][..], format!("{unknown}'--foo'")),
        (&["--patern", "x"], format!("{unknown}'--patern'; did you mean '--pattern'?")),
        (&["-p"], format!("{unknown}'-p'")),
        (&["-p", "x"], "-p: 'x' is not understood".to_owned()),
        (&["-p", "99999"], "-p: '99999' is not understood".to_owned()),
        (&["-2", "-3"], "Options -2 and -3 are mutually exclusive.".to_owned()),
        (&["--quoted-input", "SET", "\"x"], "Invalid quoted string".to_owned()),
        (&["-X", "t", "GET", "a"], "Using -X option but stdin tag not match.".to_owned()),
    ] {
        assert_eq!(refusal(line), why);
    }
}

#[test]
fn quoted_words_are_the_bytes_they_stand_for() {
    let read = options(&["--quoted-input", "SET", r#""\x00\n""#, "'a b'", "plain\"x"]);
    assert_eq!(read.words, [&b"SET"[..], b"\0\n", b"a b", b"plain\"x"]);
    assert_eq!(
        options(&["--quoted-pattern", r#""\x01*""#]).pattern.as_deref(),
        Some(&b"\x01*"[..])
    );
}

#[test]
fn help_has_its_own_words_and_names_stand_once() {
    assert!(matches!(parse(&["-h"]), Ok(Request::Help)));
    assert!(matches!(parse(&["--tls", "--help"]), Ok(Request::Help)));
    assert!(matches!(parse(&["--version"]), Ok(Request::Version)));
    assert_eq!(options(&["-h", "x"]).host, "x");
    let mut names: Vec<&str> = flags::all().flat_map(|flag| flag.names.iter().copied()).collect();
    let text = super::help();
    assert!(names.iter().all(|name| text.contains(name)));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn modes_are_told_apart_and_the_last_one_counts() {
    let everything = SnapshotContent::Everything;
    for (line, mode) in [
        (&["--bigkeys"][..], Mode::BigKeys),
        (&["--memkeys-samples", "5"], Mode::MemoryKeys),
        (&["--keystats", "--top", "3", "--cursor", "7"], Mode::KeyStats),
        (&["--scan", "--rdb", "-"], Mode::Snapshot("-".into(), everything)),
        (&["--intrinsic-latency", "1.5"], Mode::IntrinsicLatency(Duration::from_millis(1500))),
        (&["--lru-test", "9"], Mode::LruTest(9)),
        (&["--eval", "x", "--ldb"], Mode::Debug("x".into(), Debugging::Forked)),
        (&["--ldb-sync-mode", "--eval", "x"], Mode::Debug("x".into(), Debugging::Synchronous)),
    ] {
        assert_eq!(options(line).mode, mode, "{line:?}");
    }
    let read = options(&["--keystats", "--top", "3", "--cursor", "7"]);
    assert_eq!((read.top, read.cursor, read.memory_samples), (3, 7, None));
    assert_eq!(options(&["--pipe", "--pipe-timeout", "0"]).pipe_timeout, None);
    assert_eq!(refusal(&["--ldb"]), "Options --ldb and --ldb-sync-mode require --eval.");
}
