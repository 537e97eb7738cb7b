//! What begins while a full sync waits for the world, which a script keeps from stopping: neither a
//! log nor a backup, a save or the last save of a process is of a part of the data.

use std::time::Duration;

use proto::value::Value;
use rustix::process::Signal;
use tests::folder::{copy_folder, with_log};
use tests::render::{render, text};
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Server, check};

/// Holds a key until `maxclients` is this.
const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";

/// The script has its key by then, on any machine that is not stopped.
const BEGINS_WITHIN: Duration = Duration::from_millis(100);

/// Keys of the primary.
const KEYS: i64 = 5000;

/// Ways to take data in that empty what is there first: by a file, and as they come.
const BY_FILE: &str = "disabled";
const AS_THEY_COME: &str = "flush-before-load";

/// A replica whose full sync has all but begun.
struct Rig {
    primary: Server,
    replica: Server,
    holder: Client,
    admin: Client,
}

impl Rig {
    fn start(load: &str) -> Self {
        let primary = NodeKind::Apus.start(&[]);
        check(&mut primary.client(), &format!("> DEBUG POPULATE {KEYS} key 50\nOK"));
        let replica = Server::start(&[
            "--save",
            "3600 1",
            "--appendonly",
            "no",
            "--repl-diskless-load",
            load,
            "--key-load-delay",
            "200",
            "--busy-reply-threshold",
            "600000",
        ]);
        let (mut admin, mut holder) = (replica.client(), replica.client());
        check(&mut admin, "> SET held x\nOK");
        // REPLICAOF itself takes the world, so the script comes behind it, and before the data.
        primary.signal(Signal::STOP);
        follow(&replica, primary.port());
        holder.send(&["EVAL_RO", HOLD, "1", "held"]);
        eventually("the script is there", || {
            text(&admin.call(&["CLIENT", "LIST"])).contains("cmd=eval_ro")
        });
        std::thread::sleep(BEGINS_WITHIN);
        primary.signal(Signal::CONT);
        replica.expect_log("Flushing old data");
        Self { primary, replica, holder, admin }
    }

    /// The world stops.
    fn let_go(&mut self) {
        check(&mut self.admin, "> CONFIG SET maxclients 4321\nOK");
        self.holder.receive();
    }

    /// How many keys a start finds, once this process is over.
    fn keys_of_next_start(mut self) -> i64 {
        eventually("the replica ends", || self.replica.has_ended());
        self.replica.restart();
        count_keys(&self.replica)
    }
}

fn count_keys(server: &Server) -> i64 {
    let reply = server.client().call(&["DBSIZE"]);
    let Value::Integer(count) = reply else { panic!("DBSIZE: {reply:?}") };
    count
}

#[test]
fn a_log_has_all_of_the_new_data() {
    for load in [BY_FILE, AS_THEY_COME] {
        let mut rig = Rig::start(load);
        check(&mut rig.admin, "> CONFIG SET appendonly yes\nOK");
        rig.let_go();
        await_replica(&rig.primary, &rig.replica);
        let admin = &mut rig.admin;
        eventually("the log has a base", || {
            admin.info("aof_rewrite_in_progress") == "0"
                && admin.info("aof_rewrite_scheduled") == "0"
                && admin.info("aof_enabled") == "1"
        });
        check(&mut rig.primary.client(), "> SET behind it\nOK");
        await_replica(&rig.primary, &rig.replica);
        eventually("the log has everything", || rig.admin.info("aof_buffer_length") == "0");
        rig.replica.kill();
        let again = Server::start_prepared(
            |folder| copy_folder(rig.replica.folder(), folder),
            &["--appendonly", "yes"],
        );
        assert_eq!(count_keys(&again), KEYS + 1, "{load}");
    }
}

#[test]
fn a_backup_of_other_data_ends() {
    for load in [BY_FILE, AS_THEY_COME] {
        let mut rig = Rig::start(load);
        check(&mut rig.admin, "> BACKUP START\nOK");
        rig.let_go();
        await_replica(&rig.primary, &rig.replica);
        let status = text(&rig.admin.call(&["INFO", "persistence"]));
        assert!(status.contains("backup_in_progress:0"), "{status}");
        check(&mut rig.admin, "> BACKUP SEAL\n(error) ERR No backup is in the incrementing state");
    }
}

/// Without a log a base is put in its place all the same, for a server that is to have one.
#[test]
fn a_base_without_a_log_is_not_of_a_part() {
    for load in [BY_FILE, AS_THEY_COME] {
        let mut rig = Rig::start(load);
        check(&mut rig.admin, "> BGREWRITEAOF\nBackground append only file rewriting started");
        rig.let_go();
        await_replica(&rig.primary, &rig.replica);
        eventually("the rewrite is over", || rig.admin.info("aof_rewrite_in_progress") == "0");
        assert_eq!(rig.admin.info("aof_last_bgrewrite_status"), "ok");
        let log = rig.replica.folder().join("appendonlydir");
        if !log.join("appendonly.aof.manifest").exists() {
            continue;
        }
        // The rewrite may have been faster than the full sync.
        let again = Server::start_prepared(with_log(log), &["--appendonly", "yes"]);
        assert_eq!(count_keys(&again), 1, "{load}");
    }
}

#[test]
fn a_save_is_refused_and_the_file_stays_whole() {
    for load in [BY_FILE, AS_THEY_COME] {
        let mut rig = Rig::start(load);
        let mut saver = rig.replica.client();
        saver.send(&["SAVE"]);
        eventually("the save waits", || rig.admin.info("rdb_bgsave_in_progress") == "1");
        rig.let_go();
        let reply = render(&saver.receive());
        await_replica(&rig.primary, &rig.replica);
        rig.replica.kill();
        let keys = match (load, &*reply) {
            (BY_FILE, _) => KEYS,
            (_, "(error) LOADING Redis is loading the dataset in memory") => 0,
            // The save may have been faster than the full sync.
            (_, "OK") => 1,
            _ => panic!("{reply}"),
        };
        assert_eq!(rig.keys_of_next_start(), keys, "{load}: {reply}");
    }
}

#[test]
fn an_end_leaves_the_file_whole() {
    for (load, keys) in [(BY_FILE, KEYS), (AS_THEY_COME, 0)] {
        let mut rig = Rig::start(load);
        rig.replica.signal(Signal::TERM);
        rig.replica.expect_log("Saving the final RDB snapshot before exiting.");
        rig.admin.send(&["CONFIG", "SET", "maxclients", "4321"]);
        let found = rig.keys_of_next_start();
        // The end may have been faster than the full sync.
        assert!([1, keys].contains(&found), "{load}: {found}");
    }
}
