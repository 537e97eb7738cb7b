//! What one server writes no other one does: directories of logs and files of snapshots have an
//! owner, as long as that runs.

use tests::folder::copy_folder;
use tests::render::render;
use tests::server::eventually;
use tests::{Server, check};

const LOG: &[&str] = &["--appendonly", "yes", "--save", ""];
const SNAPSHOT: &[&str] = &["--save", "3600 1"];
const OTHER_SNAPSHOT: &[&str] = &["--save", "3600 1", "--dbfilename", "other.rdb"];
const NOTHING: &[&str] = &["--save", ""];

/// Arguments for the directory of another server.
fn beside<'a>(folder: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["--dir", folder][..], arguments].concat()
}

fn path(server: &Server) -> String {
    server.folder().display().to_string()
}

#[test]
fn a_start_on_what_another_process_writes_is_refused_and_says_whose_it_is() {
    for (owner, other, theirs) in [
        (LOG, LOG, Some("The append-only file in")),
        (SNAPSHOT, SNAPSHOT, Some("The snapshot ")),
        (SNAPSHOT, OTHER_SNAPSHOT, None),
        (SNAPSHOT, NOTHING, None),
        (SNAPSHOT, LOG, None),
        (LOG, SNAPSHOT, None),
        (NOTHING, SNAPSHOT, None),
    ] {
        let owner = Server::start(owner);
        let folder = path(&owner);
        let Some(what) = theirs else {
            check(&mut Server::start(&beside(&folder, other)).client(), "> SET k v\nOK");
            continue;
        };
        let port = tests::server::free_port().to_string();
        let all = [&["--port", &port][..], &beside(&folder, other)].concat();
        let (status, said) = Server::refuses(&all);
        assert_eq!(status.code(), Some(1), "{said}");
        let whose = format!("is written by process {}", owner.pid());
        assert!(said.contains(what) && said.contains(&whose), "{said}");
    }
}

#[test]
fn what_is_written_from_some_time_on_is_refused_then() {
    let owner = Server::start(&["--appendonly", "yes", "--save", "3600 1"]);
    let (folder, pid) = (path(&owner), owner.pid());
    let open = ["--enable-protected-configs", "yes", "--enable-debug-command", "yes"];
    let mut other = Server::start(&beside(&folder, &[NOTHING, &open].concat()));
    let mut client = other.client();
    let refused = |client: &mut tests::Client, command: &[&str]| {
        let reply = render(&client.call(command));
        assert!(reply.starts_with("(error) ERR"), "{command:?}: {reply}");
    };
    refused(&mut client, &["SAVE"]);
    other.wait_for_log(&format!("is written by process {pid}"));
    refused(&mut client, &["CONFIG", "SET", "appendonly", "yes"]);
    refused(&mut client, &["CONFIG", "SET", "save", "60 1"]);
    refused(&mut client, &["DEBUG", "RELOAD"]);
    check(
        &mut client,
        "> CONFIG GET appendonly\n1) \"appendonly\"\n2) \"no\"\n> CONFIG GET save\n1) \"save\"\n\
         2) \"\"\n> CONFIG SET dbfilename other.rdb save \"60 1\"\nOK\n> SAVE\nOK",
    );
    refused(&mut client, &["CONFIG", "SET", "dbfilename", "dump.rdb"]);
    check(&mut client, "> CONFIG GET dbfilename\n1) \"dbfilename\"\n2) \"other.rdb\"");
    let third = Server::start(&[SNAPSHOT, &open].concat());
    let mut client = third.client();
    refused(&mut client, &["CONFIG", "SET", "dir", &folder]);
    let reply = render(&client.call(&["CONFIG", "GET", "dir"]));
    assert!(reply.contains(&path(&third)), "{reply}");
    check(&mut client, "> SET k v\nOK\n> SAVE\nOK");
    assert!(third.folder().join("dump.rdb").exists(), "it is where it was");
}

#[test]
fn a_killed_server_and_a_copy_of_its_directory_are_in_nobodys_way() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--save", "3600 1"];
    let mut server = Server::start(&arguments);
    check(&mut server.client(), "> SET k v\nOK\n> SAVE\nOK");
    let from = server.folder().to_owned();
    let copied = Server::start_prepared(|to| copy_folder(&from, to), &arguments);
    check(&mut copied.client(), "> GET k\n\"v\"\n> SET k w\nOK");
    server.kill();
    server.restart();
    check(&mut server.client(), "> GET k\n\"v\"");
}

#[test]
fn a_log_that_a_server_writes_is_not_mended() {
    let server = Server::start(LOG);
    check(&mut server.client(), "> SET k v\nOK");
    let manifest = server.folder().join("appendonlydir/appendonly.aof.manifest");
    let mend = || {
        let mut command = std::process::Command::new(tests::environment::binary());
        let output = command.args(["check", "aof", "--fix"]).arg(&manifest).output();
        let output = output.expect("it can be run");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_well, said) = mend();
    assert!(!is_well && said.contains(&format!("process {}", server.pid())), "{said}");
    drop(server.client());
    eventually("it can be checked", || {
        let mut check = std::process::Command::new(tests::environment::binary());
        check.args(["check", "aof"]).arg(&manifest).output().is_ok_and(|it| it.status.success())
    });
}
