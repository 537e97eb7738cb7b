//! How a Sentinel is called, what keeps it from starting, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use tests::environment::binary;
use tests::sentinel::{SentinelProgram, events_until, watch_lines};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, check};

const APUS: SentinelProgram = SentinelProgram::Apus;

/// The exit code of a program, and all that it said.
fn run(program: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().unwrap();
    (status.code(), [stdout, stderr].map(|it| String::from_utf8(it).unwrap()).concat())
}

#[test]
fn a_sentinel_needs_a_file_that_it_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a-folder"), "").unwrap();
    for program in [binary(), Oracle::Redis70.program()] {
        let (code, said) = run(&program, &["--sentinel"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("Sentinel needs config file on disk to save state. Exiting..."));
        let (code, said) = run(&program, &[&path("absent"), "--sentinel"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("Fatal error, can't open config file"), "{said}");
    }
    let (code, said) = run(&binary(), &["sentinel"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("Sentinel needs config file on disk to save state. Exiting..."));
    // Not even root may write there.
    let (code, said) = run(&binary(), &["sentinel", "/proc/version"]);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn lines_that_are_wrong_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sentinel.conf").display().to_string();
    for (lines, why) in [
        ("sentinel monitor a 127.0.0.1 1 0\n", "Quorum must be 1 or greater."),
        (
            "sentinel monitor a 127.0.0.1 1 1\nsentinel monitor a ::1 1 1\n",
            "Duplicate master name.",
        ),
        ("sentinel monitor a no.host 1 1\n", "Can't resolve instance hostname."),
        ("sentinel monitor a 127.0.0.1 99999 1\n", "Invalid port number."),
        ("sentinel down-after-milliseconds a 1\n", "No such master with specified name."),
        (
            "sentinel monitor a 127.0.0.1 1 1\nsentinel failover-timeout a 0\n",
            "negative or zero time parameter.",
        ),
        ("sentinel nonsense 1 2 3 4\n", "Unrecognized sentinel configuration statement."),
        ("nonsense 1\n", "Bad directive or wrong number of arguments"),
    ] {
        for program in [binary(), Oracle::Redis70.program()] {
            let port = free_port();
            std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\n{lines}")).unwrap();
            let (code, said) = run(&program, &[&file, "--sentinel"]);
            assert_eq!(code, Some(1), "{lines}");
            assert!(said.contains("FATAL CONFIG FILE ERROR") && said.contains(why), "{said}");
            let last = lines.lines().last().unwrap();
            assert!(said.contains(&format!(">>> '{last}'")), "{said}");
        }
    }
    std::fs::write(&file, "sentinel myid x\n").unwrap();
    let (code, said) = run(&binary(), &[&file]);
    assert_eq!(code, Some(1));
    assert!(said.contains("sentinel directive while not in sentinel mode"), "{said}");
}

#[test]
fn a_name_that_ends_so_makes_a_sentinel() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("apus-sentinel");
    std::os::unix::fs::symlink(binary(), &program).unwrap();
    let (code, said) = run(&program, &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("Sentinel needs config file on disk"), "{said}");
}

#[test]
fn a_signal_or_shutdown_ends_it_and_the_file_stays() {
    for end in ["SHUTDOWN", "SHUTDOWN SAVE", "TERM", "INT"] {
        let lines = format!("save 1 1\n{}", watch_lines(free_port(), 1));
        let mut sentinel = APUS.start(&lines);
        let id = sentinel.ask(&["SENTINEL", "MYID"]);
        match end {
            "TERM" => sentinel.signal(Signal::TERM),
            "INT" => sentinel.signal(Signal::INT),
            words => {
                let words: Vec<&str> = words.split(' ').collect();
                assert!(sentinel.client().try_call(&words).is_err(), "the end is the answer");
            }
        }
        assert_eq!(sentinel.wait().code(), Some(0), "{end}");
        let names = std::fs::read_dir(sentinel.folder()).unwrap();
        let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["sentinel.conf"], "{end}: there are no data");
        let id = String::from_utf8(id.as_bytes().unwrap().to_vec()).unwrap();
        assert!(sentinel.file().contains(&format!("sentinel myid {id}\n")));
        assert!(sentinel.file().contains(&lines), "{end}");
    }
}

#[test]
fn a_daemon_has_its_pid_file_and_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let port = free_port();
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndaemonize yes\npidfile {}\nlogfile {}\ndir {}\n{}",
        path("pid"),
        path("log"),
        path(""),
        watch_lines(free_port(), 1)
    );
    std::fs::write(path("sentinel.conf"), text).unwrap();
    let (code, said) = run(&binary(), &["sentinel", &path("sentinel.conf")]);
    assert_eq!(code, Some(0), "{said}");
    let pid: i32 = std::fs::read_to_string(path("pid")).unwrap().trim().parse().unwrap();
    let mut client = Client::connect(port);
    check(&mut client, "> PING\nPONG");
    let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(title.trim_end_matches('\0').ends_with("[sentinel]"), "{title}");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    eventually("the pid file is removed", || !Path::new(&path("pid")).exists());
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(log.contains(&format!("{pid}:X ")) && log.contains("# +monitor master watched"));
}

#[test]
fn what_cannot_be_written_is_not_promised() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let port = free_port();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let file = inner.join("sentinel.conf");
    std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\nlogfile {}\n", path("log")))
        .unwrap();
    let mut child = Command::new(binary()).arg("sentinel").arg(&file).spawn().unwrap();
    eventually("it serves", || Client::try_connect(port).is_ok());
    let mut client = Client::connect(port);
    check(&mut client, "> SENTINEL FLUSHCONFIG\nOK");
    // Where there is no folder there is no file.
    std::fs::rename(&inner, path("moved")).unwrap();
    check(
        &mut client,
        "> SENTINEL MONITOR a 127.0.0.1 1 1\n\
         (error) ERR Failed to save config file. Check server logs.",
    );
    std::fs::rename(path("moved"), &inner).unwrap();
    check(&mut client, "> SENTINEL FLUSHCONFIG\nOK");
    assert!(std::fs::read_to_string(&file).unwrap().contains("sentinel monitor a 127.0.0.1 1 1\n"));
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(
        log.contains("WARNING: Sentinel was not able to save the new configuration on disk!!!")
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_stood_still_enters_tilt() {
    let sentinel = APUS.start(&watch_lines(free_port(), 1));
    let mut listener = sentinel.listener();
    // Its clock ticks by then.
    events_until(&mut listener, "+sdown");
    sentinel.signal(Signal::STOP);
    std::thread::sleep(std::time::Duration::from_secs(3));
    sentinel.signal(Signal::CONT);
    let events = events_until(&mut listener, "+tilt");
    assert_eq!(events.last().unwrap().1, "#tilt mode entered");
    sentinel.expect_log("# +tilt #tilt mode entered");
}

#[test]
fn the_level_of_the_log_and_users_outlive_it() {
    let sentinel = APUS.start(&watch_lines(free_port(), 1));
    let mut client = sentinel.client();
    check(&mut client, "> SENTINEL CONFIG SET loglevel debug\nOK");
    check(&mut client, "> ACL SETUSER eve on >secret +ping\nOK");
    check(&mut client, "> SENTINEL FLUSHCONFIG\nOK");
    let text = sentinel.file();
    assert!(text.contains("loglevel debug\n") && text.contains("user eve on "), "{text}");
    for program in [SentinelProgram::Stock(Oracle::Redis70), APUS] {
        let sentinel = sentinel_in(&text, program);
        let mut client = sentinel.client();
        check(&mut client, "> AUTH eve secret\nOK");
        let refused = tests::render::render(&client.call(&["SENTINEL", "MASTERS"]));
        assert!(refused.starts_with("(error) NOPERM "), "{refused}");
    }
}

/// A program with a copy of a file, but for the port.
fn sentinel_in(text: &str, program: SentinelProgram) -> tests::sentinel::Sentinel {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("port ")).collect();
    program.start(&format!("{}\n", lines.join("\n")))
}
