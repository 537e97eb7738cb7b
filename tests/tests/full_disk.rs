//! A real disk that is full: what is acknowledged is there, what cannot be kept is refused as
//! everywhere, readers are served, and all goes on once there is space.
//!
//! The tests need a user that may mount a disk of its own (`unshare --map-root-user --mount`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use proto::value::Value;
use rustix::process::Signal;
use tests::folder::copy_folder;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server, check};

/// The disk, and what is put there to be taken away when it is full.
const MEGABYTES: u32 = 6;
const BALLAST: usize = 4 << 20;

/// A value that is written; its last bytes are the number of its key.
const LENGTH: usize = 8 << 10;

const REFUSED: &str = "(error) MISCONF Errors writing to the AOF file: No space left on device";

/// What the first write is told that the disk does not take.
const UNSAFE: &str = "(error) UNSAFE Errors writing to the AOF file: No space left on device. ";

/// A server on a small disk with its ballast.
struct Rig {
    server: Server,
    ballast: PathBuf,
}

impl Rig {
    fn start(arguments: &[&str]) -> Self {
        let all = [&["--auto-aof-rewrite-percentage", "0"], arguments].concat();
        let server = Server::start_on_small_disk(MEGABYTES, &all);
        let ballast = server.disk().join("ballast");
        std::fs::write(&ballast, vec![0; BALLAST]).expect("it has the space");
        Self { server, ballast }
    }

    /// Takes all the space there is; what is freed later is the ballast's.
    fn fill(&self) {
        let mut rest = std::fs::File::create(self.server.disk().join("rest")).expect("a name");
        while std::io::Write::write_all(&mut rest, &[0; 512]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(&self.ballast).expect("it is there");
    }

    /// Writes keys from this number on until one is refused; which.
    fn write_until_refused(&self, client: &mut Client, from: usize) -> usize {
        let refused = (from..from + 10 * BALLAST / LENGTH).find(|&number| {
            let reply = render(&write(client, number));
            assert!(reply == "OK" || reply == REFUSED || reply.starts_with(UNSAFE), "{reply}");
            reply != "OK"
        });
        refused.expect("the disk is full some time")
    }

    /// Writes one more key as soon as that is possible, and tells how long it took.
    fn resume(&self, client: &mut Client, number: usize) {
        let freed = Instant::now();
        self.free();
        eventually("writes resume", || render(&write(client, number)) == "OK");
        println!("writes resumed {:?} after there was space", freed.elapsed());
    }

    /// What a process finds that starts on the disk as it is now.
    fn successor(&self, arguments: &[&str]) -> Server {
        // What changes while it is copied is of no moment at all.
        self.server.signal(Signal::STOP);
        eventually("all threads stand still", || self.stands_still());
        let prepare = |folder: &Path| copy_folder(&self.server.disk(), folder);
        let successor = Server::start_prepared(prepare, arguments);
        self.server.signal(Signal::CONT);
        successor
    }

    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.server.pid()));
        threads.expect("a child has threads").flatten().all(|thread| {
            let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }
}

fn write(client: &mut Client, number: usize) -> Value {
    let value = format!("{number:0>LENGTH$}");
    client.call(&["SET", &format!("key:{number}"), &value])
}

fn has(client: &mut Client, number: usize) -> bool {
    let value = client.call(&["GET", &format!("key:{number}")]);
    value.as_bytes() == Some(format!("{number:0>LENGTH$}").as_bytes())
}

/// Names of unfinished files.
fn leftovers(server: &Server) -> Vec<String> {
    let folders = [server.disk(), server.disk().join("appendonlydir")];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let names = entries.map(|entry| entry.expect("a name").file_name().into_string());
    names.map(|name| name.expect("plain names")).filter(|name| name.starts_with("temp")).collect()
}

#[test]
fn the_log_keeps_what_it_acknowledged_and_goes_on_when_there_is_space() {
    for policy in ["always", "everysec"] {
        let arguments = ["--appendonly", "yes", "--appendfsync", policy];
        let rig = Rig::start(&arguments);
        let mut client = rig.server.client();
        let refused = rig.write_until_refused(&mut client, 0);
        assert!(refused > 0, "there was some space");
        assert_eq!(client.info("aof_last_write_status"), "err");
        assert_eq!(render(&client.call(&["DEL", "key:0"])), REFUSED);
        assert_eq!(render(&client.call(&["PING"])), REFUSED);
        assert!((0..refused).all(|number| has(&mut client, number)), "readers are served");
        if policy == "always" {
            let found = rig.successor(&arguments);
            let mut found = found.client();
            assert!((0..refused).all(|number| has(&mut found, number)), "it was acknowledged");
        }
        rig.resume(&mut client, refused);
        assert_eq!(client.info("aof_last_write_status"), "ok");
        let next = refused + 1;
        assert_eq!(render(&write(&mut client, next)), "OK");
        check(&mut client, "> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0\n> PING\nPONG");
        let found = rig.successor(&arguments);
        let mut found = found.client();
        assert!((0..=next).all(|number| has(&mut found, number)), "{policy}: it is in the log");
    }
}

#[test]
fn a_save_that_finds_no_space_leaves_the_one_before_and_writes_wait_for_a_better() {
    let rig = Rig::start(&["--save", "3600 1"]);
    let mut client = rig.server.client();
    assert_eq!(render(&write(&mut client, 0)), "OK");
    check(&mut client, "> SAVE\nOK");
    // Too much for what is left, and well below what there will be.
    (1..100).for_each(|number| assert_eq!(render(&write(&mut client, number)), "OK"));
    check(&mut client, "> CONFIG SET rdbcompression no\nOK");
    rig.fill();
    check(&mut client, "> BGSAVE\nBackground saving started");
    eventually("the save ends", || client.info("rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("rdb_last_bgsave_status"), "err");
    assert!(leftovers(&rig.server).is_empty(), "{:?}", leftovers(&rig.server));
    let reply = render(&write(&mut client, 100));
    assert!(reply.starts_with("(error) MISCONF Redis is configured to save RDB"), "{reply}");
    assert!(has(&mut client, 99), "readers are served");
    let found = rig.successor(&["--save", ""]);
    check(&mut found.client(), "> DBSIZE\n(integer) 1");
    rig.free();
    check(&mut client, "> BGSAVE\nBackground saving started");
    eventually("the save ends", || client.info("rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    assert_eq!(render(&write(&mut client, 100)), "OK");
    let found = rig.successor(&["--save", ""]);
    check(&mut found.client(), "> DBSIZE\n(integer) 100");
}

#[test]
fn a_rewrite_that_finds_no_space_leaves_the_log_as_it_was() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let rig = Rig::start(&arguments);
    let mut client = rig.server.client();
    (0..100).for_each(|number| assert_eq!(render(&write(&mut client, number)), "OK"));
    check(&mut client, "> CONFIG SET rdbcompression no\nOK");
    rig.fill();
    client.call(&["BGREWRITEAOF"]);
    eventually("the rewrite ends", || client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_last_bgrewrite_status"), "err");
    assert!(leftovers(&rig.server).is_empty(), "{:?}", leftovers(&rig.server));
    let found = rig.successor(&arguments);
    check(&mut found.client(), "> DBSIZE\n(integer) 100");
    rig.resume(&mut client, 100);
    client.call(&["BGREWRITEAOF"]);
    eventually("the rewrite ends", || client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
    let found = rig.successor(&arguments);
    check(&mut found.client(), "> DBSIZE\n(integer) 101");
}

/// Half a script would be worse than one that cannot be kept.
#[test]
fn a_script_that_has_written_comes_to_its_end_though_the_log_fails() {
    const SCRIPT: &str = "redis.call('SET', KEYS[1], '1') local from = redis.call('TIME')[1] \
        repeat until redis.call('TIME')[1] - from > 1 \
        redis.call('SET', KEYS[2], '1') return 'done'";
    let arguments = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let rig = Rig::start(&[&arguments[..], &["--busy-reply-threshold", "50"]].concat());
    let (mut script, mut client) = (rig.server.client(), rig.server.client());
    assert_eq!(render(&client.call(&["SET", "from", "0"])), "OK");
    script.send(&["EVAL", SCRIPT, "2", "from", "to"]);
    eventually("it has the key", || render(&client.call(&["GET", "from"])).contains("BUSY"));
    let mut numbers = 0..10 * BALLAST / LENGTH;
    // A key that lies beside one of the script's is busy.
    let is_refused = |number| render(&write(&mut client, number)) == REFUSED;
    assert!(numbers.any(is_refused), "the disk is full");
    let reply = render(&script.receive());
    assert!(reply == "\"done\"" || reply.starts_with(UNSAFE), "{reply}");
    rig.resume(&mut client, 0);
    check(
        &mut client,
        "> EXISTS from to\n(integer) 2\n> WAITAOF 1 0 0\n1) (integer) 1\n2) (integer) 0",
    );
    let found = rig.successor(&arguments);
    check(&mut found.client(), "> GET from\n\"1\"\n> GET to\n\"1\"");
}
