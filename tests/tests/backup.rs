//! BACKUP, as its pages have it (redis.io/docs/latest/commands/backup-start and those of SEAL,
//! STATUS, LIST, ABORT and CLEANUP): none of the real servers here has it.
//!
//! That other servers start on a backup is in `file_compatibility.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use proto::value::Value;
use tests::render::text;
use tests::server::eventually;
use tests::{Client, Server, check};

fn status(client: &mut Client) -> BTreeMap<String, String> {
    let Value::Array(words) = client.call(&["BACKUP", "STATUS"]) else { panic!("it is a list") };
    words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn state(client: &mut Client) -> String {
    status(client).remove("state").expect("it has a state")
}

fn await_state(client: &mut Client, wanted: &str) {
    eventually(wanted, || state(client) == wanted);
}

fn files(client: &mut Client) -> Vec<PathBuf> {
    let Value::Array(paths) = client.call(&["BACKUP", "LIST"]) else { panic!("it is a list") };
    paths.iter().map(|path| PathBuf::from(text(path))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("our files have simple names").to_owned()
}

/// What lies in a folder; nothing if there is none.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| name(&entry.expect("a folder can be read").path())).collect();
    names.sort();
    names
}

fn start(client: &mut Client) {
    check(client, "> BACKUP START\nOK\n");
    await_state(client, "incrementing");
}

/// Has the next snapshot take for ever, until it is given up.
fn slow_down(client: &mut Client) {
    check(
        client,
        "> CONFIG SET rdb-key-save-delay 100000000\nOK\n> MSET a 1 b 2\nOK\n> SET c 3\nOK\n",
    );
}

#[test]
fn a_backup_goes_from_start_to_seal_to_cleanup() {
    for log in ["yes", "no"] {
        let server = Server::start(&["--appendonly", log]);
        let mut client = server.client();
        let folder = server.folder().join("backupdir");
        begins_idle(&mut client);
        start(&mut client);
        assert_eq!(client.info("backup_in_progress"), "1");
        check(
            &mut client,
            "
            > BACKUP START
            (error) ERR A backup is already in progress
            > BACKUP CLEANUP
            (error) ERR A backup is in progress, use BACKUP ABORT
            ",
        );
        let pinned = files(&mut client);
        let [base] = &pinned[..] else { panic!("only the base is there: {pinned:?}") };
        assert!(base.starts_with(&folder), "{base:?}");
        let name = name(base);
        assert!(name.starts_with("appendonly.aof.") && name.ends_with(".base.rdb"), "{name}");
        if log == "yes" {
            let own = server.folder().join("appendonlydir").join(&name);
            let inode = |path: &Path| fs::metadata(path).expect("it is there").ino();
            assert_eq!(inode(base), inode(&own), "it is one file with two names");
        }
        check(&mut client, "> SET between 1\nOK\n> BACKUP SEAL\nOK\n");
        assert_eq!(client.info("backup_in_progress"), "0");
        seal_holds(&mut client, &folder);
        check(
            &mut client,
            "
            > BACKUP SEAL
            (error) ERR No backup is in the incrementing state
            > BACKUP START
            (error) ERR A sealed backup is there, use BACKUP CLEANUP
            > BACKUP ABORT
            (error) ERR The backup is sealed, use BACKUP CLEANUP
            > BACKUP CLEANUP
            OK
            > BACKUP LIST
            (empty array)
            ",
        );
        assert_eq!(state(&mut client), "idle");
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
        leaves_no_log(&server, log == "yes");
        start(&mut client);
    }
}

/// A server that keeps no log has none after a backup, nor does it say so.
fn leaves_no_log(server: &Server, has_log: bool) {
    let says = server.client().info("aof_enabled") == "1";
    let is_there = server.folder().join("appendonlydir").exists();
    assert_eq!((says, is_there), (has_log, has_log));
}

/// A server has no backup at first, and says so.
fn begins_idle(client: &mut Client) {
    check(
        client,
        r#"
        > BACKUP STATUS
        1) "state"
        2) "idle"
        3) "error"
        4) ""
        5) "start_time"
        6) "0"
        7) "end_time"
        8) "0"
        > BACKUP LIST
        (empty array)
        > BACKUP SEAL
        (error) ERR No backup is in the incrementing state
        > BACKUP ABORT
        (error) ERR No backup is in progress
        > BACKUP CLEANUP
        OK
        > SET before 1
        OK
        "#,
    );
}

/// What is sealed does not change, and a server begins with it.
fn seal_holds(client: &mut Client, folder: &Path) {
    let told = status(client);
    assert_eq!((&*told["state"], &*told["error"]), ("sealed", ""));
    let seconds = |name: &str| told[name].parse::<u64>().expect("seconds");
    assert!(0 < seconds("start_time") && seconds("start_time") <= seconds("end_time"));
    let pinned = files(client);
    let mut listed: Vec<_> = pinned.iter().map(|path| name(path)).collect();
    assert!(
        listed[1].ends_with(".incr.aof") && listed[2] == "appendonly.aof.manifest",
        "{listed:?}"
    );
    listed.sort();
    assert_eq!(names(folder), listed, "nothing else is there");
    let read =
        || pinned.iter().map(|path| fs::read(path).expect("it is there")).collect::<Vec<_>>();
    let before = read();
    check(client, "> SET after 1\nOK\n> INCRBY between 5\n(integer) 6\n");
    let preload = format!("aof:{}", pinned[2].display());
    let copy = Server::start(&["--preload-file", &preload]);
    check(&mut copy.client(), "> MGET before between after\n1) \"1\"\n2) \"1\"\n3) (nil)\n");
    assert!(read() == before, "what is sealed does not change");
}

#[test]
fn in_resp3_status_is_a_map_and_the_rest_as_in_resp2() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    check(
        &mut client,
        r#"
        > BACKUP STATUS
        1# "state" => "idle"
        2# "error" => ""
        3# "start_time" => "0"
        4# "end_time" => "0"
        > BACKUP LIST
        (empty array)
        > BACKUP HELP
        ...
        > BACKUP START
        OK
        > BACKUP ABORT
        OK
        "#,
    );
    let mut other = server.client();
    check(&mut other, "> BACKUP HELP\n...\n");
    start(&mut other);
    check(&mut client, "> BACKUP SEAL\nOK\n> BACKUP CLEANUP\nOK\n");
}

#[test]
fn a_backup_that_is_given_up_is_followed_by_another() {
    for log in ["yes", "no"] {
        let server = Server::start(&["--appendonly", log]);
        let mut client = server.client();
        let folder = server.folder().join("backupdir");
        start(&mut client);
        check(&mut client, "> BACKUP ABORT\nOK\n> BACKUP LIST\n(empty array)\n");
        let told = status(&mut client);
        assert_eq!((&*told["state"], &*told["error"]), ("failed", "aborted by user"));
        assert_eq!(client.info("backup_in_progress"), "0");
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
        // In the midst of its base.
        slow_down(&mut client);
        check(&mut client, "> BACKUP START\nOK\n");
        assert_eq!(state(&mut client), "snapshotting");
        check(&mut client, "> BACKUP ABORT\nOK\n> CONFIG SET rdb-key-save-delay 0\nOK\n");
        assert_eq!(state(&mut client), "failed");
        check(&mut client, "> BACKUP CLEANUP\nOK\n");
        assert_eq!(state(&mut client), "idle");
        if log == "yes" {
            // The rewrite goes on for the log, at its pace.
            check(&mut client, "> CONFIG SET appendonly no\nOK\n> CONFIG SET appendonly yes\nOK\n");
        }
        start(&mut client);
        check(&mut client, "> BACKUP SEAL\nOK\n");
    }
}

#[test]
fn a_backup_waits_for_a_snapshot_and_rewrites_wait_for_the_backup() {
    for log in ["yes", "no"] {
        let server = Server::start(&["--appendonly", log]);
        let mut client = server.client();
        slow_down(&mut client);
        check(
            &mut client,
            "
            > BGSAVE
            Background saving started
            > BACKUP START
            OK
            > CONFIG SET rdb-key-save-delay 0
            OK
            ",
        );
        assert_eq!(state(&mut client), "pending");
        assert_eq!(client.info("backup_in_progress"), "1");
        check(&mut client, "> BGSAVE CANCEL\nBackground saving cancelled\n");
        await_state(&mut client, "incrementing");
        eventually("the rewrite is over", || client.info("aof_rewrite_in_progress") == "0");
        let rewrites = client.info("aof_rewrites");
        check(
            &mut client,
            "
            > BGREWRITEAOF
            Background append only file rewriting scheduled
            > SET k v
            OK
            ",
        );
        assert_eq!(client.info("aof_rewrite_scheduled"), "1");
        assert_eq!(client.info("aof_rewrites"), rewrites);
        check(&mut client, "> BACKUP SEAL\nOK\n");
        eventually("the rewrite follows", || client.info("aof_rewrites") != rewrites);
    }
}

#[test]
fn a_backup_ends_when_the_log_is_turned_on_or_off() {
    for (log, other, word) in [("yes", "no", "off"), ("no", "yes", "on")] {
        let server = Server::start(&["--appendonly", log]);
        let mut client = server.client();
        start(&mut client);
        client.call(&["CONFIG", "SET", "appendonly", other]);
        let told = status(&mut client);
        let why = format!("the append-only file was turned {word}");
        assert_eq!((&*told["state"], &told["error"]), ("failed", &why));
        start(&mut client);
        check(&mut client, "> BACKUP SEAL\nOK\n");
    }
}

#[test]
fn a_sealed_backup_is_removed_after_its_time() {
    let server = Server::start(&["--backup-sealed-ttl", "1"]);
    let mut client = server.client();
    start(&mut client);
    check(&mut client, "> BACKUP SEAL\nOK\n");
    await_state(&mut client, "idle");
    assert!(names(&server.folder().join("backupdir")).is_empty());
    check(
        &mut client,
        "> CONFIG GET backup*\n1) \"backup-sealed-ttl\"\n2) \"1\"\n3) \"backupdirname\"\n\
         4) \"backupdir\"\n",
    );
}

#[test]
fn what_an_earlier_process_left_is_in_the_way_until_it_is_cleaned_up() {
    for log in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", log, "--backupdirname", "copies"]);
        let folder = server.folder().join("copies");
        start(&mut server.client());
        server.kill();
        assert!(!names(&folder).is_empty());
        server.restart();
        let mut client = server.client();
        assert_eq!(state(&mut client), "idle");
        check(&mut client, "> BACKUP START\n~ (error) ERR The backup directory * is not empty\n");
        check(&mut client, "> BACKUP CLEANUP\nOK\n");
        // What is not ours stays, and is in the way.
        fs::write(folder.join("notes"), "text").expect("the folder is there");
        check(&mut client, "> BACKUP CLEANUP\nOK\n");
        check(&mut client, "> BACKUP START\n~ (error) ERR The backup directory * is not empty\n");
        fs::remove_file(folder.join("notes")).expect("it is there still");
        start(&mut client);
        check(&mut client, "> SHUTDOWN NOSAVE\n(closed)\n");
        eventually("the process ends", || names(&folder).is_empty());
    }
}

#[test]
fn a_transaction_may_begin_and_end_a_backup() {
    let server = Server::start(&["--appendonly", "yes"]);
    let mut client = server.client();
    check(&mut client, "> MULTI\nOK\n> SET k 1\nQUEUED\n> BACKUP START\nQUEUED\n");
    check(&mut client, "> EXEC\n1) OK\n2) OK\n");
    await_state(&mut client, "incrementing");
    check(&mut client, "> MULTI\nOK\n> INCR k\nQUEUED\n> BACKUP SEAL\nQUEUED\n");
    check(&mut client, "> EXEC\n1) (integer) 2\n2) OK\n");
    // What the transaction had changed by then was not committed yet.
    let preload = format!("aof:{}", files(&mut client)[2].display());
    let copy = Server::start(&["--preload-file", &preload]);
    check(&mut copy.client(), "> GET k\n\"1\"\n");
    check(
        &mut client,
        "> EVAL \"return redis.call('BACKUP', 'START')\" 0\n~ (error) ERR *script*\n",
    );
}

/// The data of a full sync are others than those of the base.
#[test]
fn a_backup_ends_where_other_data_come() {
    for arguments in [
        &["--appendonly", "no"][..],
        &["--appendonly", "no", "--repl-diskless-load", "swapdb"],
        &["--appendonly", "yes"],
    ] {
        let [one, other] = [(); 2].map(|()| Server::start(&[]));
        let replica = Server::start(arguments);
        tests::replication::follow(&replica, one.port());
        tests::replication::await_replica(&one, &replica);
        one.client().call(&["SET", "a", "1"]);
        other.client().call(&["SET", "b", "2"]);
        let mut client = replica.client();
        start(&mut client);
        tests::replication::follow(&replica, other.port());
        tests::replication::await_replica(&other, &replica);
        let status = status(&mut client);
        assert_eq!(status["state"], "failed", "{arguments:?}: {status:?}");
        assert!(text(&client.call(&["BACKUP", "SEAL"])).contains("incrementing"), "{arguments:?}");
        // The next one is of these data.
        check(&mut client, "> GET b\n\"2\"\n");
        start(&mut client);
        check(&mut client, "> BACKUP SEAL\nOK\n");
    }
}
