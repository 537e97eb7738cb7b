//! The scripts of a Sentinel: told of events, told of a new primary, tried again, told when they
//! fail.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tests::Oracle;
use tests::sentinel::{NAME, SentinelProgram, World, events_until};
use tests::server::eventually;

/// A script of a shell.
fn script(folder: &Path, name: &str, body: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// What a notification script is told of a failover.
const TOLD: [&str; 13] = [
    "+monitor ",
    "+sdown master",
    "+odown ",
    "+new-epoch ",
    "+try-failover ",
    "+vote-for-leader ",
    "+elected-leader ",
    "+failover-state-select-slave ",
    "+selected-slave ",
    "+promoted-slave ",
    "+failover-state-reconf-slaves ",
    "+failover-end ",
    "+switch-master ",
];

/// What both scripts were told by a Sentinel that fails over.
fn told_by(program: SentinelProgram) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| folder.path().join(name);
    let line = |name: &str| format!("echo \"$@\" >> {}", log(name).display());
    let notify = script(folder.path(), "notify.sh", &line("notified"));
    let reconfigure = script(folder.path(), "reconfigure.sh", &line("reconfigured"));
    let mut world = World::start(1, &[]);
    let more = format!(
        "sentinel notification-script {NAME} {notify}\n\
         sentinel client-reconfig-script {NAME} {reconfigure}\n"
    );
    let sentinel = program.watch(&world, 1, &more);
    sentinel.meet(1, 0);
    world.servers()[0].kill();
    let lines = |name: &str| std::fs::read_to_string(log(name)).unwrap_or_default();
    eventually("all is told", || {
        let notified = lines("notified");
        lines("reconfigured").contains(" start ") && TOLD.iter().all(|it| notified.contains(it))
    });
    let shown = |name: &str| {
        let text = lines(name);
        let mut lines: Vec<String> = text.lines().map(|line| world.without_ports(line)).collect();
        // The scripts run side by side, and what comes behind the end is not waited for.
        lines.retain(|line| !line.starts_with("+sdown slave"));
        lines.sort();
        lines
    };
    (shown("notified"), shown("reconfigured"))
}

#[test]
fn scripts_are_told_what_a_real_sentinel_tells_them() {
    let theirs = told_by(SentinelProgram::Stock(Oracle::Redis70));
    assert_eq!(told_by(SentinelProgram::Apus), theirs);
}

#[test]
fn what_fails_is_told_and_what_is_absent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fails = script(folder.path(), "fails.sh", "exit 3");
    let again = script(folder.path(), "again.sh", "exit 1");
    let mut world = World::start(0, &[]);
    let more =
        format!("sentinel deny-scripts-reconfig no\nsentinel notification-script {NAME} {fails}\n");
    let sentinel = SentinelProgram::Apus.watch(&world, 1, &more);
    let mut listener = sentinel.listener();
    world.servers()[0].kill();
    let events = events_until(&mut listener, "-script-error");
    assert_eq!(events.last().unwrap().1, format!("{fails} 0 3"));
    let set = |path: &str| sentinel.ask(&["SENTINEL", "SET", NAME, "notification-script", path]);
    assert!(matches!(set("/nowhere"), proto::value::Value::Error(_)));
    assert_eq!(set(&again).as_bytes(), Some(b"OK".as_slice()));
    assert!(matches!(sentinel.ask(&["SENTINEL", "RESET", NAME]), proto::value::Value::Integer(1)));
    eventually("the script waits for its next run", || {
        let reply = sentinel.ask(&["SENTINEL", "PENDING-SCRIPTS"]);
        let shown = tests::render::render(&reply);
        shown.contains("again.sh") && shown.contains("scheduled") && shown.contains("run-delay")
    });
}

#[test]
fn a_script_that_runs_is_shown_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, go) = (folder.path().join("pid"), folder.path().join("go"));
    let (told, asked) = (pid.display(), go.display());
    let body = format!(
        "echo $$ > {told}\nfor turn in $(seq 600); do\n[ -e {asked} ] && exit\nsleep 0.1\ndone"
    );
    let waits = script(folder.path(), "waits.sh", &body);
    let world = World::start(0, &[]);
    for program in [SentinelProgram::Apus, SentinelProgram::Stock(Oracle::Redis82)] {
        // The first event is of the start.
        let more = format!("sentinel notification-script {NAME} {waits}\n");
        let sentinel = program.watch(&world, 1, &more);
        eventually("the script is shown with its number", || {
            let number = std::fs::read_to_string(&pid).unwrap_or_default();
            let reply = sentinel.ask(&["SENTINEL", "PENDING-SCRIPTS"]);
            let shown = tests::render::render(&reply);
            !number.trim().is_empty() && shown.contains(&format!("\"{}\"", number.trim()))
        });
        std::fs::write(&go, "").unwrap();
        eventually("it ends", || {
            let reply = sentinel.ask(&["SENTINEL", "PENDING-SCRIPTS"]);
            !tests::render::render(&reply).contains("waits.sh")
        });
        std::fs::remove_file(&go).unwrap();
        std::fs::remove_file(&pid).unwrap();
    }
}
