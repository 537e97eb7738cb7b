//! Snapshots and rewrites one after the other, FLUSHALL and the file, DEBUG RELOAD, and what the
//! files of an earlier life have to do with it: as in the real servers.

use std::fs;
use std::path::Path;
use std::process::Command;

use base::time::Clock;
use tests::render::text;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// So long a save of one key takes that nobody waits for its end.
const NEVER: &str = "100000000";

const REWRITING: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use \
                         BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";

fn told(client: &mut Client, name: &str) -> String {
    let info = text(&client.call(&["INFO", "persistence"]));
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("INFO tells {name}")).to_owned()
}

fn wait_until(client: &mut Client, name: &str, value: &str) {
    eventually(name, || told(client, name) == value);
}

#[test]
fn a_save_and_a_rewrite_are_made_one_after_the_other() {
    for server in &Oracle::Valkey91.beside(&["--save", ""]) {
        for mut client in [server.client(), server.client3()] {
            client.call(&["SET", "k", "v"]);
            client.call(&["CONFIG", "SET", "rdb-key-save-delay", NEVER]);
            check(
                &mut client,
                "
                > BGSAVE
                Background saving started
                > BGREWRITEAOF
                Background append only file rewriting scheduled
                > BGREWRITEAOF
                Background append only file rewriting scheduled
                > BGSAVE
                (error) ERR Background save already in progress
                > BGSAVE SCHEDULE
                (error) ERR Background save already in progress
                > SAVE
                (error) ERR Background save already in progress
                ",
            );
            assert_eq!(told(&mut client, "aof_rewrite_scheduled"), "1");
            assert_eq!(told(&mut client, "aof_rewrite_in_progress"), "0");
            check(&mut client, "> BGSAVE CANCEL\nBackground saving cancelled\n");
            wait_until(&mut client, "rdb_bgsave_in_progress", "0");
            wait_until(&mut client, "aof_rewrite_in_progress", "1");
            assert_eq!(told(&mut client, "aof_rewrite_scheduled"), "0");
            check(&mut client, &format!("> BGSAVE\n(error) {REWRITING}\n"));
            check(
                &mut client,
                "
                > BGREWRITEAOF
                (error) ERR Background append only file rewriting already in progress
                > BGSAVE SCHEDULE
                Background saving scheduled
                > BGSAVE CANCEL
                Scheduled background saving cancelled
                > BGSAVE CANCEL
                (error) ERR Background saving is currently not in progress or scheduled
                > BGSAVE SCHEDULE
                Background saving scheduled
                ",
            );
            assert_eq!(told(&mut client, "rdb_bgsave_in_progress"), "0");
            // A log that is turned on and off takes its rewrite with it.
            client.call(&["CONFIG", "SET", "appendonly", "yes"]);
            client.call(&["CONFIG", "SET", "appendonly", "no"]);
            wait_until(&mut client, "aof_rewrite_in_progress", "0");
            wait_until(&mut client, "rdb_bgsave_in_progress", "1");
            check(&mut client, "> BGSAVE CANCEL\nBackground saving cancelled\n");
            wait_until(&mut client, "rdb_bgsave_in_progress", "0");
            check(&mut client, "> BGSAVE foo\n(error) ERR syntax error\n");
        }
    }
}

fn dump_size(server: &Server) -> u64 {
    fs::metadata(server.folder().join("dump.rdb")).expect("it was saved").len()
}

#[test]
fn what_flushall_removed_is_not_in_the_file_of_a_server_that_saves_by_itself() {
    for save in ["3600 1", ""] {
        for server in &Oracle::Redis82.beside(&["--save", save]) {
            let mut client = server.client();
            for number in 0..50 {
                client.call(&["SET", &format!("a-key-of-some-length:{number}"), "value"]);
            }
            client.call(&["SAVE"]);
            let full = dump_size(server);
            // A save under way would bring it all back.
            client.call(&["CONFIG", "SET", "rdb-key-save-delay", NEVER]);
            check(&mut client, "> BGSAVE\nBackground saving started\n> FLUSHALL\nOK\n");
            wait_until(&mut client, "rdb_bgsave_in_progress", "0");
            assert_eq!(told(&mut client, "rdb_last_bgsave_status"), "ok");
            if save.is_empty() {
                assert_eq!(dump_size(server), full, "nobody asked for a file");
                continue;
            }
            assert!(dump_size(server) < full / 2, "the file followed before the reply");
            wait_until(&mut client, "rdb_changes_since_last_save", "0");
            client.call(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
            check(&mut client, "> SET k v\nOK\n> SAVE\nOK\n> FLUSHALL ASYNC\nOK\n");
            wait_until(&mut client, "rdb_changes_since_last_save", "0");
            // One database is no reason.
            check(&mut client, "> SET k v\nOK\n> FLUSHDB\nOK\n");
            assert_eq!(told(&mut client, "rdb_changes_since_last_save"), "2");
        }
    }
}

#[test]
fn a_file_is_loaded_over_the_data_as_debug_reload_is_told() {
    for server in &Oracle::Redis82.beside(&[&["--save", ""], DEBUG].concat()) {
        check(
            &mut server.client(),
            r#"
            > MSET both old file 1
            OK
            > SAVE
            OK
            > MSET both new memory 2
            OK
            > DEL file
            (integer) 1
            > DEBUG RELOAD NOSAVE NOFLUSH MERGE
            OK
            > MGET both file memory
            1) "old"
            2) "1"
            3) "2"
            > SET both new
            OK
            > DEBUG RELOAD merge
            OK
            > MGET both file memory
            1) "new"
            2) "1"
            3) "2"
            > DEL memory
            (integer) 1
            > DEBUG RELOAD NOSAVE
            OK
            > MGET both file memory
            1) "new"
            2) "1"
            3) "2"
            > DEBUG RELOAD WITHOUT
            (error) ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.
            "#,
        );
    }
}

#[test]
fn what_dump_gives_is_compressed_where_snapshots_are() {
    let value = "abc".repeat(100);
    for server in &Oracle::Redis82.beside(&[]) {
        let mut client = server.client();
        client.call(&["SET", "k", &value]);
        let mut dump_len = |compresses: &str| {
            client.call(&["CONFIG", "SET", "rdbcompression", compresses]);
            client.call(&["DUMP", "k"]).as_bytes().expect("it is there").len()
        };
        assert!(dump_len("yes") < value.len());
        assert!(dump_len("no") > value.len());
    }
}

#[test]
fn what_an_earlier_life_did_not_finish_is_removed_and_nothing_else() {
    let mut over = Command::new("true").spawn().expect("it is there");
    over.wait().expect("it ends");
    let (log, gone) = (Path::new("appendonlydir"), over.id());
    let others = ["temp-notes.rdb", "temp-1.txt"];
    let mine = [format!("temp-{gone}-0.rdb"), format!("temp-{gone}.rdb")];
    let logged = [format!("temp-rewriteaof-bg-{gone}.aof"), "temp-appendonly.aof.incr".to_owned()];
    let prepare = |folder: &Path| {
        fs::create_dir(folder.join(log)).expect("the folder is new");
        for name in others.iter().copied().chain(mine.iter().map(String::as_str)) {
            fs::write(folder.join(name), "x").expect("the folder is new");
        }
        for name in &logged {
            fs::write(folder.join(log).join(name), "x").expect("the folder is new");
        }
    };
    let server = Server::start_prepared(prepare, &[]);
    let exists = |name: &Path| server.folder().join(name).exists();
    assert!(others.iter().all(|name| exists(Path::new(name))));
    assert!(!mine.iter().any(|name| exists(Path::new(name))));
    assert!(!logged.iter().any(|name| exists(&log.join(name))));
}

/// The cores that the threads of a process may use whose names begin so, each once.
fn cores_of(server: &Server, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let mut lists = Vec::new();
    for task in tasks.flatten() {
        // The thread may end while we look.
        let Ok(comm) = fs::read_to_string(task.path().join("comm")) else { continue };
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        if comm.starts_with(name) {
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            lists.extend(list.map(|list| list.trim().to_owned()));
        }
    }
    lists.dedup();
    lists
}

#[test]
fn threads_run_on_the_cores_that_they_are_given() {
    let status = fs::read_to_string("/proc/self/status").expect("this process runs");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.expect("Linux tells the cores").trim();
    let first = allowed.split(['-', ',']).next().expect("there is one").to_owned();
    let last = allowed.rsplit(['-', ',']).next().expect("there is one").to_owned();
    let server = Server::start(&[
        "--save",
        "",
        "--appendonly",
        "yes",
        "--server-cpulist",
        &first,
        "--bio-cpulist",
        &last,
        "--bgsave-cpulist",
        &last,
        "--aof-rewrite-cpulist",
        "none",
    ]);
    let mut client = server.client();
    client.call(&["SET", "k", "v"]);
    client.call(&["CONFIG", "SET", "rdb-key-save-delay", NEVER]);
    client.call(&["BGSAVE"]);
    eventually("the encoders have come", || !cores_of(&server, "encoder").is_empty());
    eventually("all have taken up their duties", || {
        ["snapshot", "encoder", "aof"].iter().all(|name| cores_of(&server, name) == [&*last])
    });
    assert_eq!(cores_of(&server, "worker"), [&*first]);
}

/// The wall clock is moved; a minute of the schedule is half an hour away.
#[test]
fn a_save_is_made_at_the_minute_that_the_schedule_names() {
    let server = Server::start(&[DEBUG, &["--save", ""]].concat());
    let mut client = server.client();
    let minute = (Clock::system().now_ms() / 60_000 + 30) % (24 * 60);
    let schedule = format!("{} {} * * *", minute % 60, minute / 60);
    client.call(&["CONFIG", "SET", "snapshot-cron", &schedule]);
    check(&mut client, "> SET k v\nOK\n");
    assert_eq!(told(&mut client, "rdb_saves"), "0");
    assert!(!server.folder().join("dump.rdb").exists());
    check(&mut client, "> DEBUG JUMP-CLOCK 1860000\nOK\n");
    wait_until(&mut client, "rdb_saves", "1");
    wait_until(&mut client, "rdb_bgsave_in_progress", "0");
    let successor = Server::start_prepared(server.snapshot(), &[]);
    check(&mut successor.client(), "> GET k\n\"v\"\n");
}
