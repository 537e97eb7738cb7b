//! `daemonize yes`: the parent ends when the daemon serves, or says why it does not.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tests::environment::binary;
use tests::server::{eventually, free_port};
use tests::{Client, check};

/// A daemon, known by its pid file.
struct Daemon(i32);

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended.
        let _ = kill_process(Pid::from_raw(self.0).unwrap(), Signal::KILL);
    }
}

#[test]
fn a_daemon_is_ready_when_its_parent_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let port = free_port().to_string();
    let mut parent = Command::new(binary())
        .args(["-", "--daemonize", "yes", "--pidfile", &path("pid"), "--logfile", &path("log")])
        .args(["--dir", &path("")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let config = format!("port {port}\nbind 127.0.0.1\nmaxclients 77\n");
    parent.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
    // The daemon holds none of the streams, else this would not return.
    let output = parent.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let pid = std::fs::read_to_string(path("pid")).unwrap();
    let daemon = Daemon(pid.trim().parse().unwrap());
    let mut client = Client::connect(port.parse().unwrap());
    check(&mut client, "> CONFIG GET maxclients\n1) \"maxclients\"\n2) \"77\"");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.0)).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.trim(), "it leads a session of its own");
    kill_process(Pid::from_raw(daemon.0).unwrap(), Signal::TERM).unwrap();
    eventually("the pid file is removed", || !Path::new(&path("pid")).exists());
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(log.contains("Removing the pid file.") && log.contains(&format!("{}:M ", daemon.0)));
}

#[test]
fn a_daemon_that_fails_fails_its_parent() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--daemonize", "yes"];
    let output = Command::new(binary()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Address already in use"), "{said}");
}
